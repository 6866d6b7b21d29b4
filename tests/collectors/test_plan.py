"""How a recording shrinks when a script offers too few decode steps."""

import pytest

from gaptrace_collectors.options import Options
from gaptrace_collectors.plan import FEWEST, TooFewStepsError, fitted_plan, full_plan


def test_full_plan_counts_every_step_it_consumes():
    plan = full_plan(Options(warmup=10, timed_steps=100, steps=8, issue_steps=10))
    # warm-up, sync, timed, issue, prepare + lead + 8 + open, settle, timed, end of the last period
    assert plan.needed == 10 + 1 + 50 + 10 + 11 + 3 + 50 + 1


def test_timed_steps_shrink_first_and_evenly():
    full = full_plan(Options())
    plan = fitted_plan(Options(), full.needed - 40)
    assert (plan.timed_before, plan.timed_after) == (30, 30)
    assert plan.profiled == full.profiled
    assert plan.issue == full.issue


def test_profiled_steps_shrink_only_when_timed_ones_are_at_their_floor():
    plan = fitted_plan(Options(), 36)
    assert (plan.timed_before, plan.timed_after) == (FEWEST, FEWEST)
    assert FEWEST <= plan.profiled < 8


def test_every_fitting_plan_fits_and_keeps_its_floors():
    smallest = _needed_at_least()
    for available in range(smallest, full_plan(Options()).needed + 1):
        plan = fitted_plan(Options(), available)
        assert plan.needed <= available
        assert min(plan.timed_before, plan.timed_after, plan.profiled) >= FEWEST
        assert plan.check <= plan.warmup


def test_enough_steps_change_nothing():
    assert fitted_plan(Options(), 10_000) == full_plan(Options())


def test_too_few_steps_say_how_many_are_needed():
    smallest = _needed_at_least()
    with pytest.raises(TooFewStepsError) as error:
        fitted_plan(Options(), smallest - 1)
    assert error.value.needed == smallest
    assert f"at least {smallest}" in str(error.value)


def test_fewer_profiled_steps_than_five_stay_as_asked():
    assert fitted_plan(Options(steps=3), _needed_at_least(steps=3)).profiled == 3


def _needed_at_least(**options):
    with pytest.raises(TooFewStepsError) as error:
        fitted_plan(Options(**options), 0)
    return error.value.needed
