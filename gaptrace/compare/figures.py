"""The figure of each metric for one recording, and for the recordings of one side."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import numpy.typing as npt

from gaptrace.compare.metrics import HIGHER, Metric
from gaptrace.compare.noise import Floats, RunFigure, resampled_median
from gaptrace.compare.recording import CAUSE_COLUMNS, CLASS_COLUMNS, Recording
from gaptrace.measure.stats import median_place, nearest_rank, spread
from gaptrace.results.comparison import GIVEN, PREDICTED, PROFILED, UNPROFILED, Figure

# Parts of one step, and what its time makes of them.
OF_ONE_RUN = ("step_time", "tokens_per_s", "idle", "idle_share", "busy", "host_dispatch")


@dataclass(frozen=True, eq=False)
class Sampler:
    """Resamples medians of one recording's columns; every figure draws from its own stream."""

    rng: np.random.Generator
    resamples: int

    def of(self, values: npt.ArrayLike) -> RunFigure | None:
        """The median of `values` and what resampling does to it; None without values."""
        values = np.asarray(values, np.float64)
        if values.size == 0:
            return None
        return RunFigure(
            value=float(nearest_rank(np.sort(values), 50)),
            shift=resampled_median(values, self.rng, self.resamples),
            values=values,
            n=int(values.size),
        )

    def single(self, value: float) -> RunFigure:
        """A figure that a run has only once."""
        return RunFigure(float(value), np.zeros(self.resamples), np.empty(0), 0)

    def around(self, value: float, samples: npt.ArrayLike) -> RunFigure:
        """A figure that a run states, with the noise of the samples that it was taken from."""
        found = self.of(samples)
        return self.single(value) if found is None else replace(found, value=float(value))


def sources(sides: Sequence[Sequence[Recording]], profiled: Collection[str] = ()) -> dict[str, str]:
    """How each metric is known, the same way on all sides, so that like is compared with like.

    `unprofiled` where every recording has that (`given` where one was given by hand). `profiled`
    names metrics that cannot be compared as profiled: where the step is one of them, it is
    `predicted` if every recording has a prediction or better. Everything else is `as profiled`;
    so is idle time where a recording was busy for longer than its unprofiled step takes.
    """
    every = [recording for side in sides for recording in side]
    step = PROFILED
    if all(r.unprofiled_ns is not None for r in every):
        step = GIVEN if any(r.given for r in every) else UNPROFILED
    elif "step_time" in profiled and all(step_range(r) is not None for r in every):
        step = PREDICTED
    issue = all(r.issue_ns is not None for r in every)
    longest = [r.unprofiled_ns or (r.predicted_range or (0, 0))[1] for r in every]
    busy = [spread(busy_ns(r)).median or 0 for r in every]
    fits = all(work <= ns for work, ns in zip(busy, longest, strict=True))
    return {
        **dict.fromkeys(("step_time", "tokens_per_s"), step),
        **dict.fromkeys(("idle", "idle_share"), step if fits else PROFILED),
        "host_dispatch": UNPROFILED if issue else PROFILED,
    }


def step_range(recording: Recording) -> tuple[int, int] | None:
    """The least and the most ns that a step takes without the profiler; None where not known.

    A measured step is both; of a prediction it is the range, and no step is shorter than it is
    busy.
    """
    if recording.unprofiled_ns is not None:
        return recording.unprofiled_ns, recording.unprofiled_ns
    if recording.predicted_ns is None or recording.predicted_range is None:
        return None
    low, high = recording.predicted_range
    busy = int(spread(busy_ns(recording)).median or 0)
    return max(low, min(busy, high)), high


def run_figure(
    metric: str, recording: Recording, source: str, sampler: Sampler
) -> RunFigure | None:
    """The figure of a metric for one recording, as `analyze` reports it; None where withheld."""
    if metric == "peak_memory":
        peak = recording.peak_memory
        return None if peak is None else sampler.single(peak)
    if _hidden(metric, recording, source):
        return None
    return _FIGURES[metric](recording, source, sampler)


