"""A second load from the cache is the same trace, and a bad entry is never used."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from gaptrace.reading import cache
from gaptrace.reading.loading import load
from tests.reading.tables import load_with, loaded_rows, same

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "small_decoder_eager.json.gz"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where entries go; it does not exist yet."""
    return tmp_path / "cache" / "traces"


@pytest.fixture
def no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where a file is parsed."""

    def unexpected(*args: object) -> None:
        raise AssertionError("parsed although it was in the cache")

    monkeypatch.setattr("gaptrace.reading.loading._read", unexpected)


def entry(folder: Path) -> Path:
    """The one entry."""
    (found,) = folder.iterdir()
    return found


def test_a_second_load_is_the_same_trace(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load(SAMPLE, cache=folder)
    monkeypatch.setattr("gaptrace.reading.loading._read", None)
    second = load(SAMPLE, cache=folder)
    same(first, second)
    assert second.source == first.source
    assert second.event(100) == first.event(100)
    assert (second.gpu.bytes == first.gpu.bytes).all()
    with pytest.raises(ValueError, match="read-only"):
        second.start[0] = 1


def test_problems_and_metadata_come_back(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(
        '{"n": {"a": [1.5, null]}, "traceEvents": ['
        '{"ph": "X", "name": "\\u00e9", "ts": 1, "dur": -1},'
        '{"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "t"}},'
    )
    first, second = load(path, cache=folder), load(path, cache=folder)
    same(first, second)
    assert [problem.id for problem in second.problems] == ["truncated", "negative_duration"]
    assert second.thread_names == {("1", "2"): "t"}
    assert second.metadata == {"n": {"a": [1.5, None]}}


def test_another_file_or_another_state_is_another_entry(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    text = '[{"ph": "X", "name": "a", "ts": 1, "dur": 1}]'
    path.write_text(text)
    assert load(path, cache=folder).names == ("a",)
    stamp = path.stat().st_mtime_ns
    path.write_text(text.replace('"a"', '"b"'))
    os.utime(path, ns=(stamp, stamp))
    assert load(path, cache=folder).names == ("b",)
    copy = tmp_path / "copy.json"
    shutil.copy2(path, copy)
    assert load(copy, cache=folder).source.path == str(copy)
    assert len(list(folder.iterdir())) == 3


def test_bytes_and_streams_are_not_kept(folder: Path) -> None:
    load(b'[{"ph": "X", "name": "a", "ts": 1, "dur": 1}]', cache=folder)
    assert not folder.exists()


def damage_tables(found: Path) -> None:
    (found / "tables.json").write_text("{")


def damage_format(found: Path) -> None:
    tables = json.loads((found / "tables.json").read_text())
    (found / "tables.json").write_text(json.dumps({**tables, "format": cache.FORMAT + 1}))


def damage_names(found: Path) -> None:
    tables = json.loads((found / "tables.json").read_text())
    (found / "tables.json").write_text(json.dumps({**tables, "names": tables["names"][:3]}))


def damage_cut(found: Path) -> None:
    data = (found / "start.npy").read_bytes()
    (found / "start.npy").write_bytes(data[: len(data) // 2])


def damage_missing(found: Path) -> None:
    (found / "gpu.stream.npy").unlink()


def damage_type(found: Path) -> None:
    np.save(found / "dur.npy", np.load(found / "dur.npy").astype(np.float64))


def damage_pickle(found: Path) -> None:
    np.save(found / "dur.npy", np.array([{"a": 1}], object), allow_pickle=True)


def damage_row(found: Path) -> None:
    rows = np.load(found / "gpu.rows.npy")
    rows[-1] = 1 << 40
    np.save(found / "gpu.rows.npy", rows)


def damage_all(found: Path) -> None:
    for path in found.iterdir():
        path.write_bytes(b"")


@pytest.mark.parametrize(
    "damage",
    [
        damage_tables, damage_format, damage_names, damage_cut, damage_missing, damage_type,
        damage_pickle, damage_row, damage_all,
    ],
)  # fmt: skip
def test_a_damaged_entry_is_made_again(damage: object, folder: Path) -> None:
    assert callable(damage)
    first = load(SAMPLE, cache=folder)
    damage(entry(folder))
    again = load(SAMPLE, cache=folder)
    same(first, again)
    assert loaded_rows(load(SAMPLE, cache=folder)) == loaded_rows(first)
    assert len(list(folder.iterdir())) == 1


def test_a_foreign_file_in_the_place_of_an_entry(folder: Path, no_reading: None) -> None:
    found = cache.entry_of(folder, _opened())
    found.parent.mkdir(parents=True)
    found.write_text("not a folder")
    with pytest.raises(AssertionError, match="parsed"):
        load(SAMPLE, cache=folder)


def test_a_folder_that_cannot_be_written_costs_only_the_cache(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert len(load(SAMPLE, cache=blocked)) == len(load(SAMPLE))
    foreign = tmp_path / "cache"
    foreign.mkdir()
    cache.entry_of(foreign, _opened()).write_text("in the way")
    assert len(load(SAMPLE, cache=foreign)) == len(load(SAMPLE))
    assert len(list(foreign.iterdir())) == 1


def _opened() -> cache.FileInput:
    from gaptrace.reading.inputs import FileInput, open_input

    opened = open_input(SAMPLE)
    assert isinstance(opened, FileInput)
    return opened


def test_an_empty_group_is_kept(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "cpu_only.json"
    path.write_text('[{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1}]')
    first, second = load_with(path, cache=folder), load_with(path, cache=folder)
    same(first, second)
    assert second.gpu.rows.size == 0
