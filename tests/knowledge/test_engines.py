"""The engines' data is sound, and ENGINES.md says what it holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from gaptrace.knowledge import engines as knowledge
from gaptrace.knowledge.engines import LabelStyle, engine_parts, engines, label_styles, part_titles
from gaptrace.knowledge.tables import table
from gaptrace.measure.labels import read_label

README = Path(__file__).parents[2] / "README.md"
PAGE = Path(knowledge.__file__).with_name("ENGINES.md")
STEPS = {
    "step": "a step",
    "iteration": "encloses the labels of a step",
    "verify": "a step, with its drafts",
    "draft": "part of a step",
    "draft_extend": "part of a step",
    "capture": "none",
}


def cells(style: LabelStyle) -> list[str]:
    """A row of the table: the style, and what its example says."""
    label = read_label(style.example)
    inner = label.role == "iteration"
    nothing = "of the labels in it" if inner else "–"
    tokens = nothing
    if label.tokens_low is not None:
        high = "?" if label.tokens_high is None else str(label.tokens_high)
        tokens = high if high == str(label.tokens_low) else f"{label.tokens_low} to {high}"
    shown = [
        part_titles()[part.part]
        for part in engine_parts()
        if part.engine == style.engine and part.label and part.label.search(style.example)
    ]
    return [
        style.engine or "any program",
        f"`{style.style}`".replace("|", "\\|"),
        f"`{style.example}`",
        STEPS[style.role],
        label.phase or (f"{style.beside.phase} beside others" if style.beside else nothing),
        nothing if label.batch is None else str(label.batch),
        tokens,
        ", ".join(shown) or "–",
        style.since,
    ]


def sources(engine: str, part: str) -> str:
    """How a part of an engine is seen."""
    found = [p for p in engine_parts() if (p.engine, p.part) == (engine, part)]
    names = [
        *(["labels"] if any(p.label for p in found) else []),
        *(["frames"] if any(p.frame for p in found) else []),
    ]
    return ", ".join(names) or "–"


def page() -> str:
    """ENGINES.md, written from the data."""
    titles = {part: title for part, title in part_titles().items() if part != "other"}
    head = ["engine", "label", "example", "step", "phase", "batch", "tokens", "part", "where"]
    rows = [cells(style) for style in label_styles()]
    parts = [
        [engine.id, *(sources(engine.id, part) for part in titles if part != "between")]
        for engine in engines()
    ]
    shown = [title for part, title in titles.items() if part != "between"]
    return "\n".join(
        [
            "# Engines: what their labels say",
            "",
            "Written from engines.toml by tests/knowledge/test_engines.py (`pytest --golden`).",
            "Phase, batch and tokens are those of the example; `8 to ?` has no upper bound.",
            "",
            *markdown(head, rows),
            "",
            "## Parts of the host's time",
            "",
            "Seen in labels, in Python frames (`with_stack`), or both. What no label or frame",
            "covers is `between steps` after the step's mark has ended, else `other`.",
            "",
            *markdown(["engine", *shown], parts),
            "",
        ]
    )  # fmt: skip


def markdown(head: list[str], rows: list[list[str]]) -> list[str]:
    """A Markdown table as lines."""
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]


def test_the_page_says_what_the_data_holds(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--golden"):
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()


def test_the_readme_has_the_table(request: pytest.FixtureRequest) -> None:
    """Engine and label style against step, phase, batch, tokens and part; `--golden` writes it."""
    head = ["engine", "label style", "step", "phase", "batch", "tokens", "part of the host's time"]
    rows = [[c[0], c[1], *c[3:8]] for c in map(cells, label_styles())]
    table = "\n".join(markdown(head, rows))
    text = README.read_text(encoding="utf-8")
    before, rest = text.split("<!-- engines -->\n")
    _, after = rest.split("<!-- /engines -->")
    whole = f"{before}<!-- engines -->\n\n{table}\n\n<!-- /engines -->{after}"
    if request.config.getoption("--golden"):
        README.write_text(whole, encoding="utf-8")
        text = whole
    assert text == whole


def test_parts_and_labels_name_what_there_is() -> None:
    ids = {engine.id for engine in engines()}
    assert {style.engine for style in label_styles()} <= ids | {None}
    for part in engine_parts():
        assert part.engine in ids
        assert part.part in part_titles()
        assert part.label or part.frame
    assert "other" not in {part.part for part in engine_parts()}


def test_only_known_keys_stand_in_the_data() -> None:
    known = {
        "engine": {"id", "process", "package", "steps", "idle"},
        "label": {
            "engine", "style", "role", "pattern", "phase", "phases", "fields", "tokens", "beside",
            "shared", "example", "since",
        },
        "part": {"engine", "part", "labels", "shared", "frames"},
    }  # fmt: skip
    for name, keys in known.items():
        for row in table("engines.toml")[name]:
            assert set(row) <= keys
    for style in label_styles():
        assert style.role in STEPS
        facts = set(style.pattern.groupindex) | set(style.fields)
        assert facts <= {"mode", "batch", "context", "generation", "scheduled", "prompt"}


@pytest.mark.parametrize(
    ("engine", "frame", "part"),
    [
        ("vLLM", "vllm/v1/core/sched/scheduler.py(699): schedule", "schedule"),
        ("vLLM", "/usr/lib/vllm/v1/worker/gpu_model_runner.py(1924): _prepare_inputs", "prepare"),
        ("vLLM", "vllm/model_executor/models/llama.py(7): compute_logits", "forward"),
        ("vLLM", "vllm/v1/engine/detokenizer.py(96): update", "detokenize"),
        (
            "vLLM",
            "vllm/distributed/device_communicators/shm_broadcast.py(1): acquire_read",
            "ipc",
        ),
        ("SGLang", "/sgl/python/sglang/srt/layers/sampler.py(1): forward", "sample"),
        ("SGLang", "sglang/srt/managers/scheduler.py(5074): process_batch_result", "output"),
        ("TensorRT-LLM", "tensorrt_llm/_torch/pyexecutor/py_executor.py(9): _schedule", "schedule"),
        ("ATOM", "/app/ATOM/atom/model_engine/model_runner.py(2944): run_model", "forward"),
        (
            "LMDeploy",
            "lmdeploy/pytorch/engine/inputs_maker.py(3): _make_forward_inputs",
            "prepare",
        ),
    ],
)  # fmt: skip
def test_python_frames_show_their_part(engine: str, frame: str, part: str) -> None:
    found = [
        p.part for p in engine_parts() if p.engine == engine and p.frame and p.frame.search(frame)
    ]
    assert found == [part]


@pytest.mark.parametrize(
    "frame",
    [
        "myvllm/v1/core/sched/scheduler.py(699): schedule",
        "vllm/v1/core/sched/scheduler.py(699): schedule_more",
        "scheduler.py(1): schedule",
    ],
)
def test_other_frames_show_nothing(frame: str) -> None:
    assert not [p for p in engine_parts() if p.frame and p.frame.search(frame)]


def test_frames_that_run_a_step_are_known() -> None:
    vllm = next(engine for engine in engines() if engine.id == "vLLM")
    assert vllm.step_frame
    assert vllm.idle_frame
    assert vllm.step_frame.search("vllm/v1/worker/gpu_worker.py(346): execute_model")
    assert not vllm.step_frame.search("vllm/v1/worker/gpu_worker.py(9): execute_dummy_batch")
    assert vllm.idle_frame.search("vllm/v1/worker/gpu_worker.py(9): execute_dummy_batch")
