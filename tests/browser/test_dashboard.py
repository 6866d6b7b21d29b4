"""The dashboard in a real browser: the main path by mouse and by keyboard, and all pages."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("dash")
pytest.importorskip("playwright.sync_api")

from gaptrace.render.files import Report
from gaptrace_dashboards.routes import html_text
from tests.browser.conftest import Watched
from tests.browser.dashboards import Served, served
from tests.dashboards.folders import BARE, SAMPLES, add_prediction, make_run

WIDTHS = (1440, 900, 390)


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("runs")
    run = make_run(folder, repeats=2, failed="compiled-graph")
    add_prediction(run / "eager" / "1")
    with served([folder, *BARE]) as running:
        yield running


@pytest.fixture
def visit(browser: Any, dashboard: Served) -> Iterator[Any]:
    """Open a page of the dashboard; complaints and strangers fail the test when it ends."""
    contexts, watched = [], []

    def go(path: str = "/", **options: Any) -> Any:
        options.setdefault("viewport", {"width": 1440, "height": 900})
        context = browser.new_context(**options)
        contexts.append(context)
        own = Watched(context.new_page())
        watched.append(own)
        own.page.set_default_timeout(20_000)
        own.page.goto(dashboard.url + path)
        return own.page

    yield go
    for context in contexts:
        context.close()
    for own in watched:
        assert own.complaints == []
        assert {urlsplit(u).hostname for u in own.requests if u.startswith("http")} == {"127.0.0.1"}


def query(page: Any) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def until(page: Any, condition: str, limit_s: float = 20) -> None:
    """Wait for a condition in the page; playwright's own wait needs the `eval` that we forbid."""
    end = time.monotonic() + limit_s
    while not page.evaluate(condition):
        assert time.monotonic() < end, f"not in time: {condition}"
        page.wait_for_timeout(30)


def rows(page: Any) -> Any:
    page.wait_for_selector("#runs-grid .ag-row .ag-cell a")
    return page.locator("#runs-grid .ag-pinned-left-cols-container .ag-row")


def timeline(page: Any) -> None:
    page.wait_for_selector("#timeline-canvas[data-ready] canvas.tl-canvas")


def test_main_path_by_mouse(visit: Any, dashboard: Served) -> None:
    page = visit()
    rows(page)
    page.click("#runs-grid a:has-text('demo · eager')")
    timeline(page)
    assert "The GPU idles" in page.inner_text("#sentence")
    assert query(page)["run"] == [dashboard.ids()["demo · eager"]]

    page.click(".findings > li:first-child [data-from] >> nth=0")
    page.wait_for_selector("#gap-panel h3")
    assert "gap" in query(page)
    panel = page.inner_text("#gap-panel")
    assert "launched inside" in panel
    assert "launch call" in panel
    assert "Python stack" in panel

    page.click("nav >> text=Runs")
    rows(page)
    page.click("#runs-grid .ag-row:has-text('demo · eager') .ag-checkbox-input")
    page.click("#runs-grid .ag-row:has-text('demo · graph') .ag-checkbox-input")
    until(page, "new URLSearchParams(location.search).getAll('pick').length === 2")
    page.click("#compare-button")
    page.wait_for_selector(".canvas[data-ready] >> nth=1")
    assert "faster" in page.inner_text("#sentence")
    ids = dashboard.ids()
    assert query(page)["run"] == [ids["demo · eager"], ids["demo · graph"]]
    with page.expect_download() as coming:
        page.click("#download")
    assert "<title>" in Path(coming.value.path()).read_text("utf-8")[:4000]


def test_main_path_by_keyboard(visit: Any, dashboard: Served) -> None:
    page = visit()
    rows(page)
    press = page.keyboard.press
    press("j")
    press("x")
    press("j")
    press("x")
    until(page, "new URLSearchParams(location.search).getAll('pick').length === 2")
    press("c")
    page.wait_for_selector(".canvas[data-ready] >> nth=1")
    before = query(page)["run"]
    press("c")
    until(page, f"new URLSearchParams(location.search).get('run') === {before[1]!r}")
    assert query(page)["run"] == before[::-1]
    press("r")
    rows(page)
    press("j")
    press("Enter")
    timeline(page)
    press("j")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    press("Tab")
    while not page.evaluate("document.activeElement.hasAttribute('data-from')"):
        press("Tab")
    press("Enter")
    page.wait_for_selector("#gap-panel h3")
    first = query(page)["gap"]
    press("]")
    until(page, f"new URLSearchParams(location.search).get('gap') !== {first[0]!r}")
    press("n")
    until(page, "new URLSearchParams(location.search).get('step') !== null")
    press("w")
    until(page, "new URLSearchParams(location.search).get('t') !== null")
    press("?")
    page.wait_for_selector("#keys[open]")
    assert "previous and next gap" in page.inner_text("#keys")
    press("Escape")
    press("t")
    assert query(page)["theme"] == ["dark"]


