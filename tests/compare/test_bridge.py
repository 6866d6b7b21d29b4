"""The bridge sums exactly: on drawings, on random pairs, on recorded traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaptrace.analysis import analyze
from gaptrace.compare.bridge import MEDIAN_STEP, OPEN_STEP, WHOLE, build_bridge, split_by
from gaptrace.compare.busy import busy_by_class, class_intervals
from gaptrace.compare.recording import CAUSE_COLUMNS, CLASS_COLUMNS, record
from gaptrace.compare.side import Side
from gaptrace.document.comparison_words import profiling_remark, waterfall
from gaptrace.measure.kernels import OP_CLASSES
from gaptrace.results.comparison import PROFILED, UNPROFILED
from tests.builders import decode_trace, kernel, launch, load_events, trace_of
from tests.compare.recordings import recording
from tests.strategies import random_trace

if TYPE_CHECKING:
    from gaptrace.results.comparison import Bridge
    from gaptrace.trace import Trace

GEMM, COPY, OTHER = OP_CLASSES.index("gemm"), OP_CLASSES.index("copy"), OP_CLASSES.index("other")


def bridge_of(left: Trace, right: Trace) -> Bridge:
    sides = [Side.of(analyze(trace), label=name) for trace, name in ((left, "a"), (right, "b"))]
    return build_bridge(sides[0], sides[1], source=PROFILED)[0]


def side(*recordings: Any, label: str = "side") -> Side:
    return Side(label, "made/up.json", recordings)


def assert_exact(bridge: Bridge) -> None:
    before, after = bridge.ends
    assert sum(part.baseline_ns for part in bridge.parts) == before
    assert sum(part.candidate_ns for part in bridge.parts) == after
    assert all(part.delta_ns == part.candidate_ns - part.baseline_ns for part in bridge.parts)
    assert all(isinstance(part.delta_ns, int) for part in bridge.parts)
    assert all(min(part.baseline_ns, part.candidate_ns) >= 0 for part in bridge.parts)
    traced = (bridge.baseline_ns, bridge.candidate_ns)
    unprofiled = (bridge.unprofiled_baseline_ns, bridge.unprofiled_candidate_ns)
    assert bridge.ends == (traced if bridge.source == PROFILED else unprofiled)
    at = before
    for part in waterfall(bridge):
        at += part.delta_ns
        assert 0 <= at <= max(before, after)
    assert at == after


def test_the_parts_of_a_regular_loop_are_known_in_advance() -> None:
    eager = decode_trace(steps=8, kernels=4, kernel_ns=2_000, gap_ns=3_000, between_ns=10_000)
    graph = decode_trace(steps=8, kernels=4, kernel_ns=2_000, gap_ns=500, mode="graph")
    bridge = bridge_of(eager, graph)
    assert_exact(bridge)
    assert bridge.basis == MEDIAN_STEP
    # Eager: four gaps of 3 us and 10 us between steps; 1 us of each gap in the op, 1 in the call.
    parts = {(part.kind, part.key): (part.baseline_ns, part.candidate_ns) for part in bridge.parts}
    assert bridge.baseline_ns == 4 * 5_000 + 10_000
    assert parts["idle", "graph_node"] == (0, 3 * 500)
    assert parts["idle", "dispatch"][0] == 4 * 1_000
    assert parts["idle", "launch"] == (4 * 1_000, 1_000)
    assert sum(pair[0] for key, pair in parts.items() if key[0] == "busy") == 4 * 2_000
    assert sum(pair[1] for key, pair in parts.items() if key[0] == "busy") == 4 * 2_000


def test_a_busy_nanosecond_belongs_to_the_op_that_started_first() -> None:
    trace = trace_of(
        launch(at=1, dur=1, corr=1),
        launch(at=3, dur=1, corr=2),
        launch(at=5, dur=1, corr=3),
        kernel("cublas_gemm", at=10, dur=20, corr=1, stream=7),
        kernel("mystery", at=15, dur=30, corr=2, stream=8),
        kernel("cublas_gemm", at=50, dur=5, corr=3, stream=7),
    )
    device = analyze(trace).device
    assert device is not None
    parts = class_intervals(trace, device)
    busy = busy_by_class(parts, np.array([10, 20, 40]), np.array([60, 40, 52]))
    assert busy.tolist() == [
        [25, 0, 0, 0, 0, 15],
        [10, 0, 0, 0, 0, 10],
        [2, 0, 0, 0, 0, 5],
    ]


def test_of_ops_that_start_together_the_shorter_goes_first() -> None:
    trace = trace_of(
        kernel("mystery", at=10, dur=20, stream=7), kernel("cublas_gemm", at=10, dur=5, stream=8)
    )
    device = analyze(trace).device
    assert device is not None
    busy = busy_by_class(class_intervals(trace, device), np.array([0]), np.array([99]))[0]
    assert (busy[GEMM], busy[OTHER]) == (5, 15)


@settings(max_examples=120, deadline=None)
@given(left=random_trace(), right=random_trace())
def test_the_bridge_sums_exactly_on_random_pairs(
    left: list[dict[str, Any]], right: list[dict[str, Any]]
) -> None:
    assert_exact(bridge_of(load_events(left), load_events(right)))


@settings(max_examples=100, deadline=None)
@given(events=random_trace(marked=True))
def test_every_step_and_the_whole_recording_are_the_sum_of_their_parts(
    events: list[dict[str, Any]],
) -> None:
    analysis = analyze(load_events(events))
    found = record(analysis)
    names = (*CAUSE_COLUMNS, *CLASS_COLUMNS)
    total = sum(found.steps[name] for name in names)
    assert np.array_equal(total, found.steps["period_ns"])
    assert sum(found.whole[name] for name in names) == found.whole["period_ns"]
    steps = analysis.step_table
    if steps is not None and found.steps["step"].size:
        busy = sum(found.steps[name] for name in CLASS_COLUMNS)
        assert np.array_equal(busy, steps.busy_ns[found.steps["step"]])


@settings(max_examples=100, deadline=None)
@given(
    traced=st.lists(st.integers(1, 10**12), min_size=2, max_size=2),
    busy=st.lists(st.integers(0, 10**12), min_size=2, max_size=2),
    unprofiled=st.lists(st.integers(1, 10**12), min_size=2, max_size=2),
)
def test_unprofiled_steps_are_bridged_by_busy_time_and_the_rest(
    traced: list[int], busy: list[int], unprofiled: list[int]
) -> None:
    busy = [min(pair) for pair in zip(busy, traced, strict=True)]
    left, right = (
        recording([period] * 5, busy=work, unprofiled_ns=step)
        for period, work, step in zip(traced, busy, unprofiled, strict=True)
    )
    bridge = build_bridge(side(left), side(right), source=UNPROFILED)[0]
    assert_exact(bridge)
    assert {part.kind for part in bridge.parts} <= {"busy", "idle"}
    fits = all(work <= step for work, step in zip(busy, unprofiled, strict=True))
    assert bridge.source == (UNPROFILED if fits else PROFILED)
    assert bridge.ends == tuple(unprofiled if fits else traced)
    found = [p for p in bridge.parts if p.kind == "busy"]
    assert sum(p.baseline_ns for p in found) == busy[0]
    assert not any(p.estimated for p in found)
    if fits and traced != unprofiled:
        assert all(p.estimated for p in bridge.parts if p.kind == "idle")


def test_unprofiled_idle_is_split_by_the_shares_of_traced_causes() -> None:
    left = recording([100] * 5, busy=20, unprofiled_ns=40)
    left.steps["idle_dispatch_ns"][:] = 60
    left.steps["idle_sync_ns"][:] = 20
    right = recording([100] * 5, busy=20, unprofiled_ns=24)
    bridge = build_bridge(side(left), side(right), source=UNPROFILED)[0]
    assert_exact(bridge)
    parts = {part.key: (part.baseline_ns, part.candidate_ns) for part in bridge.parts}
    assert parts == {"sync": (5, 0), "dispatch": (15, 4), "gemm": (20, 20)}
    # Profiling is a remark and no part.
    assert profiling_remark(bridge) == (
        "profiling changed these steps by +60.0 ns (baseline) and +76.0 ns (candidate)"
    )


def test_idle_of_which_the_trace_has_none_has_no_known_cause() -> None:
    left, right = (recording([20] * 5, busy=20, unprofiled_ns=step) for step in (30, 20))
    bridge = build_bridge(side(left), side(right), source=UNPROFILED)[0]
    assert_exact(bridge)
    idle = [(p.key, p.baseline_ns) for p in bridge.parts if p.kind == "idle"]
    assert idle == [("unattributed", 10)]


@settings(max_examples=200, deadline=None)
@given(
    total=st.integers(0, 10**15),
    weights=st.lists(st.integers(0, 10**12), min_size=1, max_size=12).filter(any),
)
def test_whole_parts_sum_to_the_total(total: int, weights: list[int]) -> None:
    parts = split_by(total, weights)
    assert sum(parts) == total
    whole = sum(weights)
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part * whole - total * weight) < whole


def test_one_side_without_unprofiled_times_ends_at_the_traced_periods() -> None:
    left, right = recording([100] * 5, unprofiled_ns=80), recording([60] * 5)
    bridge = build_bridge(side(left), side(right), source=PROFILED)[0]
    assert_exact(bridge)
    assert bridge.ends == (100, 60)
    assert bridge.source == PROFILED


def test_the_bridge_stands_on_the_median_step_of_the_median_run() -> None:
    runs = (recording([10] * 5), recording([70, 20, 30, 40, 50], repeat=2), recording([90] * 5))
    bridge, pillar, _ = build_bridge(side(*runs), side(recording([5] * 5)), source=PROFILED)
    assert (pillar.place, pillar.step, bridge.baseline_ns) == (1, 3, 40)
    assert bridge.baseline_step == "step 3 of run 2"


def test_an_open_step_and_a_whole_recording_say_so() -> None:
    one = recording([50], open_step=True)
    assert build_bridge(side(one), side(recording([9] * 5)), source=PROFILED)[0].basis == OPEN_STEP
    whole = recording([50, 60], rule="whole trace")
    bridge = build_bridge(side(whole), side(recording([9] * 5)), source=PROFILED)[0]
    assert (bridge.basis, bridge.baseline_ns, bridge.candidate_ns) == (WHOLE, 110, 45)
    assert_exact(bridge)


def test_withheld_causes_become_one_idle_part() -> None:
    left = recording([100] * 5, busy=30, withheld=frozenset({"causes"}))
    bridge = build_bridge(side(left), side(recording([80] * 5, busy=30)), source=PROFILED)[0]
    assert_exact(bridge)
    assert [(p.kind, p.key, p.delta_ns) for p in bridge.parts] == [
        ("idle", "withheld", -20),
        ("busy", "gemm", 0),
    ]
    assert "causes of the baseline are withheld" in bridge.notes[0]


def test_interleaved_steps_are_not_split_and_still_sum() -> None:
    mixed = recording([100] * 5, busy=30)
    mixed.steps["clean"][:] = 0  # type: ignore[index]
    bridge = build_bridge(side(mixed), side(recording([80] * 5, busy=30)), source=PROFILED)[0]
    assert_exact(bridge)
    assert not bridge.split
    assert [(p.kind, p.delta_ns) for p in bridge.parts] == [("time", -20)]


def test_the_figures_of_a_recording_are_those_of_the_analysis() -> None:
    analysis = analyze(decode_trace(steps=8, kernels=4, sync_ns=2_000))
    found, head = record(analysis), analysis.headline
    assert found.complete == head.complete
    assert found.period_ns == head.steps["period_ns"].median
    assert int(np.sort(found.steps["host_dispatch_ns"])[3]) == head.steps["host_dispatch_ns"].median


PAIRS = [
    ("h200/llama4_eager", "h200/llama4_compiled"),
    ("h200/llama4_eager", "h200/llama4_graph_eager"),
    ("h200/llama4_compiled", "h200/llama4_graph_compiled"),
    ("h200/llama4_graph_eager", "h200/llama4_graph_compiled"),
    ("h200/gpt2_4_eager", "h200/gpt2_4_compiled"),
    ("h200/gpt2_4_eager", "h200/gpt2_4_graph_eager"),
    ("h200/gpt2_4_compiled", "h200/gpt2_4_graph_compiled"),
    ("h200/gpt2_4_graph_eager", "h200/gpt2_4_graph_compiled"),
    ("h200/plain_eager", "h200/plain_compiled"),
    ("h200/plain_eager", "h200/plain_graph_eager"),
    ("h200/plain_eager", "h200/plain_reduce_overhead"),
    ("h200/plain_graph_eager", "h200/plain_reduce_overhead"),
    ("public/sam_eager_a100", "public/sam_compiled_a100"),
    ("public/moe_before_b200x2", "public/moe_syncless_b200x2"),
]


@pytest.mark.corpus
@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_the_bridge_sums_exactly_on_recorded_pairs(corpus: Any, before: str, after: str) -> None:
    from gaptrace.reading.loading import load

    bridge = bridge_of(*(load(corpus / f"{name}.json.gz") for name in (before, after)))
    assert_exact(bridge)
    assert bridge.split
    assert len(bridge.parts) >= 4
