"""What a document is made of: typed blocks of quantities and texts, no format in sight.

A renderer draws each block; it never computes, words or rounds anything. A table states for each
column (or, in a paired table of unlike metrics, for each row) its unit and basis once, and every
quantity in it has that unit and basis.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, TypeAlias

from msgspec import Struct

from gaptrace.quantity import Quantity


class Detail(Enum):
    """How much a document holds: one screen (or a comment), or all there is to say."""

    BRIEF = "brief"
    FULL = "full"


class Text(Struct, frozen=True):
    """Words with a role.

    role: `plain`, `name` (of a kernel, op or function: shown in mono and cut in the middle),
    `code` (a command or an option), `strong`, `verdict` (ok, limited, refused, better, worse ...:
    `key` says which). full: the whole of a name that `text` shortens. term: glossary entry. target:
    id of a section, or `step:N`, `gap:N`, `time:A-B` (ns), `run:PATH` to jump to.
    """

    text: str
    role: str = "plain"
    full: str = ""
    term: str = ""
    target: str = ""
    key: str = ""


Inline: TypeAlias = str | Text | Quantity
Cell: TypeAlias = str | Text | Quantity | None


class Sentence(Struct, frozen=True):
    """A line of prose. role: `answer` (the first line), `lead` (says what follows), `plain`."""

    parts: tuple[Inline, ...]
    role: str = "plain"


class Fact(Struct, frozen=True):
    """One named value: parts are shown one after another."""

    label: Text
    parts: tuple[Inline, ...]


class Facts(Struct, frozen=True):
    """Named values, each with its own unit. line: shown in one line where the format has lines."""

    facts: tuple[Fact, ...]
    title: str = ""
    line: bool = False


class Column(Struct, frozen=True):
    """A column: label, glossary term, and, where it holds numbers, their one unit and basis.

    unit None: words, or numbers whose unit and basis their row states. look: `cause`, `class` or
    `mode` where cells are entries of that vocabulary, drawn with their look.
    """

    label: str
    term: str = ""
    unit: str | None = None
    basis: str = ""
    numeric: bool = False
    look: str = ""


class Row(Struct, frozen=True):
    """Cells in the order of the columns; unit and basis of those in columns that state none.

    weak: counted out (an excluded step, a failed mode). group: a row of its own line, a heading.
    key: entry of the vocabulary that the row is about, or a place to jump to.
    """

    cells: tuple[Cell, ...]
    unit: str | None = None
    basis: str = ""
    weak: bool = False
    heading: bool = False
    key: str = ""


class Table(Struct, frozen=True):
    """Rows of one kind of thing.

    shown: how many rows a format that does not scroll shows; the rest is counted. folded: behind a
    click where the format has one. notes: what applies to the whole table, in words below it.
    """

    id: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    shown: int = 12
    folded: bool = False
    notes: tuple[str, ...] = ()


class Segment(Struct, frozen=True):
    """A part of a bar: vocabulary key, label, amount. note: what to add in a tooltip."""

    key: str
    label: str
    amount: Quantity
    note: str = ""


class Bar(Struct, frozen=True):
    """One bar: label, what it stands for in all, its parts in their order.

    total: None where the parts are medians, which need not sum to anything that is shown.
    hatched: predicted or estimated, not measured. weak: counted out, as `Row.weak`. key: a place to
    jump to, `step:N`. mark: a word to stand over it. note: what to add in a tooltip.
    """

    label: str
    segments: tuple[Segment, ...]
    total: Quantity | None = None
    hatched: bool = False
    weak: bool = False
    key: str = ""
    mark: str = ""
    note: str = ""


class Bars(Struct, frozen=True):
    """Bars on one scale. kind: `stacked` (parts of a whole), or `bridge` (signed parts from one
    total to another: the first and last bar are the totals, with one segment each).

    look: the vocabulary of the keys: `cause`, `class`, `host` or `mode`.
    """

    id: str
    title: str
    bars: tuple[Bar, ...]
    look: str = "cause"
    kind: str = "stacked"
    notes: tuple[str, ...] = ()


class Point(Struct, frozen=True):
    """One point of a chart: where, how much, the range it may lie in, and the words for it."""

    x: int | float
    y: Quantity
    label: str = ""
    key: str = ""
    hatched: bool = False


class Series(Struct, frozen=True):
    """Points of one kind. style: `line`, `dashed`, `dotted` or `marks`."""

    label: str
    points: tuple[Point, ...]
    key: str = ""
    style: str = "line"


class Panel(Struct, frozen=True):
    """One plot of a chart: axes with label, unit and scale (`linear` or `log`), and series."""

    title: str
    x_label: str
    y_label: str
    unit: str
    series: tuple[Series, ...]
    x_scale: str = "linear"
    y_scale: str = "linear"
    x_ticks: tuple[tuple[float, str], ...] = ()


class Chart(Struct, frozen=True):
    """A picture with its twin in words.

    kind: `axis` (marks on one logarithmic axis: the two ceilings and the measured rate), `grid`
    (modes in two dimensions: the 2x2), `steps` (one stacked bar a step), `panels` (curves). panels:
    the data. look: vocabulary of the series' keys. table: the same numbers as a table; formats
    without pictures draw it alone.
    """

    id: str
    title: str
    kind: str
    panels: tuple[Panel, ...]
    table: Table
    look: str = "mode"
    bars: Bars | None = None


class FindingItem(Struct, frozen=True):
    """One finding: what it is, the most it can win, what was seen, and what to do."""

    id: str
    title: str
    gain: Quantity
    text: str
    confidence: str
    places: int
    how_we_know: str
    what_to_try: str
    how_to_check: str
    evidence: Table | None = None
    parts: tuple[FindingItem, ...] = ()


class Findings(Struct, frozen=True):
    """Findings, the most important first. left: how many more there are in the full form."""

    items: tuple[FindingItem, ...]
    left: int = 0


class Timeline(Struct, frozen=True):
    """Steps drawn true to scale. data: what a picture needs (see `gaptrace.timeline`); None where
    there is no trace behind the result. table: the longest gaps, the twin in words.
    """

    id: str
    title: str
    data: Any
    table: Table | None = None


class Note(Struct, frozen=True):
    """Something to know. level: `note`, `limited`, `refused` (as in a trace's quality), `next`
    (commands to type) or `error`. withheld: figures that it withholds.
    """

    parts: tuple[Inline, ...]
    level: str = "note"
    withheld: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


Block: TypeAlias = Sentence | Facts | Table | Bars | Chart | Findings | Timeline | Note
BLOCKS: tuple[type, ...] = (Sentence, Facts, Table, Bars, Chart, Findings, Timeline, Note)


class Section(Struct, frozen=True):
    """A titled part of a document; `id` is its anchor everywhere."""

    id: str
    title: str
    blocks: tuple[Block, ...]


class Document(Struct, frozen=True):
    """Everything that is said about one result.

    title: what it is about (a file, a run, `base → cand`). answer: the first line. identity: what
    was recorded, in short. sections: in order. parts: documents of what this one is made of (the
    modes of a run, the pairs of a comparison). result: the plain data behind it, for embedding.
    """

    kind: str
    title: str
    answer: Sentence
    identity: tuple[str, ...]
    sections: tuple[Section, ...]
    result: Any = None
    parts: tuple[Document, ...] = ()
    detail: Detail = Detail.FULL


def blocks_of(document: Document) -> Iterator[Block]:
    """Every block of a document and its parts, in reading order; the answer first."""
    yield document.answer
    for section in document.sections:
        yield from section.blocks
    for part in document.parts:
        yield from blocks_of(part)


def quantities_of(block: Block) -> Iterator[Quantity]:
    """Every quantity that a block shows, in reading order."""
    match block:
        case Sentence(parts=parts) | Note(parts=parts):
            yield from (part for part in parts if isinstance(part, Quantity))
        case Facts(facts=facts):
            yield from (p for f in facts for p in f.parts if isinstance(p, Quantity))
        case Table(rows=rows):
            yield from (c for row in rows for c in row.cells if isinstance(c, Quantity))
        case Bars(bars=bars):
            for bar in bars:
                yield from () if bar.total is None else (bar.total,)
                yield from (segment.amount for segment in bar.segments)
        case Chart(table=table):
            yield from quantities_of(table)
        case Findings(items=items):
            for item in items:
                yield item.gain
                yield from () if item.evidence is None else quantities_of(item.evidence)
                yield from quantities_of(Findings(item.parts))
        case Timeline(table=table):
            yield from () if table is None else quantities_of(table)
