"""Whose fault a script's failure is, by a run of the script without the recorder."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from gaptrace_collectors import folder as files
from gaptrace_collectors.control import RUNS, Control, Verdict
from gaptrace_collectors.left import RUN, by_time
from gaptrace_collectors.modes import AS_IS, EAGER
from gaptrace_collectors.status import say
from gaptrace_collectors.targets import defines_build

if TYPE_CHECKING:
    from gaptrace_collectors.left import Recording
    from gaptrace_collectors.options import Request
    from gaptrace_collectors.running import Runner
    from gaptrace_collectors.status import Status

# In these modes the script runs as it would without the recorder, or nearly so.
_UNCHANGED = (EAGER.id, AS_IS.id)


class Blame:
    """Settles failures of one request."""

    def __init__(self, request: Request, runner: Runner, folder: str, status: Status) -> None:
        self._request = request
        self._status = status
        self._control = Control(request.target, runner, folder)

    def settle(
        self, of_point: list[Recording], mode: str, before: list[dict[str, Any]], seconds: float
    ) -> bool:
        """Write into each run.json of a failed script whose fault that was; whether it is ours.

        A script that runs by itself and raises in a mode that changes it has met a mode that
        cannot work. `before`: cells recorded until now.
        """
        # The others' errors follow from the first: a connection that was closed, say.
        failed = [item for item in by_time(of_point) if item.run["status"] == "script_failed"]
        first = failed[0].run
        self._control.built = first["entry"] == "build"
        batch = of_point[0].point.batch
        eager_ran = any(cell["mode"] in _UNCHANGED and cell["status"] == "ok" for cell in before)
        error = first["script"]["error"]
        verdict = self._verdict(batch, error, seconds)
        ours = verdict.outcome == RUNS and (mode in _UNCHANGED or not eager_ran)
        for item in failed:
            self._write(item, verdict, ours=ours)
        return ours

    def of_death(self, batch: int | None, seconds: float) -> Verdict:
        """The verdict where a process left nothing."""
        entry, target = self._request.entry, self._request.target
        self._control.built = entry == "build" or (
            entry == "auto" and target.kind == "script" and defines_build(target.value)
        )
        return self._verdict(batch, None, seconds)

    def _verdict(self, batch: int | None, error: str | None, seconds: float) -> Verdict:
        say("  the script failed: running it once without the recorder")
        began = time.monotonic()
        verdict = self._control.verdict(batch, error, seconds, lambda: None)
        say(f"  {verdict.sentence} ({time.monotonic() - began:.0f} s)")
        return verdict

    def _write(self, item: Recording, verdict: Verdict, *, ours: bool) -> None:
        run, failure = item.run, item.run["failure"]
        told = verdict.sentence
        if self._request.options.redact and verdict.outcome == "fails":
            told = "the script fails by itself as well"  # what it says may name an argument
        if ours:
            told += ": the fault is gaptrace's"
            failure["kind"] = "recorder_error"
        elif verdict.outcome == RUNS:
            told += f", and in other modes: it fails in {run['mode']} only"
            failure["kind"] = "mode_error"
            run["status"] = "mode_failed"
        failure["reason"] += f"; {told}"
        run["control"] = verdict.to_json()
        files.write_json(os.path.join(item.folder, RUN), run)
