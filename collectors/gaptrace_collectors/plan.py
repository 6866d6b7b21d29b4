"""How many steps each phase gets: arithmetic only, so that it can be tested without torch."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gaptrace_collectors.options import BOTH

if TYPE_CHECKING:
    from gaptrace_collectors.options import Options

CHECK_STEPS = 8
FEWEST = 5
IDLE_STEPS = 5  # without compiling, before a compiled step counts as warm


class TooFewStepsError(Exception):
    """The script offers fewer decode steps than the smallest honest recording needs."""

    def __init__(self, available: int, needed: int) -> None:
        super().__init__(f"{available} decode steps seen, at least {needed} are needed")
        self.available = available
        self.needed = needed


@dataclass(frozen=True)
class Plan:
    """Decode steps per phase, in order. `warmup` includes the `check` steps."""

    check: int
    warmup: int
    sync: int
    timed_before: int
    issue: int
    profiled: int
    settle: int
    timed_after: int
    # Steps recorded lightly before those recorded in full; 0 where one recording is made.
    light: int = 0

    # The profiler's own warm-up step, the unmarked lead step, and the open step at the end.
    profiler_extra: int = 3

    @property
    def needed(self) -> int:
        """Decode steps that the whole plan consumes; the last one only ends the last period."""
        return (
            max(self.check, self.warmup)
            + self.sync
            + self.timed_before
            + self.issue
            + self.profiler_extra
            + self.profiled
            + (self.light + self.profiler_extra if self.light else 0)
            + self.settle
            + self.timed_after
            + 1
        )


def full_plan(options: Options) -> Plan:
    """The plan for a script that has steps in plenty."""
    before = max(1, (options.timed_steps + 1) // 2)
    return Plan(
        check=CHECK_STEPS,
        warmup=max(options.warmup, CHECK_STEPS),
        sync=1,
        timed_before=before,
        issue=options.issue_steps,
        profiled=options.steps,
        settle=3,
        timed_after=max(1, options.timed_steps - before),
        light=options.steps if options.trace == BOTH else 0,
    )


def fitted_plan(options: Options, available: int) -> Plan:
    """The largest plan that fits `available` decode steps.

    Timed steps shrink first, then what is measured beside them, then the profiled steps, then the
    warm-up; timed and profiled steps never below 5 (unless fewer were asked for). Where that is
    still too much, the light recording is left out. Raises TooFewStepsError.
    """
    plan = full_plan(options)
    try:
        return _fitted(plan, available)
    except TooFewStepsError:
        if not plan.light:
            raise
    return _fitted(dataclasses.replace(plan, light=0), available)


def _fitted(plan: Plan, available: int) -> Plan:
    smallest: tuple[dict[str, int], ...] = (
        {"timed_before": FEWEST, "timed_after": FEWEST},
        {"issue": 3, "settle": 1},
        {"profiled": FEWEST} | ({"light": FEWEST} if plan.light else {}),
        {"check": FEWEST, "warmup": FEWEST},
    )
    for floors in smallest:
        # The larger of two phases gives way first, so that they stay balanced.
        while plan.needed > available:
            room = {key: getattr(plan, key) - floor for key, floor in floors.items()}
            key = max(room, key=lambda name: room[name])
            if room[key] <= 0:
                break
            excess = plan.needed - available
            step = max(1, min(room[key], excess // 2))
            plan = dataclasses.replace(plan, **{key: getattr(plan, key) - step})
            if plan.warmup < plan.check:
                plan = dataclasses.replace(plan, check=plan.warmup)
    if plan.needed > available:
        raise TooFewStepsError(available, plan.needed)
    return plan
