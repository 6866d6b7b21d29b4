"""Tables of a report: units in the header, numbers to the right, whole names one key away.

They are complete without scripts; with scripts they sort, filter and copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gaptrace import units
from gaptrace.report.markup import Markup, element, markup, shortened

ROWS_SHOWN = 200
NAME_WIDTH = 44
LONGEST_NAME = 1_500


@dataclass(frozen=True)
class Number:
    """A cell that sorts by value and reads as text."""

    value: float | None
    text: str


@dataclass(frozen=True)
class Name:
    """A cell with a name: a short form, and the whole of it where that differs."""

    short: str
    full: str


Cell = Number | Name | Markup | str


def counted(value: float | None) -> Number:
    """A count as a cell."""
    return Number(value, units.count(value))


def timed(value: float | None, unit: str) -> Number:
    """A time in ns as a cell of a column in `unit`."""
    return Number(value, units.time_value(value, unit))


def shared(part: float | None, whole: float | None) -> Number:
    """A share as a cell."""
    return Number(part / whole if part is not None and whole else None, units.share(part, whole))


def data_table(
    caption: str, header: Sequence[Markup | str], rows: Sequence[Sequence[Cell]]
) -> Markup:
    """A table inside its own frame; only the first 200 rows, and how many more there are.

    A column is to the right when its first cell is a number; one without any entry is left out.
    """
    if not rows:
        return element("p", f"{caption}: nothing was recorded.", class_="soft")
    filled = [any(not _empty(row[i]) for row in rows) for i in range(len(header))]
    header = [title for title, keep in zip(header, filled, strict=True) if keep]
    rows = [[cell for cell, keep in zip(row, filled, strict=True) if keep] for row in rows]
    right = [isinstance(cell, Number) for cell in rows[0]]
    shown = rows[:ROWS_SHOWN]
    head = element(
        "tr",
        *[
            element("th", title, scope="col", class_="n" if right[i] else None)
            for i, title in enumerate(header)
        ],
    )
    body = [element("tr", *[_cell(cell) for cell in row]) for row in shown]
    rest = len(rows) - len(shown)
    return element(
        "div",
        element(
            "div",
            element(
                "table",
                element("caption", caption, class_="hide"),
                element("thead", head),
                element("tbody", *body),
                class_="data",
            ),
            class_="frame",
            tabindex="0",
            role="region",
            aria_label=caption,
        ),
        element("p", f"{units.count(rest)} more rows are in --json.", class_="soft")
        if rest
        else None,
        class_="tablebox",
    )


def _empty(cell: Cell) -> bool:
    return (
        cell.value is None and cell.text in ("", units.MISSING)
        if isinstance(cell, Number)
        else not cell
    )


def _cell(cell: Cell) -> Markup:
    if isinstance(cell, Number):
        value = None if cell.value is None else f"{cell.value:.6g}"
        return element("td", cell.text, class_="n", data_v=value)
    if isinstance(cell, Name):
        return element("td", name(cell.short, cell.full), class_="mono")
    return element("td", cell)


def name(short: str, full: str, width: int = NAME_WIDTH) -> Markup:
    """A name cut in the middle; where that hides anything, it opens to the whole."""
    shown = units.middle_elided(shortened(short), width)
    if shown == full:
        return markup(shown)
    return element(
        "details",
        element("summary", shown),
        element("span", shortened(full, LONGEST_NAME), class_="whole"),
        class_="full",
    )


def facts(rows: Sequence[tuple[Markup | str, Markup | str]]) -> Markup:
    """Pairs of words and values as a description list."""
    return element(
        "dl",
        *[element("div", element("dt", what), element("dd", value)) for what, value in rows],
        class_="facts",
    )
