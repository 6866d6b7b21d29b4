"""Charts: ceilings on one axis, the 2x2 of modes, the strip of steps, and curves."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gaptrace import units
from gaptrace.document.blocks import Bar, Chart, Panel, Point, Series
from gaptrace.quantity import Quantity
from gaptrace.render.drawing.bars import amount, bar_legend
from gaptrace.render.drawing.curves import draw_curves
from gaptrace.render.drawing.looks import css
from gaptrace.render.drawing.picture import (
    CHARACTER,
    NARROW,
    Picture,
    basis_note,
    known_points,
    range_ends,
    round_values,
    said,
)
from gaptrace.render.elements import Element, element, number, percent
from gaptrace.vocabulary import MODES, SQUARE


def draw_chart(block: Chart) -> list[Picture]:
    """The pictures of a chart; none where there is nothing to draw but its table.

    A strip of steps is drawn twice, in order and by duration.
    """
    if block.kind == "steps":
        return _strips(block)
    if block.kind == "panels":
        found = [draw_curves(panel, block.look, block.panels) for panel in block.panels]
    else:
        draw = _axis if block.kind == "axis" else _grid
        found = [draw(panel) for panel in block.panels]
    return [picture for picture in found if picture is not None]


# ---------------------------------------------------------------- axis

AXIS = 58
# Rows that labels of ceilings take where they would overlap.
LABEL_ROWS = (12, 26)


def _axis(panel: Panel) -> Picture | None:
    """Marks on one logarithmic axis: ceilings as lines, what was measured as a dot."""
    known = [item for item in known_points(panel) if item[2] > 0]
    if not known:
        return None
    values = [value for _, _, value in known]
    low, high = math.log10(min(values)) - 0.36, math.log10(max(values)) + 0.36
    if high - low < 1:
        middle = (high + low) / 2
        low, high = middle - 0.5, middle + 0.5

    def at(value: float) -> float:
        return 100 * (math.log10(value) - low) / (high - low)

    ceilings = sorted((i for i in known if i[0].style != "marks"), key=lambda i: i[2])
    dots = [item for item in known if item[0].style == "marks"]
    shown = units.shown_unit([point.y for _, point, _ in known], panel.unit)
    shapes = [element("line", x1=0, x2="100%", y1=AXIS, y2=AXIS, class_="axis")]
    if ceilings:
        lowest = at(ceilings[0][2])
        beyond = element("rect", x=percent(lowest), y=34, width=percent(100 - lowest),
                         height=24, class_="beyond")  # fmt: skip
        shapes.insert(0, beyond)
    for value in round_values(low, high, (1, 2, 5)):
        tick = percent(at(value))
        label = units.number(value, panel.unit, shown)
        shapes += [
            element("line", x1=tick, x2=tick, y1=AXIS, y2=AXIS + 4, class_="axis"),
            element("text", label, x=tick, y=AXIS + 18, class_="soft mid"),
        ]
    shapes.append(element("text", f"{panel.x_label or panel.y_label}", x="100%", y=AXIS + 34,
                          class_="soft end"))  # fmt: skip
    placed: list[tuple[float, float]] = []
    for series, point, value in ceilings:
        x, label = at(value), _label(series, point, shown)
        width = 100 * (CHARACTER * len(label) + 8) / NARROW
        right = x > 62
        span = (x - width, x) if right else (x, x + width)
        close = any(span[0] < end and begin < span[1] for begin, end in placed)
        placed.append(span)
        style = "ceiling dashed" if series.style == "dashed" else "ceiling"
        shapes.append(element("line", x1=percent(x), x2=percent(x), y1=16, y2=AXIS, class_=style))
        shapes.append(_beside(label, x, LABEL_ROWS[close], "halo", right=right))
    for series, point, value in dots:
        x, label = at(value), _label(series, point, shown)
        for end in (range_ends(point.y),) if range_ends(point.y) else ():
            shapes.append(
                element("line", x1=percent(at(max(end[0], 10**low))), x2=percent(at(end[1])),
                        y1=46, y2=46, class_="range")
            )  # fmt: skip
        shapes.append(element("circle", cx=percent(x), cy=46, r=6, class_="measured"))
        # The label keeps clear of a ceiling line beside it, where the edge leaves it room.
        right = x > 80 or (x > 18 and any(1.2 < at(v) - x < 24 for _, _, v in ceilings))
        shapes.append(_beside(label, x, 50, "halo strong", right=right, gap=1.0))
    words = "; ".join(_label(series, point, shown) for series, point, _ in known)
    return Picture(tuple(shapes), AXIS + 40, words)


def _label(series: Series, point: Point, shown: str | None = None) -> str:
    return f"{point.label or series.label} {said(point.y, shown)}"


def _beside(text: str, x: float, y: int, style: str, *, right: bool, gap: float = 0.6) -> Element:
    """A label at one side of a position."""
    place = percent(x - gap if right else x + gap)
    return element("text", text, x=place, y=y, class_=f"{style} end" if right else style)


# ---------------------------------------------------------------- grid

CELL, CELL_HEAD, CELL_LEFT = 92, 24, 12.0


def _grid(panel: Panel) -> Picture | None:
    """{eager, compiled} x {launched, captured}: measured solid, predicted hatched, on one scale."""
    cells: dict[str, list[Point]] = {}
    for series in panel.series:
        for point in series.points:
            cells.setdefault(point.key or series.key, []).append(point)
    shown = units.shown_unit([point.y for points in cells.values() for point in points], panel.unit)
    lengths = [
        v for points in cells.values() for v in (amount(points[0].y), *range_ends(points[0].y))
    ]
    whole = max(lengths, default=0)
    if not whole:
        return None
    shapes: list[Element] = []
    width = (100 - CELL_LEFT) / 2
    for column, title in enumerate(("launched", "captured")):
        x = percent(CELL_LEFT + column * width)
        shapes.append(element("text", title, x=x, y=14, class_="strong"))
    for row, title in enumerate(("eager", "compiled")):
        y = CELL_HEAD + row * CELL
        shapes.append(element("line", x1=0, x2="100%", y1=y, y2=y, class_="rule"))
        shapes.append(element("text", title, x=0, y=y + 30, class_="strong"))
    words = []
    for mode, name in SQUARE.items():
        entry = MODES[mode]
        left = CELL_LEFT + width * entry.captured
        y = CELL_HEAD + CELL * entry.compiled
        points = cells.get(mode, [])
        shapes += _cell(points, name, shown, whole, left, width - 4, y)
        words.append(f"{name}: {said(points[0].y, shown) if points else 'not recorded'}")
    return Picture(tuple(shapes), CELL_HEAD + 2 * CELL, "; ".join(words))


def _cell(
    points: Sequence[Point], name: str, shown: str, whole: float, left: float, width: float, y: int
) -> list[Element]:
    """One mode: its number set large, its bar with the range that it may lie in, its words."""
    first = points[0] if points else None
    if first is None or not first.y.known:
        text = "not recorded" if first is None else units.text(first.y)
        words = [text] if first is None or not first.label else [text, first.label]
        return _lines(words, left, width, y + 30)
    big, unit = units.text(first.y, shown).partition(" (")[0], ""
    if shown and big.endswith(shown):
        big, unit = big.removesuffix(shown).rstrip(), shown
    basis = basis_note(first.y)
    shapes = [
        element(
            "text",
            element("tspan", big, class_="large"),
            element("tspan", f" {unit}{basis}", class_="small"),
            x=percent(left), y=y + 32, class_="big",
        )
    ]  # fmt: skip
    box = {
        "x": percent(left),
        "y": y + 42,
        "width": percent(width * amount(first.y) / whole),
        "height": 10,
    }
    shapes.append(element("rect", class_="k-busy", **box))
    if first.hatched:
        shapes.append(element("rect", class_="hatch", **box))
    if ends := range_ends(first.y):
        x1, x2 = (percent(left + width * end / whole) for end in ends)
        shapes.append(element("line", x1=x1, x2=x2, y1=y + 47, y2=y + 47, class_="range"))
        shapes += [
            element("line", x1=x, x2=x, y1=y + 43, y2=y + 51, class_="range") for x in (x1, x2)
        ]
    words = [point.label for point in points if point.label and point.label != name]
    words += [said(point.y) for point in points[1:] if point.y.known]
    if ends:
        words.insert(0, f"{'predicted ' if first.hatched else ''}range {_range(first.y, shown)}")
    return [*shapes, *_lines(words[:2], left, width, y + 68)]


def _range(quantity: Quantity, shown: str) -> str:
    bare = Quantity(None, quantity.unit, quantity.basis, "range", quantity.low, quantity.high)
    return units.text(bare, shown)


def _lines(words: Sequence[str], left: float, width: float, y: int) -> list[Element]:
    room = int(width * NARROW / 100 / CHARACTER)
    return [
        element(
            "text", element("title", text), units.middle_elided(text, room), x=percent(left),
            y=y + 16 * i, class_="soft",
        )
        for i, text in enumerate(words)
    ]  # fmt: skip


# ---------------------------------------------------------------- steps

STRIP, WIDTH, WIDEST, HEADROOM = 112, 1200, 48, 1.25
# Labels of the strip closer than this, in percent of the width, go on two lines.
LABEL_SHARE = 14


def _strips(block: Chart) -> list[Picture]:
    if block.bars is None or not block.bars.bars:
        return []
    bars = block.bars.bars
    by_length = sorted(bars, key=lambda bar: (_tall(bar), bar.label))
    return [_strip(block, bars), _strip(block, by_length)]


def _tall(bar: Bar) -> float:
    return sum(max(amount(segment.amount), 0) for segment in bar.segments)


def _strip(block: Chart, bars: Sequence[Bar]) -> Picture:
    """The steps side by side, each a stack as tall as it is long.

    A step that counts for nothing must not flatten all the others: it is cut off at the top.
    """
    assert block.bars is not None
    counted = [bar for bar in bars if not bar.weak]
    longest = max(_tall(bar) for bar in counted or bars) or 1
    longest *= HEADROOM if len(counted) < len(bars) else 1
    pitch = min(WIDTH / len(bars), WIDEST)
    width = max(pitch - max(1.0, min(pitch * 0.2, 6)), 0.8)
    paths: dict[str, list[str]] = {}
    hits: list[Element] = []
    cuts: list[str] = []
    labels: list[Element] = []
    ends = [-100.0, -100.0]
    shown = units.shown_unit([b.total for b in bars if b.total is not None], "ns")
    for place, bar in enumerate(bars):
        x, y = place * pitch, float(STRIP)
        for segment in bar.segments:
            if value := max(amount(segment.amount), 0):
                high = min(STRIP * value / longest, y)
                y -= high
                name = css(segment.key, block.bars.look) + (" faded" if bar.weak else "")
                paths.setdefault(name, []).append(
                    f"M{number(round(x, 1))} {number(round(y, 1))}h{number(round(width, 1))}"
                    f"v{number(round(high, 1))}h{number(round(-width, 1))}z"
                )
        if _tall(bar) > longest:
            cuts.append(f"M{number(round(x - 1, 1))} 9l{number(round(width + 2, 1))} -5")
        words = f"{bar.label}: {said(bar.total, shown) if bar.total else ''}"
        if bar.note:
            words += f", {bar.note}"
        hits.append(
            element(
                "rect", element("title", words), x=round(x, 1), y=0, width=round(pitch, 1),
                height=STRIP, class_="hit", data_step=bar.key.partition(":")[2] or None,
            )
        )  # fmt: skip
        if bar.mark:
            middle = 100 * (place * pitch + width / 2) / WIDTH
            row = 0 if middle - ends[0] > LABEL_SHARE else 1
            ends[row] = middle
            anchor = "mid" if 7 < middle < 93 else "end" if middle >= 93 else ""
            labels.append(
                element("text", f"{bar.mark} ▾", x=percent(middle), y=12 + 14 * row,
                        class_=f"soft {anchor}".strip())
            )  # fmt: skip
    lanes = element(
        "svg",
        [element("path", d="".join(d), class_=name) for name, d in paths.items()],
        element("path", d="".join(cuts), class_="cut") if cuts else None,
        hits,
        viewBox=f"0 0 {WIDTH} {STRIP}",
        preserveAspectRatio="none",
        width="100%",
        height=STRIP,
        y=32,
    )
    marks = ", ".join(f"{bar.mark} is {bar.label}" for bar in bars if bar.mark)
    return Picture((*labels, lanes), STRIP + 34, f"{block.title}: {marks}", bar_legend(block.bars))
