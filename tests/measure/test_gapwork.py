"""What the host did in a gap: by hand, and as sums that must be the gap's causes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from gaptrace import load
from gaptrace.analysis import measured
from gaptrace.measure.gaps import CAUSES, UNATTRIBUTED
from gaptrace.measure.gapwork import CALL, COMPILER, FUNCTION, NOTHING, OP, PROFILER, LaunchPaths
from gaptrace.measure.record import gaps_result
from gaptrace.measure.result import Analysis
from gaptrace.results.gaps import HostWork
from tests.builders import Event, frame, kernel, launch, op, overhead, runtime, trace_of
from tests.drawings import DRAWINGS
from tests.strategies import random_trace

SAMPLES = Path(__file__).parents[2] / "sample_traces"
# The GPU is idle from 10 to 1,020; the op that ends the gap is launched at 1,000.
FIRST = (launch(at=0, dur=2, corr=1), kernel("first", at=5, dur=5, corr=1))
LAST = (
    op("aten::embedding", at=900, dur=130),
    launch(at=1_000, dur=5, corr=2),
    kernel("last", at=1_020, dur=10, corr=2),
)


def host_of(*events: Event) -> list[tuple[str, str, str, str, int]]:
    """Cause, kind, name, place and time of each part of the only gap, the largest first."""
    return [(w.cause, w.kind, w.name, w.where, int(w.ns)) for w in work_of(*events)]


def work_of(*events: Event) -> tuple[HostWork, ...]:
    (gap,) = gaps_result(measured(trace_of(*FIRST, *events, *LAST))).gaps
    return gap.host


def test_a_function_that_sleeps_is_named_and_not_the_op_that_ended_the_gap() -> None:
    found = host_of(
        frame("serve.py(7): loop", at=3, dur=1_020),
        frame("serve.py(40): wait_for_tokens", at=20, dur=800),
        frame("<built-in function sleep>", at=30, dur=780),
    )
    assert found == [
        ("python", FUNCTION, "<built-in function sleep>", "serve.py(40): wait_for_tokens", 780),
        ("dispatch", OP, "aten::embedding", "serve.py(7): loop", 100),
        ("python", FUNCTION, "serve.py(7): loop", "", 90),
        ("python", FUNCTION, "serve.py(40): wait_for_tokens", "", 20),
    ]


def test_time_before_the_first_frame_belongs_to_nothing() -> None:
    found = host_of(frame("serve.py(40): wait", at=110, dur=700))
    assert found == [
        ("python", FUNCTION, "serve.py(40): wait", "", 700),
        ("python", NOTHING, "", "", 190),
        ("dispatch", OP, "aten::embedding", "", 100),
    ]


def test_an_op_that_computes_on_the_host_and_a_call_that_blocks_inside_it() -> None:
    found = host_of(
        op("aten::sort", at=100, dur=600),
        op("aten::empty", at=200, dur=100),
        runtime("cudaMalloc", at=210, dur=80),
        runtime("cudaEventQuery", at=720, dur=30),
    )
    assert found == [
        ("dispatch", OP, "aten::sort", "", 500),
        ("python", NOTHING, "", "", 260),
        ("dispatch", OP, "aten::embedding", "", 100),
        ("alloc", CALL, "cudaMalloc", "", 80),
        ("runtime", CALL, "cudaEventQuery", "", 30),
        ("dispatch", OP, "aten::empty", "", 20),
    ]


def test_the_profilers_own_work_is_said_and_a_module_that_is_loaded_is_compiling() -> None:
    found = host_of(
        overhead("Activity Buffer Request", at=100, dur=300),
        overhead("Lazy Function Loading", at=500, dur=200),
    )
    assert found == [
        ("python", NOTHING, "", "", 390),
        ("profiler", PROFILER, "Activity Buffer Request", "", 300),
        ("compile", COMPILER, "Lazy Function Loading", "", 200),
        ("dispatch", OP, "aten::embedding", "", 100),
    ]


def test_shares_are_of_the_gap_and_a_name_that_comes_back_is_one_part() -> None:
    found = work_of(
        frame("a.py(1): poll", at=100, dur=200),
        frame("a.py(1): poll", at=400, dur=300),
    )
    assert (found[0].name, found[0].ns) == ("a.py(1): poll", 500)
    assert found[0].share == pytest.approx(500 / 1_010)


def test_addresses_do_not_tell_functions_apart() -> None:
    found = host_of(
        frame("<built-in method get of Queue object at 0x7f01>", at=100, dur=200),
        frame("<built-in method get of Queue object at 0x7f02>", at=400, dur=300),
    )
    assert ("python", FUNCTION, "<built-in method get of Queue object>", "", 500) in found


def test_a_program_is_named_before_the_library_it_calls() -> None:
    found = host_of(
        frame("serve.py(9): step", at=3, dur=1_010),
        frame("torch/nn/functional.py(3): embedding", at=850, dur=160),
    )
    assert ("dispatch", OP, "aten::embedding", "serve.py(9): step", 100) in found


def test_nothing_is_said_of_a_host_that_was_ahead() -> None:
    trace = trace_of(
        launch(at=0, dur=2, corr=1),
        kernel("first", at=5, dur=5, corr=1),
        launch(at=4, dur=2, corr=2),
        frame("serve.py(40): wait_for_tokens", at=10, dur=800),
        kernel("last", at=1_020, dur=10, corr=2),
    )
    (gap,) = gaps_result(measured(trace)).gaps
    assert gap.device_wait_ns > 0
    assert gap.host == ()


def test_what_another_thread_did_is_not_told() -> None:
    found = host_of(
        frame("serve.py(40): step", at=3, dur=1_010),
        frame("logger.py(5): flush", at=100, dur=800, tid=2),
        op("aten::copy_", at=100, dur=800, tid=2),
    )
    assert {name for _, _, name, _, _ in found} == {"serve.py(40): step", "aten::embedding"}


def test_the_launch_path_leads_from_the_line_to_the_call() -> None:
    trace = trace_of(
        *FIRST,
        frame("serve.py(9): step", at=850, dur=200),
        *LAST,
        op("aten::index", at=950, dur=70),
    )
    (gap,) = gaps_result(measured(trace)).gaps
    assert gap.launch_path == (
        "serve.py(9): step", "aten::embedding", "aten::index", "cudaLaunchKernel",
    )  # fmt: skip
    assert LaunchPaths(trace).of(-1) == ()


def assert_sums(analysis: Analysis) -> None:
    """The pieces of each gap sum to its host causes, and no two of them overlap."""
    assert analysis.device is not None
    gaps, work = analysis.device.gaps, analysis.gap_work
    sums = np.zeros(gaps.cause_ns.shape, np.int64)
    np.add.at(sums, (work.gap, work.cause), work.ns)
    wanted = gaps.cause_ns.copy()
    wanted[:, :UNATTRIBUTED] = 0  # between nodes, in GPU-side waits, on its way
    wanted[:, UNATTRIBUTED] = gaps.unrecorded_ns
    assert (sums == wanted).all(), [CAUSES[i] for i in np.flatnonzero((sums != wanted).any(axis=0))]
    assert (work.ns > 0).all()


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda d: d.name)
def test_parts_sum_to_the_causes_of_every_drawing(drawing: object) -> None:
    analysis = measured(trace_of(*drawing.events))  # type: ignore[attr-defined]
    if analysis.device is not None:
        assert_sums(analysis)


@settings(max_examples=200, deadline=None)
@given(random_trace())
def test_parts_sum_to_the_causes_of_any_trace(events: list[Event]) -> None:
    analysis = measured(trace_of(*events))
    if analysis.device is not None:
        assert_sums(analysis)


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("**/*.json.gz")), ids=lambda p: str(p)[-40:])
def test_parts_sum_to_the_causes_of_every_sample(path: Path) -> None:
    if path.name == "execution_trace.json.gz":
        pytest.skip("no Kineto trace")
    analysis = measured(load(path))
    assert_sums(analysis)
    idle = analysis.device
    assert idle is not None
    result = gaps_result(analysis, 5)
    assert all(sum(w.ns for w in gap.host) <= gap.dur_ns for gap in result.gaps)


def test_over_the_counted_steps_the_parts_sum_to_the_late_time_of_a_token() -> None:
    from gaptrace.analysis import analyze

    result = analyze(load(SAMPLES / "small_decoder_eager.json.gz")).result
    found = result.idle_work
    assert found is not None
    assert not found.frames
    assert sum(p.ns for p in found.parts) + found.other_ns == pytest.approx(found.late_ns)
    assert 0 < found.other_ns < 0.2 * found.late_ns
    host = ("python", "dispatch", "runtime", "sync", "alloc", "compile", "profiler", "host_wait")
    medians = sum(result.per_token.idle_by_cause_ns[name] or 0 for name in host)
    assert found.late_ns == pytest.approx(medians, rel=0.1)


def test_a_recorded_loop_names_the_function_that_slept_and_the_one_that_computed() -> None:
    """The workload sleeps 2 ms in one function of a known name and computes 1 ms in another."""
    from gaptrace.analysis import analyze

    result = analyze(load(SAMPLES / "bad_sleeping/eager/1/trace.json.gz")).result
    assert result.idle_work is not None
    slept, computed = result.idle_work.parts[:2]
    assert slept.name == "<built-in function sleep>"
    assert slept.where.endswith("sleeping_host.py(22): wait_for_tokens")
    assert computed.name.endswith("sleeping_host.py(27): rank_candidates")
    assert 2.0e6 < slept.ns < 2.2e6
    assert 1.0e6 < computed.ns < 1.1e6
    for gap in result.longest_gaps[:5]:
        assert gap.host[0].where.endswith("wait_for_tokens")
        assert "index" in gap.after.lower()  # what ended the gap, and is not to blame
