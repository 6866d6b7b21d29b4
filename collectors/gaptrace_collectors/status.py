"""What a person is told while cells are recorded: which one, how far it is, how long it will take.

On a terminal one line follows the phase and the step; elsewhere each cell gets one line.
"""

from __future__ import annotations

import shutil
import sys
import time

from gaptrace_collectors.progress import read_progress

_CLEAR = "\r\x1b[2K"


def say(text: str) -> None:
    """One line of gaptrace's own, on standard error."""
    sys.stderr.write(f"gaptrace: {text}\n")
    sys.stderr.flush()


def duration(seconds: float) -> str:
    """A time as a person says it: `45 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{max(1, whole)} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


class Pace:
    """How long cells take, by mode; what is not known yet is taken from those that are."""

    def __init__(self) -> None:
        self._seconds: dict[str, list[float]] = {}

    def note(self, mode: str, seconds: float) -> None:
        """A cell of this mode took this long."""
        self._seconds.setdefault(mode, []).append(seconds)

    def of(self, mode: str) -> float | None:
        """Seconds that a cell of this mode takes; None before the first cell of any."""
        known = self._seconds.get(mode) or [s for each in self._seconds.values() for s in each]
        return sum(known) / len(known) if known else None

    def of_all(self, modes: list[str]) -> float | None:
        """Seconds that cells of these modes take together."""
        each = [self.of(mode) for mode in modes]
        return None if None in each else sum(seconds or 0.0 for seconds in each)


class Status:
    """The lines about the cells of one collection."""

    def __init__(self) -> None:
        self._pace = Pace()
        self._live = sys.stderr.isatty()
        self._shown = False
        self._began = 0.0
        self._what = ""
        self._mode = ""
        self._progress = ""
        self._steps = 0
        self._later: list[str] = []

    def begin(
        self, where: str, mode: str, repeat: int, later: list[str], progress: str, steps: int
    ) -> None:
        """A cell begins: its line, with the time that it and those `later` will take.

        progress: file that tells how far it is. steps: how many it is planned to make.
        """
        self._began = time.monotonic()
        self._what, self._mode = f"{where} {mode} {repeat}", mode
        self._progress, self._steps, self._later = progress, steps, later
        own, left = self._pace.of(mode), self._pace.of_all([mode, *later])
        told = ""
        if own is not None and left is not None:
            told = f" (about {duration(own)}"
            told += f"; {duration(left)} for the {len(later) + 1} left)" if later else ")"
        say(f"{self._what}{told}")

    def tick(self) -> None:
        """Show how far the cell is; nothing where nobody looks."""
        if not self._live:
            return
        phase, step = read_progress(self._progress)
        line = f"gaptrace: {self._what}: {phase or 'starting'}"
        if phase:
            line += f", step {step} of {max(step, self._steps)}"
        expected = self._pace.of_all([self._mode, *self._later])
        gone = time.monotonic() - self._began
        line += f", {duration(gone)} gone"
        if expected is not None and expected > gone:
            line += f", about {duration(expected - gone)} left"
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"{_CLEAR}{line[:width]}")
        sys.stderr.flush()
        self._shown = True

    def end(self) -> float:
        """The cell is over; the seconds it took."""
        if self._shown:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
            self._shown = False
        seconds = time.monotonic() - self._began
        self._pace.note(self._mode, seconds)
        return seconds
