"""Markdown for GitHub: fits, says it in words, and lets no name become markup."""

from __future__ import annotations

import dataclasses
import re

import pytest

from gaptrace import units
from gaptrace.report.github import (
    COMMENT_LIMIT,
    MARKER,
    bars,
    code,
    fitted,
    plain,
    prose,
    table,
)
from gaptrace.report.markdown import (
    render_analysis_markdown,
    render_comparison_markdown,
    render_run_markdown,
)
from gaptrace.report.privacy import Privacy
from tests.report.material import MENTION, comparison, hostile, personal, run, sample, two_pairs

TEXTS = {
    "eager": lambda: render_analysis_markdown(sample("eager")),
    "hostile": lambda: render_analysis_markdown(hostile()),
    "run": lambda: render_run_markdown(run()),
    "comparison": lambda: render_comparison_markdown(comparison()),
    "two pairs": lambda: render_comparison_markdown(two_pairs()),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_comment_fits_and_can_be_found_again(name: str) -> None:
    text = TEXTS[name]()
    assert len(text) < COMMENT_LIMIT
    assert text.startswith(f"{MARKER}\n")
    assert text.count(MARKER) == 1
    assert text == TEXTS[name]()
    assert text.count("<details>") == text.count("</details>")
    assert text.count("\n```") % 2 == 0


@pytest.mark.parametrize("name", TEXTS)
def test_tables_have_as_many_cells_in_every_row(name: str) -> None:
    block: list[str] = []
    for line in [*TEXTS[name]().splitlines(), ""]:
        if line.startswith("| "):
            block.append(line)
        elif block:
            assert len({row.count("|") for row in block}) == 1, block
            block = []


def test_the_headline_and_the_figures_are_there() -> None:
    analysis = sample("eager")
    text = render_analysis_markdown(analysis)
    assert plain(analysis.sentence) in text
    median = analysis.headline.steps["period_ns"].median
    assert f"| step time | {units.time(median)} |" in text
    for finding in analysis.findings:
        assert f"<b>{finding.id}</b>" in text
    assert "gaptrace analyze" in text


def test_a_comparison_says_verdicts_in_words_with_arrows() -> None:
    text = render_comparison_markdown(comparison())
    rows = {row.id: row for row in comparison().pairs[0].metrics}
    kernels = rows["kernels"]
    assert f"**{kernels.arrow} {kernels.words}**" in text
    assert "gaptrace compare" in text


def test_no_name_becomes_markup() -> None:
    text = render_analysis_markdown(hostile())
    prose_only = re.sub(r"`[^`\n]*`", "", text)
    assert "<img" not in prose_only
    assert "<b>*bold*" not in prose_only
    assert "@everyone" not in prose_only
    assert "\u202e" not in text
    assert "\x00" not in text


def test_plain_text_mentions_and_links_nothing() -> None:
    shown = plain(MENTION)
    assert "@everyone" not in shown
    assert "&#35;1" not in shown
    assert "](" not in shown
    assert "://e" not in shown
    assert plain("a_b and _c_ snake_case") == "a_b and &#95;c&#95; snake_case"


def test_code_cannot_be_closed_from_inside() -> None:
    assert code("a`b|c\nd") == "`aˋb¦c d`"
    assert len(code("k" * 1_000, 50)) <= 52
    assert code("") == ""


def test_prose_keeps_code_and_its_spaces() -> None:
    assert prose("use `a_b` now") == "use `a_b` now"


def test_bars_are_to_scale_in_eighths() -> None:
    lines = bars([("a", 8, "x"), ("b", 1, "y"), ("c", 0, "z")], width=4).splitlines()
    assert lines[1:4] == ["a  ████  x", "b  ▌     y", "c        z"]


def test_what_does_not_fit_is_said() -> None:
    text = fitted(["head"], ["a" * 40, "b" * 40], room=90)
    assert "a" * 40 in text
    assert "b" * 40 not in text
    assert "1 more parts did not fit" in text


def test_a_table_fills_empty_cells() -> None:
    assert table(["a", "b"], [["", "1"]]).splitlines()[-1] == "|   | 1 |"


def test_hundreds_of_findings_still_fit() -> None:
    analysis = sample("eager")
    many = dataclasses.replace(analysis, findings=analysis.findings * 100)
    text = render_analysis_markdown(many)
    assert len(text) < COMMENT_LIMIT
    assert "did not fit into a comment" in text


def test_redaction_drops_folders() -> None:
    text = render_analysis_markdown(personal(), Privacy.REDACTED)
    assert "/home" not in text
