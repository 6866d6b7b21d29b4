"""Charts: ceilings on one axis, the 2x2 of modes, the strip of steps, and curves."""

from __future__ import annotations

from collections.abc import Sequence

from gaptrace import units
from gaptrace.document.blocks import Bar, Chart, Panel, Point, Series
from gaptrace.quantity import Quantity
from gaptrace.render.drawing.bars import amount, bar_legend, length
from gaptrace.render.drawing.curves import draw_curves
from gaptrace.render.drawing.looks import css
from gaptrace.render.drawing.picture import (
    CHARACTER,
    NARROW,
    LogAxis,
    Picture,
    basis_note,
    known_points,
    range_ends,
    said,
)
from gaptrace.render.drawing.shapes import box, label, line, shape, stretched
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
    axis = LogAxis.over(values, 0.36)
    at = axis.at

    def words(series: Series, point: Point) -> str:
        return f"{point.label or series.label} {said(point.y, shown)}"

    ceilings = sorted((i for i in known if i[0].style != "marks"), key=lambda i: i[2])
    shown = units.shown_unit([point.y for _, point, _ in known], panel.unit)
    shapes = [line(0, AXIS, "100%", AXIS, "axis")]
    if ceilings:
        lowest = at(ceilings[0][2])
        shapes.insert(0, box(percent(lowest), 34, percent(100 - lowest), 24, "beyond"))
    for value in axis.ticks():
        tick = percent(at(value))
        shapes.append(line(tick, AXIS, tick, AXIS + 4, "axis"))
        shapes.append(label(units.number(value, panel.unit, shown), tick, AXIS + 18, "soft mid"))
    shapes.append(label(panel.x_label or panel.y_label, "100%", AXIS + 34, "soft end"))
    placed: list[tuple[float, float]] = []
    for series, point, value in ceilings:
        x, text = at(value), words(series, point)
        width = 100 * (CHARACTER * len(text) + 8) / NARROW
        right = x > 62
        span = (x - width, x) if right else (x, x + width)
        close = any(span[0] < end and begin < span[1] for begin, end in placed)
        placed.append(span)
        style = "ceiling dashed" if series.style == "dashed" else "ceiling"
        shapes.append(line(percent(x), 16, percent(x), AXIS, style))
        shapes.append(_beside(text, x, LABEL_ROWS[close], "halo", right=right))
    for series, point, value in known:
        if series.style != "marks":
            continue
        x = at(value)
        if ends := range_ends(point.y):
            first, last = percent(at(max(ends[0], 10**axis.low))), percent(at(ends[1]))
            shapes.append(line(first, 46, last, 46, "range"))
        shapes.append(shape("circle", "measured", cx=percent(x), cy=46, r=6))
        # The label keeps clear of a ceiling line beside it, where the edge leaves it room.
        right = x > 80 or (x > 18 and any(1.2 < at(v) - x < 24 for _, _, v in ceilings))
        shapes.append(_beside(words(series, point), x, 50, "halo strong", right=right, gap=1.0))
    whole = "; ".join(words(series, point) for series, point, _ in known)
    return Picture(tuple(shapes), AXIS + 40, whole)


def _beside(text: str, x: float, y: int, style: str, *, right: bool, gap: float = 0.6) -> Element:
    """A label at one side of a position."""
    return label(text, percent(x - gap if right else x + gap), y, style + " end" * right)


# ---------------------------------------------------------------- grid

CELL, CELL_HEAD, CELL_LEFT = 92, 24, 12.0
CELL_WIDTH = (100 - CELL_LEFT) / 2


def _grid(panel: Panel) -> Picture | None:
    """{eager, compiled} x {launched, captured}: measured solid, predicted hatched, on one scale."""
    cells: dict[str, list[Point]] = {}
    for series in panel.series:
        for point in series.points:
            cells.setdefault(point.key or series.key, []).append(point)
    shown = units.shown_unit([point.y for points in cells.values() for point in points], panel.unit)
    firsts = [points[0].y for points in cells.values()]
    whole = max((v for first in firsts for v in (amount(first), *range_ends(first))), default=0)
    if not whole:
        return None
    shapes: list[Element] = []
    for column, title in enumerate(("launched", "captured")):
        shapes.append(label(title, percent(CELL_LEFT + column * CELL_WIDTH), 14, "strong"))
    for row, title in enumerate(("eager", "compiled")):
        y = CELL_HEAD + row * CELL
        shapes += [line(0, y, "100%", y, "rule"), label(title, 0, y + 30, "strong")]
    words = []
    for mode, name in SQUARE.items():
        left = CELL_LEFT + CELL_WIDTH * MODES[mode].captured
        points = cells.get(mode, [])
        shapes += _cell(points, name, shown, whole, left, CELL_HEAD + CELL * MODES[mode].compiled)
        words.append(f"{name}: {said(points[0].y, shown) if points else 'not recorded'}")
    return Picture(tuple(shapes), CELL_HEAD + 2 * CELL, "; ".join(words))


