"""The steps of a run side by side, and one of them drawn out: streams, gaps, launches, host."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gaptrace import units
from gaptrace.measure.gaps import CAUSES
from gaptrace.measure.kernels import OP_CLASSES
from gaptrace.measure.result import Analysis
from gaptrace.report import palette
from gaptrace.report.charts import small_multiples, strip, strip_bars
from gaptrace.report.context import Context, Section, section, swatch
from gaptrace.report.markup import Markup, element, markup, number
from gaptrace.report.step_svg import LABELS, Drawing, draw_step, lanes_svg
from gaptrace.report.tables import Cell, Number, data_table, timed
from gaptrace.report.timeline_data import Timeline, causes_shown
from gaptrace.report.views import View, picks
from gaptrace.trace import Ints

GAPS_LISTED = 30


def strip_section(analysis: Analysis, views: Sequence[View], context: Context) -> Section | None:
    """Every step as a bar, in order or by duration, and the picked ones on one scale."""
    steps = analysis.step_table
    if steps is None or steps.has_ops.sum() < 2 or steps.rule == "whole trace":
        return None
    shown = strip_bars(steps)
    chosen = picks(steps)
    sorted_ = sorted(shown, key=lambda bar: (int(steps.period_ns[bar.index]), bar.index))
    merged = max(bar.stands_for for bar in shown)
    note = f" Each bar is the longest of {merged} neighbours." if merged > 1 else ""
    left_out = sum(1 for reason in steps.excluded if reason)
    if left_out:
        note += f" Pale: {left_out} left out of medians."
    label = f"{len(steps)} steps, each busy and idle by cause; {_picked(chosen)}"
    name_ = context.id("order")
    multiples = small_multiples(views)
    return section(
        context,
        "steps",
        "Steps",
        element(
            "p",
            f"{units.count(len(steps))} ",
            context.terms.link("step", "steps"),
            f" found by {steps.rule}; bars are step times, split into ",
            context.terms.link("busy"),
            " and ",
            context.terms.link("idle"),
            f" by cause.{note}",
        ),
        element(
            "figure",
            element(
                "fieldset",
                element("legend", "order", class_="hide"),
                *[
                    markup(
                        element(
                            "input", type="radio", name=name_, id=f"{name_}-{key}",
                            class_=key, checked=key == "by-time",
                        ),
                        element("label", word, for_=f"{name_}-{key}"),
                    )
                    for key, word in (("by-time", "in order"), ("by-length", "by duration"))
                ],
                class_="choice",
            ),
            element("div", strip(steps, shown, chosen, label), class_="strip-time"),
            element("div", strip(steps, sorted_, chosen, f"{label}; by duration"),
                    class_="strip-length"),
            class_="strip",
        ),
        multiples and element("figure", multiples),
        _step_table(analysis, context),
    )  # fmt: skip


def _picked(chosen: Sequence[object]) -> str:
    return ", ".join(f"{pick.word} is step {pick.index}" for pick in chosen)  # type: ignore[attr-defined]


def _step_table(analysis: Analysis, context: Context) -> Markup:
    steps = analysis.step_table
    assert steps is not None
    unit = units.time_unit(int(steps.period_ns.max(initial=0)))
    rows: list[list[Cell]] = [
        [
            Number(i, str(i)),
            timed(int(steps.period_ns[i]), unit),
            timed(int(steps.busy_ns[i]), unit),
            timed(int(steps.idle_ns[i]), unit),
            timed(int(steps.host_dispatch_ns[i]), unit),
            Number(int(steps.kernels[i]), units.count(int(steps.kernels[i]))),
            Number(int(steps.launches[i]), units.count(int(steps.launches[i]))),
            steps.phase[i],
            steps.excluded[i],
        ]
        for i in range(len(steps))
    ]
    terms = context.terms
    table = data_table(
        "every step",
        [
            "step",
            markup(terms.link("period", "time"), f", {unit}"),
            markup(terms.link("busy"), f", {unit}"),
            markup(terms.link("idle"), f", {unit}"),
            markup(terms.link("host-dispatch"), f", {unit}"),
            terms.link("kernel", "kernels"),
            terms.link("launch-call", "launches"),
            "phase",
            terms.link("excluded", "left out because"),
        ],
        rows,
    )
    return element("details", element("summary", "data: every step"), table, class_="twin")


def timeline_section(analysis: Analysis, views: Sequence[View], context: Context) -> Section | None:
    """The median step drawn out; with scripts a canvas to zoom takes the drawing's place."""
    if not views:
        return None
    item = views[0].timeline
    drawing = draw_step(item)
    return section(
        context,
        "timeline",
        "Timeline",
        element("p", said(item), class_="said"),
        element("div", class_="canvas", data_timeline=context.prefix or "-"),
        element(
            "figure",
            drawn(drawing, analysis.sentence),
            element("figcaption", legend([item], context), _notes(drawing)),
            class_="static",
        ),
        _gap_table(analysis, views[0], context),
    )


def own_gaps(item: Timeline) -> Ints:
    """Places of the gaps of the step drawn; the one before its first op belongs to the step before.

    Without a step all gaps that the window holds whole.
    """
    blocks = item.gaps.blocks
    first, last = item.step or (0, item.span_ns)
    end = blocks.start + blocks.dur
    inside = (end > first) & (end <= last)
    return np.flatnonzero(inside if item.step else inside & (blocks.start >= 0))


