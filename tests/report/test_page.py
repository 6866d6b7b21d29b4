"""HTML reports: closed off, complete without scripts, the same bytes each time."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from gaptrace import units
from gaptrace.measure.options import Options
from gaptrace.predict import predict_run
from gaptrace.report import html as report_html
from gaptrace.report.files import render_report
from gaptrace.report.html import render_analysis_html
from gaptrace.report.html_compare import render_comparison_html
from gaptrace.report.html_run import render_analyses_html, render_run_html
from gaptrace.report.overview import STEP_FIGURES
from gaptrace.report.privacy import Privacy
from gaptrace.runs.read import read_run
from tests.predict import recorded
from tests.report.material import (
    HOSTILE,
    comparison,
    drawn,
    hostile,
    personal,
    run,
    sample,
    two_pairs,
)
from tests.report.test_drawings import analysis_without_gpu

PAGES: dict[str, Callable[[], str]] = {
    "eager": lambda: render_analysis_html(sample("eager")),
    "graph": lambda: render_analysis_html(sample("graph")),
    "hostile": lambda: render_analysis_html(hostile()),
    "personal": lambda: render_analysis_html(personal()),
    "no gpu": lambda: render_analysis_html(analysis_without_gpu()),
    "one step": lambda: render_analysis_html(drawn(steps=1)),
    "many steps": lambda: render_analysis_html(drawn(steps=200, kernels=2)),
    "run": lambda: render_run_html(run()),
    "several": lambda: render_analyses_html([sample("eager"), hostile()]),
    "comparison": lambda: render_comparison_html(comparison()),
    "two pairs": lambda: render_comparison_html(two_pairs()),
}


class Page(HTMLParser):
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
        elif tag == "":
            self.words.append(data)

    @property
    def text(self) -> str:
        """The words on the page with single spaces."""
        return " ".join(" ".join(self.words).split())


@pytest.fixture(params=PAGES, scope="module")
def page(request: pytest.FixtureRequest) -> Page:
    """Each kind of page, parsed."""
    return Page(PAGES[request.param]())


def test_the_policy_names_exactly_the_scripts_and_styles(page: Page) -> None:
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


def test_nothing_is_fetched_and_nothing_is_inline(page: Page) -> None:
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


def test_ids_are_unique_and_links_lead_somewhere(page: Page) -> None:
    ids = [found["id"] for _, found in page.elements if "id" in found]
    assert len(ids) == len(set(ids))
    for tag, found in page.elements:
        target = found.get("href") or ""
        if tag == "a" and target.startswith("#"):
            assert target[1:] in ids
        for name in ("aria-labelledby", "for"):
            if name in found:
                assert found[name] in ids


def test_pages_have_one_title_and_ordered_headings(page: Page) -> None:
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("name", PAGES)
def test_the_same_input_gives_the_same_bytes(name: str) -> None:
    assert PAGES[name]() == PAGES[name]()


def test_recorded_samples_stay_small() -> None:
    assert len(render_analysis_html(sample("eager"))) < 500_000
    assert len(render_analysis_html(sample("graph"))) < 500_000


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_every_headline_number_is_in_the_text(mode: str) -> None:
    analysis = sample(mode)
    head = analysis.headline
    text = Page(render_analysis_html(analysis)).text
    assert " ".join(analysis.sentence.split()) in text
    for name, (word, _) in STEP_FIGURES.items():
        spread = head.steps[name]
        if spread.median is None or (name in ("copies", "memsets") and not spread.p95):
            continue
        assert word in text
        for value in (spread.median, spread.p5, spread.p95):
            unit = units.time_unit(spread.median)
            shown = units.time_value(value, unit) if name.endswith("_ns") else units.count(value)
            assert " ".join(shown.split()) in text
    for finding in analysis.findings:
        assert finding.id in text
        assert finding.title in text
    for row in analysis.kernels.rows[:20]:
        assert " ".join(units.time_value(row.total_ns_per_token, "µs").split()) in text


def test_a_withheld_share_of_the_roofline_says_why() -> None:
    """The recorded loop has a split-K reducer, whose op's bytes are read by another kernel."""
    text = render_analysis_html(sample("eager"))
    assert "Of roofline withheld for cublasLt::splitKreduce_kernel: adds up" in html.unescape(text)
    assert all((row.roofline_share or 0) <= 1.05 for row in sample("eager").kernels.rows)


def test_the_embedded_data_is_the_analysis() -> None:
    analysis = sample("eager")
    data = json.loads(Page(render_analysis_html(analysis)).data["summary"])
    assert data["per_token"] == json.loads(json.dumps(analysis.summary["per_token"]))
    assert data["schema"] == "gaptrace.analysis/1"


