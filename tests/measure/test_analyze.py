"""Whole analyses: headlines, quality verdicts, withheld numbers, ceilings."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

import gaptrace
from gaptrace.analysis import analyze
from gaptrace.errors import OptionError
from gaptrace.measure.ceilings import StepBytes, ceilings
from gaptrace.measure.options import Options
from gaptrace.measure.what_if import StepModel
from gaptrace.reading.loading import load
from gaptrace.trace import RunInfo, Trace
from tests.builders import (
    Event,
    decode_trace,
    graph_launch,
    kernel,
    launch,
    mark,
    memcpy,
    op,
    overhead,
    runtime,
    trace_of,
)

SAMPLES = Path(__file__).parents[2] / "sample_traces"


def step(
    number: int, at: int, corr: int, *, dur: int = 100, name: str = "gaptrace.step#"
) -> tuple[Event, ...]:
    """One 100 ns step: python 10, launch 5, the kernel runs [20, 60) of it."""
    return (
        mark(f"{name}{number}", at=at, dur=dur - 10),
        launch(at=at + 10, dur=5, corr=corr),
        kernel("k", at=at + 20, dur=40, corr=corr),
    )


def steps(count: int, **how: object) -> list[Event]:
    """Regular steps, and one op on another thread: what theirs did between calls is not known."""
    found = [e for i in range(count) for e in step(i, 100 * i, i + 1, **how)]  # type: ignore[arg-type]
    return [*found, op("aten::elsewhere", at=1, dur=1, tid=9)]


def reasons(analysis: gaptrace.Analysis) -> dict[str, tuple[str, ...]]:
    return {reason.id: reason.withheld for reason in analysis.quality.reasons}


def test_a_regular_trace_in_numbers_one_can_check_by_head() -> None:
    a = analyze(trace_of(*steps(7)))
    head = a.headline
    assert (head.count, head.complete) == (7, 6)
    assert {k: v.median for k, v in head.steps.items()} == {
        "period_ns": 100,
        "busy_ns": 40,
        "idle_ns": 60,
        "kernels": 1,
        "launches": 1,
        "copies": 0,
        "memsets": 0,
        "host_dispatch_ns": 100,
    }
    assert head.rate.tokens_per_s == 1e7
    # The GPU is dry from 60 to 120; the next launch call starts at 110.
    assert {k: v for k, v in head.idle_by_cause_ns.items() if v} == {
        "unattributed": 50,
        "launch": 10,
    }
    assert {k: v for k, v in head.host_time_ns.items() if v} == {"unattributed": 95, "launch": 5}
    assert a.result.devices[0].idle_by_cause_ns["python"] == 300
    assert a.quality.verdict == "ok"
    assert a.sentence.startswith("Decode: 10,000,000 tok/s, 100 ns per step")


def test_per_token_figures_are_medians_of_ratios() -> None:
    a = analyze(trace_of(*steps(7)), Options(tokens_per_step=4))
    assert a.headline.per_token["idle_ns"].median == 15
    assert a.headline.per_token["kernels"].median == 0.25
    assert a.headline.rate.tokens_per_s == 4e7
    assert a.headline.tokens_source == "--tokens-per-step"


def test_the_open_step_alone_is_shown_and_said_so() -> None:
    a = analyze(trace_of(*steps(1)))
    assert (a.headline.count, a.headline.complete) == (1, 0)
    assert a.headline.steps["period_ns"].median == 40
    assert a.headline.steps["host_dispatch_ns"].median is None
    assert a.quality.verdict == "limited"
    assert "open_step" in reasons(a)


def test_other_phases_are_left_out_of_decode_figures() -> None:
    events = list(step(0, 0, 1, name="step[EXTEND bs=1 toks=9] "))
    for i in range(1, 8):
        events += step(i, 100 * i, i + 1, name="step[DECODE bs=2] ")
    a = analyze(trace_of(*events))
    assert (a.headline.count, a.headline.complete) == (7, 6)
    assert a.headline.tokens_per_step == 2
    assert a.summary["steps"]["phases"] == {"prefill": 1, "decode": 7}
    assert "other_phases" in reasons(a)


def test_without_a_decode_step_the_count_is_zero_and_figures_are_null() -> None:
    events = [e for i in range(3) for e in step(i, 100 * i, i + 1, name="step[EXTEND bs=1] ")]
    a = analyze(trace_of(*events))
    summary = a.summary
    assert summary["steps"]["count"] == 0
    assert set(summary["steps"]["median"].values()) == {None}
    assert summary["rate"]["tokens_per_s"] is None
    assert "no_decode_steps" in reasons(a)


def test_no_gpu_op_is_refused() -> None:
    a = analyze(trace_of(mark("gaptrace.step#0", at=0, dur=9), op("aten::mm", at=2, dur=3)))
    assert a.quality.verdict == "refused"
    assert a.summary["devices"] == []


def test_a_clock_skew_takes_the_causes_away_but_not_from_devices() -> None:
    events = steps(7)
    skewed = [{**e, "ts": e["ts"] + 20_000} if e["cat"] == "cuda_runtime" else e for e in events]
    a = analyze(trace_of(*skewed))
    assert "causes" in reasons(a)["starts_before_launch"]
    assert set(a.summary["per_token"]["idle_by_cause_ns"].values()) == {None}
    assert sum(a.summary["devices"][0]["idle_by_cause_ns"].values()) == a.devices[0].figures.idle_ns


def test_one_early_start_in_a_thousand_is_a_note() -> None:
    events = steps(200)
    events[1] = launch(at=21, dur=5, corr=1)
    a = analyze(trace_of(*events))
    assert reasons(a)["starts_before_launch"] == ()
    assert a.quality.verdict == "ok"


def test_orphans_in_steps_withhold_launches_but_not_those_before_the_first_step() -> None:
    late = steps(7)
    early = [kernel("old", at=1 + i, dur=1, corr=0) for i in range(5)]
    shifted = [{**e, "ts": e["ts"] + 1000} for e in late]
    assert reasons(analyze(trace_of(*early, *shifted)))["orphans"] == ()
    inside = [kernel("lost", at=100 * i + 70, dur=5, corr=0) for i in range(6)]
    a = analyze(trace_of(*late, *inside))
    assert "launches" in reasons(a)["orphans"]
    assert a.summary["steps"]["median"]["launches"] is None
    assert a.summary["steps"]["median"]["kernels"] == 2


def test_the_first_step_is_left_out_when_the_profiler_was_starting() -> None:
    events = [*steps(7), overhead("Activity Buffer Request", at=2, dur=3)]
    a = analyze(trace_of(*events))
    assert a.headline.complete == 5
    assert a.step_table is not None
    assert a.step_table.excluded[0] == "profiler overhead"


def test_steps_with_compile_work_are_left_out_or_named_when_they_are_most() -> None:
    one = [*steps(7), op("inductor_compile (dynamo_timed)", at=301, dur=5)]
    a = analyze(trace_of(*one))
    assert a.headline.complete == 5
    assert "compile_in_steps" in reasons(a)
    most = [*steps(7)] + [
        op("inductor_compile (dynamo_timed)", at=100 * i + 1, dur=5) for i in range(5)
    ]
    b = analyze(trace_of(*most))
    assert "recompiling" in reasons(b)
    assert b.quality.verdict == "limited"


def test_replays_that_lost_ops_withhold_idle() -> None:
    events: list[Event] = []
    for i in range(7):
        events += [mark(f"gaptrace.step#{i}", at=100 * i, dur=50)]
        events += [graph_launch(at=100 * i + 2, dur=3, corr=i + 1)]
        names = "ab" if i == 3 else "abc"
        events += [
            kernel(n, at=100 * i + 10 + 20 * k, dur=15, corr=i + 1) for k, n in enumerate(names)
        ]
    a = analyze(trace_of(*events))
    assert "idle" in reasons(a)["replays_differ"]
    assert a.summary["steps"]["median"]["idle_ns"] is None
    assert a.summary["steps"]["median"]["period_ns"] == 100


def test_lost_times_are_refused() -> None:
    events = steps(7)
    flat = [{**e, "ts": 0} if i % 2 else e for i, e in enumerate(events)]
    a = analyze(trace_of(*flat, *[op("x", at=0, dur=1) for _ in range(20)]))
    assert a.quality.verdict == "refused"


def test_a_device_is_chosen_by_its_own_id() -> None:
    events = steps(7)
    for i in range(7):
        events += [launch(at=100 * i + 16, dur=2, corr=100 + i)]
        events += [kernel("other", at=100 * i + 30, dur=10, corr=100 + i, device=3)]
    trace = trace_of(*events)
    assert analyze(trace, Options(device="3")).headline.steps["busy_ns"].median == 10
    assert analyze(trace).headline.steps["busy_ns"].median == 40
    with pytest.raises(OptionError) as error:
        analyze(trace, Options(device="7"))
    assert "0, 3" in error.value.hint


def test_steps_and_outside_are_the_whole_trace() -> None:
    events = [kernel("before", at=2, dur=3, corr=0)]
    events += [{**e, "ts": e["ts"] + 1000} for e in steps(6)]
    events += [launch(at=2000, dur=2, corr=99), kernel("after", at=2100, dur=7, corr=99)]
    a = analyze(trace_of(*events))
    table = a.step_table
    assert table is not None
    assert a.device is not None
    inside = table.op_step >= 0
    assert int((table.kernels + table.copies + table.memsets).sum()) == int(inside.sum())
    assert (table.gpu_end[:-1] == table.gpu_start[1:]).all()
    ends = (int(table.gpu_start[0]), int(table.gpu_end[-1]))
    outside = sum(
        max(0, min(e, ends[0]) - s) + max(0, e - max(s, ends[1]))
        for s, e in zip(a.device.busy.start.tolist(), a.device.busy.end.tolist(), strict=True)
    )
    assert int(table.busy_ns.sum()) + outside == a.device.figures.busy_ns


def test_frames_hold_every_step_and_every_gap() -> None:
    a = analyze(decode_trace(steps=6, kernels=4, kernel_ns=10, gap_ns=2500))
    assert len(a.steps) == 6
    assert a.device is not None
    assert len(a.gaps) == len(a.device.gaps)
    assert int(a.gaps["dur_ns"].sum()) == a.device.figures.idle_ns
    causes = [
        c for c in a.gaps.columns if c.endswith("_ns") and c[:-3] in a.headline.idle_by_cause_ns
    ]
    assert int(a.gaps[causes].sum().sum()) == a.device.figures.idle_ns
    inside = a.gaps[a.gaps["step"] >= 0]
    assert (
        inside.groupby("step")["dur_ns"].sum()
        == a.steps.loc[sorted(set(inside["step"])), "idle_ns"]
    ).all()


def with_manifest(trace: Trace, **manifest: object) -> Trace:
    return dataclasses.replace(trace, run=RunInfo("runs/x/eager/1", manifest))


def test_unprofiled_times_of_a_run_are_the_headline() -> None:
    trace = with_manifest(
        trace_of(*steps(7)),
        step={"tokens": 2},
        unprofiled={"median_ns": 80},
        issue_ns=50,
        bytes={
            "weights_read_per_step": 1600,
            "kv_read_per_step": 400,
            "parameters": {"bfloat16": 1600},
        },
        device={"copy_bandwidth_bytes_per_s": 4e12, "name": "NVIDIA H200"},
    )
    a = analyze(trace)
    rate = a.headline.rate
    assert (rate.source, rate.tokens_per_s) == ("unprofiled", 2e9 / 80)
    assert rate.dilation == 100 / 80
    assert rate.unprofiled_idle_ns == 80 - 40
    c = a.ceilings
    assert c.launch_tokens_per_s == 2e9 / 50
    assert c.bandwidth_tokens_per_s == pytest.approx(2 * 4e12 / 2000)
    assert c.binding == "launch"
    assert (c.host_dispatch_source, c.peak_bandwidth_source) == (
        "unprofiled issue time",
        "measured copy",
    )
    assert c.bits_per_weight == 16
    # 50 ns at 4 TB/s move 200,000 bytes, 400 of them cache, over 800 weights.
    assert c.handover_bits_per_weight == pytest.approx((200_000 - 400) * 8 / 800)


@pytest.mark.parametrize(
    ("issue", "period", "median", "used", "source"),
    [
        (50, 60, 80, 50, "unprofiled issue time"),
        (50, 45, 80, 45, "unprofiled host period, its upper bound"),
        (90, 85, 80, 80, "unprofiled step, its upper bound"),
        (90, 70, 80, 70, "unprofiled host period, its upper bound"),
        (50, None, 80, 50, "unprofiled issue time"),
    ],
)
def test_host_dispatch_is_no_longer_than_the_step_or_the_host_period(
    issue: int, period: int | None, median: int, used: int, source: str
) -> None:
    times = {"median_ns": median, "before": {"host_median_ns": period}}
    trace = with_manifest(trace_of(*steps(7)), unprofiled=times, issue_ns=issue)
    found = analyze(trace)
    assert found.headline.rate.issue_ns == issue
    assert found.ceilings.host_dispatch_ns == used
    assert found.ceilings.host_dispatch_source == source
    assert found.ceilings.launch_tokens_per_s == 1e9 / used


def test_sizes_that_are_given_win_over_the_manifest() -> None:
    sizes = {
        "weights_read_per_step": 1600,
        "kv_read_per_step": 400,
        "parameters": {"bfloat16": 1600},
    }
    trace = with_manifest(trace_of(*steps(7)), bytes=sizes)
    moved = analyze(trace).ceilings
    assert (moved.weight_bytes, moved.weight_bytes_source) == (1600, "run manifest")
    assert (moved.kv_bytes, moved.kv_bytes_source) == (400, "run manifest")
    moved = analyze(trace, Options(weight_bytes=800, kv_bytes=0)).ceilings
    assert (moved.weight_bytes, moved.weight_bytes_source) == (800, "--weight-bytes")
    assert (moved.kv_bytes, moved.kv_bytes_source) == (0, "--kv-bytes")
    assert moved.bits_per_weight == 16  # as the manifest still says


def test_weights_that_the_recorder_withholds_are_not_taken_from_shapes() -> None:
    types = ["c10::BFloat16", "c10::BFloat16"]
    products = [
        op("aten::mm", at=100 * n + 1, dur=5, dims=[[1, 64], [64, 128]], types=types)
        for n in range(7)
    ]
    bare = trace_of(*steps(7), *products)
    assert analyze(bare).ceilings.weight_bytes == 64 * 128 * 2
    why = "experts: --weight-bytes says it"
    trace = with_manifest(bare, bytes={"parameters": {"bfloat16": 1600}, "weights_source": why})
    moved = analyze(trace).ceilings
    assert (moved.weight_bytes, moved.weight_bytes_source) == (None, why)
    assert moved.bandwidth_tokens_per_s is None
    assert analyze(trace, Options(weight_bytes=800)).ceilings.weight_bytes == 800


@pytest.mark.parametrize(
    ("busy_share", "host", "paced"),
    [
        (0.94, 50, "gpu"),
        (0.94, 95, None),
        (0.60, 150, "host"),
        (0.60, 50, None),
        (None, 50, None),
    ],
)
def test_the_lower_ceiling_need_not_be_what_paces_the_step(
    busy_share: float | None, host: int, paced: str | None
) -> None:
    found = ceilings(
        tokens=1,
        host_dispatch_ns=host,
        host_dispatch_source="",
        measured_tokens_per_s=None,
        moved=StepBytes(40, 20, "given", None, "weights only"),
        peak_bandwidth=1e9,
        peak_source="given",
        busy_share=busy_share,
        busy_ns=100,
    )
    assert (found.binding, found.paced_by) == ("launch", paced)


def test_weight_bytes_from_shapes_count_each_matrix_product_once() -> None:
    events: list[Event] = []
    for i in range(7):
        at = 1000 * i
        events += [mark(f"gaptrace.step#{i}", at=at, dur=900)]
        events += [
            op(
                "aten::linear",
                at=at + 10,
                dur=200,
                dims=[[1, 64], [128, 64], []],
                types=["c10::BFloat16", "c10::BFloat16", ""],
            ),
            op(
                "aten::mm",
                at=at + 20,
                dur=100,
                dims=[[1, 64], [64, 128]],
                types=["c10::BFloat16", "c10::BFloat16"],
            ),
            launch(at=at + 30, dur=5, corr=2 * i + 1),
            kernel("nvjet_hsh_64x8", at=at + 40, dur=100, corr=2 * i + 1),
            op(
                "aten::bmm",
                at=at + 300,
                dur=100,
                dims=[[4, 1, 64], [4, 64, 64]],
                types=["c10::BFloat16", "c10::BFloat16"],
            ),
            launch(at=at + 310, dur=5, corr=2 * i + 2),
            kernel("nvjet_hsh_64x8", at=at + 320, dur=50, corr=2 * i + 2),
        ]
    a = analyze(trace_of(*events), Options(peak_bandwidth=1e12))
    assert a.ceilings.weight_bytes == 128 * 64 * 2
    assert a.ceilings.bits_per_weight == 16
    row = a.kernels.rows[0]
    assert (row.op_class, row.per_token) == ("gemm", 2)
    # The linear moves weights, 64 inputs and 128 outputs at two bytes each, in 100 ns.
    assert row.bandwidth_bytes_per_s == pytest.approx((16384 + (64 + 128) * 2) / 100 * 1e9)
    assert row.roofline_share == pytest.approx(row.bandwidth_bytes_per_s / 1e12)


def products(*launched: tuple[str, int]) -> Trace:
    """Seven steps with one product of 64 x 128 bf16 weights, 16,768 bytes, by these kernels."""
    events: list[Event] = []
    for i in range(7):
        at = 1000 * i
        dims, types = [[1, 64], [64, 128]], ["c10::BFloat16", "c10::BFloat16"]
        events += [mark(f"gaptrace.step#{i}", at=at, dur=900)]
        events += [op("aten::mm", at=at + 20, dur=100, dims=dims, types=types)]
        begin = at + 60
        for k, (name, dur) in enumerate(launched):
            corr = 10 * i + k + 1
            events += [launch(at=at + 30 + 10 * k, dur=5, corr=corr)]
            events += [kernel(name, at=begin, dur=dur, corr=corr)]
            begin += dur + 1
    return trace_of(*events)


def test_a_split_k_reducer_has_no_share_of_the_roofline() -> None:
    """The product's bytes belong to the kernel that reads them, not to both of its kernels."""
    reducer = "void cublasLt::splitKreduce_kernel<32, 16, int>(X)"
    a = analyze(products(("nvjet_splitK", 100), (reducer, 10)), Options(peak_bandwidth=1e12))
    main, rest = a.kernels.rows
    assert main.bandwidth_bytes_per_s == pytest.approx(167.68e9)
    assert main.roofline_share == pytest.approx(0.16768)
    assert main.roofline_note is None
    assert rest.op_class == "gemm"
    assert (rest.bandwidth_bytes_per_s, rest.roofline_share) == (None, None)
    assert "read by another kernel" in (rest.roofline_note or "")
    rows = a.summary["kernels"]["rows"]
    assert [row["roofline_note"] for row in rows] == [None, rest.roofline_note]


