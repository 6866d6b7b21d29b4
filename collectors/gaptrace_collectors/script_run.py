"""Script mode: an unmodified script, whose decode step is one call of one module."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from gaptrace_collectors import hf
from gaptrace_collectors.captures import CAPTURES
from gaptrace_collectors.cell_info import CellInfo, StepFacts
from gaptrace_collectors.decode_call import Call, read_call
from gaptrace_collectors.discover import Discovery, compiled_by_script, wrap
from gaptrace_collectors.failure import Failure, ModeFailureError, StopScript
from gaptrace_collectors.hygiene import dynamo_frames
from gaptrace_collectors.modes import AS_IS, EAGER, GRAPH
from gaptrace_collectors.recorder import Handler, Measurement, Recorder
from gaptrace_collectors.runners import Runner, module_runner
from gaptrace_collectors.steadiness import Observation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gaptrace_collectors.device import Device
    from gaptrace_collectors.outputs import Outputs


SWITCHED_OFF = "Hugging Face's automatic compilation was switched off for this mode"
THREADS = "decode calls ran in another thread while one was being recorded: not recorded"
CAPTURING = "decode calls were made while a CUDA graph was captured: not recorded"
BATCHES = "decode calls had another batch size than {}: not recorded"


class _ModuleSubject:
    """The module and the objects passed to it, as what is observed."""

    entry = "script"
    can_reset = False
    can_seek = False

    def __init__(self, module: nn.Module | None, call: Callable[..., Any]) -> None:
        self._module = module
        self._named_like = call

    def observation(self) -> Observation:
        return Observation(self._module, "module")

    def named_like(self) -> Callable[..., Any]:
        return self._named_like

    def reset(self) -> None:
        """A script goes on by itself."""

    def seek(self, length: int) -> None:
        """A script cannot be sent anywhere."""

    def kv_bytes(self) -> int | None:
        """A script does not say."""
        return None


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
        self._subject: _ModuleSubject | None = None
        self._recording = threading.Lock()
        self._passed: Counter[str] = Counter()  # what was not recorded, by why
        self._switched_off = False
        self.interruptions = 0  # calls between decode steps that were none

    def install(self) -> None:
        """Start watching; to be called before the script starts."""
        CAPTURES.install()
        self.discovery.install()
        if self._info.mode is AS_IS:
            hf.watch_automatic_compilation(self._found_automatic)
        else:
            hf.switch_off_automatic_compilation(self._note_switched_off)

    def _note_switched_off(self) -> None:
        self._switched_off = True

    @property
    def notes(self) -> list[str]:
        """What whoever reads the recording has to know."""
        counted = [f"{count} {why}" for why, count in self._passed.items()]
        return [SWITCHED_OFF, *counted] if self._switched_off else counted

    # --- found ---------------------------------------------------------------------------------

    def _found(self, module: nn.Module, call: Call) -> None:
        self.step.prefill_calls_seen = self.discovery.prefill_calls
        compiled_by = compiled_by_script(module)
        if compiled_by and self._info.mode is not AS_IS:
            self._finish(_self_compiled(compiled_by))
        inner = module._compiled_call_impl or module._call_impl
        device = next((t.device for t in (*module.parameters(), *module.buffers())), None)
        self._device.begin(device)
        self._describe(module, call)
        try:
            runner = module_runner(
                module, self._info.mode, self._device, self._info.options, self.step.tokens
            )
        except ModeFailureError as error:
            self._finish(error.failure)
            return
        self._begin(runner, _ModuleSubject(module, module.forward), inner)
        wrap(module, self._decode_or_prefill)

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
        runner = Runner(compiled)
        self._begin(runner, _ModuleSubject(module, module.forward), module)
        return self._decode_or_prefill

    def _found_replay(self, graph: Any) -> None:
        """The script replays a graph of its own: each replay is a decode step."""
        if self._info.mode is not AS_IS:
            self._finish(_self_compiled("its own CUDA graph"))
        self._device.begin(None)
        self.step.call = "CUDAGraph.replay"
        self.step.tokens_source = "assumed: one per replay"
        replay = torch.cuda.CUDAGraph.replay
        self._begin(Runner(replay), _ModuleSubject(None, replay), replay)

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
            self._describe_call(call)

    def _describe_call(self, call: Call) -> None:
        self.step.tokens = self.step.batch = call.sequences
        self.step.call = f"{call.sequences} x {call.length} tokens in {call.where}"

    def _begin(self, runner: Runner, subject: _ModuleSubject, prefill: Callable[..., Any]) -> None:
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
        self._phases = self.recorder.phases()

    def _check_done(self) -> None:
        if self._info.mode in (EAGER, GRAPH) and dynamo_frames() > 0:
            raise ModeFailureError(_self_compiled("torch.compile on a part of the step"))

    # --- each call -----------------------------------------------------------------------------

    def _decode_or_prefill(self, *args: Any, **kwargs: Any) -> Any:
        if CAPTURES.under_way:
            self._passed[CAPTURING] += 1
            return self._pass_by(args, kwargs)
        recording = self._recording  # a fork in here gets another
        if not recording.acquire(blocking=False):
            self._passed[THREADS] += 1
            return self._pass_by(args, kwargs)
        try:
            call = read_call(args, kwargs, last_numel=self.step.batch)
            if call is None or not call.is_decode:
                self.step.prefill_calls_seen += 1
                return self._pass_by(args, kwargs)
            if self.step.batch is None:
                self.step.tokens = self.step.batch = call.sequences
            elif call.sequences != self.step.batch and self.step.decode_steps_seen == 1:
                # One call alone was taken for a step: it was a prompt laid out as [length, batch].
                self.step.decode_steps_seen = 0
                self.step.prefill_calls_seen += 1
                self._describe_call(call)
                self._record()
            elif call.sequences != self.step.batch:
                self._passed[BATCHES.format(self.step.batch)] += 1
                return self._pass_by(args, kwargs)
            return self._decode(args, kwargs)
        finally:
            recording.release()

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
            if handler is not None:
                return handler(runner, args, kwargs)
        except ModeFailureError as error:
            self._finish(error.failure)
        self._finish(None)
        return runner(*args, **kwargs)

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


def _self_compiled(how: str) -> Failure:
    return Failure(
        "self_compiled",
        f"the script compiles or captures by itself ({how})",
    )