# Names in `Quality.withheld` that take a metric away where it is as profiled.
_WITHHELD = {
    "step_time": ("steps", "per_token", "rate"),
    "tokens_per_s": ("steps", "per_token", "rate"),
    "idle": ("steps", "per_token", "idle"),
    "idle_share": ("steps", "per_token", "idle"),
    "busy": ("steps", "per_token", "busy"),
    "host_dispatch": ("steps", "per_token", "host_dispatch", "host"),
    "kernels": ("steps", "per_token", "kernels"),
    "launches": ("steps", "per_token", "launches"),
    "copies": ("steps", "per_token"),
    "memsets": ("steps", "per_token"),
}


def _hidden(metric: str, recording: Recording, source: str) -> bool:
    timed = source in (UNPROFILED, GIVEN)
    if timed and metric in ("step_time", "tokens_per_s", "host_dispatch"):
        return False
    # Idle time is then what busy time leaves of the step.
    names = ("busy",) if timed or source == PREDICTED else ()
    return recording.withholds(*_WITHHELD[metric], *names)


def busy_ns(recording: Recording) -> Floats:
    """Busy ns of each counted step."""
    return np.asarray(sum(recording.steps[name] for name in CLASS_COLUMNS), np.float64)


def idle_ns(recording: Recording) -> Floats:
    """Idle ns of each counted step."""
    return np.asarray(sum(recording.steps[name] for name in CAUSE_COLUMNS), np.float64)


def _tokens(recording: Recording) -> Floats:
    return np.asarray(recording.steps["tokens"], np.float64)


def _tokens_per_step(recording: Recording) -> float:
    """Tokens of a step for figures that are not per step; 1 where nothing says otherwise."""
    return float(spread(recording.steps["tokens"]).median or 1)


def _unprofiled(recording: Recording, sampler: Sampler) -> RunFigure:
    """The step without the profiler: measured with its samples, given, or predicted."""
    step = recording.unprofiled_ns
    if step is None:
        assert recording.predicted_ns is not None
        return sampler.single(recording.predicted_ns)
    period = recording.period_ns
    if recording.given and period:
        # Nobody says how a given step scatters; a traced one scatters no less.
        return sampler.around(step, recording.steps["period_ns"] * (step / period))
    return sampler.around(step, recording.unprofiled_samples)


def _step_time(recording: Recording, source: str, sampler: Sampler) -> RunFigure | None:
    if source != PROFILED:
        return _unprofiled(recording, sampler)
    return sampler.of(recording.steps["period_ns"])


def _rate(recording: Recording, source: str, sampler: Sampler) -> RunFigure | None:
    """The inverse of the step time, so that the two never part ways."""
    step = _step_time(recording, source, sampler)
    if step is None or step.value <= 0:
        return None
    scale = _tokens_per_step(recording) * 1e9
    rates = scale / np.maximum(step.value + step.shift, 1)
    return RunFigure(
        scale / step.value,
        rates - scale / step.value,
        scale / np.maximum(step.values, 1),
        step.n,
    )


def _busy(recording: Recording, source: str, sampler: Sampler) -> RunFigure | None:
    del source
    clean = recording.steps["clean"] > 0
    return sampler.of(busy_ns(recording)[clean] / _tokens(recording)[clean])


def _idle(recording: Recording, source: str, sampler: Sampler) -> RunFigure | None:
    clean = recording.steps["clean"] > 0
    if source == PROFILED:
        return sampler.of(idle_ns(recording)[clean] / _tokens(recording)[clean])
    found = _unprofiled_idle(recording, sampler)
    return None if found is None else found.over(_tokens_per_step(recording))


def _unprofiled_idle(recording: Recording, sampler: Sampler) -> RunFigure | None:
    """Unprofiled step time less traced busy time, per step."""
    busy = sampler.of(busy_ns(recording)[recording.steps["clean"] > 0])
    if busy is None:
        return None
    step = _unprofiled(recording, sampler)
    # The range of a prediction may reach below its busy time, idle time does not.
    value = step.value - busy.value if recording.unprofiled_ns else max(step.value - busy.value, 0)
    return RunFigure(value, step.shift - busy.shift, np.empty(0), min(step.n, busy.n))


