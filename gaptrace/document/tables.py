"""Tables and facts as lists of columns: each states one label, unit and basis, once.

A column in which no row has anything is dropped, so that a builder lists all that may be known; a
table or a list of facts in which nothing is left is dropped by `gaptrace.document.sections`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any, TypeAlias, TypeVar

from gaptrace.document.blocks import Cell, Column, Fact, Facts, Inline, Row, Table, Text
from gaptrace.quantity import BASES, COUNT, EXACT, NS, Bound, Number, Quantity

T = TypeVar("T")
# Where a cell is found: by the name of a field of the row (`range.busy_ns`), or by a function.
Figure: TypeAlias = str | Callable[[Any], Number | Quantity | None]
Word: TypeAlias = str | Callable[[Any], Cell]
ALL = 1 << 30


@dataclass(frozen=True)
class Col:
    """One column: its heading, and the cell of a row."""

    column: Column
    cell: Callable[[Any], Cell]


def getter(field: Any) -> Callable[[Any], Any]:
    """What finds a cell's value in a row."""
    return attrgetter(field) if isinstance(field, str) else field


def words(label: str, cell: Word, term: str = "", look: str = "") -> Col:
    """A column of words."""
    get = getter(cell)
    return Col(Column(label, term, look=look), lambda row: get(row) or None)


def names(label: str, field: Word, term: str = "") -> Col:
    """A column of names of kernels, ops or functions."""
    get = getter(field)
    return Col(Column(label, term), lambda row: name(get(row)))


def figures(label: str, unit: str, value: Figure, basis: str = "", term: str = "") -> Col:
    """A column of numbers of one unit and basis; a `Quantity` keeps its own bound and reason."""
    get = getter(value)

    def cell(row: Any) -> Cell:
        found = get(row)
        return found if isinstance(found, Quantity) else known(found, unit, basis)

    return Col(Column(label, term, unit, basis, numeric=True), cell)


def counts(label: str, value: Figure, term: str = "") -> Col:
    """A column of plain numbers."""
    return figures(label, COUNT, value, term=term)


def times(label: str, value: Figure, basis: str = "", term: str = "") -> Col:
    """A column of times, in ns."""
    return figures(label, NS, value, basis, term)


def by_basis(
    label: str, unit: str, value: Callable[[T], Quantity | None], rows: Iterable[T], term: str = ""
) -> list[Col]:
    """A column for each basis that a figure has among the rows: none mixes two of them."""
    found = {q.basis for row in rows if (q := value(row)) is not None and q.known}

    def only(basis: str) -> Callable[[T], Quantity | None]:
        return lambda row: q if (q := value(row)) is not None and q.basis == basis else None

    return [figures(label, unit, only(b), b, term) for b in ("", *BASES) if b in found]


def table(
    anchor: str,
    title: str,
    items: Iterable[T],
    columns: Iterable[Col],
    *,
    shown: int = 12,
    folded: bool = False,
    notes: Iterable[str] = (),
    weak: Callable[[T], bool] = lambda _: False,
    key: Word = lambda _: "",
) -> Table:
    """A row for each item; columns that no item has anything for are left out."""
    items, key_of = tuple(items), getter(key)
    cells = [(col.column, [col.cell(item) for item in items]) for col in columns]
    kept = [(column, own) for column, own in cells if any(c is not None for c in own)]
    rows = tuple(
        Row(tuple(own[i] for _, own in kept), weak=weak(item), key=key_of(item))
        for i, item in enumerate(items)
    )
    return Table(anchor, title, tuple(c for c, _ in kept), rows, shown, folded, tuple(notes))


def mode_table(
    anchor: str, title: str, items: Iterable[tuple[str, T]], columns: Iterable[Col],
    *, heading: tuple[str, str, str] = ("mode", "mode", "mode"),
    label: Callable[[str], str] = str, **more: Any,
) -> Table:  # fmt: skip
    """A table of modes, each with what `columns` are about; heading: label, term and look."""
    name, term, look = heading
    mode: Col = words(name, lambda item: Text(label(item[0]), key=item[0]), term, look)
    return table(anchor, title, items, [mode, *map(second, columns)], key=first, **more)


def first(item: tuple[T, Any]) -> T:
    """What stands for a row of two: a mode, a name."""
    return item[0]


def second(col: Col) -> Col:
    """The column for rows of two, of which it is about the second."""
    return inner(itemgetter(1), col)


def inner(field: Figure, col: Col) -> Col:
    """The column for rows in which `field` holds what it is about, or None."""
    get = getter(field)
    return Col(col.column, lambda row: None if (found := get(row)) is None else col.cell(found))


def known(
    value: Number | None, unit: str, basis: str = "", bound: Bound = EXACT
) -> Quantity | None:
    """A quantity, or None where there is no value."""
    return None if value is None else Quantity(value, unit, basis, bound)


def duration(value: Number | None, basis: str = "") -> Quantity | None:
    """A time in ns, or None where there is no value."""
    return known(value, NS, basis)


def seconds(value: Number | None) -> Number | None:
    """Seconds, as the recorder writes some times, in the ns that quantities hold."""
    return None if value is None else value * 1e9


def name(short: str | None, full: str = "") -> Text | None:
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


def told(item: T, *columns: Col) -> Iterator[Fact | None]:
    """What columns of figures or words say of one thing, as facts."""
    for col in columns:
        cell = col.cell(item)
        yield None if cell is None else fact(col.column.label, cell, term=col.column.term)


def facts(*items: Fact | None, title: str = "", line: bool = False) -> Facts:
    """Those facts that are known, as a block."""
    return Facts(facts_of(*items), title, line)


def given(*parts: Inline | None) -> tuple[Inline, ...]:
    """The parts if all of them are known, else none: for a clause of a sentence."""
    return () if any(part is None for part in parts) else tuple(p for p in parts if p is not None)
