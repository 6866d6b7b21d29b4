"""The table of a pair: every metric on both sides, and what can be said of the difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from gaptrace.compare.figures import Sampler, run_figure, shown_run, side_figure
from gaptrace.compare.metrics import BY_ID, LOWER, METRICS, Metric
from gaptrace.compare.noise import FEWEST_STEPS, Judged, Noise, RunFigure, difference, holm
from gaptrace.compare.recording import Recording
from gaptrace.results.comparison import (
    BETTER,
    EXACT,
    ONE_RUN,
    PROFILED,
    RUNS,
    STEPS,
    TOO_FEW,
    UNPROFILED,
    WITHIN_NOISE,
    WORSE,
    Figure,
    MetricRow,
)

Recordings = Sequence[Recording]
Runs = Sequence[RunFigure | None]

# What a row says of its metric.
SHOWN = ("id", "title", "unit", "better", "per_token", "gate")


def metric_rows(
    baseline: Recordings,
    candidate: Recordings,
    *,
    distorted: Mapping[str, str],
    chosen: Mapping[str, str],
    seed: int,
    resamples: int,
) -> tuple[MetricRow, ...]:
    """One row per metric, in the order of `METRICS`.

    distorted: metrics that must not be judged as profiled, with the reason why. chosen: the source
    of each metric, see `figures.sources`.
    """
    shown = [shown_run(side, chosen["step_time"]) for side in (baseline, candidate)]
    rows: list[MetricRow] = []
    noises: dict[str, Noise] = {}
    for place, metric in enumerate(METRICS):
        source = chosen.get(metric.id, "")
        # A stream per metric, so that a metric's noise does not depend on the metrics before it.
        rng = np.random.default_rng((seed, place))
        sampler = Sampler(rng, resamples)
        runs = [
            [run_figure(metric.id, recording, source, sampler) for recording in side]
            for side in (baseline, candidate)
        ]
        why = distorted.get(metric.id, "") if source != UNPROFILED else ""
        figures = [side_figure(metric, *side) for side in zip(runs, shown, strict=True)]
        row, noise = _row(metric, source, runs, figures, why, rng)
        if source == UNPROFILED:
            traced = [
                _traced(metric, side, place, sampler)
                for side, place in zip((baseline, candidate), shown, strict=True)
            ]
            row = replace(row, as_profiled=(traced[0], traced[1]))
        rows.append(row)
        if noise is not None:
            noises[metric.id] = noise
    return _judge(rows, noises)


def _traced(metric: Metric, side: Recordings, shown: int | None, sampler: Sampler) -> float | None:
    runs = [run_figure(metric.id, recording, PROFILED, sampler) for recording in side]
    return side_figure(metric, runs, shown).value


def _row(
    metric: Metric,
    source: str,
    sides: Sequence[Runs],
    figures: Sequence[Figure],
    why_withheld: str,
    rng: np.random.Generator,
) -> tuple[MetricRow, Noise | None]:
    """The row as far as one metric alone can tell, and its noise where it is uncertain."""
    row = MetricRow(
        **{name: getattr(metric, name) for name in SHOWN},
        source=source or None,
        baseline=figures[0],
        candidate=figures[1],
    )
    if figures[0].value is None or figures[1].value is None:
        return replace(row, note=_absent(figures)), None
    if why_withheld:
        return replace(row, note=why_withheld), None
    change = figures[1].value - figures[0].value
    ratio = change / figures[0].value if figures[0].value else None
    row = replace(row, change=change, ratio=ratio)
    runs = [[run for run in side if run is not None] for side in sides]
    if metric.counted and _certain(runs):
        note = metric.equal_words if change and _is_equal(metric, row) else ""
        verdict = _verdict(metric, row)
        return replace(row, verdict=verdict, basis=EXACT, note=note), None
    if min(figure.n for figure in figures) < FEWEST_STEPS and not _per_run(runs):
        return replace(row, verdict=TOO_FEW), None
    return row, difference(runs[0], runs[1], rng)


def _absent(figures: Sequence[Figure]) -> str:
    sides = zip(("baseline", "candidate"), figures, strict=True)
    missing = [name for name, figure in sides if figure.value is None]
    return f"unknown or withheld on the {' and the '.join(missing)}"


def _certain(runs: Sequence[Sequence[RunFigure]]) -> bool:
    """Whether the figure does not vary within either side: then any difference is a real one."""
    for side in runs:
        values = {run.value for run in side}
        if len(values) > 1 or any(np.ptp(run.values) > 0 for run in side if run.values.size):
            return False
    return True


def _per_run(runs: Sequence[Sequence[RunFigure]]) -> bool:
    """Whether runs have the figure only once, by nature, and there are runs to tell noise from."""
    single = all(run.n == 0 for side in runs for run in side)
    return single and any(len(side) > 1 for side in runs)


def _is_equal(metric: Metric, row: MetricRow) -> bool:
    return not row.change or (row.ratio is not None and abs(row.ratio) <= metric.equal)


def _verdict(metric: Metric, row: MetricRow) -> str:
    if _is_equal(metric, row):
        return WITHIN_NOISE
    return BETTER if ((row.change or 0) < 0) == (metric.better == LOWER) else WORSE


def _judge(rows: Sequence[MetricRow], noises: Mapping[str, Noise]) -> tuple[MetricRow, ...]:
    """The rows with the verdicts of the uncertain metrics, corrected for their number."""
    hypothesis = {metric.id: metric.hypothesis or metric.id for metric in METRICS}
    weights = {metric.hypothesis or metric.id: metric.weight for metric in METRICS}
    p_values: dict[str, float] = {}
    for name, noise in noises.items():
        key = hypothesis[name]
        p_values[key] = max(p_values.get(key, 0.0), noise.p)
    judged = holm(p_values, weights)
    return tuple(
        _judged(
            row,
            noises[row.id].doubted(p_values[hypothesis[row.id]]),
            judged[hypothesis[row.id]],
        )
        if row.id in noises
        else row
        for row in rows
    )


def _judged(row: MetricRow, noise: Noise, judged: Judged) -> MetricRow:
    assert row.change is not None
    verdict, note = WITHIN_NOISE, ""
    # The median over runs is shown, the mean over runs is judged: both must point the same way.
    if judged.beyond and row.change * noise.change > 0:
        verdict = _verdict(BY_ID[row.id], row)
        if noise.basis == STEPS:
            note = ONE_RUN
    if noise.basis == RUNS and noise.borrowed:
        note = "one side has a single run: run-to-run scatter taken from the other"
    low, high = noise.interval(judged.level)
    if row.candidate.value is not None and row.candidate.value >= 0:
        # No figure can fall by more than all of it.
        low = max(low, -abs(row.baseline.value or 0.0))
    base = abs(row.baseline.value or 0.0)
    return replace(
        row,
        interval=(min(low, high), high),
        interval_ratio=(min(low, high) / base, high / base) if base else None,
        p=judged.p,
        verdict=verdict,
        basis=noise.basis,
        note=note,
    )
