"""The experiment: what happens at each decode step, from the first check to the last timed one.

The phases are one generator. It is resumed at the entry of every decode step, does what has to be
done between two steps, and yields how the step is to be run. In a timed phase that is one stamp.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from gaptrace_collectors import timing
from gaptrace_collectors.buckets import medians_by_bucket
from gaptrace_collectors.decode_call import tokens_of
from gaptrace_collectors.failure import Evidence, Failure, ModeFailureError
from gaptrace_collectors.lockstep import Lockstep
from gaptrace_collectors.measurement import Handler, Measurement, Subject, plain
from gaptrace_collectors.modes import COMPILED_GRAPH, EAGER
from gaptrace_collectors.power import PowerMeter
from gaptrace_collectors.profiled_steps import ProfiledSteps
from gaptrace_collectors.runners import Runner
from gaptrace_collectors.synchronizations import Synchronizations
from gaptrace_collectors.tensors import named_arguments
from gaptrace_collectors.timing import StepClock
from gaptrace_collectors.warmup import WarmUp

if TYPE_CHECKING:
    from gaptrace_collectors.buckets import Buckets
    from gaptrace_collectors.bytes_read import ReadsObserver
    from gaptrace_collectors.cell_info import CellInfo
    from gaptrace_collectors.device import Device
    from gaptrace_collectors.outputs import Outputs

_MOST_EXTRA_WARMUP = 24
_MOST_PREPARING = 32
_STEADY_CALLS = 3
_FEWEST_TIMED = 5


class Recorder:
    """Drives one process's recordings.

    `shared_sections` are those of run.json that all its measurements have in common, `sections` of
    each measurement the rest.
    """

    def __init__(
        self,
        subject: Subject,
        runner: Runner,
        device: Device,
        info: CellInfo,
        measurements: list[Measurement],
        outputs: Outputs,
    ) -> None:
        self.subject = subject
        self.runner = runner
        self.device = device
        self.options = info.options
        self.plan = info.plan
        self.mode = info.mode
        self.measurements = measurements
        self.shared_sections: dict[str, Any] = {}
        self.warm_up = WarmUp(runner)
        self._before_check = 0
        self.observed = subject.observation()
        self.placed = subject.observation()
        for measurement in measurements:
            measurement.power = PowerMeter(device.index) if device.accelerated else None
        self.on_check_done: Callable[[], None] = lambda: None
        self.reads: ReadsObserver | None = None
        self._outputs = outputs
        self._lockstep = Lockstep(info.ranks)
        self._progress = info.progress
        self._sync = Synchronizations()
        self._clock: StepClock | None = None
        self._clocked: list[int | None] = []  # the bucket of each timed step
        self._measurement = measurements[0]
        self._interrupted = False
        self._returned_ns = 0
        self._met: set[int | None] = set()
        self._phase = "check"

    @property
    def profiled(self) -> bool:
        """Whether the trace has been written."""
        return "files" in self.measurements[-1].sections

    @property
    def timed_after_enough(self) -> bool:
        """Whether enough unprofiled steps were timed behind the profiled ones to keep them."""
        return self.profiled and self._clock is not None and self._clock.periods >= _FEWEST_TIMED

    @property
    def extra_warmup(self) -> int:
        """Warm-up steps beyond the plan, taken because the compiler would not stand still."""
        return max(0, self.warm_up.step - self.plan.warmup)

    def interrupt(self) -> None:
        """Something other than a decode step ran since the last one."""
        self._interrupted = True
        if self._clock is not None:
            self._clock.interrupt()

    def phases(self) -> Iterator[Handler]:
        """One handler per decode step; exhausted when everything has been measured."""
        for handler in self._phases():
            self._lockstep.check()
            self._progress.step()
            yield handler

    def _phases(self) -> Iterator[Handler]:
        yield from self._prepare()
        yield from self._check()
        yield from self._warm_up()
        self.shared_sections["peak_before"] = self.device.peak() or {}
        # Before the profiler comes: what it leaves in the driver makes every launch dearer.
        self.shared_sections["measured"] = self.device.measured()
        self.shared_sections["hooks"] = timing.hook_cost(self.device, self._progress.tell)
        yield from self._synchronizations()
        for measurement in self._each_measurement():
            self.device.reset_peak()
            yield from self._timed("before", self.plan.timed_before)
            measurement.sections["peak_timed"] = self.device.peak()
        for _ in self._each_measurement():
            yield from self._issue()
        for _ in self._each_measurement():
            yield from self._profile()
        for _ in self._each_measurement():
            self.go_to(self.plan.settle + self.plan.timed_after)
            for number in range(self.plan.settle):
                yield from self._observe_reads() if number == 0 else (plain,)
            yield from self._timed("after", self.plan.timed_after, go=False)
            self.finish_timing()

    def _observe_reads(self) -> Iterator[Handler]:
        """One step that tells what it reads; nothing is timed, and everything is profiled."""
        reads = self.reads
        if reads is None or reads.kv or reads.weights or self.runner.buckets:
            yield plain
            return
        reads.grown = {
            name: cache.nbytes
            for name, cache in self.placed.caches().items()
            if any(step[name].shape != cache.shape for step in self.observed.steps if name in step)
        }
        yield reads.handler
        before = self.shared_sections["peak_before"]
        for name, peak in reads.peak.items():
            before[name] = max(before.get(name, 0), peak)

    def _each_measurement(self) -> Iterator[Measurement]:
        for measurement in self.measurements:
            self._measurement = measurement
            yield measurement

    def _enter(self, phase: str) -> None:
        self._phase = phase
        self._progress.enter(phase)
        if self.runner.buckets:
            self.runner.buckets.phase = phase

    def go_to(self, steps: int) -> int:
        """Back to the first token, or to where `steps` steps end just below the bucket measured.

        Returns how many of the steps fit into the bucket.
        """
        length, buckets = self._measurement.length, self.runner.buckets
        if length is None or buckets is None:
            self._restart()
            return steps
        below = buckets.below(length)
        first = max(below + 1, length - steps + 1)
        self._seek(first)
        return min(steps, length - first + 1)

    # --- check and warm-up ---------------------------------------------------------------------

    def _seek(self, length: int) -> None:
        self.subject.seek(length)
        if self.runner.buckets:
            self.runner.buckets.next_length = length

    def _restart(self) -> None:
        """Back to the first token, where the step offers it."""
        if self.runner.buckets and self.subject.can_seek:
            self._seek(1)
        self.subject.reset()

    def _prepare(self) -> Iterator[Handler]:
        """Every bucket once, the largest first, until it neither compiles nor captures any more."""
        buckets = self.runner.buckets
        if buckets is None or not self.subject.can_seek:
            return
        self._enter("prepare")
        for size in sorted(buckets.sizes, reverse=True):
            self.device.synchronize()
            memory = self.device.reserved()
            compiled, tuned = self._compile_seconds(), self._autotune_seconds()
            captured = self.runner.capture_ns() or 0
            began, calls, quiet = time.perf_counter_ns(), 0, 0
            enough = 1 if self.mode is EAGER else _STEADY_CALLS
            while calls < _MOST_PREPARING and self._lockstep.any("preparing", quiet < enough):
                self._seek(size)
                yield self.warm_up.run
                calls += 1
                last = self.warm_up.history[-1]
                pending = self.runner.captured is not None and not self.runner.captured.ready
                quiet = 0 if last["compiles"] or last["captures"] or pending else quiet + 1
            self.device.synchronize()
            reserved, now = self.device.reserved(), self.runner.capture_ns()
            buckets.prepared.append(
                {
                    "size": size,
                    "prepare_ns": time.perf_counter_ns() - began,
                    "first_call_ns": self.warm_up.history[-calls]["host_ns"],
                    "compile_seconds": round(self._compile_seconds() - compiled, 3),
                    "autotune_seconds": round(self._autotune_seconds() - tuned, 3),
                    "capture_ns": None if now is None else now - captured,
                    "memory_bytes": None if reserved is None else reserved - (memory or 0),
                    "calls": calls,
                }
            )
        self._restart()
        self._before_check = self.warm_up.step

    def _compile_seconds(self) -> float:
        return self.runner.compiles.seconds() if self.runner.compiles else 0.0

    def _autotune_seconds(self) -> float:
        return (self.runner.compiles and self.runner.compiles.autotune_seconds()) or 0.0

    def _check(self) -> Iterator[Handler]:
        self._enter("check")
        if self.runner.buckets:
            # What the padded modes are compared with is not padded.
            self.runner.buckets.exact = self.mode is EAGER
        captured = self.runner.captured
        if captured is not None and self.subject.can_reset:
            # Compare from the first token on, all of it replayed.
            while self._lockstep.any("the first capture", not captured.graphs):
                yield self.warm_up.run
            self._restart()
            self._before_check = self.warm_up.step
        for _ in range(self.plan.check):
            yield self._checked
        self.on_check_done()
        self._judge_outputs()
        self._restart()

    def _checked(self, runner: Runner, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        named = named_arguments(self.subject.named_like(), args, kwargs)
        self.observed.note(named)
        tokens = tokens_of(args, kwargs)
        kept = None if tokens is None else tokens[1].detach().clone()
        out = self.warm_up.run(runner, args, kwargs)
        self._outputs.note(self.warm_up.step - self._before_check, out, kept)
        return out

    def _judge_outputs(self) -> None:
        captured = self.runner.captured
        eager_steps = captured.warmup_calls if captured and not self._before_check else 0
        first = eager_steps + 1
        verdict = self._outputs.verdict(first)
        self.shared_sections["outputs"] = verdict
        if not self.mode.captures_step or captured is None:
            return
        moved = captured.observation.moved_state()
        unsure = verdict["status"] == "not compared" and moved
        if verdict["status"] != "different" and not unsure:
            return
        if not moved and self.mode is COMPILED_GRAPH and verdict["against"] == f"{EAGER.id}/1":
            return  # compiling alone may have moved the outputs that far
        if moved:
            reason = (
                f"{moved[0].what} lies elsewhere at every step, so the captured graph reads"
                " a stale address"
            )
            raise ModeFailureError(Failure("moved_input", reason, tuple(moved[:8])))
        detail = f"relative distance {verdict['rel_l2']}, tolerance {verdict['tolerance']}"
        raise ModeFailureError(
            Failure(
                "outputs_differ",
                "the captured step does not compute what the eager step computes",
                (Evidence(f"{verdict['steps_compared']} steps compared", "", detail),),
            )
        )

    def _warm_up(self) -> Iterator[Handler]:
        self._enter("warm-up")
        if self.runner.buckets:
            self.runner.buckets.exact = False
        began = time.monotonic()
        warm, first = self.warm_up, self._before_check
        compiling = self.runner.compiles is not None
        most = first + self.plan.warmup + (_MOST_EXTRA_WARMUP if compiling else 0)
        while True:
            short = warm.step - first < self.plan.warmup or (compiling and not warm.steady)
            over = warm.step >= most or time.monotonic() - began > self.options.max_seconds
            self._lockstep.enter_warm_step()
            if self._lockstep.any("the end of warm-up", over) or not self._lockstep.any(
                "warm-up", short
            ):
                break
            yield warm.run
        warm.over()
        if self.runner.captured is not None and not self.runner.captured.graphs:
            raise ModeFailureError(self.runner.captured.never_steady())

    def _synchronizations(self) -> Iterator[Handler]:
        for _ in range(self.plan.sync):
            yield self._watched

    def _watched(self, runner: Runner, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self._sync.watch():
            return runner(*args, **kwargs)

    # --- measuring -----------------------------------------------------------------------------

    def _timed(self, phase: str, periods: int, *, go: bool = True) -> Iterator[Handler]:
        self._enter(f"timed {phase}")
        measurement, buckets = self._measurement, self.runner.buckets
        if go:
            periods = self.go_to(periods)
        elif measurement.length is not None and buckets is not None:
            periods = min(periods, measurement.length - buckets.length)
        several = self._lockstep.ranks.several
        periods = self._lockstep.periods(
            f"timed {phase}", periods, _FEWEST_TIMED, self.options.max_seconds, self.device
        )
        limit = math.inf if several else self.options.max_seconds * 1e9
        clock = self._clock = StepClock(self.device, periods)
        self._clocked = []
        self.device.synchronize()
        if measurement.power:
            measurement.power.start(phase)
        while True:
            clock.stamp()
            if clock.periods >= periods or (
                clock.periods >= _FEWEST_TIMED and clock.elapsed_ns > limit
            ):
                break
            yield plain
            if buckets:
                self._note_bucket(buckets, clock)
        if measurement.power:
            measurement.power.stop()
        measurement.sections[phase] = clock.samples()
        self._medians(phase)
        self._clock = None  # a script that ends before the next timed phase has not timed it

    def _note_bucket(self, buckets: Buckets, clock: StepClock) -> None:
        """Remember the bucket of the step just run; in one met first, it was also prepared."""
        new = buckets.current not in self._met
        self._met.add(buckets.current)
        if new and not self.subject.can_seek:
            clock.interrupt()
        self._clocked.append(buckets.current)

    def _medians(self, phase: str) -> None:
        timed = self._measurement.sections[phase]
        if self.runner.buckets is None or phase != "before" or self._clock is None:
            return
        samples = timed["device_ns"] or timed["host_ns"]
        used = [self._clocked[number] for number in self._clock.kept]
        self._measurement.sections["bucket_medians"] = medians_by_bucket(samples, used)

    def finish_timing(self) -> None:
        """Close the last timed phase where the script ended inside it."""
        measurement = self._measurement
        if "after" not in measurement.sections and self._clock is not None and self.profiled:
            measurement.sections["after"] = self._clock.samples()
        if measurement.power:
            measurement.power.stop()

    def _issue(self) -> Iterator[Handler]:
        self._enter("issue")
        count = self.go_to(self.plan.issue)
        sections = self._measurement.sections
        periods: list[int] = []
        calls: list[int] = []
        for _ in range(count):
            self._interrupted = False
            self.device.synchronize()
            began = time.perf_counter_ns()
            yield self._returning
            entered = time.perf_counter_ns()
            calls.append(self._returned_ns - began)
            if not self._interrupted:
                periods.append(entered - began)
        whole = self.subject.entry == "build"
        samples = calls if whole else periods
        reason = None
        if self._sync_count():
            reason = f"the step waits for the GPU {self._sync_count()} times"
        elif not samples:
            reason = "no undisturbed step"
        sections["issue"] = {
            "scope": "step" if whole else "period",
            "samples_ns": samples,
            "call_samples_ns": calls,
            "reason": reason,
        }
        sections["issue_ns"] = None if reason else timing.median_ns(samples)

    def _sync_count(self) -> int:
        return len(self._sync)

    def _returning(self, runner: Runner, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = runner(*args, **kwargs)
        self._returned_ns = time.perf_counter_ns()
        return out

    def _profile(self) -> Iterator[Handler]:
        self._enter("profiled")
        yield from ProfiledSteps(self, self._measurement).phases()

    # --- sections ------------------------------------------------------------------------------

    def bucket_section(self, measurement: Measurement) -> dict[str, Any] | None:
        """Buckets and what padding to them wastes, None where there are none."""
        buckets = self.runner.buckets
        if buckets is None:
            return None
        return buckets.section(measurement.length, measurement.sections.get("bucket_medians", {}))

    def synchronization_section(self) -> list[dict[str, Any]]:
        """Synchronizing calls of one step, from the runs that were watched."""
        captured = self.runner.captured
        if captured is not None and not len(self._sync):
            return captured.synchronizations.section()
        return self._sync.section()
