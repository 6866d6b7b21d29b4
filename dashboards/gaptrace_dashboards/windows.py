"""Which stretch of a recording the timeline gets, as plain data of bounded size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gaptrace import units
from gaptrace.analysis import Analysis
from gaptrace.document.steps import gap_table
from gaptrace.measure.frames import gap_steps
from gaptrace.measure.gaps import CAUSES
from gaptrace.render.drawing.lanes import lane_entries
from gaptrace.render.drawing.picture import Picture
from gaptrace.render.html_blocks import Page, legend, table
from gaptrace.results.analysis import GapRow
from gaptrace.timeline.columns import Names, Stretch, as_data
from gaptrace.timeline.scope import Scope
from gaptrace.timeline.views import LONGEST_NS, Pick, picks, step_view, step_window, whole_view
from gaptrace.timeline.windows import Limits, stretch
from gaptrace_dashboards.components import Places, markup

# What one view may hold; beyond it the smallest are merged and a note says how many.
LIMITS = Limits(gpu_ops=12_000, host_ops=6_000, frames=3_000)
# Room around a stretch that lies in no step, in multiples of its length.
AROUND = 3
LEAST_ROOM_NS = 20_000
GAPS_LISTED = 40


@dataclass(frozen=True)
class Window:
    """A stretch that is shown, and the step it belongs to (-1 for none).

    part: less than the step, shown finer.
    """

    stretch: Stretch
    step: int
    part: bool = False


def window_of_step(scope: Scope, index: int, limits: Limits = LIMITS) -> Window:
    """The step from the launch of its first op on; the nearest step with GPU ops."""
    usable = _usable(scope)
    if not usable.size:
        return Window(whole_view(scope, Names(), limits).stretch, -1)
    index = int(usable[np.argmin(np.abs(usable - index))])
    words = (pick.word for pick in picks(scope.analysis.step_table) if pick.index == index)
    return Window(step_view(scope, Pick(next(words, ""), index), Names(), limits).stretch, index)


def window_of_range(scope: Scope, start_ns: int, end_ns: int) -> Window:
    """The step that holds a stretch of time; where none does, the stretch with room around it."""
    for index in _usable(scope).tolist():
        start, end = step_window(scope.analysis, index)
        if start <= start_ns and end_ns <= min(end, start + LONGEST_NS):
            return window_of_step(scope, index)
    room = max(AROUND * (end_ns - start_ns), LEAST_ROOM_NS)
    title = f"around {units.time(start_ns)} of the recording"
    found = stretch(scope, title, start_ns - room, end_ns + room, Names(), limits=LIMITS)
    return Window(found, -1)


def window_of_gap(scope: Scope, gap: int) -> Window:
    """The step that a gap belongs to, else its surroundings."""
    gaps = scope.device.gaps
    gap = min(max(gap, 0), len(gaps) - 1)
    step = int(gap_steps(scope.analysis)[gap])
    if step >= 0:
        return window_of_step(scope, step)
    return window_of_range(scope, int(gaps.start[gap]), int(gaps.end[gap]))


def part_of(scope: Scope, start_ns: int, end_ns: int, step: int) -> Window:
    """A piece of a step, for a closer look than the whole step's data allow."""
    title = f"{units.time(end_ns - start_ns)} of step {step}" if step >= 0 else "a closer look"
    own, steps = None, scope.analysis.step_table
    if steps is not None and 0 <= step < len(steps):
        own = int(steps.gpu_start[step]), int(steps.gpu_end[step])
    end_ns = max(end_ns, start_ns + 50)
    found = stretch(scope, title, start_ns, end_ns, Names(), step=own, limits=LIMITS)
    return Window(found, step, part=True)


def asked(scope: Scope, query: Mapping[str, str]) -> Window:
    """The window that a query asks for: a range, a gap, a step, or the median step."""
    if "from" in query and "to" in query:
        start, end = _whole_number(query["from"]), _whole_number(query["to"])
        if start is not None and end is not None and end >= start:
            if query.get("fine") == "1":
                step = _whole_number(query.get("step"))
                return part_of(scope, start, end, -1 if step is None else step)
            return window_of_range(scope, start, end)
    gap, step = _whole_number(query.get("gap")), _whole_number(query.get("step"))
    if gap is not None and len(scope.device.gaps):
        return window_of_gap(scope, gap)
    if step is None:
        chosen = picks(scope.analysis.step_table)
        step = chosen[0].index if chosen else -1
    return window_of_step(scope, step)


def payload(analysis: Analysis, scope: Scope, window: Window) -> dict[str, Any]:
    """Everything the page needs to draw a window: data, its sentence, legend and gap table."""
    item = window.stretch
    usable = _usable(scope).tolist()
    at = usable.index(window.step) if window.step in usable else -1
    page = Page(anchors=Places(analysis))
    gaps = gap_table(_longest(scope, window), "window-gaps", analysis.result.quality.why("causes"))
    return {
        "data": {
            **as_data(item),
            "names": item.names.texts,
            "gap_numbers": item.gaps.number.tolist(),
        },
        "said": item.said,
        "notes": list(item.notes),
        "coarse": any("not drawn" in note or "merged" in note for note in item.notes),
        "part": window.part,
        "step": window.step,
        "previous": usable[at - 1] if at > 0 else None,
        "next": usable[at + 1] if 0 <= at < len(usable) - 1 else None,
        "legend": markup(legend(Picture((), 0, "", lane_entries(item)), page)),
        "gaps": markup(table(gaps, page) if gaps.rows else "no gap in this window"),
    }


def _longest(scope: Scope, window: Window) -> list[GapRow]:
    item, step = window.stretch, None if window.step < 0 else window.step
    gaps, blocks, names = scope.device.gaps, item.gaps.blocks, item.names.texts
    order = np.argsort(-blocks.dur, kind="stable")[:GAPS_LISTED].tolist()
    numbers = [(i, int(item.gaps.number[i])) for i in order]
    return [
        GapRow(
            gap=gap,
            step=step,
            start_ns=int(gaps.start[gap]),
            dur_ns=int(blocks.dur[i]),
            cause_ns=dict(zip(CAUSES, gaps.cause_ns[gap].tolist(), strict=True)),
            before=names[int(item.gaps.before[i])],
            after=names[int(blocks.name[i])],
        )
        for i, gap in numbers
    ]


def _usable(scope: Scope) -> Any:
    """The steps that have GPU work."""
    steps = scope.analysis.step_table
    return np.empty(0, np.int64) if steps is None else np.flatnonzero(steps.has_ops)


def _whole_number(text: str | None) -> int | None:
    digits = (text or "").strip()
    return int(digits) if digits.lstrip("-").isdigit() and len(digits) < 19 else None
