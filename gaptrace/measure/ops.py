"""Where the host's time goes: by op, by Python function, by module; and what a launch costs."""

from __future__ import annotations

import re

import msgspec
import numpy as np

from gaptrace import intervals as iv
from gaptrace.intervals import Intervals
from gaptrace.measure.attribution import MODULE_PREFIX, frame_lane, owner_at
from gaptrace.measure.devices import Device
from gaptrace.measure.gaps import CAUSES, HOST_CAUSES
from gaptrace.measure.links import Links, codes_in, names_where
from gaptrace.measure.marks import COMPILED_REGION
from gaptrace.measure.stats import nearest_rank, share
from gaptrace.measure.steps import Steps
from gaptrace.measure.threads import STEP_MARK, Activity, CallKinds, activities, dispatching_ops
from gaptrace.results.analysis import FunctionRow, Host, OpRow
from gaptrace.trace import Cat, Ints, Trace

_RECORDED_STEP = re.compile(r"gaptrace\.step#\d+$")


def host_detail(trace: Trace, device: Device, steps: Steps, threads: dict[int, Activity]) -> Host:
    """Ops, Python functions and modules by self time in the counted steps' host windows.

    An op's own time lies in no nested op, runtime call or profiler work; a function's is time
    between ops. Modules share the whole window; annotations do where no stacks were recorded.
    launch_to_start_ns: median from the launch call's start to the op's start where the GPU was
    waiting for it. Windows of the last step are not counted: their end is not known.
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
        _ops(trace, device.links.calls, int(lane), window, activity, ops)
        _spans(trace, int(lane), window, activity, python, modules)
    scale = 1 / tokens if tokens else 0.0
    return msgspec.structs.replace(
        _host(ops, python, modules, scale),
        launch_call_ns=_launch_call(trace, device, steps, usable),
        cost_per_launch_ns=_cost_per_launch(steps, usable),
        launch_to_start_ns=_launch_to_start(trace, device, steps, usable),
    )


def host_alone(trace: Trace, links: Links, kinds: CallKinds, tokens: int) -> Host | None:
    """Ops, Python functions and modules per token of a recording without GPU work, by its marks.

    A step is from one `gaptrace.step#N` to the next; the last is open. Runtime calls there are
    none. None where there are not two marks.
    """
    marks = trace.rows_of(Cat.ANNOTATION)
    marks = marks[names_where(trace, trace.name[marks], _RECORDED_STEP.match)]
    marks = marks[np.argsort(trace.start[marks], kind="stable")]
    lanes = np.unique(trace.lane[marks])
    if marks.size < 2 or lanes.size != 1:
        return None
    window = Intervals(trace.start[marks[:1]], trace.start[marks[-1:]])
    ops: dict[str, list[float]] = {}
    python: dict[str, float] = {}
    modules: dict[str, float] = {}
    lane = int(lanes[0])
    # A thread without runtime calls is none that launches, and so has no activity yet.
    activity = activities(trace, links, kinds, [lane])[lane]
    _ops(trace, marks[:0], lane, window, activity, ops)
    _spans(trace, lane, window, activity, python, modules)
    return _host(ops, python, modules, 1 / ((marks.size - 1) * tokens))


def _host(
    ops: dict[str, list[float]],
    python: dict[str, float],
    modules: dict[str, float],
    scale: float,
) -> Host:
    """The tables, each figure times `scale`; what launches cost is left out."""
    ordered = sorted(ops.items(), key=lambda item: (-item[1][1], item[0]))
    rows = [
        (name, calls * scale, ns * scale, launches * scale)
        for name, (calls, ns, launches) in ordered
    ]
    total = sum(ns for _, _, ns, _ in rows)
    return Host(
        ops=tuple(
            OpRow(name, calls, ns, launches, share(ns, total), share(ns, calls))
            for name, calls, ns, launches in rows
        ),
        op_calls=sum(calls for _, calls, _, _ in rows) if rows else None,
        op_ns=total if rows else None,
        python=_ranked(python, scale),
        modules=_ranked(modules, scale),
        launch_call_ns=None,
        cost_per_launch_ns=None,
        launch_to_start_ns=None,
    )


def _ranked(table: dict[str, float], scale: float) -> tuple[FunctionRow, ...]:
    ordered = sorted(table.items(), key=lambda item: (-item[1], item[0]))
    rows = [(name, ns * scale) for name, ns in ordered if ns]
    total = sum(ns for _, ns in rows)
    return tuple(FunctionRow(name, ns, share(ns, total)) for name, ns in rows)


def _ops(
    trace: Trace,
    calls: Ints,
    lane: int,
    window: Intervals,
    activity: Activity,
    table: dict[str, list[float]],
) -> None:
    rows = dispatching_ops(trace)
    rows = rows[trace.lane[rows] == lane]
    rows = rows[iv.holding(*window, trace.start[rows]) >= 0]
    counted = np.zeros(len(trace), np.bool_)
    counted[rows] = True
    segments = activity.ops
    own = iv.intersect(activity.dispatch, window)
    self_ns = iv.overlap_with(own, segments.start, segments.end)
    mine = counted[segments.owner]
    owner, self_ns = segments.owner[mine], self_ns[mine]
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
        busy = iv.joined(*activity.sets().values())
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


def _launch_call(trace: Trace, device: Device, steps: Steps, usable: np.ndarray) -> int | None:
    inside = steps.ops_of(usable) & device.links.launched
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
    known &= iv.holding(*window, gaps.start) >= 0
    delay = gaps.end[known] - trace.start[gaps.launch[known]]
    delay = delay[delay >= 0]
    return int(nearest_rank(np.sort(delay), 50)) if delay.size else None
