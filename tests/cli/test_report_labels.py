"""Every label of a report can be asked: `gaptrace explain LABEL`.

The documents of all kinds of results are walked, as every format draws them: heads of columns,
labels of facts, of figures in rows and of bars.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gaptrace.analysis import analyze
from gaptrace.cli.explain import lookup
from gaptrace.compare.compare import FORCE, CompareOptions
from gaptrace.document.blocks import Bars, Facts, Table, Text, blocks_of
from gaptrace.document.build import document
from gaptrace.document.sections import Context
from gaptrace.measure.options import Options
from gaptrace.measure.record import gaps_result
from gaptrace.predict import predict, predict_run
from gaptrace.reading.loading import load
from gaptrace.runs.compared import compare
from gaptrace.runs.read import read_points, read_run
from tests.compare.runs import write_run
from tests.document.material import explained
from tests.predict import recorded
from tests.sweep_folders import make_sweep

SAMPLES = Path(__file__).parents[2] / "sample_traces"
Seen = dict[str, str]


def results(place: Path) -> Iterator[Any]:
    """One of every kind of result, and analyses of eager, compiled, captured and pieces."""
    sweep = make_sweep(place, repeats=2, batches=(1, 8))
    run = recorded.eager_run(place, "llama4")
    (run / "eager/1/prediction.json").write_text(json.dumps(recorded.answer("llama4")))
    write_run(run, repeats=1, modes=("compiled", "compiled-graph"))
    analyses = [
        analyze(load(SAMPLES / f"small_decoder_{mode}.json.gz"))
        for mode in ("eager", "compiled", "graph")
    ]
    yield from (analysis.result for analysis in analyses)
    yield gaps_result(analyses[0], 10)
    yield predict(analyses[0])
    yield read_points(str(sweep), Options(), use_cache=False)
    for path in (run, sweep / "batch-1", sweep / "batch-1/piecewise/1"):
        found = read_run(str(path), Options(), use_cache=False)
        yield found.result
        yield from (analysis.result for analysis in found.analyses.values())
    yield predict_run(read_run(str(run), Options(), use_cache=False))
    yield compare(analyses[:2], CompareOptions(unlike=FORCE, resamples=200))


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """Every label that has no term of its own, and where it was seen."""
    seen: Seen = {}
    for result in results(tmp_path_factory.mktemp("labels")):
        for block in blocks_of(document(result, Context())):
            for label, term in _labels(block):
                if label:
                    seen.setdefault(term or label, f"{type(result).__name__}: {label}")
    return seen


def _labels(block: Any) -> Iterator[tuple[str, str]]:
    match block:
        case Table():
            # Words without a term are names: of kernels, ops, modes, files.
            yield from ((c.label, c.term) for c in block.columns if c.unit is not None or c.term)
            for row in block.rows:
                if row.unit is not None and isinstance(row.cells[0], Text):
                    yield row.cells[0].text, row.cells[0].term
        case Facts():
            yield from ((fact.label.text, fact.label.term) for fact in block.facts)
        case Bars():
            yield from (
                (segment.label.lstrip("0123456789 "), "")
                for bar in block.bars
                for segment in bar.segments
            )


def test_every_label_of_the_reports_is_explained(labels: Seen) -> None:
    missing = {label: where for label, where in labels.items() if not explained(label)}
    assert not missing, "\n".join(f"{label!r}: {where}" for label, where in missing.items())


def test_the_walk_sees_every_kind_of_label(labels: Seen) -> None:
    """So that the test above cannot pass because it looked at nothing."""
    assert len(labels) > 100


@pytest.mark.parametrize(
    ("label", "entry"),
    [
        ("GPU idle, ms", "idle"),
        ("busy: gemm", "busy"),
        ("bytes at batch 256", "predicted-fusion"),
        ("longest gaps (counted steps)", "gap"),
        ("waiting in a sync", "sync"),
        ("captured step", "predicted-captured-step"),
        ("binds", "binding-ceiling"),
        ("spread", "spread"),
        ("eager, captured", "two-by-two"),
        ("compiled-graph", "mode"),
    ],
)
def test_what_a_report_adds_to_a_label_may_stay(label: str, entry: str) -> None:
    assert lookup(label).id == entry
