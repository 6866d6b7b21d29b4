"""What a module call is nested in."""

import functools
import sys
import types

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from torch import nn  # noqa: E402

from gaptrace_collectors.beams import beams_on_stack  # noqa: E402
from gaptrace_collectors.enclosing import (  # noqa: E402
    enclosing_calls,
    holds_more,
    larger_module,
    variables,
)


class Seen(nn.Module):
    """Notes what encloses each of its calls."""

    def __init__(self):
        super().__init__()
        self.part = nn.Linear(8, 8)
        self.calls = []

    def forward(self, x):
        self.calls.append([(call.name, call.arguments()) for call in enclosing_calls(self)])
        return x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(32, 8)
        self.seen = Seen()

    def forward(self, x, *more, scale=1, **rest):
        return self.seen(x)

    @torch.no_grad()
    def decode(self, x):
        return self.forward(x, 2, scale=3, extra=4)


def test_methods_outermost_first_with_what_they_were_given():
    model = Model()
    model.decode(7)
    outer, inner = model.seen.calls[0]
    assert outer == ("Model.decode", ((7,), {}))
    assert inner == ("Model.forward", ((7, 2), {"scale": 3, "extra": 4}))


def other_forward(self, x):
    return self.seen(x)


@pytest.mark.parametrize("how", ["instance", "partial", "class"])
def test_a_forward_that_was_replaced_is_known_by_its_place(how):
    class Own(Model):
        pass

    model = Own()
    if how == "instance":
        model.forward = types.MethodType(other_forward, model)
    elif how == "partial":
        model.forward = functools.partial(other_forward, model)
    else:
        Own.forward = other_forward
    model.forward(1)
    assert [name for name, _ in model.seen.calls[0]] == ["Own.forward"]


def test_the_larger_module_is_the_one_with_more_weights():
    class Wrapper(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

    model = Model()
    wrapper = Wrapper(model)
    assert larger_module(model) is None  # the wrapper adds nothing
    assert larger_module(model.seen) is not None
    assert holds_more(wrapper, model.seen)  # the embedding is outside
    assert not holds_more(wrapper, model)


def test_a_head_outside_is_more_and_a_probe_is_not():
    class Holder(nn.Module):
        def __init__(self, rows):
            super().__init__()
            self.model = Model()
            self.model.wide = nn.Linear(64, 64)
            self.more = nn.Linear(8, rows)

    head, probe = Holder(32), Holder(2)
    assert holds_more(head, head.model)
    assert not holds_more(probe, probe.model)


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="frames keep no copy any more")
def test_variables_that_were_looked_at_are_not_kept_alive():
    class Kept:
        alive = 0

        def __init__(self):
            Kept.alive += 1

        def __del__(self):
            Kept.alive -= 1

    def loop():
        value = Kept()
        assert variables(sys._getframe())["value"] is value
        value = None
        return Kept.alive

    # The loop names _getframe itself, so its copy would stay: ask from outside.
    def asked(frame):
        return variables(frame)["value"]

    def quiet(ask):
        value = Kept()
        same = ask() is value
        value = None
        return same, Kept.alive

    assert quiet(lambda: asked(sys._getframe(1))) == (True, 0)
    assert loop() == 1


def test_the_width_of_a_search_is_found_in_variables():
    def beam_search(width):
        return beams_on_stack()

    def search(num_beams):
        return beam_search(3)

    def plain():
        return beams_on_stack()

    assert search(4) == (4, "num_beams of search()")
    assert beam_search(3) == (None, "beam_search")
    assert plain() == (1, "")
