"""HTML pages: closed off, complete without scripts, every number with value, unit and basis."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import zlib
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import pytest

from gaptrace import units
from gaptrace.analysis import Analysis, analyze
from gaptrace.document.blocks import (
    BLOCKS,
    Bars,
    Chart,
    Detail,
    Document,
    Sentence,
    Table,
    Text,
    Timeline,
    blocks_of,
    quantities_of,
)
from gaptrace.quantity import NS, Quantity
from gaptrace.render import html as page_of
from gaptrace.render.elements import Element, clean
from gaptrace.render.files import Report, file_text
from gaptrace.render.formats import Style
from gaptrace.render.html_blocks import Page, draw
from gaptrace.render.tables import basis_words, text_table
from tests.builders import decode_events, op, trace_of
from tests.render import material
from tests.render.material import by_hand, doc, drawn, hostile, personal, sample

DOCUMENTS: dict[str, Callable[[], Document]] = {
    "by hand": by_hand,
    "parts": lambda: by_hand(parts=3),
    "pairs": lambda: by_hand(parts=2, kind="comparison"),
    "eager": lambda: doc(sample("eager")),
    "graph": lambda: doc(sample("graph")),
    "hostile": lambda: doc(hostile()),
    "personal": lambda: doc(personal()),
    "no gpu": lambda: doc(material.without_gpu()),
    "one step": lambda: doc(drawn(steps=1)),
    "many steps": lambda: doc(drawn(steps=200, kernels=2)),
    "run": material.run_doc,
    "comparison": material.pair_doc,
    "two pairs": material.two_pairs,
}


def render(document: Document) -> str:
    return page_of.FORMAT.render(document, Style())


class Parsed(HTMLParser):
    """A parsed page: elements with their attributes, scripts, data and visible text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.data: dict[str, str] = {}
        self.words: list[str] = []
        self._inside: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.elements.append((tag, found))
        if tag in ("script", "style", "title"):
            self._inside.append((tag, found.get("id") if "type" in found else None))

    def handle_endtag(self, tag: str) -> None:
        if self._inside and self._inside[-1][0] == tag:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        tag, name = self._inside[-1] if self._inside else ("", None)
        if tag == "script" and name is None:
            self.scripts.append(data)
        elif tag == "script":
            self.data[name or ""] = self.data.get(name or "", "") + data
        elif tag == "style":
            self.styles.append(data)
        else:
            self.words.append(data)

    def unpacked(self, name: str) -> Any:
        """Data that the page carries deflated."""
        return json.loads(zlib.decompress(base64.b64decode(self.data[name])))

    @property
    def text(self) -> str:
        """The words on the page with single spaces."""
        return " ".join("".join(self.words).replace("\u202f", " ").split())


@pytest.fixture(params=DOCUMENTS, scope="module")
def page(request: pytest.FixtureRequest) -> Parsed:
    """Each kind of page, parsed."""
    return Parsed(render(DOCUMENTS[request.param]()))


