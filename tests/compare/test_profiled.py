"""What the profiler hides: planted regressions, steps that were given or predicted instead."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaptrace.analysis import analyze
from gaptrace.cli.compare import compare as compare_command
from gaptrace.compare.bridge import build_bridge
from gaptrace.compare.figures import sources
from gaptrace.compare.gates import parse_gate
from gaptrace.compare.recording import record
from gaptrace.compare.side import Side
from gaptrace.document.blocks import Bars, Detail, Table, blocks_of
from gaptrace.document.build import document
from gaptrace.document.sections import Context
from gaptrace.quantity import PREDICTED as PREDICTED_BASIS
from gaptrace.quantity import RANGE, Quantity
from gaptrace.results.comparison import (
    GIVEN,
    HELD,
    NOT_COMPARABLE,
    NOT_JUDGED,
    OVERLAP,
    PREDICTED,
    PROFILED,
    RANGES,
    TRIPPED,
    UNPROFILED,
)
from gaptrace.runs.compared import compare, compared
from tests.builders import decode_events, decode_trace, events_json, frame
from tests.compare.recordings import recording
from tests.compare.test_bridge import assert_exact
from tests.compare.test_compare_cli import run

if TYPE_CHECKING:
    from pathlib import Path

    from gaptrace.compare.recording import Recording

SLOWED: dict[str, str | None] = {"stacks": "yes"}
PERIOD = 50_000_000


def side(*runs: Recording, label: str = "side") -> Side:
    return Side(label, f"x/{label}", runs)


def slowed(period: int = PERIOD, *, busy: int = 10_000_000, **rest: Any) -> Recording:
    """Six steps that the profiler's stacks made as long as they are."""
    return recording([period + n for n in range(6)], busy=busy, facts=SLOWED, **rest)


def predicted(step: int, low: int, high: int, **rest: Any) -> Recording:
    return slowed(predicted_ns=step, predicted_range=(low, high), **rest)


def drawn(folder: Path, name: str, *, gap_ns: int, **header: int) -> Path:
    """Ten steps of eight kernels whose host takes `gap_ns` from kernel to kernel, as a file."""
    events = decode_events(
        steps=10, kernels=8, kernel_ns=2_000, gap_ns=gap_ns, op_ns=gap_ns // 3, between_ns=gap_ns
    )
    if header.get("with_stack"):
        begin = min(int(item["ts"]) for item in events if item["cat"] == "cpu_op")
        events.append(frame("model.py(1): forward", at=begin, dur=1_000, id=1))
    path = folder / f"{name}.json"
    path.write_bytes(events_json(*events, **header))
    return path


FORMATS = (".txt", ".md", ".html", ".json")


@pytest.fixture
def planted(tmp_path: Path) -> dict[str, Path]:
    """A host that takes 30 µs a launch, then 33; stacks make the first as slow as the second."""
    return {
        "base": drawn(tmp_path, "base", gap_ns=30_000),
        "slower": drawn(tmp_path, "slower", gap_ns=33_000),
        "base_stacks": drawn(tmp_path, "base_stacks", gap_ns=33_000, with_stack=1),
        "slower_stacks": drawn(tmp_path, "slower_stacks", gap_ns=60_000, with_stack=1),
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [("base_stacks", "slower"), ("base", "slower_stacks"), ("base_stacks", "slower_stacks")],
)
def test_a_planted_host_regression_is_never_within_noise_where_stacks_were_recorded(
    planted: dict[str, Path], tmp_path: Path, before: str, after: str
) -> None:
    """The true hosts are 10 % apart; as profiled steps are equal, or nearly twice as long."""
    files = [tmp_path / f"out{ending}" for ending in FORMATS]
    gate = ("--fail-on", "tokens_per_s:5%", "--strict")
    asked = [word for file in files for word in ("-o", file)]
    result = run(compare_command, planted[before], planted[after], *asked, *gate)
    assert result.return_value == 2, result.stderr
    assert "not judged" in result.stderr
    for text in (result.stdout, *(file.read_text() for file in files[:3])):
        assert "Not comparable as profiled" in text
        assert "No change beyond noise" not in text
    found = json.loads(files[3].read_text())
    (pair,) = found["pairs"]
    verdicts = {row["id"]: row["verdict"] for row in pair["metrics"]}
    host = ("step_time", "tokens_per_s", "idle", "idle_share", "host_dispatch")
    assert {verdicts[name] for name in host} == {NOT_COMPARABLE} == {pair["verdict"]}
    assert {verdicts[name] for name in ("kernels", "launches", "busy")} == {"within noise"}
    assert "within noise" not in found["sentence"]


