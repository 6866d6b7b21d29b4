"""`gaptrace dashboard` as a process: it says where it is, answers, and stops when interrupted."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("dash")

from tests.dashboards.folders import SAMPLES

ROOT = Path(__file__).parents[2]
START = """
import sys
from gaptrace.cli.dashboard import dashboard
if __name__ == "__main__":
    sys.exit(dashboard.main(sys.argv[1:], standalone_mode=False))
"""


def start(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    path = os.pathsep.join(str(ROOT / part) for part in (".", "dashboards", "collectors"))
    return subprocess.Popen(
        [sys.executable, "-c", START, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(folder)},
    )


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_stopped_and_leaves_nothing(
    how: signal.Signals, tmp_path: Path
) -> None:
    process = start(str(SAMPLES), "--port", "0", folder=tmp_path)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/", line)
        assert found, line
        with urllib.request.urlopen(found[0], timeout=20) as answer:
            assert b"gaptrace" in answer.read()
        process.send_signal(how)
        assert process.wait(30) == 130
        assert "gaptrace: error" not in process.stderr.read()
        assert not list(tmp_path.glob("gaptrace-dashboard-*"))
    finally:
        process.kill()
        process.wait()


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from gaptrace.cli.dashboard import dashboard
    from gaptrace.errors import GaptraceError

    result = CliRunner().invoke(dashboard, [str(tmp_path / "nothing"), "--port", "0"])
    assert isinstance(result.exception, GaptraceError)
    assert "does not exist" in result.exception.message
