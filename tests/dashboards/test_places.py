"""What counts as a recording under a path, and what does not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("dash")

from gaptrace.errors import GaptraceError
from gaptrace_dashboards.places import RUN, TRACE, WRITING, find_places
from tests.dashboards.folders import SAMPLES, make_run

EAGER = SAMPLES / "small_decoder_eager.json.gz"


def test_a_folder_gives_its_traces_and_runs_and_nothing_beside_them(tmp_path: Path) -> None:
    make_run(tmp_path, "first")
    make_run(tmp_path / "deeper", "second")
    shutil.copy(EAGER, tmp_path / "bare.json.gz")
    shutil.copy(EAGER, tmp_path / ".hidden.json.gz")
    (tmp_path / "bare.et.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("no trace")
    found = find_places([str(tmp_path)])
    assert [(place.name, place.kind) for place in found] == [
        ("bare", TRACE),
        ("second", RUN),
        ("first", RUN),
    ]


def test_ids_are_readable_and_distinct(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        shutil.copy(EAGER, tmp_path / folder / "Trace (1).json.gz")
    ids = [place.id for place in find_places([str(tmp_path)])]
    assert len(set(ids)) == 2
    assert all(id_.startswith("trace-1-") for id_ in ids)


def test_the_same_file_named_twice_is_one_place(tmp_path: Path) -> None:
    shutil.copy(EAGER, tmp_path / "one.json.gz")
    assert len(find_places([str(tmp_path), str(tmp_path / "one.json.gz")])) == 1


def test_a_run_that_is_being_written_is_named(tmp_path: Path) -> None:
    run = make_run(tmp_path, "demo")
    (run / "compiled-graph").mkdir()
    (run / "compiled-graph" / ".1.partial").mkdir()
    found = [place for place in find_places([str(tmp_path)]) if place.kind == WRITING]
    assert [place.name for place in found] == ["demo · compiled-graph · 1"]


def test_a_changed_file_has_another_stamp(tmp_path: Path) -> None:
    file = tmp_path / "one.json.gz"
    shutil.copy(EAGER, file)
    before = find_places([str(file)])[0]
    file.write_bytes(file.read_bytes() + b"\n")
    after = find_places([str(file)])[0]
    assert before.id == after.id
    assert before.stamp != after.stamp


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GaptraceError, match="does not exist"):
        find_places([str(tmp_path / "nothing")])
