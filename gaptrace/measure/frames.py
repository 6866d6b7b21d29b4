"""Steps and gaps as columns, for pandas frames, CSV and JSON. Times are integer ns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gaptrace.measure.gaps import CAUSES
from gaptrace.measure.hosttime import HOST_CLASSES

if TYPE_CHECKING:
    from gaptrace.measure.result import Analysis
    from gaptrace.trace import Ints


def step_columns(analysis: Analysis) -> dict[str, Any]:
    """One entry per step of the device and column, in time order; no columns without steps."""
    steps = analysis.step_table
    if steps is None:
        return {}
    trace = analysis.trace
    columns: dict[str, Any] = {
        "step": np.arange(len(steps)),
        "label": [trace.name_of(int(r)) if r >= 0 else "" for r in steps.marks.row],
        "phase": list(steps.phase),
        "tokens": steps.tokens,
        "excluded": list(steps.excluded),
        "host_start_ns": steps.host_start,
        "host_end_ns": steps.host_end,
        "gpu_start_ns": steps.gpu_start,
        "gpu_end_ns": steps.gpu_end,
        "period_ns": steps.period_ns,
        "busy_ns": steps.busy_ns,
        "idle_ns": steps.idle_ns,
        "foreign_ns": steps.foreign_ns,
        "kernels": steps.kernels,
        "copies": steps.copies,
        "memsets": steps.memsets,
        "launches": steps.launches,
        "graph_launches": steps.graph_launches,
        "kernels_in_graphs": steps.kernels_in_graphs,
        "orphans": steps.orphans,
        "host_window_ns": steps.host_window_ns,
        "host_dispatch_ns": steps.host_dispatch_ns,
    }
    for i, name in enumerate(CAUSES):
        columns[f"idle_{name}_ns"] = steps.cause_ns[:, i]
    for i, name in enumerate(HOST_CLASSES):
        columns[f"host_time_{name}_ns"] = steps.host_ns[:, i]
    return columns


def gap_columns(analysis: Analysis) -> dict[str, Any]:
    """One entry per gap of the device and column, in time order; no columns without a device.

    `step` is the step whose GPU window holds the gap, -1 outside. `before` and `after` name the
    ops on both sides, `launch_call` the call that ended the wait.
    """
    device = analysis.device
    if device is None:
        return {}
    trace, gaps = analysis.trace, device.gaps
    columns: dict[str, Any] = {
        "gap": np.arange(len(gaps)),
        "step": gap_steps(analysis),
        "start_ns": gaps.start,
        "end_ns": gaps.end,
        "dur_ns": gaps.dur,
        "cause": [CAUSES[i] for i in gaps.cause_ns.argmax(axis=1)] if len(gaps) else [],
        "before": [trace.name_of(int(r)) for r in gaps.before],
        "after": [trace.name_of(int(r)) for r in gaps.after],
        "launch_call": [trace.name_of(int(r)) if r >= 0 else "" for r in gaps.launch],
        "before_row": gaps.before,
        "after_row": gaps.after,
        "launch_row": gaps.launch,
        "drained_by_sync": gaps.drained_by_sync,
    }
    for i, name in enumerate(CAUSES):
        columns[f"{name}_ns"] = gaps.cause_ns[:, i]
    return columns


def gap_steps(analysis: Analysis) -> Ints:
    """The step whose GPU window holds each gap of the device, -1 outside all windows."""
    device, steps = analysis.device, analysis.step_table
    if device is None:
        return np.empty(0, np.int64)
    if steps is None:
        return np.full(len(device.gaps), -1, np.int64)
    return steps.gap_step(device.gaps.end)
