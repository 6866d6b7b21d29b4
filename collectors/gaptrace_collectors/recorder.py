"""The experiment: what happens at each decode step, from the first check to the last timed one.

The phases are one generator. It is resumed at the entry of every decode step, does what has to be
done between two steps, and yields how the step is to be run. In a timed phase that is one stamp.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from gaptrace_collectors import timing
from gaptrace_collectors.decode_call import tokens_of
from gaptrace_collectors.failure import Evidence, Failure, ModeFailureError
from gaptrace_collectors.hygiene import dynamo_frames
from gaptrace_collectors.modes import Runner
from gaptrace_collectors.options import CAPTURING, Options
from gaptrace_collectors.plan import IDLE_STEPS, Plan
from gaptrace_collectors.power import PowerMeter
from gaptrace_collectors.profiling import ProfilerOptions, ProfilerSession, mark
from gaptrace_collectors.synchronizations import Synchronizations
from gaptrace_collectors.tensors import named_arguments
from gaptrace_collectors.timing import StepClock

if TYPE_CHECKING:
    from gaptrace_collectors.device import Device
    from gaptrace_collectors.outputs import Outputs
    from gaptrace_collectors.steadiness import Observation

Handler = Callable[[Runner, tuple[Any, ...], dict[str, Any]], Any]
_MOST_EXTRA_WARMUP = 24


class Subject(Protocol):
    """What is recorded: an unmodified script's module, or an explicit step."""

    entry: str

    def observation(self) -> Observation:
        """An empty observation that knows where to look for state."""

    def named_like(self) -> Callable[..., Any]:
        """The callable whose signature names the arguments."""

    @property
    def can_reset(self) -> bool:
        """Whether `reset` does anything."""

    def reset(self) -> None:
        """Back to the first token, where the step offers it."""


