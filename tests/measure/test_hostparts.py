"""Host time by engine part: labels and Python frames, the innermost one claims the instant."""

from __future__ import annotations

import pytest

from gaptrace.measure.analyze import measure
from gaptrace.measure.hostparts import PartTimes, host_parts
from gaptrace.results.analysis import HostParts
from tests.builders import Event, frame, kernel, launch, mark, trace_of

STEP, COUNT = 1000, 4
SCHEDULER = "vllm/v1/core/sched/scheduler.py(699): schedule"
SAMPLER = "vllm/v1/worker/gpu_model_runner.py(3403): _sample"
PREPARE = "vllm/v1/worker/gpu_model_runner.py(1924): _prepare_inputs"
FORWARD = "vllm/v1/worker/gpu_model_runner.py(3586): _model_forward"


def steps(text: str, *inside: Event, tid: int = 1) -> list[Event]:
    """Steps of 1000 ns: a mark of 600, a launch at 300, a kernel 400 to 800, and what is inside."""
    events: list[Event] = []
    for step in range(COUNT):
        at = 1000 + STEP * step
        events += [
            mark(text, at=at, dur=600, tid=tid),
            launch(at=at + 300, dur=10, corr=step + 1, tid=tid),
            kernel("k", at=at + 400, dur=400, corr=step + 1),
        ]
        events += [{**event, "ts": event["ts"] + at} for event in inside]
    return events


def parts_of(*events: Event) -> PartTimes:
    found = measure(trace_of(*events)).part_times
    assert found is not None
    return found


def result_of(*events: Event) -> HostParts:
    measured = measure(trace_of(*events))
    found = host_parts(measured.part_times, measured.step_table, measured.quality)
    assert found is not None
    return found


def first(found: PartTimes) -> dict[str, int]:
    """The parts of the first step that took any time."""
    return {part: int(ns) for part, ns in zip(found.parts, found.ns[0], strict=True) if ns}


