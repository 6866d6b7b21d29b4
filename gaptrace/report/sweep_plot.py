"""A sweep as curves: tokens per second with both ceilings, idle share and fusion savings.

One panel a mode for the rates, so that a mode and its two ceilings can be told from the others;
all of them on the same axes. Positions along the page are percentages, so that text and markers
keep their size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gaptrace import units
from gaptrace.report import palette
from gaptrace.report.markup import Markup, element, markup, number
from gaptrace.runs.sweep import Place, SweepAnalysis

HEIGHT, TOP, BOTTOM = 190, 38, 24
# Room at the right end of the horizontal axis, and at the left where values are written, in
# percent of the width: panels of rates are narrow and their values long.
RIGHT, LEFT, LEFT_OF_RATES = 4.0, 11.0, 21.0
MEASURED, LAUNCH, BANDWIDTH, PREDICTED = "measured", "launch", "bandwidth", "predicted"
# Axes longer than this many decades have ticks at powers of ten alone.
FEW_DECADES = 1.7
SHAPES = {
    "circle": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
    "square": "M-3.6 -3.6h7.2v7.2h-7.2z",
    "diamond": "M0 -5l5 5l-5 5l-5 -5z",
    "triangle": "M0 -5l4.8 8.6h-9.6z",
    "triangle-down": "M0 5l4.8 -8.6h-9.6z",
    "plus": "M-1.4 -5h2.8v3.6h3.6v2.8h-3.6v3.6h-2.8v-3.6h-3.6v-2.8h3.6z",
    "cross": "M-5 -3l2 -2l3 3l3 -3l2 2l-3 3l3 3l-2 2l-3 -3l-3 3l-2 -2l3 -3z",
    "bar": "M-5 -1.8h10v3.6h-10z",
}
# A ceiling with one point alone: a piece of its line, dashed or dotted, wider than any marker.
TICKS = {
    LAUNCH: "M-13 -.9h6v1.8h-6zM-3 -.9h6v1.8h-6zM7 -.9h6v1.8h-6z",
    BANDWIDTH: "".join(f"M{x} -.9h1.8v1.8h-1.8z" for x in (-12.9, -6.9, -0.9, 5.1, 11.1)),
}


@dataclass(frozen=True)
class Curve:
    """One line of a panel: the mode whose look it has, what it shows, and its points (x, y)."""

    mode: str
    kind: str
    points: tuple[tuple[float, float], ...]

    @property
    def words(self) -> str:
        """What the curve is, for its tooltip."""
        if self.kind == MEASURED:
            return self.mode
        return f"{self.mode}, {self.kind}" + (" ceiling" if self.kind != PREDICTED else "")


@dataclass(frozen=True)
class Panel:
    """Curves on one pair of axes. show: how a value reads; logarithmic: of the vertical axis."""

    title: str
    curves: tuple[Curve, ...]
    show: Callable[[float], str]
    logarithmic: bool
    x: tuple[float, ...]
    y: tuple[float, float]


def axis(sweep: SweepAnalysis) -> str:
    """What the horizontal axis counts: `batch`, or `length` where only that varies."""
    batches = {place.batch for place in sweep.places}
    lengths = {place.length for place in sweep.places}
    return "length" if (len(batches) == 1 and len(lengths) > 1) or batches == {None} else "batch"


def _at(place: Place, along: str) -> int | None:
    return place.batch if along == "batch" else place.length


def _groups(sweep: SweepAnalysis, along: str) -> list[tuple[str, list[Place]]]:
    """The points that one panel shows, by the size that its axis does not count."""
    found: dict[int | None, list[Place]] = {}
    for place in sweep.places:
        if _at(place, along) is not None:
            other = place.length if along == "batch" else place.batch
            found.setdefault(other, []).append(place)
    word = "length" if along == "batch" else "batch"
    several = len(found) > 1
    return [
        (f" · {word} {units.count(other)}" if several and other is not None else "", places)
        for other, places in found.items()
    ]


def rate_panels(sweep: SweepAnalysis) -> tuple[Panel, ...]:
    """Tokens per second against the axis, a panel for each mode, both ceilings in it."""
    along = axis(sweep)
    fields = (
        (MEASURED, "tokens_per_s"),
        (LAUNCH, "launch_tokens_per_s"),
        (BANDWIDTH, "bandwidth_tokens_per_s"),
    )
    found: list[tuple[str, list[Curve]]] = []
    for suffix, places in _groups(sweep, along):
        for mode in sweep.modes:
            rows = [row for row in sweep.of_mode(mode) if row.place in places]
            curves = [
                Curve(mode, kind, points)
                for kind, name in fields
                if (
                    points := tuple(
                        (float(_at(row.place, along) or 0), float(getattr(row, name)))
                        for row in rows
                        if getattr(row, name)
                    )
                )
            ]
            if any(curve.kind == MEASURED for curve in curves):
                found.append((f"{mode}{suffix}", curves))
    values = [y for _, curves in found for curve in curves for _, y in curve.points]
    if not values:
        return ()
    low, high = math.log10(min(values)) - 0.12, math.log10(max(values)) + 0.12
    ticks = _positions(sweep, along)
    return tuple(
        Panel(title, tuple(curves), units.digits, True, ticks, (low, high))
        for title, curves in found
    )


def idle_panels(sweep: SweepAnalysis) -> tuple[Panel, ...]:
    """Idle share of the step against the axis, all modes in one panel."""
    along = axis(sweep)
    panels = []
    for suffix, places in _groups(sweep, along):
        curves = []
        for mode in sweep.modes:
            points = tuple(
                (float(_at(row.place, along) or 0), row.idle_share)
                for row in sweep.of_mode(mode)
                if row.place in places and row.idle_share is not None
            )
            if points:
                curves.append(Curve(mode, MEASURED, points))
        if curves:
            panels.append(
                Panel(
                    f"idle share{suffix}",
                    tuple(curves),
                    lambda value: units.share(value, 1),
                    False,
                    _positions(sweep, along),
                    (0.0, 1.0),
                )
            )
    return tuple(panels)


def saving_panels(sweep: SweepAnalysis) -> tuple[Panel, ...]:
    """Busy time that fusion saves per step: predicted from eager shapes, and realised."""
    along = axis(sweep)
    panels = []
    for suffix, places in _groups(sweep, along):
        mine = [saving for saving in sweep.savings if saving.place in places]
        curves = []
        for kind, name in ((PREDICTED, "predicted_ns"), (MEASURED, "realised_ns")):
            points = tuple(
                (float(_at(item.place, along) or 0), float(getattr(item, name)))
                for item in mine
                if getattr(item, name) is not None
            )
            if points:
                curves.append(Curve("compiled", kind, points))
        values = [y for curve in curves for _, y in curve.points]
        if values:
            low, high = min(0.0, *values), max(0.0, *values)
            room = 0.08 * (high - low or 1.0)
            panels.append(
                Panel(
                    f"fusion saves per step{suffix}", tuple(curves), units.time, False,
                    _positions(sweep, along), (low - (room if low else 0), high + room),
                )
            )  # fmt: skip
    return tuple(panels)


def _positions(sweep: SweepAnalysis, along: str) -> tuple[float, ...]:
    found = {_at(place, along) for place in sweep.places}
    return tuple(sorted(float(value) for value in found if value is not None))


def marker(mode: str, kind: str, x: str, y: float, said: str = "") -> Markup:
    """The marker of a mode at a place, of a ceiling a tick; `x` may be a percentage."""
    look = palette.MODES.get(mode, palette.MODES["as-is"])
    css = f"mark m-{mode if mode in palette.MODES else 'as-is'}"
    return element(
        "svg",
        element(
            "path",
            element("title", said) if said else None,
            d=TICKS.get(kind) or SHAPES[look.pattern],
            class_=css if kind == MEASURED else f"{css} {kind}",
        ),
        x=x,
        y=round(y, 1),
        overflow="visible",
    )


def draw(panel: Panel, along: str) -> list[Markup]:
    """The shapes of a panel, `HEIGHT` high and as wide as what they are put into."""
    room = LEFT_OF_RATES if panel.logarithmic else LEFT
    left, right = math.log10(panel.x[0]), math.log10(panel.x[-1])

    def across(value: float) -> float:
        part = (math.log10(value) - left) / (right - left) if right > left else 0.5
        return room + (100 - room - RIGHT) * part

    low, high = panel.y
    floor = HEIGHT - BOTTOM

    def up(value: float) -> float:
        own = math.log10(value) if panel.logarithmic else value
        return floor - (floor - TOP) * (own - low) / ((high - low) or 1.0)

    shapes = [element("text", panel.title, x=0, y=13, class_="strong")]
    for tick in _ticks(panel):
        y = round(up(tick), 1)
        shapes.append(element("line", x1=0, x2="100%", y1=y, y2=y, class_="grid"))
        shapes.append(element("text", panel.show(tick), x=0, y=y - 3, class_="soft halo"))
    for value in panel.x:
        place = f"{number(across(value))}%"
        shapes.append(element("text", units.count(value), x=place, y=HEIGHT - 8, class_="soft mid"))
    shapes.append(element("text", along, x="100%", y=13, class_="soft end"))
    # The measured curve is drawn last, on top of its ceilings.
    for curve in sorted(panel.curves, key=lambda item: item.kind == MEASURED):
        shapes += _curve(curve, across, up, panel.show, along)
    return shapes


def _curve(
    curve: Curve,
    across: Callable[[float], float],
    up: Callable[[float], float],
    show: Callable[[float], str],
    along: str,
) -> list[Markup]:
    mode = curve.mode if curve.mode in palette.MODES else "as-is"
    css = f"curve m-{mode}" + ("" if curve.kind == MEASURED else f" {curve.kind}")
    shapes = [
        element(
            "line", x1=f"{number(across(a))}%", x2=f"{number(across(b))}%",
            y1=round(up(y0), 1), y2=round(up(y1), 1), class_=css,
        )
        for (a, y0), (b, y1) in zip(curve.points, curve.points[1:], strict=False)
    ]  # fmt: skip
    if curve.kind in (MEASURED, PREDICTED) or len(curve.points) == 1:
        for x, y in curve.points:
            said = f"{curve.words}, {along} {units.count(x)}: {show(y)}"
            shapes.append(marker(mode, curve.kind, f"{number(across(x))}%", up(y), said))
    return shapes


def _ticks(panel: Panel) -> list[float]:
    """Values at which the vertical axis is labelled."""
    low, high = panel.y
    if panel.logarithmic:
        digits = (1,) if high - low > FEW_DECADES else (1, 2, 5)
        values = [
            digit * 10.0**power
            for power in range(math.floor(low), math.ceil(high) + 1)
            for digit in digits
        ]
        return [value for value in values if low <= math.log10(value) <= high]
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((d * power for d in (1, 2, 2.5, 5) if d * power >= rough), 10 * power)
    first = math.ceil(low / step)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def legend(items: Sequence[tuple[str, str, str]]) -> Markup:
    """A line of (mode, kind, word), each with a sample of its line and marker."""
    return element(
        "p",
        *[
            element(
                "span",
                element("svg", *_sample(mode, kind), width=36, height=14, aria_hidden="true"),
                word,
            )
            for mode, kind, word in items
        ],
        class_="legend",
    )


def _sample(mode: str, kind: str) -> list[Markup]:
    css = f"curve m-{mode if mode in palette.MODES else 'as-is'}"
    line = element(
        "line", x1=0, x2=36, y1=7, y2=7, class_=css if kind == MEASURED else f"{css} {kind}"
    )
    return [line, *([marker(mode, kind, "18", 7)] if kind in (MEASURED, PREDICTED) else [])]


def legends(sweep: SweepAnalysis) -> dict[str, list[tuple[str, str, str]]]:
    """What the curves of each figure are: `rates`, `idle` and `savings`."""
    first = next((mode for mode in sweep.modes if mode in palette.MODES), "as-is")
    return {
        "rates": [
            (first, MEASURED, "measured"),
            (first, LAUNCH, "launch ceiling"),
            (first, BANDWIDTH, "bandwidth ceiling"),
        ],
        "idle": [(mode, MEASURED, mode) for mode in sweep.modes],
        "savings": [
            ("compiled", PREDICTED, "predicted"),
            ("compiled", MEASURED, "realised"),
        ],
    }


def panel_figure(panels: Sequence[Panel], along: str) -> Markup:
    """The panels for a page, side by side where there is room."""
    return element(
        "div",
        *[
            element(
                "figure",
                element(
                    "svg", *draw(panel, along), width="100%", height=HEIGHT, role="img",
                    aria_label=_said(panel, along), class_="chart",
                ),
            )
            for panel in panels
        ],
        class_="panels",
    )  # fmt: skip


def _said(panel: Panel, along: str) -> str:
    parts = [
        f"{curve.words} "
        + ", ".join(f"{panel.show(y)} at {along} {units.count(x)}" for x, y in curve.points)
        for curve in panel.curves
    ]
    return f"{panel.title}: {'; '.join(parts)}"


def figures(sweep: SweepAnalysis) -> list[tuple[str, str, tuple[Panel, ...]]]:
    """Every figure of a sweep that has something to show: its key, sentence and panels."""
    along = axis(sweep)
    bases = dict.fromkeys(s.predicted_from for s in sweep.savings if s.predicted_from)
    base = f" of {', '.join(bases)}" if bases else ""
    found = [
        (
            "rates",
            f"Tokens per second against {along}, one panel a mode, both axes logarithmic: how far "
            "the measured rate stays below its two ceilings, and which of them is the lower one.",
            rate_panels(sweep),
        ),
        ("idle", f"Share of the step that the GPU idles, against {along}.", idle_panels(sweep)),
        (
            "savings",
            f"Busy time that fusion saves per step, against {along}: predicted from the eager "
            f"step{base}, and what compiling saved.",
            saving_panels(sweep),
        ),
    ]
    return [item for item in found if item[2]]


def standalone(sweep: SweepAnalysis) -> Markup:
    """A whole SVG file with every panel; light and dark by media query."""
    from gaptrace.report.patterns import standalone_style

    width, gap, along = 1_200, 28, axis(sweep)
    shapes: list[Markup] = []
    said = units.two_lines(sweep.sentence, 128)
    y = 28 + 20 * len(said)
    for key, sentence, panels in figures(sweep):
        shapes.append(element("text", sentence, x=8, y=y))
        x = 8.0
        for mode, kind, word in legends(sweep)[key]:
            shapes.append(element("svg", *_sample(mode, kind), x=x, y=y + 12, width=36, height=14))
            shapes.append(element("text", word, x=x + 42, y=y + 23))
            x += 64 + 7 * len(word)
        y += 40
        columns = min(3, len(panels)) if key == "rates" else min(2, len(panels))
        own = (width - 16 - gap * (columns - 1)) / columns
        for start in range(0, len(panels), columns):
            for i, panel in enumerate(panels[start : start + columns]):
                shapes.append(
                    element(
                        "svg", *draw(panel, along), x=round(8 + i * (own + gap), 1), y=y,
                        width=round(own, 1), height=HEIGHT,
                    )
                )  # fmt: skip
            y += HEIGHT + 16
        y += 20
    return element(
        "svg",
        element("title", sweep.sentence),
        standalone_style(),
        element("rect", width=width, height=y, class_="page"),
        *(element("text", line, x=8, y=22 + 20 * i, class_="h") for i, line in enumerate(said)),
        markup(*shapes),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {y}",
        width=width,
        height=y,
        role="img",
        aria_label=sweep.sentence,
    )
