"""Run folders of several ranks: the first stands for the run, the others are told of beside it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gaptrace.cli import main
from gaptrace.measure.options import Options
from gaptrace.reading.runfolder import read_run_folder
from gaptrace.runs.read import read_run
from tests.compare.runs import write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two modes on ranks 0, 1 and 10; the step of rank N takes 1,000 ns more for each N."""
    folder = write_run(tmp_path / "run", modes=("eager", "graph"), repeats=1)
    for mode in ("eager", "graph"):
        repeat = folder / mode / "1"
        whole = tmp_path / "whole"
        repeat.rename(whole)
        for rank in (10, 0, 1):
            shutil.copytree(whole, repeat / f"rank-{rank}")
            path = repeat / f"rank-{rank}" / "run.json"
            data = json.loads(path.read_text())
            data["rank"] = {"rank": rank, "world_size": 11, "local_rank": rank}
            data["unprofiled"]["median_ns"] += 1_000 * rank
            path.write_text(json.dumps(data))
        shutil.rmtree(whole)
    return folder


@pytest.mark.parametrize("level", [".", "eager", "eager/1"])
def test_the_first_rank_stands_for_each_mode(run: Path, level: str) -> None:
    found = read_run_folder(run / level)
    assert [cell.rank for cell in found.cells] == [0] * len(found.modes)
    assert found.modes == (("eager", "graph") if level == "." else ("eager",))
    ranks = [cell.rank for cell in found.of_ranks if cell.mode == "eager"]
    assert ranks == [0, 1, 10]


def test_a_rank_by_itself_is_a_recording_like_any_other(run: Path) -> None:
    found = read_run_folder(run / "eager/1/rank-10")
    assert [(cell.mode, cell.rank) for cell in found.cells] == [("eager", 10)]
    assert found.of_ranks == ()


def test_the_steps_of_all_ranks_stand_side_by_side(run: Path) -> None:
    result = read_run(str(run), Options(), use_cache=False).result
    assert result is not None
    steps = [row.step_ns for row in result.ranks if row.mode == "eager"]
    assert steps[0] is not None
    assert steps == [steps[0], steps[0] + 1_000, steps[0] + 10_000]
    assert [row.mode for row in result.modes] == ["eager", "graph"]
    assert {row.repeats for row in result.modes} == {1}


def test_one_mode_of_several_ranks_is_no_single_recording(run: Path) -> None:
    assert read_run(str(run / "eager"), Options(), use_cache=False).alone is None
    assert read_run(str(run / "eager/1/rank-1"), Options(), use_cache=False).alone is not None


def test_the_report_says_which_ranks_there_are(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyze", str(run)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "ranks 0, 1, 10 were recorded; what follows is rank 0" in out
    assert "rank-10" in out


def test_without_ranks_nothing_is_said_of_them(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", modes=("eager",), repeats=2)
    found = read_run_folder(folder)
    assert found.of_ranks == ()
    assert [cell.rank for cell in found.cells] == [None, None]
