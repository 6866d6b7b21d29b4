"""Starts, what autotuning pays, what a seam costs unprofiled: manifests in round numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gaptrace.measure.options import Options
from gaptrace.measure.startup import mode_start, startup_of
from gaptrace.reading.manifest import Manifest
from gaptrace.results.codec import to_data
from gaptrace.runs.read import read_run
from gaptrace.runs.run import RunAnalysis
from gaptrace.runs.startup import seam_prices, tuning_gain
from gaptrace.trace import RunInfo
from tests.sweep_folders import make_sweep, step_of


def manifest(data: dict[str, Any]) -> Manifest:
    return Manifest(RunInfo("run", data))


def starts(*pairs: tuple[str | None, float | None]) -> list[Manifest]:
    return [
        manifest(
            {
                "startup": {
                    "ready_ns": None if seconds is None else int(seconds * 1e9),
                    "compile_seconds": 2.5,
                    "cache": cache,
                }
            }
        )
        for cache, seconds in pairs
    ]


def test_cold_and_warm_starts_are_kept_apart() -> None:
    found = mode_start(starts(("cold", 40), ("warm", 4), ("warm", 3), ("warm", 5)))
    assert found is not None
    assert (found.cold_ns, found.warm_ns, found.partly_ns) == (40e9, 4e9, None)
    assert found.uncached_ns is None
    assert (found.compile_ns, found.starts) == (2.5e9, 4)


def test_modes_that_compile_nothing_and_caches_that_hold_a_part() -> None:
    assert mode_start(starts(("none", 1), (None, 2))).uncached_ns == 1e9
    assert mode_start(starts(("partly warm", 7))).partly_ns == 7e9
    assert mode_start(starts(("cold", None))).cold_ns is None


@pytest.mark.parametrize("data", [{}, {"startup": None}])
def test_older_recordings_say_nothing(data: dict[str, Any]) -> None:
    assert startup_of(manifest(data)) is None
    assert mode_start([manifest(data)]) is None


def run(tmp_path: Path, modes: tuple[str, ...], repeats: int = 2) -> RunAnalysis:
    sweep = make_sweep(tmp_path, batches=(8,), modes=modes, repeats=repeats)
    return read_run(str(sweep / "batch-8"), Options(), use_cache=False)


def test_tuning_is_earned_back(tmp_path: Path) -> None:
    gain = tuning_gain(run(tmp_path, ("eager", "compiled-graph", "max-autotune")))
    assert gain is not None
    saved = (step_of("compiled-graph", 8) - step_of("max-autotune", 8)) / 8
    assert (gain.against, gain.cost_ns, gain.source) == ("compiled-graph", 100e9, "autotuning")
    assert gain.saved_ns_per_token == saved == 6_750
    assert gain.break_even_tokens == 100e9 / saved
    assert gain.reason == ""


def test_tuning_within_noise_has_no_break_even(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests import sweep_folders

    monkeypatch.setitem(sweep_folders.STEP_NS, "max-autotune", 499_500)
    gain = tuning_gain(run(tmp_path, ("compiled-graph", "max-autotune")))
    assert gain is not None
    assert gain.saved_ns_per_token == pytest.approx(540 / 8)
    assert gain.break_even_tokens is None
    assert "within the spread" in gain.reason


def test_tuning_that_loses_has_no_break_even(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests import sweep_folders

    monkeypatch.setitem(sweep_folders.STEP_NS, "max-autotune", 600_000)
    gain = tuning_gain(run(tmp_path, ("compiled-graph", "max-autotune")))
    assert gain is not None
    assert gain.break_even_tokens is None
    assert "not shorter" in gain.reason


def test_no_gain_without_something_untuned(tmp_path: Path) -> None:
    assert tuning_gain(run(tmp_path, ("eager", "max-autotune"), 1)) is None


def test_the_price_of_a_seam_is_the_difference_to_the_whole_graph(tmp_path: Path) -> None:
    found = run(tmp_path, ("compiled-graph", "piecewise"))
    (price,) = seam_prices(found)
    assert (price.mode, price.whole, price.seams) == ("piecewise", "compiled-graph", 4)
    assert price.step_ns - price.whole_ns == 86_400
    assert price.per_seam_ns == 21_600
    assert price.beyond
    assert price.change_ns == 86_400
    summary = to_data(found.result)
    assert summary["seam_prices"][0]["per_seam_ns"] == 21_600
    assert summary["startup"]["piecewise"]["cold_ns"] == 24e9
    assert summary["autotuning"] is None


def test_no_price_without_the_whole_graph(tmp_path: Path) -> None:
    assert seam_prices(run(tmp_path, ("eager", "piecewise"), 1)) == ()