def test_the_policy_names_exactly_the_scripts_and_styles(page: Parsed) -> None:
    (policy,) = (
        found["content"] or ""
        for tag, found in page.elements
        if found.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none';")
    for kind, bodies in (("script-src", page.scripts), ("style-src", page.styles)):
        digests = [hashlib.sha256(body.encode()).digest() for body in bodies]
        want = {f"'sha256-{base64.b64encode(d).decode()}'" for d in digests}
        found = re.search(rf"{kind} ([^;]+);", policy)
        assert found
        assert set(found[1].split()) == want
    assert "unsafe" not in policy


def test_nothing_is_fetched_and_nothing_is_inline(page: Parsed) -> None:
    for tag, found in page.elements:
        assert tag not in ("img", "iframe", "object", "embed", "base", "form")
        for name, value in found.items():
            assert not name.startswith("on")
            assert name != "style"
            if name in ("src", "href", "action", "poster", "data"):
                assert value is not None
                assert value.startswith("#") or value == "data:,"
            assert "url(" not in (value or "")
    for style in page.styles:
        assert not re.search(r"@import|url\((?!#)", style)


def test_ids_are_unique_and_links_lead_somewhere(page: Parsed) -> None:
    ids = [found["id"] for _, found in page.elements if "id" in found]
    assert len(ids) == len(set(ids))
    for tag, found in page.elements:
        target = found.get("href") or ""
        if tag == "a" and target.startswith("#"):
            assert target[1:] in ids
        for name in ("aria-labelledby", "for"):
            if name in found:
                assert found[name] in ids


def test_pages_have_one_title_and_ordered_headings(page: Parsed) -> None:
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_same_document_gives_the_same_bytes(name: str) -> None:
    assert render(DOCUMENTS[name]()) == render(DOCUMENTS[name]())


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_quantity_is_there_with_its_unit_and_basis(name: str) -> None:
    document = DOCUMENTS[name]()
    text = Parsed(render(document)).text
    assert text == clean(text)
    for block in blocks_of(document):
        for found in tables(block):
            shown = text_table(found, 200)
            for heading in shown.headings:
                assert " ".join(heading.words.split()) in text
            for row in shown.rows:
                for cell in row:
                    assert len(cell) > 44 or " ".join(clean(cell).split()) in text
        if isinstance(block, Sentence):
            assert all(units.text(q) in text for q in quantities_of(block))
        if isinstance(block, Bars) and block.kind == "stacked":
            for bar in block.bars:
                for segment in bar.segments:
                    assert f"{segment.label}: {units.text(segment.amount)}" in text
                if bar.total is not None:
                    assert f"{units.text(bar.total)} ({basis_words(bar.total.basis)})" in text


def tables(block: object) -> list[Table]:
    if isinstance(block, Table):
        return [block]
    return [block.table] if isinstance(block, (Chart, Timeline)) and block.table else []


def test_every_number_has_a_value_and_its_column_or_row_the_unit_and_basis() -> None:
    found = Parsed(str(draw(material.table(), Page()))).elements
    of = {
        tag: [(a["data-unit"], a.get("data-basis")) for name, a in found if name == tag
              and "data-unit" in a]
        for tag in ("th", "tr", "td")
    }  # fmt: skip
    table = material.table()
    assert of["th"] == [(c.unit, c.basis or None) for c in table.columns if c.unit is not None]
    assert of["tr"] == [(r.unit, r.basis or None) for r in table.rows if r.unit is not None]
    assert of["th"]
    values = [a["data-v"] for tag, a in found if tag == "td" and "data-v" in a]
    assert values == ["4740000", "0.63", "1230000", "8100", "12345"]


def test_a_table_says_units_and_bases_once_and_reasons_in_words() -> None:
    said = Parsed(str(draw(material.table(), Page()))).text
    assert "step, ms (unprofiled)" in said
    assert "first, %" in said
    assert "second, µs (as profiled)" in said
    assert "no clock" in said
    assert units.MISSING not in said
    assert "4.74" in said
    assert "4.74 ms" not in said


def test_a_name_opens_to_its_whole_and_a_cause_has_its_look() -> None:
    text = str(draw(material.table(), Page()))
    assert '<span class="whole">nvjet_hsh_64x8_64x16_4x1_v_bz_TNT&lt;half&gt;</span>' in text
    assert 'class="k-sync"' in text
    assert "waiting in a sync" in text


@pytest.mark.parametrize("kind", BLOCKS)
def test_every_block_type_is_drawn(kind: type) -> None:
    blocks = [b for b in (*material.every_block(), *timelines()) if type(b) is kind]
    assert blocks
    for block in blocks:
        page = Page()
        assert isinstance(draw(block, page), Element)
        # Twice on one page: no id stands twice.
        both = f"{draw(block, page)}{draw(block, page)}"
        ids = re.findall(r' id="([^"]+)"', both)
        assert len(ids) == len(set(ids))


def timelines() -> list[Timeline]:
    return [b for b in blocks_of(doc(sample("eager"))) if isinstance(b, Timeline)]


def test_targets_lead_to_sections_steps_gaps_and_evidence() -> None:
    page = Parsed(render(doc(sample("eager"))))
    shown = page.unpacked("timelines")["analyses"][0]["views"]
    by_id = {view["id"]: view["data"] for view in shown}
    jumps = [found for tag, found in page.elements if tag == "a" and found.get("data-from")]
    assert jumps
    for jump in jumps:
        data = by_id[jump["data-view"]]
        assert data["start_ns"] <= int(jump["data-from"] or 0)
        assert int(jump["data-to"] or 0) <= data["start_ns"] + data["span_ns"]
    unknown = Sentence((Text("nowhere", target="gap:99"), Text("there", target="s2")))
    text = render(by_hand(unknown))
    assert '<a href="#s2">there</a>' in text
    assert "nowhere</a>" not in text


def test_parts_are_tabs_and_pairs_stand_one_after_another() -> None:
    tabs, pairs = render(by_hand(parts=3)), render(by_hand(parts=2, kind="comparison"))
    assert tabs.count('type="radio" name="parts"') == 3
    assert 'type="radio"' not in pairs
    for text in (tabs, pairs):
        assert "Answer of mode 1." in text
        assert "words of 0" in text


def test_recorded_samples_stay_small() -> None:
    assert len(render(doc(sample("eager")))) < 500_000
    assert len(render(doc(sample("graph")))) < 500_000


def test_the_embedded_data_is_the_result() -> None:
    analysis = sample("eager")
    data = Parsed(render(doc(analysis))).unpacked("result")
    assert data["per_token"] == analysis.summary["per_token"]
    assert data["schema"] == "gaptrace.analysis/1"


def test_hostile_names_stay_text() -> None:
    text = render(doc(hostile()))
    page = Parsed(text)
    assert len(page.scripts) == 5
    assert set(page.data) == {"timelines", "result"}
    assert not any(tag == "img" for tag, _ in page.elements)
    for raw in ("</script><img", "\x00", "\u202e", "\u2028"):
        assert raw not in text
    assert "[U+202E]" in text
    assert html.escape(material.CLOSING, quote=False) in text
    text.encode("utf-8")
    assert "characters left out" in page.text
    assert len(text) < 500_000


def test_over_the_cap_a_page_holds_less_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    document = doc(sample("eager"))
    sizes = [len(page_of._page(document, smaller)) for smaller in range(4)]
    assert sizes == sorted(sizes, reverse=True)
    for smaller, notice in ((1, "hold one step each"), (2, "cannot be zoomed"), (3, "--json")):
        monkeypatch.setattr(page_of, "HARD_CAP", sizes[smaller])
        coarse = render(document)
        assert len(coarse) == pytest.approx(sizes[smaller], abs=9)
        assert notice in coarse
        assert '<svg viewBox="0 0 1200' in coarse


def test_a_large_sentence_keeps_a_number_and_its_unit_together() -> None:
    text = render(by_hand())
    assert "10.2\u202fms per token" in text
    assert re.search(r'<span class="q" title="unprofiled"[^>]*>97.0 tok/s</span>', text)


def test_a_withheld_number_is_its_reason() -> None:
    text = render(by_hand(Sentence((Quantity(None, NS, reason="the clock went back"),))))
    assert '<span class="withheld">the clock went back</span>' in text


# ---------------------------------------------------------------- what a page tells of its maker


def written(analysis: Analysis, *, redact: bool) -> str:
    report = Report(analysis.result, analysis.analyses)
    return file_text("x.html", [report], Detail.FULL, redact=redact)


def test_open_pages_say_what_they_hold_and_cut_what_is_absurdly_long() -> None:
    text = Parsed(written(personal(), redact=False)).text
    for fact in (
        "janes-machine",
        "/home/jane/secret/script.py",
        "CUDA_VISIBLE_DEVICES=0",
        "abc123",
        "hunter2",
    ):
        assert fact in text
    assert "x" * 3_000 not in text


def test_redaction_leaves_nothing_personal() -> None:
    text = written(personal(), redact=True)
    for secret in ("jane", "hunter2", "secret", "abc123", "CUDA_VISIBLE_DEVICES", "/home"):
        assert secret not in text
    # The pictures are there all the same.
    assert 'data-timeline="' in text


def test_redaction_reaches_the_names_that_pictures_take_from_the_trace() -> None:
    frame = "/home/jane/secret/model.py(12): forward"
    events = decode_events(steps=4)
    analysis = analyze(trace_of(*events, op(frame, at=11_000, dur=500)))
    assert "/home/jane/secret" in written(analysis, redact=False)
    text = written(analysis, redact=True)
    assert "model.py(12): forward" in text
    assert "/home/jane" not in text


def test_broken_states_say_what_to_do() -> None:
    nothing = Parsed(render(doc(material.without_gpu()))).text
    assert "ProfilerActivity.CUDA" in nothing
    assert "NaN" not in nothing
    assert units.MISSING not in nothing
