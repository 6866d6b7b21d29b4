"""Whether the dashboard keeps its memory over many navigations; part of `bench_dashboard`.

No automation drives the browser here: DevTools keeps the body of every answer for as long as a
client listens to the network, as playwright does, which looks like a leak of a third of a megabyte
for every run that is opened. The page gets a script of the benchmark instead, which goes back and
forth by the page's own navigation, collects garbage and says how far it is.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flask import Response, request

from tests.browser.conftest import ARGUMENTS, CHROMIUM
from tests.browser.dashboards import served

Line = tuple[str, float, float, str]
RUNS, LIMIT_S = 8, 600
# Until here caches fill: the first turns are no growth.
WARM_TURNS = 40
FLAGS = ("--headless=new", "--js-flags=--expose-gc", "--enable-precise-memory-info")
SCRIPT = """
(async () => {
  const pause = ms => new Promise(done => setTimeout(done, ms));
  const until = async s => { while (!document.querySelector(s)) { await pause(10); } };
  const mark = async turn => {
    gc(); await pause(200); gc();
    await fetch(`/bench/mark?turn=${turn}&heap=${performance.memory.usedJSHeapSize}`);
  };
  const list = '#runs-grid .ag-row .ag-cell a';
  await until(list);
  const ids = [...document.querySelectorAll(list)]
    .map(link => new URL(link.href).searchParams.get('run')).slice(0, RUNS);
  for (let turn = 0; turn < TURNS; turn++) {
    if (turn === WARM) { await mark(turn); }
    gaptrace.go('/run?run=' + ids[turn % ids.length]);
    await until('#timeline-canvas[data-ready]');
    gaptrace.go('/');
    await until(list);
  }
  await mark(TURNS);
})();
"""


@dataclass
class Watch:
    """What the page has said so far, and the memory of everybody at those moments."""

    turns: int
    marks: dict[int, dict[str, float]] = field(default_factory=dict)
    done: threading.Event = field(default_factory=threading.Event)
    browser: int = 0

    def extend(self, server: Any) -> None:
        """Give a dashboard's first page the script, and the script somebody to tell."""
        text = SCRIPT.replace("RUNS", str(RUNS)).replace("TURNS", str(self.turns))
        script = text.replace("WARM", str(WARM_TURNS))

        def add_script(answer: Response) -> Response:
            if request.path == "/" and answer.mimetype == "text/html":
                tag = '<script src="/bench/script.js"></script></body>'
                answer.set_data(answer.get_data(as_text=True).replace("</body>", tag))
            return answer

        def mark() -> str:
            turn = int(request.args["turn"])
            self.marks[turn] = {
                "page heap": int(request.args["heap"]) / 1e6,
                "renderer": max(renderers(self.browser), default=0.0),
                "server": resident(Path("/proc/self")),
            }
            if turn == self.turns:
                self.done.set()
            return ""

        server.add_url_rule(
            "/bench/script.js", "bench_script", lambda: Response(script, mimetype="text/javascript")
        )
        server.add_url_rule("/bench/mark", "bench_mark", mark)
        server.after_request(add_script)


def resident(process: Path) -> float:
    """Resident memory of a process, MB."""
    return int((process / "statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def renderers(group: int) -> list[float]:
    """Resident memory of each page's process in a browser's process group, MB."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            # After the name, which may hold anything: state, parent, process group.
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            if int(fields[2]) == group and re.search(
                rb"--type=renderer(?!.*--extension-process)", (process / "cmdline").read_bytes()
            ):
                found.append(resident(process))
        except (OSError, IndexError):
            continue
    return found


def memory_lines(folder: str, navigations: int) -> list[Line]:
    """Growth of page, renderer and server from the first warm turn to the last."""
    watch = Watch(max(navigations // 2, WARM_TURNS + 1))
    with served([folder], extend=watch.extend) as running, tempfile.TemporaryDirectory() as own:
        command = [CHROMIUM, *ARGUMENTS, *FLAGS, f"--user-data-dir={own}", "--window-size=1440,900"]
        began = time.monotonic()
        browser = subprocess.Popen(
            [*command, running.url + "/"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        watch.browser = browser.pid
        finished = watch.done.wait(LIMIT_S)
        took = time.monotonic() - began
        os.killpg(browser.pid, 9)
        browser.wait()
    if not finished:
        reached = max(watch.marks, default=0)
        return [(f"turns of {watch.turns} done in {LIMIT_S} s", reached, -1, "")]
    return [*grown(watch.marks, navigations), ("time of all turns", took, LIMIT_S, "s")]


def grown(marks: Mapping[int, Mapping[str, float]], navigations: int) -> list[Line]:
    """One line for each memory: how much more there is at the end than when it was warm."""
    first, last = marks[min(marks)], marks[max(marks)]
    return [
        (
            f"{name} over {navigations} navigations, {first[name]:.0f} to {last[name]:.0f} MB",
            last[name] - first[name],
            40,
            "MB",
        )
        for name in first
    ]
