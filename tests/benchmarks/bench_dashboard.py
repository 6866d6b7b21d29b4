"""How quick the dashboard is in a real browser, and whether it keeps its memory: run it by hand.

    PYTHONPATH=.:dashboards python -m tests.benchmarks.bench_dashboard [--navigations 1000]

Prints one line a figure with its limit, and exits with 1 where one is missed. The machine should
be quiet: the limits are those of issue 8 on two cores with software drawing.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.benchmarks.dashboard_memory import memory_lines
from tests.browser.conftest import ARGUMENTS, CHROMIUM
from tests.browser.dashboards import Served, served
from tests.builders import events_json, kernel, launch, mark, op
from tests.dashboards.folders import BARE

KERNELS, OPS_EACH, STEPS = 5_000, 8, 3
RUNS = 50
Line = tuple[str, float, float, str]


def big_trace(path: Path) -> None:
    """A trace whose steps hold 5,000 kernels and 40,000 host events each."""
    events, at, corr = [], 0, 1
    for step in range(STEPS):
        begin, parts = at, []
        for _ in range(KERNELS):
            for depth in range(OPS_EACH - 2):
                size = 5_000 - 400 * depth
                parts.append(op(f"aten::op{depth}", at=at + 200 * depth, dur=size))
            parts.append(launch(at=at + 2_000, dur=700, corr=corr))
            parts.append(kernel(f"kernel_{corr % 40}", at=at + 3_000, dur=2_500, corr=corr))
            corr += 1
            at += 5_500
        events += [mark(f"gaptrace.step#{step}", at=begin, dur=at - begin), *parts]
        at += 10_000
    path.write_bytes(events_json(*events))


def fetch(url: str) -> tuple[float, bytes]:
    """Milliseconds of one answer, and the answer."""
    began = time.perf_counter()
    with urllib.request.urlopen(url) as answer:
        body = answer.read()
    return (time.perf_counter() - began) * 1e3, body


def server_lines(running: Served, big: str) -> list[Line]:
    """Answers from cache and whether many clients at once get the right ones."""
    ids = list(running.ids().values())[:RUNS]
    wanted = {id_: fetch(f"{running.url}/api/timeline?run={id_}")[1] for id_ in ids}
    times = [fetch(f"{running.url}/api/timeline?run={id_}")[0] for id_ in ids[-40:]]
    cold, body = fetch(f"{running.url}/api/timeline?run={big}&step=1")
    warm = statistics.median(
        fetch(f"{running.url}/api/timeline?run={big}&step=1")[0] for _ in range(9)
    )
    wrong = sum(fetch(f"{running.url}/api/timeline?run={i}")[1] != wanted[i] for i in ids)
    with ThreadPoolExecutor(8) as clients:
        answers = list(
            clients.map(lambda i: (i, fetch(f"{running.url}/api/timeline?run={i}")[1]), ids * 4)
        )
    wrong += sum(body_ != wanted[i] for i, body_ in answers)
    return [
        ("window of a small step from cache, median", statistics.median(times), 100, "ms"),
        ("window of the big step, first time", cold, 500, "ms"),
        ("window of the big step from cache, median", warm, 100, "ms"),
        ("payload of the big step", len(body) / 1e6, 2.0, "MB"),
        ("wrong answers to 50 sequential and 8 parallel clients", wrong, 0, ""),
    ]


SEEN = """
  const watcher = new MutationObserver(() => {
    if (document.querySelector('#runs-grid .ag-row .ag-cell a')) {
      watcher.disconnect();
      const next = act => requestAnimationFrame(() => requestAnimationFrame(act));
      next(() => { window.seen = performance.now(); });
    }
  });
  watcher.observe(document, {childList: true, subtree: true});
"""
# Sixty views that zoom into the middle of the step, then sixty that move along it at a width where
# the most blocks are wide enough to be drawn one by one.
VIEWS = """
  const view = gaptrace.pages.find(p => p.current).current();
  view.fit();
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  const [from, to] = view.view(), span = to - from, middle = (from + to) / 2, views = [];
  for (let i = 0; i < 60; i++) {
    const half = span / 2 * Math.pow(.93, i), at = middle + (i % 7 - 3) * span * .002;
    views.push([at - half, at + half]);
  }
  for (let i = 0; i < 60; i++) {
    const at = from + span * (.1 + .8 * i / 60);
    views.push([at, at + span / 10]);
  }
