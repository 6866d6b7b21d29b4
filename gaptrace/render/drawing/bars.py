"""Bars on one scale, and the bridge from one total to another as a waterfall."""

from __future__ import annotations

from collections.abc import Sequence

from gaptrace import units
from gaptrace.document.blocks import Bar, Bars, Segment
from gaptrace.quantity import Quantity
from gaptrace.render.drawing.looks import css, on, word
from gaptrace.render.drawing.picture import (
    CHARACTER,
    NARROW,
    Entry,
    Picture,
    basis_note,
    fill_entry,
    said,
)
from gaptrace.render.drawing.shapes import box, label, line
from gaptrace.render.elements import Element, percent

BAR, BAR_SPACE, TITLE = 36, 12, 18
STEP, STEP_SPACE, GUTTER = 22, 6, 232
# Room kept at the right of a bridge for its values, in percent.
BRIDGE = 80.0
# Names for little room; for these an id says enough.
SHORT = {key: key for key in ("sync", "dispatch", "launch", "runtime", "profiler", "pointwise")} | {
    "python": "Python", "host_wait": "host wait", "alloc": "allocator", "device_wait": "GPU wait",
    "graph_node": "nodes", "backpressure": "queue full",
}  # fmt: skip


def draw_bars(block: Bars) -> Picture:
    """The picture of a block of bars."""
    return _bridge(block) if block.kind == "bridge" else _stacked(block)


def amount(quantity: Quantity) -> float:
    """A quantity as a length; nothing where it is withheld."""
    return float(quantity.value or 0)


def length(bar: Bar) -> float:
    """How long a bar is: all of its parts but negative ones."""
    return sum(max(amount(segment.amount), 0) for segment in bar.segments)


def bar_legend(block: Bars) -> tuple[Entry, ...]:
    """What the segments with a length are; of a bridge, whose rows have labels, the looks alone."""
    bridge = block.kind == "bridge"
    labels: dict[str, str] = {}
    for segment in (segment for bar in block.bars for segment in bar.segments):
        known = word(segment.key, block.look)[1] is not None
        if amount(segment.amount) and (known or not bridge):
            labels.setdefault(segment.key, "" if bridge else segment.label)
    return tuple(fill_entry(key, block.look, text) for key, text in labels.items())


def _stacked(block: Bars) -> Picture:
    """Each bar with its label above; parts named inside where they fit."""
    whole = max(map(length, block.bars), default=0) or 1
    shapes: list[Element] = []
    y = 0
    for bar in block.bars:
        first = bar.total or next((s.amount for s in bar.segments if s.amount.basis), None)
        total = "" if first is None else said(first) if bar.total else basis_note(first).strip()
        shapes += [label(bar.label, 0, y + 12, "soft"), label(total, "100%", y + 12, "soft end")]
        x = 0.0
        for segment in bar.segments:
            width = 100 * max(amount(segment.amount), 0) / whole
            shapes += _segment(segment, block.look, x, y + TITLE, width, hatched=bar.hatched)
            x += width
        y += TITLE + BAR + BAR_SPACE
    words = "; ".join(
        f"{bar.label}: {', '.join(f'{s.label} {units.text(s.amount)}' for s in bar.segments)}"
        for bar in block.bars
    )
    return Picture(tuple(shapes), y - BAR_SPACE + 2, words, bar_legend(block))


def _segment(
    segment: Segment, look: str, x: float, y: int, width: float, *, hatched: bool
) -> list[Element]:
    """A part of a bar, and its name and amount inside it where they fit."""
    name, text = css(segment.key, look), units.text(segment.amount)
    tip = f"{segment.label}: {said(segment.amount)}{segment.note and f'; {segment.note}'}"
    shapes = _filled(x, y, width, BAR, name, tip, hatched=hatched)
    short = SHORT.get(segment.key, segment.label)
    for inside in (f"{segment.label} {text}", f"{short} {text}", short):
        if width * NARROW / 100 > CHARACTER * len(inside) + 8:
            style = "halo" if hatched else on(name)
            middle = percent(x + width / 2)
            return [*shapes, label(inside, middle, y + BAR / 2 + 4, f"mid {style}")]
    return shapes


def _filled(
    x: float, y: int, width: float, height: int, css_: str, tip: str, *, hatched: bool
) -> list[Element]:
    """A box at percentages, and over it the hatching of what is predicted."""
    place = (percent(x), y, percent(width), height)
    return [box(*place, css_, tip), *([box(*place, "hatch")] if hatched else [])]


# ---------------------------------------------------------------- bridge


def in_range(deltas: Sequence[float], start: float, top: float) -> list[int]:
    """An order of the deltas in which their running sum stays within 0 and `top` where it can.

    As given as far as that fits; else what fits comes first, losses of time before gains.
    """
    order, left, at = [], list(range(len(deltas))), start
    slack = 1e-6 * max(top, 1)
    while left:
        fitting = [i for i in left if -slack <= at + deltas[i] <= top + slack]
        chosen = fitting[0] if fitting else min(left, key=lambda i: abs(deltas[i]))
        left.remove(chosen)
        order.append(chosen)
        at += deltas[chosen]
    return order


def _bridge(block: Bars) -> Picture:
    """From the first bar's total to the last one's in signed steps, on one zero line."""
    first, *parts, last = block.bars
    before, after, deltas = _signed(first), _signed(last), [_signed(bar) for bar in parts]
    amounts = [s.amount for bar in parts for s in bar.segments if s.amount.known]
    shown = units.shown_unit(amounts, amounts[0].unit) if amounts else None
    rows, at = [(first, 0.0, before)], before
    for i in in_range(deltas, before, max(before, after)):
        rows.append((parts[i], at, at + deltas[i]))
        at += deltas[i]
    rows.append((last, 0.0, after))
    ends = [end for _, *both in rows for end in both]
    low = min(0.0, *ends)
    span = max(max(ends) - low, 1.0)

    def across(value: float) -> float:
        return BRIDGE * (value - low) / span

    height = len(rows) * (STEP + STEP_SPACE) - STEP_SPACE
    zero = percent(across(0))
    shapes, labels, words = [line(zero, 0, zero, height, "zero")], [], []
    for i, (bar, start, end) in enumerate(rows):
        y, whole = i * (STEP + STEP_SPACE), bar is first or bar is last
        left, width = across(min(start, end)), max(across(abs(end - start) + low), 0.15)
        # An end's total with its basis; else the change, in the unit of all of them.
        text = units.text(bar.segments[0].amount, shown) if bar.segments else ""
        text = said(bar.total) if whole and bar.total is not None else text
        key = bar.segments[0].key if bar.segments else ""
        tip, strong = f"{bar.label}: {text}", " strong" if whole else ""
        words.append(tip)
        name = css(key, block.look)
        shapes += _filled(left, y, width, STEP, name, tip, hatched=bar.hatched)
        shapes.append(label(text, percent(left + width + 0.8), y + STEP - 7, strong))
        name = units.middle_elided(bar.label, 36)
        labels.append(label(name, "100%", y + STEP - 7, f"end{strong}"))
        if i + 1 < len(rows):
            edge = percent(across(end))
            shapes.append(line(edge, y + STEP, edge, y + STEP + STEP_SPACE, "link"))
    legend = bar_legend(block)
    return Picture(tuple(shapes), height, "; ".join(words), legend, tuple(labels), GUTTER)


def _signed(bar: Bar) -> float:
    return sum(amount(segment.amount) for segment in bar.segments)