def test_a_copied_link_restores_the_view_and_back_leads_back(visit: Any, dashboard: Served) -> None:
    run = dashboard.ids()["demo · eager"]
    page = visit(f"/run?run={run}&gap=300&tab=ops&theme=dark")
    timeline(page)
    page.wait_for_selector("#gap-panel h3:has-text('Gap 300')")
    page.locator("#tab").scroll_into_view_if_needed()
    page.wait_for_selector("#ops-grid .ag-center-cols-container .ag-row")
    page.fill("#ops-grid-filter", "embedding")
    few = "document.querySelectorAll('#ops-grid .ag-center-cols-container .ag-row').length"
    until(page, f"{few} > 0 && {few} < 4")
    assert query(page)["ops-grid-filter"] == ["embedding"]
    assert page.get_attribute("html", "data-theme") == "dark"
    assert page.get_attribute("#tab-ops", "aria-selected") == "true"
    step = page.get_attribute("#timeline-canvas", "data-ready")
    page.click("#step-next")
    until(page, f"document.getElementById('timeline-canvas').dataset.ready !== '{step}'")
    assert "gap" not in query(page)
    page.go_back()
    page.wait_for_selector("#gap-panel h3:has-text('Gap 300')")
    assert page.get_attribute("#timeline-canvas", "data-ready") == step
    page.go_forward()
    until(page, f"document.getElementById('timeline-canvas').dataset.ready !== '{step}'")
    page.focus("canvas.tl-canvas")
    page.keyboard.press("w")
    page.keyboard.press("w")
    until(page, "new URLSearchParams(location.search).get('t') !== null")
    start, end = map(int, query(page)["t"][0].split("-"))
    again = visit(page.url.removeprefix(dashboard.url))
    timeline(again)
    again.locator("#tab").scroll_into_view_if_needed()
    until(again, "document.querySelector('#ops-grid-filter')?.value === 'embedding'")
    until(again, f"{few} > 0 && {few} < 4")
    shown = again.evaluate("gaptrace.pages.find(p => p.current).current().view()")
    assert [round(value) for value in shown] == pytest.approx([start, end], abs=2)


def test_from_one_mode_of_a_run_to_another(visit: Any, dashboard: Served) -> None:
    ids = dashboard.ids()
    page = visit(f"/run?run={ids['demo · eager']}&gap=300")
    page.wait_for_selector("#gap-panel h3:has-text('Gap 300')")
    page.click("#run-modes a:text-is('graph')")
    until(page, f"new URLSearchParams(location.search).get('run') === '{ids['demo · graph']}'")
    page.wait_for_selector("#sentence:has-text('2000 tok/s')")
    timeline(page)
    until(page, "document.getElementById('gap-panel').children.length === 0")
    assert page.locator("#timeline-canvas canvas.tl-canvas").count() == 1
    page.keyboard.press("]")
    page.wait_for_selector("#gap-panel h3")
    page.go_back()
    page.wait_for_selector("#sentence:has-text('333 tok/s')")
    page.wait_for_selector("#gap-panel h3:has-text('Gap 300')")


def test_the_downloaded_report_is_the_one_of_the_command_line(
    visit: Any, dashboard: Served
) -> None:
    run = dashboard.ids()["demo · eager"]
    page = visit(f"/run?run={run}")
    timeline(page)
    with page.expect_download() as coming:
        page.click("#download")
    found = dashboard.library.recording(run)
    assert found is not None
    whole = dashboard.library.run(found)
    assert whole is not None
    assert Path(coming.value.path()).read_text("utf-8") == html_text(
        Report(whole.result, whole.analyses)
    )


def test_filter_and_sort_are_in_the_address(visit: Any, dashboard: Served) -> None:
    page = visit("/?q=graph&sort=-rate")
    rows(page)
    until(page, "document.querySelectorAll('#runs-grid .ag-row').length < 10")
    names = page.locator("#runs-grid .ag-cell a").all_inner_texts()
    assert names == ["demo · graph (×2)", "small_decoder_graph", "demo · compiled-graph"]
    page.fill("#runs-grid-filter", "eager")
    until(page, "new URLSearchParams(location.search).get('q') === 'eager'")
    until(page, "document.querySelectorAll('#runs-grid .ag-cell a').length === 2")
    page.click("#runs-grid .ag-header-cell:has-text('idle')")
    until(page, "/idle/.test(new URLSearchParams(location.search).get('sort') || '')")


