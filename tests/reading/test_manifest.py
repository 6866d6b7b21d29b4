"""What the recorder wrote is read as typed data; a field of another type is refused by name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gaptrace.cli import main
from gaptrace.reading.manifest import Manifest
from gaptrace.reading.runfolder import read_run_folder, read_sweep
from gaptrace.results.manifest import CollectIndex, RunManifest, Seam
from gaptrace.trace import RunInfo

SAMPLES = Path(__file__).parents[2] / "sample_traces"


def changed(path: Path, **fields: Any) -> None:
    data = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**data, **fields}), encoding="utf-8")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLES / "bad_item", tmp_path / "bad_item"))


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"repeat": "first"}, "$.repeat"),
        ({"step": {"tokens": "one"}}, "$.step.tokens"),
        ({"power": {"samples": [{"throttle": "hot"}]}}, "$.power.samples[0].throttle"),
        ({"files": ["trace.json.gz"]}, "$.files"),
    ],
)
def test_a_bad_field_of_a_manifest_is_refused_by_file_and_name(
    run: Path, fields: dict[str, Any], where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run / "eager/1/run.json"
    changed(path, **fields)
    assert main(["analyze", str(run)]) == 2
    error = capsys.readouterr().err
    assert f"{path} cannot be read" in error
    assert f"`{where}`" in error


def test_a_bad_field_of_an_index_is_refused_by_file_and_name(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run / "collect.json"
    path.write_text(json.dumps({"schema": "gaptrace.collect/1", "complete": False, "repeats": []}))
    assert main(["analyze", str(run)]) == 2
    error = capsys.readouterr().err
    assert f"{path} cannot be read" in error
    assert "`$.repeats`" in error


def test_unknown_fields_are_ignored(run: Path) -> None:
    changed(run / "eager/1/run.json", novelty={"of": "a later version"})
    assert read_run_folder(run).modes == ("eager", "graph")


def test_a_point_is_read_as_typed_data() -> None:
    sweep = read_sweep(SAMPLES / "sweep_1b")
    points = {cell.manifest.run.point for point in sweep.points for cell in point.run.cells}
    assert {(p.batch, p.length) for p in points if p is not None} == {(64, 512), (256, 512)}
    seams = next(
        seams
        for point in sweep.points
        for cell in point.run.of_mode("piecewise")
        if (seams := cell.manifest.piecewise.seams)
    )
    assert isinstance(seams[0], Seam)
    assert seams[0].op == "scaled_dot_product_attention"


def test_without_a_manifest_every_section_is_empty() -> None:
    bare = Manifest(None)
    assert not bare
    assert bare.step.tokens is None
    assert bare.failure.reason == ""
    assert Manifest(RunInfo("x/eager/1", {"mode": "eager"})).mode == "eager"


def _unknown(data: Any, typed: Any, path: str) -> list[str]:
    """Fields of a file that its Struct does not have."""
    if isinstance(data, list) and isinstance(typed, tuple):
        return [
            name for a, b in zip(data, typed, strict=True) for name in _unknown(a, b, f"{path}[]")
        ]
    if not isinstance(data, dict) or not hasattr(typed, "__struct_fields__"):
        return []
    own = [f"{path}.{key}" for key in data if key not in typed.__struct_fields__]
    known = [key for key in data if key in typed.__struct_fields__]
    return own + [n for k in known for n in _unknown(data[k], getattr(typed, k), f"{path}.{k}")]


@pytest.mark.parametrize(
    "path",
    sorted([*SAMPLES.glob("**/run.json"), *SAMPLES.glob("**/collect.json")]),
    ids=lambda p: "/".join(p.parts[-5:]),
)
def test_every_field_that_the_recorder_wrote_has_a_name_here(path: Path) -> None:
    data = json.loads(path.read_text(encoding="utf-8"))
    kind = RunManifest if path.name == "run.json" else CollectIndex
    assert _unknown(data, msgspec.convert(data, kind), "$") == []
