"""Nothing unescaped gets into a page."""

from __future__ import annotations

import base64
import html
import json
import re
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gaptrace.render.elements import (
    Raw,
    asset,
    clean,
    element,
    nodes,
    number,
    packed_block,
    prose,
    shortened,
)
from gaptrace.render.html_blocks import Page


def test_text_is_escaped_and_elements_are_not() -> None:
    inner = element("b", "1 < 2")
    assert str(element("p", inner, " & ", None, 3)) == "<p><b>1 &lt; 2</b> &amp; 3</p>"


def test_attributes_are_escaped_and_absent_ones_left_out() -> None:
    made = element("a", "x", href='"><script>', class_="c", data_from=1.50, hidden=True, id=None)
    assert str(made) == '<a href="&quot;&gt;&lt;script&gt;" class="c" data-from="1.5" hidden>x</a>'


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
    body = str(element("p", text)).removeprefix("<p>").removesuffix("</p>")
    assert "<" not in body
    assert html.unescape(body) == clean(shortened(text))


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner)))
@example(["</script><!--<script>", "\u202e<\u2028\ud800", 1.5, None])
def test_packed_data_survives_and_cannot_close_its_block(value: object) -> None:
    made = re.fullmatch(
        '<script type="application/zlib" id="d">([A-Za-z0-9+/=]+)</script>',
        str(packed_block("d", value)),
    )
    assert made
    assert json.loads(zlib.decompress(base64.b64decode(made[1]))) == value


def test_an_asset_that_closes_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="not an asset"):
        asset("script", "x = '</SCRIPT>'")
    assert asset("style", "a{}").children == (Raw("a{}"),)


def test_prose_marks_code_between_pairs_of_backticks() -> None:
    said = str(element("p", prose("call `a<b>` now")))
    assert said == "<p>call <code>a&lt;b&gt;</code> now</p>"
    assert prose("a lone ` stays") == ("a lone ` stays",)


def test_numbers_are_short_and_never_minus_zero() -> None:
    assert [number(v) for v in (1.5, -0.0001, 12.3456, 100.0)] == ["1.5", "0", "12.35", "100"]


def test_children_that_are_lists_lie_flat() -> None:
    assert nodes(["a", [element("i", "b")]], "<") == ("a", element("i", "b"), "<")


def test_a_term_leads_to_its_definition_and_an_unknown_one_is_plain() -> None:
    page = Page()
    assert str(page.link("busy", "GPU busy")) == '<a href="#def-busy" class="def">GPU busy</a>'
    assert page.link("no such term", "x") == "x"
    assert page.terms == {"busy"}
