"""A control: the script once without the recorder, to tell whose fault a failure is."""

from __future__ import annotations

import os
import re
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from gaptrace_collectors.folder import write_json
from gaptrace_collectors.points import with_batch
from gaptrace_collectors.running import TIMED_OUT, Job

if TYPE_CHECKING:
    from collections.abc import Callable

    from gaptrace_collectors.running import Runner
    from gaptrace_collectors.targets import Target

FAILS, RUNS, UNKNOWN = "fails", "runs", "unknown"
_LEAST_S = 30.0
_MAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")
_ERROR = re.compile(r"^(?:\[rank\d+\]:\s*)?([A-Za-z_][\w.]*(?:Error|Exception|Interrupt)\b.*)$")
_LAUNCHERS_OWN = "ChildFailedError"


@dataclass(frozen=True)
class Verdict:
    """How the script ended without the recorder.

    outcome: `fails`, `runs`, or `unknown` where it was still running when its time was over.
    """

    outcome: str
    sentence: str
    exit_code: int | None
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """The verdict as it stands in run.json."""
        return {
            "outcome": self.outcome,
            "exit_code": self.exit_code,
            "seconds": round(self.seconds, 1),
        }


class Control:
    """Runs the script by itself, at most once for each batch size."""

    def __init__(self, target: Target, runner: Runner, folder: str) -> None:
        self._target = target
        self._runner = runner
        self._folder = folder
        self.built = False  # whether it is `build()` that is run
        self._known: dict[int | None, tuple[Verdict, str]] = {}

    def verdict(
        self, batch: int | None, error: str | None, seconds: float, tick: Callable[[], None]
    ) -> Verdict:
        """Whether the script fails by itself as well.

        It gets twice the time that the recorded process took, and half a minute at least. `error`
        is what it raised there.
        """
        if batch not in self._known:
            self._known[batch] = self._run(batch, 2 * seconds + _LEAST_S, tick)
        verdict, printed = self._known[batch]
        if verdict.outcome != FAILS:
            return verdict
        if error and error in printed:
            return replace(verdict, sentence="the script fails by itself as well")
        other = _error_line(printed)
        how = f"with {other}" if other else f"with exit code {verdict.exit_code}"
        return replace(verdict, sentence=f"the script fails by itself as well, {how}")

    def _run(
        self, batch: int | None, limit_s: float, tick: Callable[[], None]
    ) -> tuple[Verdict, str]:
        target = replace(self._target, args=with_batch(self._target.args, batch))
        log = os.path.join(self._folder, "control.log")
        words = target.command()
        if self.built:
            words = target.command(_MAIN, "--control", self._specification(batch))
        began = time.monotonic()
        code = self._runner.run(Job(words, log=log, limit_s=limit_s), tick)
        took = time.monotonic() - began
        printed = _text(log)
        if code == TIMED_OUT and took >= limit_s:
            told = f"without the recorder it had not failed after {took:.0f} s, when it was ended"
            return Verdict(UNKNOWN, told, None, took), printed
        if code:
            return Verdict(FAILS, "", code, took), printed
        return Verdict(RUNS, "without the recorder the script runs to its end", 0, took), printed

    def _specification(self, batch: int | None) -> str:
        path = os.path.join(self._folder, "control.json")
        write_json(path, {"target": asdict(self._target), "batch": batch})
        return path


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _error_line(printed: str) -> str:
    """The last error in what was printed, the launcher's own aside; empty where there is none."""
    found = [match[1] for line in printed.splitlines() if (match := _ERROR.match(line))]
    own = [line for line in found if _LAUNCHERS_OWN not in line]
    return own[-1][:300] if own else ""
