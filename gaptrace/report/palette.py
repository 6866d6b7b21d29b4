"""The one visual language: colour, pattern, letter and word of each cause and class."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """How one cause or class is drawn: colours for light and dark, pattern, letter, word.

    Nothing is said by colour alone: the pattern (or the letter, in a terminal) and the word
    always go with it.
    """

    light: str
    dark: str
    pattern: str
    letter: str
    word: str


# Colour-blind safe; the same order everywhere.
CAUSES = {
    "sync": Look("#D55E00", "#FF8A3D", "diagonal-dense", "s", "waiting in a sync"),
    "python": Look("#E69F00", "#FFC24D", "diagonal-wide", "p", "Python between ops"),
    "dispatch": Look("#0072B2", "#5AB4F0", "solid", "d", "op dispatch"),
    "launch": Look("#56B4E9", "#9BD6FF", "vertical", "l", "launch and its way to the GPU"),
    "runtime": Look("#009E73", "#3FD0A4", "cross", "r", "other runtime calls"),
    "alloc": Look("#CC79A7", "#F0A8D0", "dots-large", "a", "memory allocator"),
    "compile": Look("#B8A400", "#F0E442", "checker", "c", "compiling"),
    "device_wait": Look("#7A869A", "#A9B4C6", "horizontal", "w", "device dependency or queue"),
    "graph_node": Look("#B6BECB", "#67728A", "dots-small", "n", "between graph nodes"),
    "profiler": Look("#4D4D4D", "#C8C8C8", "hatched-outline", "o", "the profiler itself"),
    "unattributed": Look("none", "none", "outline", "u", "cause unknown"),
}
BUSY = Look("#2F7F79", "#6FC3BC", "solid", "B", "busy")
# Host time has one class that gaps do not have.
BACKPRESSURE = Look("#7A869A", "#A9B4C6", "horizontal", "q", "queue full: the GPU is behind")
HOST = {**{name: CAUSES[name] for name in CAUSES}, "backpressure": BACKPRESSURE}

# Modes of a run where several are drawn as curves. Here the pattern is the marker's shape: colour
# and shape go together, and a legend has the word. Calmer than the causes, which stay the loudest.
MODES = {
    "eager": Look("#5B6470", "#AEB7C0", "circle", "e", "eager"),
    "compiled": Look("#8A5A2B", "#D9A877", "square", "c", "compiled"),
    "graph": Look("#2F7F79", "#6FC3BC", "diamond", "g", "graph"),
    "compiled-graph": Look("#174F7A", "#7DB6E8", "triangle", "G", "compiled-graph"),
    "piecewise": Look("#6A4C9C", "#BBA2EA", "triangle-down", "p", "piecewise"),
    "reduce-overhead": Look("#A03A6B", "#EE9CC2", "plus", "r", "reduce-overhead"),
    "max-autotune": Look("#3F6B1F", "#A3CF7C", "cross", "m", "max-autotune"),
    "as-is": Look("#4D4D4D", "#C8C8C8", "bar", "a", "as-is"),
}

# Tints of one teal, from dark to light.
OP_CLASSES = {
    "gemm": Look("#1F5F5B", "#3E9C95", "solid", "G", "GEMM"),
    "attention": Look("#2F7F79", "#58B2AB", "solid", "A", "attention"),
    "communication": Look("#4F9C95", "#76C6BF", "solid", "N", "communication"),
    "pointwise": Look("#7DB9B3", "#97D6D0", "solid", "P", "pointwise/reduction"),
    "copy": Look("#A9D3CE", "#B8E4DF", "solid", "C", "copy"),
    "other": Look("#CFE6E3", "#D8F1EE", "solid", "O", "other"),
}
