"""A mode that computes something else is never the fastest."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gaptrace.measure.options import Options
from gaptrace.runs.read import read_run

RUN = Path(__file__).parents[2] / "sample_traces/dense_1b"


@pytest.mark.parametrize(
    ("wrong", "fastest"),
    [
        ({}, "compiled-graph"),
        ({"compiled-graph": "eager/1"}, "graph"),
        ({"compiled": "eager/1"}, "graph"),
    ],
)
def test_the_fastest_mode_computes_the_same(
    wrong: dict[str, str], fastest: str, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(RUN, run)
    for mode, against in wrong.items():
        _outputs(run / mode / "1/run.json", status="different", against=against)
    if "compiled" in wrong:
        # Equal to what is wrong is wrong.
        _outputs(run / "compiled-graph/1/run.json", status="equal", against="compiled/1")
    found = read_run(str(run), Options(), use_cache=False).result
    assert found is not None
    assert found.fastest == fastest


def test_one_wrong_repeat_is_enough(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(RUN, run)
    shutil.copytree(run / "compiled-graph/1", run / "compiled-graph/2")
    _outputs(run / "compiled-graph/1/run.json", status="different", against="eager/1")
    second = run / "compiled-graph/2/run.json"
    second.write_text(json.dumps({**json.loads(second.read_text()), "repeat": 2}))
    found = read_run(str(run), Options(), use_cache=False).result
    assert found is not None
    assert found.fastest == "graph"


def test_an_eager_step_that_varies_by_itself_says_nothing_of_the_others(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(RUN, run)
    _outputs(run / "eager/1/run.json", status="different", against="eager/1")
    found = read_run(str(run), Options(), use_cache=False).result
    assert found is not None
    assert found.fastest == "compiled-graph"


def _outputs(path: Path, **changes: str) -> None:
    made = json.loads(path.read_text())
    made["outputs"] = {**(made["outputs"] or {}), **changes}
    path.write_text(json.dumps(made))