# What ui.perfetto.dev does with a message: deaf until it has loaded, PONG to PING, one trace.
PERFETTO = """<!doctype html><title>stand-in</title><script>
setTimeout(() => window.addEventListener('message', function hear(message) {
  if (document.readyState !== 'complete' || message.source !== window.opener) { return; }
  window.heard = (window.heard || []).concat(message.data === 'PING' ? 'PING' : 'trace');
  if (message.data === 'PING') { message.source.postMessage('PONG', message.origin); return; }
  const {buffer, title, fileName} = message.data.perfetto;
  window.removeEventListener('message', hear);
  crypto.subtle.digest('SHA-256', buffer).then(sum => {
    const text = [...new Uint8Array(sum)].map(b => b.toString(16).padStart(2, '0')).join('');
    window.got = {sum: text, size: buffer.byteLength, title, fileName, origin: message.origin};
  });
}), 700);
</script>"""


def test_perfetto_gets_the_trace_from_the_tab_and_the_times_of_the_file(
    browser: Any, dashboard: Served
) -> None:
    sample = (SAMPLES / "small_decoder_eager.json.gz").read_bytes()
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    asked: list[tuple[str, str, Any]] = []
    context.on("request", lambda r: asked.append((r.method, r.url, r.post_data_buffer)))
    context.route(
        "https://ui.perfetto.dev/**",
        lambda route: route.fulfill(body=PERFETTO, content_type="text/html"),
    )
    own = Watched(context.new_page())
    own.page.goto(f"{dashboard.url}/run?run={dashboard.ids()['demo · eager']}&gap=300")
    own.page.wait_for_selector("#gap-panel .perfetto")
    with context.expect_page() as opening:
        own.page.click("#gap-panel .perfetto")
    other = opening.value
    until(other, "window.got")
    got = other.evaluate("window.got")
    assert got["sum"] == hashlib.sha256(sample).hexdigest()
    assert (got["size"], got["title"]) == (len(sample), "demo · eager")
    assert (got["fileName"], got["origin"]) == ("trace.json.gz", dashboard.url)
    assert other.evaluate("window.heard").count("trace") == 1

    # The gap in the file's own clock: from the end of one GPU op to the start of the next.
    held = parse_qs(urlsplit(other.url).fragment.removeprefix("!/?"))
    first, last = int(held["visStart"][0]), int(held["visEnd"][0])
    assert first < last
    length = (last - first) // 3
    events = json.loads(gzip.decompress(sample))["traceEvents"]
    ops = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    ends = {round((e["ts"] + e["dur"]) * 1000) for e in ops}
    starts = {round(e["ts"] * 1000) for e in ops}
    assert min(abs(end - (first + length)) for end in ends) <= 1
    assert min(abs(start - (last - length)) for start in starts) <= 1

    # To Perfetto's server goes the request for its page and nothing else.
    outside = [(m, urlsplit(u), b) for m, u, b in asked if not u.startswith(dashboard.url)]
    assert [(m, u.hostname, u.path, u.query, b) for m, u, b in outside] == [
        ("GET", "ui.perfetto.dev", "/", "", None)
    ]
    assert own.complaints == []
    context.close()


def test_a_trace_that_has_gone_closes_the_tab_that_was_opened_for_it(
    browser: Any, dashboard: Served
) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.route("https://ui.perfetto.dev/**", lambda route: route.fulfill(body=PERFETTO))
    # Answered once the tab is there: of one closed at birth playwright says nothing.
    held: list[Any] = []
    context.route("**/trace?*", lambda route: held.append(route))
    page = context.new_page()
    page.goto(f"{dashboard.url}/run?run={dashboard.ids()['demo · eager']}")
    timeline(page)
    with context.expect_page() as opening:
        page.click("#perfetto")
    opening.value.wait_for_load_state()
    held[0].fulfill(status=404, body="gone")
    page.wait_for_selector("#perfetto:has-text('the trace file has gone')")
    end = time.monotonic() + 20
    while not opening.value.is_closed():
        assert time.monotonic() < end
        page.wait_for_timeout(30)
    page.wait_for_selector("#perfetto:has-text('Open in Perfetto')")
    context.close()


