"""Unlike runs are refused, other settings withhold only what they distort."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import pytest

from gaptrace.analysis import analyze
from gaptrace.compare.compare import FORCE, CompareOptions
from gaptrace.compare.facts import facts_of
from gaptrace.compare.likeness import likeness
from gaptrace.compare.side import Side
from gaptrace.errors import GaptraceError
from gaptrace.results.comparison import NOT_COMPARABLE, WITHHELD
from gaptrace.runs.compared import compare
from tests.builders import decode_events, decode_trace, events_json, trace_of
from tests.compare.recordings import LIGHT, recording

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
    **LIGHT,
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


HOST = {"host_dispatch", "idle", "idle_share"}
STEP = {"step_time", "tokens_per_s"}


@pytest.mark.parametrize(
    ("base", "cand", "words"),
    [
        ({"stacks": "yes"}, {}, "recorded with stacks on the baseline"),
        ({}, {"shapes": "yes"}, "recorded with shapes on the candidate"),
        ({"memory": "yes"}, {}, "recorded with memory on the baseline"),
        ({"stacks": None}, {}, "recorded with unknown settings on the baseline"),
        (
            {"stacks": "yes", "shapes": "yes"},
            {"shapes": "yes"},
            "recorded with stacks, shapes on the baseline, shapes on the candidate",
        ),
        # As much on both sides: by how much it slows either nobody knows.
        ({"stacks": "yes"}, {"stacks": "yes"}, "recorded with stacks on both sides"),
        ({"shapes": None}, {"stacks": None}, "recorded with unknown settings on both sides"),
    ],
)
def test_host_figures_are_not_compared_where_the_profiler_slowed_the_host(
    base: dict[str, str | None], cand: dict[str, str | None], words: str
) -> None:
    pair = compare([side(made(**base)), side(made(**cand))]).pairs[0]
    known = [row for row in pair.metrics if row.baseline.value is not None]
    refused = [row for row in known if row.verdict == NOT_COMPARABLE]
    assert {row.id for row in refused} == HOST | STEP
    assert {row.note for row in refused} == {words}
    assert all(row.change is row.interval is None for row in refused)
    assert pair.notes[0].startswith(f"{words}, which slows the host under the profiler: step time,")
    assert "--unprofiled-step" in pair.notes[0]
    assert "gaptrace collect" in pair.notes[0]
    assert pair.sentence.startswith(
        f"Not comparable as profiled: 102 ns → 102 ns per step; {words}"
    )
    assert pair.metric("busy").change == pair.metric("kernels").change == 0


def test_a_step_that_the_gpu_fills_is_compared_all_the_same() -> None:
    """The profiler slows the host, and a host that the GPU never waits for changes nothing."""
    slowed = {**LIGHT, "stacks": "yes"}
    left, right = (
        recording([ns + n for n in range(6)], busy=ns - 4, facts=slowed) for ns in (10_000, 11_000)
    )
    pair = compare([side(left), side(right)]).pairs[0]
    assert pair.verdict == "worse"
    assert {row.id for row in pair.metrics if row.verdict == NOT_COMPARABLE} == HOST
    assert pair.bridge is not None
    assert pair.bridge.comparable
    # Idle between graph nodes is the GPU's own, however long.
    for one in (left, right):
        one.steps["idle_graph_node_ns"][:] = one.steps["busy_gemm_ns"] // 2
        one.steps["busy_gemm_ns"][:] -= one.steps["idle_graph_node_ns"]
    assert compare([side(left), side(right)]).pairs[0].verdict == "worse"
    # Of withheld causes nobody knows whose they are.
    unknown = dataclasses.replace(left, withheld=frozenset({"causes"}))
    assert compare([side(unknown), side(right)]).pairs[0].verdict == NOT_COMPARABLE


def test_the_bridge_of_slowed_hosts_tells_busy_alone() -> None:
    found = compare([side(made(stacks="yes")), side(made())]).pairs[0].bridge
    assert found is not None
    assert not found.comparable
    assert [(part.kind, part.title) for part in found.parts] == [("idle", "idle, not comparable")]
    assert "only busy time can be compared" in found.notes[0]


def test_unprofiled_figures_are_not_distorted_by_the_profiler() -> None:
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
    assert facts["memory"] == "no"
    assert facts["batch"] is None
    assert facts["tokens_per_step"] is None


@pytest.mark.parametrize(
    ("header", "facts"),
    [
        ({}, ("no", "no", "no")),
        ({"with_stack": 1}, ("no", "yes", "no")),
        ({"record_shapes": 1, "profile_memory": 1}, ("yes", "no", "yes")),
    ],
)
def test_settings_of_a_bare_trace_are_those_of_its_header(
    header: dict[str, int], facts: tuple[str, str, str]
) -> None:
    found = facts_of(analyze(trace_of(*decode_events(), **header)))
    assert (found["shapes"], found["stacks"], found["memory"]) == facts


def test_a_file_without_the_profilers_header_does_not_say_how_it_was_recorded() -> None:
    from gaptrace.reading.loading import load

    events = json.loads(events_json(*decode_events(dims=[[1, 8], [8, 8]])))["traceEvents"]
    found = facts_of(analyze(load(json.dumps(events).encode())))
    assert (found["shapes"], found["stacks"], found["memory"]) == ("yes", None, None)
