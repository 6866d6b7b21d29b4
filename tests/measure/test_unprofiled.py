"""The step without the profiler: by hand, against a plain loop, and against measured truths."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaptrace import load
from gaptrace.analysis import analyze
from gaptrace.measure.options import Options
from gaptrace.measure.unprofiled import PRIOR, _laid_out
from gaptrace.results.analysis import PredictedStep
from gaptrace.results.manifest import EventCosts
from tests.builders import Event, kernel, launch, mark, op, runtime, trace_of

US = 1_000
SAMPLES = Path(__file__).parents[2] / "sample_traces"
# Each runtime call costs twice the usual launch call, and nothing else costs anything.
CALLS = EventCosts(2.0, 0.0, 0.0, 0.0, 0.0, 0.5, 1.5, 2.0, "by hand")


def loop(*, steps: int = 8, work: int = 5) -> list[Event]:
    """Steps of four launches of 10 µs, 100 µs apart, each of a kernel of `work` µs."""
    events: list[Event] = []
    for step in range(steps):
        at = (1 + step) * 400 * US
        events.append(mark(f"gaptrace.step#{step}", at=at, dur=399 * US))
        for n in range(4):
            begin, corr = at + n * 100 * US + 2 * US, step * 4 + n + 1
            events.append(launch(at=begin, dur=10 * US, corr=corr))
            events.append(kernel("k", at=begin + 12 * US, dur=work * US, corr=corr))
    return events


def predicted(*events: Event, costs: EventCosts = CALLS) -> PredictedStep:
    return analyze(trace_of(*events), Options(costs=costs)).predicted


def test_a_launch_bound_step_is_shorter_by_what_its_events_cost() -> None:
    found = predicted(*loop())
    assert found.step_ns == (4 * 100 - 4 * 20) * US
    assert found.removed_ns == 4 * 20 * US
    assert found.idle_ns == found.step_ns - 4 * 5 * US
    # half and one and a half times the costs, and 4.5 % for what steps vary by
    assert found.range_ns == (int(280 * US * 0.955), int(360 * US * 1.045))
    assert found.tokens_per_s == pytest.approx(1e9 / (320 * US))


def test_a_step_that_the_gpu_paces_stays_as_long_as_it_was() -> None:
    events: list[Event] = []
    for step in range(8):
        at = (1 + step) * 400 * US
        events.append(mark(f"gaptrace.step#{step}", at=at, dur=399 * US))
        for n in range(4):
            corr, begin = step * 4 + n + 1, at + n * 20 * US
            events.append(launch(at=begin, dur=10 * US, corr=corr))
            events.append(kernel("k", at=at + 20 * US + n * 100 * US, dur=100 * US, corr=corr))
    found = predicted(*events)
    assert found.step_ns == 400 * US
    assert found.idle_ns == 0


def test_a_wait_lasts_until_the_work_before_it_is_done() -> None:
    events: list[Event] = []
    for step in range(8):
        at = (1 + step) * 400 * US
        events.append(mark(f"gaptrace.step#{step}", at=at, dur=399 * US))
        for n in range(4):
            begin, corr = at + (2 + 80 * n) * US, step * 4 + n + 1
            events.append(launch(at=begin, dur=10 * US, corr=corr))
            events.append(kernel("k", at=begin + 12 * US, dur=60 * US, corr=corr))
        # The last kernel ends at 314: the wait returns 6 µs later.
        events.append(runtime("cudaDeviceSynchronize", at=at + 260 * US, dur=60 * US))
    # Launches are 60 µs apart now, kernels 1 µs behind each other: 12-72, 73-133, 134-194, 195-255.
    # The wait returns at 261, and the next launch follows 82 µs after it.
    assert predicted(*events).step_ns == (261 + 82) * US


def test_more_costs_never_make_a_longer_step_and_none_is_below_busy() -> None:
    last = None
    for factor in (0.0, 0.5, 1.0, 2.0, 5.0):
        costs = EventCosts(factor, 0.0, 0.0, 0.0, 0.0, 0.5, 1.5, 2.0, "by hand")
        found = predicted(*loop(work=60), costs=costs)
        assert found.step_ns is not None
        assert found.range_ns is not None
        assert found.range_ns[0] <= found.step_ns <= found.range_ns[1]
        assert found.range_ns[0] >= 4 * 60 * US
        assert last is None or found.step_ns <= last
        last = found.step_ns


def test_ops_cost_by_their_least_spacing() -> None:
    events = loop()
    for step in range(8):
        for n in range(4):
            at = (1 + step) * 400 * US + n * 100 * US + 20 * US
            events.append(op("outer", at=at, dur=20 * US))
            events.append(op("inner", at=at + 1 * US, dur=18 * US))
    found = predicted(*events, costs=EventCosts(0.0, 1.5, 9.0, 0.0, 0.0, 0.5, 1.5, 2.0, "by hand"))
    # 1 µs before the inner op and 1 µs after it, 1.5 times, for each of 8 ops a step
    assert found.removed_ns == 8 * 3 * US
    assert found.step_ns == (400 - 8 * 3) * US


def test_two_launching_threads_are_refused_with_the_reason() -> None:
    half = loop(steps=8)
    for n, event in enumerate(half):
        if event.get("tid") == 1 and (n // 9) % 2:
            event["tid"] = 2
    found = predicted(*half)
    assert found.step_ns is None
    assert found.why


def test_costs_of_another_vendors_profiler_are_not_known() -> None:
    events = [
        {**event, "name": "hipLaunchKernel"} if event["cat"] == "cuda_runtime" else event
        for event in loop()
    ]
    found = predicted(*events)
    assert found.step_ns is None
    assert "HIP" in found.why


def test_where_little_is_left_nothing_is_predicted() -> None:
    found = predicted(*loop(), costs=EventCosts(9.0, 0.0, 0.0, 0.0, 0.0, 0.5, 1.5, 2.0, "by hand"))
    assert found.step_ns is None
    assert "cost most of the step" in found.why


@given(
    st.lists(
        st.tuples(st.integers(-1, 500), st.integers(-20, 20), st.integers(0, 60)),
        min_size=1, max_size=30,
    ),
    st.integers(0, 100),
)  # fmt: skip
def test_ops_are_laid_out_as_one_after_the_other(
    ops: list[tuple[int, int, int]], reach: int
) -> None:
    ready = np.array([float("-inf") if o[0] < 0 else o[0] for o in ops])
    gap, dur = np.array([o[1] for o in ops]), np.array([o[2] for o in ops])
    starts, end = _laid_out(ready, gap, dur, float(reach))
    free = float(reach)
    for i in range(len(ops)):
        assert starts[i] == max(ready[i], free + gap[i])
        free = max(free, starts[i] + dur[i])
    assert end == free


def _truths() -> dict[str, tuple[Path, int]]:
    found = {}
    for path in sorted(SAMPLES.glob("**/trace.json.gz")):
        manifest = json.loads((path.parent / "run.json").read_text())
        if truth := (manifest.get("unprofiled") or {}).get("median_ns"):
            found[str(path.parent.relative_to(SAMPLES))] = (path, truth)
    return found


def test_most_measured_steps_lie_in_the_predicted_range() -> None:
    errors, inside, widths = [], [], []
    for path, truth in _truths().values():
        found = analyze(load(path)).predicted
        assert found.step_ns is not None, (path, found.why)
        assert found.range_ns is not None
        low, high = found.range_ns
        errors.append(abs(found.step_ns / truth - 1))
        inside.append(low <= truth <= high)
        widths.append(high / low)
    assert len(errors) >= 20
    assert np.median(errors) < 0.1
    assert np.mean(inside) >= 0.8
    assert np.median(widths) <= 1.6
    assert PRIOR.source == "prior"
