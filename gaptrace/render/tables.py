"""Tables as text: one unit and basis a column (or a row), said once, for every format."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gaptrace import units
from gaptrace.document.blocks import Bars, Cell, Row, Segment, Table, Text
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
        return f"{self.short}{in_brackets(self.basis)}"


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


def basis_words(basis: str) -> str:
    """What a reader is told of a basis: `as profiled` for traced."""
    return "as profiled" if basis == "traced" else basis


def in_brackets(basis: str) -> str:
    """A basis as it follows what it is the basis of; empty for none."""
    return f" ({basis_words(basis)})" if basis else ""


def text_table(table: Table, shown: int | None = None) -> TextTable:
    """A table with its numbers as text; at most `shown` rows, and how many more there are."""
    rows = table.rows if shown is None else table.rows[:shown]
    # One unit for all columns of a label, whatever their basis.
    alike = [
        [i for i, c in enumerate(table.columns) if (c.label, c.unit) == (column.label, column.unit)]
        for column in table.columns
    ]
    chosen = [
        _shown_unit((row.cells[i] for row in table.rows for i in same), column.unit)
        for column, same in zip(table.columns, alike, strict=True)
    ]
    headings = tuple(
        Heading(column.label, unit, column.basis, column.unit is not None or column.numeric)
        for column, unit in zip(table.columns, chosen, strict=True)
    )
    own = [i for i, column in enumerate(table.columns) if column.unit is None]
    row_units = tuple(_shown_unit((row.cells[i] for i in own), row.unit) for row in rows)
    texts = tuple(
        tuple(_text(cell, unit if i in own else chosen[i]) for i, cell in enumerate(row.cells))
        for row, unit in zip(rows, row_units, strict=True)
    )
    return TextTable(headings, texts, row_units, len(table.rows) - len(rows))


def said_rows(table: Table, text: TextTable, said: Callable[[Cell, str], str]) -> list[list[str]]:
    """The rows as words, each cell as `said` writes it; the first says the row's unit and basis."""
    rows = []
    for row, cells, unit in zip(table.rows, text.rows, text.units, strict=False):
        line = [said(source, cell) for source, cell in zip(row.cells, cells, strict=True)]
        if row.unit is not None:
            line[0] = row_label(row, unit, line[0])
        rows.append(line)
    return rows


@dataclass(frozen=True)
class Step:
    """A part of a bridge: its segment, its amount as text, and its bar on either side of zero.

    before, after: what stands left and right of the zero line, `▒` where the part is hatched; all
    parts of a bridge have the same two widths.
    """

    segment: Segment
    text: str
    before: str
    after: str


# Characters of a bridge's bars, those of both sides together.
ROOM = 24


def bridge(block: Bars) -> tuple[list[Quantity], list[Step]]:
    """Both ends of a bridge as far as they are known, and its parts, amounts in one unit."""
    ends = [bar.total for bar in (block.bars[0], block.bars[-1]) if bar.total is not None]
    bars = [bar for bar in block.bars[1:-1] for _ in bar.segments]
    parts = [segment for bar in block.bars[1:-1] for segment in bar.segments]
    shown = units.shown_unit((s.amount for s in parts), parts[0].amount.unit) if parts else None
    values = [float(part.amount.value or 0) for part in parts]
    span = max(max(values, default=0), 0) - min(min(values, default=0), 0) or 1
    sizes = [max(round(abs(value) / span * ROOM), 1) if value else 0 for value in values]
    left = max((s for s, value in zip(sizes, values, strict=True) if value < 0), default=0)
    right = max((s for s, value in zip(sizes, values, strict=True) if value > 0), default=0)
    steps = []
    for part, bar, size, value in zip(parts, bars, sizes, values, strict=True):
        drawn = ("▒" if bar.hatched else "█") * size
        sides = (drawn, "") if value < 0 else ("", drawn)
        text = units.text(part.amount, shown)
        steps.append(Step(part, text, f"{sides[0]:>{left}}", f"{sides[1]:<{right}}"))
    return ends, steps


def row_label(row: Row, unit: str, label: str) -> str:
    """The first cell of a row that states its unit and basis: `step time, ms (unprofiled)`."""
    return f"{label}, {unit}{in_brackets(row.basis)}" if unit else label + in_brackets(row.basis)


def _shown_unit(cells: Iterable[Cell], unit: str | None) -> str:
    """The unit that the numbers among the cells are shown in; empty where they have none."""
    if unit is None:
        return ""
    return units.shown_unit((cell for cell in cells if isinstance(cell, Quantity)), unit)


def _text(cell: Cell, unit: str) -> str:
    if isinstance(cell, Quantity):
        return units.value_text(cell, unit or None)
    return cell.text if isinstance(cell, Text) else cell or ""