def test_without_stacks_the_planted_regression_is_found(planted: dict[str, Path]) -> None:
    result = run(compare_command, planted["base"], planted["slower"], "--fail-on", "idle:5%")
    assert result.return_value == 1
    assert result.stdout.startswith("Worse: 286 µs → 313 µs per step")


def test_measured_steps_tell_what_the_profiler_hid() -> None:
    """Two steps that are alike as profiled, and 11 % apart without the profiler."""
    left, right = (
        slowed(PERIOD + extra, unprofiled_ns=step, given=True)
        for extra, step in ((0, 25_200_000), (200_000, 22_400_000))
    )
    found = compare([side(left), side(right)])
    step = found.pairs[0].metric("step_time")
    assert (step.source, step.verdict, step.change) == (GIVEN, "better", -2_800_000)
    assert step.as_profiled == (PERIOD + 2, PERIOD + 200_002)
    assert found.sentence.startswith("Better: 25.2 ms → 22.4 ms per step (given), −11 %")
    idle = found.pairs[0].metric("idle")
    assert (idle.baseline.value, idle.candidate.value) == (15_200_000, 12_400_000)
    assert "given step time" in found.pairs[0].notes[0]
    # Issue times are not given with the step.
    assert found.pairs[0].metric("host_dispatch").verdict == NOT_COMPARABLE
    bridge = found.pairs[0].bridge
    assert bridge is not None
    assert (bridge.source, bridge.ends) == (GIVEN, (25_200_000, 22_400_000))


def test_a_given_step_scatters_as_the_traced_one_does() -> None:
    rough = recording(
        [80, 150, 90, 120, 100, 110], facts=SLOWED, unprofiled_ns=50, given=True, busy=10
    )
    close = dataclasses.replace(rough, unprofiled_ns=51)
    assert compare([side(rough), side(close)]).pairs[0].verdict == "within noise"


def test_one_measured_side_is_not_enough() -> None:
    found = compare([side(slowed(unprofiled_ns=25_000_000)), side(slowed())]).pairs[0]
    assert found.verdict == NOT_COMPARABLE


@pytest.mark.parametrize(
    ("left", "right", "verdict", "ratio"),
    [
        (predicted(25, 22, 28), predicted(33, 30, 36), "worse", (30 / 28 - 1, 36 / 22 - 1)),
        (predicted(25, 22, 28), predicted(18, 15, 21), "better", (15 / 28 - 1, 21 / 22 - 1)),
        (predicted(25, 22, 28), predicted(28, 28, 30), OVERLAP, (0, 30 / 22 - 1)),
        # A measured step has no range.
        (slowed(unprofiled_ns=25), predicted(28, 26, 30), "worse", (26 / 25 - 1, 30 / 25 - 1)),
        (slowed(unprofiled_ns=25), predicted(28, 25, 30), OVERLAP, (0, 30 / 25 - 1)),
    ],
)
def test_predicted_steps_are_judged_where_their_ranges_are_apart(
    left: Recording, right: Recording, verdict: str, ratio: tuple[float, float]
) -> None:
    both = []
    for one in (left, right):
        one.steps["busy_gemm_ns"][:] = 5
        both.append(one)
    pair = compare([side(both[0]), side(both[1])]).pairs[0]
    step = pair.metric("step_time")
    assert (step.source, step.verdict, step.basis) == (PREDICTED, verdict, RANGES)
    assert step.interval_ratio == pytest.approx(ratio)
    assert step.baseline.low is not None
    assert (step.p, step.as_profiled) == (None, (PERIOD + 2, PERIOD + 2))
    rate = pair.metric("tokens_per_s")
    assert rate.verdict == verdict
    assert rate.baseline.low == 1e9 / step.baseline.high  # type: ignore[operator]
    assert pair.metric("idle").baseline.low == step.baseline.low - 5
    assert pair.metric("host_dispatch").verdict == NOT_COMPARABLE


def test_what_is_predicted_is_never_called_measured_or_within_noise() -> None:
    left, right = predicted(25, 22, 28, busy=5), predicted(27, 24, 30, busy=5)
    found = compare([side(left, label="a"), side(right, label="b")])
    assert found.sentence == (
        "Not judged: 25.0 ns → 27.0 ns per step (predicted), +8.0 %; predicted ranges overlap; "
        "+2.00 ns idle; most of the idle that came was op dispatch (estimate)."
    )
    apart = compare([side(left), side(predicted(33, 30, 36, busy=5))])
    assert apart.sentence.startswith(
        "Worse: 25.0 ns → 33.0 ns per step (predicted), +32 %, predicted ranges are apart"
    )
    for detail in Detail:
        whole = document(found, Context(detail))
        metrics = next(x for x in blocks_of(whole) if isinstance(x, Table) and x.id == "metrics")
        row = next(row for row in metrics.rows if row.key == "step_time")
        assert row.basis == PREDICTED_BASIS
        cell = row.cells[1]
        assert isinstance(cell, Quantity)
        assert (cell.bound, cell.low, cell.high) == (RANGE, 22, 28)
        bars = next(block for block in blocks_of(whole) if isinstance(block, Bars))
        assert {s.amount.basis for bar in bars.bars for s in bar.segments} == {PREDICTED_BASIS}
        assert not any("profiling changed" in note for note in bars.notes)


