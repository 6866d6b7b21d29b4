"""A desk over a run folder and the samples, analysed in threads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("dash")

from gaptrace_dashboards.library import Library
from gaptrace_dashboards.routes import Desk
from tests.dashboards.folders import BARE, add_prediction, make_run


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder: Path = tmp_path_factory.mktemp("runs")
    run = make_run(folder, repeats=2, failed="compiled-graph")
    add_prediction(run / "eager" / "1")
    library = Library(
        [str(folder), *map(str, BARE)], pool=lambda: ThreadPoolExecutor(2), settled_s=0
    )
    until = time.monotonic() + 60
    while any(e.state in ("waiting", "working") for e in library.entries()):
        assert time.monotonic() < until
        library.refresh()
        time.sleep(0.02)
    yield Desk(library)
    library.close()


@pytest.fixture(scope="session")
def ids(desk: Desk) -> dict[str, str]:
    """Recording ids by name."""
    return {found.row.name: found.id for found in desk.library.recordings()}
