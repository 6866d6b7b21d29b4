"""The HTML report in a real browser: offline, with and without scripts, by mouse and by keys."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gaptrace import units
from gaptrace.document.blocks import Document
from gaptrace.render import formats
from gaptrace.render.drawing.looks import canvas_looks
from gaptrace.render.formats import Style
from tests.browser.conftest import SHOTS
from tests.render.material import (
    by_hand,
    doc,
    drawn,
    hostile,
    pair_doc,
    run_doc,
    sample,
    two_pairs,
    without_gpu,
)

if TYPE_CHECKING:
    from tests.browser.conftest import Watched

    Opened = Callable[..., Watched]


# Pictures are for looking at: all of them where somebody asked, else one as a check.
PICTURED = ("eager", "graph", "run", "comparison") if os.environ.get(SHOTS) else ("eager",)


@cache
def html_of(name: str) -> str:
    """One of the pages, rendered once."""
    return formats.get("html").render(MAKERS[name](), Style())


MAKERS: dict[str, Callable[[], Document]] = {
    "by-hand": by_hand,
    "eager": lambda: doc(sample("eager")),
    "graph": lambda: doc(sample("graph")),
    "hostile": lambda: doc(hostile()),
    "nothing": lambda: doc(without_gpu()),
    "one-step": lambda: doc(drawn(steps=1)),
    "many-steps": lambda: doc(drawn(steps=200, kernels=2)),
    "run": run_doc,
    "comparison": pair_doc,
    "two-pairs": two_pairs,
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("scripts", [True, False], ids=["js", "nojs"])
def test_no_request_and_no_complaint(opened: Opened, name: str, scripts: bool) -> None:
    seen = opened(html_of(name), java_script_enabled=scripts)
    seen.page.wait_for_timeout(200)
    assert seen.outside == []
    assert seen.complaints == []
    if scripts:
        assert seen.page.evaluate("document.documentElement.dataset.ready") == "yes"


@pytest.mark.parametrize("name", MAKERS)
def test_the_page_never_scrolls_sideways(opened: Opened, name: str) -> None:
    seen = opened(html_of(name))
    for width in (1440, 900, 480):
        seen.page.set_viewport_size({"width": width, "height": 900})
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width


def test_every_number_is_there_without_scripts(opened: Opened) -> None:
    analysis = sample("eager")
    seen = opened(html_of("eager"), java_script_enabled=False)
    # Folded parts count: whoever reads without scripts can open them.
    text = " ".join(seen.page.locator("body").text_content().split())
    assert " ".join(analysis.sentence.split()) in text.replace("\u202f", " ")
    for value in (analysis.result.steps.median.busy_ns, analysis.result.steps.p95.period_ns):
        assert value is not None
        assert units.time_value(value, units.time_unit(value)) in text
    assert seen.page.locator(".static svg.lanes").is_visible()
    assert seen.page.locator("table.data tbody tr").count() > 50
    # Nothing that only scripts could make work is shown.
    assert seen.page.locator("button:visible").count() == 0
    assert seen.page.locator("input[type=search]").count() == 0


def test_gaps_show_their_arrow_on_focus_without_scripts(opened: Opened) -> None:
    seen = opened(html_of("eager"), java_script_enabled=False)
    gap = seen.page.locator(".static .gap[tabindex='0']").first
    arrow = gap.locator(".arrow")
    assert not arrow.is_visible()
    gap.focus()
    assert arrow.evaluate("e => getComputedStyle(e).display") == "inline"
    assert "idle (" in (gap.get_attribute("aria-label") or "")


def test_hostile_names_run_nothing(opened: Opened) -> None:
    seen = opened(html_of("hostile"))
    assert seen.page.evaluate("window.alerted === undefined && document.images.length === 0")
    assert seen.page.evaluate("document.scripts.length") == 7  # five scripts, two data blocks
    assert "onerror=alert(1)" in seen.page.locator("h2, body").first.evaluate(
        "() => document.body.textContent"
    )


def test_the_theme_follows_the_system_then_the_choice(opened: Opened) -> None:
    seen = opened(html_of("graph"), color_scheme="dark")
    page = seen.page
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.keyboard.press("t")
    light = page.evaluate(background)
    assert (dark, light) == ("rgb(20, 24, 27)", "rgb(255, 255, 255)")
    page.reload()
    assert page.evaluate(background) == light
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert seen.complaints == []


def test_paper_is_light_and_shows_everything(opened: Opened) -> None:
    seen = opened(html_of("eager"), color_scheme="dark")
    page = seen.page
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator(".static svg.lanes").is_visible()
    assert not page.locator("canvas").first.is_visible()
    assert not page.locator("nav.parts").is_visible()
    tall = page.locator("#kernels .tablebox .frame").first
    assert tall.evaluate("e => e.scrollHeight <= e.clientHeight + 1")


def test_evidence_leads_to_its_place_and_back(opened: Opened) -> None:
    seen = opened(html_of("eager"))
    page = seen.page
    link = page.locator(".findings a[data-view]").first
    begin, end = (int(link.get_attribute(f"data-{n}") or 0) for n in ("from", "to"))
    link.click()
    page.wait_for_timeout(300)
    held = re.search(r"#v=([^&]+)&t=(-?\d+)-(-?\d+)$", page.url)
    assert held
    assert int(held[2]) <= begin
    assert end <= int(held[3])
    own_clock = sample("eager").trace.origin_ns + begin - (end - begin)
    assert f"visStart={own_clock}&" in page.locator(".tl-told").inner_text()
    # The address alone brings the view back.
    again = opened(html_of("eager"), place=page.url[page.url.index("#") :])
    again.page.wait_for_timeout(200)
    again.page.keyboard.press("t")
    assert again.page.evaluate("document.activeElement.tagName") == "BODY"
    assert again.page.locator(".canvas").first.evaluate(
        "e => { const r = e.getBoundingClientRect(); return r.top < innerHeight && r.bottom > 0 }"
    )


def test_the_timeline_by_keys_alone(opened: Opened) -> None:
    seen = opened(html_of("eager"))
    page = seen.page
    page.keyboard.press("]")
    told = page.locator(".tl-told")
    first = told.inner_text()
    assert re.match(r"gap \d+: ", first)
    page.keyboard.press("]")
    assert told.inner_text() != first
    page.keyboard.press("[")
    assert told.inner_text() == first

    def span() -> int:
        page.wait_for_timeout(260)
        low, high = re.search(r"t=(-?\d+)-(-?\d+)$", page.url).groups()  # type: ignore[union-attr]
        return int(high) - int(low)

    whole = span()
    page.keyboard.press("w")
    near = span()
    assert near < whole
    page.keyboard.press("d")
    assert span() == pytest.approx(near, abs=2)
    page.keyboard.press("s")
    assert span() > near
    page.keyboard.press("0")
    fitted = span()
    assert fitted >= whole * 0.98
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert told.inner_text() != first
    page.keyboard.press("Escape")
    assert "Nothing selected" in told.inner_text()
    assert seen.complaints == []


def test_the_timeline_by_mouse(opened: Opened) -> None:
    seen = opened(html_of("eager"))
    page = seen.page
    canvas = page.locator("canvas.tl-canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box
    before = page.evaluate("scrollY")
    page.mouse.move(box["x"] + 600, box["y"] + 60)
    page.mouse.wheel(0, -400)
    page.wait_for_timeout(200)
    # Without focus the wheel belongs to the page.
    assert page.evaluate("scrollY") != before
    assert "#v=" not in page.url
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box
    page.mouse.click(box["x"] + 700, box["y"] + 75)
    page.mouse.wheel(0, -600)
    page.wait_for_timeout(400)
    low, high = re.search(r"t=(-?\d+)-(-?\d+)$", page.url).groups()  # type: ignore[union-attr]
    page.mouse.move(box["x"] + 700, box["y"] + 75)
    page.mouse.down()
    page.mouse.move(box["x"] + 500, box["y"] + 75, steps=4)
    page.mouse.up()
    page.wait_for_timeout(400)
    moved = re.search(r"t=(-?\d+)-(-?\d+)$", page.url)
    assert moved
    assert int(moved[1]) > int(low)
    assert int(moved[2]) - int(moved[1]) == pytest.approx(int(high) - int(low), abs=3)


def test_search_counts_and_steps_through(opened: Opened) -> None:
    seen = opened(html_of("eager"))
    page = seen.page
    page.keyboard.press("/")
    page.keyboard.type("aten::mm")
    hits = page.locator(".tl-hits")
    count = int(hits.inner_text().split()[0])
    assert count > 0
    page.keyboard.press("Enter")
    assert hits.inner_text() == f"1 of {count}"
    assert "aten::mm" in page.locator(".tl-told").inner_text()
    page.keyboard.press("Shift+Enter")
    assert hits.inner_text() == f"{count} of {count}"


def test_tables_sort_filter_and_copy(opened: Opened) -> None:
    seen = opened(html_of("eager"), permissions=["clipboard-read", "clipboard-write"])
    page = seen.page
    table = page.locator("#kernels .tablebox table.data").first
    column = [th.strip() for th in table.locator("thead th").all_inner_texts()]
    at = next(i for i, title in enumerate(column) if title.startswith("median"))

    def values() -> list[float]:
        cells = table.locator(f"tbody tr td:nth-child({at + 1})")
        return [float(cell) for cell in cells.evaluate_all("c => c.map(e => e.dataset.v)")]

    button = table.locator("thead th").nth(at).locator("button")
    button.click()
    assert values() == sorted(values(), reverse=True)
    button.press("Enter")
    assert values() == sorted(values())
    assert table.locator("thead th").nth(at).get_attribute("aria-sort") == "ascending"
    rows = table.locator("tbody tr").count()
    page.locator("#kernels .tablebox input[type=search]").first.fill("nvjet")
    shown = table.locator("tbody tr:visible").count()
    assert 0 < shown < rows
    assert f"{shown} of {rows}" in page.locator("#kernels .tablebox .tools").first.inner_text()
    page.locator("#kernels .tablebox .tools button").first.click()
    copied = page.evaluate("navigator.clipboard.readText()").strip().splitlines()
    assert len(copied) == shown + 1
    assert copied[0].startswith("name")


def test_findings_by_keys(opened: Opened) -> None:
    seen = opened(html_of("eager"))
    page = seen.page
    count = page.locator(".findings > li").count()
    assert count > 1
    focused = "document.activeElement.closest('details').id"
    page.keyboard.press("j")
    first = page.evaluate(focused)
    page.keyboard.press("j")
    second = page.evaluate(focused)
    assert first != second
    assert page.evaluate("document.activeElement.closest('details').open")
    page.keyboard.press("k")
    assert page.evaluate(focused) == first


def test_the_key_map_opens_and_closes(opened: Opened) -> None:
    seen = opened(html_of("eager"))
    page = seen.page
    page.keyboard.press("?")
    assert page.locator("dialog").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("dialog").is_visible()


def test_tab_reaches_the_controls_and_shows_where_it_is(opened: Opened) -> None:
    seen = opened(html_of("eager"))
    page = seen.page
    reached = set()
    for _ in range(160):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "(() => { const e = document.activeElement; return e.className + ' ' + e.tagName"
                " + ' ' + (parseFloat(getComputedStyle(e).outlineWidth) > 0) })()"
            )
        )
    assert not any(entry.endswith("false") for entry in reached if "BODY" not in entry)
    for wanted in ("skip A", "tl-canvas CANVAS", "frame DIV", "def A", "sort BUTTON"):
        assert any(entry.startswith(wanted) for entry in reached), wanted


def test_the_accessible_tree_names_the_parts(opened: Opened) -> None:
    seen = opened(html_of("eager"))
    tree = seen.page.locator("body").aria_snapshot()
    for part in ("Where a token's time goes", "Findings", "Timeline", "Kernels", "Glossary"):
        assert f'heading "{part}"' in tree
    assert 'navigation "parts of this report"' in tree
    assert re.search(r'application "step \d+', tree)
    unnamed = seen.page.evaluate(
        "[...document.querySelectorAll('button,input,a,[role=img],[role=region]')].filter(e =>"
        " !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length)).length"
    )
    assert unnamed == 0


def test_a_click_on_a_step_opens_it(opened: Opened) -> None:
    seen = opened(html_of("eager"))
    page = seen.page
    names = page.locator(".views button")
    assert names.count() > 1
    wanted = names.nth(1).get_attribute("data-view")
    page.locator(f".strip-time [data-step='{wanted.rpartition('/step')[2]}']").click(force=True)
    page.wait_for_timeout(100)
    assert names.nth(1).get_attribute("aria-pressed") == "true"
    said = page.locator("#timeline .said").inner_text()
    assert said.lower().startswith(names.nth(1).inner_text().lower().split(" ·")[0])


@pytest.mark.parametrize("scripts", [True, False], ids=["js", "nojs"])
def test_modes_are_shown_one_at_a_time_and_all_on_paper(opened: Opened, scripts: bool) -> None:
    seen = opened(html_of("run"), java_script_enabled=scripts)
    page = seen.page
    parts, count = page.locator(".tab"), page.locator(".tab").count()
    assert count == 4

    def visible() -> list[int]:
        return [i for i in range(count) if parts.nth(i).is_visible()]

    assert visible() == [0]
    page.locator(".tabs > label").nth(2).click()
    assert visible() == [2]
    page.locator("nav.parts a", has_text=re.compile("^compiled$")).click()
    # Without scripts the link shows its mode beside the one that was picked.
    assert visible() == ([1] if scripts else [1, 2])
    page.emulate_media(media="print")
    assert visible() == list(range(count))


def test_one_brush_moves_both_timelines(opened: Opened) -> None:
    seen = opened(html_of("comparison"))
    page = seen.page
    page.evaluate(
        "document.addEventListener('gaptrace:view', e => { window.seen = window.seen || [];"
        " window.seen.push([e.target.parentElement.dataset.timeline, e.detail]) })"
    )
    page.locator("canvas.tl-canvas").first.focus()
    page.keyboard.press("w")
    page.keyboard.press("w")
    found = page.evaluate("window.seen")
    last = dict(found)
    assert {name.rsplit("-", 1)[-1] for name in last} == {"baseline", "candidate"}
    spans = {round(detail["end_ns"] - detail["start_ns"]) for detail in last.values()}
    assert len(spans) == 1
    assert {detail["by"] for detail in last.values()} == {"user", "code"}


def test_the_figures_can_be_taken_along(opened: Opened) -> None:
    seen = opened(html_of("eager"))
    with seen.page.expect_download() as waiting:
        seen.page.get_by_role("button", name="Download JSON").click()
    data = json.loads(Path(waiting.value.path()).read_text("utf-8"))
    assert data["per_token"] == sample("eager").summary["per_token"]
    assert seen.outside == []


def test_a_report_opens_fast(opened: Opened) -> None:
    seen = opened(html_of("eager"))
    spent = seen.page.evaluate(
        "(() => { const t = performance.getEntriesByType('navigation')[0];"
        " return t.domContentLoadedEventEnd })()"
    )
    # One second is the promise on a quiet machine; a busy one gets some slack.
    assert spent < 3_000


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PICTURED)
def test_pictures(opened: Opened, pictures: Path, name: str, scheme: str) -> None:
    for width in (1440, 900):
        seen = opened(html_of(name), color_scheme=scheme, viewport={"width": width, "height": 900})
        target = pictures / f"report-{name}-{scheme}-{width}.png"
        seen.page.screenshot(path=str(target), full_page=True)
        assert target.stat().st_size > 20_000
    paper = pictures / f"report-{name}-{scheme}.pdf"
    seen.page.pdf(path=str(paper), format="A4", print_background=True)
    assert paper.stat().st_size > 20_000


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_svg_files_follow_the_system(opened: Opened, pictures: Path, scheme: str) -> None:
    colours = set()
    for name in ("eager", "comparison"):
        text = formats.get("svg").render(MAKERS[name](), Style())
        seen = opened(text, name=f"{name}.svg", color_scheme=scheme)
        colours.add(seen.page.evaluate("getComputedStyle(document.querySelector('.page')).fill"))
        seen.page.screenshot(path=str(pictures / f"{name}-{scheme}.png"))
        assert seen.outside == []
        assert seen.complaints == []
    assert colours == {"rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 24, 27)"}


# 20,000 kernels of 500 ns each, 500 ns apart: some seven of both in every pixel.
DENSE = """([looks, n, cause]) => {
  const every = value => new Array(n).fill(value), no = {start: [], dur: [], name: [], graph: []};
  const data = {title: 'dense', names: ['k'], start_ns: 0, span_ns: n * 1000, step: null, steps: no,
    gpu: [{label: 'stream 7', start: [0, ...every(1000).slice(1)], dur: every(500),
           name: every(0), class: every(0), call: every(-1), merged: every(1)}],
    gaps: {first: 0, start: [500, ...every(1000).slice(1)], dur: every(500), name: every(0),
           before: every(0), cause: every(cause), call: every(-1), drained: []},
    parts: {dur: every(500), cause: every(cause)}, calls: no, host: []};
  const place = document.createElement('div');
  document.body.prepend(place);
  const view = gaptraceTimeline(place, data, {looks, dark: () => false});
  const pixels = (lane, wide) => new Promise(done => requestAnimationFrame(() => {
    const canvas = place.querySelector('.tl-canvas'), c = canvas.getContext('2d');
    const at = Math.round(canvas.width / 2);
    done([...c.getImageData(at, lane, wide, 1).data]);
  }));
  return pixels(22 + 4 + 13, 40).then(busy => pixels(22 + 4 + 27 + 8 + 15, 40).then(gaps => {
    view.setView(data.span_ns / 2, data.span_ns / 2 + 20000);
    return pixels(22 + 4 + 13, 64).then(near => ({busy, gaps, near}));
  }));
}"""


def test_what_is_narrower_than_a_pixel_is_drawn_as_its_share_of_it(opened: Opened) -> None:
    seen = opened(html_of("eager"))
    looks = canvas_looks()
    # A cause that is drawn solid: of a patterned block only a part is ink.
    cause = next(
        i
        for i, look in enumerate(looks["causes"])
        if look["tile"] is None and look["light"] != "none"
    )
    drawn = seen.page.evaluate(DENSE, [looks, 20_000, cause])

    def pixel(data: list[int], place: int) -> tuple[int, ...]:
        return tuple(data[4 * place : 4 * place + 4])

    def rgb(look: dict[str, str]) -> tuple[int, ...]:
        return tuple(bytes.fromhex(look["light"].removeprefix("#")))

    for data, look in (
        (drawn["busy"], looks["classes"][0]),
        (drawn["gaps"], looks["causes"][cause]),
    ):
        for place in range(40):
            *colour, alpha = pixel(data, place)
            assert alpha == pytest.approx(127, abs=12), "half of each pixel is covered"
            # What is half transparent is held to within a few steps of its colour.
            assert colour == pytest.approx(rgb(look), abs=3)
    # Close up the same kernels are blocks with nothing between them.
    near = [pixel(drawn["near"], place)[3] for place in range(64)]
    assert max(near) == 255
    assert min(near) == 0
    # The browser's advice about reading back is for this test, not for the page.
    assert [text for text in seen.complaints if "getImageData" not in text] == []
