"""Which stretch of a recording the timeline gets, as plain data of bounded size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gaptrace import units
from gaptrace.measure.frames import gap_steps
from gaptrace.measure.gaps import CAUSES
from gaptrace.measure.result import Analysis
from gaptrace.report import palette
from gaptrace.report.context import Context
from gaptrace.report.markup import Markup, element, markup
from gaptrace.report.scope import Scope
from gaptrace.report.step_views import legend, said
from gaptrace.report.tables import Cell, Number, data_table, timed
from gaptrace.report.timeline_data import Names, Timeline, as_data
from gaptrace.report.views import LONGEST_NS, picks, step_window
from gaptrace.report.windows import Limits, timeline
from gaptrace_dashboards.fragments import in_dashboard

# What one view may hold; beyond it the smallest are merged and a note says how many.
LIMITS = Limits(gpu_ops=12_000, host_ops=6_000, frames=3_000)
# Room around a stretch that lies in no step, in multiples of its length.
AROUND = 3
LEAST_ROOM_NS = 20_000
GAPS_LISTED = 40


@dataclass(frozen=True)
class Window:
    """A stretch to show: its title, its ends in ns, and the step it belongs to (-1 for none).

    part: less than the step, shown finer.
    """

    title: str
    start_ns: int
    end_ns: int
    step: int
    part: bool = False


def step_to_show(analysis: Analysis) -> int:
    """The step a page opens with: the median one; -1 where there is none."""
    chosen = picks(analysis.step_table)
    return chosen[0].index if chosen else -1


def window_of_step(analysis: Analysis, index: int) -> Window:
    """The GPU window of a step, from the launch of its first op; the nearest step with GPU ops."""
    steps = analysis.step_table
    usable = np.flatnonzero(steps.has_ops) if steps is not None else np.empty(0, np.int64)
    if steps is None or not usable.size:
        return whole(analysis)
    index = int(usable[np.argmin(np.abs(usable - index))])
    start, end = step_window(analysis, index)
    period = units.time(int(steps.period_ns[index]))
    why = [pick.word for pick in picks(steps) if pick.index == index]
    why += [f"left out of medians: {steps.excluded[index]}"] if steps.excluded[index] else []
    title = f"step {index}, {period}" + (f" ({'; '.join(why)})" if why else "")
    if steps.rule == "whole trace":
        title = f"the whole recording, {period}"
    if end - start > LONGEST_NS:
        title += f", its first {units.time(LONGEST_NS)}"
        end = start + LONGEST_NS
    return Window(title, start, end, index)


def whole(analysis: Analysis) -> Window:
    """The recording from its first GPU op on."""
    device = analysis.device
    assert device is not None
    start = int(device.links.start.min())
    end = min(int(device.links.end.max()), start + LONGEST_NS)
    return Window(f"the recording's first {units.time(end - start)}", start, end, -1)


def window_of_range(analysis: Analysis, start_ns: int, end_ns: int) -> Window:
    """The step that holds a stretch of time; where none does, the stretch with room around it."""
    steps = analysis.step_table
    if steps is not None and steps.has_ops.any():
        for index in np.flatnonzero(steps.has_ops).tolist():
            start, end = step_window(analysis, index)
            if start <= start_ns and end_ns <= min(end, start + LONGEST_NS):
                return window_of_step(analysis, index)
    room = max(AROUND * (end_ns - start_ns), LEAST_ROOM_NS)
    title = f"around {units.time(start_ns)} of the recording"
    return Window(title, start_ns - room, end_ns + room, -1)


def window_of_gap(analysis: Analysis, gap: int) -> Window:
    """The step that a gap belongs to, else its surroundings."""
    device = analysis.device
    assert device is not None
    gap = min(max(gap, 0), len(device.gaps) - 1)
    step = int(gap_steps(analysis)[gap])
    if step >= 0:
        return window_of_step(analysis, step)
    return window_of_range(analysis, int(device.gaps.start[gap]), int(device.gaps.end[gap]))


def part_of(analysis: Analysis, start_ns: int, end_ns: int, step: int) -> Window:
    """A piece of a step, for a closer look than the whole step's data allow."""
    title = f"{units.time(end_ns - start_ns)} of step {step}" if step >= 0 else "a closer look"
    return Window(title, start_ns, max(end_ns, start_ns + 50), step, part=True)


