"""One gap in full: its causes, what stood on both sides, who launched what ended it, and how."""

from __future__ import annotations

import numpy as np

from gaptrace import units
from gaptrace.knowledge.kernel_names import classify
from gaptrace.measure.attribution import frame_lane
from gaptrace.measure.frames import gap_steps
from gaptrace.measure.gaps import CAUSES
from gaptrace.measure.result import Analysis
from gaptrace.report import palette
from gaptrace.report.context import Context, swatch
from gaptrace.report.markup import Markup, element, markup, shortened
from gaptrace.report.tables import facts, name
from gaptrace.trace import Cat

DEEPEST = 24


def gap_panel(analysis: Analysis, gap: int) -> Markup:
    """The panel for gap number `gap` of the analysed device."""
    device = analysis.device
    if device is None or not 0 <= gap < len(device.gaps):
        return element("p", "There is no such gap in this recording.", class_="soft")
    trace, gaps, terms = analysis.trace, device.gaps, Context().terms
    start, end = int(gaps.start[gap]), int(gaps.end[gap])
    launch = int(gaps.launch[gap])
    # Perfetto counts from the zero of the file's own clock; as much again is shown on both sides.
    first, last = (trace.origin_ns + time for time in (2 * start - end, 2 * end - start))
    step = int(gap_steps(analysis)[gap])
    where = f"step {step}" if step >= 0 else "outside all steps"
    pairs: list[tuple[Markup | str, Markup | str]] = [
        (terms.link("idle"), f"{units.time(end - start)} at {units.time(start)}, {where}"),
    ]
    if analysis.quality.withholds("causes"):
        pairs.append((terms.link("cause"), "withheld: kernels start before their launches"))
    else:
        pairs += [
            (
                markup(swatch(f"k-{cause}"), terms.link(cause, look.word)),
                f"{units.time(ns)} ({units.share(ns, end - start)})",
            )
            for cause, look in palette.CAUSES.items()
            if (ns := int(gaps.cause_ns[gap, CAUSES.index(cause)]))
        ]
    if gaps.drained_by_sync[gap]:
        pairs.append((terms.link("drained-by-sync"), "somebody waited, so the queue was empty"))
    causes, pairs = pairs, []
    pairs.append(("after", _name(analysis, int(gaps.before[gap]))))
    pairs.append(("before", _name(analysis, int(gaps.after[gap]))))
    if launch >= 0:
        late = int(trace.start[launch])
        pairs.append(
            (
                terms.link("launch-call"),
                markup(
                    element("span", trace.name_of(launch), class_="mono"),
                    f", {units.time(end - late)} before the GPU went on",
                ),
            )
        )
        ops = _around(analysis, launch, late, python=False)
        if ops:
            pairs.append(("launched inside", _path(analysis, ops)))
        frames = _around(analysis, launch, late, python=True)
        pairs.append(
            (
                "Python stack",
                _path(analysis, frames)
                if frames
                else element("span", "not recorded (collect --stacks)", class_="soft"),
            )
        )
    causes.append(
        (
            "in Perfetto",
            markup(
                element(
                    "button",
                    "Open in Perfetto",
                    type="button",
                    class_="perfetto",
                    data_start=first,
                    data_end=last,
                ),
                " ",
                element("span", f"visStart={first}&visEnd={last}", class_="mono select"),
            ),
        )
    )
    return markup(
        element("h3", f"Gap {gap}: {units.time(end - start)} idle"),
        element("div", facts(causes), facts(pairs), class_="columns"),
    )


def _name(analysis: Analysis, row: int) -> Markup:
    full = analysis.trace.name_of(row)
    return element("span", name(classify(full).short, full, 60), class_="mono")


def _around(analysis: Analysis, call: int, at: int, *, python: bool) -> list[int]:
    """Events of the launching thread that hold an instant, outermost first."""
    trace = analysis.trace
    rows = trace.rows_of(Cat.PYTHON) if python else trace.rows_of(Cat.CPU_OP, Cat.ANNOTATION)
    if not rows.size:
        return []
    lane = int(trace.lane[call])
    if python:
        lane = frame_lane(trace, rows, lane)
    rows = rows[(trace.lane[rows] == lane) & (trace.start[rows] <= at) & (at < trace.end[rows])]
    order = np.lexsort((rows, -trace.end[rows], trace.start[rows]))
    return [int(row) for row in rows[order]][-DEEPEST:]


def _path(analysis: Analysis, rows: list[int]) -> Markup:
    names = [shortened(analysis.trace.name_of(row), 200) for row in rows]
    return element("ol", *[element("li", name) for name in names], class_="stack mono")
