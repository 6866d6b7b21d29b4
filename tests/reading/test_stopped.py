"""Recordings that were stopped: what was still to come is said wherever the run is shown."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gaptrace.cli import main
from gaptrace.reading.runfolder import read_run_folder, read_sweep
from tests.sweep_folders import make_sweep

INDEX = {
    "schema": "gaptrace.collect/1",
    "modes": ["eager", "graph"],
    "repeats": 2,
    "batches": [1, 8],
    "buckets": [],
    "cells": [],
    "complete": False,
}


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Batch 1 has eager/1, eager/2 and graph/1, batch 8 nothing."""
    folder = make_sweep(tmp_path, batches=(1,), modes=("eager", "graph"))
    shutil.rmtree(folder / "batch-1" / "graph" / "2")
    return folder


def stopped(folder: Path, **rest: Any) -> None:
    (folder / "collect.json").write_text(json.dumps({**INDEX, **rest}), encoding="utf-8")


def test_what_was_still_to_come_is_missing(sweep: Path) -> None:
    stopped(sweep)
    found = read_sweep(sweep)
    assert found.missing == ("batch-8",)
    assert found.points[0].run.missing == ("graph/2",)
    assert read_run_folder(sweep / "batch-1").missing == ("graph/2",)
    # One mode is what was asked for.
    assert read_run_folder(sweep / "batch-1" / "graph").missing == ()


def test_the_reason_is_told_where_there_is_one(sweep: Path) -> None:
    at = {"batch": 1, "length": None}
    died = {"mode": "graph", "repeat": 2, "point": at, "path": None, "reason": "ended with -9"}
    other = {**died, "point": {"batch": 8, "length": None}, "reason": "another"}
    stopped(sweep, cells=[died, other])
    assert read_run_folder(sweep / "batch-1").missing == ("graph/2 (ended with -9)",)


def test_points_have_both_sizes(sweep: Path) -> None:
    stopped(sweep, buckets=[128, 512])
    names = [f"batch-{batch}-length-{length}" for batch in (1, 8) for length in (128, 512)]
    assert read_sweep(sweep).missing == tuple(names)


@pytest.mark.parametrize(
    "index",
    ["{", "[]", '{"complete": true, "modes": ["eager", "graph", "compiled"]}', "{}"],
    ids=["broken", "no object", "complete", "older"],
)
def test_nothing_is_missing_from_what_was_not_stopped(sweep: Path, index: str) -> None:
    (sweep / "collect.json").write_text(index, encoding="utf-8")
    assert read_sweep(sweep).missing == ()
    assert read_run_folder(sweep / "batch-1").missing == ()


def test_a_mode_that_failed_needed_no_second_repeat(tmp_path: Path) -> None:
    folder = make_sweep(tmp_path, batches=(1,), modes=("eager", "graph"), repeats=1, failed="graph")
    stopped(folder)
    assert read_run_folder(folder / "batch-1").missing == ("eager/2",)


def test_every_form_says_so(
    sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.move(sweep / "batch-1", run)
    stopped(run, batches=[])
    files = [tmp_path / name for name in ("r.html", "r.md", "r.json")]
    outputs = [word for file in files for word in ("-o", str(file))]
    assert main(["analyze", str(run), *outputs]) == 0
    said = "stopped before it was complete; missing: graph/2"
    assert said in capsys.readouterr().out
    assert said in files[0].read_text()
    assert said in files[1].read_text()
    assert json.loads(files[2].read_text())["missing"] == ["graph/2"]


def test_a_sweep_says_so(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stopped(sweep)
    assert main(["analyze", str(sweep)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "the recording was stopped before it was complete: batch-8" in out
    assert "batch-1: stopped before graph/2" in out


def test_a_script_that_failed_has_further_repeats_to_come(tmp_path: Path) -> None:
    folder = make_sweep(tmp_path, batches=(1,), modes=("eager",), repeats=1, failed="eager")
    cell = folder / "batch-1/eager/1/run.json"
    cell.write_text(cell.read_text().replace('"mode_failed"', '"script_failed"'))
    stopped(folder)
    assert read_run_folder(folder / "batch-1").missing == ("eager/2", "graph/1", "graph/2")
