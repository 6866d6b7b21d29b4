"""What every test module may ask for."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of recorded traces that GAPTRACE_CORPUS names; skips the test without it."""
    named = os.environ.get("GAPTRACE_CORPUS")
    if not named:
        pytest.skip("GAPTRACE_CORPUS names no folder of recorded traces")
    return Path(named)


def pytest_configure() -> None:
    """Ctrl-C reaches the processes that tests start, also where these run in the background."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--golden`: write the golden files anew from what the code says now."""
    parser.addoption("--golden", action="store_true", help="rewrite tests/golden")
