"""Recorded traces of all kinds: a prediction of each, and truths that must lie in its range."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gaptrace.analysis import analyze
from gaptrace.document.build import document
from gaptrace.predict import predict
from gaptrace.reading.loading import load
from gaptrace.render import formats
from gaptrace.render.formats import Style
from gaptrace.results.codec import from_json, to_json
from gaptrace.results.prediction import PredictionResult

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
    assert from_json(to_json(found), PredictionResult, "it") == found
    assert formats.get("terminal").render(document(found), Style())
    for cell in found.square.values():
        if cell.range_ns is not None:
            assert cell.step_ns is not None
            assert cell.range_ns[0] <= cell.step_ns <= cell.range_ns[1]
    for item in found.capture.blockers:
        assert item.change
        assert item.places or item.id == "launch_sequence"


@pytest.mark.corpus
@pytest.mark.skipif(not CORPUS, reason="GAPTRACE_CORPUS is not set")
def test_a_stacked_cache_found_by_shapes_holds_the_truth() -> None:
    """A 16-layer decoder with a stacked cache: busy 1.80 ms compiled, 2.04 ms captured."""
    assert CORPUS
    found = predict(analyze(load(Path(CORPUS) / "h200/plain_eager.json.gz")))
    (cache,) = found.stacked_caches
    assert (cache.writes, cache.buffers, cache.copies) == (32, 2, 8)
    assert found.compile.predicted is not None
    ends = found.compile.predicted.range
    for bounds, true in (
        (ends.kernels, 288),
        (ends.busy_ns, 1_802_000),
        (ends.captured_step_ns, 2_040_000),
        (found.capture.range_ns, 2_040_000),
    ):
        assert bounds is not None
        assert bounds[0] <= true <= bounds[1]
