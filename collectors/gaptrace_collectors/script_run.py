"""Script mode: an unmodified script, whose decode step is one call of one module."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from gaptrace_collectors import hf
from gaptrace_collectors.bytes_read import COMPILED_BY_SCRIPT, ReadsObserver
from gaptrace_collectors.captures import CAPTURES
from gaptrace_collectors.cell_info import CellInfo, StepFacts
from gaptrace_collectors.decode_call import Call, StepReader
from gaptrace_collectors.discover import CALL, Discovery, Found, wrap
from gaptrace_collectors.enclosing import larger_module
from gaptrace_collectors.failure import Failure, ModeFailureError, StopScript
from gaptrace_collectors.measurement import Handler, Measurement
from gaptrace_collectors.modes import AS_IS, EAGER, GRAPH, recorded_as_is
from gaptrace_collectors.recorder import Recorder
from gaptrace_collectors.runners import Runner, module_runner
from gaptrace_collectors.script_compiles import compiled_by_script, replays_within
from gaptrace_collectors.script_subject import (
    ASSISTED,
    BATCHES,
    BESIDE,
    CAPTURED,
    CAPTURING,
    FROM_HUGGING_FACE,
    PART,
    SWITCHED_OFF,
    THREADS,
    ModuleSubject,
    describe_call,
    self_compiled,
)
from gaptrace_collectors.situations import MOST_AT_ONCE
from gaptrace_collectors.step_reads import SEES_COMPILED_PARTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gaptrace_collectors.device import Device
    from gaptrace_collectors.outputs import Outputs


class ScriptRun:
    """Finds the decode step while the script runs, and hands each one to the recorder.

    `on_done(failure)` is called once: when everything is measured, or when the mode has failed.
    """

    def __init__(
        self,
        info: CellInfo,
        device: Device,
        outputs: Outputs,
        on_done: Callable[[Failure | None], None],
    ) -> None:
        self.step = StepFacts(tokens_source="the call: one per sequence")
        self.recorder: Recorder | None = None
        self.measurements = [Measurement(info.folder)]
        self.discovery = Discovery(self._found, self._found_replay)
        self._info = info
        self._device = device
        self._outputs = outputs
        self._on_done = on_done
        self._phases: Iterator[Handler] | None = None
        self._runner: Runner | None = None
        self._prefill: Callable[..., Any] | None = None
        self._done = False
        self._subject: ModuleSubject | None = None
        self._recording = threading.Lock()
        self._passed: Counter[str] = Counter()  # what was not recorded, by why
        self._lengths: Counter[int] = Counter()  # of calls that were no decode steps
        self._reader: StepReader | None = None
        self._checked = False
        self._unwrap: Callable[[], None] = lambda: None
        self._notes: list[str] = []
        self.interruptions = 0  # calls between decode steps that were none

    def install(self) -> None:
        """Start watching; to be called before the script starts."""
        CAPTURES.install()
        self.discovery.install()
        if self._info.mode is AS_IS:
            hf.watch_automatic_compilation(self._found_automatic)
        else:
            hf.switch_off_automatic_compilation(self._note_switched_off)
        hf.watch_assisted_generation(self.discovery.situations)

    def _note_switched_off(self) -> None:
        self._note(SWITCHED_OFF)

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)

    @property
    def notes(self) -> list[str]:
        """What whoever reads the recording has to know."""
        beside = self.discovery.compiles.beside(self.step.model)
        more = [BESIDE.format(beside)] if beside and not self.step.compiled_by else []
        return [*self._notes, *more, *self.passed()]

    def passed(self) -> list[str]:
        """Decode calls that were no steps of the recording, and why."""
        return [f"{count} {why}" for why, count in self._passed.items()]

    def between(self) -> str:
        """What the calls between decode steps feed, where they are many and short."""
        few = [length for length in self._lengths if 1 < length <= MOST_AT_ONCE]
        if not few or 2 * self.interruptions < self.step.decode_steps_seen:
            return ""
        usual = f"{min(few)} to {max(few)}" if len(few) > 1 else str(few[0])
        return f", most of them of {usual} tokens (prompts, prompt lookup or other speculation)"

    # --- found ---------------------------------------------------------------------------------

    def _found(self, found: Found) -> None:
        module, method = found.module, found.method
        self.step.prefill_calls_seen = self.discovery.prefill_calls
        self._reader = found.reader
        compiles = self.discovery.compiles
        how = compiled_by_script(module) or compiles.inside(module)
        if found.compiled is not None:
            how = f"torch.compile on {found.compiled.__name__}"
        self._compiled_by(how)
        device = next((t.device for t in (*module.parameters(), *module.buffers())), None)
        self._device.begin(device)
        larger = larger_module(module)
        if larger is not None:
            self._note(PART.format(type(module).__name__, type(larger).__name__))
        self._describe(module, found.call)
        if found.compiled is not None:
            self._begin_compiled(found.compiled)
            return
        if method == CALL:
            call = module._compiled_call_impl or module._call_impl
            named_like = module.forward
        else:
            call = named_like = getattr(module, method)
            self.step.call = f"{self.step.module}.{method}: {self.step.call}"
        before = module._compiled_call_impl
        try:
            runner = module_runner(
                module,
                self._info.mode,
                self._device,
                self._info.options,
                found.call.sequences,
                call,
            )
        except ModeFailureError as error:
            self._finish(error.failure)
            return
        self._begin(runner, ModuleSubject(module, named_like), call)
        unwrap = wrap(module, self._decode_or_prefill, method)

        def undo() -> None:
            unwrap()
            module.__dict__["_compiled_call_impl"] = before

        self._unwrap = undo

    def _begin_compiled(self, compiled: Callable[..., Any]) -> None:
        """The step is a function that the script compiled: it is recorded where it is called."""

        def outermost(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if function is compiled:
                return self._decode_or_prefill(*args, **kwargs)
            return function(*args, **kwargs)

        self.step.call = f"{compiled.__name__}(), compiled by the script: {self.step.call}"
        self._begin(Runner(compiled), ModuleSubject(self.step.model, compiled), compiled)
        self.discovery.compiles.outermost = outermost

    def _compiled_by(self, how: str) -> None:
        """The step's own code is compiled or captured by the script: leave, or say so."""
        if not how:
            return
        self.step.compiled_by = how
        if self._info.mode is not AS_IS:
            self._finish(self_compiled(how))
        self._note(recorded_as_is(self_compiled(how).reason))

    def _found_automatic(
        self, module: nn.Module, make: Callable[[], Callable[..., Any]]
    ) -> Callable[..., Any]:
        """`generate` is about to compile its forward call: record that call instead."""
        self.discovery.remove()
        compiled = make()
        if self._runner is not None:
            return self._decode_or_prefill
        self._device.begin(next((t.device for t in module.parameters()), None))
        self._describe(module, None)
        self.step.call = "Hugging Face generate, compiled by itself"
        self._compiled_by(FROM_HUGGING_FACE)
        runner = Runner(compiled)
        self._begin(runner, ModuleSubject(module, module.forward), module)
        return self._decode_or_prefill

    def _found_replay(self, graph: Any) -> None:
        """The script replays a graph of its own: each replay is a decode step."""
        self._compiled_by("its own CUDA graph")
        self._device.begin(None)
        self.step.call = "CUDAGraph.replay"
        self.step.tokens_source = "assumed: one per replay"
        replay = torch.cuda.CUDAGraph.replay
        self._begin(Runner(replay), ModuleSubject(None, replay), replay)

        def recorded(self_graph: Any) -> None:
            if self_graph is graph and not CAPTURES.under_way:
                self._decode((self_graph,), {})
            else:
                replay(self_graph)

        torch.cuda.CUDAGraph.replay = recorded

    def _describe(self, module: nn.Module, call: Call | None) -> None:
        self.step.module = type(module).__name__
        self.step.model = module
        if call is not None:
            describe_call(self.step, call, self._note)

    def _begin(self, runner: Runner, subject: ModuleSubject, prefill: Callable[..., Any]) -> None:
        self._runner = runner
        self._prefill = prefill
        self._subject = subject
        self._record()

    def _record(self) -> None:
        """Begin with the first phase."""
        assert self._runner is not None
        assert self._subject is not None
        self.recorder = Recorder(
            self._subject, self._runner, self._device, self._info, self.measurements, self._outputs
        )
        self.recorder.on_check_done = self._check_done
        self.recorder.reads = self._reads()
        self._phases = self.recorder.phases()

    def _reads(self) -> ReadsObserver | None:
        assert self._prefill is not None
        assert self._subject is not None
        model = self.step.model
        if model is None:
            return None
        named_like = self._subject.named_like()
        reads = ReadsObserver(model, model, "module", named_like, self._prefill, self._device)
        reads.why_not = self._why_not_read()
        return reads

    def _why_not_read(self) -> str:
        """Why no step may be run with its reads counted."""
        if self.step.compiled_by:
            return COMPILED_BY_SCRIPT
        model = self.step.model
        if SEES_COMPILED_PARTS or model is None:
            return ""
        return self.discovery.compiles.library_inside(model) and "a library compiles a part of it"

    def _check_done(self) -> None:
        self._checked = True
        model = self.step.model
        how = "" if model is None else self.discovery.compiles.inside(model)
        if self._info.mode in (EAGER, GRAPH) and how:
            raise ModeFailureError(self_compiled(how))
        if self._info.mode is AS_IS and not self.step.compiled_by:
            self._compiled_by(how)

    # --- each call -----------------------------------------------------------------------------

    def _decode_or_prefill(self, *args: Any, **kwargs: Any) -> Any:
        # A capture of this very call begins the search anew, below; another must not be disturbed.
        if CAPTURES.under_way and not CAPTURES.here:
            self._passed[CAPTURING] += 1
            return self._pass_by(args, kwargs)
        recording = self._recording  # a fork in here gets another
        if not recording.acquire(blocking=False):
            self._passed[THREADS] += 1
            return self._pass_by(args, kwargs)
        try:
            if CAPTURES.here:
                return self._captured_by_script(args, kwargs)
            if self.discovery.situations.assisted:
                self._passed[ASSISTED] += 1
                return self._pass_by(args, kwargs)
            call = self._read(args, kwargs)
            if call is None or not call.is_decode:
                self.step.prefill_calls_seen += 1
                self._lengths[0 if call is None else call.length] += 1
                return self._pass_by(args, kwargs)
            if self.step.batch is None:
                describe_call(self.step, call, self._note)
            elif call.sequences != self.step.batch and self.step.decode_steps_seen == 1:
                # One call alone was taken for a step: it was a prompt laid out as [length, batch].
                self.step.decode_steps_seen = 0
                self.step.prefill_calls_seen += 1
                self.step.call = None
                describe_call(self.step, call, self._note)
                self._record()
            elif call.sequences != self.step.batch:
                self._passed[BATCHES.format(self.step.batch)] += 1
                return self._pass_by(args, kwargs)
            return self._decode(args, kwargs)
        finally:
            recording.release()

    def _captured_by_script(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The script captures this call: those before it warmed up for it. Look for steps anew."""
        assert self._prefill is not None
        call = self._prefill
        if not self._checked and self.step.compiled_by != FROM_HUGGING_FACE:
            self._unwrap()
            self.step = StepFacts(tokens_source=self.step.tokens_source)
            self.recorder = self._runner = self._phases = None
            self._notes.clear()
            self.discovery.install()
        else:
            self._passed[CAPTURED] += 1
            if self.recorder is not None:
                self.recorder.interrupt()
        return call(*args, **kwargs)

    def _read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        """What a call feeds. One of two tokens behind a first of one: nothing was cached."""
        if self._reader is None:
            self._reader = StepReader(Call(1, 1, ""))
        call = self._reader.read(args, kwargs, self.step.batch)
        first = self._reader.call
        alone = self.step.decode_steps_seen == 1 and not first.grows and not first.packed
        if call is None or not alone or call.sequences != first.sequences or call.length != 2:
            return call
        call = call._replace(grows=True)
        self._reader = StepReader(call)
        self.step.decode_steps_seen = 0
        self.step.prefill_calls_seen += 1
        self.step.call = None
        describe_call(self.step, call, self._note)
        self._record()
        return call

    def _pass_by(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that is no step of this recording: as the script would have it."""
        assert self._prefill is not None
        if self.recorder is not None:
            self.recorder.interrupt()
            self.interruptions += 1
        return self._prefill(*args, **kwargs)

    def leave(self) -> None:
        """Record nothing more, whatever the script goes on to do."""
        self._done = True
        self._phases = None
        self._recording = threading.Lock()
        self.discovery.remove()

    def _decode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        runner = self._runner
        assert runner is not None
        self.step.decode_steps_seen += 1
        if self._done or self._phases is None:
            return runner(*args, **kwargs)
        try:
            handler = next(self._phases, None)
            if handler is not None and self._checked:
                return handler(runner, args, kwargs)
            if handler is not None:
                with self._watched():
                    return handler(runner, args, kwargs)
        except ModeFailureError as error:
            self._finish(error.failure)
        self._finish(None)
        return runner(*args, **kwargs)

    def _watched(self) -> contextlib.AbstractContextManager[Any]:
        """Notes what the script compiles or replays within a step that is checked."""
        model, mode = self.step.model, self._info.mode
        if model is None or mode not in (EAGER, GRAPH, AS_IS):
            return contextlib.nullcontext()
        watching = contextlib.ExitStack()
        watching.enter_context(self.discovery.compiles.within(id(model)))
        if mode is not GRAPH:  # whose replays are the recorder's own
            watching.enter_context(replays_within(self.discovery.compiles))
        return watching

    def _finish(self, failure: Failure | None) -> None:
        """Hand over; leave the script where the mode failed or nothing more is wanted."""
        self._done = True
        self.discovery.remove()
        self._on_done(failure)
        if failure is None and not self._info.options.stop_when_done:
            return
        # An exit raised in a thread would end it alone, and the script would wait for it. Where
        # there are ranks, the script's way out may lead through a collective that they do not join.
        alone = failure is None or not self._info.ranks.several
        if threading.current_thread() is not threading.main_thread() or not alone:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        raise StopScript
