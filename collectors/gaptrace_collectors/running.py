"""Running one command to its end, alone or in step with the other ranks of a launcher."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

_GRACE_S = 1.0
_TICK_S = 0.5
TIMED_OUT = 124


@dataclass(frozen=True)
class Job:
    """A command: its words and what it gets beyond the environment.

    `log`: a file that takes what it prints; None leaves that to the terminal. `limit_s`: it is
    ended after this long, and its code is then 124.
    """

    words: list[str]
    env: dict[str, str] = field(default_factory=dict)
    log: str | None = None
    limit_s: float | None = None


class Runner(Protocol):
    """Runs jobs, one after the other."""

    def run(self, job: Job, tick: Callable[[], None]) -> int:
        """The exit code, 128 + n for signal n; `tick` is called now and then while it runs."""

    def end(self, code: int) -> None:
        """No job will follow; `code` is what the whole came to."""


class Alone:
    """Runs jobs in this process's stead only."""

    def __init__(self, without: tuple[str, ...] = ()) -> None:
        self._without = without

    def run(self, job: Job, tick: Callable[[], None]) -> int:
        """Run the job; see `Runner`."""
        return run_to_end(job, tick, self._without)

    def end(self, code: int) -> None:
        """Nobody is waiting."""


def run_to_end(job: Job, tick: Callable[[], None], without: tuple[str, ...] = ()) -> int:
    """The exit code of a command, 128 + n for signal n, 124 where its time was over.

    `without`: variables of the environment that it does not get.
    """
    env = {name: value for name, value in os.environ.items() if name not in without} | job.env
    if job.log is None:
        return _wait(subprocess.Popen(job.words, env=env), job.limit_s, tick)
    with open(job.log, "wb") as log:
        # In a session of its own, so that its end is the end of all that it started.
        process: subprocess.Popen[Any] = subprocess.Popen(
            job.words,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return _wait(process, job.limit_s, tick)


def _wait(process: subprocess.Popen[Any], limit_s: float | None, tick: Callable[[], None]) -> int:
    until = None if limit_s is None else time.monotonic() + limit_s
    with process:
        try:
            while True:
                try:
                    code = process.wait(_TICK_S)
                    return code if code >= 0 else 128 - code
                except subprocess.TimeoutExpired:
                    tick()
                if until is not None and time.monotonic() > until:
                    _end(process)
                    return TIMED_OUT
        except BaseException:
            _end(process)
            raise


def _end(process: subprocess.Popen[Any]) -> None:
    """End a child after an interrupt: it usually got the same signal, so first just wait."""
    for stop in (None, signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        if stop is not None:
            process.send_signal(stop)
        try:
            process.wait(_GRACE_S if stop is None else 5 * _GRACE_S)
            return
        except subprocess.TimeoutExpired:
            continue
