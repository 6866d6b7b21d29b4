"""Noise on recorded steps: halves of one recording differ by nothing."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from gaptrace.analysis import analyze
from gaptrace.compare.figures import sources
from gaptrace.compare.recording import Recording, record
from gaptrace.compare.rows import metric_rows
from gaptrace.reading.loading import load
from gaptrace.results.comparison import WITHHELD, WITHIN_NOISE
from tests.compare.recordings import with_steps

SPLITS = 200
FILES = ("sam_eager_a100", "sam_compiled_a100", "compile_gtx1650_skewed_clocks")


def verdicts_of_halves(whole: Recording, seed: int) -> list[str]:
    count = whole.steps["step"].size
    places = np.random.default_rng(seed).permutation(count)
    halves = [
        [with_steps(whole, np.sort(part))] for part in (places[: count // 2], places[count // 2 :])
    ]
    rows = metric_rows(
        halves[0], halves[1], unjudged={}, chosen=sources(halves), seed=7, resamples=2_000
    )
    return [row.verdict for row in rows if row.verdict != WITHHELD]


@pytest.mark.corpus
@pytest.mark.parametrize("name", FILES)
def test_half_splits_of_recorded_steps_are_within_noise(corpus: Any, name: str) -> None:
    whole = record(analyze(load(corpus / "public" / f"{name}.json.gz")))
    assert whole.steps["step"].size >= 10
    found: Counter[str] = Counter()
    for seed in range(SPLITS):
        found.update(verdicts_of_halves(whole, seed))
    assert sum(found.values()) >= SPLITS * 8
    assert found[WITHIN_NOISE] >= 0.95 * sum(found.values())


@pytest.mark.parametrize("mode", ["eager", "compiled", "graph"])
def test_steps_of_the_samples_dealt_out_as_runs_do_not_differ(mode: str) -> None:
    """Seven complete steps make halves too small to judge, so steps stand in for runs here."""
    whole = record(analyze(load(f"sample_traces/small_decoder_{mode}.json.gz")))
    count = whole.steps["step"].size
    assert count >= 6
    found: Counter[str] = Counter()
    for seed in range(SPLITS):
        places = np.random.default_rng(seed).permutation(count)
        sides = [
            [with_steps(whole, [place]) for place in part]
            for part in (places[: count // 2], places[count // 2 :])
        ]
        if min(len(side) for side in sides) < 3:
            continue
        both = [_as_runs(side) for side in sides]
        rows = metric_rows(
            both[0], both[1], unjudged={}, chosen=sources(both), seed=7, resamples=500
        )
        found.update(row.verdict for row in rows if row.verdict != WITHHELD)
    assert sum(found.values()) >= SPLITS * 8
    assert found[WITHIN_NOISE] >= 0.95 * sum(found.values())


def _as_runs(steps: list[Recording]) -> list[Recording]:
    """Each step as a run of two equal steps, so that a side of three has five and more."""
    return [with_steps(step, [0, 0]) for step in steps]
