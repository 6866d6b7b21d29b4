"""Markdown for GitHub: fits, says it in words, and lets no name become markup."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from gaptrace import units
from gaptrace.document.blocks import Bar, Bars, Column, Detail, Document, Row, Segment, Table
from gaptrace.document.build import document
from gaptrace.document.sections import Context
from gaptrace.measure.options import Options
from gaptrace.quantity import COUNT, NS, Quantity
from gaptrace.render.formats import Style
from gaptrace.render.markdown import (
    COMMENT_LIMIT,
    bars,
    code,
    plain,
    prose,
    render,
    table,
)
from gaptrace.results.comparison import ComparisonResult
from gaptrace.runs.read import read_run
from tests.render.material import (
    MENTION,
    SAMPLES,
    assert_fit_for_a_comment,
    doc,
    hostile,
    pair_doc,
    run_doc,
    sample,
    two_pairs,
)

DOCUMENTS: dict[str, Callable[[], Document]] = {
    "eager": lambda: doc(sample("eager")),
    "brief": lambda: doc(sample("eager"), Context(Detail.BRIEF)),
    "hostile": lambda: doc(hostile()),
    "run": run_doc,
    "comparison": pair_doc,
    "two pairs": two_pairs,
}


def text_of(name: str) -> str:
    return render(DOCUMENTS[name](), Style())


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_comment_fits_and_can_be_found_again(name: str) -> None:
    text = text_of(name)
    assert_fit_for_a_comment(text)
    assert text == text_of(name)


def test_the_headline_and_the_figures_are_there() -> None:
    found = sample("eager").result
    text = text_of("eager")
    assert plain(found.sentence) in text
    assert f"| {units.time_value(found.headline.step_ns, 'ms')} |" in text
    for finding in found.findings:
        assert f"<b>{finding.id}</b>" in text
    assert "gaptrace gaps" in text
    assert "gaptrace analyze" in text_of("brief")


def test_a_comparison_says_verdicts_in_words() -> None:
    text = text_of("comparison")
    found = pair_doc().result
    assert isinstance(found, ComparisonResult)
    kernels = next(row for row in found.pairs[0].metrics if row.id == "kernels")
    assert re.search(
        rf"^\| kernels per token .*\*\*▼ {kernels.verdict}\*\* \|$", text, re.MULTILINE
    )
    assert "gaptrace compare" in text


def test_modes_stand_side_by_side_before_starts_and_findings() -> None:
    point = SAMPLES / "sweep_1b/batch-64-length-512"
    result = read_run(str(point), Options(), use_cache=False).result
    shown = [section.id for section in document(result, Context()).sections]
    order = [name for name in shown if name in ("recordings", "findings", "start-up", "pieces")]
    assert order[:3] == ["recordings", "findings", "start-up"]


def test_no_name_becomes_markup() -> None:
    text = text_of("hostile")
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
    parts = tuple(
        Segment("", name, Quantity(ns, NS)) for name, ns in zip("abc", (64, 1, 0), strict=True)
    )
    lines = bars(Bars("step", "", (Bar("step", parts),))).splitlines()
    drawn = {line[0]: line for line in lines if line[1:3] == "  "}
    assert drawn["a"].split() == ["a", "█" * 32, "64.0", "ns"]
    assert drawn["b"].split() == ["b", "▌", "1.00", "ns"]
    assert drawn["c"].split() == ["c", "0", "ns"]


def test_a_table_fills_empty_cells() -> None:
    columns = (Column("a"), Column("b", unit=COUNT))
    found = Table("t", "", columns, (Row(("", Quantity(1, COUNT))),))
    assert table(found).splitlines()[-1] == "|   | 1 |"


def test_hundreds_of_findings_still_fit_and_what_does_not_is_said() -> None:
    result = sample("eager").result
    alone = tuple(replace(finding, part_of=None) for finding in result.findings)
    many = replace(result, findings=alone * 100)
    text = render(document(many, Context()), Style())
    assert len(text) < COMMENT_LIMIT
    assert re.search(r"\d+ more parts? did not fit into a comment", text)
