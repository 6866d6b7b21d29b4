"""Clocks that differ, silence, what keeps the device busy, the bus, and the order of findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gaptrace.analysis import Analysis, analyze
from gaptrace.measure.ceilings import Bus, StepBytes, ceilings
from gaptrace.measure.options import Options
from gaptrace.measure.what_if import StepModel
from gaptrace.reading.loading import load
from tests.builders import Event, event, frame, kernel, launch, mark, memcpy, op, runtime, trace_of

SAMPLES = Path(__file__).parents[2] / "sample_traces"
GPU = {"deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]}


def loop(draw: Any, *, steps: int = 6, period: int, **top: Any) -> Analysis:
    """Steps that `draw(at, corr)` draws, `period` ns apart, and a last one that ends them."""
    events: list[Event] = []
    for number in range(steps):
        at = 1_000 + number * period
        events += [mark(f"gaptrace.step#{number}", at=at, dur=period // 2)]
        events += draw(at, 1 + 100 * number)
    return analyze(trace_of(*events, **top))


def reason(analysis: Analysis, name: str) -> Any:
    return next(r for r in analysis.result.quality.reasons if r.id == name)


def ids(analysis: Analysis) -> list[str]:
    return [finding.id for finding in analysis.result.findings]


# ---------------------------------------------------------------- clocks


def synced(sync: str = "cudaDeviceSynchronize", *, ends: int = 300, **args: Any) -> Any:
    """A kernel over [100, 200) on stream 7, and a synchronize from 50 that ends at `ends`."""

    def draw(at: int, corr: int) -> list[Event]:
        return [
            op("aten::mm", at=at + 5, dur=20),
            launch(at=at + 10, dur=5, corr=corr),
            kernel("k", at=at + 100, dur=100, corr=corr),
            runtime(sync, at=at + 50, dur=ends - 50, corr=corr + 1, **args),
        ]

    return draw


@pytest.mark.parametrize("sync", ["cudaDeviceSynchronize", "cudaStreamSynchronize"])
def test_a_sync_that_ends_too_early_takes_the_causes_away(sync: str) -> None:
    a = loop(synced(sync, ends=150), period=1_000)
    (device,) = a.result.devices
    # The work ends 50 ns after the call; an op begins 90 ns after its launch call at least.
    assert (device.blocking_calls, device.ends_before_work, device.clock_skew_ns) == (6, 6, 50)
    assert device.clock_offset_range_ns == (50, 90)
    skew = reason(a, "clock_skew")
    assert skew.withheld == ("causes",)
    assert "a GPU clock that is late by 50.0 ns to 90.0 ns all the time explains all" in skew.text
    assert a.result.quality.verdict == "limited"
    assert set(a.result.per_token.idle_by_cause_ns.values()) == {None}
    assert sum(device.idle_by_cause_ns.values()) == device.idle_ns


def test_a_sync_that_ends_after_its_work_is_no_skew() -> None:
    a = loop(synced(ends=200), period=1_000)
    (device,) = a.result.devices
    assert (device.blocking_calls, device.ends_before_work, device.clock_skew_ns) == (6, 0, 0)
    assert "clock_skew" not in [r.id for r in a.result.quality.reasons]


def test_a_sync_of_a_stream_that_is_done_waits_for_nothing() -> None:
    """Another stream works on; which one the call waited for is known by a sync record."""

    def draw(at: int, corr: int) -> list[Event]:
        side = [
            launch(at=at + 2, dur=2, corr=corr + 5),
            kernel("side", at=at + 8, dur=4, corr=corr + 5, stream=9),
        ]
        record = event(
            "cuda_sync", "Stream Sync", at=at + 50, dur=10, pid=0, tid=1_000_009,
            correlation=corr + 1, stream=9, device=0,
        )  # fmt: skip
        return [*side, *synced("cudaStreamSynchronize", ends=60)(at, corr), record]

    (device,) = loop(draw, period=1_000).result.devices
    assert (device.blocking_calls, device.ends_before_work) == (6, 0)


def test_the_stream_among_the_arguments_is_enough() -> None:
    def draw(at: int, corr: int) -> list[Event]:
        side = [
            launch(at=at + 2, dur=2, corr=corr + 5),
            kernel("side", at=at + 8, dur=4, corr=corr + 5, stream=9),
        ]
        return [*side, *synced("cudaStreamSynchronize", ends=60, stream=9)(at, corr)]

    (device,) = loop(draw, period=1_000).result.devices
    assert device.ends_before_work == 0


def test_a_blocking_copy_to_the_host_waits_for_itself_and_a_staged_one_does_not() -> None:
    def draw(kind: str) -> Any:
        return lambda at, corr: [
            op("aten::copy_", at=at + 5, dur=200),
            launch("cudaMemcpy", at=at + 10, dur=40, corr=corr),
            memcpy(kind, at=at + 30, dur=100, corr=corr),
        ]

    late = loop(draw("DtoH (Device -> Pageable)"), period=1_000).result.devices[0]
    assert (late.ends_before_work, late.clock_skew_ns) == (6, 80)
    # The clock cannot be late by 80 all the time: the copies begin 20 after their calls.
    assert late.clock_offset_range_ns is None
    staged = loop(draw("HtoD (Pageable -> Device)"), period=1_000).result.devices[0]
    assert (staged.blocking_calls, staged.ends_before_work) == (0, 0)


# ---------------------------------------------------------------- waiting


def sleeping(at: int, corr: int) -> list[Event]:
    """30 us of work, then 960 us of silence while the GPU works, in a period of 1 ms."""
    return [
        op("aten::mm", at=at, dur=30_000),
        launch(at=at + 10_000, dur=5_000, corr=corr),
        kernel("k", at=at + 20_000, dur=970_000, corr=corr),
    ]


def test_silence_is_waiting_and_makes_the_launch_ceiling_a_range() -> None:
    r = loop(sleeping, period=1_000_000).result
    assert r.per_token.host_time_ns["waiting"] == 970_000
    assert r.steps.median.host_dispatch_ns == 30_000
    assert r.ceilings.launch_tokens_per_s_range == (1e9 / 1_000_000, 1e9 / 30_000)
    assert r.ceilings.launch_tokens_per_s == 1e9 / 30_000
    assert r.ceilings.handover_bits_per_weight is None


def test_a_frame_that_waits_makes_no_range() -> None:
    def draw(at: int, corr: int) -> list[Event]:
        return [*sleeping(at, corr), frame("queue.py(154): get", at=at + 30_000, dur=970_000)]

    r = loop(draw, period=1_000_000).result
    assert r.per_token.host_time_ns["waiting"] == 970_000
    assert r.ceilings.launch_tokens_per_s_range is None


@pytest.mark.parametrize(
    ("silence", "bandwidth", "binding"),
    [(400, 1.5, None), (400, 0.5, "bandwidth"), (400, 3.0, "launch"), (None, 1.5, "bandwidth")],
)
def test_a_limit_is_named_only_where_both_ends_agree(
    silence: int | None, bandwidth: float, binding: str | None
) -> None:
    """Host dispatch 500 of 1000 ns: a ceiling of 2e6; with the silence 1.1e6."""
    found = ceilings(
        tokens=1,
        host_dispatch_ns=500,
        host_dispatch_source="as profiled",
        measured_tokens_per_s=1e5,
        moved=StepBytes(1_000, 500, "given", None, "weights only"),
        peak_bandwidth=bandwidth * 1e9,
        peak_source="given",
        silence_ns=silence,
    )
    assert found.binding == binding


def test_ops_of_another_thread_say_nothing_about_this_one() -> None:
    def draw(at: int, corr: int) -> list[Event]:
        return [
            op("aten::mm", at=at, dur=300, tid=2),
            launch(at=at + 100, dur=5, corr=corr),
            kernel("k", at=at + 120, dur=100, corr=corr),
        ]

    r = loop(draw, period=1_000).result
    assert r.per_token.idle_by_cause_ns["unattributed"] == 880
    assert r.per_token.idle_by_cause_ns["python"] == 0
    assert r.per_token.host_time_ns["unattributed"] == 995
    # What devices say is raw.
    assert r.devices[0].idle_by_cause_ns["unattributed"] == 0


# ---------------------------------------------------------------- what keeps the device


def mixed(at: int, corr: int) -> list[Event]:
    """Compute [100, 200), all-reduce [150, 300), copy from the host [250, 600), memset, DtoD."""
    return [
        op("aten::mm", at=at, dur=50),
        *(launch(at=at + 2 * i, dur=1, corr=corr + i) for i in range(5)),
        kernel("gemm", at=at + 100, dur=100, corr=corr),
        kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", at=at + 150, dur=150, corr=corr + 1,
               stream=8),
        memcpy("HtoD (Pinned -> Device)", at=at + 250, dur=350, corr=corr + 2, stream=9,
               nbytes=700),
        memcpy("DtoD (Device -> Device)", at=at + 600, dur=40, corr=corr + 3),
        memcpy("DtoH (Device -> Pinned)", at=at + 620, dur=30, corr=corr + 4, stream=9, nbytes=90),
    ]  # fmt: skip


def test_busy_time_by_what_keeps_the_device() -> None:
    r = loop(mixed, period=1_000, **GPU).result
    kinds = {
        "compute": 140,
        "exposed_communication": 100,
        "exposed_copies": 310,
        "hidden_communication": 50,
        "hidden_copies": 70,
    }
    assert r.steps.busy_by_kind_ns == r.per_token.busy_by_kind_ns == kinds
    assert r.phases[0].busy_by_kind_ns == kinds
    assert r.steps.median.busy_ns == 140 + 100 + 310
    assert not r.ceilings.bus_bound
    assert r.ceilings.bus_tokens_per_s is None
    assert {"GT504", "GT505"} <= {finding.id for finding in r.findings}


def test_a_step_of_copies_is_bound_by_the_bus() -> None:
    """Offloaded weights: 6.4 MB in 160 us of 200; at 64 GB/s they would take 100 us."""

    def draw(at: int, corr: int) -> list[Event]:
        return [
            op("aten::copy_", at=at, dur=30_000),
            launch("cudaMemcpyAsync", at=at + 100, dur=100, corr=corr),
            memcpy(
                "HtoD (Pinned -> Device)", at=at + 300, dur=160_000, corr=corr, nbytes=6_400_000
            ),
            launch(at=at + 1_000, dur=100, corr=corr + 1),
            kernel("gemm", at=at + 160_300, dur=39_700, corr=corr + 1),
        ]

    a = loop(draw, period=200_000, **GPU)
    c = a.result.ceilings
    assert (c.binding, c.bus_bound, c.bus_bytes) == ("bus", True, 6_400_000)
    assert c.bus_tokens_per_s == 10_000
    assert c.distance == pytest.approx(0.5)
    assert ids(a)[0] == "GT505"
    assert "GT002" in ids(a)
    assert "nothing to win on the host;" not in " ".join(f.text for f in a.result.findings)
    assert "the bus limits it" in a.result.sentence
    steps = {item.id: item.step_ns for item in a.result.what_if}
    # A GPU twice as fast halves 39.7 us of kernels, and not the copies.
    assert steps["gpu_x2"] == 200_000 - 39_700 / 2
    assert steps["bus_x2"] == 120_000
    assert not {"weights_8", "weights_4"} & set(steps)
    given = analyze(a.trace, Options(bus_bandwidth=40e9)).result.ceilings
    assert (given.bus_tokens_per_s, given.bus_bandwidth_source) == (6_250, "--bus-bandwidth")
    unknown = loop(draw, period=200_000).result.ceilings
    assert (unknown.binding, unknown.bus_tokens_per_s, unknown.distance) == ("bus", None, None)


def test_a_ceiling_that_the_step_breaks_is_none() -> None:
    found = ceilings(
        tokens=1,
        host_dispatch_ns=None,
        host_dispatch_source="as profiled",
        measured_tokens_per_s=2e6,
        moved=StepBytes(None, None, None, None, "weights only"),
        peak_bandwidth=None,
        peak_source=None,
        bus=Bus(True, 1_000, 1e9, "datasheet"),
    )
    assert (found.binding, found.bus_tokens_per_s) == ("bus", None)


def test_a_faster_host_wins_no_more_than_the_time_for_which_it_was_late() -> None:
    model = StepModel(step_ns=100, host_ns=98, busy_ns=60, gemm_ns=0, tokens=1, kernels=1)
    assert {i.id: i.step_ns for i in model.what_ifs()}["host_x2"] == 62
    late = StepModel(
        step_ns=100, host_ns=98, busy_ns=60, gemm_ns=0, tokens=1, kernels=1, late_ns=10
    )
    assert {i.id: i.step_ns for i in late.what_ifs()}["host_x2"] == 90


# ---------------------------------------------------------------- one odd step


def test_one_odd_step_is_no_obstacle_to_capture() -> None:
    def draw(at: int, corr: int) -> list[Event]:
        odd = corr == 301
        return [
            op("aten::mm", at=at, dur=50),
            launch(at=at + 10, dur=5, corr=corr),
            kernel("odd" if odd else "gemm", at=at + 100, dur=100, corr=corr),
        ]

    r = loop(draw, steps=8, period=1_000).result
    assert "launch_sequence" not in [blocker.id for blocker in r.capture.blockers]


def test_steps_that_take_turns_are_one() -> None:
    def draw(at: int, corr: int) -> list[Event]:
        return [
            op("aten::mm", at=at, dur=50),
            launch(at=at + 10, dur=5, corr=corr),
            kernel("a" if corr // 100 % 2 else "b", at=at + 100, dur=100, corr=corr),
        ]

    r = loop(draw, steps=8, period=1_000).result
    blockers = {blocker.id: blocker for blocker in r.capture.blockers}
    assert "of 7 steps" in blockers["launch_sequence"].text


# ---------------------------------------------------------------- the order of findings


def test_what_makes_others_moot_comes_first() -> None:
    """Recompiling every step stands before what waits between the steps, though that is longer."""
    path = SAMPLES / "bad_recompile" / "compiled" / "1" / "trace.json.gz"
    found = analyze(load(path)).result
    first, second = found.findings[:2]
    assert (first.id, second.id) == ("GT302", "GT105")
    assert first.ceiling_ns_per_token < second.ceiling_ns_per_token
    assert found.headline.largest_cause == "compile"


def test_a_wait_that_stops_the_capture_comes_before_the_advice_to_capture() -> None:
    def draw(at: int, corr: int) -> list[Event]:
        events: list[Event] = []
        for i in range(12):
            begin = at + 5_000 * i
            events += [
                op("aten::mm", at=begin, dur=3_000),
                launch(at=begin + 1_000, dur=1_000, corr=corr + i),
                kernel("gemm_kernel", at=begin + 2_500, dur=1_000, corr=corr + i),
                op("aten::_local_scalar_dense", at=begin + 3_100, dur=1_800),
                runtime("cudaStreamSynchronize", at=begin + 3_200, dur=1_600),
            ]
        return events

    a = loop(draw, period=62_000)
    ceilings_of = {f.id: f.ceiling_ns_per_token for f in a.result.findings}
    assert "item" in [blocker.id for blocker in a.result.capture.blockers if blocker.blocks]
    assert ceilings_of["GT201"] < ceilings_of["GT101"]
    assert ids(a).index("GT201") < ids(a).index("GT101")