def test_the_sort_of_every_table_is_in_the_address(visit: Any, dashboard: Served) -> None:
    run = dashboard.ids()["demo · eager"]
    page = visit(f"/run?run={run}")
    timeline(page)
    page.locator("#tab").scroll_into_view_if_needed()
    page.wait_for_selector("#kernels-grid .ag-center-cols-container .ag-row")
    before = column(page, "kernels-grid", "per_token")
    assert before != sorted(before, reverse=True)
    page.click("#kernels-grid .ag-header-cell[col-id='per_token']")
    until(page, "new URLSearchParams(location.search).get('kernels-grid-sort') === '-per_token'")
    falling = column(page, "kernels-grid", "per_token")
    assert falling == sorted(falling, reverse=True)
    page.click("#kernels-grid .ag-header-cell[col-id='per_token']")
    until(page, "new URLSearchParams(location.search).get('kernels-grid-sort') === 'per_token'")
    # A table of the report, too: the longest gaps of the step.
    page.click("#timeline details:has(#timeline-gaps) > summary")
    page.click("#timeline-gaps th >> nth=1 >> button")
    until(page, "[...new URLSearchParams(location.search).keys()].some(k => k.startsWith('by-'))")
    order = page.locator("#timeline-gaps tbody tr").all_text_contents()

    again = visit(page.url.removeprefix(dashboard.url))
    timeline(again)
    again.locator("#tab").scroll_into_view_if_needed()
    again.wait_for_selector("#kernels-grid .ag-header-cell[aria-sort='ascending']")
    rising = column(again, "kernels-grid", "per_token")
    assert rising == sorted(rising)
    assert again.locator("#timeline-gaps tbody tr").all_text_contents() == order
    plain = visit(f"/run?run={run}")
    timeline(plain)
    assert plain.locator("#timeline-gaps tbody tr").all_text_contents() != order


def column(page: Any, grid: str, field: str) -> list[float]:
    """The figures that a column shows, from the top."""
    cells = page.locator(f"#{grid} .ag-center-cols-container .ag-cell[col-id='{field}']")
    rows = sorted(
        cells.evaluate_all(
            "all => all.map(c => [+c.closest('.ag-row').getAttribute('row-index'), c.innerText])"
        )
    )
    return [float(text.replace(",", "")) for _, text in rows]


def test_a_given_step_is_in_the_address(visit: Any, dashboard: Served) -> None:
    page = visit("/run?run=" + dashboard.ids()["demo · eager"] + "&tab=ceilings")
    timeline(page)
    page.fill("#given", "2.1ms")
    page.press("#given", "Enter")
    until(page, "document.querySelector('#sentence')?.textContent.includes('2.10 ms per step')")
    assert query(page)["given"] == ["2.1ms"]
    until(page, "document.querySelector('#what-if-said')?.textContent.includes('2.10 ms')")
    page.reload()
    timeline(page)
    assert "(given)" in page.inner_text("#sentence")
    assert page.input_value("#given") == "2.1ms"
    page.click("#given-remove")
    until(page, "!document.querySelector('#sentence')?.textContent.includes('(given)')")
    assert "given" not in query(page)
    page.go_back()
    until(page, "document.querySelector('#sentence')?.textContent.includes('2.10 ms per step')")


def test_sliders_answer(visit: Any, dashboard: Served) -> None:
    page = visit(f"/run?run={dashboard.ids()['demo · eager']}&tab=ceilings")
    page.wait_for_selector("#what-if-host")
    page.locator("#what-if-host").evaluate(
        "e => { Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set"
        ".call(e, '2'); e.dispatchEvent(new Event('input', {bubbles: true}));"
        " e.dispatchEvent(new Event('change', {bubbles: true})); }"
    )
    page.wait_for_selector("#what-if-said:has-text('a host 2.0 times as fast')")
    page.click("#what-if-captured")
    page.wait_for_selector("#what-if-said:has-text('one graph')")


def test_numbers_lead_to_their_definitions(visit: Any, dashboard: Served) -> None:
    page = visit(f"/run?run={dashboard.ids()['demo · eager']}")
    timeline(page)
    page.click("#trust a.def >> nth=0")
    page.wait_for_selector("dl.glossary dt")
    assert urlsplit(page.url).path == "/glossary"
    assert page.evaluate("document.activeElement.id").startswith("def-")


