"""When a difference is more than noise: resampling, runs against steps, Holm's correction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaptrace.compare.figures import sources
from gaptrace.compare.noise import (
    ALPHA,
    RunFigure,
    difference,
    holm,
    resampled_median,
)
from gaptrace.compare.rows import metric_rows
from gaptrace.document.comparison_words import verdict_words
from gaptrace.results.comparison import (
    EXACT,
    ONE_RUN,
    RUNS,
    STEPS,
    TOO_FEW,
    VARIES,
    VERDICTS,
    WITHHELD,
    WITHIN_NOISE,
    WORSE,
    MetricRow,
)
from tests.compare.recordings import noisy, recording, values_of, with_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gaptrace.compare.recording import Recording

PERIOD = 10_000_000


def rows_of(
    left: Sequence[Recording], right: Sequence[Recording], *, seed: int = 7
) -> dict[str, MetricRow]:
    rows = metric_rows(
        left, right, unjudged={}, chosen=sources((left, right)), seed=seed, resamples=2_000
    )
    return {row.id: row for row in rows}


def figures(values: list[float], *, steps: int = 0) -> list[RunFigure]:
    return [RunFigure(value, np.zeros(2_000), np.empty(0), steps) for value in values]


def test_a_resampled_median_is_what_drawing_with_replacement_gives() -> None:
    values = np.array([3.0, 1.0, 8.0, 9.0, 2.0, 30.0, 4.0])
    drawn = 4.0 + resampled_median(values, np.random.default_rng(1), 40_000)
    rng = np.random.default_rng(2)
    brute = np.sort(rng.choice(values, (40_000, 7)), axis=1)[:, 3]
    assert set(drawn) <= set(values)
    for value in values:
        assert (drawn == value).mean() == pytest.approx((brute == value).mean(), abs=0.01)


def test_the_median_of_an_even_number_is_the_lower_middle_one() -> None:
    shift = resampled_median(np.array([1.0, 2.0]), np.random.default_rng(0), 20_000)
    # The lower of two draws is 1 unless both are 2.
    assert (shift == 0).mean() == pytest.approx(0.75, abs=0.02)


def test_runs_are_judged_by_their_scatter_with_few_degrees_of_freedom() -> None:
    rng = np.random.default_rng(0)
    noise = difference(figures([10.0, 11.0, 12.0]), figures([10.5, 11.5, 12.5]), rng)
    assert (noise.basis, noise.df, noise.borrowed) == (RUNS, 4, False)
    assert noise.change == pytest.approx(0.5)
    # Two means of three runs with variance 1 each: sqrt(1/3 + 1/3).
    assert noise.error == pytest.approx(0.816, rel=0.05)
    assert noise.p == pytest.approx(0.573, abs=0.03)


def test_a_single_run_borrows_the_scatter_of_the_other_side_by_size() -> None:
    rng = np.random.default_rng(0)
    noise = difference(figures([10.0, 11.0, 12.0]), figures([110.0]), rng)
    assert (noise.basis, noise.df, noise.borrowed) == (RUNS, 2, True)
    # One run of 110 that scatters like 1 in 11, beside the mean of three.
    assert noise.error == pytest.approx(np.hypot(10.0, 0.577), rel=0.05)


def test_holm_steps_down_and_stops_at_the_first_failure() -> None:
    judged = holm({"a": 0.01, "b": 0.02, "c": 0.2, "d": 0.03}, {})
    # 0.01 * 4, then 0.02 * 3 fails, and what follows cannot pass.
    assert judged["a"].p == pytest.approx(0.04)
    assert judged["b"].p == pytest.approx(0.06)
    assert judged["d"].p == pytest.approx(0.06)
    assert judged["c"].p == pytest.approx(0.2)
    assert [judged[name].beyond for name in "abcd"] == [True, False, False, False]
    assert judged["a"].level == pytest.approx(ALPHA / 4)
    assert judged["d"].level == pytest.approx(ALPHA / 3)


def test_holm_gives_a_heavy_hypothesis_its_share() -> None:
    judged = holm({"step": 0.02, "b": 0.02}, {"step": 3.0})
    # 0.05 * 3/4 for the step; once it has passed, all of 0.05 is left for the other.
    assert judged["step"].beyond
    assert judged["b"].beyond
    assert holm({"step": 0.04, "b": 0.02}, {"step": 3.0})["step"].beyond is False


@pytest.mark.parametrize("seed", range(40))
def test_an_interval_leaves_out_zero_exactly_where_the_change_is_beyond_noise(seed: int) -> None:
    rng = np.random.default_rng(seed)
    left = noisy(rng, runs=3, steps=12, period_ns=PERIOD, run_noise=0.01)
    right = noisy(rng, runs=3, steps=12, period_ns=PERIOD * 1.04, run_noise=0.01)
    for row in rows_of(left, right).values():
        if row.interval is not None:
            low, high = row.interval
            assert (low > 0 or high < 0) == (row.verdict in ("better", WORSE))


def test_a_planted_five_percent_is_found_at_one_percent_noise() -> None:
    found = {0.0: 0, 0.01: 0}
    for run_noise in found:
        for seed in range(60):
            rng = np.random.default_rng(seed)
            left = noisy(rng, runs=3, steps=20, period_ns=PERIOD, run_noise=run_noise)
            right = noisy(rng, runs=3, steps=20, period_ns=1.05 * PERIOD, run_noise=run_noise)
            rows = rows_of(left, right)
            found[run_noise] += rows["step_time"].verdict == WORSE
            assert rows["tokens_per_s"].verdict == rows["step_time"].verdict
    assert found[0.0] == 60
    # The same noise once more between the runs: five standard errors, four degrees of freedom.
    assert found[0.01] >= 54


@pytest.mark.parametrize("run_noise", [0.0, 0.01, 0.1])
def test_repeats_of_the_same_thing_compare_as_within_noise(run_noise: float) -> None:
    wrong = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        runs = noisy(rng, runs=6, steps=20, period_ns=PERIOD, run_noise=run_noise)
        verdicts = values_of(list(rows_of(runs[:3], runs[3:]).values()))
        wrong += any(verdict in ("better", WORSE) for verdict in verdicts.values())
    assert wrong <= 5


def test_half_splits_of_one_recording_are_within_noise() -> None:
    """Steps of two kinds make medians jump; still 95 % of all verdicts read within noise."""
    rng = np.random.default_rng(0)
    kinds = np.where(rng.random(40) < 0.4, 20 * PERIOD, PERIOD)
    for periods in (PERIOD * (1 + 0.05 * rng.standard_normal(24)), kinds + rng.integers(0, 9, 40)):
        whole = recording(periods, busy=(periods * 0.3).round())
        within = judged = 0
        for seed in range(200):
            places = np.random.default_rng(seed).permutation(periods.size)
            half = periods.size // 2
            rows = rows_of(
                [with_steps(whole, np.sort(places[:half]))],
                [with_steps(whole, np.sort(places[half:]))],
            )
            verdicts = [row.verdict for row in rows.values() if row.verdict != WITHHELD]
            within += sum(verdict == WITHIN_NOISE for verdict in verdicts)
            judged += len(verdicts)
        assert judged >= 200 * 9
        assert within / judged >= 0.95


def test_one_run_a_side_says_that_run_to_run_was_not_measured() -> None:
    rng = np.random.default_rng(3)
    (left,) = noisy(rng, runs=1, steps=20, period_ns=PERIOD)
    (right,) = noisy(rng, runs=1, steps=20, period_ns=PERIOD * 1.05)
    row = rows_of([left], [right])["step_time"]
    assert (row.verdict, row.basis, row.note) == (WORSE, STEPS, ONE_RUN)
    same = rows_of([left], [left])["step_time"]
    assert (same.verdict, same.note) == (WITHIN_NOISE, "")


def test_fewer_than_five_steps_are_too_few_but_counts_are_exact() -> None:
    four = recording([100, 101, 102, 103], kernels=10)
    six = recording([200, 201, 202, 203, 204, 205], kernels=9)
    rows = rows_of([four], [six])
    assert rows["step_time"].verdict == TOO_FEW
    assert rows["step_time"].change == 101
    assert (rows["kernels"].verdict, rows["kernels"].basis) == ("better", EXACT)
    assert rows_of([six], [six])["step_time"].verdict == WITHIN_NOISE


def test_steps_of_several_runs_add_up_to_five() -> None:
    three = recording([100, 101, 102])
    assert rows_of([three, three], [three, three])["step_time"].verdict == WITHIN_NOISE


@pytest.mark.parametrize("metric", ["kernels", "launches", "copies", "memsets"])
@pytest.mark.parametrize(
    ("before", "after", "verdict", "basis", "words"),
    [
        ([10] * 6, [10] * 6, WITHIN_NOISE, EXACT, "= equal"),
        # One step of another kind, on either side, in few steps or many.
        ([10] * 6, [10, 10, 10, 90, 10, 10], WITHIN_NOISE, EXACT, "= equal"),
        ([10, 90, 10], [10] * 6, WITHIN_NOISE, EXACT, "= equal"),
        ([10, 90, 10], [11, 11, 2], WORSE, EXACT, "▲ worse"),
        ([10] * 6, [9, 9, 9, 9, 9, 90], "better", EXACT, "▼ better"),
        # No count that most steps have: told apart where the middle halves lie apart.
        ([10, 11, 12, 13, 14, 15], [20, 21, 22, 23, 24, 25], WORSE, EXACT, "▲ worse"),
        ([10, 11, 12, 13, 14, 15], [12, 13, 14, 15, 16, 17], WITHIN_NOISE, STEPS, "= within noise"),
        ([0] * 6, [1] * 6, WORSE, EXACT, "▲ worse"),
    ],
)
def test_all_counts_are_compared_exactly_by_one_rule(
    metric: str, before: list[int], after: list[int], verdict: str, basis: str, words: str
) -> None:
    left, right = (recording([PERIOD] * len(counts)) for counts in (before, after))
    left.steps[metric][:] = before
    right.steps[metric][:] = after
    row = rows_of([left], [right])[metric]
    assert (row.verdict, row.basis, verdict_words(row)) == (verdict, basis, words)
    assert row.interval is row.p is None
    assert (row.note == VARIES) == (basis == STEPS)


def test_counts_of_runs_are_those_of_all_their_steps() -> None:
    odd = recording([PERIOD] * 6, kernels=12, repeat=3)
    same = [recording([PERIOD] * 6, kernels=10, repeat=n) for n in (1, 2)]
    assert verdict_words(rows_of([*same, odd], same)["kernels"]) == "= equal"
    # Half of the steps have either count, and so does the other side.
    assert verdict_words(rows_of([same[0], odd], [same[1], odd])["kernels"]) == "= equal"
    # Half of them have 10, half 12: neither tells it apart from 11.
    eleven = recording([PERIOD] * 6, kernels=11)
    assert rows_of([same[0], odd], [eleven])["kernels"].verdict == WITHIN_NOISE


def test_peak_memory_is_a_count_of_runs() -> None:
    gb = 10**9
    left = [
        recording([PERIOD] * 6, peak_memory=4 * gb),
        recording([PERIOD] * 6, peak_memory=5 * gb),
    ]
    row = rows_of(left, [recording([PERIOD] * 6, peak_memory=8 * gb)])["peak_memory"]
    assert (row.verdict, row.basis) == (WORSE, EXACT)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_interval_is_impossible(data: st.DataObject) -> None:
    """No figure falls by more than all of it, no share exceeds 1, no count has an interval."""

    def side() -> list[Recording]:
        runs = []
        for _ in range(data.draw(st.integers(1, 3))):
            count = data.draw(st.integers(1, 8))
            period = data.draw(st.lists(st.integers(2, 10**6), min_size=count, max_size=count))
            busy = [data.draw(st.integers(0, ns)) for ns in period]
            kernels = data.draw(st.lists(st.integers(0, 90), min_size=count, max_size=count))
            timed = data.draw(st.none() | st.integers(max(busy) + 1, 2 * 10**6))
            runs.append(
                recording(
                    period, busy=np.array(busy), kernels=np.array(kernels), unprofiled_ns=timed,
                    unprofiled_samples=np.array([timed or 0] * 5),
                )
            )  # fmt: skip
        return runs

    for row in rows_of(side(), side()).values():
        if row.unit in ("count", "bytes"):
            assert row.interval is row.interval_ratio is row.p is None
        if row.interval is None:
            continue
        low, high = row.interval
        base, after = row.baseline.value, row.candidate.value
        assert base is not None
        assert after is not None
        assert low is not None
        assert high is not None
        assert low <= high
        if min(base, after) >= 0:
            assert low >= -base
            assert row.unit != "share" or high <= 1 - base
        if row.interval_ratio is not None and min(base, after) >= 0:
            assert (row.interval_ratio[0] or 0) >= -1


def test_the_same_seed_gives_the_same_intervals_and_another_seed_nearly_the_same() -> None:
    rng = np.random.default_rng(5)
    left = noisy(rng, runs=3, steps=20, period_ns=PERIOD)
    right = noisy(rng, runs=3, steps=20, period_ns=PERIOD * 1.02)
    first, again = rows_of(left, right), rows_of(left, right)
    assert {k: row.interval for k, row in first.items()} == {
        k: row.interval for k, row in again.items()
    }
    other = rows_of(left, right, seed=8)["step_time"].interval
    mine = first["step_time"].interval
    assert mine is not None
    assert other is not None
    assert other != mine
    assert other[0] == pytest.approx(mine[0], rel=0.2)


def test_every_verdict_is_one_of_the_words() -> None:
    rows = rows_of([recording([5] * 9)], [recording([6] * 9)])
    assert {row.verdict for row in rows.values()} <= set(VERDICTS)
    assert rows["peak_memory"].verdict == WITHHELD
    assert "unknown" in rows["peak_memory"].note