def test_hostile_names_stay_text() -> None:
    text = render_analysis_html(hostile())
    page = Page(text)
    assert len(page.scripts) == 3
    assert set(page.data) == {"timelines", "summary"}
    assert not any(tag == "img" for tag, _ in page.elements)
    assert "</script><img" not in text
    assert "\x00" not in text
    assert "\u202e" not in text
    assert "[U+202E]" in text
    assert html.escape(HOSTILE[0], quote=False) in text
    text.encode("utf-8")
    assert "characters left out" in page.text
    assert len(text) < 500_000


def test_a_long_command_line_is_cut_and_said() -> None:
    text = Page(render_analysis_html(personal())).text
    assert "hunter2" in text
    assert "characters left out" in text
    assert "x" * 1_000 not in text


def test_redaction_leaves_nothing_personal() -> None:
    text = render_analysis_html(personal(), Privacy.REDACTED)
    for secret in ("jane", "hunter2", "secret", "abc123", "CUDA_VISIBLE_DEVICES", "/home"):
        assert secret not in text
    assert "left out (--redact)" in text


def test_open_pages_say_what_they_hold() -> None:
    text = Page(render_analysis_html(personal())).text
    for fact in (
        "janes-machine",
        "/home/jane/secret/script.py",
        "CUDA_VISIBLE_DEVICES=0",
        "abc123",
    ):
        assert fact in text


def test_over_the_cap_timelines_get_coarser_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    fine = render_analysis_html(sample("eager"))
    monkeypatch.setattr(report_html, "HARD_CAP", len(fine) - 1)
    coarse = render_analysis_html(sample("eager"))
    assert len(coarse) < len(fine)
    assert "Timelines are coarser than recorded" in coarse


def test_broken_states_say_what_to_do() -> None:
    nothing = Page(render_analysis_html(analysis_without_gpu())).text
    assert "No kernel, copy or memset is in this trace" in nothing
    assert "ProfilerActivity.CUDA" in nothing
    assert "no complete step" in Page(render_analysis_html(drawn(steps=1))).text


def test_evidence_leads_to_a_view_that_shows_it() -> None:
    page = Page(render_analysis_html(sample("eager")))
    shown = json.loads(page.data["timelines"])["analyses"][0]["views"]
    by_id = {view["id"]: view["data"] for view in shown}
    jumps = [found for tag, found in page.elements if tag == "a" and "data-view" in found]
    assert jumps
    for jump in jumps:
        data = by_id[jump["data-view"]]
        assert data["start_ns"] <= int(jump["data-from"] or 0)
        assert int(jump["data-to"] or 0) <= data["start_ns"] + data["span_ns"]


def test_a_comparison_shows_every_metric_and_an_exact_bridge() -> None:
    found = comparison()
    text = Page(render_comparison_html(found)).text
    (pair,) = found.pairs
    for row in pair.metrics:
        if row.baseline.value is not None:
            assert row.title in text
            assert f"{row.arrow} {row.words}".strip() in text
    assert pair.bridge is not None
    total = 0
    for part in pair.bridge.parts:
        assert part.title in text
        assert str(part.delta_ns) in text
        total += part.delta_ns
    assert sum(pair.bridge.ends[:1]) + total == pair.bridge.ends[1]


def test_a_run_shows_its_modes_and_why_one_is_missing() -> None:
    text = Page(render_run_html(run())).text
    for mode in ("eager", "compiled", "graph"):
        analysis = run().representative(mode)
        assert analysis is not None
        assert " ".join(analysis.sentence.split()) in text
    assert "step.pos moved between steps" in text


def test_predicted_modes_stand_beside_the_measured_one() -> None:
    analysis = sample("eager")
    cell = analysis.prediction.square["graph"]
    assert cell.known == "predicted"
    assert cell.range_ns is not None
    half = 50 * (cell.range_ns[1] - cell.range_ns[0]) / (cell.step_ns or 1)
    html_text = render_analysis_html(analysis)
    text = Page(html_text).text
    assert "a step, measured" in text
    said = f"{units.time(cell.step_ns)} a step, predicted ±{units.digits(half, 1)} %"
    assert " ".join(said.split()) in text
    known = sum(c.known == "predicted" for c in analysis.prediction.square.values())
    assert html_text.count('class="predicted"') == known
    assert html_text.count('class="range"') == known


def test_a_run_of_one_mode_shows_what_the_others_would_give(tmp_path: Path) -> None:
    folder = recorded.eager_run(tmp_path, "llama4")
    (folder / "eager/1/prediction.json").write_text(json.dumps(recorded.answer("llama4")))
    found = read_run(str(folder), Options(), use_cache=False)
    square = predict_run(found).square
    modes = ("graph", "compiled", "compiled-graph")
    html_text = render_report("run.html", found)
    text = Page(html_text).text
    assert html_text.count('class="predicted"') == len(modes)
    for mode in modes:
        assert " ".join(f"{units.digits(square[mode].tokens_per_s)} tok/s".split()) in text
    markdown = render_report("run.md", found)
    for mode in modes:
        assert f"{units.time(square[mode].step_ns)}, predicted ±" in markdown
