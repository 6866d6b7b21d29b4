"""One process: one mode, one repeat. Runs the user's script and leaves run.json behind.

What the orchestrator reads afterwards from the folder: `run.json` (a recording, or a mode that
cannot work), `short.json` (too few decode steps for the plan), or `error.json` (gaptrace's fault).
"""

from __future__ import annotations

import json
import os
import random
import runpy
import sys
import traceback
import types
from dataclasses import dataclass
from typing import Any

import torch

from gaptrace_collectors import folder as files
from gaptrace_collectors import manifest, own_compile
from gaptrace_collectors.build_run import BuildRun, call_build, source_path
from gaptrace_collectors.cell_info import CellInfo, script_folder
from gaptrace_collectors.cudagraph_trees import overwritten_output
from gaptrace_collectors.device import Device
from gaptrace_collectors.facts import personal_texts
from gaptrace_collectors.failing import FAILED, INTERRUPTED
from gaptrace_collectors.failure import (
    Evidence,
    Failure,
    RecorderError,
    StopScript,
    first_line,
    own_frames_removed,
    where_of_error,
    writing,
)
from gaptrace_collectors.left import RUN, SHORT, WORD
from gaptrace_collectors.lockstep import failure_of
from gaptrace_collectors.modes import MODES
from gaptrace_collectors.options import Options
from gaptrace_collectors.outputs import Outputs
from gaptrace_collectors.plan import Plan
from gaptrace_collectors.points import BATCH, with_batch
from gaptrace_collectors.profiling import EXECUTION_TRACE, TIMES, TRACE, rewrite_trace
from gaptrace_collectors.progress import Progress
from gaptrace_collectors.ranks import Ranks, rank_of
from gaptrace_collectors.script_run import ScriptRun
from gaptrace_collectors.targets import Target, defines_build

# One waits for the others this many times as long as a phase may take.
_PATIENCE = 5


@dataclass
class _UserCode:
    """How the user's code inside the `with` block ended: its exit code, its exception.

    What is the recorder's own passes through, and so does Ctrl-C.
    """

    code: int = 0
    error: BaseException | None = None
    stopped: bool = False

    def __enter__(self) -> _UserCode:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> bool:
        if error is None:
            return True
        if isinstance(error, (RecorderError, KeyboardInterrupt)):
            return False
        if isinstance(error, StopScript):
            self.stopped = True
        elif isinstance(error, SystemExit):
            self.code = _exit_code(error)
        else:
            self.code, self.error = 1, error
        return True


def main(spec_path: str, more: list[str]) -> int:
    """Run the cell that a specification file describes; the process's exit code.

    `more`: arguments that a launcher adds in front of the script's own.
    """
    with open(spec_path, encoding="utf-8") as file:
        spec = json.load(file)
    spec["target"]["args"] = [*more, *spec["target"]["args"]]
    cell = Cell(spec)
    try:
        return cell.run()
    except RecorderError as error:
        try:
            files.write_error(cell.info.folder, error.message, error.hint)
        except OSError:  # a full disk, say, which may be what the error is about
            sys.stderr.write(f"gaptrace: error: {error.message}\ngaptrace: hint: {error.hint}\n")
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED  # what is recorded already is whole
    finally:
        if os.getpid() == cell.pid:
            cell.info.ranks.end()


