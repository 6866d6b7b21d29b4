"""`collect`: one process per mode and repeat, and the folder that they leave together."""

from __future__ import annotations

import dataclasses
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gaptrace_collectors import COLLECT_SCHEMA, __version__
from gaptrace_collectors import folder as files
from gaptrace_collectors.modes import AS_IS, EAGER
from gaptrace_collectors.options import Request, UsageError, parse
from gaptrace_collectors.plan import Plan, TooFewStepsError, fitted_plan, full_plan
from gaptrace_collectors.points import Point

if TYPE_CHECKING:
    from types import FrameType

FAILED = 125
INTERRUPTED = 130
_GRACE_S = 1.0
# `--cache-dir run`: the Inductor cache travels with the run folder.
CACHE_IN_RUN = "run"
CACHE_FOLDER = "inductor_cache"
_HERE = os.path.dirname(os.path.abspath(__file__))


class CollectError(Exception):
    """gaptrace itself cannot go on: message, hint, exit code 125."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass
class _State:
    """What is known while the cells run."""

    available: int | None = None
    passed: str = ""  # which calls were no steps of the recording
    exit_code: int = 0
    cells: list[dict[str, Any]] = field(default_factory=list)
    stop: bool = False
    complete: bool = False


def main(argv: list[str]) -> int:
    """Run `collect` for a command line (without the program's name); the exit code."""
    try:
        request = parse(argv)
    except UsageError as error:
        _say(f"error: {error}")
        return 2
    signal.signal(signal.SIGTERM, _on_terminate)
    try:
        return Collection(request).run()
    except OSError as error:
        _say(f"error: {error}")
        _say("hint: is the folder there, and may it be written? -o names another")
        return FAILED
    except CollectError as error:
        _say(f"error: {error.message}")
        if error.hint:
            _say(f"hint: {error.hint}")
        return FAILED
    except KeyboardInterrupt:
        _say("interrupted; what was finished has been kept")
        return INTERRUPTED


def _on_terminate(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _say(text: str) -> None:
    sys.stderr.write(f"gaptrace: {text}\n")
    sys.stderr.flush()


class Collection:
    """All cells of one request."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._options = request.options
        self._root = os.path.join(request.out, request.name)
        self._state = _State()
        self._scratch = ""
        self._self_compiled = ""  # why the script is recorded as-is
        self._cache_dir = request.cache_dir and os.path.abspath(request.cache_dir)
        if request.cache_dir == CACHE_IN_RUN:
            self._cache_dir = os.path.abspath(os.path.join(self._root, CACHE_FOLDER))
        elif self._cache_dir:
            _must_be_writable(self._cache_dir)

    def run(self) -> int:
        """Record every mode and repeat; the script's exit code, or 125."""
        aside = self._set_aside()
        try:
            with tempfile.TemporaryDirectory(prefix="gaptrace-") as scratch:
                self._scratch = scratch
                self._cells()
                self._state.complete = not self._state.stop
        except KeyboardInterrupt:
            self._state.exit_code = INTERRUPTED
            raise
        except SystemExit as error:
            self._state.exit_code = int(error.code or 0)
            _say("terminated; what was finished has been kept")
            raise
        finally:
            self._settle(aside)
            self._summary()
        return self._state.exit_code

    # --- folders -------------------------------------------------------------------------------

    def _set_aside(self) -> str | None:
        """Move an older run folder away under --force; it comes back if nothing replaces it."""
        if not os.path.lexists(self._root):
            return None
        if not self._request.force:
            raise CollectError(
                f"{self._root} is already there", "use --force to replace it, or --name another"
            )
        aside = os.path.join(self._request.out, f".{self._request.name}.replaced")
        _remove(aside)
        os.replace(self._root, aside)
        kept = os.path.join(aside, CACHE_FOLDER)
        if self._request.cache_dir == CACHE_IN_RUN and os.path.isdir(kept):
            # The recordings are replaced; what was compiled for them is still true.
            os.makedirs(self._root)
            os.replace(kept, os.path.join(self._root, CACHE_FOLDER))
        return aside

    def _settle(self, aside: str | None) -> None:
        # A script that fails at once, by a slip in its arguments say, replaces no older recording.
        kept = ("ok", "mode_failed") if aside else ("ok", "mode_failed", "script_failed")
        recorded = any(cell["path"] and cell["status"] in kept for cell in self._state.cells)
        for parent, folders, _ in os.walk(self._root):
            for name in [name for name in folders if name.endswith(".partial")]:
                shutil.rmtree(os.path.join(parent, name), ignore_errors=True)
                folders.remove(name)
        for parent, _, _ in os.walk(self._root, topdown=False):
            outside_cache = self._cache_dir is None or not parent.startswith(self._cache_dir)
            if outside_cache and parent != self._root and not os.listdir(parent):
                os.rmdir(parent)
        if recorded:
            self._write_index()
            if aside:
                _remove(aside)
            return
        if aside and os.path.isdir(os.path.join(self._root, CACHE_FOLDER)):
            os.replace(os.path.join(self._root, CACHE_FOLDER), os.path.join(aside, CACHE_FOLDER))
        if aside:
            shutil.rmtree(self._root, ignore_errors=True)
            os.replace(aside, self._root)
            self._state.cells = [{**cell, "path": None} for cell in self._state.cells]
            _say(f"nothing was recorded: {self._root} is what it was before")
        elif os.path.isdir(self._root) and not os.listdir(self._root):
            os.rmdir(self._root)

    def _write_index(self) -> None:
        target = self._request.target
        files.write_json(
            os.path.join(self._root, "collect.json"),
            {
                "schema": COLLECT_SCHEMA,
                "name": self._request.name,
                "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "collector": __version__,
                "script": os.path.basename(target.value) if self._options.redact else target.value,
                "modes": list(self._options.modes),
                "repeats": self._options.repeats,
                "batches": list(self._request.batch),
                "buckets": list(self._options.buckets),
                "cells": self._state.cells,
                "exit_code": self._state.exit_code,
                "complete": self._state.complete,
                "decode_steps_available": self._state.available,
            },
        )

    # --- cells ---------------------------------------------------------------------------------

    def _cells(self) -> None:
        for batch in self._request.batch or (None,):
            self._cells_of(batch)
            if self._state.stop:
                return

    def _cells_of(self, batch: int | None) -> None:
        # Eager first: its logits are what the other modes are compared with.
        modes = sorted(self._options.modes, key=lambda mode: mode != EAGER.id)
        total = len(modes) * self._options.repeats
        number = 0
        at = f" {Point(batch).folder}" if batch else ""
        for mode in modes:
            for repeat in range(1, self._options.repeats + 1):
                number += 1
                outcome = self._cell(mode, repeat, batch, f"[{number}/{total}]{at}")
                if self._state.stop:
                    return
                if outcome == "self_compiled":
                    self._as_is(batch)
                    return
                if outcome == "mode_failed":
                    break  # a mode that cannot work cannot work three times

    def _as_is(self, batch: int | None) -> None:
        _say(self._self_compiled)
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

    def _cell(self, mode: str, repeat: int, batch: int | None, where: str) -> str:
        """Record one cell, again with a smaller plan where the script has too few steps."""
        final = self._folder(Point(batch), mode, repeat)
        extra = 0
        while True:
            plan = self._plan(extra)
            os.makedirs(os.path.dirname(final), exist_ok=True)
            partial = files.partial_of(final)
            _say(f"{where} {mode} {repeat}")
            try:
                code = self._process(mode, repeat, batch, partial, plan)
            except BaseException:
                self._keep_finished(mode, repeat, batch, partial)
                raise
            run = files.read_json(os.path.join(partial, "run.json"))
            short = files.read_json(os.path.join(partial, "short.json"))
            if run is None and short is not None:
                available, others = int(short["decode_steps"]), int(short["interruptions"])
                if others and available == self._state.available:
                    raise CollectError(
                        f"the script makes {available} decode steps, but {others} other calls come"
                        f" between them{short['between']}: too few follow each other",
                        "record a part that only decodes, or define build() (collectors/README.md)",
                    )
                # Where the smaller plan did not fit either, the compiler took more steps again.
                extra = max(int(short["extra_warmup"]), extra + 4 if self._state.available else 0)
                self._state.available = available
                self._state.passed = "".join(f"; {text}" for text in short["passed"])
                _say(f"the script makes {available} decode steps; recording with fewer timed steps")
                continue
            outcome = "died"
            for point, folder in self._recordings(batch, partial):
                run = files.read_json(os.path.join(folder, "run.json"))
                outcome = self._close(mode, repeat, point, folder, run, code)
            if os.path.isdir(partial):  # the buckets' common folder
                shutil.rmtree(partial)
                if not os.listdir(os.path.dirname(final)):
                    os.rmdir(os.path.dirname(final))
            return outcome

    def _keep_finished(self, mode: str, repeat: int, batch: int | None, partial: str) -> None:
        """Publish what an interrupted process had recorded whole, before its script went on."""
        for point, folder in self._recordings(batch, partial):
            run = files.read_json(os.path.join(folder, "run.json"))
            if run is not None and run["status"] == "ok":
                self._close(mode, repeat, point, folder, run, INTERRUPTED)

    def _folder(self, point: Point, mode: str, repeat: int) -> str:
        return os.path.join(self._root, point.folder, mode, str(repeat))

    def _recordings(self, batch: int | None, partial: str) -> list[tuple[Point, str]]:
        """The recordings that one process left: one, or one per bucket."""
        folders = [
            (Point(batch, size), os.path.join(partial, Point(None, size).folder))
            for size in self._options.buckets
        ]
        return [item for item in folders if os.path.isdir(item[1])] or [(Point(batch), partial)]

    def _close(
        self, mode: str, repeat: int, point: Point, partial: str, run: Any, code: int
    ) -> str:
        """Publish what a cell left, and note how it ended."""
        final = self._folder(point, mode, repeat)
        if run is None:
            error = None
            for folder in (partial, os.path.dirname(partial)):
                error = error or files.read_json(os.path.join(folder, files.ERROR))
            shutil.rmtree(partial, ignore_errors=True)
            if error is not None:
                raise CollectError(error["message"], error["hint"])
            ended = f"the process ended with {code} before its recording was whole"
            _say(f"  {mode}: {ended}" + ("" if code else " (os._exit?)"))
            self._note(mode, repeat, point, "died", None, code, ended)
            self._state.exit_code = code if code else FAILED
            self._state.stop = True
            return "died"
        failure = run["failure"]
        if failure is not None and failure["kind"] == "self_compiled":
            shutil.rmtree(partial, ignore_errors=True)
            self._self_compiled = str(failure["reason"])
            return "self_compiled"
        os.makedirs(os.path.dirname(final), exist_ok=True)
        files.publish(partial, final)
        status = str(run["status"])
        reason = failure["reason"] if failure else None
        path = os.path.relpath(final, self._root).replace(os.sep, "/")
        self._note(mode, repeat, point, status, path, code, reason)
        note = (run.get("piecewise") or {}).get("note")
        for text in (reason, note):
            if text:
                _say(f"  {mode}: {text}")
        if code and not self._state.exit_code:
            self._state.exit_code = code
        if status == "script_failed":
            self._state.stop = True
        return status

    def _note(
        self,
        mode: str,
        repeat: int,
        point: Point,
        status: str,
        path: str | None,
        code: int,
        reason: str | None,
    ) -> None:
        self._state.cells.append(
            {
                "mode": mode,
                "repeat": repeat,
                "point": point.to_json(),
                "status": status,
                "path": path,
                "exit_code": code,
                "reason": reason,
            }
        )

    def _process(self, mode: str, repeat: int, batch: int | None, partial: str, plan: Plan) -> int:
        """Run one cell to its end; its exit code, 128 + n for signal n."""
        target = self._request.target
        # Outputs are compared between the modes of one batch size.
        scratch = os.path.join(self._scratch, Point(batch).folder)
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
        }
        os.makedirs(scratch, exist_ok=True)
        spec_path = os.path.join(scratch, f"{mode}-{repeat}.json")
        files.write_json(spec_path, spec)
        command = [*target.python, os.path.join(_HERE, "__main__.py"), "--cell", spec_path]
        with subprocess.Popen(command, env=_environment(self._cache_dir)) as process:
            try:
                code = process.wait()
            except BaseException:
                _end(process)
                raise
        return code if code >= 0 else 128 - code

    # --- what the person sees ------------------------------------------------------------------

    def _summary(self) -> None:
        rows: list[str] = []
        run: dict[str, Any] = {}
        wide = max((len(cell["path"] or "") for cell in self._state.cells), default=0) + 2
        for cell in self._state.cells:
            if not cell["path"]:
                continue
            run = files.read_json(os.path.join(self._root, cell["path"], "run.json")) or {}
            unprofiled = run.get("unprofiled") or {}
            median = unprofiled.get("median_ns")
            if median:
                rate = run["step"]["tokens"] * 1e9 / median
                rows.append(f"  {cell['path']:<{wide}} {median / 1e6:9.3f} ms  {rate:10.1f} tok/s")
            else:
                rows.append(f"  {cell['path']:<{wide}} {cell['status']}: {cell['reason']}")
        if not rows:
            return
        _say("unprofiled step, median:")
        for row in rows:
            sys.stderr.write(row + "\n")
        if self._self_compiled:
            _say(f"only as-is: {self._self_compiled}")
        _say(f"Wrote {self._root}")
        good = [cell for cell in self._state.cells if cell["status"] == "ok"]
        if not good:
            return
        _say(f"next: gaptrace analyze {shlex.quote(self._root)}")
        points = {cell["path"].rsplit("/", 2)[0] for cell in good if cell["point"]}
        accelerated = run.get("device", {}).get("type") != "cpu"
        for one in sorted(points)[:1] or [""]:
            inside = [cell for cell in good if cell["path"].startswith(one)]
            if accelerated and len({cell["mode"] for cell in inside}) > 1:
                where = os.path.join(self._root, one).rstrip(os.sep)
                _say(f"next: gaptrace compare {shlex.quote(where)}")


def _remove(path: str) -> None:
    """Remove a folder, or a link to one without what it leads to."""
    if os.path.islink(path):
        os.unlink(path)
    else:
        shutil.rmtree(path, ignore_errors=True)


def _must_be_writable(folder: str) -> None:
    """Raise CollectError where Inductor could not keep its cache there."""
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise CollectError(
            f"--cache-dir {folder} cannot be made: {error.strerror}", "name a folder of your own"
        ) from error
    if not os.access(folder, os.W_OK):
        raise CollectError(f"--cache-dir {folder} cannot be written", "name a folder of your own")


def _environment(cache_dir: str | None) -> dict[str, str]:
    # Kineto's own progress lines would end up in the script's output.
    cache = {"TORCHINDUCTOR_CACHE_DIR": cache_dir} if cache_dir else {}
    return {"KINETO_LOG_LEVEL": "99", **os.environ, **cache}


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a child after an interrupt: it usually got the same signal, so first just wait."""
    for stop in (None, signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        if stop is not None:
            process.send_signal(stop)
        try:
            process.wait(_GRACE_S if stop is None else 5 * _GRACE_S)
            return
        except subprocess.TimeoutExpired:
            continue
