"""The same result said by every format: each quantity with the same value, unit and basis.

Walks the document of every sample trace and run, and looks for each quantity in the terminal, in
Markdown and in HTML, as `gaptrace.units` writes it; HTML also carries the raw value.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from gaptrace import units
from gaptrace.analysis import analyze
from gaptrace.document.blocks import (
    Bars,
    Block,
    Chart,
    Detail,
    Document,
    Findings,
    Table,
    Timeline,
    blocks_of,
    quantities_of,
)
from gaptrace.document.build import document
from gaptrace.document.sections import Context
from gaptrace.measure.options import Options
from gaptrace.quantity import Quantity
from gaptrace.reading.loading import load
from gaptrace.render import formats
from gaptrace.render.formats import Style
from gaptrace.render.tables import text_table
from gaptrace.runs.read import read_points, read_run

ROOT = Path(__file__).parents[2] / "sample_traces"
TRACES = sorted(path.name for path in ROOT.glob("*.json.gz"))
RUNS = sorted(path.parent.name for path in ROOT.glob("*/eager"))
SWEEPS = ["sweep_1b"]


@cache
def found(name: str) -> Document:
    if name in TRACES:
        analysis = analyze(load(ROOT / name))
        return document(analysis.result, Context(Detail.FULL, analysis.analyses))
    if name in SWEEPS:
        sweep = read_points(str(ROOT / name), Options(), use_cache=False)
        return document(sweep, Context(Detail.FULL))
    run = read_run(str(ROOT / name), Options(), use_cache=False)
    return document(run.result, Context(Detail.FULL, run.analyses))


def normal(text: str) -> str:
    """Text as it can be searched: entities read, thin spaces plain, runs of space one."""
    text = html.unescape(text).replace("\u202f", " ").replace("\u2060", "").replace("\xa0", " ")
    return " ".join(text.split())


def tables_in(block: Block) -> Iterator[Table]:
    """The tables of a block: itself, a picture's twin, the evidence of findings."""
    if isinstance(block, Table):
        yield block
    elif isinstance(block, Chart | Timeline) and block.table is not None:
        yield block.table
    elif isinstance(block, Findings):
        yield from (item.evidence for item in block.items if item.evidence is not None)


def tables(whole: Document) -> Iterator[Table]:
    """Every table of a document."""
    for block in blocks_of(whole):
        yield from tables_in(block)


def test_there_is_something_to_walk() -> None:
    assert len(TRACES) >= 3
    assert len(RUNS) >= 6


@pytest.mark.parametrize("name", [*TRACES, *RUNS, *SWEEPS])
def test_a_column_has_one_unit_and_basis(name: str) -> None:
    for table in tables(found(name)):
        for row in table.rows:
            for column, cell in zip(table.columns, row.cells, strict=True):
                if not isinstance(cell, Quantity) or not cell.known:
                    continue
                unit = column.unit if column.unit is not None else row.unit
                basis = column.basis if column.unit is not None else row.basis
                assert cell.unit == unit, (table.id, column.label)
                assert cell.basis in ("", basis), (table.id, column.label)


@pytest.mark.parametrize("name", [*TRACES, *RUNS, *SWEEPS])
@pytest.mark.parametrize("format_", ["terminal", "markdown", "html"])
def test_every_quantity_is_said(name: str, format_: str) -> None:
    whole = found(name)
    text = normal(formats.get(format_).render(whole, Style(width=200)))
    if format_ == "html":
        text = normal(re.sub(r"<[^>]+>", " ", formats.get(format_).render(whole, Style())))
    cut = "did not fit into a comment" in text
    checked = 0
    for block in blocks_of(whole):
        said = [
            cell
            for table in tables_in(block)
            for row in text_table(table, None if format_ == "html" else table.shown).rows
            for cell in row
            if cell
        ]
        if isinstance(block, Bars):
            said += bar_texts(block)
        elif isinstance(block, Findings):
            said += [units.text(item.gain) for item in block.items if item.gain.value]
        elif not isinstance(block, Table | Chart | Timeline):
            said += [units.text(q) for q in quantities_of(block) if q.known and q.value]
        for one in said:
            checked += 1
            if cut or len(one) > 30:
                continue
            assert normal(one) in text, (type(block).__name__, one)
    assert checked > 20


def bar_texts(block: Bars) -> list[str]:
    """What a reader is told of bars: the parts of a bridge share a unit, others have their own."""
    parts = [s.amount for bar in block.bars for s in bar.segments if s.amount.value]
    shown = units.shown_unit(parts, parts[0].unit) if block.kind == "bridge" and parts else None
    return [units.text(part, shown) for part in parts]
