"""Only until the decode step is found does every module call pass through the recorder."""

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from torch import nn  # noqa: E402

from gaptrace_collectors.discover import Discovery, wrap  # noqa: E402
from gaptrace_collectors.script_compiles import compiled_by_script  # noqa: E402

ORIGINAL = nn.Module.__call__


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(8, 4)
        self.head = nn.Linear(4, 8)

    def forward(self, ids):
        return self.head(self.embed(ids))


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, ids):
        return self.inner(ids)


@pytest.fixture
def discovery():
    found = []
    watching = Discovery(found.append, found.append)
    watching.found = found
    watching.install()
    yield watching
    watching.remove()
    assert nn.Module.__call__ is ORIGINAL


def ids(*shape):
    return torch.zeros(*shape, dtype=torch.long)


def test_the_outermost_module_is_found_at_its_first_decode_call(discovery):
    model = Outer().eval()
    with torch.no_grad():
        model(ids(2, 5))
        assert discovery.found == []
        assert discovery.prefill_calls == 1
        model(ids(2, 1))
    found = discovery.found[0]
    assert found.module is model
    assert found.method == "__call__"
    assert (found.call.sequences, found.call.length) == (2, 1)
    assert nn.Module.__call__ is ORIGINAL


def test_training_calls_and_single_layers_are_passed_over(discovery):
    nn.Embedding(8, 4).eval()(ids(1, 1))
    Outer()(ids(1, 1))  # training mode, gradients on
    assert discovery.found == []


def test_the_explanation_names_what_was_seen(discovery):
    model = Outer().eval()
    with torch.no_grad():
        model(ids(1, 5))
        model(ids(1, 7))
    assert "Outer: 1 x 5 tokens (1 calls)" in discovery.explanation()


def test_an_exception_inside_the_model_leaves_the_watch_intact(discovery):
    model = Outer().eval()
    with torch.no_grad(), pytest.raises(IndexError):
        model(ids(1, 3) + 100)
    with torch.no_grad():
        model(ids(1, 1))
    assert discovery.found[0].module is model


def test_a_wrapper_on_one_object_is_all_that_stays():
    model, other = Outer().eval(), Outer().eval()
    calls = []

    def wrapper(*args):
        calls.append(args)
        return model._call_impl(*args)

    wrap(model, wrapper)
    with torch.no_grad():
        out = model(ids(1, 1))
        other(ids(1, 1))
    assert out.shape == (1, 1, 8)
    assert len(calls) == 1


def test_a_script_that_compiles_by_itself_is_recognised():
    model = Outer().eval()
    assert compiled_by_script(model) == ""
    assert compiled_by_script(torch.compile(model, backend="eager")) == "torch.compile(model)"
    other = Outer()
    other.inner.compile(backend="eager")
    assert compiled_by_script(other) == "compile() on a submodule"
    other = Outer()
    other.forward = torch.compile(other.forward, backend="eager")
    assert compiled_by_script(other) == "torch.compile(model.forward)"
