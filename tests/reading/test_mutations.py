"""A damaged trace gives a result or a clear error, and nothing else."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from gaptrace.reading.settings import Settings
from tests.reading.mutations import check, mutated
from tests.reading.tables import STRESS, load_with, same

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "small_decoder_eager.json.gz"


def small_trace() -> bytes:
    """Some events of every phase and kind, in Kineto's own text."""
    text = gzip.decompress(SAMPLE.read_bytes())
    document = json.loads(text)
    by_kind: dict[tuple[str, str], list[dict[str, object]]] = {}
    for event in document["traceEvents"]:
        kept = by_kind.setdefault((event["ph"], event.get("cat", "")), [])
        if len(kept) < 12:
            kept.append(event)
    document["traceEvents"] = [event for kept in by_kind.values() for event in kept]
    return json.dumps(document, indent=2).encode()


@pytest.mark.parametrize("seed", range(6))
def test_mutations(seed: int) -> None:
    text = small_trace()
    rng = random.Random(seed)
    outcomes = [check(mutated(text, rng), rng.choice((STRESS, Settings()))) for _ in range(60)]
    # Most damage is to one event of many.
    assert sum(trace is not None for trace in outcomes) > 30


def test_workers_say_the_same_about_damage(tmp_path: Path) -> None:
    text = small_trace()
    rng = random.Random(99)
    path = tmp_path / "trace.json"
    compared = 0
    while compared < 6:
        path.write_bytes(mutated(text, rng))
        if check(path.read_bytes(), STRESS) is not None:
            same(load_with(path), load_with(path, processes=2))
            compared += 1
