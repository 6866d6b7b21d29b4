"""Curves: series on one pair of axes, limits dashed or dotted, what was measured on top."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from gaptrace import units
from gaptrace.document.blocks import Panel, Series
from gaptrace.quantity import Quantity
from gaptrace.render.drawing.looks import css
from gaptrace.render.drawing.picture import (
    CHARACTER,
    Entry,
    Picture,
    known_points,
    range_ends,
    round_values,
    said,
)
from gaptrace.render.elements import Element, element, percent
from gaptrace.vocabulary import MODES

HEIGHT, TOP, BOTTOM = 190, 38, 24
# Room at the right end of the horizontal axis, in percent; at the left one values are written,
# with room for them in a panel as narrow as this.
RIGHT, NARROWEST = 4.0, 360
# Axes longer than this many decades have ticks at powers of ten alone.
FEW_DECADES = 1.7
MARKERS = {
    "circle": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
    "square": "M-3.6 -3.6h7.2v7.2h-7.2z",
    "diamond": "M0 -5l5 5l-5 5l-5 -5z",
    "triangle": "M0 -5l4.8 8.6h-9.6z",
    "triangle-down": "M0 5l4.8 -8.6h-9.6z",
    "plus": "M-1.4 -5h2.8v3.6h3.6v2.8h-3.6v3.6h-2.8v-3.6h-3.6v-2.8h3.6z",
    "cross": "M-5 -3l2 -2l3 3l3 -3l2 2l-3 3l3 3l-2 2l-3 -3l-3 3l-2 -2l3 -3z",
    "bar": "M-5 -1.8h10v3.6h-10z",
}
# A curve without markers that has one point alone: a piece of its line, wider than any marker.
TICKS = {
    "dashed": "M-13 -.9h6v1.8h-6zM-3 -.9h6v1.8h-6zM7 -.9h6v1.8h-6z",
    "dotted": "".join(f"M{x} -.9h1.8v1.8h-1.8z" for x in (-12.9, -6.9, -0.9, 5.1, 11.1)),
}


def draw_curves(panel: Panel, look: str, beside: Sequence[Panel] = ()) -> Picture | None:
    """Series on one pair of axes; what is a limit is dashed or dotted and has no markers.

    beside: panels of the same chart; those of the same unit stand on the same axes.
    """
    if not known_points(panel):
        return None
    alike = (panel.unit, panel.y_scale, panel.x_label)
    others = [p for p in beside if (p.unit, p.y_scale, p.x_label) == alike] or [panel]
    known = [item for other in others for item in known_points(other)]
    values = [v for _, point, value in known for v in (value, *range_ends(point.y))]
    logarithmic = panel.y_scale == "log" and min(values) > 0
    low, high = _span(values, panel.unit, logarithmic=logarithmic)
    places = {float(x): text for other in others for x, text in other.x_ticks}
    places = places or {float(p.x): units.count(p.x) for _, p, _ in known}
    xs = sorted(places)
    own = math.log10 if panel.x_scale == "log" and min(xs) > 0 else float
    left, right = own(min(xs)), own(max(xs))
    floor = HEIGHT - BOTTOM
    shown = units.shown_unit([point.y for _, point, _ in known], panel.unit)

    def across(value: float) -> float:
        part = (own(value) - left) / (right - left) if right > left else 0.5
        return room + (100 - room - RIGHT) * part

    def up(value: float) -> float:
        scaled = math.log10(value) if logarithmic else value
        return round(floor - (floor - TOP) * (scaled - low) / ((high - low) or 1.0), 1)

    def show(value: float) -> str:
        return units.text(Quantity(value, panel.unit), shown)

    ticks = _ticks(low, high, logarithmic=logarithmic)
    room = 100 * CHARACTER * max((len(show(tick)) for tick in ticks), default=0) / NARROWEST
    shapes = [element("text", panel.title, x=0, y=13, class_="strong")]
    for tick in ticks:
        y = up(tick)
        shapes.append(element("line", x1=0, x2="100%", y1=y, y2=y, class_="grid"))
        shapes.append(element("text", show(tick), x=0, y=y - 3, class_="soft halo"))
    for x in xs:
        text = places[x]
        shapes.append(element("text", text, x=percent(across(x)), y=HEIGHT - 8, class_="soft mid"))
    shapes.append(element("text", panel.x_label, x="100%", y=13, class_="soft end"))
    # What was measured is drawn last, on top of its limits.
    for series in sorted(panel.series, key=lambda item: item.style in ("line", "marks")):
        shapes += _curve(series, panel, look, across, up, shown)
    words = "; ".join(
        f"{s.label} {', '.join(f'{said(p.y, shown)} at {units.count(p.x)}' for p in s.points)}"
        for s in panel.series
    )
    legend = tuple(Entry(_sample(s, look), s.label) for s in panel.series if s.points)
    return Picture(tuple(shapes), HEIGHT, f"{panel.title}: {words}", legend)


def _span(values: Sequence[float], unit: str, *, logarithmic: bool) -> tuple[float, float]:
    """Both ends of the vertical axis; shares from none to all, others from nothing."""
    if logarithmic:
        return math.log10(min(values)) - 0.12, math.log10(max(values)) + 0.12
    low, high = min(0.0, *values), max(0.0, *values)
    if unit == "share" and low >= 0 and high <= 1:
        return 0.0, 1.0
    room = 0.08 * (high - low or 1.0)
    return low - (room if low else 0), high + room


def _curve(
    series: Series,
    panel: Panel,
    look: str,
    across: Callable[[float], float],
    up: Callable[[float], float],
    shown: str,
) -> list[Element]:
    name = css(series.key, look)
    style = series.style if series.style in ("dashed", "dotted") else ""
    points = [(point, float(point.y.value)) for point in series.points if point.y.value is not None]
    shapes = []
    if series.style != "marks":
        shapes += [
            element(
                "line", x1=percent(across(a.x)), x2=percent(across(b.x)), y1=up(y0), y2=up(y1),
                class_=f"curve {name} {style}".strip(),
            )
            for (a, y0), (b, y1) in pairwise(points)
        ]  # fmt: skip
    for point, value in points:
        if ends := range_ends(point.y):
            x = percent(across(point.x))
            shapes.append(
                element("line", x1=x, x2=x, y1=up(ends[0]), y2=up(ends[1]), class_="range")
            )
        if not style or point.hatched or len(points) == 1:
            words = (
                f"{series.label}, {panel.x_label} {units.count(point.x)}: {said(point.y, shown)}"
            )
            words += f", {point.label}" if point.label else ""
            shape = TICKS[style] if style and not point.hatched else _marker(series, look)
            shapes.append(
                _placed(
                    shape, name, percent(across(point.x)), up(value), words, hollow=point.hatched
                )
            )
    return shapes


def _marker(series: Series, look: str) -> str:
    entry = MODES.get(series.key) if look == "mode" else None
    return MARKERS[entry.look.pattern if entry else "circle"]


def _placed(shape: str, name: str, x: str, y: float, words: str = "", *, hollow: bool) -> Element:
    return element(
        "svg",
        element(
            "path",
            element("title", words) if words else None,
            d=shape,
            class_=f"mark {name}{' hollow' if hollow else ''}",
        ),
        x=x,
        y=y,
        overflow="visible",
    )


def _sample(series: Series, look: str) -> Element:
    """A piece of the series' line, with its marker where it has one."""
    name = css(series.key, look)
    style = series.style if series.style in ("dashed", "dotted") else ""
    hollow = any(point.hatched for point in series.points)
    line = element("line", x1=0, x2=36, y1=7, y2=7, class_=f"curve {name} {style}".strip())
    marker = _placed(_marker(series, look), name, "18", 7, hollow=hollow)
    return element(
        "svg",
        line if series.style != "marks" else None,
        marker if not style or hollow else None,
        width=36,
        height=14,
        class_="swatch",
        aria_hidden="true",
    )


def _ticks(low: float, high: float, *, logarithmic: bool) -> list[float]:
    """Values at which the vertical axis is labelled."""
    if logarithmic:
        return round_values(low, high, (1,) if high - low > FEW_DECADES else (1, 2, 5))
    rough = (high - low) / 4 or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((d * power for d in (1, 2, 2.5, 5) if d * power >= rough), 10 * power)
    first = math.ceil(low / step)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]