"""
FRAMES = f"""async () => {{{VIEWS}
  const times = [];
  for (const [start, end] of views) {{
    const began = performance.now();
    view.setView(start, end);
    await new Promise(done => requestAnimationFrame(done));
    await new Promise(done => setTimeout(done, 0));
    times.push(performance.now() - began);
  }}
  return times;
}}"""
DRAW = f"""async () => {{{VIEWS}
  const real = window.requestAnimationFrame, times = [];
  let paint = null;
  window.requestAnimationFrame = act => {{ paint = act; return 1; }};
  for (const [start, end] of views) {{
    const began = performance.now();
    view.setView(start, end);
    if (paint) {{ paint(began); paint = null; }}
    times.push(performance.now() - began);
  }}
  window.requestAnimationFrame = real;
  return times;
}}"""
OPEN = """async () => {
  const canvas = document.getElementById('timeline-canvas'), was = canvas.dataset.ready;
  const began = performance.now();
  document.getElementById('step-next').click();
  while (canvas.dataset.ready === was) { await new Promise(done => setTimeout(done, 2)); }
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  return performance.now() - began;
}"""


def first_page_lines(page: Any, running: Served) -> list[Line]:
    """The list of runs in a browser that knows the dashboard, and in one that has never seen it."""

    def seen(where: Any) -> float:
        where.goto(running.url + "/")
        # Playwright looks for selectors at growing intervals, up to half a second: the page itself
        # says when the rows were painted, counted from the start of the navigation.
        while not where.evaluate("window.seen || 0"):
            where.wait_for_timeout(20)
        return float(where.evaluate("window.seen"))

    def fresh() -> float:
        context = page.context.browser.new_context(viewport={"width": 1440, "height": 900})
        other = context.new_page()
        other.add_init_script(SEEN)
        taken = seen(other)
        context.close()
        return taken

    page.add_init_script(SEEN)
    seen(page)
    known, new = [], []
    for _ in range(5):
        page.goto("about:blank")
        known.append(seen(page))
        new.append(fresh())
    what = f"first page of {RUNS} runs"
    return [
        (f"{what}, median of 5", statistics.median(known), 1_000, "ms"),
        (f"{what}, the slowest of 5", max(known), 1_000, "ms"),
        (
            f"{what}, nothing in the browser's cache, median of 5",
            statistics.median(new),
            1_000,
            "ms",
        ),
    ]


def browser_lines(page: Any, running: Served, big: str) -> list[Line]:
    """First page, opening a step, and frames while zooming."""
    lines = first_page_lines(page, running)
    page.goto(f"{running.url}/run?run={big}&step=0")
    page.wait_for_selector("#timeline-canvas[data-ready]")
    page.wait_for_timeout(1_000)
    lines.append(("opening a step of 5,000 kernels", page.evaluate(OPEN), 500, "ms"))
    page.evaluate(DRAW)
    # The first pass also compiles the script; what one sees while zooming is the second.
    drawn, frames = page.evaluate(DRAW), page.evaluate(FRAMES)
    lines.append(("drawing the whole step, the slowest frame", max(drawn[:3]), 100, "ms"))
    for what, times in (("zoom", slice(0, 60)), ("pan", slice(60, 120))):
        for kind, found in (("drawing one frame", drawn), ("frame to frame", frames)):
            some = sorted(found[times])
            lines.append((f"{what}, {kind}, median", statistics.median(some), 33, "ms"))
            lines.append((f"{what}, {kind}, p95", some[int(len(some) * 0.95)], 33, "ms"))
    return lines


def say(lines: list[Line]) -> list[Line]:
    """Print each figure with its limit."""
    for what, value, limit, unit in lines:
        sign = "ok  " if value <= limit else "MISS"
        print(f"{sign} {what}: {value:.1f} {unit} (limit {limit:g} {unit})", flush=True)
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything and print one line a figure."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser()
    parser.add_argument("--navigations", type=int, default=0)
    chosen = parser.parse_args(arguments)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        for place in range(RUNS - 1):
            sample = BARE[place % 3]
            shutil.copyfile(sample, Path(folder) / f"run{place:02d}.json.gz")
        big_trace(Path(folder) / "big.json")
        with served([folder]) as running, sync_playwright() as play:
            big = running.ids()["big"]
            browser = play.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            lines = say(server_lines(running, big)) + say(browser_lines(page, running, big))
            browser.close()
        if chosen.navigations:
            lines += say(memory_lines(folder, chosen.navigations))
    print(json.dumps({what: round(value, 2) for what, value, _, _ in lines}))
    return 0 if all(value <= limit for _, value, limit, _ in lines) else 1


if __name__ == "__main__":
    assert threading.current_thread() is threading.main_thread()
    sys.exit(main())