def _idle_share(recording: Recording, source: str, sampler: Sampler) -> RunFigure | None:
    if source != PROFILED:
        idle, step = _unprofiled_idle(recording, sampler), _unprofiled(recording, sampler).value
        if idle is None or not step:
            return None
        # The busy time hardly varies, so the share varies as the step does.
        return RunFigure(idle.value / step, idle.shift / step, np.empty(0), idle.n)
    clean = recording.steps["clean"] > 0
    idle_values = idle_ns(recording)[clean]
    period = recording.steps["period_ns"].astype(np.float64)
    shares = sampler.of(idle_values / np.maximum(period[clean], 1))
    whole = spread(period).median
    middle = spread(idle_values).median
    if shares is None or not whole or middle is None:
        return None
    return RunFigure(middle / whole, shares.shift, shares.values, shares.n)


def _host_dispatch(recording: Recording, source: str, sampler: Sampler) -> RunFigure | None:
    if source == UNPROFILED:
        assert recording.issue_ns is not None
        found = sampler.around(recording.issue_ns, recording.issue_samples)
        return found.over(_tokens_per_step(recording))
    closed = recording.steps["closed"] > 0
    host = recording.steps["host_dispatch_ns"]
    return sampler.of(host[closed] / _tokens(recording)[closed])


def _count(name: str) -> Callable[[Recording, str, Sampler], RunFigure | None]:
    def figure(recording: Recording, source: str, sampler: Sampler) -> RunFigure | None:
        del source
        return sampler.of(recording.steps[name] / _tokens(recording))

    return figure


_FIGURES: dict[str, Callable[[Recording, str, Sampler], RunFigure | None]] = {
    "step_time": _step_time,
    "tokens_per_s": _rate,
    "idle": _idle,
    "idle_share": _idle_share,
    "busy": _busy,
    "host_dispatch": _host_dispatch,
    "kernels": _count("kernels"),
    "launches": _count("launches"),
    "copies": _count("copies"),
    "memsets": _count("memsets"),
}


def shown_run(side: Sequence[Recording], source: str) -> int | None:
    """Which run of a side has the median step time, of two middle ones the faster.

    It is the one that `analyze` shows. None where a run has no step time.
    """
    steps = [run.period_ns if source == PROFILED else run.step_ns for run in side]
    known = [step for step in steps if step is not None]
    return median_place(known) if known and len(known) == len(steps) else None


def side_figure(metric: Metric, runs: Sequence[RunFigure | None], shown: int | None) -> Figure:
    """The figure of a side, with p5 and p95 over all steps of its runs.

    What a step consists of is that of the run `shown`, so that it adds up. A count is the median
    over all steps of all runs. Everything else is the median over runs, of two middle ones the
    better.
    """
    known = [run for run in runs if run is not None]
    if not known or len(known) < len(runs):
        return Figure(None)
    values = np.concatenate([run.values for run in known])
    over = spread(values)
    ordered = sorted(run.value for run in known)
    middle = ordered[len(ordered) // 2 if metric.better == HIGHER else (len(ordered) - 1) // 2]
    if metric.counted and over.median is not None:
        middle = over.median
    one = runs[shown] if shown is not None and metric.id in OF_ONE_RUN else None
    return Figure(
        value=float(middle if one is None else one.value),
        p5=over.p5,
        p95=over.p95,
        n=sum(run.n for run in known),
        runs=tuple(run.value for run in known),
    )


def predicted_figure(metric: Metric, figure: Figure, side: Sequence[Recording]) -> Figure:
    """The figure with the least and the most that the ranges of the steps on its side allow."""
    if figure.value is None:
        return figure
    ends = [_of_range(metric.id, recording) for recording in side]
    return msgspec.structs.replace(
        figure, low=min(low for low, _ in ends), high=max(high for _, high in ends)
    )


def _of_range(metric: str, recording: Recording) -> tuple[float, float]:
    """What a metric of the step is at the two ends of the range of the step, the lower first."""
    found = step_range(recording)
    assert found is not None
    tokens = _tokens_per_step(recording)
    clean = recording.steps["clean"] > 0
    busy = float(spread(busy_ns(recording)[clean]).median or 0)
    at: dict[str, Callable[[int], float]] = {
        "step_time": float,
        "tokens_per_s": lambda step: tokens * 1e9 / max(step, 1),
        "idle": lambda step: max(step - busy, 0) / tokens,
        "idle_share": lambda step: max(step - busy, 0) / max(step, 1),
    }
    low, high = sorted(at[metric](end) for end in found)
    return low, high
