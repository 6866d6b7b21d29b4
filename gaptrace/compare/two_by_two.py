"""The 2x2 form: {eager, compiled} x {launched, captured}, each change on its own.

Compiling changes what runs on the GPU and what the host has to tell it; capture takes the telling
away. Seen together the two are easily mixed up: a compiled step with plain launches can be faster
than the eager one although its kernels take longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gaptrace.compare.bridge import pillar
from gaptrace.compare.side import Side
from gaptrace.compare.work import mode_of
from gaptrace.measure.kernels import OP_CLASSES
from gaptrace.results.comparison import (
    NOT_COMPARABLE,
    PROFILED,
    Corner,
    Effect,
    Maybe,
    Pair,
    TwoByTwo,
)
from gaptrace.vocabulary import EDGES, SQUARE, mode_order

# Figures of a `Corner`, of which an `Effect` has the differences, and the metrics that they are.
FIGURES = {
    "step_ns": "step_time",
    "busy_ns": "busy",
    "idle_ns": "idle",
    "host_dispatch_ns": "host_dispatch",
    "kernels": "kernels",
    "launches": "launches",
}


def corners_of(sides: Sequence[Side]) -> dict[str, Side] | None:
    """The four sides by mode, where all four are there; None otherwise."""
    found: dict[str, Side] = {}
    for side in sides:
        mode = mode_of(side)
        if mode in SQUARE and mode not in found:
            found[mode] = side
    if len(found) < len(SQUARE):
        return None
    return {mode: found[mode] for mode in sorted(found, key=mode_order)}


def two_by_two(sides: Mapping[str, Side], pairs: Mapping[str, Pair]) -> TwoByTwo:
    """The 2x2 of four sides; `pairs` holds the comparisons along `EDGES`."""
    corners = {
        mode: _corner(sides[mode], pairs[name], candidate=mode == EDGES[name].after)
        for name in ("compiled_launched", "compiled_captured")
        for mode in (EDGES[name].before, EDGES[name].after)
    }
    known = [(c.step_ns, i, c.label) for i, c in enumerate(corners.values()) if c.step_ns]
    steps = [pair.metric("step_time") for pair in pairs.values()]
    if any(step.verdict == NOT_COMPARABLE for step in steps):
        # The profiler slowed some hosts and not others, so none can be called the fastest.
        known = []
    eager = corners["eager"].step_ns
    cells: dict[str, Any] = {
        name: _effect(corners[edge.before], corners[edge.after], pairs[name])
        for name, edge in EDGES.items()
    }
    cells |= {mode.replace("-", "_"): corner for mode, corner in corners.items()}
    return TwoByTwo(
        source=steps[0].source or PROFILED,
        best=min(known)[2] if known else "",
        times_eager=eager / min(known)[0] if known and eager else None,
        **cells,
    )


def _corner(side: Side, pair: Pair, *, candidate: bool) -> Corner:
    def value(name: str) -> Maybe:
        row = pair.metric(name)
        return (row.candidate if candidate else row.baseline).value

    end = pillar(side, pair.metric("step_time").source or PROFILED)
    return Corner(
        label=side.label,
        mode=mode_of(side),
        tokens_per_s=value("tokens_per_s"),
        **{name: value(metric) for name, metric in FIGURES.items()},
        busy_by_class_ns=end.busy_by_class,
    )


def _effect(left: Corner, right: Corner, pair: Pair) -> Effect:
    changes: dict[str, Any] = {
        name: _less(getattr(right, name), getattr(left, name))
        if pair.metric(metric).verdict != NOT_COMPARABLE
        else None
        for name, metric in FIGURES.items()
    }
    return Effect(
        **changes,
        busy_by_class_ns={
            kind: right.busy_by_class_ns[kind] - left.busy_by_class_ns[kind] for kind in OP_CLASSES
        },
        work=pair.work,
    )


def _less(after: Maybe, before: Maybe) -> Maybe:
    return None if after is None or before is None else after - before
