"""Recorded traces of all kinds: a prediction of each, and truths that must lie in its range."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gaptrace.analysis import analyze
from gaptrace.predict import predict
from gaptrace.reading.loading import load
from gaptrace.report.predict_text import predict_report

ROOT = Path(__file__).parents[2]
CORPUS = os.environ.get("GAPTRACE_CORPUS")
SAMPLES = sorted((ROOT / "sample_traces").glob("*.json.gz"))


def recordings() -> list[Path]:
    if not CORPUS:
        return []
    return sorted(p for p in Path(CORPUS).glob("*/*.json.gz") if ".et." not in p.name)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_samples(path: Path) -> None:
    held_together(path)


@pytest.mark.corpus
@pytest.mark.skipif(not CORPUS, reason="GAPTRACE_CORPUS is not set")
@pytest.mark.parametrize("path", recordings(), ids=lambda path: path.name)
def test_the_corpus(path: Path) -> None:
    held_together(path)


def held_together(path: Path) -> None:
    found = predict(analyze(load(path)))
    text = json.dumps(found.summary, allow_nan=False)
    assert json.loads(text) == found.summary
    assert predict_report(found, color=False)
    for cell in found.square.values():
        if cell.range_ns is not None:
            assert cell.step_ns is not None
            assert cell.range_ns[0] <= cell.step_ns <= cell.range_ns[1]
    for item in found.readiness.blockers:
        assert item.change
        assert item.places or item.id == "launch_sequence"


@pytest.mark.corpus
@pytest.mark.skipif(not CORPUS, reason="GAPTRACE_CORPUS is not set")
def test_a_stacked_cache_found_by_shapes_holds_the_truth() -> None:
    """A 16-layer decoder with a stacked cache: busy 1.80 ms compiled, 2.04 ms captured."""
    assert CORPUS
    found = predict(analyze(load(Path(CORPUS) / "h200/plain_eager.json.gz")))
    (cache,) = found.stacked
    assert (cache.writes, cache.buffers, cache.copies) == (32, 2, 8)
    assert found.compiled is not None
    assert found.compiled.kernel_range is not None
    assert found.compiled.kernel_range[0] <= 288 <= found.compiled.kernel_range[1]
    for estimate, true in (
        (found.compiled.busy, 1_802_000),
        (found.compiled.captured, 2_040_000),
        (found.captured and found.captured.step, 2_040_000),
    ):
        assert estimate is not None
        assert estimate.low_ns < true < estimate.high_ns