VLLM = "execute_context_0(0)_generation_8(8)"
CASES = {
    "vLLM scopes": (
        [
            mark("gpu_model_runner: preprocess", at=0, dur=200),
            mark("gpu_model_runner: forward", at=200, dur=300),
            mark("gpu_model_runner: sample", at=700, dur=100),
            mark("gpu_model_runner: bookkeep", at=800, dur=50),
            mark("schedule: allocate_slots", at=900, dur=60),
        ],
        VLLM,
        ("labels", "vLLM"),
        {"prepare": 200, "forward": 300, "other": 100, "sample": 100, "output": 50}
        | {"schedule": 60, "between": 100 + 50 + 40},
    ),
    "vLLM frames": (
        [
            frame(PREPARE, at=10, dur=190),
            frame(FORWARD, at=200, dur=350),
            frame(SAMPLER, at=650, dur=100),
            frame(SCHEDULER, at=800, dur=150),
        ],
        VLLM,
        ("Python frames", "vLLM"),
        {"prepare": 190, "forward": 350, "other": 60, "sample": 100, "schedule": 150}
        | {"between": 150},
    ),
    "SGLang scheduler": (
        [
            mark("scheduler.run_batch", at=0, dur=700),
            mark("scheduler.process_batch_result", at=710, dur=100),
            mark("scheduler.recv_requests", at=810, dur=40),
            mark("scheduler.get_next_batch_to_run", at=850, dur=80),
        ],
        "step[DECODE bs=8]",
        ("labels", "SGLang"),
        {"forward": 600, "other": 100, "output": 100, "ipc": 40, "schedule": 80, "between": 80},
    ),
    "SGLang idle": (
        [mark("scheduler.idle", at=650, dur=300)],
        "step[DECODE bs=8]",
        ("labels", "SGLang"),
        {"forward": 600, "between": 400},
    ),
    "TensorRT-LLM": (
        [
            mark("_prepare_inputs", at=20, dur=100),
            mark("_sample_async", at=600, dur=100),
            mark("_update_requests", at=700, dur=100),
            mark("_fetch_new_requests", at=800, dur=100),
            mark("_schedule", at=900, dur=100),
        ],
        "[Executor] _forward_step 9: 0 ctx reqs, 8 gen reqs",
        ("labels", "TensorRT-LLM"),
        {"forward": 500, "prepare": 100, "sample": 100, "output": 100, "ipc": 100, "schedule": 100},
    ),
    "ATOM": (
        [
            frame("atom/model_engine/model_runner.py(2496): prepare_inputs", at=700, dur=100),
            frame("atom/model_engine/scheduler.py(1099): schedule", at=800, dur=100),
        ],
        "decode[bs=8 tok=8 d=8]",
        ("labels and Python frames", "ATOM"),
        {"forward": 600, "prepare": 100, "schedule": 100, "between": 200},
    ),
    "LMDeploy": (
        [mark("sampling_logits", at=600, dur=100), mark("make_forward_inputs", at=700, dur=200)],
        "forward_cudagraph",
        ("labels", "LMDeploy"),
        {"forward": 600, "sample": 100, "prepare": 200, "between": 100},
    ),
    "no part shown": ([], VLLM, (None, "vLLM"), {"other": 600, "between": 400}),
    "no engine": (
        [mark("_sample_async", at=600, dur=100), frame("x/scheduler.py(1): schedule", at=0, dur=9)],
        "ProfilerStep#0",
        (None, None),
        {"other": 600, "between": 400},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_parts_of_a_step(name: str) -> None:
    inside, text, (source, engine), expected = CASES[name]
    found = parts_of(*steps(text, *inside))
    assert (found.source, found.engine) == (source, engine)
    assert first(found) == expected
    # The open step ends with its last launch call, 310 ns after its mark began.
    assert found.ns.sum(axis=1).tolist() == [STEP] * (COUNT - 1) + [310]
    assert (found.ns >= 0).all()


def test_the_inner_of_two_parts_has_the_time() -> None:
    outer = mark("llm_engine step: process_outputs", at=600, dur=300)
    inner = frame("vllm/v1/engine/detokenizer.py(96): update", at=700, dur=100)
    assert first(parts_of(*steps(VLLM, outer, inner))) == {
        "other": 600,
        "output": 200,
        "detokenize": 100,
        "between": 100,
    }


def test_a_part_that_reaches_into_the_next_step_is_split_between_them() -> None:
    long = mark("schedule: update_after_schedule", at=900, dur=300)
    found = parts_of(*steps(VLLM, long))
    schedule = found.ns[:, found.parts.index("schedule")]
    assert schedule.tolist() == [100, 300, 300, 200]


def test_what_another_thread_does_is_no_part_of_the_step() -> None:
    elsewhere = mark("gpu_model_runner: sample", at=0, dur=900, tid=77)
    found = parts_of(*steps(VLLM, elsewhere))
    assert found.source is None
    assert first(found) == {"other": 600, "between": 400}


def test_idle_between_steps_is_the_gpus_and_stands_without_any_part() -> None:
    found = parts_of(*steps("ProfilerStep#0"))
    assert found.idle_between_ns.tolist() == [600, 600, 600, 0]


def test_the_result_gives_medians_and_totals_that_sum_to_the_windows() -> None:
    inside, text, _, expected = CASES["vLLM scopes"]
    shown = result_of(*steps(text, *inside))
    assert shown.steps == COUNT - 1
    assert sum(part.total_ns for part in shown.parts) == shown.host_window_ns == 3 * STEP
    assert {part.part: part.median_ns for part in shown.parts if part.median_ns} == expected
    assert shown.idle_between_steps_ns == 600
    without = result_of(*steps("ProfilerStep#0"))
    assert (without.source, without.parts) == (None, ())
    assert without.idle_between_steps_ns == 600