def test_a_prediction_is_not_asked_where_the_traced_steps_tell() -> None:
    """At light settings on both sides like is compared with like, and no range is in the way."""
    light = recording([100] * 6, predicted_ns=50, predicted_range=(40, 60))
    chosen = sources(([light], [light]))
    assert chosen["step_time"] == PROFILED
    found = compare([side(light), side(light)]).pairs[0]
    assert found.metric("step_time").source == PROFILED
    measured = dataclasses.replace(light, unprofiled_ns=50)
    assert compare([side(measured), side(measured)]).pairs[0].metric("idle").source == UNPROFILED


def test_no_predicted_step_is_shorter_than_it_is_busy() -> None:
    pair = compare([side(predicted(25, 3, 28, busy=20)), side(predicted(26, 3, 30, busy=20))])
    step, idle = (pair.pairs[0].metric(name) for name in ("step_time", "idle"))
    assert (step.baseline.low, idle.baseline.low, idle.candidate.high) == (20, 0, 10)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_predicted_steps_are_bridged_exactly_and_within_the_step(data: st.DataObject) -> None:
    sides = []
    for _ in range(2):
        period = data.draw(st.integers(2, 10**9))
        busy = data.draw(st.integers(0, period))
        low, step, high = sorted(data.draw(st.lists(st.integers(1, 10**9), min_size=3, max_size=3)))
        one = slowed(period, busy=busy, predicted_ns=step, predicted_range=(low, high))
        sides.append(side(one))
    bridge = build_bridge(sides[0], sides[1], source=PREDICTED)[0]
    assert_exact(bridge)
    # Where the device was busy for longer than predicted, traced steps are bridged and compared
    # by their busy time alone.
    assert bridge.source == PREDICTED or bridge.notes
    whole = document(compare(sides), Context())
    bars = next((block for block in blocks_of(whole) if isinstance(block, Bars)), None)
    assert bars is not None
    amounts = [sum(s.amount.value or 0 for s in bar.segments) for bar in bars.bars]
    at = amounts[0]
    for amount in amounts[1:-1]:
        at += amount
        assert 0 <= at <= max(amounts[0], amounts[-1])
    assert at == amounts[-1]


@pytest.mark.parametrize(
    ("gate", "status"),
    [
        # 22 to 28 ns against 30 to 36: worse, whatever holds within the ranges.
        ("tokens_per_s:5%", TRIPPED),
        ("tokens_per_s:90%", HELD),
        ("idle:50ns", HELD),
        ("idle:1ns", TRIPPED),
        # The limit lies in the candidate's range.
        ("idle:28ns", NOT_JUDGED),
        ("host_dispatch:5%", NOT_JUDGED),
    ],
)
def test_gates_on_predicted_steps(gate: str, status: str) -> None:
    pairs = [(side(predicted(25, 22, 28, busy=5)), side(predicted(33, 30, 36, busy=5)))]
    (result,) = compared(pairs, gates=[parse_gate(gate)]).gates
    assert result.status == status, result.text


def test_a_bound_holds_as_profiled_but_does_not_trip() -> None:
    """The profiler only slows the host: what keeps a limit under it keeps it without, too."""
    pairs = [(side(slowed()), side(slowed()))]
    for gate, status in (("idle:60ms", HELD), ("idle:1ms", NOT_JUDGED), ("kernels:1", TRIPPED)):
        (result,) = compared(pairs, gates=[parse_gate(gate)]).gates
        assert result.status == status, result.text


def test_a_recording_takes_what_the_analysis_says_of_its_unprofiled_step() -> None:
    analysis = analyze(decode_trace())
    assert (record(analysis).given, record(analysis).unprofiled_ns) == (False, None)
    rate = dataclasses.replace(
        analysis.headline.rate,
        source="given",
        unprofiled_step_ns=77,
        predicted_unprofiled_step_ns=70,
        predicted_unprofiled_range_ns=(60, 80),
    )
    headline = dataclasses.replace(analysis.headline, rate=rate)
    found = record(dataclasses.replace(analysis, headline=headline))
    assert (found.given, found.unprofiled_ns, found.unprofiled_samples.size) == (True, 77, 0)
    assert (found.predicted_ns, found.predicted_range) == (70, (60, 80))
