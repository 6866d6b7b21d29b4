"""`gaptrace explain`: pages of findings, glossary entries, lists, and ways out of a wrong name."""

from __future__ import annotations

import json

import click
import pytest

from gaptrace.cli import main
from gaptrace.cli.explain import explain, lookup
from gaptrace.errors import OptionError
from gaptrace.knowledge.glossary import entries
from gaptrace.knowledge.rules import RulePage, page, pages


def printed(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(["explain", *args]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("known", pages(), ids=lambda known: known.id)
def test_every_page_is_printed_whole(known: RulePage, capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, known.id)
    lines = out.splitlines()
    assert lines[0] == f"{known.id}  {known.title}"
    assert max(map(len, lines)) <= 80
    flat = " ".join(out.split())
    for part in (known.means, known.how_we_know, known.what_to_try, known.how_to_check):
        assert part in flat
        assert len(part) > 20
    for other in known.see_also:
        assert other in flat


def test_what_pages_refer_to_exists() -> None:
    for known in pages():
        assert known.see_also
        assert known.id not in known.see_also
        for other in known.see_also:
            found = lookup(other)
            assert found.id == other


def test_pages_name_only_findings_that_exist() -> None:
    import re

    ids = {known.id for known in pages()}
    for known in pages():
        text = " ".join((known.means, known.how_we_know, known.what_to_try, known.how_to_check))
        assert set(re.findall(r"GT\d+", text)) <= ids


def test_ids_in_any_case_and_titles_find_the_page() -> None:
    assert lookup("gt101") is page("GT101")
    assert lookup(" GT101 ") is page("GT101")
    assert lookup("Sampling on the CPU") is page("GT103")


def test_terms_of_several_words_and_names_in_json_find_the_entry(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert lookup("launch ceiling").id == "launch-ceiling"
    assert lookup("busy_ns").id == "busy"
    out = printed(capsys, "launch", "ceiling")
    assert out.startswith("Launch ceiling")
    assert "ceilings.launch_tokens_per_s" in out


def test_without_argument_everything_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys).splitlines()
    for known in pages():
        assert f"  {known.id}  {known.title}" in lines
    starts = {line.split(":")[0].strip() for line in lines}
    assert {entry.id for entry in entries()} <= starts


def test_json_of_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(printed(capsys, "GT201", "--json"))
    assert (data["schema"], data["kind"], data["id"]) == ("gaptrace.explain/1", "finding", "GT201")
    assert data["what_to_try"] == page("GT201").what_to_try


def test_json_of_a_term_and_of_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(printed(capsys, "--json", "idle"))
    assert (data["kind"], data["id"]) == ("term", "idle")
    everything = json.loads(printed(capsys, "--json"))
    assert [item["id"] for item in everything["findings"]] == [known.id for known in pages()]
    assert [item["id"] for item in everything["terms"]] == [entry.id for entry in entries()]


@pytest.mark.parametrize(
    ("term", "hint"),
    [
        ("GT1", "did you mean GT101, GT102"),
        ("GT013", "did you mean GT"),
        ("GT99999", "lists all findings"),
        ("idel", "did you mean idle"),
        ("blocking copie in the step", "did you mean GT203"),
        ("xyzzyx", "lists all terms"),
    ],
)
def test_a_wrong_name_has_a_way_out(
    term: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", *term.split()]) == 2
    error = capsys.readouterr().err
    assert error.startswith("gaptrace: error: ")
    assert f"'{term}'" in error
    assert hint in error


def test_an_unknown_page_is_an_option_error() -> None:
    with pytest.raises(OptionError, match="GT000"):
        page("GT000")


def test_ids_and_terms_complete() -> None:
    with click.Context(explain) as ctx:
        found = [item.value for item in explain.params[0].shell_complete(ctx, "gt10")]
        assert found == [known.id for known in pages() if known.id.startswith("GT10")]
        assert "launch-ceiling" in [
            item.value for item in explain.params[0].shell_complete(ctx, "launch")
        ]


def test_color_is_left_out_where_it_is_not_wanted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[1m" in printed(capsys, "GT101")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in printed(capsys, "GT101")
