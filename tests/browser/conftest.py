"""A real browser, offline: Debian's chromium driven by playwright, or the tests are skipped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = os.environ.get("GAPTRACE_CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
SHOTS = "GAPTRACE_SCREENSHOTS"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One browser for the session; skips without playwright or chromium."""
    driver = pytest.importorskip("playwright.sync_api")
    if not Path(CHROMIUM).exists():
        pytest.skip("no chromium: apt-get install chromium, or name one in GAPTRACE_CHROMIUM")
    with driver.sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield found
        found.close()


class Watched:
    """A page with everything it asked for and complained about."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self._said(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _said(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(f"{kind}: {text}")

    @property
    def outside(self) -> list[str]:
        """Requests that left the file."""
        own = self.page.url.split("#")[0]
        return [
            url
            for url in self.requests
            if url.split("#")[0] != own and not url.startswith(("data:", "blob:"))
        ]


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Watched]]:
    """Open an HTML text as a file in an offline context; options as for a browser context."""
    contexts = []

    def visit(text: str, *, name: str = "report.html", place: str = "", **options: Any) -> Watched:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        options.setdefault("viewport", {"width": 1440, "height": 900})
        context = browser.new_context(offline=True, **options)
        contexts.append(context)
        watched = Watched(context.new_page())
        watched.page.goto(f"file://{path}{place}")
        if options.get("java_script_enabled", True) and "data-timeline=" in text:
            watched.page.wait_for_selector("html[data-ready=yes]")
        return watched

    yield visit
    for context in contexts:
        context.close()


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Where screenshots go: GAPTRACE_SCREENSHOTS, else nowhere that stays."""
    folder = Path(os.environ.get(SHOTS) or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
