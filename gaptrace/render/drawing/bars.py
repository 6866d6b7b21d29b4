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
from gaptrace.render.elements import Element, element, percent

BAR, BAR_SPACE, TITLE = 36, 12, 18
STEP, STEP_SPACE, GUTTER = 22, 6, 232
# Room kept at the right of a bridge for its values, in percent.
BRIDGE = 80.0
# Names for little room.
SHORT = {
    "sync": "sync",
    "python": "Python",
    "host_wait": "host wait",
    "dispatch": "dispatch",
    "launch": "launch",
    "runtime": "runtime",
    "alloc": "allocator",
    "device_wait": "GPU wait",
    "graph_node": "nodes",
    "profiler": "profiler",
    "backpressure": "queue full",
    "pointwise": "pointwise",
}


def draw_bars(block: Bars) -> Picture:
    """The picture of a block of bars."""
    return _bridge(block) if block.kind == "bridge" else _stacked(block)


def amount(quantity: Quantity) -> float:
    """A quantity as a length; nothing where it is withheld."""
    return float(quantity.value or 0)


def bar_legend(block: Bars) -> tuple[Entry, ...]:
    """What the segments with a length are; of a bridge, whose rows have labels, the looks alone."""
    bridge = block.kind == "bridge"
    labels: dict[str, str] = {}
    for bar in block.bars:
        for segment in bar.segments:
            known = word(segment.key, block.look)[1] is not None
            if amount(segment.amount) and (known or not bridge):
                labels.setdefault(segment.key, "" if bridge else segment.label)
    return tuple(fill_entry(key, block.look, label) for key, label in labels.items())


def _stacked(block: Bars) -> Picture:
    """Each bar with its label above; parts named inside where they fit."""
    whole = max((_length(bar) for bar in block.bars), default=0) or 1
    shapes: list[Element] = []
    y = 0
    for bar in block.bars:
        first = bar.total or next((s.amount for s in bar.segments if s.amount.basis), None)
        total = "" if first is None else said(first) if bar.total else basis_note(first).strip()
        shapes.append(element("text", bar.label, x=0, y=y + 12, class_="soft"))
        shapes.append(element("text", total, x="100%", y=y + 12, class_="soft end"))
        y += TITLE
        x = 0.0
        for segment in bar.segments:
            width = 100 * max(amount(segment.amount), 0) / whole
            shapes += _segment(segment, block.look, x, y, width, hatched=bar.hatched)
            x += width
        y += BAR + BAR_SPACE
    words = "; ".join(f"{bar.label}: {_words(bar.segments)}" for bar in block.bars)
    return Picture(tuple(shapes), y - BAR_SPACE + 2, words, bar_legend(block))


def _length(bar: Bar) -> float:
    return sum(max(amount(segment.amount), 0) for segment in bar.segments)


def _unit(bars: Sequence[Bar]) -> str | None:
    """The one unit of the parts, chosen by their median."""
    parts = [s.amount for bar in bars for s in bar.segments if s.amount.known]
    return units.shown_unit(parts, parts[0].unit) if parts else None


def _words(segments: Sequence[Segment]) -> str:
    return ", ".join(f"{s.label} {units.text(s.amount)}" for s in segments)


def _segment(
    segment: Segment, look: str, x: float, y: int, width: float, *, hatched: bool
) -> list[Element]:
    """A part of a bar, and its name and amount inside it where they fit."""
    name = css(segment.key, look)
    text = units.text(segment.amount)
    note = f"; {segment.note}" if segment.note else ""
    box = {"x": percent(x), "y": y, "width": percent(width), "height": BAR}
    tip = element("title", f"{segment.label}: {said(segment.amount)}{note}")
    shapes = [element("rect", tip, class_=name, **box)]
    if hatched:
        shapes.append(element("rect", class_="hatch", **box))
    short = SHORT.get(segment.key, segment.label)
    for label in (f"{segment.label} {text}", f"{short} {text}", short):
        if width * NARROW / 100 > CHARACTER * len(label) + 8:
            style = "halo" if hatched else on(name)
            shapes.append(
                element(
                    "text", label, x=percent(x + width / 2), y=y + BAR / 2 + 4,
                    class_=f"mid {style}",
                )
            )  # fmt: skip
            break
    return shapes


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
    before, after = _signed(first), _signed(last)
    top = max(before, after)
    deltas = [_signed(bar) for bar in parts]
    order = in_range(deltas, before, top)
    rows: list[tuple[Bar, float, float]] = [(first, 0.0, before)]
    at = before
    for i in order:
        rows.append((parts[i], at, at + deltas[i]))
        at += deltas[i]
    rows.append((last, 0.0, after))
    low = min(0.0, *(min(start, end) for _, start, end in rows))
    span = max(max(max(start, end) for _, start, end in rows) - low, 1.0)
    shown = _unit(parts)

    def across(value: float) -> float:
        return BRIDGE * (value - low) / span

    height = len(rows) * (STEP + STEP_SPACE) - STEP_SPACE
    zero = percent(across(0))
    shapes = [element("line", x1=zero, x2=zero, y1=0, y2=height, class_="zero")]
    labels: list[Element] = []
    for i, (bar, start, end) in enumerate(rows):
        y = i * (STEP + STEP_SPACE)
        whole = i in (0, len(rows) - 1)
        left, width = across(min(start, end)), max(across(abs(end - start) + low), 0.15)
        text = _bar_text(bar, shown, whole=whole)
        box = {"x": percent(left), "y": y, "width": percent(width), "height": STEP}
        key = bar.segments[0].key if bar.segments else ""
        fill = element(
            "rect", element("title", f"{bar.label}: {text}"), class_=css(key, block.look), **box
        )
        strong = "strong" if whole else None
        shapes += [fill, element("rect", class_="hatch", **box)] if bar.hatched else [fill]
        shapes.append(
            element("text", text, x=percent(left + width + 0.8), y=y + STEP - 7, class_=strong)
        )
        labels.append(
            element(
                "text", units.middle_elided(bar.label, 36), x="100%", y=y + STEP - 7,
                class_="end strong" if whole else "end",
            )
        )  # fmt: skip
        if i + 1 < len(rows):
            edge = percent(across(end))
            shapes.append(
                element("line", x1=edge, x2=edge, y1=y + STEP, y2=y + STEP + STEP_SPACE,
                        class_="link")
            )  # fmt: skip
    words = "; ".join(
        f"{bar.label}: {_bar_text(bar, shown, whole=i in (0, len(rows) - 1))}"
        for i, (bar, _, _) in enumerate(rows)
    )
    return Picture(tuple(shapes), height, words, bar_legend(block), tuple(labels), GUTTER)


def _signed(bar: Bar) -> float:
    return sum(amount(segment.amount) for segment in bar.segments)


def _bar_text(bar: Bar, shown: str | None, *, whole: bool) -> str:
    """An end's total with its basis; else the change, in the unit of all of them."""
    if whole and bar.total is not None:
        return said(bar.total)
    return units.text(bar.segments[0].amount, shown) if bar.segments else ""
