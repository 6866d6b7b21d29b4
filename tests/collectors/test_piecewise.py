"""Splitting a compiled graph into pieces: what is left outside, and that the result is the same."""

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from gaptrace_collectors.device import Device  # noqa: E402
from gaptrace_collectors.failure import ModeFailureError  # noqa: E402
from gaptrace_collectors.piecewise import Pieces, op_matches, op_name  # noqa: E402
from tests.collectors.conftest import QUICK, WORKLOADS  # noqa: E402


class Net(torch.nn.Module):
    """Two places to split at, one of them returning two tensors."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.last = torch.nn.Linear(8, 8)

    def forward(self, x):
        x = torch.relu(self.first(x)) + 1
        values, where = torch.sort(x)
        x = values * 2 + where
        return torch.tanh(self.last(x))


def split(*names: str) -> tuple[Pieces, torch.Tensor, torch.Tensor]:
    """The pieces that Net falls into, what it returns in pieces, and what it returned before."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    device = Device()
    device.begin(torch.device("cpu"))
    net, pieces, x = Net().eval(), Pieces(device, names), torch.randn(3, 8)
    with torch.no_grad():
        expected = net(x)
        net.compile(backend=pieces)
        return pieces, net(x), expected


def test_an_operator_stays_outside_with_what_unpacks_its_results():
    pieces, out, expected = split("sort")
    assert [seam.op for seam in pieces.seams] == ["sort"]
    assert [seam.after_piece for seam in pieces.seams] == [0]
    assert pieces.seams[0].where.endswith(f"{__file__.rpartition('/')[2]}:24")
    assert len(pieces.pieces) == 2
    torch.testing.assert_close(out, expected)


def test_every_named_operator_is_a_seam_and_nothing_else():
    pieces, out, expected = split("sort", "tanh")
    assert [seam.op for seam in pieces.seams] == ["sort", "tanh"]
    assert len(pieces.pieces) == 2  # nothing is left behind the last one
    torch.testing.assert_close(out, expected)


def test_neighbours_share_a_seam():
    pieces, out, expected = split("relu", "linear")
    assert [seam.op for seam in pieces.seams] == ["linear", "relu", "linear"]
    assert [seam.after_piece for seam in pieces.seams] == [-1, -1, 0]
    assert len(pieces.pieces) == 2
    torch.testing.assert_close(out, expected)


def test_without_such_an_operator_there_is_one_piece_and_a_note():
    pieces, out, expected = split()
    section = pieces.section()
    assert (section["pieces"], section["seams"]) == (1, [])
    assert "no operator of the compiled graph is called scaled_dot_product" in section["note"]
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("name", ["mm", "aten::mm", "aten.mm"])
def test_operators_are_named_with_or_without_their_space(name):
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    node = graph.call_function(torch.ops.aten.mm.default, (x, x))
    assert op_name(node) == "mm"
    assert op_matches(node, [name])
    assert not op_matches(node, ["other::mm", "bmm"])
    assert not op_matches(x, ["x"])


def test_a_captured_piece_refuses_an_input_that_moved(monkeypatch):
    """With a graph that does nothing in place of CUDA's: what is copied, what is checked."""
    from gaptrace_collectors import piecewise

    pieces, _, _ = split("sort")
    piece = pieces.pieces[1]
    held, given, state = torch.zeros(2), torch.ones(2), torch.full((2,), 5.0)
    replays = []

    class Graph:
        def replay(self):
            replays.append(held.clone())

    piece._graph = Graph()
    piece._out = "static"
    piece._used = [
        piecewise._Input(0, "attended", held, copied=True, checked=False),
        piecewise._Input(1, "k_cache", state, copied=False, checked=True),
    ]
    assert piece(given, state) == "static"
    assert torch.equal(replays[0], given)
    with pytest.raises(ModeFailureError) as failed:
        piece(given, state.clone())
    assert failed.value.failure.kind == "moved_input"
    assert failed.value.failure.evidence[0].what == "k_cache"
    assert len(replays) == 1


ATTENDING = """
import torch
from torch import nn
from torch.nn import functional as F

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(16, 8)
        self.out = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        self.head = nn.Linear(8, 16)
        self.register_buffer("cache", torch.randn(1, 1, 12, 8))

    def forward(self, ids):
        x = self.embed(ids)[:, None]
        for out in self.out:
            x = x + out(F.scaled_dot_product_attention(x, self.cache, self.cache))
        return self.head(x[:, 0])

def build():
    torch.manual_seed(1)
    model = Model().eval()
    token = torch.zeros(1, 1, dtype=torch.long)

    def step():
        logits = model(token)
        token.copy_(logits.argmax(-1))
        return logits

    step.model = model
    step.reset = lambda: token.zero_()
    return step
"""


def test_a_step_is_recorded_in_pieces(bench):
    done = bench.collect("--modes", "eager,piecewise", *QUICK, bench.script(ATTENDING))
    assert done.code == 0, done.stderr
    run = done.run("piecewise")
    made = run["piecewise"]
    assert run["status"] == "ok"
    assert (made["pieces"], made["graphs"], made["captured"]) == (3, 1, 0)
    assert [seam["op"] for seam in made["seams"]] == ["scaled_dot_product_attention"] * 2
    assert "compiled, but not captured" in made["note"]
    assert run["outputs"]["status"] in ("equal", "close")
    assert run["outputs"]["rel_l2"] < 1e-5
    assert run["compile"]["graph_breaks"] == []
    assert done.run("eager")["piecewise"] is None
    assert len(done.marks("piecewise")) == 6


def test_a_buckets_section_holds_its_own_pieces_only():
    from gaptrace_collectors.buckets import Buckets

    torch._dynamo.reset()
    device = Device()
    device.begin(torch.device("cpu"))
    buckets = Buckets((4, 8), "step.pad_to")
    pieces = Pieces(device, ("sort",), buckets)
    net = Net().eval()
    net.compile(backend=pieces, dynamic=False)
    with torch.no_grad():
        for size in (8, 4):
            buckets.current = size
            net(torch.randn(size, 8))
    assert len(pieces.pieces) == 4
    for size in (4, 8):
        section = pieces.section(size)
        assert (section["pieces"], section["graphs"]) == (2, 1)
        assert [seam["after_piece"] for seam in section["seams"]] == [0]
    assert pieces.section()["graphs"] == 2


@pytest.mark.slow
def test_the_hybrid_computes_the_same_in_pieces(bench):
    """Four layers, the last of them with attention: two pieces; fp32, so that equal is equal."""
    pytest.importorskip("transformers")
    words = ("--modes", "eager,piecewise", *QUICK, WORKLOADS / "hybrid.py", "--tiny", "--float32")
    done = bench.collect(*words)
    assert done.code == 0, done.stderr
    run = done.run("piecewise")
    assert run["piecewise"]["pieces"] == 2
    assert run["outputs"]["rel_l2"] < 1e-4
    assert run["outputs"]["argmax_equal"] is True
    assert run["outputs"]["steps_compared"] >= 5
