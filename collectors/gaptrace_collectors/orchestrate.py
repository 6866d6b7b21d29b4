"""`collect`: for each mode and repeat one process, or one launch of several ranks."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gaptrace_collectors import COLLECT_SCHEMA, __version__, closing, left
from gaptrace_collectors import folder as files
from gaptrace_collectors.blame import Blame
from gaptrace_collectors.failing import FAILED, INTERRUPTED, CollectError
from gaptrace_collectors.led import Leader, MeetingError, follow, meeting_folder
from gaptrace_collectors.modes import AS_IS, EAGER, MODES
from gaptrace_collectors.options import Request, parse
from gaptrace_collectors.plan import Plan, TooFewStepsError, fitted_plan, full_plan
from gaptrace_collectors.points import Point
from gaptrace_collectors.ranks import Rank, rank_of, rank_variables
from gaptrace_collectors.running import Alone, Job, Runner
from gaptrace_collectors.runroot import RunRoot
from gaptrace_collectors.status import Status, say
from gaptrace_collectors.targets import UsageError

if TYPE_CHECKING:
    from types import FrameType

_HERE = os.path.dirname(os.path.abspath(__file__))
NOTHING = "nothing that was asked for could be recorded"


@dataclass
class _State:
    """What is known while the cells run."""

    available: int | None = None
    exit_code: int = 0
    cells: list[dict[str, Any]] = field(default_factory=list)
    stop: bool = False
    complete: bool = False
    as_is_reason: str | None = None
    on_cpu: bool = False


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
        self._state = _State()
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
        closing.close(self._root.path, state.cells)

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
        self._note(mode, 1, Point(batch), "skipped", reason=reason)
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
                f" at least {error.needed} are needed",
                "let it generate more tokens",
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
            try:
                code = self._process(mode, repeat, batch, partial, plan)
            except BaseException:
                self._status.end()
                self._keep_finished(mode, repeat, batch, partial)
                raise
            seconds = self._status.end()
            short = left.shortage(partial)
            found = left.recordings(partial, batch, self._options.buckets)
            if short is not None and not any(item.run for item in found):
                extra = self._shrunk(short, extra)
                continue
            outcome = "died"
            for point in dict.fromkeys(item.point for item in found):
                of_point = [item for item in found if item.point == point]
                outcome = self._settle(mode, repeat, of_point, partial, code, seconds)
            if os.path.isdir(partial):  # the common folder of buckets or ranks
                shutil.rmtree(partial)
                if not os.listdir(os.path.dirname(final)):
                    os.rmdir(os.path.dirname(final))
            return outcome

    def _shrunk(self, short: dict[str, Any], extra: int) -> int:
        """Warm-up beyond the plan to reckon with, now that the number of steps is known."""
        available, others = int(short["decode_steps"]), int(short["interruptions"])
        if others and available == self._state.available:
            raise CollectError(
                f"the script makes {available} decode steps, but {others} other calls come"
                " between them: too few follow each other",
                "record a part that only decodes, or define build() (collectors/README.md)",
            )
        # Where the smaller plan did not fit either, the compiler took more steps again.
        again = extra + 4 if self._state.available else 0
        self._state.available = available
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
        if not any(item.run for item in of_point):
            error = left.error(partial)
            self._died(mode, repeat, point, code, error, seconds)
            return "died"
        failure = next((run["failure"] for item in of_point if (run := item.run)["failure"]), None)
        if failure is not None and failure["kind"] == "self_compiled":
            state.as_is_reason = failure["reason"]
            return "self_compiled"
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
        verdict = self._blame.of_death(point.batch, seconds) if code else None
        told = f"{ended}; {verdict.sentence}" if verdict else ended
        say(f"  {mode}: {told}" + ("" if code else " (os._exit?)"))
        self._note(mode, repeat, point, "died", exit_code=code, reason=told)
        ours = verdict is not None and verdict.outcome == "runs"
        self._state.exit_code = FAILED if ours or not code else code
        self._state.stop = True

    def _publish(self, mode: str, repeat: int, of_point: list[left.Recording], code: int) -> None:
        final = self._root.cell(of_point[0].point, mode, repeat)
        left.publish(of_point, final)
        runs = [item.run for item in of_point if item.run]
        failures = [run["failure"]["reason"] for run in runs if run["failure"]]
        reason = failures[0] if failures else None
        notes = [(run.get("piecewise") or {}).get("note") for run in runs]
        for text in (reason, *dict.fromkeys(notes)):
            if text:
                say(f"  {mode}: {text}")
        self._note(
            mode,
            repeat,
            of_point[0].point,
            left.status_of(of_point),
            path=self._root.relative(final),
            exit_code=code,
            reason=reason,
            ranks=[item.rank for item in of_point if item.run and item.rank is not None],
        )

    def _note(
        self,
        mode: str,
        repeat: int,
        point: Point,
        status: str,
        *,
        path: str | None = None,
        exit_code: int | None = None,
        reason: str | None = None,
        ranks: list[int] | None = None,
    ) -> None:
        self._state.cells.append(
            {
                "mode": mode,
                "repeat": repeat,
                "point": point.to_json(),
                "status": status,
                "path": path,
                "exit_code": exit_code,
                "reason": reason,
                "ranks": ranks or None,
            }
        )

    def _process(self, mode: str, repeat: int, batch: int | None, partial: str, plan: Plan) -> int:
        """Run one cell to its end; its exit code, 128 + n for signal n."""
        target = self._request.target
        # Outputs are compared between the modes of one batch size.
        scratch = os.path.join(self._scratch, Point(batch).folder)
        reason = self._state.as_is_reason
        spec = {
            "name": self._request.name,
            "mode": mode,
            "repeat": repeat,
            "entry": self._request.entry,
            "target": dataclasses.asdict(target),
            "options": self._options.to_json(),
            "plan": dataclasses.asdict(plan),
            "folder": os.path.abspath(partial),
            "batch": batch,
            "scratch": scratch,
            "notes": [reason] if reason else [],
        }
        os.makedirs(scratch, exist_ok=True)
        spec_path = os.path.join(os.path.abspath(partial), left.WORD, "cell.json")
        files.write_json(spec_path, spec)
        words = target.command(os.path.join(_HERE, "__main__.py"), "--cell", spec_path)
        job = Job(words, _environment(self._root.cache_dir))
        return self._runner.run(job, self._status.tick)


def _ran_on_cpu(run: Any) -> bool:
    return run is not None and run["status"] == "ok" and run["device"]["type"] == "cpu"


def _environment(cache_dir: str | None) -> dict[str, str]:
    # Kineto's own progress lines would end up in the script's output.
    cache = {"TORCHINDUCTOR_CACHE_DIR": cache_dir} if cache_dir else {}
    return {"KINETO_LOG_LEVEL": os.environ.get("KINETO_LOG_LEVEL", "99"), **cache}
