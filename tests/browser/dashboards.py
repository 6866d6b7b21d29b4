"""A dashboard that serves in a thread, for tests with a browser."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("dash")

from gaptrace_dashboards import Library, create_app
from gaptrace_dashboards.serve import listen


@dataclass
class Served:
    """A running dashboard: its address, without the last slash, and its library."""

    url: str
    library: Library

    def ids(self) -> dict[str, str]:
        """Recording ids by name."""
        return {found.row.name: found.id for found in self.library.recordings()}


@contextmanager
def served(
    paths: Sequence[Any], *, wait: bool = True, extend: Callable[[Any], None] | None = None
) -> Iterator[Served]:
    """A dashboard over these paths; analyses are made in threads, and done before it is given.

    `extend` gets the Flask server before it listens.
    """
    library = Library(
        [str(path) for path in paths], pool=lambda: ThreadPoolExecutor(2), settled_s=0
    )
    app = create_app(library)
    if extend is not None:
        extend(app.server)
    serving = listen(app, 0)
    thread = threading.Thread(target=serving.server.serve_forever, daemon=True)
    thread.start()
    try:
        if wait:
            settle(library)
        yield Served(serving.url.rstrip("/"), library)
    finally:
        serving.server.shutdown()
        thread.join(10)
        serving.server.server_close()
        library.close()


def settle(library: Library, limit_s: float = 60) -> None:
    """Wait until nothing is left to analyse."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        library.refresh()
        open_ = [e for e in library.entries() if e.state in ("waiting", "working")]
        if all(entry.place.kind == "writing" for entry in open_):
            return
        time.sleep(0.05)
    raise AssertionError("the analyses were not done in time")
