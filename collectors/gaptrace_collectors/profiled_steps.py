"""The steps under the profiler: recorded in full, lightly, or once each way."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from gaptrace_collectors.measurement import plain
from gaptrace_collectors.modes import EAGER
from gaptrace_collectors.options import BOTH, FULL, LIGHT
from gaptrace_collectors.profiling import (
    TIMES,
    TRACE,
    ProfilerOptions,
    ProfilerSession,
    mark,
    region,
)
from gaptrace_collectors.tensors import named_arguments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gaptrace_collectors.device import Device
    from gaptrace_collectors.measurement import Handler, Measurement, Subject
    from gaptrace_collectors.modes import Mode
    from gaptrace_collectors.options import Options
    from gaptrace_collectors.plan import Plan
    from gaptrace_collectors.runners import Runner
    from gaptrace_collectors.steadiness import Observation


@dataclass
class _Recording:
    """What one profiler session recorded: its files, its complete steps and their host periods."""

    settings: ProfilerOptions
    trace: str = ""
    execution_trace: str | None = None
    complete: int = 0
    host: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)

    @property
    def periods(self) -> list[int]:
        return [b - a for a, b in itertools.pairwise(self.host)]


class Experiment(Protocol):
    """The recorder, as far as profiling asks for it."""

    device: Device
    mode: Mode
    options: Options
    plan: Plan
    runner: Runner
    placed: Observation

    @property
    def subject(self) -> Subject:
        """What is recorded."""

    def go_to(self, steps: int) -> int:
        """Go where `steps` steps fit; how many do."""


class ProfiledSteps:
    """The profiled phase of one measurement."""

    def __init__(self, recorder: Experiment, measurement: Measurement) -> None:
        self._recorder = recorder
        self._measurement = measurement

    def phases(self) -> Iterator[Handler]:
        """One handler per decode step; the sections are there when it is exhausted.

        The light recording comes first: what a full one leaves in the driver slows it down.
        """
        recorder, options = self._recorder, self._recorder.options
        eager = recorder.mode is EAGER
        shapes = eager if options.shapes is None else options.shapes
        full = ProfilerOptions(shapes=shapes, stacks=options.stacks)
        light = None
        if options.trace == LIGHT:
            full = ProfilerOptions(ops=False)
        elif options.trace == BOTH and recorder.plan.light:
            light = _Recording(ProfilerOptions(ops=False))
            yield from self._record(light, TIMES, recorder.plan.light, opens=False)
        main = _Recording(full)
        yield from self._record(main, TRACE, recorder.plan.profiled, opens=eager and full.ops)
        self._keep(main, light)

    def _record(
        self, recording: _Recording, name: str, steps: int, *, opens: bool
    ) -> Iterator[Handler]:
        """An unmarked step, then `steps` complete ones and an open one, with an execution trace
        where it `opens`.
        """
        recorder, extra = self._recorder, self._recorder.plan.profiler_extra
        complete = recording.complete = min(steps, recorder.go_to(extra + steps) - extra)
        buckets = recorder.runner.buckets
        session = ProfilerSession(
            self._measurement.folder, recorder.device, recording.settings, name
        )
        session.prepare()
        yield self._placed
        session.start()
        yield plain
        for number in range(complete):
            recording.host.append(time.perf_counter_ns())
            yield _marked(number)
            if buckets:
                recording.lengths.append(buckets.length)
        recording.host.append(time.perf_counter_ns())
        if opens:
            session.start_execution_trace()
        yield _opened(complete) if opens else _marked(complete)
        if self._measurement.length is not None:  # by now padded to this measurement's bucket
            self._measurement.sections["kv_bytes"] = recorder.subject.kv_bytes()
        recording.trace, recording.execution_trace = session.stop()

    def _keep(self, main: _Recording, light: _Recording | None) -> None:
        timed = light or main
        sections, options = self._measurement.sections, self._recorder.options
        sections["files"] = {
            "trace": main.trace,
            "execution_trace": main.execution_trace,
            "times": None if light is None else light.trace,
        }
        sections["profiled"] = {
            "marks": "gaptrace.step#N",
            "complete": timed.complete,
            "open_step": timed.complete,
            "execution_trace_step": main.complete if main.execution_trace else None,
            "lengths": timed.lengths or None,
            "lead_steps": 1,
            "host_ns": timed.periods,
            "full_host_ns": None if light is None else main.periods,
            "recorded": options.trace if light or options.trace == LIGHT else FULL,
            "shapes": main.settings.shapes,
            "stacks": main.settings.stacks,
        }

    def _placed(self, runner: Runner, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # A growing cache has this size when it is profiled, not the size it had at the check.
        recorder = self._recorder
        recorder.placed.note(named_arguments(recorder.subject.named_like(), args, kwargs))
        return runner(*args, **kwargs)


def _marked(number: int) -> Handler:
    def marked(runner: Runner, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with mark(number):
            return runner(*args, **kwargs)

    return marked


def _opened(number: int) -> Handler:
    """The open step of eager mode: its execution trace says what would be compiled."""

    def opened(runner: Runner, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with mark(number), region(runner.model):
            return runner(*args, **kwargs)

    return opened
