"""What is shown of a side with several runs: parts of one step are of one run, and add up."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from gaptrace.compare.figures import (
    PROFILED,
    UNPROFILED,
    Sampler,
    run_figure,
    shown_run,
    side_figure,
)
from gaptrace.compare.metrics import BY_ID
from gaptrace.compare.noise import RunFigure
from tests.compare.recordings import recording


def runs(*values: float) -> list[RunFigure | None]:
    return [RunFigure(value, np.zeros(1), np.empty(0), 1) for value in values]


@pytest.mark.parametrize(
    ("steps", "shown"),
    [
        ([30, 10, 20], 2),
        ([30, 10], 1),
        ([10, 30], 0),
        ([10, 10, 10], 0),
        ([10], 0),
        ([10, None], None),
    ],
)
def test_the_run_shown_has_the_median_step(steps: list[int | None], shown: int | None) -> None:
    side = [dataclasses.replace(recording([90] * 5), unprofiled_ns=ns) for ns in steps]
    assert shown_run(side, UNPROFILED) == shown


def test_as_profiled_the_traced_steps_decide() -> None:
    assert shown_run([recording([90] * 5), recording([70] * 5), recording([80] * 5)], PROFILED) == 2


@pytest.mark.parametrize(
    ("metric", "value"), [("idle", 7), ("busy", 7), ("host_dispatch", 7), ("peak_memory", 3)]
)
def test_parts_of_a_step_are_those_of_the_run_shown(metric: str, value: float) -> None:
    assert side_figure(BY_ID[metric], runs(7, 1, 3), 0).value == value
    assert side_figure(BY_ID[metric], runs(7, 1, 3), None).value == 3


def test_busy_and_idle_of_a_side_are_its_step() -> None:
    """The median idle alone would be that of another run."""
    sampler = Sampler(np.random.default_rng(0), 1)
    side = [
        dataclasses.replace(recording([90] * 5, busy=busy), unprofiled_ns=step)
        for step, busy in ((70, 40), (64, 50), (60, 30))
    ]
    shown = shown_run(side, UNPROFILED)
    step, busy, idle = (
        side_figure(
            BY_ID[name], [run_figure(name, run, UNPROFILED, sampler) for run in side], shown
        ).value
        for name in ("step_time", "busy", "idle")
    )
    assert (step, busy, idle) == (64, 50, 14)