def test_kernels_that_share_a_product_have_no_share_of_the_roofline() -> None:
    a = analyze(products(("nvjet_a", 100), ("nvjet_b", 50)), Options(peak_bandwidth=1e12))
    assert [row.roofline_share for row in a.kernels.rows] == [None, None]
    assert {row.roofline_note for row in a.kernels.rows} == {
        "several kernels share the bytes of one product"
    }


@pytest.mark.parametrize(("peak", "share"), [(1.61e11, 1.0415), (1.5e11, None)])
def test_a_share_above_the_roof_is_withheld(peak: float, share: float | None) -> None:
    """A peak that was measured by a copy may be passed by a few percent, and no more."""
    a = analyze(products(("nvjet_hsh_64x8", 100)), Options(peak_bandwidth=peak))
    (row,) = a.kernels.rows
    assert row.roofline_share == (None if share is None else pytest.approx(share, rel=1e-3))
    assert (row.bandwidth_bytes_per_s is None) == (share is None)
    assert ("did not read them all from memory" in (row.roofline_note or "")) == (share is None)


def test_public_arithmetic_of_the_launch_ceiling() -> None:
    """64 layers of 30 kernels at 4 us of host time are 7.7 ms, near 130 tokens/s; 125 at 8 ms."""
    dispatch = 64 * 30 * 4_000
    assert dispatch == 7_680_000
    found = ceilings(
        tokens=1,
        host_dispatch_ns=8_000_000,
        host_dispatch_source="",
        measured_tokens_per_s=None,
        moved=StepBytes(None, None, None, None, "weights only"),
        peak_bandwidth=None,
        peak_source=None,
    )
    assert found.launch_tokens_per_s == 125
    assert found.binding is None


