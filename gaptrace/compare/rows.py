"""The table of a pair: every metric on both sides, and what can be said of the difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from gaptrace.compare.figures import (
    Sampler,
    predicted_figure,
    run_figure,
    shown_run,
    side_figure,
)
from gaptrace.compare.metrics import BY_ID, LOWER, METRICS, Metric
from gaptrace.compare.noise import FEWEST_STEPS, Judged, Noise, RunFigure, difference, holm
from gaptrace.compare.recording import Recording
from gaptrace.measure.stats import nearest_rank
from gaptrace.quantity import SHARE
from gaptrace.results.comparison import (
    BETTER,
    EXACT,
    ONE_RUN,
    OVERLAP,
    PREDICTED,
    PROFILED,
    RANGES,
    RUNS,
    STEPS,
    TOO_FEW,
    VARIES,
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
    unjudged: Mapping[str, tuple[str, str]],
    chosen: Mapping[str, str],
    seed: int,
    resamples: int,
) -> tuple[MetricRow, ...]:
    """One row per metric, in the order of `METRICS`.

    unjudged: metrics of which nothing can be said, with what their verdict is and why. chosen: the
    source of each metric, see `figures.sources`.
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
        figures = [side_figure(metric, *side) for side in zip(runs, shown, strict=True)]
        if source == PREDICTED:
            sides = zip(figures, (baseline, candidate), strict=True)
            figures = [predicted_figure(metric, figure, side) for figure, side in sides]
        row, noise = _row(metric, source, runs, figures, unjudged.get(metric.id), rng)
        if source not in ("", PROFILED):
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
    unjudged: tuple[str, str] | None,
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
    if unjudged is not None:
        return replace(row, verdict=unjudged[0], note=unjudged[1]), None
    change = figures[1].value - figures[0].value
    ratio = change / figures[0].value if figures[0].value else None
    row = replace(row, change=change, ratio=ratio)
    if source == PREDICTED:
        return _by_ranges(metric, row), None
    runs = [[run for run in side if run is not None] for side in sides]
    if metric.counted:
        return _counted(metric, row, runs), None
    if min(figure.n for figure in figures) < FEWEST_STEPS and not _per_run(runs):
        return replace(row, verdict=TOO_FEW), None
    return row, difference(runs[0], runs[1], rng)


def _counted(metric: Metric, row: MetricRow, sides: Sequence[Sequence[RunFigure]]) -> MetricRow:
    """The verdict on a figure that the program decides: no noise, and no interval.

    Equal figures are equal, whatever a single step did. Unequal ones differ where what the two
    sides usually have lies apart; where it overlaps the figure varies too much to tell.
    """
    usual = [_usual(runs) for runs in sides]
    if _is_equal(metric, row):
        note = metric.equal_words if row.change else ""
        return replace(row, verdict=WITHIN_NOISE, basis=EXACT, note=note)
    if usual[0][1] < usual[1][0] or usual[1][1] < usual[0][0]:
        return replace(row, verdict=_verdict(metric, row), basis=EXACT)
    return replace(row, verdict=WITHIN_NOISE, basis=STEPS, note=VARIES)


def _usual(runs: Sequence[RunFigure]) -> tuple[float, float]:
    """What most steps of a side have (of a figure that runs have once, most runs): from and to.

    One value where more than half have it, else the middle half of them.
    """
    values = np.sort(np.concatenate([r.values if r.values.size else [r.value] for r in runs]))
    median = nearest_rank(values, 50)
    if 2 * np.count_nonzero(values == median) > values.size:
        return median, median
    return nearest_rank(values, 25), nearest_rank(values, 75)


def _by_ranges(metric: Metric, row: MetricRow) -> MetricRow:
    """The verdict on figures of which each side has a range: none where the two overlap."""
    ends = (row.baseline.low, row.baseline.high, row.candidate.low, row.candidate.high)
    low, high, least, most = (float(end or 0) for end in ends)
    apart = high < least or most < low
    return replace(
        row,
        interval=(least - high, most - low),
        interval_ratio=(least / high - 1, most / low - 1) if low > 0 else None,
        verdict=_verdict(metric, row) if apart else OVERLAP,
        basis=RANGES,
    )


def _absent(figures: Sequence[Figure]) -> str:
    sides = zip(("baseline", "candidate"), figures, strict=True)
    missing = [name for name, figure in sides if figure.value is None]
    return f"unknown or withheld on the {' and the '.join(missing)}"


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
    base = float(row.baseline.value or 0)
    low, high = _possible(row, noise.interval(judged.level))
    return replace(
        row,
        interval=(low, high),
        interval_ratio=(low / base, high / base) if base > 0 else None,
        p=judged.p,
        verdict=verdict,
        basis=noise.basis,
        note=note,
    )


def _possible(row: MetricRow, interval: tuple[float, float]) -> tuple[float, float]:
    """The part of an interval of changes that the figure can make: to 0, a share to 1 at most."""
    base, after = float(row.baseline.value or 0), float(row.candidate.value or 0)
    if base < 0 or after < 0:
        # An unprofiled idle time below 0 is itself what noise made of it.
        return interval
    low, high = (max(end, -base) for end in interval)
    return (min(low, 1 - base), min(high, 1 - base)) if row.unit == SHARE else (low, high)
