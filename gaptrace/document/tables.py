"""Tables whose every column states one unit and one basis: builders list columns, not cells.

A column in which no row has anything is dropped, so that a builder lists all that may be known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from gaptrace.document.blocks import Cell, Column, Fact, Inline, Row, Table, Text
from gaptrace.quantity import AT_MOST, BASES, EXACT, NS, Bound, Number, Quantity

T = TypeVar("T")


@dataclass(frozen=True)
class Col(Generic[T]):
    """One column of rows about `T`: its heading, and the cell of a row."""

    column: Column
    cell: Callable[[T], Cell]


def words(label: str, cell: Callable[[T], Cell], term: str = "", look: str = "") -> Col[T]:
    """A column of words."""
    return Col(Column(label, term, look=look), lambda row: cell(row) or None)


def figures(
    label: str,
    unit: str,
    value: Callable[[T], Number | Quantity | None],
    basis: str = "",
    term: str = "",
) -> Col[T]:
    """A column of numbers of one unit and basis; a `Quantity` keeps its own bound and reason."""

    def cell(row: T) -> Cell:
        found = value(row)
        return found if isinstance(found, Quantity) else known(found, unit, basis)

    return Col(Column(label, term, unit, basis, numeric=True), cell)


def by_basis(
    label: str, unit: str, value: Callable[[T], Quantity | None], rows: Iterable[T], term: str = ""
) -> list[Col[T]]:
    """A column for each basis that a figure has among the rows: none mixes two of them."""
    found = {q.basis for row in rows if (q := value(row)) is not None and q.known}

    def only(basis: str) -> Callable[[T], Quantity | None]:
        return lambda row: q if (q := value(row)) is not None and q.basis == basis else None

    return [figures(label, unit, only(b), b, term) for b in ("", *BASES) if b in found]


def table(
    anchor: str,
    title: str,
    items: Sequence[T],
    columns: Iterable[Col[T]],
    *,
    shown: int = 12,
    folded: bool = False,
    notes: Iterable[str] = (),
    weak: Callable[[T], bool] = lambda _: False,
    key: Callable[[T], str] = lambda _: "",
) -> Table:
    """A row for each item; columns that no item has anything for are left out."""
    cells = [(col.column, [col.cell(item) for item in items]) for col in columns]
    kept = [(column, own) for column, own in cells if any(c is not None for c in own)]
    rows = tuple(
        Row(tuple(own[i] for _, own in kept), weak=weak(item), key=key(item))
        for i, item in enumerate(items)
    )
    return Table(anchor, title, tuple(c for c, _ in kept), rows, shown, folded, tuple(notes))


def known(
    value: Number | None, unit: str, basis: str = "", bound: Bound = EXACT
) -> Quantity | None:
    """A quantity, or None where there is no value."""
    return None if value is None else Quantity(value, unit, basis, bound)


def upper(value: Number | None, unit: str, basis: str = "") -> Quantity | None:
    """An upper bound, or None where there is no value."""
    return known(value, unit, basis, AT_MOST)


def seconds(value: Number | None) -> Number | None:
    """Seconds, as the recorder writes some times, in the ns that quantities hold."""
    return None if value is None else value * 1e9


def name(short: str, full: str = "") -> Text | None:
    """The name of a kernel, op or function; `full` where `short` shortens it."""
    return Text(short, "name", full) if short else None


def fact(label: str, *parts: Inline | None, term: str = "") -> Fact | None:
    """A named value; None where its first part is."""
    if not parts or parts[0] is None or parts[0] == "":
        return None
    return Fact(Text(label, term=term), tuple(part for part in parts if part is not None))


def facts_of(*facts: Fact | None) -> tuple[Fact, ...]:
    """Those facts that are known."""
    return tuple(item for item in facts if item is not None)


def given(*parts: Inline | None) -> tuple[Inline, ...]:
    """The parts if all of them are known, else none: for a clause of a sentence."""
    return () if any(part is None for part in parts) else tuple(p for p in parts if p is not None)


def duration(value: Number | None, basis: str = "") -> Quantity | None:
    """A time in ns, or None where there is no value."""
    return known(value, NS, basis)