def test_public_arithmetic_of_the_hand_over() -> None:
    """27e9 weights in bf16 on 4.8 TB/s: near 89 tokens/s; at 4 bits the launch ceiling binds."""
    weights = 27e9

    def at(bits: float) -> str | None:
        return ceilings(
            tokens=1,
            host_dispatch_ns=7_680_000,
            host_dispatch_source="",
            measured_tokens_per_s=None,
            moved=StepBytes(int(weights * bits / 8), weights, "given", None, "weights only"),
            peak_bandwidth=4.8e12,
            peak_source="given",
        ).binding

    found = ceilings(
        tokens=1,
        host_dispatch_ns=7_680_000,
        host_dispatch_source="",
        measured_tokens_per_s=None,
        moved=StepBytes(int(weights * 2), weights, "given", None, "weights only"),
        peak_bandwidth=4.8e12,
        peak_source="given",
    )
    assert found.bandwidth_tokens_per_s == pytest.approx(88.9, abs=0.1)
    assert found.handover_bits_per_weight == pytest.approx(10.92, abs=0.01)
    assert (at(16), at(4)) == ("bandwidth", "launch")


def test_what_ifs_change_the_side_they_touch() -> None:
    model = StepModel(
        step_ns=110,
        host_ns=100,
        busy_ns=40,
        gemm_ns=30,
        tokens=1,
        kernels=10,
        bits=16,
        bytes_ns=30,
        weights_ns=30,
        replay_ns=5,
        node_ns=1,
    )
    found = {item.id: (item.step_ns, item.binding) for item in model.what_ifs()}
    assert found == {
        "weights_8": (110, "launch"),
        "weights_4": (110, "launch"),
        "gpu_x2": (110, "launch"),
        "host_x2": (60, "launch"),
        "captured": (55, "bandwidth"),
    }
    slow = dataclasses.replace(model, host_ns=10, busy_ns=100, gemm_ns=80)
    found = {item.id: (item.step_ns, item.binding) for item in slow.what_ifs()}
    assert found["weights_8"] == (70, "bandwidth")
    assert found["gpu_x2"] == (60, "bandwidth")


