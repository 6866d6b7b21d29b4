"""The words of gaptrace, each list once: modes, phases, causes, host classes, op classes, metrics.

Every entry has a stable id (its name in JSON), the label that people read, its glossary term and,
where it is drawn, its look. The order of a list is the order everywhere: legends, bars, tables and
JSON. Nothing is said by colour alone: the pattern (in a terminal the letter) and the label always
go with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gaptrace.quantity import BYTES, COUNT, NS, SHARE, TOKENS_PER_S


@dataclass(frozen=True)
class Look:
    """How something is drawn: colours for light and dark, pattern, letter in a terminal."""

    light: str
    dark: str
    pattern: str
    letter: str


@dataclass(frozen=True)
class Word:
    """One entry of a vocabulary: id in JSON, label on a screen, glossary term, look."""

    id: str
    label: str
    term: str
    look: Look


@dataclass(frozen=True)
class ModeWord(Word):
    """A mode of `gaptrace collect`: `launched` or `captured`, eager or compiled code."""

    compiled: bool
    captured: bool


def _words(*rows: tuple[str, str, str, str, str, str, str]) -> dict[str, Word]:
    return {
        id_: Word(id_, label, term, Look(light, dark, pattern, letter))
        for id_, label, term, light, dark, pattern, letter in rows
    }


# Colour-blind safe.
CAUSES = _words(
    ("sync", "waiting in a sync", "sync", "#D55E00", "#FF8A3D", "diagonal-dense", "s"),
    ("python", "Python between ops", "python", "#E69F00", "#FFC24D", "diagonal-wide", "p"),
    ("host_wait", "host waiting", "host_wait", "#999999", "#BDBDBD", "dotted", "h"),
    ("dispatch", "op dispatch", "dispatch", "#0072B2", "#5AB4F0", "solid", "d"),
    ("launch", "launch latency", "launch", "#56B4E9", "#9BD6FF", "vertical", "l"),
    ("runtime", "other runtime calls", "runtime", "#009E73", "#3FD0A4", "cross", "r"),
    ("alloc", "memory allocator", "alloc", "#CC79A7", "#F0A8D0", "dots-large", "a"),
    ("compile", "compiling", "compile", "#B8A400", "#F0E442", "checker", "c"),
    ("device_wait", "GPU-side wait", "device_wait", "#7A869A", "#A9B4C6", "horizontal", "w"),
    ("graph_node", "between graph nodes", "graph_node", "#B6BECB", "#67728A", "dots-small", "n"),
    ("profiler", "the profiler itself", "profiler", "#4D4D4D", "#C8C8C8", "hatched-outline", "o"),
    ("unattributed", "cause unknown", "unattributed", "none", "none", "outline", "u"),
)
# A faster host takes none of these away.
NOT_THE_HOSTS = frozenset({"graph_node", "device_wait", "unattributed"})
BUSY = Word("busy", "GPU busy", "busy", Look("#2F7F79", "#6FC3BC", "solid", "B"))
IDLE = Word("idle", "GPU idle", "idle", Look("none", "none", "outline", "i"))

# What keeps the device busy. The first three partition busy time.
BUSY_KINDS = _words(
    ("compute", "compute", "busy-by-kind", "#2F7F79", "#6FC3BC", "solid", "B"),
    ("exposed_communication", "communication that nothing hides", "busy-by-kind", "#4F9C95",
     "#76C6BF", "solid", "N"),
    ("exposed_copies", "copies that nothing hides", "busy-by-kind", "#A9D3CE", "#B8E4DF", "solid",
     "C"),
    ("hidden_communication", "communication beside compute", "busy-by-kind", "#4F9C95", "#76C6BF",
     "solid", "n"),
    ("hidden_copies", "copies beside other work", "busy-by-kind", "#A9D3CE", "#B8E4DF", "solid",
     "c"),
)  # fmt: skip

# Host time has classes that gaps do not have.
HOST_CLASSES = {
    **CAUSES,
    **_words(
        ("waiting", "waiting", "waiting", "#999999", "#BDBDBD", "dotted", "h"),
        ("backpressure", "queue full: the GPU is behind", "backpressure", "#7A869A", "#A9B4C6",
         "horizontal", "q"),
    ),
}  # fmt: skip

# Tints of one teal, from dark to light.
OP_CLASSES = _words(
    ("gemm", "GEMM", "gemm", "#1F5F5B", "#3E9C95", "solid", "G"),
    ("attention", "attention", "attention", "#2F7F79", "#58B2AB", "solid", "A"),
    ("communication", "communication", "communication", "#4F9C95", "#76C6BF", "solid", "N"),
    ("pointwise", "pointwise/reduction", "pointwise", "#7DB9B3", "#97D6D0", "solid", "P"),
    ("copy", "copy", "copies", "#A9D3CE", "#B8E4DF", "solid", "C"),
    ("other", "other", "op-class", "#CFE6E3", "#D8F1EE", "solid", "O"),
)


def _modes(*rows: tuple[str, bool, bool, str, str, str, str]) -> dict[str, ModeWord]:
    return {
        id_: ModeWord(id_, id_, "mode", Look(light, dark, marker, letter), compiled, captured)
        for id_, compiled, captured, light, dark, marker, letter in rows
    }


# Modes of a run. Here the pattern is the marker's shape on a curve.
MODES = _modes(
    ("eager", False, False, "#5B6470", "#AEB7C0", "circle", "e"),
    ("compiled", True, False, "#8A5A2B", "#D9A877", "square", "c"),
    ("graph", False, True, "#2F7F79", "#6FC3BC", "diamond", "g"),
    ("compiled-graph", True, True, "#174F7A", "#7DB6E8", "triangle", "G"),
    ("piecewise", True, True, "#6A4C9C", "#BBA2EA", "triangle-down", "p"),
    ("reduce-overhead", True, True, "#A03A6B", "#EE9CC2", "plus", "r"),
    ("max-autotune", True, True, "#3F6B1F", "#A3CF7C", "cross", "m"),
    ("as-is", False, False, "#4D4D4D", "#C8C8C8", "bar", "a"),
)
# {eager, compiled} x {launched, captured}, as (mode, what a reader calls it).
SQUARE = {
    "eager": "eager, launched",
    "graph": "eager, captured",
    "compiled": "compiled, launched",
    "compiled-graph": "compiled, captured",
}


@dataclass(frozen=True)
class Edge:
    """One change of mode alone, along an edge of the square: its label, from what, to what."""

    label: str
    before: str
    after: str


# By the field of a `TwoByTwo` that says what the change did.
EDGES = {
    "compiled_launched": Edge("compiling, launched", "eager", "compiled"),
    "compiled_captured": Edge("compiling, captured", "graph", "compiled-graph"),
    "captured_eager": Edge("capturing, eager", "eager", "graph"),
    "captured_compiled": Edge("capturing, compiled", "compiled", "compiled-graph"),
}


def mode_order(mode: str) -> tuple[int, str]:
    """Where a mode stands among others: the known ones in their order, then by name."""
    order = list(MODES)
    return (order.index(mode) if mode in order else len(order), mode)


PHASES = _words(
    ("decode", "decode", "phase", "#2F7F79", "#6FC3BC", "solid", "d"),
    ("prefill", "prefill", "phase", "#7A869A", "#A9B4C6", "solid", "p"),
    ("mixed", "mixed", "phase", "#7A869A", "#A9B4C6", "solid", "m"),
    ("draft", "draft", "phase", "#7A869A", "#A9B4C6", "solid", "s"),
    ("verify", "verify", "phase", "#7A869A", "#A9B4C6", "solid", "v"),
    ("idle", "idle", "phase", "#B6BECB", "#67728A", "solid", "i"),
    ("capture", "capture", "phase", "#B6BECB", "#67728A", "solid", "c"),
)

# What bars, charts and columns name as their `look`; bars of op classes may have causes in them.
LOOKS: dict[str, Mapping[str, Word]] = {
    "cause": {**HOST_CLASSES, BUSY.id: BUSY, IDLE.id: IDLE},
    "host": {**HOST_CLASSES, BUSY.id: BUSY, IDLE.id: IDLE},
    "class": OP_CLASSES,
    "mode": MODES,
    "phase": PHASES,
}


def word_of(key: str, look: str) -> tuple[str, Word | None]:
    """A vocabulary and its entry for a key: of the vocabulary `look`, else of any that holds it."""
    found = (name for name in (look, *LOOKS) if key in LOOKS.get(name, {}))
    name = next(found, "")
    return name, LOOKS[name][key] if name else None


@dataclass(frozen=True)
class Metric:
    """A figure of a step: id in JSON, label, unit, glossary term."""

    id: str
    label: str
    unit: str
    term: str


STEP_METRICS = {
    metric.id: metric
    for metric in (
        Metric("period_ns", "step time", NS, "period"),
        Metric("busy_ns", "GPU busy", NS, "busy"),
        Metric("idle_ns", "GPU idle", NS, "idle"),
        Metric("host_dispatch_ns", "host dispatch", NS, "host-dispatch"),
        Metric("kernels", "kernels", COUNT, "kernel"),
        Metric("launches", "launch calls", COUNT, "launch-call"),
        Metric("copies", "copies", COUNT, "copies"),
        Metric("memsets", "memsets", COUNT, "copies"),
    )
}
RUN_METRICS = {
    metric.id: metric
    for metric in (
        Metric("step_ns", "step time", NS, "step-time"),
        Metric("tokens_per_s", "token rate", TOKENS_PER_S, "tokens-per-s"),
        Metric("idle_share", "GPU idle", SHARE, "idle"),
        Metric("peak_memory", "peak memory", BYTES, "peak-memory"),
    )
}

# What must be the same of two recordings that are compared, ...
SAME_FACTS = {
    "gpu": "GPU",
    "model": "model",
    "dtype": "dtype",
    "batch": "batch",
    "tokens_per_step": "tokens per step",
    "weights": "bytes of weights",
}
# ... what may differ but should be known, and settings of the profiler, which distort figures.
OTHER_FACTS = {"engine": "engine", "torch": "torch", "cuda": "CUDA", "driver": "driver"}
RECORDED_FACTS = {
    "ops": "CPU ops",
    "shapes": "tensor shapes",
    "stacks": "Python stacks",
    "memory": "memory",
}

# Verdicts on a trace: the id in JSON and what a reader is told.
VERDICTS = {"ok": "ok", "limited": "limited", "refused": "unusable"}
VERDICT_SIGNS = {"ok": "✓", "limited": "!", "refused": "✕", "note": "·"}
