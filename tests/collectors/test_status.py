"""What a person is told while cells are recorded."""

import io
import sys

import pytest

from gaptrace_collectors.progress import Progress, read_progress
from gaptrace_collectors.status import Pace, Status, duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 s"), (59.4, "59 s"), (60, "1 min"), (200, "3 min 20 s"), (7500, "2 h 5 min")],
)
def test_a_time_is_said_as_a_person_does(seconds, text):
    assert duration(seconds) == text


def test_the_time_of_a_mode_not_met_yet_is_that_of_the_others():
    pace = Pace()
    assert pace.of("eager") is None
    pace.note("eager", 10.0)
    pace.note("compiled", 30.0)
    assert pace.of("eager") == 10.0
    assert pace.of("graph") == 20.0
    assert pace.of_all(["eager", "graph"]) == 30.0


def test_how_far_it_is_is_seen_from_outside(tmp_path):
    path = str(tmp_path / "progress")
    assert read_progress(path) == ("", 0)
    progress = Progress(path)
    assert read_progress(path) == ("", 0)
    progress.enter("timed before")
    progress.step()
    progress.step()
    assert read_progress(path) == ("timed before", 2)


class Terminal(io.StringIO):
    """Standard error that somebody looks at."""

    def isatty(self):
        return True


def recorded(monkeypatch, stderr, path):
    """What is said of two cells, the second one under way; each takes 10 s."""
    clock = iter([0.0, 10.0, 10.0, 14.0, 20.0])
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr("gaptrace_collectors.status.time.monotonic", lambda: next(clock))
    status = Status()
    status.begin("[1/3]", "eager", 1, ["eager", "eager"], path, 40)
    status.end()
    status.begin("[2/3]", "eager", 2, ["eager"], path, 40)
    status.tick()
    return stderr.getvalue()


def test_one_line_a_cell_where_nobody_looks(monkeypatch, tmp_path):
    lines = recorded(monkeypatch, io.StringIO(), str(tmp_path / "none")).splitlines()
    assert lines == [
        "gaptrace: [1/3] eager 1",
        "gaptrace: [2/3] eager 2 (about 10 s; 20 s for the 2 left)",
    ]


def test_phase_step_and_time_left_on_a_terminal(monkeypatch, tmp_path):
    path = str(tmp_path / "progress")
    progress = Progress(path)
    progress.enter("issue")
    progress.step()
    monkeypatch.setenv("COLUMNS", "120")
    shown = recorded(monkeypatch, Terminal(), path).split("\r\x1b[2K")[-1]
    assert shown == "gaptrace: [2/3] eager 2: issue, step 1 of 40, 4 s gone, about 16 s left"
