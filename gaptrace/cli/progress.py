"""What long work is at: one line on stderr, on a terminal only, gone when the work is done."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType

import click

# Work that is done sooner needs no line.
AFTER_S = 1.0
EVERY_S = 0.1
WIDTH = 79
_CLEAR = "\r\x1b[2K"


def on_terminal() -> bool:
    """Whether somebody watches stderr; a pipe or a CI log would keep every state of the line."""
    return sys.stderr.isatty() and not os.environ.get("CI")


class Progress:
    """A line that is written over; used as a context, so that an interrupt takes it away, too."""

    def __init__(self) -> None:
        self._shows = on_terminal()
        self._began = self._last = time.monotonic()
        self._written = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._written:
            click.echo(_CLEAR, nl=False, err=True, color=True)

    def say(self, text: str) -> None:
        """Show `text` in place of what stands there; nothing where that was a moment ago."""
        now = time.monotonic()
        if not self._shows or now - self._began < AFTER_S or now - self._last < EVERY_S:
            return
        self._last, self._written = now, True
        click.echo(f"{_CLEAR}{text[:WIDTH]}", nl=False, err=True, color=True)

    def reading(self, name: str, done: int, total: int) -> None:
        """Show how much of a file has been read, in bytes; total 0 where it is not known."""
        share = f" {100 * done // total} %" if total else ""
        self.say(f"reading {name}: {done // 1_000_000} MB{share}")

    def recording(self, name: str, done: int, total: int) -> None:
        """Show which recording of a run or sweep is being analysed, and how many were before it."""
        self.say(f"analysing {name}: {done + 1} of {total} recordings")

    def asking(self, seconds: float) -> None:
        """Show for how long Inductor has been asked."""
        self.say(f"asking Inductor: {seconds:.0f} s (takes 10 to 60 s)")
