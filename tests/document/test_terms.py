"""Whatever a report names leads to its definition: labels of columns, rows, facts and bars."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gaptrace import vocabulary as v
from gaptrace.document.blocks import Block, Detail, Facts, Table, Text, blocks_of
from gaptrace.document.build import document
from gaptrace.document.sections import Context
from gaptrace.knowledge.glossary import entries
from gaptrace.measure.options import Options
from gaptrace.runs.read import read_points, read_run
from tests.document.material import explained
from tests.document.test_said_alike import RUNS, SWEEPS, TRACES, found, tables_in

ROOT = Path(__file__).parents[2] / "sample_traces"
WORDS = [
    *v.CAUSES.values(), *v.HOST_CLASSES.values(), *v.OP_CLASSES.values(), *v.MODES.values(),
    *v.PHASES.values(), v.BUSY, v.IDLE,
]  # fmt: skip


def terms_of(block: Block) -> Iterator[tuple[str, str]]:
    """Labels of a block with the glossary term that each names."""
    for table in tables_in(block):
        yield from ((column.label, column.term) for column in table.columns if column.term)
        for row in table.rows:
            yield from ((c.text, c.term) for c in row.cells if isinstance(c, Text) and c.term)
    if isinstance(block, Facts):
        yield from ((fact.label.text, fact.label.term) for fact in block.facts if fact.label.term)


@pytest.mark.parametrize("name", [*TRACES, *RUNS, *SWEEPS])
def test_every_term_that_a_label_names_is_an_entry(name: str) -> None:
    known = {entry.id for entry in entries()}
    named = {pair for block in blocks_of(found(name)) for pair in terms_of(block)}
    assert len(named) > 3
    missing = {(label, term) for label, term in named if term not in known and not explained(term)}
    assert missing == set()


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.id)
def test_every_word_of_a_legend_is_explained(word: v.Word) -> None:
    assert explained(word.term)
    assert explained(word.label) or explained(word.id)


def test_the_walk_sees_every_kind_of_document() -> None:
    """So that the test above cannot pass because it looked at nothing."""
    run = read_run(str(ROOT / "dense_1b"), Options(), use_cache=False)
    assert run.result is not None
    sweep = read_points(str(ROOT / "sweep_1b"), Options(), use_cache=False)
    for result in (run.result, sweep):
        whole = document(result, Context(Detail.FULL))
        assert sum(isinstance(block, Table) for block in blocks_of(whole)) > 1
