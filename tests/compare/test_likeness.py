"""Unlike runs are refused, other settings withhold only what they distort."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gaptrace.analysis import analyze
from gaptrace.compare.compare import FORCE, CompareOptions
from gaptrace.compare.facts import facts_of
from gaptrace.compare.likeness import likeness
from gaptrace.compare.side import Side
from gaptrace.errors import GaptraceError
from gaptrace.results.comparison import WITHHELD
from gaptrace.runs.compared import compare
from tests.builders import decode_trace
from tests.compare.recordings import recording

if TYPE_CHECKING:
    from gaptrace.compare.recording import Recording

FACTS: dict[str, str | None] = {
    "gpu": "NVIDIA H200",
    "model": "small decoder",
    "weights": "2000000000",
    "dtype": "bfloat16",
    "batch": "1",
    "tokens_per_step": "1",
    "torch": "2.11.0",
    "shapes": "no",
    "stacks": "no",
}


def made(rule: str = "gaptrace marks", **facts: str | None) -> Recording:
    return recording([100, 101, 102, 103, 104, 105], facts={**FACTS, **facts}, rule=rule)


def side(one: Recording, label: str = "side") -> Side:
    return Side(label, "made/up.json", (one,))


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("gpu", "NVIDIA A100", "GPU: NVIDIA H200 against NVIDIA A100"),
        ("model", "large decoder", "model: small decoder against large decoder"),
        ("dtype", "float32", "dtype: bfloat16 against float32"),
        ("batch", "8", "batch: 1 against 8"),
        ("tokens_per_step", "4", "tokens per step: 1 against 4"),
        ("weights", "4000000000", "bytes of weights: 2000000000 against 4000000000"),
    ],
)
def test_unlike_runs_are_refused_and_bannered_when_forced(key: str, value: str, words: str) -> None:
    sides = [side(made(), "base"), side(made(**{key: value}), "cand")]
    with pytest.raises(GaptraceError, match="base and cand are not alike") as refused:
        compare(sides)
    assert words in refused.value.message
    assert "--force" in refused.value.hint
    forced = compare(sides, CompareOptions(unlike=FORCE))
    assert forced.forced
    assert forced.pairs[0].banner == (words,)
    assert not compare([sides[0], sides[0]]).forced


def test_what_one_side_does_not_know_is_a_note() -> None:
    found = likeness([made()], [made(gpu=None, dtype=None)])
    assert found.unlike == ()
    assert found.notes == ("known on one side only, so taken to be the same: GPU, dtype",)


def test_what_neither_side_knows_is_nothing() -> None:
    found = likeness([made(model=None)], [made(model=None)])
    assert (found.unlike, found.notes) == ((), ())


def test_another_torch_is_a_note() -> None:
    found = likeness([made()], [made(torch="2.12.0")])
    assert (found.unlike, found.notes) == ((), ("torch differs: 2.11.0 against 2.12.0",))


def test_other_bytes_of_weights_follow_from_another_dtype() -> None:
    found = likeness([made()], [made(dtype="int4 (packed)", weights="500000000")])
    assert found.unlike == ("dtype: bfloat16 against int4 (packed)",)


@pytest.mark.parametrize(
    ("setting", "withheld"),
    [
        ("shapes", {"host_dispatch"}),
        ("stacks", {"host_dispatch", "step_time", "tokens_per_s", "idle", "idle_share"}),
    ],
)
def test_profiler_settings_withhold_only_what_they_distort(
    setting: str, withheld: set[str]
) -> None:
    pair = compare([side(made(**{setting: "yes"})), side(made())]).pairs[0]
    known = [row for row in pair.metrics if row.baseline.value is not None]
    assert {row.id for row in known if row.verdict == WITHHELD} == withheld
    assert any("were recorded on the baseline only" in note for note in pair.notes)
    assert all(row.change is None for row in known if row.verdict == WITHHELD)
    assert pair.bridge is not None


def test_unprofiled_figures_are_not_distorted_by_the_profiler() -> None:
    import dataclasses

    def timed(one: Recording) -> Recording:
        return dataclasses.replace(one, unprofiled_ns=90, issue_ns=80)

    pair = compare([side(timed(made(stacks="yes"))), side(timed(made()))]).pairs[0]
    rows = {row.id: row for row in pair.metrics}
    assert rows["step_time"].source == "unprofiled"
    assert rows["step_time"].change == 0
    assert rows["step_time"].as_profiled == (102, 102)
    assert rows["host_dispatch"].change == 0


def test_steps_found_in_different_ways_are_not_judged() -> None:
    pair = compare([side(made("repeating kernels")), side(made("compiled regions"))]).pairs[0]
    known = [row for row in pair.metrics if row.baseline.value is not None]
    assert {row.verdict for row in known} == {WITHHELD}
    assert any("--step" in note for note in pair.notes)
    assert pair.sentence.startswith("Not judged")
    marked = compare([side(made("ProfilerStep")), side(made("gaptrace marks"))]).pairs[0]
    assert marked.metric("busy").change == 0


def test_facts_of_a_bare_trace() -> None:
    shaped = decode_trace(steps=6, dims=[[1, 8], [8, 8]])
    facts = facts_of(analyze(shaped))
    assert facts["shapes"] == "yes"
    assert facts["stacks"] == "no"
    assert facts["batch"] is None
    assert facts["tokens_per_step"] is None
