"""Findings as a whole, and those about trust, about the host, and about the state of the GPU."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings

from gaptrace import findings
from gaptrace.analysis import analyze
from gaptrace.findings.rule import REGISTRY
from gaptrace.knowledge.rules import common_clauses, pages, template
from gaptrace.results.codec import to_data
from tests.builders import (
    Event,
    graph_launch,
    kernel,
    launch,
    load_events,
    mark,
    memcpy,
    op,
    overhead,
    runtime,
    trace_of,
)
from tests.measure.loops import ADD, GEMM, eager, eagers, ids, loop, the
from tests.strategies import random_trace

if TYPE_CHECKING:
    from gaptrace.analysis import Analysis


def launch_bound(at: int, corr: int, step: int) -> list[Event]:
    """Twenty gaps of 3,500 ns: 1,000 of Python, 1,000 of dispatch, 1,500 of launch."""
    return eagers(at, corr, *[GEMM] * 20)


def queued(at: int, corr: int, step: int) -> list[Event]:
    """Twenty kernels launched 50,000 ns ahead of time: the GPU never waits."""
    events: list[Event] = []
    for index in range(20):
        events += [
            launch(at=at + 200 * index, dur=100, corr=corr + index),
            kernel(GEMM, at=at + 50_000 + 5_000 * index, dur=5_000, corr=corr + index),
        ]
    return events


def captured(at: int, corr: int, step: int) -> list[Event]:
    """One replay of ten kernels with 1,000 ns between them, launched 50,000 ns ahead of time."""
    nodes = [kernel(GEMM, at=at + 50_000 + 10_000 * k, dur=9_000, corr=corr) for k in range(10)]
    return [graph_launch(at=at, dur=2_000, corr=corr), *nodes]


# --- the registry


def test_every_rule_has_a_page_and_every_page_a_rule() -> None:
    known = [page.id for page in pages()]
    assert sorted(REGISTRY) == known == sorted(known)
    assert len(set(known)) == len(known) >= 30


def test_findings_are_ranked_by_ceiling_then_id() -> None:
    found = loop(launch_bound, period=100_000).result.findings
    ranks = [(-finding.ceiling_ns_per_token, finding.id) for finding in found]
    assert ranks == sorted(ranks)
    assert len(found) >= 2


def test_findings_are_plain_data_with_the_answers_of_their_page() -> None:
    finding = loop(launch_bound, period=100_000).result.findings[0]
    data = json.loads(json.dumps(to_data(finding)))
    assert data["id"] == "GT101"
    assert data["ceiling_ns_per_token"] == 70_000
    assert data["overlaps"] == ["GT102"]
    assert data["part_of"] is None
    assert data["quantities"]["busy"] == {"value": 30_000, "unit": "ns", "basis": "traced"}
    assert "reduce-overhead" in data["what_to_try"]
    assert data["how_we_know"]
    assert data["how_to_check"]
    first = data["evidence"][0]
    assert (first["end_ns"] - first["start_ns"], first["call"]) == (3_500, "cudaLaunchKernel")
    assert first["before"] == first["after"] == GEMM


def test_overlapping_findings_say_so_and_others_do_not() -> None:
    found = loop(launch_bound, period=100_000)
    assert the(found, "GT101").overlaps == ("GT102",)
    assert the(found, "GT102").overlaps == ("GT101",)
    assert "do not add" in the(found, "GT101").text
    alone = loop(captured, period=100_000)
    assert the(alone, "GT001").overlaps == ()
    assert "do not add" not in the(alone, "GT001").text


def test_a_single_open_step_is_never_called_measured() -> None:
    found = loop(launch_bound, period=100_000, steps=1)
    assert found.headline.complete == 0
    assert the(found, "GT101").confidence == "likely"


def test_training_steps_are_not_called_decode() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        back = op("autograd::engine::evaluate_function: MmBackward0", at=at, dur=500)
        return [back, *launch_bound(at, corr, step)]

    found = the(loop(draw, period=100_000), "GT101")
    assert found.title == "launch-bound eager training"
    assert "per token" not in found.text


def longest(found: Analysis) -> float:
    """The most idle and busy time of any counted step, per token."""
    steps = found.step_table
    assert steps is not None
    whole = (steps.idle_ns + steps.busy_ns) / np.maximum(steps.tokens, 1)
    return float(whole[steps.counted].max())


@settings(max_examples=150, deadline=None)
@given(random_trace())
def test_whatever_the_trace_findings_keep_their_bounds(events: list[Event]) -> None:
    found = analyze(load_events(events))
    idle = found.headline.per_token["idle_ns"].median or 0
    busy = found.headline.per_token["busy_ns"].median or 0
    overlaps = {finding.id: finding.overlaps for finding in found.result.findings}
    assert len(overlaps) == len(found.result.findings)
    for finding in found.result.findings:
        assert finding.id in REGISTRY
        # Where few steps have any of it, their mean may be more than the median step is long.
        mean = "mean over all" in finding.text
        assert 0 <= finding.ceiling_ns_per_token <= (longest(found) if mean else idle + busy)
        if finding.id[:3] in {"GT1", "GT2", "GT4"} and finding.id != "GT206" and not mean:
            assert finding.ceiling_ns_per_token <= idle
        if finding.ceiling_ns_per_token > 0:
            assert finding.evidence
            assert finding.places > 0
        for other in finding.overlaps:
            assert finding.id in overlaps[other]
        json.dumps(to_data(finding), allow_nan=False)


# --- nothing to win


def test_captured_decode_is_told_that_nothing_is_to_win() -> None:
    found = loop(captured, period=100_000)
    assert ids(found) == ["GT001"]
    assert found.result.findings[0].ceiling_ns_per_token == 0
    assert "100 % of the kernels" in found.result.findings[0].text
    assert "1 launch call per token" in found.result.findings[0].text


def test_a_queue_that_never_runs_dry_is_gpu_bound() -> None:
    found = loop(queued, period=100_000)
    assert ids(found) == ["GT002"]
    assert found.result.findings[0].ceiling_ns_per_token == 0


def test_backpressure_is_named_when_gpu_bound() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        events = queued(at, corr, step)
        # The family's median is 100 ns; beyond ten times that this call waits for the queue.
        stuck = launch(at=at + 10_000, dur=41_000, corr=corr + 50)
        return [*events, stuck, kernel(GEMM, at=at + 149_000, dur=1_000, corr=corr + 50)]

    found = loop(draw, period=100_000)
    assert ids(found) == ["GT002"]
    assert "waits 40.0 µs per token for room" in found.result.findings[0].text


def test_launch_bound_steps_are_not_called_healthy() -> None:
    assert not {"GT001", "GT002"} & set(ids(loop(launch_bound, period=100_000)))


# --- trust


def test_withheld_causes_silence_all_rules_about_the_host() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        late = [launch(at=at + 40_000, dur=1_000, corr=corr + 900)]
        early = [kernel(GEMM, at=at + 10_000, dur=500, corr=corr + 900)]
        return [*eagers(at, corr, *[GEMM] * 20), *late, *early]

    found = loop(draw, period=100_000)
    assert found.quality.withholds("causes")
    assert ids(found) == ["GT003"]
    assert "clocks" in found.result.findings[0].text


def test_a_trace_without_gpu_work_has_no_step() -> None:
    found = analyze(trace_of(op("aten::mm", at=10, dur=5)))
    assert ids(found) == ["GT004"]
    assert "profile with ProfilerActivity.CUDA" in found.result.findings[0].text


def test_prefill_alone_is_no_decode_step() -> None:
    found = loop(launch_bound, period=100_000, label="step[EXTEND bs=2 toks={}]")
    assert ids(found) == ["GT004"]
    assert "6 prefill" in found.result.findings[0].text


def test_the_profilers_own_idle_is_named_and_in_no_ceiling() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        # Covers 10,000 ns of the gap of 53,500 before the next step.
        return [*launch_bound(at, corr, step), overhead(at=at + 120_000, dur=10_000)]

    found = loop(draw, period=150_000)
    own = the(found, "GT005")
    assert own.ceiling_ns_per_token == 0
    assert "10.0 µs of idle time per token" in own.text
    assert own.places == len([s for s in found.step_table.counted if s])
    # 20 gaps of 3,500 and 50,000 more before the next step, less the profiler's part.
    assert the(found, "GT101").ceiling_ns_per_token == 20 * 3_500 + 50_000 - 10_000


def test_no_word_about_the_profiler_without_overhead() -> None:
    assert "GT005" not in ids(loop(launch_bound, period=100_000))


def manifest(**rest: Any) -> dict[str, Any]:
    return {"schema": "gaptrace.run/1", "step": {"tokens": 1}, **rest}


def test_the_slowdown_is_named_and_ceilings_are_capped_at_unprofiled_idle() -> None:
    run = manifest(unprofiled={"median_ns": 60_000})
    found = loop(launch_bound, period=100_000, manifest=run)
    assert "1.67x the time" in the(found, "GT006").text
    # 60,000 unprofiled less 30,000 busy.
    assert the(found, "GT101").ceiling_ns_per_token == 30_000
    assert "Capped at the unprofiled idle" in the(found, "GT101").text


def test_a_step_that_profiling_does_not_slow_needs_no_word() -> None:
    run = manifest(unprofiled={"median_ns": 99_000})
    assert "GT006" not in ids(loop(launch_bound, period=100_000, manifest=run))
    assert "GT006" not in ids(loop(launch_bound, period=100_000))


# --- the host


def test_launch_bound() -> None:
    found = the(loop(launch_bound, period=100_000), "GT101")
    assert found.title == "launch-bound eager decode"
    assert found.ceiling_ns_per_token == 20 * 3_500
    assert found.places == 5 * 20
    assert "the host makes 20 launch calls" in found.text
    assert found.evidence[0].step in range(5)


def test_ceilings_are_per_token() -> None:
    label = "decode[bs=4 tok=4 d=4] {}"
    found = the(loop(launch_bound, period=100_000, label=label), "GT101")
    assert found.ceiling_ns_per_token == 20 * 3_500 / 4


def test_a_compiled_step_that_is_not_captured_is_named_so() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        return [op("Torch-Compiled Region: 0/0", at=at, dur=99_000), *launch_bound(at, corr, step)]

    assert the(loop(draw, period=100_000), "GT101").title == "launch-bound compiled decode"


def test_a_step_of_few_launches_is_not_launch_bound() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        return eagers(at, corr, *[GEMM] * 9)

    assert "GT101" not in ids(loop(draw, period=45_000))


def test_a_busy_gpu_makes_it_late_launches() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        long = [
            launch(at=at + 100_000, dur=1_000, corr=corr + 500),
            kernel(GEMM, at=at + 101_500, dur=398_500, corr=corr + 500),
        ]
        wait = runtime("cudaDeviceSynchronize", at=at + 102_000, dur=398_000)
        return [*launch_bound(at, corr, step), *long, wait]

    found = loop(draw, period=500_000)
    assert the(found, "GT101").title == "eager decode with late launches"


def test_python_between_ops() -> None:
    found = the(loop(launch_bound, period=100_000), "GT102")
    # Ops cover 3,000 of each 5,000 ns; the rest is Python, half of it while the GPU is idle.
    assert found.ceiling_ns_per_token == 20 * 2_000
    assert "for 20.0 µs of it the GPU is idle" in found.text


def test_no_python_no_finding() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        return [op("model", at=at, dur=100_000), *launch_bound(at, corr, step)]

    assert "GT102" not in ids(loop(draw, period=100_000))


def one_kernel(at: int, corr: int) -> list[Event]:
    """A kernel of 50,000 ns from 2,500 on; the GPU then waits for the next step."""
    return eager(at, corr, dur=50_000)


def with_alloc(at: int, corr: int, step: int) -> list[Event]:
    inside = runtime("cudaMalloc", at=at + 62_000, dur=20_000)
    return [*one_kernel(at, corr), op("aten::empty", at=at + 60_000, dur=25_000), inside]


def test_allocator_calls() -> None:
    found = the(loop(with_alloc, period=100_000), "GT104")
    assert found.ceiling_ns_per_token == 20_000
    assert found.places == 5
    assert "cudaMalloc (1 per token)" in found.text
    assert found.evidence[0].what == "cudaMalloc in aten::empty"


def test_allocator_calls_of_warm_up_do_not_count() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        if step:
            return one_kernel(at, corr)
        work = mark("_compile.compile_inner (dynamo_timed)", at=at + 90_000, dur=5_000)
        return [*with_alloc(at, corr, step), work]

    found = loop(draw, period=100_000)
    assert found.step_table.excluded[0] == "compile work"
    assert "GT104" not in ids(found)


def test_rare_work_is_a_mean_and_says_so() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        return with_alloc(at, corr, step) if step == 2 else one_kernel(at, corr)

    found = the(loop(draw, period=100_000), "GT104")
    assert found.ceiling_ns_per_token == 20_000 / 5
    assert "in 1 of 5 steps, mean over all" in found.text


def stalling(at: int, corr: int, step: int) -> list[Event]:
    loader = op("enumerate(DataLoader)#next", at=at + 100_000, dur=300_000)
    inner = op("aten::stack", at=at + 150_000, dur=50_000)
    return [*one_kernel(at, corr), loader, inner]


def test_one_op_that_stalls_the_host_counts_its_self_time() -> None:
    found = the(loop(stalling, period=500_000), "GT106")
    assert found.ceiling_ns_per_token == 300_000 - 50_000
    assert found.title == "enumerate(DataLoader)#next stalls the host"
    assert found.places == 5


def test_short_ops_stall_nobody() -> None:
    assert "GT106" not in ids(loop(launch_bound, period=100_000))


# --- between steps


def test_host_work_between_steps() -> None:
    found = loop(launch_bound, period=150_000)
    # The last gap of a step is the usual 3,500 and the 50,000 that the period is longer.
    assert the(found, "GT105").ceiling_ns_per_token == 53_500
    assert the(found, "GT105").places == 5
    assert "GT105" not in ids(loop(launch_bound, period=100_000))


def test_a_gap_like_the_others_is_no_work_between_steps() -> None:
    # 12,000 before the next step, 3,500 elsewhere: not five times as much.
    assert "GT105" not in ids(loop(launch_bound, period=108_500))


def sampled(*, nbytes: int, names: tuple[str, ...]) -> Analysis:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        ops = [
            op(name, at=at + 13_000 + 40_000 * index, dur=40_000)
            for index, name in enumerate(names)
        ]
        return [
            *eager(at, corr, dur=7_500),
            op("aten::copy_", at=at + 3_000, dur=9_500),
            launch("cudaMemcpyAsync", at=at + 4_000, dur=8_000, corr=corr + 1),
            memcpy(
                "DtoH (Device -> Pageable)",
                at=at + 10_500,
                dur=1_000,
                corr=corr + 1,
                nbytes=nbytes,
            ),
            *ops,
        ]

    return loop(draw, period=100_000)


def test_sampling_on_the_cpu() -> None:
    found = the(sampled(nbytes=8, names=("aten::softmax", "aten::multinomial")), "GT103")
    # From the end of the copy, 11,500, to the next step's kernel, 102,500.
    assert found.ceiling_ns_per_token == 91_000
    assert found.confidence == "measured"
    assert "aten::multinomial, aten::softmax" in found.text


def test_logits_that_go_to_the_host_are_enough() -> None:
    found = the(sampled(nbytes=64_000, names=()), "GT103")
    assert (found.ceiling_ns_per_token, found.confidence) == (91_000, "likely")


def test_token_ids_that_go_to_the_host_are_no_sampling() -> None:
    found = ids(sampled(nbytes=8, names=()))
    assert "GT103" not in found
    assert "GT105" in found


def test_a_copy_before_the_last_product_is_no_sampling() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        return [
            *eager(at, corr),
            launch("cudaMemcpyAsync", at=at + 4_000, dur=8_000, corr=corr + 1),
            memcpy(
                "DtoH (Device -> Pageable)", at=at + 10_500, dur=1_000, corr=corr + 1, nbytes=64_000
            ),
            op("aten::softmax", at=at + 13_000, dur=10_000),
            *eager(at + 30_000, corr + 2),
        ]

    assert "GT103" not in ids(loop(draw, period=100_000))


def test_sampling_on_the_gpu_is_no_sampling_on_the_cpu() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        return [
            *eager(at, corr, dur=7_500),
            launch("cudaMemcpyAsync", at=at + 4_000, dur=8_000, corr=corr + 1),
            memcpy("DtoH (Device -> Pageable)", at=at + 10_500, dur=1_000, corr=corr + 1, nbytes=8),
            *eager(at + 20_000, corr + 2, "softmax_warp_forward", inside="aten::softmax"),
        ]

    assert "GT103" not in ids(loop(draw, period=100_000))


# --- the state of the GPU


def powered(mean_mw: int, sm_mhz: int, throttle: int = 0) -> dict[str, Any]:
    sample = {"phase": "timed", "power_mw": mean_mw, "sm_mhz": sm_mhz, "throttle": throttle}
    limits = {"power_mw": 700_000, "sm_mhz_max": 2_000}
    return manifest(power={"samples": [sample, sample], "limits": limits})


def test_low_power_beside_idle() -> None:
    found = the(loop(launch_bound, period=100_000, manifest=powered(140_000, 2_000)), "GT601")
    assert found.ceiling_ns_per_token == 0
    assert "140 W of 700 W (20 %)" in found.text


def test_power_near_the_limit_or_a_busy_gpu_needs_no_word() -> None:
    assert "GT601" not in ids(loop(launch_bound, period=100_000, manifest=powered(600_000, 2_000)))
    assert "GT601" not in ids(loop(queued, period=100_000, manifest=powered(140_000, 2_000)))


def test_low_clock() -> None:
    found = the(loop(queued, period=100_000, manifest=powered(700_000, 1_500, 0x4)), "GT602")
    assert found.ceiling_ns_per_token == pytest.approx(100_000 * (1 - 0.75))
    assert found.confidence == "likely"
    assert "software power cap" in found.text


def test_full_clock_needs_no_word() -> None:
    assert "GT602" not in ids(loop(queued, period=100_000, manifest=powered(700_000, 1_950)))


def test_names_of_kernels_used_here_are_of_the_class_they_stand_for() -> None:
    from gaptrace.knowledge.kernel_names import classify

    assert (classify(GEMM).op_class, classify(ADD).op_class) == ("gemm", "pointwise")


# --- the templates


def fields(text: str | tuple[str, ...] | list[str]) -> set[str]:
    """The names that a template asks for."""
    return {name.split(".")[0] for name in re.findall(r"\{([\w.]+)", str(text))}


def test_templates_ask_only_for_what_the_rules_supply() -> None:
    """Every field is a clause or a name that the code of the rules gives a fact."""
    code = "".join(path.read_text() for path in Path(findings.__path__[0]).glob("*.py"))
    known = set(re.findall(r"[\"'](\w+)[\"']|\b(\w+)=", code))
    names = {name for pair in known for name in pair if name}
    for rule in REGISTRY:
        found = template(rule)
        texts = [found.title, found.text, found.evidence, *found.titles.values()]
        for text in (*texts, *found.clauses.values()):
            assert fields(text) <= names | set(found.clauses), (rule, text)
        for name, text in found.clauses.items():
            assert fields(text) or name in names, (rule, name)
        assert set(found.part_of) <= set(REGISTRY) - {rule}


def test_no_clause_is_part_of_itself_and_each_is_part_of_a_text() -> None:
    for rule in REGISTRY:
        found = template(rule)
        below = {name: fields(text) & set(found.clauses) for name, text in found.clauses.items()}
        # `reason` is filled by itself, once for each reason.
        reached = (fields(found.text) | {"reason"}) & set(found.clauses)
        for _ in found.clauses:
            reached |= {name for outer in reached for name in below[outer]}
            assert not any(name in below[name] for name in below), rule
            below = {
                name: inner | {b for a in inner for b in below[a]} for name, inner in below.items()
            }
        own = set(found.clauses) - set(common_clauses())
        assert own <= reached, rule


def test_a_part_of_another_finding_names_it() -> None:
    found = loop(launch_bound, period=100_000)
    assert the(found, "GT102").part_of == "GT101"
    assert the(found, "GT101").part_of is None