def _cell(
    points: Sequence[Point], name: str, shown: str, whole: float, left: float, y: int
) -> list[Element]:
    """One mode: its number set large, its bar with the range that it may lie in, its words."""
    if not points or not points[0].y.known:
        words = [units.text(points[0].y), points[0].label] if points else ["not recorded"]
        return _lines([word for word in words if word], left, y + 30)
    first, width = points[0], CELL_WIDTH - 4
    big, unit = units.text(first.y, shown).partition(" (")[0], ""
    if shown and big.endswith(shown):
        big, unit = big.removesuffix(shown).rstrip(), shown
    parts = [
        element("tspan", text, class_=size)
        for text, size in ((big, "large"), (f" {unit}{basis_note(first.y)}", "small"))
    ]
    place = (percent(left), y + 42, percent(width * amount(first.y) / whole), 10)
    shapes = [shape("text", "big", "", parts, x=percent(left), y=y + 32), box(*place, "k-busy")]
    if first.hatched:
        shapes.append(box(*place, "hatch"))
    words = [point.label for point in points if point.label and point.label != name]
    words += [said(point.y) for point in points[1:] if point.y.known]
    if ends := range_ends(first.y):
        x1, x2 = (percent(left + width * end / whole) for end in ends)
        shapes.append(line(x1, y + 47, x2, y + 47, "range"))
        shapes += [line(x, y + 43, x, y + 51, "range") for x in (x1, x2)]
        bare = Quantity(None, first.y.unit, first.y.basis, "range", first.y.low, first.y.high)
        kind = "predicted range" if first.hatched else "range"
        words.insert(0, f"{kind} {units.text(bare, shown)}")
    return [*shapes, *_lines(words[:2], left, y + 68)]


def _lines(words: Sequence[str], left: float, y: int) -> list[Element]:
    room = int((CELL_WIDTH - 4) * NARROW / 100 / CHARACTER)
    return [
        label(units.middle_elided(text, room), percent(left), y + 16 * i, "soft", text)
        for i, text in enumerate(words)
    ]


# ---------------------------------------------------------------- steps

STRIP, WIDTH, WIDEST, HEADROOM = 112, 1200, 48, 1.25
# Labels of the strip closer than this, in percent of the width, go on two lines.
LABEL_SHARE = 14


def _strips(block: Chart) -> list[Picture]:
    if block.bars is None or not block.bars.bars:
        return []
    bars = block.bars.bars
    by_length = sorted(bars, key=lambda bar: (length(bar), bar.label))
    return [_strip(block, bars), _strip(block, by_length)]


def _strip(block: Chart, bars: Sequence[Bar]) -> Picture:
    """The steps side by side, each a stack as tall as it is long.

    A step that counts for nothing must not flatten all the others: it is cut off at the top.
    """
    assert block.bars is not None
    counted = [bar for bar in bars if not bar.weak]
    longest = max(map(length, counted or bars)) or 1
    longest *= HEADROOM if len(counted) < len(bars) else 1
    pitch = min(WIDTH / len(bars), WIDEST)
    width = round(max(pitch - max(1.0, min(pitch * 0.2, 6)), 0.8), 1)
    paths: dict[str, str] = {}
    hits, labels, cuts = [], [], ""
    ends = [-100.0, -100.0]
    shown = units.shown_unit([b.total for b in bars if b.total is not None], "ns")
    for place, bar in enumerate(bars):
        x, y = round(place * pitch, 1), float(STRIP)
        for segment in bar.segments:
            if value := max(amount(segment.amount), 0):
                high = min(STRIP * value / longest, y)
                y -= high
                name = css(segment.key, block.bars.look) + " faded" * bar.weak
                paths[name] = paths.get(name, "") + (
                    f"M{number(x)} {number(round(y, 1))}h{number(width)}"
                    f"v{number(round(high, 1))}h{number(-width)}z"
                )
        if length(bar) > longest:
            cuts += f"M{number(x - 1)} 9l{number(width + 2)} -5"
        words = f"{bar.label}: {said(bar.total, shown) if bar.total else ''}"
        words += f", {bar.note}" if bar.note else ""
        hits.append(
            shape(
                "rect", "hit", words, x=x, width=round(pitch, 1), height=STRIP,
                data_step=bar.key.partition(":")[2] or None,
            )
        )  # fmt: skip
        if bar.mark:
            middle = 100 * (place * pitch + width / 2) / WIDTH
            row = 0 if middle - ends[0] > LABEL_SHARE else 1
            ends[row] = middle
            anchor = "mid" if 7 < middle < 93 else "end" if middle >= 93 else ""
            labels.append(label(f"{bar.mark} ▾", percent(middle), 12 + 14 * row, f"soft {anchor}"))
    drawn = [shape("path", name, d=d) for name, d in paths.items()]
    drawn += [shape("path", "cut", d=cuts)] if cuts else []
    marks = ", ".join(f"{bar.mark} is {bar.label}" for bar in bars if bar.mark)
    shapes = (*labels, stretched(WIDTH, STRIP, drawn, hits, y=32))
    return Picture(shapes, STRIP + 34, f"{block.title}: {marks}", bar_legend(block.bars))
