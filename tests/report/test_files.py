"""File endings and forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gaptrace.errors import GaptraceError, OptionError
from gaptrace.report.files import kinds, render_report, write_report
from gaptrace.report.github import MARKER
from gaptrace.report.privacy import Privacy
from tests.report.material import comparison, personal, run, sample

STARTS = {
    ".html": "<!doctype html>",
    ".md": MARKER,
    ".svg": "<svg ",
    ".json": "{",
    ".txt": "",
}


@pytest.mark.parametrize("ending", kinds())
@pytest.mark.parametrize("result", [sample, run, comparison], ids=["analysis", "run", "comparison"])
def test_every_result_has_every_form(ending: str, result: object) -> None:
    item = sample("eager") if result is sample else result()  # type: ignore[operator]
    text = render_report(f"out{ending}", item)
    assert text.startswith(STARTS[ending])
    assert text.endswith("\n")
    assert text.strip()


def test_several_results_go_into_one_file_where_that_makes_sense() -> None:
    both = [sample("eager"), sample("graph")]
    data = json.loads(render_report("x.json", both))
    assert data["schema"] == "gaptrace.analyses/1"
    assert len(data["analyses"]) == 2
    for ending in (".html", ".md", ".txt"):
        text = render_report(f"x{ending}", both)
        assert len(text) > len(render_report(f"x{ending}", both[1]))
    assert render_report("x.md", both).count(MARKER) == 1
    with pytest.raises(OptionError, match="one picture"):
        render_report("x.svg", both)


def test_an_unknown_ending_is_refused_with_the_known_ones() -> None:
    with pytest.raises(OptionError, match="cannot write that kind") as caught:
        render_report("x.pdf", sample("eager"))
    assert caught.value.hint == "end it in .html, .md, .svg, .json, .txt"


def test_files_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "out.md"
    write_report(str(target), sample("eager"))
    assert target.read_text("utf-8").startswith(MARKER)
    assert [path.name for path in tmp_path.iterdir()] == ["out.md"]
    with pytest.raises(GaptraceError, match="cannot write"):
        write_report(str(tmp_path / "none" / "out.md"), sample("eager"))


@pytest.mark.parametrize("ending", [".html", ".md", ".json", ".txt"])
def test_redaction_reaches_every_form(ending: str) -> None:
    text = render_report(f"x{ending}", personal(), Privacy.REDACTED)
    assert "hunter2" not in text
    assert "/home/jane" not in text
