"""File endings and formats: every result in each, several in one, whole or not at all."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from gaptrace.cli.output import write_file
from gaptrace.compare.compare import FORCE, CompareOptions
from gaptrace.document.blocks import Detail
from gaptrace.errors import GaptraceError, OptionError
from gaptrace.measure.options import Options
from gaptrace.render.files import Report, file_text
from gaptrace.render.formats import endings
from gaptrace.render.markdown import MARKER
from gaptrace.runs.compared import compare
from gaptrace.runs.read import read_run
from tests.render.material import SAMPLES, personal, sample

STARTS = {".html": "<!doctype html>", ".md": MARKER, ".svg": "<svg ", ".json": "{", ".txt": ""}


@cache
def analysis(mode: str) -> Report:
    found = sample(mode)
    return Report(found.result, found.analyses)


@cache
def run() -> Report:
    found = read_run(str(SAMPLES / "dense_1b"), Options(), use_cache=False)
    return Report(found.result, found.analyses)


@cache
def comparison() -> Report:
    sides = [sample("eager"), sample("compiled")]
    found = compare(sides, CompareOptions(unlike=FORCE, resamples=200))
    return Report(found, {side.path: side for side in sides})


RESULTS = {"analysis": lambda: analysis("eager"), "run": run, "comparison": comparison}


@pytest.mark.parametrize("ending", STARTS)
@pytest.mark.parametrize("name", RESULTS)
def test_every_result_has_every_form(ending: str, name: str) -> None:
    text = file_text(f"out{ending}", [RESULTS[name]()], Detail.BRIEF)
    assert text.startswith(STARTS[ending])
    assert text.endswith("\n")
    assert text.strip()


def test_these_are_all_endings() -> None:
    assert set(endings()) == {*STARTS, ".htm"}


def test_several_results_go_into_one_file_where_that_makes_sense() -> None:
    both = [analysis("eager"), analysis("graph")]
    data = json.loads(file_text("x.json", both, Detail.FULL))
    assert data["schema"] == "gaptrace.analyses/1"
    assert len(data["analyses"]) == 2
    for ending in (".html", ".md", ".txt"):
        text = file_text(f"x{ending}", both, Detail.BRIEF)
        assert len(text) > len(file_text(f"x{ending}", both[1:], Detail.BRIEF))
    assert file_text("x.md", both, Detail.FULL).count(MARKER) == 1


def test_an_unknown_ending_is_refused_with_the_known_ones() -> None:
    with pytest.raises(OptionError, match="cannot write that kind") as caught:
        file_text("x.pdf", [analysis("eager")], Detail.FULL)
    assert caught.value.hint == "end it in .txt, .md, .html, .htm, .svg, .json"


def test_files_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "out.md"
    write_file(str(target), file_text("out.md", [analysis("eager")], Detail.FULL), force=False)
    assert target.read_text("utf-8").startswith(MARKER)
    assert [path.name for path in tmp_path.iterdir()] == ["out.md"]
    with pytest.raises(GaptraceError, match="cannot write"):
        write_file(str(tmp_path / "none" / "out.md"), "x", force=False)


@pytest.mark.parametrize("ending", [".html", ".md", ".json", ".txt", ".svg"])
def test_redaction_reaches_every_form(ending: str) -> None:
    found = personal()
    reports = [Report(found.result, found.analyses)]
    text = file_text(f"x{ending}", reports, Detail.FULL, redact=True)
    assert "hunter2" not in text
    assert "/home/jane" not in text
    assert "/home" not in text
