"""Where the host's time goes: by op, by Python function, by module; and what a launch costs."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from gaptrace import intervals as iv
from gaptrace.intervals import Intervals
from gaptrace.measure.attribution import MODULE_PREFIX, frame_lane, owner_at
from gaptrace.measure.devices import Device
from gaptrace.measure.gaps import CAUSES, HOST_CAUSES
from gaptrace.measure.links import codes_in, names_where
from gaptrace.measure.marks import COMPILED_REGION
from gaptrace.measure.stats import nearest_rank
from gaptrace.measure.steps import Steps
from gaptrace.measure.threads import STEP_MARK, Activity, dispatching_ops
from gaptrace.trace import Cat, Ints, Trace


@dataclass(frozen=True)
class OpRow:
    """One CPU op name over the counted steps, per token.

    calls: how often. self_ns: time inside the op but in no nested op, runtime call or profiler
    work. launches: launch calls made by the op itself.
    """

    name: str
    calls: float
    self_ns: float
    launches: float


@dataclass(frozen=True)
class SpanRow:
    """Self time per token of a Python function, module or annotation on the launching thread."""

    name: str
    self_ns: float


@dataclass(frozen=True)
class HostDetail:
    """The host's side of the counted steps.

    ops: by self time. python: the Python functions that time between ops belongs to. modules: the
    whole host window by innermost module, or by annotation where no stacks were recorded.
    launch_call_ns: median duration of a launch call. cost_per_launch_ns: host dispatch time over
    launch calls. launch_to_start_ns: median time from the launch call's start to the op's start
    where the GPU was waiting for it. None where there is nothing to measure.
    """

    ops: tuple[OpRow, ...]
    python: tuple[SpanRow, ...]
    modules: tuple[SpanRow, ...]
    launch_call_ns: int | None
    cost_per_launch_ns: float | None
    launch_to_start_ns: int | None


def host_detail(
    trace: Trace, device: Device, steps: Steps, threads: dict[int, Activity]
) -> HostDetail:
    """Ops, Python functions and modules by self time in the counted steps' host windows.

    Windows of the last step are not counted: their end is not known.
    """
    usable = steps.counted.copy()
    if usable.sum() > 1:
        usable[steps.open_index] = False
    tokens = steps.tokens[usable].sum().item() if usable.any() else 0
    ops: dict[str, list[float]] = {}
    python: dict[str, float] = {}
    modules: dict[str, float] = {}
    for lane in np.unique(steps.lane[usable]):
        if lane < 0 or int(lane) not in threads:
            continue
        here = usable & (steps.lane == lane)
        window = iv.union(steps.host_start[here], steps.host_end[here])
        activity = threads[int(lane)]
        _ops(trace, device, int(lane), window, activity, ops)
        _spans(trace, int(lane), window, activity, python, modules)
    scale = 1 / tokens if tokens else 0.0
    return HostDetail(
        ops=tuple(
            OpRow(name, calls * scale, self_ns * scale, launches * scale)
            for name, (calls, self_ns, launches) in sorted(
                ops.items(), key=lambda item: (-item[1][1], item[0])
            )
        ),
        python=_ranked(python, scale),
        modules=_ranked(modules, scale),
        launch_call_ns=_launch_call(trace, device, steps, usable),
        cost_per_launch_ns=_cost_per_launch(steps, usable),
        launch_to_start_ns=_launch_to_start(trace, device, steps, usable),
    )


def _ranked(table: dict[str, float], scale: float) -> tuple[SpanRow, ...]:
    ordered = sorted(table.items(), key=lambda item: (-item[1], item[0]))
    return tuple(SpanRow(name, ns * scale) for name, ns in ordered if ns)


def _ops(
    trace: Trace,
    device: Device,
    lane: int,
    window: Intervals,
    activity: Activity,
    table: dict[str, list[float]],
) -> None:
    rows = dispatching_ops(trace)
    rows = rows[trace.lane[rows] == lane]
    rows = rows[_starts_in(window, trace.start[rows])]
    counted = np.zeros(len(trace), np.bool_)
    counted[rows] = True
    segments = activity.ops
    own = iv.intersect(activity.dispatch, window)
    self_ns = iv.overlap_with(own, segments.start, segments.end)
    mine = counted[segments.owner]
    owner, self_ns = segments.owner[mine], self_ns[mine]
    calls = device.links.calls
    around = owner_at(segments, trace.start[calls[trace.lane[calls] == lane]])
    around = around[around >= 0]
    around = around[counted[around]]
    size = len(trace.names)
    columns = (
        np.bincount(trace.name[rows], minlength=size),
        np.bincount(trace.name[owner], weights=self_ns, minlength=size),
        np.bincount(trace.name[around], minlength=size),
    )
    for code in np.flatnonzero(columns[0]):
        entry = table.setdefault(trace.names[int(code)], [0.0, 0.0, 0.0])
        for column, sums in enumerate(columns):
            entry[column] += float(sums[code])


def _starts_in(window: Intervals, at: Ints) -> np.ndarray:
    if window.start.size == 0:
        return np.zeros(at.size, np.bool_)
    index = np.searchsorted(window.start, at, side="right") - 1
    return np.asarray((index >= 0) & (at < window.end[np.maximum(index, 0)]))


def _spans(
    trace: Trace,
    lane: int,
    window: Intervals,
    activity: Activity,
    python: dict[str, float],
    modules: dict[str, float],
) -> None:
    frames = trace.rows_of(Cat.PYTHON)
    own = frames[trace.lane[frames] == frame_lane(trace, frames, lane)] if frames.size else frames
    if own.size:
        busy_sets = list(activity.sets().values())
        busy = iv.union(
            np.concatenate([part.start for part in busy_sets]),
            np.concatenate([part.end for part in busy_sets]),
        )
        _add_self(trace, own, iv.subtract(window, busy), python)
    module = own[names_where(trace, trace.name[own], lambda name: name.startswith(MODULE_PREFIX))]
    if module.size == 0:
        notes = trace.rows_of(Cat.ANNOTATION)
        notes = notes[trace.lane[notes] == lane]
        module = notes[names_where(trace, trace.name[notes], _is_region)]
    _add_self(trace, module, window, modules)


def _is_region(name: str) -> bool:
    return not STEP_MARK.match(name) and not COMPILED_REGION.match(name)


def _add_self(trace: Trace, rows: Ints, where: Intervals, table: dict[str, float]) -> None:
    segments = iv.innermost(trace.start[rows], trace.start[rows] + trace.dur[rows])
    pieces = iv.intersect(Intervals(segments.start, segments.end), where)
    if pieces.start.size == 0:
        return
    owner = segments.owner[np.searchsorted(segments.start, pieces.start, side="right") - 1]
    names = trace.name[rows[owner]]
    sums = np.bincount(names, weights=pieces.end - pieces.start)
    for code in codes_in(names):
        name = re.sub(r"_\d+$", "", trace.names[int(code)].removeprefix(MODULE_PREFIX))
        table[name] = table.get(name, 0.0) + float(sums[code])


def _counted_ops(steps: Steps, usable: np.ndarray) -> np.ndarray:
    if not len(steps):
        return np.zeros(steps.op_step.size, np.bool_)
    return np.asarray((steps.op_step >= 0) & usable[np.maximum(steps.op_step, 0)])


def _launch_call(trace: Trace, device: Device, steps: Steps, usable: np.ndarray) -> int | None:
    inside = _counted_ops(steps, usable) & device.links.launched
    calls = iv.distinct(device.links.launch[inside])
    return int(nearest_rank(np.sort(trace.dur[calls]), 50)) if calls.size else None


def _cost_per_launch(steps: Steps, usable: np.ndarray) -> float | None:
    here = usable & (steps.launches > 0)
    if not here.any():
        return None
    ratio = np.sort(steps.host_dispatch_ns[here] / steps.launches[here])
    return float(nearest_rank(ratio, 50))


def _launch_to_start(trace: Trace, device: Device, steps: Steps, usable: np.ndarray) -> int | None:
    gaps = device.gaps
    late = gaps.cause_ns[:, [CAUSES.index(name) for name in (*HOST_CAUSES, "launch")]].sum(1) > 0
    known = (late | (gaps.unrecorded_ns > 0)) & (gaps.launch >= 0)
    if not known.any() or not usable.any():
        return None
    window = iv.union(steps.gpu_start[usable], steps.gpu_end[usable])
    known &= _starts_in(window, gaps.start)
    delay = gaps.end[known] - trace.start[gaps.launch[known]]
    delay = delay[delay >= 0]
    return int(nearest_rank(np.sort(delay), 50)) if delay.size else None
