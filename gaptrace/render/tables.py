"""Tables as text: one unit and basis a column (or a row), said once, for every format."""

from __future__ import annotations

from dataclasses import dataclass

from gaptrace import units
from gaptrace.document.blocks import Cell, Column, Row, Table, Text
from gaptrace.quantity import Quantity


@dataclass(frozen=True)
class Heading:
    """A column's heading: label, the unit its numbers are shown in, their basis."""

    label: str
    unit: str
    basis: str
    numeric: bool

    @property
    def short(self) -> str:
        """`step, ms`."""
        return f"{self.label}, {self.unit}" if self.unit else self.label

    @property
    def words(self) -> str:
        """`step, ms (unprofiled)`."""
        return f"{self.short} ({basis_words(self.basis)})" if self.basis else self.short


@dataclass(frozen=True)
class TextTable:
    """A table whose numbers are text: headings, and for each row its cells and its own unit."""

    headings: tuple[Heading, ...]
    rows: tuple[tuple[str, ...], ...]
    units: tuple[str, ...]
    hidden: int

    @property
    def basis(self) -> str:
        """The basis that all of several columns share, so that it can be said once; else empty."""
        bases = [heading.basis for heading in self.headings if heading.basis]
        return bases[0] if len(bases) > 1 and len(set(bases)) == 1 else ""


_BASES = {
    "traced": "as profiled",
    "unprofiled": "unprofiled",
    "given": "given",
    "predicted": "predicted",
    "assumed": "assumed",
}


def basis_words(basis: str) -> str:
    """What a reader is told of a basis: `as profiled` for traced."""
    return _BASES.get(basis, basis)


def text_table(table: Table, shown: int | None = None) -> TextTable:
    """A table with its numbers as text; at most `shown` rows, and how many more there are."""
    rows = table.rows if shown is None else table.rows[:shown]
    chosen = [_unit(column, table) for column in table.columns]
    headings = tuple(
        Heading(column.label, unit, column.basis, column.unit is not None or column.numeric)
        for column, unit in zip(table.columns, chosen, strict=True)
    )
    row_units = [_row_unit(row, table) for row in rows]
    texts = tuple(
        tuple(
            _cell(cell, chosen[i] if column.unit is not None else row_unit)
            for i, (column, cell) in enumerate(zip(table.columns, row.cells, strict=True))
        )
        for row, row_unit in zip(rows, row_units, strict=True)
    )
    return TextTable(headings, texts, tuple(row_units), len(table.rows) - len(rows))


def _unit(column: Column, table: Table) -> str:
    """The unit that a column is shown in: one for all columns of a label, whatever their basis."""
    if column.unit is None:
        return ""
    alike = [(c.label, c.unit) == (column.label, column.unit) for c in table.columns]
    cells = (cell for row in table.rows for cell, own in zip(row.cells, alike, strict=True) if own)
    return units.shown_unit((c for c in cells if isinstance(c, Quantity)), column.unit)


def _row_unit(row: Row, table: Table) -> str:
    """The unit that the row's own numbers are shown in."""
    if row.unit is None:
        return ""
    own = (
        cell
        for column, cell in zip(table.columns, row.cells, strict=True)
        if column.unit is None and isinstance(cell, Quantity)
    )
    return units.shown_unit(own, row.unit)


def row_label(row: Row, unit: str, label: str) -> str:
    """The first cell of a row that states its unit and basis: `step time, ms (unprofiled)`."""
    text = f"{label}, {unit}" if unit else label
    return f"{text} ({basis_words(row.basis)})" if row.basis else text


def _cell(cell: Cell, unit: str) -> str:
    match cell:
        case None:
            return ""
        case str():
            return cell
        case Text():
            return cell.text
        case Quantity():
            return units.value_text(cell, unit or None)
