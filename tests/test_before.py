"""What the version before wrote still loads: run folders, saved baselines, cache entries."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from gaptrace.compare.metrics import GATES
from gaptrace.reading import cache
from gaptrace.reading.inputs import FileInput, open_input
from gaptrace.reading.loading import load
from gaptrace.results.codec import from_json
from gaptrace.results.manifest import CollectIndex, RunManifest
from gaptrace.runs.saved import load_saved

ROOT = Path(__file__).parents[1]
BEFORE = ROOT / "tests/data/before"
SAMPLE = ROOT / "sample_traces/small_decoder_graph.json.gz"


def test_a_saved_baseline_of_the_version_before_loads() -> None:
    run = load_saved(BEFORE / "bad_item.gaptrace.json")
    assert run.version == "0.1.0"
    assert set(run.modes) == {"eager"}
    (eager,) = run.modes["eager"]
    assert eager.complete == 5
    assert GATES


def test_a_cache_entry_of_the_version_before_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = open_input(str(SAMPLE))
    assert isinstance(source, FileInput)
    entry = cache.entry_of(tmp_path, source)
    with zipfile.ZipFile(BEFORE / "cache.zip") as archive:
        archive.extractall(entry)

    def never(*_: object) -> None:
        raise AssertionError("the trace was read again")

    fresh = load(SAMPLE)
    monkeypatch.setattr(cache, "store", never)
    kept = load(SAMPLE, cache=tmp_path)
    assert len(kept) == len(fresh)
    assert np.array_equal(kept.start, fresh.start)
    assert np.array_equal(kept.corr, fresh.corr)
    assert kept.names == fresh.names


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("sample_traces/**/run.json")), ids=lambda p: "/".join(p.parts[-4:-1])
)
def test_manifests_of_the_version_before_are_read_as_typed_data(path: Path) -> None:
    run = from_json(path.read_bytes(), RunManifest, str(path))
    assert run.mode == path.parent.parent.name
    assert run.step is not None
    assert run.step.tokens


def test_the_index_of_a_recording_is_read_as_typed_data() -> None:
    path = ROOT / "sample_traces/sweep_1b/collect.json"
    index = from_json(path.read_bytes(), CollectIndex, str(path))
    assert index.batches == (64, 256)
    assert len(index.cells) == 7
