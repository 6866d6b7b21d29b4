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
from gaptrace.render.drawing.shapes import inset, label, line, sample, shape
from gaptrace.render.elements import Element, percent
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
    shapes = [label(panel.title, 0, 13, "strong")]
    for y, value in ((up(tick), show(tick)) for tick in ticks):
        shapes += [line(0, y, "100%", y, "grid"), label(value, 0, y - 3, "soft halo")]
    shapes += [label(places[x], percent(across(x)), HEIGHT - 8, "soft mid") for x in xs]
    shapes.append(label(panel.x_label, "100%", 13, "soft end"))
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
    name, style = css(series.key, look), _style(series)
    points = [
        (point, percent(across(point.x)), up(float(point.y.value)))
        for point in series.points
        if point.y.value is not None
    ]
    shapes = []
    if series.style != "marks":
        kind = f"curve {name} {style}"
        shapes += [line(x0, y0, x1, y1, kind) for (_, x0, y0), (_, x1, y1) in pairwise(points)]
    for point, x, y in points:
        if ends := range_ends(point.y):
            shapes.append(line(x, up(ends[0]), x, up(ends[1]), "range"))
        if not style or point.hatched or len(points) == 1:
            place = f"{panel.x_label} {units.count(point.x)}"
            words = f"{series.label}, {place}: {said(point.y, shown)}"
            words += f", {point.label}" if point.label else ""
            form = TICKS[style] if style and not point.hatched else _marker(series, look)
            shapes.append(_placed(form, name, x, y, words, hollow=point.hatched))
    return shapes


def _style(series: Series) -> str:
    return series.style if series.style in TICKS else ""


def _marker(series: Series, look: str) -> str:
    entry = MODES.get(series.key) if look == "mode" else None
    return MARKERS[entry.look.pattern if entry else "circle"]


def _placed(form: str, name: str, x: str, y: float, words: str = "", *, hollow: bool) -> Element:
    mark = shape("path", f"mark {name}" + " hollow" * hollow, words, d=form)
    return inset(x, y, mark, overflow="visible")


def _sample(series: Series, look: str) -> Element:
    """A piece of the series' line, with its marker where it has one."""
    name, style = css(series.key, look), _style(series)
    hollow = any(point.hatched for point in series.points)
    piece = line(0, 7, 36, 7, f"curve {name} {style}")
    marker = _placed(_marker(series, look), name, "18", 7, hollow=hollow)
    return sample(
        36,
        14,
        piece if series.style != "marks" else None,
        marker if not style or hollow else None,
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
