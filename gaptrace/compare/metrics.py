"""The metrics of a comparison: their names, their units, which way is better, what they mean."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from gaptrace.errors import OptionError

LOWER, HIGHER = "lower", "higher"


@dataclass(frozen=True)
class Metric:
    """One metric: stable id, words, unit, which way is better, and what it means.

    gate: `--fail-on` takes it. counted: a whole number that the program decides, compared exactly
    where it does not vary within a side. equal: a change of up to this share of the baseline says
    nothing; `equal_words` says so. hypothesis: metrics that say the same thing in other words
    share one test. weight: in Holm's correction.
    """

    id: str
    title: str
    unit: str
    meaning: str
    better: str = LOWER
    per_token: bool = True
    gate: bool = True
    counted: bool = False
    equal: float = 0.0
    equal_words: str = ""
    hypothesis: str = ""
    weight: float = 1.0


METRICS = (
    Metric(
        "step_time",
        "step time",
        "ns",
        "start of a step's first GPU op to that of the next step",
        per_token=False,
        gate=False,
        hypothesis="step",
        weight=4.0,
    ),
    Metric(
        "tokens_per_s",
        "token rate",
        "tok/s",
        "tokens per step / step time; unprofiled where the run measured it",
        better=HIGHER,
        per_token=False,
        hypothesis="step",
        weight=4.0,
    ),
    Metric(
        "idle",
        "GPU idle",
        "ns",
        "time per token in which the GPU runs nothing; unprofiled where that was measured",
    ),
    Metric("idle_share", "idle share", "share", "idle time / step time", per_token=False),
    Metric(
        "busy",
        "GPU busy",
        "ns",
        "time per token in which the GPU runs something, overlap counted once",
    ),
    Metric(
        "host_dispatch",
        "host dispatch",
        "ns",
        "host time per token to issue a step: its host window less sync and backpressure, "
        "or the run's unprofiled issue time",
    ),
    Metric(
        "kernels",
        "kernels",
        "count",
        "kernels per token, copies and memsets not included",
        counted=True,
    ),
    Metric(
        "launches",
        "launch calls",
        "count",
        "distinct launch calls per token; a graph replay is one",
        counted=True,
    ),
    Metric(
        "copies",
        "copies",
        "count",
        "memory copies on the GPU per token",
        gate=False,
        counted=True,
    ),
    Metric(
        "memsets",
        "memsets",
        "count",
        "memory sets on the GPU per token",
        gate=False,
        counted=True,
    ),
    Metric(
        "peak_memory",
        "peak memory",
        "bytes",
        "largest amount of device memory allocated, from the run's manifest; up to 0.1 % "
        "of difference is none",
        per_token=False,
        counted=True,
        # The allocator hands out blocks; which of them are in use at the peak differs by a few.
        equal=0.001,
        equal_words="peak memory: up to 0.1 % counts as equal",
    ),
)
BY_ID = {metric.id: metric for metric in METRICS}
GATES = tuple(metric.id for metric in METRICS if metric.gate)


def gate_metric(name: str) -> Metric:
    """The gate metric of this name.

    Raises:
        OptionError: there is none; the hint names the closest.
    """
    if name in GATES:
        return BY_ID[name]
    close = difflib.get_close_matches(name, GATES, 1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise OptionError(f"no metric {name!r}", f"{hint}metrics: {', '.join(GATES)}")
