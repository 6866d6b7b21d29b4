"""Nothing unescaped gets into a page."""

from __future__ import annotations

import html
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaptrace.report.markup import (
    Markup,
    asset,
    clean,
    data_block,
    element,
    headline,
    json_text,
    markup,
    number,
    prose,
    shortened,
)
from gaptrace.report.terms import Terms


def test_text_is_escaped_and_markup_is_not() -> None:
    inner = element("b", "1 < 2")
    assert element("p", inner, " & ", None, 3) == "<p><b>1 &lt; 2</b> &amp; 3</p>"


def test_attributes_are_escaped_and_absent_ones_left_out() -> None:
    made = element("a", "x", href='"><script>', class_="c", data_from=1.50, hidden=True, id=None)
    assert made == '<a href="&quot;&gt;&lt;script&gt;" class="c" data-from="1.5" hidden>x</a>'


@pytest.mark.parametrize("name", ["style", "onclick", "onerror", "STYLE", "OnLoad"])
def test_inline_styles_and_handlers_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not an attribute"):
        element("p", **{name: "x"})


@pytest.mark.parametrize("tag", ["p onload=x", "", "1p", "p>"])
def test_only_plain_tags_are_made(tag: str) -> None:
    with pytest.raises(ValueError, match="not a tag"):
        element(tag)


def test_control_characters_go_and_reordering_marks_are_shown() -> None:
    assert clean("a\x00b\x1b\u202ec\ud800\u2028d") == "a\ufffdb\ufffd[U+202E]c\ufffd d"


def test_absurd_length_is_cut_in_the_middle_and_says_so() -> None:
    cut = shortened("a" * 60_000 + "z" * 40_000, 1_000)
    assert cut == f"{'a' * 500} […99000 characters left out…] {'z' * 500}"


@given(st.text())
def test_any_text_comes_back_as_cleaned(text: str) -> None:
    body = element("p", text).removeprefix("<p>").removesuffix("</p>")
    assert "<" not in body
    assert html.unescape(body) == clean(text)


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner)))
def test_data_survives_and_cannot_close_its_block(value: object) -> None:
    text = json_text(value)
    assert "<" not in text
    assert json.loads(text) == value


def test_a_data_block_is_one_element() -> None:
    made = data_block("d", ["</script><!--<script>"])
    assert made.count("</script>") == 1
    assert made.count("<") == 2


def test_an_asset_that_closes_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="not an asset"):
        asset("script", "x = '</SCRIPT>'")
    assert isinstance(asset("style", "a{}"), Markup)


def test_prose_marks_code_between_pairs_of_backticks() -> None:
    assert prose("call `a<b>` now") == "call <code>a&lt;b&gt;</code> now"
    assert prose("a lone ` stays") == "a lone ` stays"


def test_numbers_are_short_and_never_minus_zero() -> None:
    assert [number(v) for v in (1.5, -0.0001, 12.3456, 100.0)] == ["1.5", "0", "12.346", "100"]


def test_markup_joins_lists() -> None:
    assert markup(["a", [element("i", "b")]], "<") == "a<i>b</i>&lt;"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("3\u2009001 µs per step", "3\u202f001\u00a0µs per step"),
        ("idles 85 % of it", "idles 85\u00a0% of it"),
        ("at 97 tok/s, 10.2 ms", "at 97\u00a0tok/s, 10.2\u00a0ms"),
        ("reads 492 MB", "reads 492\u00a0MB"),
        ("5 steps and 4 seams", "5 steps and 4 seams"),
        ("2 msgs, 3 sizes", "2 msgs, 3 sizes"),
    ],
)
def test_a_headline_keeps_a_number_and_its_unit_on_one_line(said: str, shown: str) -> None:
    assert headline(said) == shown


def test_terms_stand_within_a_sentence() -> None:
    terms = Terms()
    assert ">launch ceiling</a>" in terms.link("launch-ceiling")
    assert ">GPU op</a>" in terms.link("gpu-op")
    assert ">Hosts</a>" in terms.link("hand-over", "Hosts")
