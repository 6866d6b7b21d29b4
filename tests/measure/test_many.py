"""Many traces as one dask frame."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gaptrace.errors import OptionError
from gaptrace.runs.many import gaps_of, steps_of

SAMPLES = Path(__file__).parents[2] / "sample_traces"
PATHS = [str(SAMPLES / f"small_decoder_{mode}.json.gz") for mode in ("eager", "graph")]


def test_partitions_are_traces_and_sums_are_theirs() -> None:
    pytest.importorskip("dask.dataframe")
    steps = steps_of(PATHS)
    assert steps.npartitions == 2
    counts = steps.groupby("source")["kernels"].sum().compute(scheduler="synchronous")
    assert counts.to_dict() == {PATHS[0]: 8 * 125, PATHS[1]: 8 * 126}
    gaps = gaps_of(PATHS).compute(scheduler="synchronous")
    assert set(gaps["source"]) == set(PATHS)


def test_without_dask_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(OptionError) as error:
        steps_of(PATHS)
    assert "torch-gaptrace[dask]" in error.value.hint