def test_a_change_that_moves_nothing_hands_no_ceiling_over() -> None:
    """Host 50, GPU 100, bytes in 40: launch is the lower ceiling, and the GPU paces."""
    model = StepModel(
        step_ns=105,
        host_ns=50,
        busy_ns=100,
        gemm_ns=80,
        tokens=1,
        kernels=10,
        bits=16,
        bytes_ns=40,
        weights_ns=40,
    )
    found = {item.id: item for item in model.what_ifs()}
    assert found["host_x2"].binding == "bandwidth"
    assert (found["host_x2"].step_ns, found["host_x2"].changes) == (105, False)
    assert (found["weights_8"].paced_by, found["weights_8"].binding) == ("gpu", "launch")
    assert (found["weights_4"].paced_by, found["weights_4"].binding) == ("host", "launch")
    assert found["weights_8"].changes
    unknown = dataclasses.replace(model, bytes_ns=None).what_ifs()
    assert {item.binding for item in unknown} == {None}


def test_a_sync_and_backpressure_are_not_dispatch() -> None:
    events: list[Event] = []
    for i in range(7):
        at = 1000 * i
        events += [
            mark(f"gaptrace.step#{i}", at=at, dur=900),
            launch(at=at + 10, dur=5, corr=2 * i + 1),
            kernel("long", at=at + 20, dur=700, corr=2 * i + 1),
            launch(at=at + 30, dur=5 if i != 3 else 500, corr=2 * i + 2),
            kernel("next", at=at + 720, dur=20, corr=2 * i + 2),
            runtime("cudaStreamSynchronize", at=at + 600, dur=150),
        ]
    a = analyze(trace_of(*events))
    assert a.step_table is not None
    row = a.steps.iloc[3]
    assert row["host_time_sync_ns"] == 150
    assert row["host_time_backpressure_ns"] == 450
    assert row["host_time_launch_ns"] == 5 + 50
    assert row["host_dispatch_ns"] == 1000 - 150 - 450