def plain(runner: Runner, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the step and nothing else."""
    return runner(*args, **kwargs)


class Recorder:
    """Drives one recording; `found` collects the sections of run.json as they become known."""

    def __init__(
        self,
        subject: Subject,
        runner: Runner,
        device: Device,
        options: Options,
        plan: Plan,
        mode: str,
        folder: str,
        outputs: Outputs,
    ) -> None:
        self.subject = subject
        self.runner = runner
        self.device = device
        self.options = options
        self.plan = plan
        self.mode = mode
        self.folder = folder
        self.found: dict[str, Any] = {}
        self.step = 0
        self._before_check = 0
        self.observed = subject.observation()
        self.placed = subject.observation()
        self.power = PowerMeter(device.index) if device.accelerated else None
        self.on_check_done: Callable[[], None] = lambda: None
        self._outputs = outputs
        self._sync = Synchronizations()
        self._clock: StepClock | None = None
        self._interrupted = False
        self._returned_ns = 0
        self._warm_history: list[dict[str, Any]] = []
        self._idle_since = 0
        self._compiled_before_measuring = 0
        self._phase = "check"

    @property
    def profiled(self) -> bool:
        """Whether the trace has been written."""
        return "files" in self.found

    @property
    def timed_after_enough(self) -> bool:
        """Whether enough unprofiled steps were timed behind the profiled ones to keep them."""
        return self.profiled and self._clock is not None and self._clock.periods >= 5

    @property
    def extra_warmup(self) -> int:
        """Warm-up steps beyond the plan, taken because the compiler would not stand still."""
        return max(0, self.step - self.plan.warmup)

    def interrupt(self) -> None:
        """Something other than a decode step ran since the last one."""
        self._interrupted = True
        if self._clock is not None:
            self._clock.interrupt()

    def phases(self) -> Iterator[Handler]:
        """One handler per decode step; exhausted when everything has been measured."""
        yield from self._check()
        yield from self._warm_up()
        self.found["peak_before"] = self.device.peak() or {}
        # Before the profiler comes: what it leaves in the driver makes every launch dearer.
        self.found["measured"] = self.device.measured()
        self.found["hooks"] = timing.hook_cost(self.device)
        yield from self._synchronizations()
        self.device.reset_peak()
        yield from self._timed("before", self.plan.timed_before)
        self.found["peak_timed"] = self.device.peak()
        yield from self._issue()
        yield from self._profile()
        for _ in range(self.plan.settle):
            yield plain
        yield from self._timed("after", self.plan.timed_after)
        self.finish_timing()

    # --- check and warm-up ---------------------------------------------------------------------

    def _check(self) -> Iterator[Handler]:
        captured = self.runner.captured
        if captured is not None and self.subject.can_reset:
            # Compare from the first token on, all of it replayed.
            while not captured.ready:
                yield self._warmed
            self.subject.reset()
            self._before_check = self.step
        for _ in range(self.plan.check):
            yield self._checked
        self.on_check_done()
        self._judge_outputs()
        self.subject.reset()

    def _checked(self, runner: Runner, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        named = named_arguments(self.subject.named_like(), args, kwargs)
        self.observed.note(named)
        tokens = tokens_of(args, kwargs)
        kept = None if tokens is None else tokens[1].detach().clone()
        out = self._warmed(runner, args, kwargs)
        self._outputs.note(self.step - self._before_check, out, kept)
        return out

    def _judge_outputs(self) -> None:
        captured = self.runner.captured
        eager_steps = captured.warmup_calls if captured and not self._before_check else 0
        first = eager_steps + 1
        verdict = self._outputs.verdict(first)
        self.found["outputs"] = verdict
        if self.mode not in CAPTURING or captured is None:
            return
        moved = captured.observation.moved_state()
        unsure = verdict["status"] == "not compared" and moved
        if verdict["status"] != "different" and not unsure:
            return
        if not moved and self.mode == "compiled-graph" and verdict["against"] == "eager/1":
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

    def _warmed(self, runner: Runner, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        compiles = runner.compiles
        before = compiles.count() if compiles else 0
        began = time.perf_counter_ns()
        out = runner(*args, **kwargs)
        took = time.perf_counter_ns() - began
        new = compiles.count() - before if compiles else 0
        self.step += 1
        if compiles:
            compiles.after_step("warm-up", self.step)
        if new:
            self._idle_since = self.step
        self._warm_history.append({"step": self.step, "host_ns": took, "compiles": new})
        return out

    def _warm_up(self) -> Iterator[Handler]:
        self._phase = "warm-up"
        began = time.monotonic()
        compiling = self.runner.compiles is not None
        most = self.plan.warmup + (_MOST_EXTRA_WARMUP if compiling else 0)
        while self.step < self.plan.warmup or (
            compiling and self.step - self._idle_since < IDLE_STEPS
        ):
            if self.step >= most or time.monotonic() - began > self.options.max_seconds:
                break
            yield self._warmed
        if self.runner.compiles:
            self._compiled_before_measuring = self.runner.compiles.count()
        if self.runner.captured is not None and not self.runner.captured.ready:
            raise ModeFailureError(self.runner.captured.never_steady())

    def _synchronizations(self) -> Iterator[Handler]:
        for _ in range(self.plan.sync):
            yield self._watched

    def _watched(self, runner: Runner, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self._sync.watch():
            return runner(*args, **kwargs)

    # --- measuring -----------------------------------------------------------------------------

    def _timed(self, phase: str, periods: int) -> Iterator[Handler]:
        self.subject.reset()
        self._phase = f"timed {phase}"
        limit = self.options.max_seconds * 1e9
        clock = self._clock = StepClock(self.device, periods)
        self.device.synchronize()
        if self.power:
            self.power.start(phase)
        while True:
            clock.stamp()
            if clock.periods >= periods or (clock.periods >= 5 and clock.elapsed_ns > limit):
                break
            yield plain
        if self.power:
            self.power.stop()
        self.found[phase] = clock.samples()

    def finish_timing(self) -> None:
        """Close the last timed phase where the script ended inside it."""
        if "after" not in self.found and self._clock is not None and self.profiled:
            self.found["after"] = self._clock.samples()
        if self.power:
            self.power.stop()

    def _issue(self) -> Iterator[Handler]:
        self.subject.reset()
        self._phase = "issue"
        periods: list[int] = []
        calls: list[int] = []
        for _ in range(self.plan.issue):
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
        self.found["issue"] = {
            "scope": "step" if whole else "period",
            "samples_ns": samples,
            "call_samples_ns": calls,
            "reason": reason,
        }
        self.found["issue_ns"] = None if reason else timing.median_ns(samples)

    def _sync_count(self) -> int:
        return len(self._sync)

    def _returning(self, runner: Runner, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = runner(*args, **kwargs)
        self._returned_ns = time.perf_counter_ns()
        return out

    def _profile(self) -> Iterator[Handler]:
        self.subject.reset()
        self._phase = "profiled"
        eager = self.mode == "eager"
        shapes = eager if self.options.shapes is None else self.options.shapes
        session = ProfilerSession(
            self.folder,
            self.device,
            ProfilerOptions(shapes=shapes, stacks=self.options.stacks),
        )
        session.prepare()
        yield self._placed
        session.start()
        yield plain
        host: list[int] = []
        for number in range(self.plan.profiled):
            host.append(time.perf_counter_ns())
            yield self._marked(number)
        host.append(time.perf_counter_ns())
        if eager:
            session.start_execution_trace()
        yield self._marked(self.plan.profiled)
        trace, execution_trace = session.stop()
        self.found["files"] = {"trace": trace, "execution_trace": execution_trace}
        self.found["profiled"] = {
            "marks": "gaptrace.step#N",
            "complete": self.plan.profiled,
            "open_step": self.plan.profiled,
            "execution_trace_step": self.plan.profiled if execution_trace else None,
            "lead_steps": 1,
            "host_ns": [b - a for a, b in itertools.pairwise(host)],
            "shapes": shapes,
            "stacks": self.options.stacks,
        }

    def _placed(self, runner: Runner, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # A growing cache has this size when it is profiled, not the size it had at the check.
        self.placed.note(named_arguments(self.subject.named_like(), args, kwargs))
        return runner(*args, **kwargs)

    def _marked(self, number: int) -> Handler:
        def marked(runner: Runner, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            with mark(number):
                return runner(*args, **kwargs)

        return marked

    # --- sections ------------------------------------------------------------------------------

    def compile_section(self) -> dict[str, Any] | None:
        """What the compiler did, or None where nothing compiled."""
        compiles = self.runner.compiles
        if compiles is None:
            if dynamo_frames() == 0:
                return None
            return {"requested": False, "frames": dynamo_frames()}
        section = compiles.section()
        idle = self.step - self._idle_since
        steady = idle >= IDLE_STEPS
        measured = compiles.count() - self._compiled_before_measuring
        note = None
        if not steady:
            guards = [item["guard"] for item in section["recompiles"]]
            note = f"the recompile counter never stood still in {self.step} warm-up steps" + (
                f"; last failed guard: {guards[-1]}" if guards else ""
            )
        return {
            "requested": True,
            **section,
            "first_call_ns": self._warm_history[0]["host_ns"] if self._warm_history else None,
            "warmup": self._warm_history,
            "steady": steady,
            "steady_after": self._idle_since if steady else None,
            "recompiles_while_measured": measured,
            "note": note,
        }

    def synchronization_section(self) -> list[dict[str, Any]]:
        """Synchronizing calls of one step, from the runs that were watched."""
        captured = self.runner.captured
        if captured is not None and not len(self._sync):
            return captured.synchronizations.section()
        return self._sync.section()
