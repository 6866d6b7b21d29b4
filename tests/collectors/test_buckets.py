"""Buckets: which one a step uses, what is padded, and one recording per bucket."""

import json

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from gaptrace_collectors.buckets import (  # noqa: E402
    Buckets,
    GrowingInputs,
    medians_by_bucket,
    padded_step,
)
from gaptrace_collectors.failure import ModeFailureError  # noqa: E402
from tests.collectors.conftest import QUICK  # noqa: E402


def test_a_step_takes_the_smallest_bucket_that_holds_it():
    buckets = Buckets((16, 32), "step.pad_to")
    assert [buckets.enter(length) for length in (1, 16, 17, 32)] == [16, 16, 32, 32]
    with pytest.raises(ModeFailureError) as failed:
        buckets.enter(33)
    assert failed.value.failure.kind == "bucket_too_small"
    assert "33 positions, the largest bucket holds 32" in failed.value.failure.reason
    buckets.exact = True
    assert buckets.enter(5) == 5
    assert [buckets.below(size) for size in (16, 32)] == [0, 16]


def test_uses_are_runs_of_steps_and_padding_is_what_is_not_filled():
    buckets = Buckets((16, 32), "step.pad_to", phase="timed before")
    for length in (13, 14, 15, 16, 17, 18):
        buckets.enter(length)
    buckets.phase = "profiled"
    buckets.enter(19)
    section = buckets.section(None, {16: 5, 32: 7})
    assert section["steps"] == [
        {"phase": "timed before", "lengths": [13, 16], "bucket": 16, "steps": 4},
        {"phase": "timed before", "lengths": [17, 18], "bucket": 32, "steps": 2},
        {"phase": "profiled", "lengths": [19, 19], "bucket": 32, "steps": 1},
    ]
    # Of 16 positions 14.5 are filled in the mean, four times; of 32 17.5, twice.
    assert section["padding_share"] == pytest.approx(1 - (4 * 14.5 / 16 + 2 * 17.5 / 32) / 6, 1e-5)
    assert section["median_ns"] == {"16": 5, "32": 7}
    assert buckets.section(32, {})["padding_share"] == pytest.approx(1 - 17.5 / 32, 1e-5)


def test_an_explicit_step_is_padded_only_when_its_bucket_changes():
    padded_to, calls = [], []

    def step():
        calls.append(len(padded_to))

    step.pad_to = padded_to.append
    buckets = Buckets((2, 4), "step.pad_to")
    call = padded_step(step, step, buckets)
    for _ in range(4):
        call()
    assert (padded_to, len(calls), buckets.next_length) == ([2, 4], 4, 5)
    buckets.next_length, buckets.exact = 2, True
    call()
    assert padded_to == [2, 4, 2]


def growing(length):
    """The arguments of a call at this length: a mask by name, a history by position."""
    return (torch.ones(1, length, dtype=torch.long), torch.zeros(1, 1)), {
        "mask": {"full": torch.ones(1, 1, length, dtype=torch.bool)},
        "bias": torch.zeros(length, 3),
    }


def test_what_grows_is_found_and_padded():
    seen, plain = [], []
    buckets = Buckets((8, 16), "growing inputs")

    def shapes(*args, **kwargs):
        seen.append((args, kwargs))

    call = GrowingInputs(lambda *args, **kwargs: plain.append(args), buckets).padded(shapes)
    for length in range(3, 10):
        args, kwargs = growing(length)
        call(*args, **kwargs)
    assert len(plain) == 3  # observed, as they came
    assert buckets.padded == ["arg0 dimension 1", "mask['full'] dimension 2", "bias dimension 0"]
    (history, same), kwargs = seen[0]
    assert history.tolist() == [[1] * 6 + [0] * 2]
    assert same.shape == (1, 1)
    assert kwargs["mask"]["full"].tolist() == [[[True] * 6 + [False] * 2]]
    assert kwargs["bias"].shape == (8, 3)
    assert bool((kwargs["bias"][6:] == torch.finfo(torch.float32).min).all())
    assert [len(args[0][0]) for args, _ in seen] == [8, 8, 8, 16]


def test_where_nothing_grows_there_is_nothing_to_pad():
    call = GrowingInputs(lambda x: x, Buckets((8,), "growing inputs")).padded(lambda x: x)
    for _ in range(3):
        call(torch.zeros(2, 1))
    with pytest.raises(ModeFailureError) as failed:
        call(torch.zeros(2, 1))
    assert failed.value.failure.kind == "nothing_to_pad"
    assert failed.value.failure.evidence[0].detail == "always [2, 1]"


def test_medians_are_by_bucket():
    assert medians_by_bucket([5, 9, 6, 7], [16, 32, 16, None]) == {16: 5, 32: 9}


