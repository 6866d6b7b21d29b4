"""What a drawing is: shapes at percentages of a width, so that text and patterns keep their size.

HTML stretches it with the page, an SVG file gives it a width; both draw the same elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gaptrace.document.blocks import Panel, Point, Series
from gaptrace.quantity import Quantity
from gaptrace.render.drawing.looks import word
from gaptrace.render.drawing.shapes import swatch
from gaptrace.render.elements import Element
from gaptrace.render.tables import basis_words
from gaptrace.units import text

# Room for a character of a label at 12 px, in pixels.
CHARACTER = 6.6
# The narrowest width that labels inside a drawing are placed for, in pixels: a page 900 px wide.
NARROW = 750


@dataclass(frozen=True)
class Entry:
    """One entry of a legend: a sample of what is drawn, its word and glossary term."""

    sample: Element
    label: str
    term: str = ""


@dataclass(frozen=True)
class Picture:
    """One drawing. shapes: at percentages of the width, `height` high.

    said: the drawing in words. labels: shapes of a column `gutter` pixels wide at the left. role:
    `img`, or `group` where parts of it can be reached one by one. notes: what was merged.
    """

    shapes: tuple[Element, ...]
    height: int
    said: str
    legend: tuple[Entry, ...] = ()
    labels: tuple[Element, ...] = ()
    gutter: int = 0
    role: str = "img"
    notes: tuple[str, ...] = ()


def fill_entry(key: str, look: str, label: str = "") -> Entry:
    """The legend's entry for a fill; `label` where no vocabulary holds the key."""
    name, entry = word(key, look)
    known, term = (entry.label, entry.term) if entry else (key, "")
    return Entry(swatch(name), label or known, term)


def said(quantity: Quantity, shown: str | None = None) -> str:
    """A quantity in words, its basis in brackets."""
    return f"{text(quantity, shown)}{basis_note(quantity) if quantity.known else ''}"


def basis_note(quantity: Quantity) -> str:
    """The basis of a quantity in brackets; empty where it has none."""
    return f" ({basis_words(quantity.basis)})" if quantity.basis else ""


def known_points(panel: Panel) -> list[tuple[Series, Point, float]]:
    """Every point that can be placed: those with a value."""
    return [
        (series, point, float(point.y.value))
        for series in panel.series
        for point in series.points
        if point.y.value is not None
    ]


def range_ends(quantity: Quantity) -> tuple[float, ...]:
    """Both ends of a range; nothing where there is none."""
    if quantity.low is None or quantity.high is None:
        return ()
    return float(quantity.low), float(quantity.high)


@dataclass(frozen=True)
class LogAxis:
    """A logarithmic axis across the whole width; low, high: logarithms of its ends."""

    low: float
    high: float

    @classmethod
    def over(cls, values: Sequence[float], room: float) -> LogAxis:
        """The axis that holds the values, with room at both ends; at least a decade long."""
        low, high = math.log10(min(values)) - room, math.log10(max(values)) + room
        if high - low < 1:
            middle = (high + low) / 2
            low, high = middle - 0.5, middle + 0.5
        return cls(low, high)

    def at(self, value: float) -> float:
        """Where a value lies, in percent of the width."""
        return 100 * (math.log10(value) - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Values to write at the axis."""
        return round_values(self.low, self.high, (1, 2, 5))


def round_values(low: float, high: float, digits: Sequence[int]) -> list[float]:
    """Digits times powers of ten between two logarithms."""
    powers = range(math.floor(low), math.ceil(high) + 1)
    values = [digit * 10.0**power for power in powers for digit in digits]
    return [value for value in values if low <= math.log10(value) <= high]
