"""The 2x2 form: {eager, compiled} x {launched, captured}, each change on its own.

Compiling changes what runs on the GPU and what the host has to tell it; capture takes the telling
away. Seen together the two are easily mixed up: a compiled step with plain launches can be faster
than the eager one although its kernels take longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gaptrace.compare.bridge import pillar
from gaptrace.compare.recording import CLASS_COLUMNS
from gaptrace.compare.side import Side
from gaptrace.compare.work import mode_of
from gaptrace.measure.kernels import OP_CLASSES
from gaptrace.results.comparison import (
    PROFILED,
    UNPROFILED,
    Corner,
    Effect,
    Maybe,
    Pair,
    TwoByTwo,
)

MODES = ("eager", "compiled", "graph", "compiled-graph")
# Each change of mode alone, by its name in a `TwoByTwo`.
EDGES = {
    "compiled_launched": ("eager", "compiled"),
    "compiled_captured": ("graph", "compiled-graph"),
    "captured_eager": ("eager", "graph"),
    "captured_compiled": ("compiled", "compiled-graph"),
}


def corners_of(sides: Sequence[Side]) -> dict[str, Side] | None:
    """The four sides by mode, where all four are there; None otherwise."""
    found: dict[str, Side] = {}
    for side in sides:
        mode = mode_of(side)
        if mode in MODES and mode not in found:
            found[mode] = side
    return {mode: found[mode] for mode in MODES} if len(found) == len(MODES) else None


def two_by_two(sides: Mapping[str, Side], pairs: Mapping[str, Pair]) -> TwoByTwo:
    """The 2x2 of four sides; `pairs` holds the comparisons along `EDGES`."""
    first, second = pairs["compiled_launched"], pairs["compiled_captured"]
    corners = {
        "eager": _corner(sides["eager"], first, candidate=False),
        "compiled": _corner(sides["compiled"], first, candidate=True),
        "graph": _corner(sides["graph"], second, candidate=False),
        "compiled-graph": _corner(sides["compiled-graph"], second, candidate=True),
    }
    known = [(c.step_ns, i, c.label) for i, c in enumerate(corners.values()) if c.step_ns]
    unprofiled = all(pair.metric("step_time").source == UNPROFILED for pair in pairs.values())
    eager = corners["eager"].step_ns
    effects = {
        name: _effect(corners[before], corners[after], pairs[name])
        for name, (before, after) in EDGES.items()
    }
    return TwoByTwo(
        source=UNPROFILED if unprofiled else PROFILED,
        best=min(known)[2] if known else "",
        times_eager=eager / min(known)[0] if known and eager else None,
        eager=corners["eager"],
        compiled=corners["compiled"],
        graph=corners["graph"],
        compiled_graph=corners["compiled-graph"],
        compiled_launched=effects["compiled_launched"],
        compiled_captured=effects["compiled_captured"],
        captured_eager=effects["captured_eager"],
        captured_compiled=effects["captured_compiled"],
    )


def _corner(side: Side, pair: Pair, *, candidate: bool) -> Corner:
    def value(name: str) -> Maybe:
        row = pair.metric(name)
        return (row.candidate if candidate else row.baseline).value

    end = pillar(side, unprofiled=pair.metric("step_time").source == UNPROFILED)
    return Corner(
        label=side.label,
        mode=mode_of(side),
        step_ns=value("step_time"),
        tokens_per_s=value("tokens_per_s"),
        busy_ns=value("busy"),
        idle_ns=value("idle"),
        host_dispatch_ns=value("host_dispatch"),
        kernels=value("kernels"),
        launches=value("launches"),
        busy_by_class_ns={
            kind: end.per_token(column)
            for kind, column in zip(OP_CLASSES, CLASS_COLUMNS, strict=True)
        },
    )


def _effect(left: Corner, right: Corner, pair: Pair) -> Effect:
    return Effect(
        step_ns=_less(right.step_ns, left.step_ns),
        busy_ns=_less(right.busy_ns, left.busy_ns),
        idle_ns=_less(right.idle_ns, left.idle_ns),
        host_dispatch_ns=_less(right.host_dispatch_ns, left.host_dispatch_ns),
        kernels=_less(right.kernels, left.kernels),
        launches=_less(right.launches, left.launches),
        busy_by_class_ns={
            kind: right.busy_by_class_ns[kind] - left.busy_by_class_ns[kind] for kind in OP_CLASSES
        },
        work=pair.work,
    )


def _less(after: Maybe, before: Maybe) -> Maybe:
    return None if after is None or before is None else after - before
