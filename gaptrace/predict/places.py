"""Where in the program a host event lies: its op, its module, its Python frames."""

from __future__ import annotations

import numpy as np

from gaptrace.measure.attribution import MODULE_PREFIX, frame_lane
from gaptrace.measure.view import Values, View
from gaptrace.results.prediction import BlockerPlace
from gaptrace.trace import Cat, Ints, Trace

SHOWN = 5
FRAMES_SHOWN = 6


def places(view: View, rows: Ints, step: Ints, weight: Values) -> tuple[BlockerPlace, ...]:
    """The host events with the largest weight (ns or counts), each with where it is."""
    trace = view.trace
    order = np.lexsort((trace.start[rows], -weight))[:SHOWN]
    chosen, of = rows[order], step[order]
    around = view.op_around(chosen)
    frames = trace.rows_of(Cat.PYTHON)
    found = []
    for row, at, op in zip(chosen, of, around, strict=True):
        names = _frames_around(trace, frames, int(row))
        modules = [name for name in names if name.startswith(MODULE_PREFIX)]
        found.append(
            BlockerPlace(
                step=int(at),
                start_ns=int(trace.start[row]),
                dur_ns=int(trace.dur[row]),
                op=trace.name_of(int(op)) if op >= 0 and op != row else "",
                call=trace.name_of(int(row)),
                module=modules[0].removeprefix(MODULE_PREFIX) if modules else "",
                stack=tuple(n for n in names if n not in modules)[:FRAMES_SHOWN],
                row=int(row),
            )
        )
    return tuple(found)


def _frames_around(trace: Trace, frames: Ints, row: int) -> list[str]:
    """Names of the Python frames that are open when an event starts, innermost first."""
    if frames.size == 0:
        return []
    own = frames[trace.lane[frames] == frame_lane(trace, frames, int(trace.lane[row]))]
    at = trace.start[row]
    open_ = own[(trace.start[own] <= at) & (at < trace.start[own] + trace.dur[own])]
    # Of frames that start together the shorter one is inside.
    inner = open_[np.lexsort((-open_, trace.dur[open_], -trace.start[open_]))]
    return [trace.name_of(int(frame)) for frame in inner]