STEP = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(16, 8)
        self.head = nn.Linear(8, 16)
        self.register_buffer("cache", torch.zeros(64, 8))
        self.register_buffer("positions", torch.arange(64))

    def forward(self, ids, pos, n: int):
        x = self.embed(ids)[:, 0]
        self.cache.index_copy_(0, pos, x)
        seen = (self.positions[:n] <= pos)[:, None]
        return self.head(x + (self.cache[:n] * seen).sum(0, keepdim=True))

def build():
    torch.manual_seed(1)
    model = Model().eval()
    token = torch.zeros(1, 1, dtype=torch.long)
    pos = torch.zeros(1, dtype=torch.long)
    size = [64]

    def step():
        logits = model(token, pos, size[0])
        token.copy_(logits.argmax(-1)[None])
        pos.add_(1)
        return logits

    def reset():
        token.zero_()
        pos.zero_()

    step.model = model
    step.reset = reset
    step.seek = lambda n: pos.fill_(n - 1)
    step.pad_to = lambda n: size.__setitem__(0, n)
    step.kv_bytes = lambda: 32 * size[0]
    return step
"""


@pytest.fixture(scope="module")
def swept(shared_bench):
    return shared_bench.collect(
        *("--modes", "eager,compiled", "--buckets", "24,48", *QUICK), shared_bench.script(STEP)
    )


def test_each_bucket_is_a_recording_of_its_own(swept):
    assert swept.code == 0, swept.stderr
    found = sorted(
        path.parent.relative_to(swept.root).as_posix() for path in swept.root.rglob("run.json")
    )
    assert found == [f"length-{n}/{mode}/1" for n in (24, 48) for mode in ("compiled", "eager")]
    index = json.loads((swept.root / "collect.json").read_text())
    assert index["buckets"] == [24, 48]
    assert {cell["path"] for cell in index["cells"]} == set(found)
    assert not list(swept.root.rglob("*.partial"))


@pytest.mark.parametrize("size", [24, 48])
def test_a_bucket_is_measured_in_the_steps_just_below_it(swept, size):
    run = swept.run(f"length-{size}/compiled")
    made = run["buckets"]
    assert run["point"] == {"batch": None, "length": size}
    assert made["this"] == size
    assert run["profiled"]["lengths"] == list(range(size - 5, size))
    assert {step["bucket"] for step in made["steps"]} == {size}
    assert all(step["lengths"][1] <= size for step in made["steps"])
    assert run["bytes"]["kv_read_per_step"] == 32 * size
    assert list(made["median_ns"]) == [str(size)]
    assert 0 < made["padding_share"] < 0.2


def test_preparing_is_counted_bucket_by_bucket_the_largest_first(swept):
    run = swept.run("length-24/compiled")
    large, small = run["buckets"]["prepared"]
    assert (large["size"], small["size"]) == (48, 24)
    assert large["compile_seconds"] > 0
    assert small["compile_seconds"] > 0
    assert run["compile"]["frames"] == 2  # one graph per bucket, none with a symbolic length
    assert run["compile"]["recompiles_while_measured"] == 0
    assert run["startup"]["ready_ns"] >= large["first_call_ns"] + small["first_call_ns"]


def test_padded_steps_compute_what_the_unpadded_ones_did(swept):
    for size in (24, 48):
        outputs = swept.run(f"length-{size}/compiled")["outputs"]
        assert outputs["status"] in ("equal", "close")
        assert outputs["steps_compared"] == 8


def test_a_step_that_cannot_be_padded_is_refused_with_what_it_needs(bench):
    script = bench.script(STEP.replace("step.seek = lambda n: pos.fill_(n - 1)", ""))
    done = bench.collect("--modes", "eager", "--buckets", "24", *QUICK, script)
    assert done.code == 125
    assert "the step cannot be padded" in done.stderr
    assert "step.seek(n) and step.pad_to(n)" in done.stderr


SCRIPT = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(16, 8)
        self.head = nn.Linear(8, 16)

    def forward(self, ids, mask):
        return self.head(self.embed(ids) * mask.sum().float().sqrt())

torch.manual_seed(0)
model = Model().eval()
with torch.no_grad():
    token = model(torch.arange(4)[None], torch.ones(1, 4, dtype=torch.bool))[:, -1:].argmax(-1)
    for n in range(5, 85):
        token = model(token, torch.ones(1, n, dtype=torch.bool))[:, -1:].argmax(-1)
"""


def test_an_unmodified_script_is_padded_where_its_inputs_grow(bench):
    done = bench.collect(
        *("--modes", "eager,compiled", "--buckets", "16,40,90", "--stop-when-done", *QUICK),
        bench.script(SCRIPT),
    )
    assert done.code == 0, done.stderr
    run = done.run("compiled")
    made = run["buckets"]
    assert run["point"] is None
    assert made["this"] is None
    assert made["padded"] == ["arg1 dimension 1"]
    assert {step["bucket"] for step in made["steps"]} >= {40}
    assert run["outputs"]["status"] in ("equal", "close")
    assert len(run["compile"]["recompiles"]) <= 2  # one graph per bucket, not one per length
