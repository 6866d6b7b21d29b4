"""One step of many into which other work fell colours no median, spread, finding or verdict."""

from __future__ import annotations

from typing import Any

import pytest

from gaptrace.analysis import Analysis, analyze
from tests.builders import Event, decode_events, trace_of

USUAL: dict[str, Any] = {"kernels": 20, "gap_ns": 8_000}
ODD: dict[str, dict[str, Any]] = {
    "a prefill without a mark": {"kernels": 45, "kernel_ns": 90_000},
    "a warm-up": {"kernels": 200},
    "most of it lost": {"kernels": 3},
}
LABELS = ("gaptrace.step#{n}", "ProfilerStep#{n}", "execute_context_0(0)_generation_1(1)")


def recorded(label: str, *groups: dict[str, Any]) -> Analysis:
    """Steps one group after the other; a group says how many, and how they are drawn."""
    events: list[Event] = []
    at = first = 0
    for number, group in enumerate(groups):
        options = {**USUAL, **group}
        count = options.pop("steps")
        drawn = decode_events(steps=count, label=label, first=first, at=at, **options)
        for event in drawn:
            args = event.get("args", {})
            for key in ("correlation", "External id"):
                if args.get(key):
                    args[key] += 10_000 * number
        events += drawn
        first += count
        one = options.get("kernel_ns", 2_000) + options["gap_ns"]
        at += count * (options["kernels"] * one + 10_000)
    return analyze(trace_of(*events))


def told(analysis: Analysis) -> dict[str, Any]:
    """What an odd step must not change."""
    result = analysis.result
    return {
        "median": result.steps.median,
        "p5": result.steps.p5,
        "p95": result.steps.p95,
        "findings": [(f.id, f.title, round(f.ceiling_ns_per_token)) for f in result.findings],
        "ready": result.capture.ready,
        "blockers": [b.id for b in result.capture.blockers if b.blocks],
        "rate": result.rate.tokens_per_s,
    }


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("before", [0, 6])
def test_one_odd_step_colours_nothing(label: str, odd: str, before: int) -> None:
    groups = [{"steps": 1, **ODD[odd]}, {"steps": 13 - before}]
    plain = recorded(label, {"steps": 13})
    found = recorded(label, *([{"steps": before}] if before else []), *groups)
    assert told(found) == told(plain)
    # The first step of all may be known for a prefill by what it does.
    excluded = dict(found.result.steps.excluded)
    assert excluded.pop("open") == 1
    assert sum(excluded.values()) == 1
    if before:
        assert excluded == {"unlike the others": 1}
        assert any(reason.id == "odd_steps" for reason in found.result.quality.reasons)


def test_work_that_comes_back_is_no_exception() -> None:
    """Two sizes of step in turn: both count."""
    groups = [{"steps": 1, "kernels": size} for size in (20, 60) * 7]
    found = recorded(LABELS[1], *groups)
    assert found.result.steps.complete == 13


def test_a_slow_step_of_the_same_work_counts() -> None:
    found = recorded(LABELS[0], {"steps": 6}, {"steps": 1, "gap_ns": 40_000}, {"steps": 7})
    assert found.result.steps.complete == 13
    # Its last gap to the next step is a usual one, as a window ends where the next one begins.
    assert found.result.steps.p95.period_ns == 20 * 2_000 + 19 * 40_000 + 8_000 + 10_000
