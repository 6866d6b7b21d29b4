"""Which traces are cached, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from gaptrace.reading.cachefolder import CACHE_FROM_BYTES, cache_folder


@pytest.fixture
def large(tmp_path: Path) -> str:
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(CACHE_FROM_BYTES)
    return str(path)


def test_only_large_files_are_worth_it(large: str, tmp_path: Path) -> None:
    small = tmp_path / "small.json"
    small.write_bytes(b"{}")
    assert cache_folder(large) is not None
    for path in (str(small), "-", str(tmp_path / "absent.json")):
        assert cache_folder(path) is None


def test_the_folder_is_the_named_one_else_the_users(
    large: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAPTRACE_CACHE_DIR", str(tmp_path / "own"))
    assert cache_folder(large) == tmp_path / "own"
    monkeypatch.delenv("GAPTRACE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder(large) == tmp_path / "xdg/gaptrace"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder(large) == tmp_path / ".cache/gaptrace"
