"""Recordings made of numbers, for tests of what comes after the analysis."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from gaptrace.compare.recording import (
    CAUSE_COLUMNS,
    CLASS_COLUMNS,
    COLUMNS,
    Recording,
    UsedKernel,
)

# Recorded without anything that slows the host but the profiler itself.
LIGHT: dict[str, str | None] = {"shapes": "no", "stacks": "no", "memory": "no"}

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


def recording(
    period: npt.ArrayLike,
    *,
    busy: npt.ArrayLike | int = 0,
    host: npt.ArrayLike | None = None,
    kernels: npt.ArrayLike | int = 10,
    tokens: int = 1,
    open_step: bool = False,
    facts: dict[str, str | None] | None = None,
    table: Sequence[UsedKernel] = (),
    **rest: Any,
) -> Recording:
    """A recording with these step periods: busy in GEMMs, the rest idle in dispatch.

    Arrays hold one value per step, whole numbers hold for all of them. table: kernels by name.
    `rest` replaces fields.
    """
    periods = np.asarray(period, np.int64)
    count = periods.size
    columns = {name: np.zeros(count, np.int64) for name in COLUMNS}
    columns["step"] = np.arange(count)
    columns["clean"] = np.ones(count, np.int64)
    columns["closed"] = np.full(count, int(not open_step))
    columns["tokens"] = np.full(count, tokens)
    columns["period_ns"] = periods
    columns["busy_gemm_ns"] = np.broadcast_to(np.asarray(busy, np.int64), (count,)).copy()
    columns["idle_dispatch_ns"] = periods - columns["busy_gemm_ns"]
    columns["host_dispatch_ns"] = np.asarray(periods if host is None else host, np.int64)
    for name in ("kernels", "launches"):
        columns[name] = np.broadcast_to(np.asarray(kernels, np.int64), (count,)).copy()
    total = {name: int(columns[name].sum()) for name in (*CAUSE_COLUMNS, *CLASS_COLUMNS)}
    fields: dict[str, Any] = {
        "path": "made/up.json",
        "run": "",
        "mode": None,
        "repeat": 1,
        "facts": {**LIGHT, **(facts or {})},
        "verdict": "ok",
        "reasons": (),
        "withheld": frozenset(),
        "rule": "gaptrace marks",
        "complete": int(columns["closed"].sum()),
        "steps": columns,
        "whole": {"period_ns": int(periods.sum()), **total},
        "unprofiled_ns": None,
        "unprofiled_samples": np.empty(0, np.int64),
        "issue_ns": None,
        "issue_samples": np.empty(0, np.int64),
        "peak_memory": None,
        "kernels": tuple(table),
        "kernel_tokens": count * tokens,
        "captured": 0.0,
        "generated": 0.0,
    }
    return Recording(**{**fields, **rest})


def noisy(
    rng: np.random.Generator,
    *,
    runs: int,
    steps: int,
    period_ns: float,
    busy_share: float = 0.3,
    step_noise: float = 0.01,
    run_noise: float = 0.0,
    host_share: float = 0.8,
) -> tuple[Recording, ...]:
    """Repeats of one thing with normal noise, relative to the period, between steps and runs."""
    result = []
    for repeat in range(runs):
        offset = 1 + run_noise * rng.standard_normal()
        periods = period_ns * offset * (1 + step_noise * rng.standard_normal(steps))
        busy = period_ns * busy_share * offset * (1 + step_noise * rng.standard_normal(steps))
        host = host_share * period_ns * offset * (1 + step_noise * rng.standard_normal(steps))
        result.append(
            recording(periods.round(), busy=busy.round(), host=host.round(), repeat=repeat + 1)
        )
    return tuple(result)


def values_of(rows: Sequence[Any]) -> dict[str, str]:
    """Verdict by metric."""
    return {row.id: row.verdict for row in rows}


def with_steps(whole: Recording, keep: npt.ArrayLike) -> Recording:
    """The same recording with some of its steps, by their place among the counted ones."""
    chosen = np.asarray(keep)
    steps = {name: column[chosen] for name, column in whole.steps.items()}
    return dataclasses.replace(whole, steps=steps, complete=int(steps["closed"].sum()))