def said(item: Timeline) -> str:
    """The sentence over a timeline: how many gaps, how long together, the longest."""
    title = f"{item.title[0].upper()}{item.title[1:]}"
    dur = item.gaps.blocks.dur[own_gaps(item)]
    if dur.size == 0:
        return f"{title}: the GPU never runs dry."
    total, longest = int(dur.sum()), int(dur.max())
    return (
        f"{title}: {units.count(dur.size)} gaps, "
        f"{units.time(total)} in all, the longest {units.time(longest)}."
    )


def drawn(drawing: Drawing, sentence: str) -> Markup:
    """A drawing for a page: labels, stretched lanes, names over them, and the axis."""
    labels = element(
        "svg",
        *[
            element(
                "text",
                units.middle_elided(row.label, 19),
                x="100%",
                y=row.y + (row.height + 9) / 2,
                class_="soft end",
            )
            for row in drawing.rows
        ],
        width=LABELS,
        height=drawing.height,
        aria_hidden="true",
    )
    names = element(
        "svg",
        *[
            element("text", text.text, x=f"{number(text.x / 12)}%", y=text.y)
            for text in drawing.texts
        ],
        width="100%",
        height=drawing.height,
        class_="names",
        aria_hidden="true",
    )
    axis = element(
        "svg",
        *[
            markup(
                element("line", x1=f"{number(100 * at)}%", x2=f"{number(100 * at)}%", y1=0, y2=5,
                        class_="axis"),
                element("text", text, x=f"{number(100 * at)}%", y=17, class_=_anchor(at)),
            )
            for at, text in drawing.ticks
        ],
        width="100%",
        height=22,
        aria_hidden="true",
    )  # fmt: skip
    return element(
        "div",
        labels,
        element("div", lanes_svg(drawing, sentence), names, axis, class_="stretch"),
        class_="lanegrid",
    )


def _anchor(at: float) -> str:
    return "soft mid" if 0.02 < at < 0.98 else "soft end" if at >= 0.98 else "soft"


def legend(items: Sequence[Timeline], context: Context) -> Markup:
    """Every cause and op class that the drawings show, by colour, pattern and word."""
    entries = [
        markup(swatch(f"k-{cause}"), context.terms.link(cause, look.word))
        for cause, look in causes_shown(items)
    ]
    classes = sorted(
        {int(c) for item in items for lane in item.gpu for c in np.unique(lane.blocks.kind)}
    )
    entries += [
        markup(
            swatch(f"o-{OP_CLASSES[code]}"),
            context.terms.link("op-class", palette.OP_CLASSES[OP_CLASSES[code]].word),
        )
        for code in classes
    ]
    return element("ul", *[element("li", entry) for entry in entries], class_="legend")


def _notes(drawing: Drawing) -> Markup | None:
    if not drawing.notes:
        return None
    return element("p", "; ".join(drawing.notes), ".", class_="soft")


def _gap_table(analysis: Analysis, view: View, context: Context) -> Markup | None:
    """The longest gaps of the step drawn, which is also what its drawing says in numbers."""
    item, device = view.timeline, analysis.device
    assert device is not None
    blocks = item.gaps.blocks
    own = own_gaps(item)
    if own.size == 0:
        return None
    longest = own[np.argsort(-blocks.dur[own], kind="stable")][:GAPS_LISTED]
    unit = units.time_unit(int(blocks.dur.max()))
    hidden = analysis.quality.withholds("causes")
    names = item.names.texts
    rows: list[list[Cell]] = []
    for i in longest.tolist():
        gap = int(item.gaps.number[i])
        start = int(device.gaps.start[gap])
        call = int(item.gaps.call[i])
        rows.append(
            [
                element(
                    "a", str(gap), href=f"#{context.id('timeline')}",
                    data_view=context.id(view.id), data_from=start,
                    data_to=int(device.gaps.end[gap]),
                ),
                timed(int(blocks.dur[i]), unit),
                "withheld" if hidden else _causes(device.gaps.cause_ns[gap]),
                units.middle_elided(names[int(item.gaps.before[i])], 40),
                units.middle_elided(names[int(blocks.name[i])], 40),
                names[int(item.calls.name[call])] if call >= 0 else "",
            ]
        )  # fmt: skip
    terms = context.terms
    table = data_table(
        "the longest gaps of this step",
        [
            terms.link("gap"),
            f"idle, {unit}",
            terms.link("cause", "causes"),
            "after",
            "before",
            terms.link("launch-call"),
        ],
        rows,
    )
    more = own.size - len(rows)
    count = f"the {len(rows)} longest of {units.count(own.size)}" if more else f"{len(rows)}"
    return element(
        "details",
        element("summary", f"data: {count} gaps, with causes and neighbours"),
        table,
        class_="twin",
    )


def _causes(parts: np.ndarray) -> Markup:
    order = [i for i in np.argsort(-parts, kind="stable").tolist() if parts[i] > 0]
    pieces: list[Markup | str] = []
    for i in order[:3]:
        pieces += [
            swatch(f"k-{CAUSES[i]}"),
            f"{palette.CAUSES[CAUSES[i]].word} {units.time(int(parts[i]))} ",
        ]
    if len(order) > 3:
        pieces.append(f"+{len(order) - 3}")
    return markup(*pieces)
