"""Labels of serving engines: each style of engines.toml, read as its engine means it."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from gaptrace.knowledge.engines import label_styles
from gaptrace.measure.labels import Label, marks_step, read_label, read_together
from gaptrace.measure.links import link
from gaptrace.measure.marks import find_marks
from tests.builders import kernel, launch, mark, trace_of


class Row(NamedTuple):
    """What one text says: (fewest, most) tokens, None for no bound or nothing said."""

    engine: str | None
    text: str
    phase: str | None
    batch: int | None
    tokens: tuple[int | None, int | None]
    role: str = "step"
    prompt: int | None = None


NOTHING = (None, None)
VLLM, SGLANG, TRTLLM, ATOM, LMDEPLOY = "vLLM", "SGLang", "TensorRT-LLM", "ATOM", "LMDeploy"
# fmt: off
ROWS = (
    Row(VLLM, "execute_context_0(0)_generation_2(2)", "decode", 2, (2, 2), prompt=0),
    Row(VLLM, "execute_context_0(0)_generation_8(32)", "decode", 8, (8, 32), prompt=0),
    Row(VLLM, "execute_context_1(888_788544)_generation_0(0)", "prefill", 1, (0, 1), prompt=888),
    Row(VLLM, "execute_context_2(6144)_generation_3(3)", "mixed", 5, (3, 5), prompt=6144),
    Row(VLLM, "execute_context_0(0)_generation_0(0)", "idle", 0, (0, 0), prompt=0),
    Row(VLLM, "execute_16_context_0(sq0sk0sqsq0sqsk0)_generation_16(sq16sk8193sqsq16sqsk8193)",
        "decode", 16, (16, 16), prompt=0),
    Row(VLLM, "execute_128_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq128sk65536sqsq512sqsk9)",
        "decode", 32, (32, 128), prompt=0),
    Row(VLLM, "execute_8192_context_9(sq8155sk8430sqsq7sqsk7)_generation_37(sq37sk3sqsq37sqsk3)",
        "mixed", 46, (37, 46), prompt=8155),
    Row(VLLM, "execute_new_0_cached_32", "decode", 32, (32, 32)),
    Row(VLLM, "execute_new_4_cached_8", "mixed", 12, (8, 12)),
    Row(VLLM, "execute_new_4_cached_0", "prefill", 4, (0, 4)),
    Row(VLLM, "execute_new_0_cached_0", "idle", 0, (0, 0)),
    Row(VLLM, "execute_dummy_batch", "idle", None, (0, 0)),
    Row(VLLM, "llm_engine step", None, None, NOTHING, "iteration"),
    Row(VLLM, "llm_engine step: process_outputs", None, None, NOTHING, "part"),
    Row(VLLM, "gpu_model_runner: forward", None, None, NOTHING, "part"),
    Row(VLLM, "schedule: allocate_slots", None, None, NOTHING, "part"),
    Row(VLLM, "capture_64_FULL", "capture", None, NOTHING, "capture"),
    Row(VLLM, "capture_8_PIECEWISE", "capture", None, NOTHING, "capture"),
    Row(VLLM, "capture_128_decode", "capture", None, NOTHING, "capture"),
    Row(VLLM, "capture_256_mixed_prefill", "capture", None, NOTHING, "capture"),
    Row(SGLANG, "step[DECODE bs=16]", "decode", 16, (16, 16)),
    Row(SGLANG, "step[DECODE bs=8 g_sq=8 g_sqsq=8 g_sqsk=512 g_sk=512 forward_id=3]",
        "decode", 8, (8, 8)),
    Row(SGLANG, "step[DECODE bs=64 g_sq=128 g_sqsq=256 g_sqsk=9 g_sk=9]", "decode", 64, (64, 128)),
    Row(SGLANG, "step[EXTEND bs=15 toks=15360]", "prefill", 15, (0, 15), prompt=15360),
    Row(SGLANG, "step[EXTEND bs=2 toks=90 c_sq=90 c_sqsq=8 c_sqsk=8 c_sk=90]",
        "prefill", 2, (0, 2), prompt=90),
    Row(SGLANG, "step[SPLIT_PREFILL bs=2]", "prefill", 2, (0, 2)),
    Row(SGLANG, "step[MIXED bs=3]", "mixed", 3, (0, 3)),
    Row(SGLANG, "step[MIXED bs=5 c=2 g=3 c_sq=6144 c_sk=1 c_sqsq=1 c_sqsk=1 g_sq=3 g_sk=6]",
        "mixed", 5, (3, 5), prompt=6144),
    Row(SGLANG, "step[MIXED bs=1 c=1 g=0 c_sq=3 c_sk=3 g_sq=0]", "prefill", 1, (0, 1), prompt=3),
    Row(SGLANG, "step[IDLE bs=0]", "idle", 0, (0, 0)),
    Row(SGLANG, "step[PREBUILT bs=4]", "idle", 4, (0, 0)),
    Row(SGLANG, "step[VERIFY bs=2]", "decode", 2, (2, None), "verify"),
    Row(SGLANG, "step[TARGET_VERIFY bs=2 g_sq=8 g_sqsq=32]", "decode", 2, (2, 8), "verify"),
    Row(SGLANG, "step[DRAFT bs=2]", "draft", 2, NOTHING, "draft"),
    Row(SGLANG, "step[DRAFT bs=2 toks=40]", "draft", 2, NOTHING, "draft"),
    Row(SGLANG, "step[DRAFT_LOOP raw_bs=6 bs=8 topk=1]", "draft", 6, NOTHING, "draft"),
    Row(SGLANG, "step[DRAFT_EXTEND bs=4]", "draft", 4, NOTHING, "draft_extend"),
    Row(SGLANG, "step[DRAFT_EXTEND_V2 bs=4 c_sq=12]", "draft", 4, NOTHING, "draft_extend"),
    Row(SGLANG, "step[DLLM_EXTEND bs=4]", "decode", 4, (0, None)),
    Row(SGLANG, "step[NEW_MODE bs=4]", "new_mode", 4, NOTHING),
    Row(SGLANG, "scheduler.run_batch", None, None, NOTHING, "iteration"),
    Row(SGLANG, "scheduler.recv_requests", None, None, NOTHING, "part"),
    Row(SGLANG, "scheduler.idle", None, None, NOTHING, "part"),
    Row(None, "run_batch", None, None, NOTHING, "iteration"),
    Row(None, "draft", "draft", None, NOTHING, "draft"),
    Row(None, "verify", "decode", None, NOTHING, "verify"),
    Row(None, "draft_extend", "draft", None, NOTHING, "draft_extend"),
    Row(TRTLLM, "[Executor] _forward_step 71: 0 ctx reqs, 0 ctx tokens, 32 gen reqs",
        "decode", 32, (32, 32), prompt=0),
    Row(TRTLLM, "[Executor] _forward_step 2: 1 ctx reqs, 90 ctx tokens, 0 gen reqs",
        "prefill", 1, (0, 1), prompt=90),
    Row(TRTLLM, "[Executor] _forward_step 71: 0 ctx reqs, 32 gen reqs", "decode", 32, (32, 32)),
    Row(TRTLLM, "[Executor] _forward_step 9: 2 ctx reqs, 5 gen reqs", "mixed", 7, (5, 7)),
    Row(TRTLLM, "_forward_step: 2 ctx reqs, 0 gen reqs", "prefill", 2, (0, 2)),
    Row(TRTLLM, "[Executor] _forward_step", None, None, NOTHING),
    Row(ATOM, "decode[bs=64 tok=64 d=64]", "decode", 64, (64, 64)),
    Row(ATOM, "decode[bs=16]", "decode", 16, (16, 16)),
    Row(ATOM, "decode[bs=117/128 tok=117 d=117 sqsq=117 sqsk=9 sk=9]", "decode", 117, (117, 117)),
    Row(ATOM, "decode[bs=32 tok=128 d=32 spec=3]", "decode", 32, (32, 128)),
    Row(ATOM, "decode[bs=128 tok=384 p=2 d=126 spec=3 tbo=1]", "mixed", 128, (126, 386)),
    Row(ATOM, "eager_decode[bs=300 tok=300 ctx=[8, 9, 9]...+297]", "decode", 300, (300, 300)),
    Row(ATOM, "prefill[bs=2 tok=14721 ctx=[7803, 6918]]", "prefill", 2, (0, 2), prompt=14721),
    Row(ATOM, "dummy_decode[bs=1/8 tok=1 d=1]", "idle", 1, (0, 0)),
    Row(ATOM, "dummy_prefill[bs=1 tok=16 ctx=16]", "idle", 1, (0, 0)),
    Row(ATOM, "draft[0/3 bs=64]", "draft", 64, NOTHING, "draft"),
    Row(ATOM, "capture_graph_bs_64", "capture", None, NOTHING, "capture"),
    Row(LMDEPLOY, "forward_cudagraph", "decode", None, NOTHING),
    Row(LMDEPLOY, "forward_eager", None, None, NOTHING),
    Row(LMDEPLOY, "sampling_logits", None, None, NOTHING, "part"),
    Row(LMDEPLOY, "make_forward_inputs", None, None, NOTHING, "part"),
    Row(LMDEPLOY, "capture_cudagraph", "capture", None, NOTHING, "capture"),
    Row(LMDEPLOY, "draft_model_forward", "draft", None, NOTHING, "draft"),
    Row(None, "decode", "decode", None, NOTHING),
    Row(None, "decode_step#3", "decode", None, NOTHING),
    Row(None, "generate token 7", "decode", None, NOTHING),
    Row(None, "prefill", "prefill", None, NOTHING),
)
# fmt: on


@pytest.mark.parametrize("row", ROWS, ids=[row.text for row in ROWS])
def test_a_label_says(row: Row) -> None:
    label = read_label(row.text)
    assert label.engine == row.engine
    assert (label.role, label.phase, label.batch) == (row.role, row.phase, row.batch)
    assert (label.tokens_low, label.tokens_high) == row.tokens
    assert label.tokens == (row.tokens[0] if row.tokens[0] == row.tokens[1] else None)
    assert label.prompt_tokens == row.prompt
    assert label.known == (row.engine is not None)


def test_every_style_of_the_data_has_a_row_and_reads_its_example() -> None:
    read = {read_label(row.text).style for row in ROWS}
    for style in label_styles():
        assert style.style in read
        assert read_label(style.example).style == style.style


@pytest.mark.parametrize(
    "text",
    [
        "ProfilerStep#3", "forward", "model_inference", "generate_masks 12", "gaptrace.step#3",
        "execute_diffusion_1_1024x1024", "## decoder fp0 None ##", "aten::_forward", "capture_1",
        "my_decode[0]", "## Call CompiledFxGraph fxyz ##", "step", "stepping[DECODE]", "tokenizer",
        "nccl:all_reduce", "decoder", "",
    ],
)  # fmt: skip
def test_other_texts_are_no_labels(text: str) -> None:
    assert read_label(text) == Label()


def test_marks_of_steps_are_passes_of_the_target_model_and_what_encloses_an_iteration() -> None:
    for row in ROWS:
        marks = row.engine is not None and row.role in ("step", "iteration", "verify")
        assert marks_step(row.text) == marks


@pytest.mark.parametrize("row", [row for row in ROWS if marks_step(row.text)], ids=lambda r: r.text)
def test_a_trace_with_such_labels_has_them_as_steps(row: Row) -> None:
    events = []
    for step in range(3):
        at = 100 + 100 * step
        events += [
            mark(row.text, at=at, dur=60),
            launch(at=at + 5, dur=2, corr=step + 1),
            kernel("k", at=at + 20, dur=30, corr=step + 1),
        ]
    trace = trace_of(*events)
    marks = find_marks(trace, link(trace))
    assert marks.rule == "engine labels"
    assert marks.start.tolist() == [100, 200, 300]
    assert {(label.phase, label.batch) for label in marks.label} == {(row.phase, row.batch)}


def test_decode_beside_verify_of_the_same_batch_is_the_draft_model() -> None:
    texts = ["step[DECODE bs=4]", "step[TARGET_VERIFY bs=4]", "step[DECODE bs=9]"]
    labels = read_together([read_label(text) for text in texts])
    assert [(label.phase, label.role, label.tokens_low) for label in labels] == [
        ("draft", "draft", None),
        ("decode", "verify", 4),
        ("decode", "step", 9),
    ]


def test_an_eager_pass_beside_replays_is_prefill_and_alone_it_tells_no_phase() -> None:
    eager, replay = read_label("forward_eager"), read_label("forward_cudagraph")
    assert [label.phase for label in read_together([eager, replay])] == ["prefill", "decode"]
    assert [label.phase for label in read_together([eager])] == [None]


@pytest.mark.parametrize(
    ("outer", "inner", "phase", "batch", "bounds"),
    [
        ("scheduler.run_batch", ["draft", "step[DRAFT bs=8]", "step[VERIFY bs=8]", "draft_extend"],
         "decode", 8, (8, None)),
        ("scheduler.run_batch", ["step[EXTEND bs=2 toks=9]", "step[DRAFT bs=2 toks=9]"],
         "prefill", 2, (0, 2)),
        ("run_batch", ["step[DECODE bs=3]"], "decode", 3, (3, 3)),
        ("llm_engine step", ["schedule: allocate_slots", "execute_context_0(0)_generation_8(32)"],
         "decode", 8, (8, 32)),
        ("scheduler.run_batch", ["step[EXTEND bs=2 toks=9]", "step[DECODE bs=3]"],
         "mixed", 5, NOTHING),
        ("execute_context_0(0)_generation_4(8)", ["step[DECODE bs=4]"], "decode", 4, (4, 8)),
        ("ProfilerStep#0", ["decode[bs=2 tok=2 d=2]", "draft[0/1 bs=2]"], "decode", 2, (2, 2)),
    ],
)  # fmt: skip
def test_an_outer_span_takes_what_it_lacks_from_the_labels_in_it(
    outer: str,
    inner: list[str],
    phase: str,
    batch: int,
    bounds: tuple[int | None, int | None],
) -> None:
    label = read_label(outer)
    for text in inner:
        label = label.filled_from(read_label(text))
    assert (label.phase, label.batch) == (phase, batch)
    assert (label.tokens_low, label.tokens_high) == bounds
