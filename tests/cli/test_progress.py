"""Long work says on a terminal what it is at, is quiet elsewhere, and ends cleanly on Ctrl-C."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from gaptrace.cli import main, progress
from gaptrace.cli.output import write_file
from gaptrace.cli.progress import Progress
from tests.builders import decode_events, events_json
from tests.dashboards.folders import make_run

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
EAGER, OBSERVED = str(DATA / "llama4_eager.json.gz"), str(DATA / "llama4_eager.et.json.gz")
LIMIT_S = 60

Out = pytest.CaptureFixture[str]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """stderr as a terminal, and a clock that stands still until it is told to go on."""
    now = [100.0]
    monkeypatch.setattr(progress, "on_terminal", lambda: True)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])

    def wait(seconds: float) -> None:
        now[0] += seconds

    return wait


def test_a_line_appears_after_a_second_and_is_gone_in_the_end(
    terminal: Callable[[float], None], capsys: Out
) -> None:
    with Progress() as line:
        line.reading("a.json", 10_000_000, 40_000_000)
        assert capsys.readouterr().err == ""
        terminal(1.5)
        line.reading("a.json", 20_000_000, 40_000_000)
        assert capsys.readouterr().err == "\r\x1b[2Kreading a.json: 20 MB 50 %"
        terminal(0.01)
        line.reading("a.json", 21_000_000, 40_000_000)
        assert capsys.readouterr().err == ""
        terminal(1)
        line.recording("eager/1", 0, 4)
        assert capsys.readouterr().err == "\r\x1b[2Kanalysing eager/1: 1 of 4 recordings"
        terminal(1)
        line.asking(12.2)
        assert "asking Inductor: 12 s" in capsys.readouterr().err
        terminal(1)
        line.say("x" * 500)
        assert len(capsys.readouterr().err) < 90
    assert capsys.readouterr().err == "\r\x1b[2K"


def test_there_is_no_line_elsewhere(capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not progress.on_terminal()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("CI", "1")
    assert not progress.on_terminal()
    monkeypatch.delenv("CI")
    assert progress.on_terminal()
    monkeypatch.setattr(progress, "on_terminal", lambda: False)
    monkeypatch.setattr(progress, "AFTER_S", -1)
    monkeypatch.setattr(progress, "EVERY_S", -1)
    with Progress() as line:
        line.reading("a.json", 1, 2)
    assert capsys.readouterr().err == ""


def test_every_recording_of_a_run_is_told(
    tmp_path: Path, terminal: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, int, int]] = []
    monkeypatch.setattr(Progress, "recording", lambda _, *what: told.append(what))
    run = make_run(tmp_path)
    names = ["eager/1", "compiled/1", "graph/1"]
    for words in (["analyze"], ["compare"], ["predict", "--shapes"]):
        told.clear()
        assert main([*words, str(run)]) == 0
        assert told == [(name, done, 3) for done, name in enumerate(names)], words


def test_the_recordings_of_a_sweep_are_counted_over_its_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[tuple[str, int, int]] = []
    monkeypatch.setattr(Progress, "recording", lambda _, *what: told.append(what))
    assert main(["analyze", str(ROOT / "sample_traces" / "sweep_1b")]) == 0
    assert [done for _, done, _ in told] == list(range(7))
    assert {total for _, _, total in told} == {7}
    assert told[0][0] == "batch-64-length-512/compiled-graph/1"


class OnTerminal:
    """A command whose stderr and stdout are a terminal of its own."""

    def __init__(self, words: Sequence[str], start: Sequence[str] = ("-m", "gaptrace")) -> None:
        ours, theirs = pty.openpty()
        env = {key: text for key, text in os.environ.items() if key != "CI"}
        env["PYTHONPATH"] = os.pathsep.join(map(str, (ROOT, ROOT / "collectors")))
        self.fd, self.said = ours, ""
        self.process = subprocess.Popen(
            [sys.executable, *start, *words],
            stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=env,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)

    def until(self, text: str) -> None:
        """Read until it says `text`."""
        end = time.monotonic() + LIMIT_S
        while text not in self.said:
            assert time.monotonic() < end, self.said
            self.read()

    def read(self) -> bool:
        """Read what there is; false at the end."""
        if not select.select([self.fd], [], [], 0.2)[0]:
            return True
        try:
            found = os.read(self.fd, 1 << 16)
        except OSError:  # The other end is closed.
            return False
        self.said += found.decode()
        return bool(found)

    def interrupted(self) -> int:
        """Interrupt the command itself and nobody else, as `kill -INT` does; its exit code."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(LIMIT_S)
        while self.read() and select.select([self.fd], [], [], 0)[0]:
            pass
        os.close(self.fd)
        return code

    def others(self) -> list[str]:
        """Processes of its session that are still there."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                if fields[3] == str(self.process.pid) and fields[0] != "Z":
                    found.append(stat.parent.name)
        return found


# The line of reading would come after a second, and the test would wait for it.
AT_ONCE = (
    "-c",
    "import sys\nfrom gaptrace.cli import main, progress\nprogress.AFTER_S = 0\n"
    "sys.exit(main(sys.argv[1:]))",
)
BIG = 150_000_000


def test_an_interrupt_ends_asking_inductor_and_its_process(tmp_path: Path) -> None:
    pid, saved = tmp_path / "pid", tmp_path / "report.html"
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho $$ > {pid}\nexec sleep 600\n")
    python.chmod(0o755)
    asking = OnTerminal(
        [
            "predict",
            EAGER,
            "--execution-trace",
            OBSERVED,
            "--python",
            str(python),
            "-o",
            str(saved),
        ]
    )
    asking.until("asking Inductor: ")
    assert asking.interrupted() == 130
    assert "Traceback" not in asking.said
    assert asking.said.rstrip().endswith("\x1b[2K")
    assert not asking.others()
    assert [path.name for path in tmp_path.iterdir() if path not in (pid, python)] == []


def test_an_interrupt_ends_reading_and_its_helpers(tmp_path: Path) -> None:
    target, trace = tmp_path / "out.json", tmp_path / "trace.json"
    head, _, events = events_json(*decode_events(steps=4_000)).partition(b'"traceEvents": [')
    events, end = events.rpartition(b"]")[::2]
    with trace.open("wb") as file:
        file.write(head + b'"traceEvents": [' + events)
        while file.tell() < BIG:
            file.write(b"," + events)
        file.write(b"]" + end)
    reading = OnTerminal(["analyze", str(trace), "--no-cache", "-o", str(target)], AT_ONCE)
    reading.until("reading trace.json: ")
    assert reading.interrupted() == 130
    assert "Traceback" not in reading.said
    assert not reading.others()
    assert list(tmp_path.iterdir()) == [trace]


def test_a_file_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    target = tmp_path / "report.md"
    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_file(str(target), "half", force=False)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    write_file(str(target), json.dumps({}), force=False)
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]