class Cell:
    """One recording, from its specification to its run.json."""

    def __init__(self, spec: dict[str, Any]) -> None:
        target = Target(
            spec["target"]["kind"],
            spec["target"]["value"],
            with_batch(tuple(spec["target"]["args"]), spec["batch"]),
            tuple(spec["target"]["python"]) or (sys.executable,),
            tuple(spec["target"]["launcher"]),
        )
        entry = spec["entry"]
        use_path_of(target)
        if entry == "auto":
            entry = "build" if defines_build(source_path(target)) else "script"
        options = Options.from_json(spec["options"])
        word = os.path.join(spec["folder"], WORD)
        ranks = Ranks(rank_of(os.environ), word, _PATIENCE * options.max_seconds)
        folder = os.path.join(spec["folder"], ranks.folder) if ranks.several else spec["folder"]
        scratch = os.path.join(spec["scratch"], ranks.folder)
        for place in (folder, scratch):
            os.makedirs(place, exist_ok=True)
        self.info = CellInfo(
            name=spec["name"],
            mode=MODES[spec["mode"]],
            repeat=spec["repeat"],
            entry=entry,
            target=target,
            options=options,
            plan=Plan(**spec["plan"]),
            folder=folder,
            batch=spec["batch"],
            ranks=ranks,
            progress=Progress("" if ranks.number else os.path.join(word, "progress")),
        )
        self._notes: list[str] = spec["notes"]
        self._switch_off: bool = spec["switch_off"]
        self._batch_in_arguments = any(BATCH in word for word in spec["target"]["args"])
        self._device = Device()
        self._outputs = Outputs(scratch, self.info.mode, self.info.repeat)
        self._written: dict[str, dict[str, Any]] = {}  # the manifests, by folder
        self._run: ScriptRun | BuildRun | None = None
        self.pid = os.getpid()

    def run(self) -> int:
        """Run the script and write the manifest; the exit code that the script would have had."""
        sys.argv = [self.info.target.value, *self.info.target.args]
        random.seed(self.info.options.seed)
        torch.manual_seed(self.info.options.seed)
        self.info.ranks.watch(self._stuck)
        ended = self._run_build() if self.info.entry == "build" else self._run_script()
        if os.getpid() != self.pid:  # a fork of the script came to its end
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(ended.code)
        self._note_end(ended)
        if self.info.ranks.failure() is not None:
            # What torch does with its process groups at the exit waits for ranks that have left.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(ended.code)
        return ended.code

    # --- the two ways in -----------------------------------------------------------------------

    def _run_build(self) -> _UserCode:
        run = self._run = BuildRun(self.info, self._device, self._outputs)

        with _UserCode() as ended:
            build = namespace(self.info.target, "__gaptrace__").get("build")
            if build is None:
                raise RecorderError(f"{self.info.target.value} defines no build()")
            step = call_build(build, self.info.batch, in_arguments=self._batch_in_arguments)
            self._done(run.run(step))
        return ended

    def _run_script(self) -> _UserCode:
        if self.info.batch is not None and not self._batch_in_arguments:
            raise RecorderError(
                "the workload takes no batch size", "write {batch} where its argument goes"
            )
        if self._switch_off:
            own_compile.switch_off()
            self._notes.append(own_compile.NOTE)
        run = self._run = ScriptRun(self.info, self._device, self._outputs, self._done)
        run.install()
        os.register_at_fork(after_in_child=run.leave)
        with _UserCode() as ended:
            namespace(self.info.target, "__main__")
        run.discovery.remove()
        recorder = run.recorder
        if self._written or ended.error is not None or os.getpid() != self.pid:
            return ended
        if recorder is not None and recorder.timed_after_enough:
            recorder.finish_timing()
            self._done(None)
        elif run.step.decode_steps_seen == 0:
            raise RecorderError(
                f"no decode step was found; {run.discovery.explanation()}",
                run.discovery.hint(),
            )
        else:
            short = {
                "decode_steps": run.step.decode_steps_seen,
                "interruptions": run.interruptions,
                "between": run.between(),
                "passed": run.passed(),
                "extra_warmup": 0 if recorder is None else recorder.extra_warmup,
            }
            with writing(self.info.folder):
                files.write_json(os.path.join(self.info.folder, SHORT), short)
        return ended

    # --- writing -------------------------------------------------------------------------------

    def _done(self, failure: Failure | None) -> None:
        ranks = self.info.ranks
        ranks.notice()
        if failure is not None and ranks.several:
            # A mode that cannot work on one rank is recorded on none.
            failure = failure_of(ranks.fail(failure.to_json()))
        self._write("mode_failed" if failure else "ok", failure)

    def _stuck(self) -> None:
        """Another rank has left, and this one waits for it in a collective: leave as well."""
        said = self.info.ranks.failure()
        if self._run is not None and said is not None and not self._written:
            self._write("mode_failed", failure_of(said))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    def _write(self, status: str, failure: Failure | None) -> None:
        """Leave the recording as it is to be kept, whatever becomes of the script after it."""
        run = self._run
        assert run is not None
        for measurement in run.measurements:
            made = manifest.build(
                self.info,
                self._device,
                run.step,
                run.recorder,
                measurement,
                manifest.Outcome(status, failure, list(dict.fromkeys((*self._notes, *run.notes)))),
            )
            if self.info.options.redact:
                self._redact_files(measurement.folder)
            trace = os.path.join(measurement.folder, TRACE)
            if made["profiled"] and os.path.exists(trace):
                made["profiled"]["trace_bytes"] = os.path.getsize(trace)
            self._written[measurement.folder] = made
        self._save()

    def _save(self) -> None:
        for folder, made in self._written.items():
            if self.info.options.redact:
                made = manifest.redact(made, self.info.target)
            with writing(folder):
                files.write_json(os.path.join(folder, RUN), made)

    def _note_end(self, ended: _UserCode) -> None:
        """Put the script's end into the manifest, and show its traceback as Python would."""
        said = self.info.ranks.failure() if ended.error and not self._written else None
        if said is not None:
            # The error comes of the rank that left, which knows why it did.
            self._done(failure_of(said))
            ended.code, ended.error, ended.stopped = 0, None, True
        error = ended.error
        # What the mode did to the script is not the script's error: it was left, and that is all.
        blamed = overwritten_output(error) if error and self.info.mode.has_trees else None
        if blamed is not None:
            ended.code, ended.stopped = 0, True
        elif error is not None:
            shown = own_frames_removed(error.__traceback__)
            traceback.print_exception(type(error), error, shown)
        run = self._run
        assert run is not None
        if not self._written and error is not None and run.recorder is not None:
            enough = run.recorder.timed_after_enough
            run.recorder.finish_timing()
            if enough:  # the script fell over behind everything that was to be measured
                self._done(None)
        if not self._written and blamed is not None:
            self._done(blamed)
        if not self._written and error is not None:
            failure = Failure(
                "script_error",
                f"the script raised before the recording was complete: {first_line(error)}",
                (Evidence(type(error).__name__, where_of_error(error)),),
            )
            self._write("script_failed", failure)
        for made in self._written.values():
            made["script"]["exit_code"] = None if ended.stopped else ended.code
            made["script"]["error"] = None if error is None else first_line(error)
            made["step"]["decode_steps_seen"] = run.step.decode_steps_seen
            made["step"]["prefill_calls_seen"] = run.step.prefill_calls_seen
        self._save()

    def _redact_files(self, folder: str) -> None:
        texts = personal_texts(script_folder(self.info.target))
        for name in (TRACE, TIMES, EXECUTION_TRACE):
            path = os.path.join(folder, name)
            if os.path.exists(path):
                with writing(folder):
                    rewrite_trace(path, texts)


def use_path_of(target: Target) -> None:
    """Make imports find what they would find if Python ran the target itself."""
    first = os.getcwd()
    if target.kind == "script":
        first = os.path.dirname(os.path.realpath(target.value))
    if not sys.path or sys.path[0] != first:
        sys.path.insert(0, first)


def namespace(target: Target, name: str) -> dict[str, Any]:
    """The globals of the script or module after running it under the module name `name`."""
    if target.kind == "module":
        return runpy.run_module(target.value, run_name=name, alter_sys=name == "__main__")
    module = types.ModuleType(name)
    module.__file__ = target.value
    module.__dict__["__builtins__"] = __builtins__
    # Left in place: classes, pickling and Dynamo look their globals up by module name.
    sys.modules[name] = module
    with open(target.value, "rb") as file:
        code = compile(file.read(), target.value, "exec")
    exec(code, module.__dict__)
    return module.__dict__


def _exit_code(error: SystemExit) -> int:
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    sys.stderr.write(f"{code}\n")
    return 1
