"""Saved baselines: small, the same bytes again, and as good as the run they were saved from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from gaptrace.analysis import analyze
from gaptrace.compare.recording import LONGEST_NAME, Recording, UsedKernel, record
from gaptrace.compare.side import Side
from gaptrace.errors import GaptraceError
from gaptrace.measure.options import Options
from gaptrace.reading.loading import load
from gaptrace.results.codec import to_data
from gaptrace.runs.compared import compare
from gaptrace.runs.read import read_run
from gaptrace.runs.saved import MOST_STEPS, is_saved, load_saved, saved_text
from tests.builders import kernel, launch, mark, trace_of
from tests.compare.recordings import noisy, recording

if TYPE_CHECKING:
    from pathlib import Path

SAMPLES = ("eager", "compiled", "graph")


@pytest.fixture(scope="module")
def samples() -> dict[str, Recording]:
    return {
        mode: record(analyze(load(f"sample_traces/small_decoder_{mode}.json.gz")))
        for mode in SAMPLES
    }


def reread(path: Path, *recordings: Recording) -> tuple[Recording, ...]:
    path.write_text(saved_text("name", recordings), encoding="utf-8")
    return load_saved(path).recordings


def side(*recordings: Recording) -> Side:
    return Side("side", "path", recordings)


def test_comparing_with_a_saved_baseline_gives_the_same_numbers(
    tmp_path: Path, samples: dict[str, Recording]
) -> None:
    live = compare([side(samples["eager"]), side(samples["graph"])])
    (read,) = reread(tmp_path / "b.gaptrace.json", samples["eager"])
    saved = compare([side(read), side(samples["graph"])])
    one, two = to_data(live), to_data(saved)
    assert one == two
    assert one["pairs"][0]["bridge"]["parts"]


def test_a_baseline_of_fractional_tokens_is_read_again(tmp_path: Path) -> None:
    trace = load("sample_traces/small_decoder_eager.json.gz")
    made = record(analyze(trace, Options(tokens_per_step=1.5)))
    (read,) = reread(tmp_path / "b.gaptrace.json", made)
    assert read.kernel_tokens == made.kernel_tokens
    assert made.kernel_tokens % 1 == 0.5


def test_every_column_and_sample_survives(tmp_path: Path) -> None:
    (made,) = noisy(np.random.default_rng(0), runs=1, steps=30, period_ns=1e7)
    import dataclasses

    full = dataclasses.replace(
        made,
        mode="eager",
        unprofiled_ns=5,
        unprofiled_samples=np.array([4, 5, 6]),
        issue_ns=3,
        issue_samples=np.array([3, 3, 4]),
        peak_memory=12,
        withheld=frozenset({"causes"}),
        kernels=(UsedKernel("a“b", "aten::mm", "gemm", 3, 30, 10),),
        reasons=("why",),
    )
    (read,) = reread(tmp_path / "b.gaptrace.json", full)
    for item in dataclasses.fields(Recording):
        before, after = getattr(full, item.name), getattr(read, item.name)
        if item.name == "steps":
            assert all(np.array_equal(before[name], after[name]) for name in before)
        elif isinstance(before, np.ndarray):
            assert np.array_equal(before, after)
        elif item.name not in ("path", "run"):
            assert before == after, item.name


def test_the_same_run_gives_the_same_bytes(samples: dict[str, Recording]) -> None:
    again = record(analyze(load("sample_traces/small_decoder_eager.json.gz")))
    text = saved_text("name", [samples["eager"]])
    assert text == saved_text("name", [again])
    assert "sample_traces" not in text


def test_a_saved_run_is_small(tmp_path: Path, samples: dict[str, Recording]) -> None:
    every = [samples[mode] for mode in SAMPLES for _ in range(3)]
    assert len(saved_text("name", every)) < 60_000
    rng = np.random.default_rng(0)
    long = noisy(rng, runs=1, steps=5_000, period_ns=1e7)[0]
    text = saved_text("name", [long])
    assert len(text) < 100_000
    (read,) = reread(tmp_path / "b.gaptrace.json", long)
    assert read.steps["step"].size == MOST_STEPS
    assert (read.steps["step"][0], read.steps["step"][-1]) == (0, 4_999)
    assert read.complete == 5_000
    assert read.period_ns == pytest.approx(long.period_ns, rel=0.002)


def test_huge_names_are_cut_and_still_told_apart() -> None:
    names = [f"{'n' * 100_000}{end}" for end in "ab"]
    events = [mark("gaptrace.step#0", at=0, dur=5), mark("gaptrace.step#1", at=100, dur=5)]
    for place, name in enumerate(names):
        events += [
            launch(at=1 + 100 * place, dur=1, corr=place + 1),
            kernel(name, at=10 + 100 * place, dur=5, corr=place + 1),
        ]
    trace = trace_of(*events, mark("gaptrace.step#2", at=200, dur=5))
    kernels = record(analyze(trace)).kernels
    assert all(len(k.name) < LONGEST_NAME + 30 for k in kernels)
    assert len({k.name for k in kernels}) == len(kernels)


def test_files_are_known_by_what_they_say(tmp_path: Path) -> None:
    path = tmp_path / "x.gaptrace.json"
    path.write_text(saved_text("name", [recording([5] * 5)]), encoding="utf-8")
    assert is_saved(path)
    assert not is_saved("sample_traces/small_decoder_eager.json.gz")
    assert not is_saved(tmp_path / "absent")
    assert load_saved(path).name == "name"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "gaptrace.saved/2"}, "this version reads gaptrace.saved/1"),
        ({"schema": "other/1"}, "is no saved baseline"),
        ({"recordings": [{}]}, "damaged"),
        ({"recordings": 5}, "damaged"),
        ({"names": None}, "damaged"),
    ],
)
def test_what_cannot_be_read_is_said(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    data = json.loads(saved_text("name", [recording([5, 6, 7, 8, 9])]))
    path = tmp_path / "b.gaptrace.json"
    path.write_text(json.dumps({**data, **change}), encoding="utf-8")
    with pytest.raises(GaptraceError, match=message):
        load_saved(path)


def test_truncated_and_short_files_are_said(tmp_path: Path) -> None:
    path = tmp_path / "b.gaptrace.json"
    text = saved_text("name", [recording([5, 6, 7, 8, 9])])
    path.write_text(text[:300], encoding="utf-8")
    with pytest.raises(GaptraceError, match="no saved baseline"):
        load_saved(path)
    path.write_text(text.replace("[5,6,7,8,9]", "[5,6,7]"), encoding="utf-8")
    with pytest.raises(GaptraceError, match="has 3 of 5 steps"):
        load_saved(path)
    with pytest.raises(GaptraceError, match="cannot read"):
        load_saved(tmp_path / "absent")


def test_a_baseline_of_the_version_before_compares_with_a_new_run() -> None:
    """It lacks causes that are told apart since; those are 0, and the rest still sums."""
    old = load_saved("tests/data/before/bad_item.gaptrace.json").modes["eager"]
    run = read_run("sample_traces/bad_item", Options(), use_cache=False)
    baseline = Side("old", "old.gaptrace.json", old, saved=True)
    found = compare([baseline, Side.of(run.repeats("eager"), label="new")]).pairs[0]
    for name in ("step_time", "kernels", "launches", "busy"):
        row = found.metric(name)
        assert row.baseline.value == row.candidate.value, name
    assert found.verdict == "within noise"
    assert found.bridge is not None
    assert sum(part.baseline_ns for part in found.bridge.parts) == found.bridge.ends[0]
    assert (found.baseline.saved, found.candidate.saved) == (True, False)