def test_zooming_one_side_of_a_comparison_moves_the_other(visit: Any, dashboard: Served) -> None:
    ids = dashboard.ids()
    page = visit(f"/compare?run={ids['demo · eager']}&run={ids['demo · compiled']}")
    page.wait_for_selector(".canvas[data-ready] >> nth=1")
    page.focus(".canvas >> nth=0 >> canvas.tl-canvas")
    for _ in range(3):
        page.keyboard.press("w")
    shown = "(new URLSearchParams(location.search).get('t') || '0-9e9').split('-')"
    until(page, f"(([from, to]) => to - from < 3e6)({shown})")
    ticks = page.evaluate(
        "[...document.querySelectorAll('.canvas canvas.tl-canvas')].map(c => "
        "c.getContext('2d').getImageData(132, 0, c.width - 140, 18).data.join())"
    )
    assert ticks[0] == ticks[1]


PAGES = {
    "runs": "/",
    "run": "/run?run={eager}",
    "timeline": "/run?run={eager}&gap=300",
    "what-if": "/run?run={eager}&tab=ceilings",
    "fusion": "/run?run={eager}&tab=fusion",
    "compare": "/compare?run={eager}&run={compiled}&run={graph}",
    "glossary": "/glossary",
    "failed": "/run?run={failed}",
    "absent": "/run?run=nothing",
}


def address(name: str, dashboard: Served) -> str:
    ids = dashboard.ids()
    return PAGES[name].format(
        eager=ids["demo · eager"],
        compiled=ids["demo · compiled"],
        graph=ids["demo · graph"],
        failed=ids["demo · compiled-graph"],
    )


def shown(page: Any, name: str) -> None:
    """Wait for everything that a page shows."""
    page.wait_for_selector("#page h1")
    if name == "runs":
        rows(page)
        page.wait_for_selector("#ladder-part svg")
    if name in ("run", "timeline", "what-if", "fusion"):
        timeline(page)
        page.wait_for_selector("#tab > *")
        # AG Grid draws its columns once it is seen.
        page.locator("#tab").scroll_into_view_if_needed()
        if name in ("run", "timeline"):
            page.wait_for_selector("#tab .ag-header-cell >> nth=0")
        if name == "fusion":
            page.wait_for_selector("#tab .lead")
    if name == "compare":
        page.wait_for_selector(".canvas[data-ready] >> nth=1")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_every_page_at_both_widths(
    visit: Any, dashboard: Served, pictures: Path, name: str, scheme: str, width: int
) -> None:
    page = visit(
        address(name, dashboard),
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        reduced_motion="reduce",
    )
    shown(page, name)
    # What was put in last has been laid out and painted.
    page.evaluate("new Promise(d => requestAnimationFrame(() => requestAnimationFrame(d)))")
    wide = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1], "the page scrolls sideways"
    page.screenshot(path=pictures / f"dashboard-{name}-{scheme}-{width}.png", full_page=True)


AXE = os.environ.get("GAPTRACE_AXE", "")


@pytest.mark.skipif(not AXE, reason="GAPTRACE_AXE names axe.min.js (npm pack axe-core)")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_no_serious_fault(
    browser: Any, dashboard: Served, name: str, scheme: str
) -> None:
    context = browser.new_context(
        viewport={"width": 1440, "height": 900}, color_scheme=scheme, bypass_csp=True
    )
    page = context.new_page()
    page.goto(dashboard.url + address(name, dashboard))
    shown(page, name)
    page.add_script_tag(content=Path(AXE).read_text("utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    context.close()
    grave = [
        f"{fault['id']} ({fault['impact']}): {fault['nodes'][0]['html'][:200]}"
        for fault in found["violations"]
        if fault["impact"] in ("serious", "critical")
    ]
    assert grave == []


def test_a_new_run_appears_and_a_deleted_one_is_said(browser: Any, tmp_path: Path) -> None:
    first = tmp_path / "first.json.gz"
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    with served([tmp_path]) as running:
        own = Watched(context.new_page())
        page = own.page
        page.goto(running.url + "/")
        page.wait_for_selector("h1:has-text('No run here yet')")
        shutil.copyfile(SAMPLES / "small_decoder_eager.json.gz", first)
        page.wait_for_selector("#runs-grid a:has-text('first')")
        page.wait_for_selector("#ladder svg a")
        page.fill("#runs-grid-filter", "s")
        shutil.copyfile(SAMPLES / "small_decoder_graph.json.gz", tmp_path / "second.json.gz")
        page.wait_for_selector("#runs-grid a:has-text('second')")
        assert page.input_value("#runs-grid-filter") == "s"
        page.click("#runs-grid a:has-text('first')")
        timeline(page)
        assert page.title() == "first · gaptrace"
        first.unlink()
        page.wait_for_selector(".banner:has-text('The file has gone')")
        timeline(page)
        assert own.complaints == []
    context.close()
