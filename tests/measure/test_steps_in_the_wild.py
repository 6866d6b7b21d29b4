"""What is a step and a token in recordings of every shape: right, or withheld with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from gaptrace.analysis import Analysis, analyze
from gaptrace.measure.options import Options
from tests.builders import (
    Event,
    event,
    frame,
    graph_launch,
    kernel,
    launch,
    mark,
    op,
    runtime,
    trace_of,
)
from tests.measure.recordings import (
    BUSY,
    SLOT,
    Recorder,
    every_second,
    kernels_per_token,
    token_ns,
)

GAP = 40_000
TOKEN = token_ns() + GAP


def analyzed(*events: Event, **options: Any) -> Analysis:
    return analyze(trace_of(*events), Options(**options))


def reasons(a: Analysis) -> dict[str, str]:
    return {reason.id: reason.text for reason in a.quality.reasons}


def figures(a: Analysis) -> tuple[Any, ...]:
    """Kind, steps, period, kernels and rate."""
    s, rate = a.result.steps, a.result.rate.tokens_per_s
    rate = None if rate is None else round(rate)
    return (s.kind, s.count, s.median.period_ns, s.median.kernels, rate)


def per_second(ns: int, tokens: float = 1) -> int:
    return round(tokens * 1e9 / ns)


# A: a mark is not a token ----------------------------------------------------------------------


@pytest.mark.parametrize("layers", [2, 4, 7])
@pytest.mark.parametrize("names", [("layer",), ("attention", "mlp"), ("layer.{i}",)])
def test_marks_of_layers_make_one_token(layers: int, names: tuple[str, ...]) -> None:
    r = Recorder()
    for _ in range(9):
        r.call("embedding_kernel", op_name="aten::embedding")
        for i in range(layers):
            since = r.at
            r.layer()
            middle = (since + r.at) // 2
            edges = (since, middle, r.at) if len(names) > 1 else (since, r.at)
            for name, begin, end in zip(names, edges, edges[1:], strict=False):
                r.events.append(mark(name.format(i=i), at=begin + 100, dur=end - begin - 200))
        r.call("lm_head_kernel", op_name="aten::linear")
        r.call("argmax_kernel", op_name="aten::argmax")
        r.to_host()
        r.pause(GAP)
    a = analyzed(*r.events)
    period = token_ns(layers) + GAP
    assert figures(a) == ("decode", 9, period, kernels_per_token(layers), per_second(period))
    assert "token" in (a.result.steps.checked or "")


@pytest.mark.parametrize("name", ["ProfilerStep#{}", "generate {}", "request {}", "run_inference"])
@pytest.mark.parametrize(("marks", "tokens"), [(1, 12), (3, 16), (4, 5)])
def test_a_mark_around_a_whole_generation_holds_many_tokens(
    name: str, marks: int, tokens: int
) -> None:
    r = Recorder()
    for number in range(marks):
        since = r.at - 5_000
        for _ in range(tokens):
            r.token()
            r.pause(GAP)
        r.mark(name.format(number), since)
    a = analyzed(*r.events)
    assert figures(a) == ("decode", marks * tokens, TOKEN, 23, per_second(TOKEN))


def test_layers_compiled_one_by_one_are_no_tokens() -> None:
    r = Recorder()
    for _ in range(6):
        r.call("embedding_kernel", op_name="aten::embedding")
        for i in range(5):
            since = r.at
            r.layer()
            r.events.append(op(f"Torch-Compiled Region: {i}/0", at=since, dur=r.at - since - 1))
        r.call("lm_head_kernel", op_name="aten::linear")
        r.call("argmax_kernel", op_name="aten::argmax")
        r.to_host()
        r.pause(GAP)
    period = token_ns(5) + GAP
    assert figures(analyzed(*r.events)) == ("decode", 6, period, 28, per_second(period))


def test_marks_of_different_length_are_withheld_or_tokens() -> None:
    r = Recorder()
    for number, tokens in enumerate((3, 9, 14, 5)):
        since = r.at - 5_000
        for _ in range(tokens):
            r.token()
            r.pause(GAP)
        r.mark(f"ProfilerStep#{number}", since)
    a = analyzed(*r.events)
    assert a.result.rate.tokens_per_s is None
    assert "31 tokens" in reasons(a)["marks_disagree"]


def test_the_option_is_obeyed_and_the_disagreement_said() -> None:
    r = Recorder()
    for number in range(3):
        since = r.at - 5_000
        for _ in range(8):
            r.token()
            r.pause(GAP)
        r.mark(f"mine {number}", since)
    a = analyzed(*r.events, step="mine")
    assert a.result.steps.count == 3
    assert "8 tokens" in reasons(a)["marks_disagree"]


# Unmarked loops --------------------------------------------------------------------------------


def unmarked(tokens: int, kernels: Any) -> Recorder:
    """A prefill, then tokens whose kernels are chosen by their length."""
    r = Recorder()
    r.busy = 18_000
    r.token(kernels=[f"prefill_{i}" for i in range(5)])
    r.busy = BUSY
    r.pause(GAP)
    for number in range(tokens):
        r.token(kernels=kernels(number))
        r.pause(GAP)
    return r


@pytest.mark.parametrize(
    "kernels",
    [
        lambda n: [f"k{i}_{n // 3}" for i in range(5)],
        lambda n: [f"k{i}_{n % 2}" for i in range(5)],
        lambda n: [f"k{i}_{n}" for i in range(5)],
    ],
    ids=["now and then", "every second", "every time"],
)
def test_tokens_whose_kernels_change_are_found_by_their_ops(kernels: Any) -> None:
    a = analyzed(*unmarked(12, kernels).events)
    assert figures(a) == ("decode", 12, TOKEN, 23, per_second(TOKEN))
    assert a.result.steps.phases == {"prefill": 1, "decode": 12}


def test_experts_choose_too_but_a_layer_is_no_token() -> None:
    r = Recorder()
    for _ in range(8):
        r.call("embedding_kernel", op_name="aten::embedding")
        for _ in range(6):
            r.layer()
            r.call("topk_kernel", op_name="aten::topk")
        r.call("lm_head_kernel", op_name="aten::linear")
        r.call("argmax_kernel", op_name="aten::argmax")
        r.to_host()
        r.pause(GAP)
    a = analyzed(*r.events)
    period = token_ns(6) + 6 * SLOT + GAP
    assert figures(a) == ("decode", 8, period, 39, per_second(period))


def test_a_loop_without_a_cache_reads_one_token_more_each_time() -> None:
    r = Recorder()
    for length in range(16, 28):
        r.call("embedding_kernel", op_name="aten::embedding", dims=[[32000, 64], [1, length]])
        query = [1, 8, length, 8]
        sdpa = "aten::scaled_dot_product_attention"
        r.call(f"attention_{length}", op_name=sdpa, dims=[query, query, query])
        r.call("multinomial_kernel", op_name="aten::multinomial")
        r.to_host()
        r.pause(GAP)
    period = 4 * SLOT + GAP
    assert figures(analyzed(*r.events)) == ("decode", 12, period, 3, per_second(period))


def picked_then_stopped(tokens: int, first: dict[str, Any]) -> Recorder:
    """Tokens as `generate` makes them: after the choice an op and the copy that ends it."""
    r = Recorder()
    for number in range(tokens):
        r.busy = first.get("busy", BUSY) if number == 0 else BUSY
        r.call("embedding_kernel", op_name="aten::embedding")
        for _ in range(4):
            r.layer(first.get("kernels", ()) if number == 0 else ())
        r.call("lm_head_kernel", op_name="aten::linear")
        r.pause(GAP)  # a pause inside a token, longer than the one behind it
        r.call("argmax_kernel", op_name="aten::argmax")
        r.call("cat_kernel", op_name="aten::cat")
        r.to_host()
    return r


@pytest.mark.parametrize(
    ("first", "decode"),
    [
        ({}, 12),
        ({"kernels": [f"prefill_{i}" for i in range(5)]}, 11),
        ({"busy": 2 * BUSY}, 11),
    ],
    ids=["the same", "other kernels", "longer kernels"],
)
def test_a_first_pass_is_decode_only_if_it_does_what_the_later_ones_do(
    first: dict[str, Any], decode: int
) -> None:
    a = analyzed(*picked_then_stopped(12, first).events)
    period = token_ns() + SLOT + GAP
    assert figures(a) == ("decode", decode, period, 24, per_second(period))
    assert a.result.steps.phases.get("prefill", 0) == 12 - decode


def checked_drafts(iterations: int, drafts: Any, *, passes: bool) -> Recorder:
    """Iterations that draft, by a small model or not, check, and count what is accepted."""
    r = Recorder()
    for number in range(iterations):
        for _ in range(drafts(number) if passes else 0):
            r.token(layers=1)
        r.call("embedding_kernel", op_name="aten::embedding")
        for _ in range(4):
            r.layer()
        r.call("lm_head_kernel", op_name="aten::linear")
        r.call("argmax_kernel", op_name="aten::argmax")
        for name in ("eq", "bitwise_not", "cumsum", "lt", "sum"):
            r.call(f"{name}_kernel", op_name=f"aten::{name}")
        r.to_host()
        for _ in range(drafts(number)):
            r.call("fill_kernel", op_name="aten::fill_")
        r.pause(GAP)
    return r


@pytest.mark.parametrize(
    "drafts", [lambda n: 3, lambda n: 12, lambda n: 2 + n % 3], ids=["few", "many", "changing"]
)
def test_iterations_with_a_draft_model_are_steps_and_their_tokens_a_range(drafts: Any) -> None:
    a = analyzed(*checked_drafts(9, drafts, passes=True).events)
    s, rate = a.result.steps, a.result.rate
    assert (s.kind, s.count + s.phases.get("prefill", 0)) == ("decode", 9)
    assert rate.tokens_per_s is None
    assert rate.tokens_per_s_range is not None
    low, high = rate.tokens_per_s_range
    period = s.median.period_ns
    assert low == pytest.approx(1e9 / period)
    assert high / low == pytest.approx(1 + sorted(drafts(n) for n in range(1, 8))[3])
    assert "--accepted" in reasons(a)["tokens_bounded"]


def test_drafts_that_cost_no_pass_have_no_upper_bound() -> None:
    a = analyzed(*checked_drafts(9, lambda n: 3, passes=False).events)
    assert a.result.steps.kind == "decode"
    assert a.result.rate.tokens_per_s is None
    assert a.result.rate.tokens_per_s_range[1] is None
    given = analyzed(*checked_drafts(9, lambda n: 3, passes=False).events, accepted=1.5)
    assert given.result.rate.tokens_per_s == pytest.approx(
        2.5 * a.result.rate.tokens_per_s_range[0]
    )


def test_a_prompt_is_told_by_the_tokens_that_are_read() -> None:
    r = Recorder()
    for length in [64] + 9 * [1]:
        r.call("embedding_kernel", op_name="aten::embedding", dims=[[32000, 64], [2, length]])
        query = [2, 8, length, 8]
        r.call("attention", op_name="aten::scaled_dot_product_attention", dims=[query] * 3)
        r.call("argmax_kernel", op_name="aten::argmax")
        r.to_host()
        r.pause(GAP)
    assert analyzed(*r.events).result.steps.phases == {"prefill": 1, "decode": 9}


def test_steps_in_which_a_graph_is_captured_are_left_out() -> None:
    r = Recorder()
    for step in range(8):
        since = r.at - 1_000
        if step == 1:
            r.events.append(runtime("cudaStreamBeginCapture_v10000", at=r.at, dur=3_000))
        r.token()
        r.mark(f"ProfilerStep#{step}", since)
        r.pause(GAP)
    s = analyzed(*r.events).result.steps
    assert s.phases == {"decode": 7, "capture": 1}
    assert s.complete == 6


# C: identity -----------------------------------------------------------------------------------


def rank(
    number: int, *, pid: int | str, gpu: int | str, shift: int = 0, first: int = 1
) -> Recorder:
    r = Recorder(at=100_000 + shift, pid=pid, tid=number + 1, gpu_pid=gpu, corr=first)
    for step in range(7):
        since = r.at - 1_000
        r.token()
        r.mark(f"ProfilerStep#{step}", since)
        r.pause(GAP)
    return r


@pytest.mark.parametrize("shift", [0, 7_000, 300_000])
@pytest.mark.parametrize(
    "pids",
    [((500, 0), (1500, 1000)), (("rank0 500", "rank0 0"), ("rank1 500", "rank1 0"))],
    ids=["integers", "texts"],
)
@pytest.mark.parametrize("order", ["one after the other", "by time"])
def test_ranks_whose_ids_collide_are_told_apart(shift: int, pids: Any, order: str) -> None:
    parts = [
        rank(i, pid=host, gpu=gpu, shift=i * shift).events for i, (host, gpu) in enumerate(pids)
    ]
    events = [e for part in parts for e in part]
    if order == "by time":
        events.sort(key=lambda e: e["ts"])
    a = analyzed(*events)
    if "ids_collide" in reasons(a):
        # Only what nobody can tell: the same instants on both ranks, in one mixed order.
        assert (shift, order) == (0, "by time")
        assert a.result.steps.median.period_ns is None
        return
    assert figures(a)[2:4] == (TOKEN, 23)
    assert a.result.steps.median.busy_ns == 23 * BUSY + 2_000
    assert len(a.result.devices) == 2
    assert all(d.orphans == 0 and d.starts_before_launch == 0 for d in a.result.devices)


@pytest.mark.parametrize("first", [1, 90])
@pytest.mark.parametrize("pause", [0, 5_000_000])
def test_ids_that_start_anew_are_two_recordings(first: int, pause: int) -> None:
    one = rank(0, pid=100, gpu=0)
    two = rank(0, pid=100, gpu=0, shift=one.at - 100_000 + pause, first=first)
    a = analyzed(*one.events, *two.events)
    assert figures(a)[1:4] == (7, TOKEN, 23)
    assert a.result.steps.median.launches == 24
    assert [d.device for d in a.result.devices] == ["[recording 1] 0", "[recording 2] 0"]
    assert all(d.orphans == 0 and d.launch_calls == 7 * 24 for d in a.result.devices)


def test_recordings_whose_times_overlap_are_told_apart_by_their_place() -> None:
    one, two = rank(0, pid=100, gpu=0), rank(0, pid=100, gpu=0, shift=3_000)
    a = analyzed(*one.events, *two.events)
    assert figures(a)[1:4] == (7, TOKEN, 23)
    assert len(a.result.devices) == 2


def test_three_restarts() -> None:
    events: list[Event] = []
    at = 0
    for _ in range(3):
        part = rank(0, pid=100, gpu=0, shift=at)
        events += part.events
        at = part.at - 100_000
    a = analyzed(*events)
    assert len(a.result.devices) == 3
    assert figures(a)[1:4] == (7, TOKEN, 23)


def test_two_calls_with_one_id_are_no_restart() -> None:
    r = rank(0, pid=100, gpu=0)
    a = analyzed(*r.events, launch(at=r.at, dur=10, corr=5))
    assert [d.device for d in a.result.devices] == ["0"]


# D: devices and threads ------------------------------------------------------------------------


@pytest.mark.parametrize("devices", [2, 4])
def test_a_pipeline_over_devices_is_one_step_on_all_of_them(devices: int) -> None:
    r = Recorder()
    for step in range(8):
        since = r.at - 1_000
        r.call("embedding_kernel", op_name="aten::embedding")
        for device in range(devices):
            r.device = r.gpu_pid = device
            r.layer()
        r.call("argmax_kernel", op_name="aten::argmax")
        r.to_host()
        r.device = r.gpu_pid = 0
        r.mark(f"ProfilerStep#{step}", since)
        r.pause(GAP)
    a = analyzed(*r.events)
    s = a.result.steps
    count = 2 + 5 * devices
    assert (s.median.kernels, s.median.launches, s.median.copies) == (count, count + 1, 1)
    assert s.median.period_ns == (count + 1) * SLOT + GAP
    assert s.median.busy_ns == count * BUSY + 2_000
    assert [d.device for d in s.devices] == [str(i) for i in range(devices)]
    assert sum(d.kernels or 0 for d in s.devices) == count
    assert sum(d.busy_ns or 0 for d in s.devices) == count * BUSY + 2_000
    assert analyzed(*r.events, device="0").result.steps.median.kernels == (6 if devices > 1 else 7)


@pytest.mark.parametrize("turns", [[1, 2], [1, 1, 2, 2], [1, 2, 3]])
@pytest.mark.parametrize("name", ["ProfilerStep#{}", "decode_step", "step {}"])
def test_threads_that_take_turns_are_one_sequence(turns: list[int], name: str) -> None:
    r = Recorder()
    for step in range(12):
        r.tid = turns[step % len(turns)]
        since = r.at - 1_000
        r.token()
        r.mark(name.format(step), since)
        r.pause(GAP)
    a = analyzed(*r.events)
    assert figures(a) == ("decode", 12, TOKEN, 23, per_second(TOKEN))


def test_threads_at_the_same_time_are_not() -> None:
    one = Recorder(tid=1)
    two = Recorder(tid=2, corr=10_000)
    for r in (one, two):
        for step in range(8):
            since = r.at - 1_000
            r.token()
            r.mark(f"ProfilerStep#{step}", since)
            r.pause(GAP)
    assert analyzed(*one.events, *two.events).result.steps.count == 8


# E: what is not read ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "word"),
    [
        ([event("mtia_ccp_events", "fc", at=50, dur=5, pid=0, tid=1)], "MTIA"),
        ([event("GCU_MEMCPY", "copy", at=50, dur=5, pid=0, tid=1)], "GCU"),
        ([event("mlu_memcpy", "copy", at=50, dur=5, pid=0, tid=1)], "MLU"),
        ([event("hpu_op", "gemm", at=50, dur=5, pid=0, tid=1)], "HPU"),
        ([op("npu::npu_swiglu", at=60, dur=5)], "NPU"),
        ([launch(at=60, dur=5, corr=1)], "lost or dropped"),
        ([event("strange_work", "x", at=50, dur=5)], "strange_work (1)"),
        ([], "ProfilerActivity.CUDA"),
    ],
)
def test_a_trace_without_gpu_ops_says_what_was_not_read(extra: list[Event], word: str) -> None:
    a = analyzed(op("aten::mm", at=10, dur=5), *extra)
    assert a.quality.verdict == "refused"
    assert word in reasons(a)["no_gpu_ops"]


def test_calls_of_another_makers_fork_beside_kernels_are_named_and_withheld() -> None:
    r = rank(0, pid=100, gpu=0)
    events = [
        {**e, "cat": "mlu_runtime"} if e["cat"] == "cuda_runtime" else e
        for e in r.events
        if e["cat"] != "gpu_memcpy"
    ]
    a = analyzed(*events)
    assert "mlu_runtime" in reasons(a)["unread_categories"]
    assert "MLU" in reasons(a)["unread_categories"]
    assert a.result.steps.median.launches is None


# I: windows and populations --------------------------------------------------------------------


def test_a_batch_that_grows_is_reported_per_size() -> None:
    r = Recorder()
    for size, tokens in ((1, 10), (8, 6), (32, 12)):
        r.busy = BUSY + 100 * size
        for _ in range(tokens):
            since = r.at - 1_000
            r.token()
            r.mark(f"execute_context_0(0)_generation_{size}({size})", since)
            r.pause(GAP + 1_000 * size)
    a = analyzed(*r.events)
    period = TOKEN + 32_000
    assert figures(a) == ("decode", 28, period, 23, per_second(period, 32))
    assert (a.result.steps.batch, a.result.steps.tokens_per_step) == (32, 32)
    assert {(p.batch, p.steps) for p in a.result.phases} == {(1, 10), (8, 6), (32, 12)}
    assert "batch" in reasons(a)["batch_sizes"]


def test_a_batch_size_for_every_step_is_mixed() -> None:
    r = Recorder()
    sizes = [10 + i for i in range(12)]
    for size in sizes:
        since = r.at - 1_000
        r.token()
        r.mark(f"step[DECODE bs={size}]", since)
        r.pause(GAP)
    a = analyzed(*r.events)
    assert "mixed batch" in reasons(a)["batch_sizes"]
    assert a.result.rate.tokens_per_s == pytest.approx(sum(sizes[:-1]) * 1e9 / (11 * TOKEN))


@pytest.mark.parametrize("each", [2, 3, 5])
def test_cycles_of_the_profiler_that_were_joined(each: int) -> None:
    r = Recorder()
    for cycle in range(4):
        for step in range(each):
            since = r.at - 1_000
            r.token()
            r.mark(f"ProfilerStep#{cycle * 10 + step}", since)
            r.pause(GAP)
        r.pause(7 * TOKEN)
    s = analyzed(*r.events).result.steps
    assert (s.median.period_ns, s.p95.period_ns, s.p5.period_ns) == (TOKEN, TOKEN, TOKEN)
    assert s.outside == {"not recorded": 3}


@pytest.mark.parametrize("decodes", [3, 6])
def test_a_server_that_waits_for_requests(decodes: int) -> None:
    r = Recorder()
    for _ in range(6):
        for name in ["execute_context_1(64)_generation_0(0)"] + decodes * [
            "execute_context_0(0)_generation_1(1)"
        ]:
            since = r.at - 1_000
            r.token()
            r.mark(name, since)
            r.pause(GAP)
        r.pause(9 * TOKEN)
    a = analyzed(*r.events)
    s = a.result.steps
    assert (s.median.period_ns, s.p95.period_ns) == (TOKEN, TOKEN)
    assert s.outside == {"between requests": 5}
    assert "request" in reasons(a)["between_requests"]


def test_a_waiting_frame_is_evidence_and_silence_is_none() -> None:
    def run(*, framed: bool) -> Analysis:
        r = Recorder()
        for step in range(16):
            since = r.at - 1_000
            r.token()
            r.mark(f"decode_step {step}", since)
            r.pause(GAP)
            if step % 4 == 3:
                if framed:
                    r.events.append(frame("queue.py(154): get", at=r.at, dur=8 * TOKEN))
                r.pause(8 * TOKEN)
        return analyzed(*r.events)

    told, silent = run(framed=True), run(framed=False)
    for a in (told, silent):
        assert a.result.steps.p95.period_ns == TOKEN
    assert told.result.steps.outside == {"between requests": 3}
    assert silent.result.steps.outside == {"pause": 3}
    assert "host code that was not traced" in reasons(silent)["pauses"]


def test_host_code_after_every_step_is_the_loops_own_time() -> None:
    r = Recorder()
    for step in range(12):
        r.events.append(mark(f"decode {step}", at=r.at - 1_000, dur=100_000))
        r.events.append(graph_launch(at=r.at, dur=5_000, corr=r.corr))
        r.events += [
            kernel(f"k{i}", at=r.at + 8_000 + 10_000 * i, dur=9_000, corr=r.corr) for i in range(5)
        ]
        r.corr += 1
        r.pause(600_000)
    s = analyzed(*r.events).result.steps
    assert (s.median.period_ns, s.outside) == (600_000, {})


# J: one record twice ---------------------------------------------------------------------------


def test_records_that_stand_there_twice_count_once() -> None:
    r = rank(0, pid=100, gpu=0)
    once, twice = analyzed(*r.events), analyzed(*every_second(r.events))
    whole = analyzed(*r.events, *r.events)
    for a in (twice, whole):
        assert figures(a) == figures(once)
        assert a.result.devices == once.result.devices
        assert "once" in reasons(a)["written_twice"]


# K: what is not decoding -----------------------------------------------------------------------


def classifier(*, fed: int, head: bool) -> Recorder:
    r = Recorder()
    for step in range(8):
        since = r.at - 1_000
        if fed:
            r.from_host(fed)
        if head:
            r.call("embedding_kernel", op_name="aten::embedding")
        for _ in range(3):
            r.layer()
        r.call("argmax_kernel", op_name="aten::argmax")
        r.to_host()
        r.mark(f"ProfilerStep#{step}", since)
        r.pause(GAP)
    return r


@pytest.mark.parametrize(("fed", "head"), [(602_112, False), (4_096, True), (0, False)])
def test_a_classifier_is_inference(fed: int, head: bool) -> None:
    a = analyzed(*classifier(fed=fed, head=head).events)
    kind, count, period, _, rate = figures(a)
    assert (kind, count, rate) == ("inference", 8, None)
    assert a.result.per_token.kernels is None
    assert a.result.rate.steps_per_s == pytest.approx(1e9 / period)
    assert not a.sentence.startswith("Decode")
    assert {p.phase for p in a.result.phases} == {"inference"}


@pytest.mark.parametrize("name", ["execute_diffusion_1_256x256", "vae_decode_image", "tokenize {}"])
def test_words_within_words_say_nothing(name: str) -> None:
    r = classifier(fed=602_112, head=False)
    events = [
        {**e, "name": name.format(i)} if e["cat"] == "user_annotation" else e
        for i, e in enumerate(r.events)
    ]
    assert analyzed(*events).result.steps.kind == "inference"


def test_training_has_no_tokens() -> None:
    r = classifier(fed=4_096, head=True)
    a = analyzed(*r.events, op("AddmmBackward0", at=r.at, dur=10))
    assert figures(a)[::4] == ("training", None)


@pytest.mark.parametrize(
    ("query", "kind"), [([1, 8, 1, 64], "decode"), ([1, 8, 77, 64], "inference")]
)
def test_the_length_of_the_query_decides(query: list[int], kind: str) -> None:
    r = Recorder()
    for step in range(6):
        since = r.at - 1_000
        r.call("embedding_kernel", op_name="aten::embedding")
        r.call(
            "attention", op_name="aten::scaled_dot_product_attention", dims=[query, query, query]
        )
        r.call("lm_head_kernel", op_name="aten::linear")
        r.mark(f"ProfilerStep#{step}", since)
        r.pause(GAP)
    assert analyzed(*r.events).result.steps.kind == kind


def test_tokens_that_are_given_are_tokens_of_any_kind() -> None:
    r = classifier(fed=602_112, head=False)
    a = analyzed(*r.events, tokens_per_step=2.5)
    period = a.result.steps.median.period_ns
    assert a.result.rate.tokens_per_s == pytest.approx(2.5e9 / (period or 0))


# Speculation -----------------------------------------------------------------------------------


def speculative(drafts: int, *, extend: bool = True, outer: str = "") -> Recorder:
    r = Recorder()
    for _ in range(7):
        begun = r.at - 2_000
        for name in (
            drafts * ["step[DRAFT bs=4]"]
            + ["step[VERIFY bs=4]"]
            + extend * ["step[DRAFT_EXTEND bs=4]"]
        ):
            since = r.at - 1_000
            r.token(layers=1)
            r.mark(name, since)
        if outer:
            r.events.append(mark(outer, at=begun, dur=r.at - begun - 1))
        r.pause(GAP)
    return r


@pytest.mark.parametrize("drafts", [1, 3])
@pytest.mark.parametrize("extend", [True, False])
@pytest.mark.parametrize("outer", ["", "scheduler.run_batch", "my iteration"])
def test_an_iteration_is_drafts_verify_and_extend(drafts: int, extend: bool, outer: str) -> None:
    a = analyzed(*speculative(drafts, extend=extend, outer=outer).events)
    period = (drafts + 1 + extend) * token_ns(1) + GAP
    assert figures(a) == ("decode", 7, period, (drafts + 1 + extend) * 8, None)
    low, high = a.result.rate.tokens_per_s_range or (None, None)
    assert low == pytest.approx(4e9 / period)
    assert high is None
    assert "accepted" in reasons(a)["tokens_bounded"]
    assert a.result.steps.tokens_per_step is None


def test_accepted_drafts_make_the_range_a_number() -> None:
    events = speculative(1).events
    period = 3 * token_ns(1) + GAP
    a = analyzed(*events, accepted=1.5)
    assert a.result.rate.tokens_per_s == pytest.approx(4 * 2.5e9 / period)
    assert analyzed(*events, tokens_per_step=6).result.rate.tokens_per_s == pytest.approx(
        6e9 / period
    )


def test_work_that_ends_before_an_earlier_step_begins_leaves_no_negative_time() -> None:
    """Two streams out of order; the recording stops after step 1, which its own work ends."""
    events: list[Event] = []
    at = [(0, 10_000, 90_000), (1, 30_000, 40_000), (5, 200_000, 210_000), (6, 300_000, 310_000)]
    for corr, (number, start, begins) in enumerate(at, start=1):
        events += [
            mark(f"gaptrace.step#{number}", at=start, dur=10_000),
            launch(at=start + 2_000, dur=1_000, corr=corr),
            kernel("gemm", at=begins, dur=5_000, corr=corr, stream=6 + corr),
        ]
    steps = analyzed(*events).step_table
    assert steps is not None
    assert steps.closed[1] == "not recorded"
    assert (steps.period_ns >= 0).all()
    assert (steps.idle_ns >= 0).all()