def payload(scope: Scope, window: Window, limits: Limits = LIMITS) -> dict[str, Any]:
    """Everything the page needs to draw a window: data, its sentence, legend and gap table."""
    names, analysis = Names(), scope.analysis
    steps = analysis.step_table
    own = None
    if window.step >= 0 and steps is not None:
        own = int(steps.gpu_start[window.step]), int(steps.gpu_end[window.step])
    item = timeline(
        scope, window.title, window.start_ns, window.end_ns, names, step=own, limits=limits
    )
    usable = np.flatnonzero(steps.has_ops).tolist() if steps is not None else []
    at = usable.index(window.step) if window.step in usable else -1
    context = Context()
    return {
        "data": {
            **as_data(item),
            "names": names.texts,
            "gap_numbers": item.gaps.number.tolist(),
        },
        "said": said(item),
        "notes": list(item.notes),
        "coarse": any("not drawn" in note or "merged" in note for note in item.notes),
        "part": window.part,
        "step": window.step,
        "previous": usable[at - 1] if at > 0 else None,
        "next": usable[at + 1] if 0 <= at < len(usable) - 1 else None,
        "legend": in_dashboard(legend([item], context)),
        "gaps": in_dashboard(gap_table(analysis, item, context)),
    }


def gap_table(analysis: Analysis, item: Timeline, context: Context) -> Markup:
    """The table twin of a timeline: its longest gaps, each a link to its place."""
    device = analysis.device
    blocks = item.gaps.blocks
    if device is None or not len(blocks):
        return markup(element("p", "no gap in this window", class_="soft"))
    longest = np.argsort(-blocks.dur, kind="stable")[:GAPS_LISTED]
    unit = units.time_unit(int(blocks.dur.max()))
    hidden = analysis.quality.withholds("causes")
    texts = item.names.texts
    rows: list[list[Cell]] = []
    for i in longest.tolist():
        gap, call = int(item.gaps.number[i]), int(item.gaps.call[i])
        start, end = int(device.gaps.start[gap]), int(device.gaps.end[gap])
        rows.append(
            [
                element("a", f"gap {gap}", href=f"#gap-{gap}", data_from=start, data_to=end),
                timed(int(blocks.dur[i]), unit),
                Number(start, units.time(start)),
                "withheld" if hidden else _causes(device.gaps.cause_ns[gap]),
                units.middle_elided(texts[int(item.gaps.before[i])], 40),
                units.middle_elided(texts[int(blocks.name[i])], 40),
                texts[int(item.calls.name[call])] if call >= 0 else "",
            ]
        )
    terms = context.terms
    return data_table(
        "the longest gaps of this window",
        [
            terms.link("gap"),
            markup(terms.link("idle"), f", {unit}"),
            "at",
            terms.link("cause", "causes"),
            "after",
            "before",
            terms.link("launch-call"),
        ],
        rows,
    )


def _causes(parts: Sequence[int]) -> str:
    found = sorted(
        ((int(value), CAUSES[i]) for i, value in enumerate(parts) if value > 0), reverse=True
    )
    said_ = [f"{palette.CAUSES[cause].word} {units.time(value)}" for value, cause in found[:3]]
    return ", ".join(said_) + (f", {len(found) - 3} more" if len(found) > 3 else "")


def asked(analysis: Analysis, query: Mapping[str, str]) -> Window:
    """The window that a query asks for: a range, a gap, a step, or the median step."""
    if "from" in query and "to" in query:
        start, end = _whole_number(query["from"]), _whole_number(query["to"])
        if start is not None and end is not None and end >= start:
            if query.get("fine") == "1":
                return part_of(analysis, start, end, _whole_number(query.get("step")) or 0)
            return window_of_range(analysis, start, end)
    gap, step = _whole_number(query.get("gap")), _whole_number(query.get("step"))
    if gap is not None and analysis.device is not None and len(analysis.device.gaps):
        return window_of_gap(analysis, gap)
    return window_of_step(analysis, step_to_show(analysis) if step is None else step)


def _whole_number(text: str | None) -> int | None:
    digits = (text or "").strip()
    return int(digits) if digits.lstrip("-").isdigit() and len(digits) < 19 else None
