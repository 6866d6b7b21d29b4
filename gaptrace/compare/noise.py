"""Is a difference more than noise? Resampling over runs first, steps second.

Identical work differs between recordings by far more than its steps differ within one, so the
noise of a figure is resampled in two stages: runs are drawn with replacement, and within each
drawn run its steps. The spread of the difference over the resamples is its standard error.

Two corrections make a handful of runs honest. Runs drawn from R scatter by (R - 1) / R of their
true variance, so the first stage is scaled back. And a standard error known from a few runs is
itself uncertain, so a difference is judged by Student's t with one degree of freedom less than
there are runs, added over both sides. A side with one run borrows the run-to-run scatter of the
other, relative to its size. With one run on each side only steps can be resampled, and what is
called beyond noise is beyond step noise only; steps that come in kinds (short and long ones) make
medians jump, so there the steps of both sides are also dealt out anew at random, and a difference
that dealing produces by itself is noise.

The p values of all metrics that are uncertain are corrected together by Holm's method (1979) with
weights: the step time, which a comparison is about, weighs as much as all others together.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gaptrace.compare.student import quantile, two_sided
from gaptrace.results.comparison import RUNS, STEPS

Floats = npt.NDArray[np.float64]

RESAMPLES = 2_000
SEED = 7
ALPHA = 0.05
FEWEST_STEPS = 5
MOST_DEALT = 1_000
# Smaller probabilities are all the same to a reader, and below the accuracy of the series.
SURE = 1e-9


@dataclass(frozen=True, eq=False)
class RunFigure:
    """One figure of one run: its value, what resampling its steps adds to it, and its steps.

    shift: one entry per resample, centred on 0; zeros where the run has the figure only once.
    values: what the value is the median of (empty where there is only the value itself). n: how
    many of them count as steps.
    """

    value: float
    shift: Floats
    values: Floats
    n: int

    def over(self, size: float) -> RunFigure:
        """The figure of one part where there are `size` of them."""
        return RunFigure(self.value / size, self.shift / size, self.values / size, self.n)


def resampled_median(values: npt.ArrayLike, rng: np.random.Generator, resamples: int) -> Floats:
    """What resampling does to the median of `values`: one shift per resample.

    The median of n values drawn with replacement is an order statistic of them whose place is
    Beta-distributed, so it is drawn directly instead of through n draws. As everywhere, of two
    middle values the lower is the median.
    """
    ordered = np.sort(np.asarray(values, np.float64))
    n = ordered.size
    if n < 2:
        return np.zeros(resamples)
    rank = (n + 1) // 2
    place = (n * rng.beta(rank, n - rank + 1, resamples)).astype(np.int64)
    shift: Floats = ordered[np.minimum(place, n - 1)] - ordered[rank - 1]
    return shift


@dataclass(frozen=True)
class Noise:
    """How sure a difference is: the mean change over runs, its standard error, degrees of freedom.

    p: two-sided, uncorrected. basis: `runs and steps` or `steps`. borrowed: one side has a single
    run and takes the other's scatter.
    """

    change: float
    error: float
    df: int
    p: float
    basis: str
    borrowed: bool

    def doubted(self, p: float) -> Noise:
        """The same difference with an error so much larger that its p is at least `p`."""
        if p <= max(self.p, SURE) or self.change == 0:
            return self
        p = min(p, 0.99)
        return dataclasses.replace(self, error=abs(self.change) / quantile(p, self.df), p=p)

    def interval(self, level: float) -> tuple[float, float]:
        """The change that is compatible with the data: at 1 - `level`."""
        half = quantile(level, self.df) * self.error if self.error else 0.0
        return self.change - half, self.change + half


def difference(
    baseline: Sequence[RunFigure], candidate: Sequence[RunFigure], rng: np.random.Generator
) -> Noise:
    """The noise of candidate less baseline; every side has at least one run.

    Sides compare by the mean over their runs: with few runs it tells a change apart better than
    the median does, and an outlying run widens the interval instead of moving it.
    """
    sides = (baseline, candidate)
    df = sum(len(side) - 1 for side in sides)
    runs_known = df > 0
    if not runs_known:
        df = max(sum(side[0].n for side in sides) - 2, 1)
    residuals = [_residuals(side) for side in sides]
    means = [float(np.mean([run.value for run in side])) for side in sides]
    resamples = baseline[0].shift.size
    total = np.zeros(resamples)
    for i, side in enumerate(sides):
        scatter: Floats | None = residuals[i]
        if runs_known and len(side) == 1:
            scatter = residuals[1 - i] / abs(means[1 - i]) * means[i] if means[1 - i] else None
        drawn = _draw(side, scatter if runs_known else None, rng, resamples)
        total = total + drawn if i else total - drawn
    change, error = means[1] - means[0], float(total.std())
    if error < 1e-12 * max(abs(means[0]), abs(means[1]), 1e-300):
        error = 0.0
    p = two_sided(change / error, df) if error else float(change == 0)
    borrowed = runs_known and min(len(side) for side in sides) == 1
    noise = Noise(change, error, df, p, RUNS if runs_known else STEPS, borrowed)
    if not runs_known and p < ALPHA:
        noise = noise.doubted(_dealt(baseline[0].values, candidate[0].values, rng, resamples))
    return noise


def _dealt(left: Floats, right: Floats, rng: np.random.Generator, resamples: int) -> float:
    """How often dealing all steps out at random moves the medians apart as far as they are.

    0 where that need not be asked: the sides do not overlap, have their figure only once, or have
    so many steps that medians no longer jump.
    """
    n, m = left.size, right.size
    if min(n, m) < 2 or n + m > MOST_DEALT:
        return 0.0
    if left.max() < right.min() or right.max() < left.min():
        return 0.0
    both = np.concatenate((left, right))
    dealt = rng.permuted(np.tile(both, (resamples, 1)), axis=1)
    ranks = (n - 1) // 2, (m - 1) // 2
    seen = abs(np.sort(left)[ranks[0]] - np.sort(right)[ranks[1]])
    first = np.partition(dealt[:, :n], ranks[0], axis=1)[:, ranks[0]]
    second = np.partition(dealt[:, n:], ranks[1], axis=1)[:, ranks[1]]
    return (1 + int((np.abs(first - second) >= seen).sum())) / (1 + resamples)


def _residuals(side: Sequence[RunFigure]) -> Floats:
    """Deviations of the runs from their mean, scaled so that drawing them has the true variance."""
    values = np.array([run.value for run in side], np.float64)
    runs = values.size
    factor = math.sqrt(runs / (runs - 1)) if runs > 1 else 0.0
    return np.asarray((values - values.mean()) * factor, np.float64)


def _draw(
    side: Sequence[RunFigure],
    residuals: Floats | None,
    rng: np.random.Generator,
    resamples: int,
) -> Floats:
    """Deviations of the mean over the runs of one side, one per resample."""
    runs = len(side)
    shifts = np.stack([run.shift for run in side])
    at = np.arange(resamples)
    total = np.zeros(resamples)
    for draw in range(runs):
        own = rng.integers(0, runs, resamples)
        # A run drawn twice has its steps resampled twice, so each draw reads another resample.
        total += shifts[own, (at + draw * 97) % resamples]
        if residuals is not None:
            borrowed = residuals.size != runs
            total += residuals[rng.integers(0, residuals.size, resamples) if borrowed else own]
    return total / runs


@dataclass(frozen=True)
class Judged:
    """One p value after correction: `p`, whether it is beyond noise, and the interval's level."""

    p: float
    beyond: bool
    level: float


def holm(p_values: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, Judged]:
    """Holm's step-down correction with weights (absent: 1), for each name.

    The i-th smallest weighted p is held against `ALPHA` times its share of the weights that are
    left; the first that fails ends it. `level` is that share of `ALPHA`, so an interval at
    1 - `level` leaves out 0 exactly where the change is beyond noise.
    """
    weight = {name: weights.get(name, 1.0) for name in p_values}
    left = sum(weight.values())
    result: dict[str, Judged] = {}
    worst, failed_with = 0.0, 0.0
    for name in sorted(p_values, key=lambda key: (p_values[key] / weight[key], key)):
        worst = max(worst, min(1.0, p_values[name] * left / weight[name]))
        beyond = worst < ALPHA
        if not beyond and not failed_with:
            failed_with = left
        # After a failure the levels stay at those of the failure, however few are left.
        level = ALPHA * weight[name] / (failed_with or left)
        result[name] = Judged(worst, beyond, level)
        left -= weight[name]
    return result