def test_copies_and_memsets_stand_beside_kernels() -> None:
    events = steps(7)
    for i in range(7):
        events += [launch("cudaMemcpyAsync", at=100 * i + 70, dur=2, corr=50 + i)]
        events += [memcpy(at=100 * i + 75, dur=5, corr=50 + i)]
    a = analyze(trace_of(*events))
    median = a.summary["steps"]["median"]
    assert (median["kernels"], median["copies"], median["launches"]) == (1, 1, 2)


def test_summary_has_every_stable_name_and_no_nan() -> None:
    text = json.dumps(
        analyze(load(SAMPLES / "small_decoder_eager.json.gz")).summary, allow_nan=False
    )
    summary = json.loads(text)
    assert summary["schema"] == "gaptrace.analysis/1"
    stable = {
        "source": ["path", "format", "events", "gpu", "engine", "rank"],
        "quality": ["verdict", "reasons"],
        "steps": [
            "rule",
            "phase",
            "count",
            "complete",
            "tokens_per_step",
            "tokens_source",
            "median",
            "p5",
            "p95",
        ],
        "per_token": [
            "kernels",
            "launches",
            "host_dispatch_ns",
            "idle_ns",
            "busy_ns",
            "host_time_ns",
        ],
        "rate": [
            "tokens_per_s",
            "source",
            "dilation",
            "unprofiled_step_ns",
            "unprofiled_idle_ns",
            "issue_ns",
        ],
        "ceilings": [
            "launch_tokens_per_s",
            "bandwidth_tokens_per_s",
            "binding",
            "handover_bits_per_weight",
            "weight_bytes",
            "weight_bytes_source",
            "peak_bandwidth_bytes_per_s",
            "peak_bandwidth_source",
        ],
    }
    for group, names in stable.items():
        assert set(names) <= set(summary[group]), group
    assert set(summary["steps"]["median"]) >= {
        "period_ns",
        "busy_ns",
        "idle_ns",
        "kernels",
        "launches",
        "copies",
        "host_dispatch_ns",
    }
    assert {"id", "text", "count", "withheld"} <= set(summary["quality"]["reasons"][0])


def test_sample_traces_read_as_they_were_recorded() -> None:
    """Kernel and launch counts per token are what the recorded model launches."""
    eager, compiled, graph = (
        analyze(load(SAMPLES / f"small_decoder_{mode}.json.gz")).headline
        for mode in ("eager", "compiled", "graph")
    )
    assert [h.complete for h in (eager, compiled, graph)] == [7, 7, 7]
    assert (eager.steps["kernels"].median, eager.steps["launches"].median) == (125, 126)
    assert compiled.steps["kernels"].median == 62
    assert (graph.steps["launches"].median, graph.captured_share) == (1, 1.0)
    assert eager.idle_share is not None
    assert graph.idle_share is not None
    assert eager.idle_share > 0.85
    assert graph.idle_share < 0.15


def test_importing_the_library_loads_nothing_heavy() -> None:
    import subprocess
    import sys

    code = (
        "import sys, gaptrace, gaptrace.cli.analyze, gaptrace.measure.analyze, gaptrace.reading;"
        "print(sorted(m for m in ('torch','dash','plotly','hta','pandas') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.sub(r"\s", "", done.stdout) == "[]"
