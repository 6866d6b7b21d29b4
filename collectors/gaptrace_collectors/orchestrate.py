"""`collect`: for each mode and repeat one process, or one launch of several ranks."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import tempfile
import time
from typing import TYPE_CHECKING, Any

from gaptrace_collectors import COLLECT_SCHEMA, __version__, closing, left
from gaptrace_collectors import folder as files
from gaptrace_collectors.blame import Blame
from gaptrace_collectors.cell_job import CellSpec, cell_job
from gaptrace_collectors.failing import FAILED, INTERRUPTED, CollectError
from gaptrace_collectors.led import Leader, MeetingError, follow, meeting_folder
from gaptrace_collectors.modes import AS_IS, EAGER, MODES, recorded_as_is
from gaptrace_collectors.options import Request, parse
from gaptrace_collectors.plan import Plan, TooFewStepsError, fitted_plan, full_plan
from gaptrace_collectors.points import Point
from gaptrace_collectors.ranks import Rank, rank_of, rank_variables
from gaptrace_collectors.running import Alone, Job, Runner
from gaptrace_collectors.runroot import RunRoot
from gaptrace_collectors.state import State
from gaptrace_collectors.status import Status, say
from gaptrace_collectors.targets import UsageError

if TYPE_CHECKING:
    from types import FrameType

NOTHING = "nothing that was asked for could be recorded"


def main(argv: list[str]) -> int:
    """Run `collect` for a command line (without the program's name); the exit code."""
    me = rank_of(os.environ)
    try:
        request = parse(argv)
    except UsageError as error:
        if me is None or me.rank == 0:
            say(f"error: {error}")
        return 2
    signal.signal(signal.SIGTERM, _on_terminate)
    try:
        if me is None or me.world_size == 1 or request.target.spreads:
            return Collection(request, Alone(rank_variables(request.target.spreads))).run()
        return _among_ranks(request, me)
    except OSError as error:
        say(f"error: {error}")
        say("hint: is the folder there, and may it be written? -o names another")
        return FAILED
    except (CollectError, MeetingError) as error:
        say(f"error: {error}")
        if isinstance(error, CollectError) and error.hint:
            say(f"hint: {error.hint}")
        return FAILED
    except KeyboardInterrupt:
        if me is None or me.rank == 0:
            say("interrupted; what was finished has been kept")
        return INTERRUPTED


def _among_ranks(request: Request, me: Rank) -> int:
    """One recorder per rank: the first collects, the others run what it says."""
    folder = meeting_folder(request.out, request.name)
    if me.rank > 0:
        return follow(folder, me)
    say(f"recording all {me.world_size} ranks; rank 0 tells how it goes")
    return Collection(request, Leader(folder, me)).run()


def _on_terminate(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


class Collection:
    """All cells of one request."""

    def __init__(self, request: Request, runner: Runner) -> None:
        self._request = request
        self._options = request.options
        self._runner = runner
        self._state = State()
        self._scratch = ""
        self._status = Status()
        self._blame: Blame | None = None

    def run(self) -> int:
        """Record every mode and repeat; the script's exit code, or 125."""
        code = FAILED
        try:
            self._root = RunRoot(self._request)
            code = self._run()
        except SystemExit as error:
            code = int(error.code or 0)
            raise
        finally:
            self._runner.end(code)
        return code

    def _run(self) -> int:
        self._root.set_aside()
        try:
            with tempfile.TemporaryDirectory(prefix="gaptrace-") as scratch:
                self._scratch = scratch
                self._blame = Blame(self._request, self._runner, scratch, self._status)
                self._cells()
                self._state.complete = not self._state.stop
        except KeyboardInterrupt:
            self._state.exit_code = INTERRUPTED
            raise
        except SystemExit as error:
            self._state.exit_code = int(error.code or 0)
            say("terminated; what was finished has been kept")
            raise
        finally:
            self._close()
        return self._state.exit_code

    def _close(self) -> None:
        state = self._state
        if state.complete and not any(cell["status"] == "ok" for cell in state.cells):
            say(NOTHING)
            state.exit_code = state.exit_code or FAILED
        if not self._root.settle(self._index()):
            state.cells = [{**cell, "path": None} for cell in state.cells]
            say(f"nothing was recorded: {self._root.path} is what it was before")
        closing.close(self._root.path, state.cells, state.as_is_reason)

    def _index(self) -> dict[str, Any]:
        target = self._request.target
        return {
            "schema": COLLECT_SCHEMA,
            "name": self._request.name,
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "collector": __version__,
            "script": os.path.basename(target.value) if self._options.redact else target.value,
            "launcher": None if self._options.redact else list(target.launcher),
            "modes": list(self._options.modes),
            "as_is_reason": self._state.as_is_reason,
            "repeats": self._options.repeats,
            "batches": list(self._request.batch),
            "buckets": list(self._options.buckets),
            "cells": self._state.cells,
            "exit_code": self._state.exit_code,
            "complete": self._state.complete,
            "decode_steps_available": self._state.available,
        }

    # --- cells ---------------------------------------------------------------------------------

    def _cells(self) -> None:
        for batch in self._request.batch or (None,):
            self._cells_of(batch)
            if self._state.stop:
                return

    def _cells_of(self, batch: int | None) -> None:
        # Eager first: its logits are what the other modes are compared with.
        modes = sorted(self._options.modes, key=lambda mode: mode != EAGER.id)
        cells = [(mode, repeat) for mode in modes for repeat in range(1, self._options.repeats + 1)]
        at = f" {Point(batch).folder}" if batch else ""
        failed: set[str] = set()
        for number, (mode, repeat) in enumerate(cells, 1):
            if mode in failed or self._skipped(mode, batch):
                failed.add(mode)  # a mode that cannot work cannot work three times
                continue
            later = [later for later, _ in cells[number:] if later not in failed]
            outcome = self._cell(mode, repeat, batch, f"[{number}/{len(cells)}]{at}", later)
            if self._state.stop:
                return
            if outcome == "self_compiled":
                self._as_is(batch)
                return
            if outcome == "mode_failed":
                failed.add(mode)

    def _skipped(self, mode: str, batch: int | None) -> bool:
        """Whether a mode is left out because the first cell ran on a CPU; said once."""
        if not self._state.on_cpu or not MODES[mode].captures_step:
            return False
        modes = [mode for mode in self._options.modes if MODES[mode].captures_step]
        reason = "no CUDA device: a CUDA graph cannot be captured here"
        if not any(cell["status"] == "skipped" for cell in self._state.cells):
            say(f"no CUDA device: {' and '.join(modes)} skipped, they need a CUDA graph")
        self._state.note(mode, 1, Point(batch), "skipped", reason=reason)
        return True

    def _as_is(self, batch: int | None) -> None:
        say(f"{self._state.as_is_reason}; --modes eager,... records these modes all the same")
        self._options = dataclasses.replace(self._options, modes=(AS_IS.id,))
        self._cells_of(batch)

    def _plan(self, extra_warmup: int) -> Plan:
        if self._state.available is None:
            return full_plan(self._options)
        try:
            return fitted_plan(self._options, self._state.available - extra_warmup)
        except TooFewStepsError as error:
            raise CollectError(
                f"the script makes {error.available} decode steps;"
                f" at least {error.needed} are needed" + self._state.passed,
                "let it generate more tokens"
                + (", all in steps that are alike" if self._state.passed else ""),
            ) from error

    def _cell(self, mode: str, repeat: int, batch: int | None, where: str, later: list[str]) -> str:
        """Record one cell, again with a smaller plan where the script has too few steps."""
        final = self._root.cell(Point(batch), mode, repeat)
        extra = 0
        while True:
            plan = self._plan(extra)
            os.makedirs(os.path.dirname(final), exist_ok=True)
            partial = files.partial_of(final)
            word = os.path.join(partial, left.WORD)
            os.makedirs(word)
            progress = os.path.join(word, "progress")
            self._status.begin(where, mode, repeat, later, progress, plan.needed)
            tick = self._status.tick
            try:
                code = self._runner.run(self._job(mode, repeat, batch, partial, plan), tick)
            except BaseException:
                self._status.end()
                self._keep_finished(mode, repeat, batch, partial)
                raise
            seconds = self._status.end()
            short = left.shortage(partial)
            found = left.recordings(partial, batch, self._options.buckets)
            unmade = not any(item.run for item in found) or left.out_of_step(found)
            if short is not None and unmade:
                extra = self._shrunk(short, extra)
                continue
            outcome = "died"
            for point in dict.fromkeys(item.point for item in found):
                of_point = [item for item in found if item.point == point]
                outcome = self._settle(mode, repeat, of_point, partial, code, seconds)
            if outcome == "again":
                continue
            if os.path.isdir(partial):  # the common folder of buckets or ranks
                shutil.rmtree(partial)
                if not os.listdir(os.path.dirname(final)):
                    os.rmdir(os.path.dirname(final))
            return outcome

    def _job(self, mode: str, repeat: int, batch: int | None, partial: str, plan: Plan) -> Job:
        reason = self._state.as_is_reason
        return cell_job(
            self._request,
            self._options,
            CellSpec(
                mode,
                repeat,
                batch,
                plan,
                os.path.abspath(partial),
                # Outputs are compared between the modes of one batch size.
                scratch=os.path.join(self._scratch, Point(batch).folder),
                notes=(reason,) if reason else (),
                switch_off=self._state.switch_off and mode != AS_IS.id,
            ),
            self._root.cache_dir,
        )

    def _shrunk(self, short: dict[str, Any], extra: int) -> int:
        """Warm-up beyond the plan to reckon with, now that the number of steps is known."""
        available, others = int(short["decode_steps"]), int(short["interruptions"])
        if others and available == self._state.available:
            raise CollectError(
                f"the script makes {available} decode steps, but {others} other calls come"
                f" between them{short['between']}: too few follow each other",
                "record a part that only decodes, or define build() (collectors/README.md)",
            )
        # Where the smaller plan did not fit either, the compiler took more steps again.
        again = extra + 4 if self._state.available else 0
        self._state.available = available
        self._state.passed = "".join(f"; {text}" for text in short["passed"])
        say(f"the script makes {available} decode steps; recording with fewer timed steps")
        return max(int(short["extra_warmup"]), again)

    def _keep_finished(self, mode: str, repeat: int, batch: int | None, partial: str) -> None:
        """Publish what an interrupted process had recorded whole, before its script went on."""
        found = left.recordings(partial, batch, self._options.buckets)
        for point in dict.fromkeys(item.point for item in found):
            of_point = [item for item in found if item.point == point]
            if left.status_of(of_point) == "ok":
                self._publish(mode, repeat, of_point, INTERRUPTED)

    def _settle(
        self,
        mode: str,
        repeat: int,
        of_point: list[left.Recording],
        partial: str,
        code: int,
        seconds: float,
    ) -> str:
        """Publish what a cell left of one point, and note how it ended."""
        state, point = self._state, of_point[0].point
        error = left.error(partial)
        # Where one rank could not be recorded, the others only say that it left.
        if not any(item.run for item in of_point) or (error and left.out_of_step(of_point)):
            self._died(mode, repeat, point, code, error, seconds)
            return "died"
        failure = left.first_failure(of_point)
        if failure is not None and failure["kind"] == "self_compiled":
            outcome = self._self_compiled(of_point, failure["reason"])
            if outcome != "mode_failed":
                return outcome
        status = left.status_of(of_point)
        blamed_on_us = False
        if status == "script_failed":
            assert self._blame is not None
            blamed_on_us = self._blame.settle(of_point, mode, state.cells, seconds)
            status = left.status_of(of_point)
        self._publish(mode, repeat, of_point, code)
        state.on_cpu = state.on_cpu or any(_ran_on_cpu(item.run) for item in of_point)
        if blamed_on_us:
            state.exit_code = FAILED
        elif code and not state.exit_code and status != "mode_failed":
            state.exit_code = code
        if status in ("script_failed", "died"):
            state.exit_code = state.exit_code or FAILED
            state.stop = True
        return status

    def _self_compiled(self, of_point: list[left.Recording], reason: str) -> str:
        """The script compiles or captures its step: what comes next.

        Modes that nobody named give way to `as-is`. Named ones are recorded with the script's own
        compiling switched off; its own captures cannot be, and then the mode fails.
        """
        if not self._options.modes_by_hand:
            self._state.as_is_reason = recorded_as_is(reason)
            return "self_compiled"
        if not self._state.switch_off:
            self._state.switch_off = True
            say(f"{reason}; for the modes asked for by name that is switched off")
            return "again"
        for item in of_point:
            if item.run:
                item.run["failure"]["kind"] = "captured_by_script"
                files.write_json(os.path.join(item.folder, left.RUN), item.run)
        return "mode_failed"

    def _died(
        self,
        mode: str,
        repeat: int,
        point: Point,
        code: int,
        error: dict[str, Any] | None,
        seconds: float,
    ) -> None:
        """A process left nothing: gaptrace said why, or it vanished."""
        if error is not None:
            raise CollectError(error["message"], error["hint"])
        ended = f"the process ended with {code} before its recording was whole"
        assert self._blame is not None
        # Whatever ended it without an error code would do so again.
        verdict = self._blame.of_death(point.batch, seconds) if code else None
        told = f"{ended}; {verdict.sentence}" if verdict else ended
        say(f"  {mode}: {told}" + ("" if code else " (os._exit?)"))
        self._state.note(mode, repeat, point, "died", exit_code=code, reason=told)
        ours = verdict is not None and verdict.outcome == "runs"
        self._state.exit_code = FAILED if ours or not code else code
        self._state.stop = True

    def _publish(self, mode: str, repeat: int, of_point: list[left.Recording], code: int) -> None:
        final = self._root.cell(of_point[0].point, mode, repeat)
        runs = [item.run for item in of_point if item.run]
        failure = left.first_failure(of_point)
        reason = failure["reason"] if failure else None
        left.publish(of_point, final)
        notes = [(run.get("piecewise") or {}).get("note") for run in runs]
        for text in (reason, *dict.fromkeys(notes)):
            if text:
                say(f"  {mode}: {text}")
        self._state.note(
            mode,
            repeat,
            of_point[0].point,
            left.status_of(of_point),
            path=self._root.relative(final),
            exit_code=code,
            reason=reason,
            ranks=[item.rank for item in of_point if item.run and item.rank is not None],
        )


def _ran_on_cpu(run: Any) -> bool:
    return run is not None and run["status"] == "ok" and run["device"]["type"] == "cpu"
