"""Decode steps: their windows on the host and on the GPU, and every figure of each.

The host window of a step runs from its mark's start to the next mark's start. The GPU ops of a
step are those whose launch call starts in that window, on whatever thread. The GPU window runs
from the step's first op to the next step's first op, so windows tile the timeline and idle time
between steps is counted. The last step is open: its windows end with its last launch call and its
last op.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gaptrace import intervals as iv
from gaptrace.measure.devices import Device
from gaptrace.measure.gaps import CAUSES
from gaptrace.measure.hosttime import HOST_CLASSES, HostClock
from gaptrace.measure.marks import Marks
from gaptrace.trace import Cat, Codes, Ints, Trace

Bools = npt.NDArray[np.bool_]
FOREIGN_LIMIT = 0.01


@dataclass(frozen=True, eq=False)
class Steps:
    """All steps of one device, in time order; one entry per step unless said otherwise.

    host_start, host_end, gpu_start, gpu_end: the two windows in ns; a step without GPU ops has an
    empty GPU window. lane: launching thread (code), -1 without launches. tokens: generated tokens.
    period_ns, busy_ns, idle_ns, cause_ns (one column per `CAUSES`): of the GPU window. foreign_ns:
    busy time in the window that belongs to ops of other steps or of none. kernels, copies,
    memsets, launches, graph_launches, kernels_in_graphs, orphans: counts. host_ns: one column per
    `HOST_CLASSES`, summing to the host window. compiles: some thread compiles in the host window.
    overhead: an `overhead` event overlaps it. excluded: why a step is left out of medians; empty
    for those that count. has_ops: the step launched a GPU op. op_step: for every GPU op of the
    device, in file order, its step, -1 outside.
    """

    marks: Marks
    phase: tuple[str, ...]
    tokens: Ints
    tokens_source: str
    host_start: Ints
    host_end: Ints
    gpu_start: Ints
    gpu_end: Ints
    lane: Ints
    busy_ns: Ints
    cause_ns: npt.NDArray[np.int64]
    foreign_ns: Ints
    kernels: Ints
    copies: Ints
    memsets: Ints
    launches: Ints
    graph_launches: Ints
    kernels_in_graphs: Ints
    orphans: Ints
    host_ns: npt.NDArray[np.int64]
    compiles: Bools
    overhead: Bools
    excluded: tuple[str, ...]
    has_ops: Bools
    op_step: Ints

    def __len__(self) -> int:
        return int(self.host_start.size)

    @property
    def rule(self) -> str:
        """Which rule found the steps."""
        return self.marks.rule

    @property
    def period_ns(self) -> Ints:
        """Length of each GPU window in ns."""
        return self.gpu_end - self.gpu_start

    @property
    def idle_ns(self) -> Ints:
        """Window less busy time, in ns."""
        return self.period_ns - self.busy_ns

    @property
    def host_window_ns(self) -> Ints:
        """Length of each host window in ns."""
        return self.host_end - self.host_start

    @property
    def host_dispatch_ns(self) -> Ints:
        """The host window less sync and backpressure: the step on an infinitely fast GPU."""
        sync = self.host_ns[:, HOST_CLASSES.index("sync")]
        backpressure = self.host_ns[:, HOST_CLASSES.index("backpressure")]
        return self.host_window_ns - sync - backpressure

    @property
    def mixed(self) -> Bools:
        """Steps whose busy and idle are withheld: over 1 % of the busy time is not theirs."""
        return self.foreign_ns > FOREIGN_LIMIT * np.maximum(self.busy_ns, 1)

    @property
    def open_index(self) -> int:
        """Index of the open step: the last with GPU ops; -1 where no step has any."""
        return int(max(np.flatnonzero(self.has_ops), default=-1))

    @property
    def counted(self) -> Bools:
        """Steps that the headline medians are taken over."""
        return np.array([not reason for reason in self.excluded], np.bool_)


def measure_steps(
    trace: Trace,
    device: Device,
    marks: Marks,
    clock: HostClock,
    *,
    tokens_per_step: int | None = None,
    manifest_tokens: int | None = None,
) -> Steps:
    """Windows, counts, times and exclusions of every marked step on one device."""
    links = device.links
    count = len(marks)
    known = links.launched
    launch_start = trace.start[links.launch[known]]
    host_start, host_end = _host_windows(trace, marks, links.calls)
    op_step = np.full(links.row.size, -1, np.int64)
    op_step[known] = _window_of(host_start, host_end, launch_start)
    if count:
        # Nothing follows the last step, so a call that ends it with zero length is still its own.
        op_step[known] = np.where(launch_start >= host_start[-1], count - 1, op_step[known])
    gpu_start, gpu_end, has_ops = _gpu_windows(links.start, links.end, op_step, count)
    orphan = np.flatnonzero(~known)
    op_step[orphan] = _window_of(gpu_start, gpu_end, links.start[orphan])

    kernel = links.cat == Cat.KERNEL
    calls, first = np.unique(links.launch[known], return_index=True)
    call_step = op_step[known][first]
    call_graph = links.replayed[known][first]
    lane = _launching_lane(trace.lane[calls], trace.start[calls], call_step, count)
    busy = iv.covered_before(device.busy, gpu_end) - iv.covered_before(device.busy, gpu_start)
    tokens, source = _tokens(marks, tokens_per_step, manifest_tokens)
    phase = _phases(marks)
    host_ns = clock.split(lane, host_start, host_end)
    compiles = _overlaps(clock.compiling, host_start, host_end)
    overhead = _overlaps(clock.overhead, host_start, host_end)
    return Steps(
        marks=marks,
        phase=phase,
        tokens=tokens,
        tokens_source=source,
        host_start=host_start,
        host_end=host_end,
        gpu_start=gpu_start,
        gpu_end=gpu_end,
        lane=lane,
        busy_ns=busy,
        cause_ns=_causes(device, gpu_start, gpu_end),
        foreign_ns=_foreign(links.start, links.end, op_step, gpu_start, gpu_end),
        kernels=_count(op_step[kernel], count),
        copies=_count(op_step[links.cat == Cat.MEMCPY], count),
        memsets=_count(op_step[links.cat == Cat.MEMSET], count),
        launches=_count(call_step, count),
        graph_launches=_count(call_step[call_graph], count),
        kernels_in_graphs=_count(op_step[kernel & links.replayed], count),
        orphans=_count(op_step[orphan], count),
        host_ns=host_ns,
        compiles=compiles,
        overhead=overhead,
        excluded=_exclusions(phase, has_ops, compiles, overhead),
        has_ops=has_ops,
        op_step=op_step,
    )


def _host_windows(trace: Trace, marks: Marks, calls: Ints) -> tuple[Ints, Ints]:
    """Mark start to next mark start; the last ends with the last launch call after its mark."""
    if not len(marks):
        return marks.start, marks.end
    calls = calls[trace.start[calls] >= marks.start[-1]]
    last = (trace.start[calls] + trace.dur[calls]).max(initial=-1)
    last = last if calls.size else marks.end[-1]
    return marks.start, np.append(marks.start[1:], last).astype(np.int64)


def _window_of(start: Ints, end: Ints, at: Ints) -> Ints:
    """Index of the half-open window that holds each instant, -1 where none does."""
    if start.size == 0:
        return np.full(at.size, -1, np.int64)
    usable = np.flatnonzero(end > start)
    if usable.size == 0:
        return np.full(at.size, -1, np.int64)
    index = np.searchsorted(start[usable], at, side="right") - 1
    found = usable[np.maximum(index, 0)]
    return np.where((index >= 0) & (at < end[found]), found, -1)


def _gpu_windows(start: Ints, end: Ints, step: Ints, count: int) -> tuple[Ints, Ints, Bools]:
    """First op of each step to first op of the next step that has one; the last to its last end.

    A step whose first op starts before that of an earlier step (work of two steps interleaved on
    several streams) begins where the earlier one does, so that windows stay in order and tile.
    """
    big = np.iinfo(np.int64).max
    inside = step >= 0
    first = np.full(count, big)
    last = np.full(count, -1, np.int64)
    np.minimum.at(first, step[inside], start[inside])
    np.maximum.at(last, step[inside], end[inside])
    has = np.flatnonzero(last >= 0)
    gpu_start = np.zeros(count, np.int64)
    gpu_end = np.zeros(count, np.int64)
    if has.size:
        begins = np.maximum.accumulate(first[has])
        gpu_start[has] = begins
        gpu_end[has] = np.append(begins[1:], max(int(last[has[-1]]), int(begins[-1])))
    return gpu_start, gpu_end, last >= 0


def _launching_lane(lane: Codes, start: Ints, step: Ints, count: int) -> Ints:
    """The thread with most launch calls of each step; of equals the one that called first."""
    result = np.full(count, -1, np.int64)
    inside = np.flatnonzero(step >= 0)
    if inside.size == 0:
        return result
    order = inside[np.lexsort((inside, start[inside], lane[inside], step[inside]))]
    new = np.ones(order.size, np.bool_)
    new[1:] = (step[order][1:] != step[order][:-1]) | (lane[order][1:] != lane[order][:-1])
    first = np.flatnonzero(new)
    votes = np.diff(np.append(first, order.size))
    groups = order[first]
    # Last write wins, so the groups are written from the fewest votes to the most.
    rank = np.lexsort((-groups, -start[groups], votes))
    result[step[groups][rank]] = lane[groups][rank]
    return result


def _causes(device: Device, start: Ints, end: Ints) -> npt.NDArray[np.int64]:
    """Idle ns by cause in each GPU window.

    A window's edge is always the start of an op, so no gap straddles one: a gap belongs to the
    window that holds its end, the end of the window included.
    """
    gaps = device.gaps
    total = np.vstack((np.zeros((1, len(CAUSES)), np.int64), np.cumsum(gaps.cause_ns, axis=0)))
    return np.asarray(
        total[np.searchsorted(gaps.end, end, side="right")]
        - total[np.searchsorted(gaps.end, start, side="right")]
    )


def _foreign(start: Ints, end: Ints, step: Ints, gpu_start: Ints, gpu_end: Ints) -> Ints:
    """Busy ns in each window from ops of other steps, or of none.

    Ops are looked for among those that reach into the window: sorted by start, no op before the
    first whose reach passes the window's start, and none that starts after its end.
    """
    result = np.zeros(gpu_start.size, np.int64)
    order = np.argsort(start, kind="stable")
    begins, ends, owner = start[order], end[order], step[order]
    reach = np.maximum.accumulate(ends) if ends.size else ends
    first = np.searchsorted(reach, gpu_start, side="right")
    last = np.searchsorted(begins, gpu_end, side="left")
    for index in range(gpu_start.size):
        part = slice(int(first[index]), int(last[index]))
        other = owner[part] != index
        lo, hi = gpu_start[index], gpu_end[index]
        covered = iv.union(np.clip(begins[part][other], lo, hi), np.clip(ends[part][other], lo, hi))
        result[index] = iv.length(covered)
    return result


def _count(step: Ints, count: int) -> Ints:
    return np.bincount(step[step >= 0], minlength=count).astype(np.int64)


def _phases(marks: Marks) -> tuple[str, ...]:
    return tuple(label.phase or "decode" for label in marks.label)


def _tokens(marks: Marks, option: int | None, manifest: int | None) -> tuple[Ints, str]:
    count = len(marks)
    if option is not None:
        return np.full(count, option, np.int64), "--tokens-per-step"
    if manifest is not None:
        return np.full(count, manifest, np.int64), "run manifest"
    decode = [label for label in marks.label if (label.phase or "decode") == "decode"]
    if any(label.tokens for label in decode):
        return np.array([label.tokens or 1 for label in marks.label], np.int64), "label"
    return np.ones(count, np.int64), "assumed 1"


def _overlaps(covered: iv.Intervals, start: Ints, end: Ints) -> Bools:
    return iv.overlap_with(covered, start, end) > 0


def _exclusions(
    phase: tuple[str, ...], has_ops: Bools, compiles: Bools, overhead: Bools
) -> tuple[str, ...]:
    """Why each step is left out of medians: phase, open, empty, compile work, profiler start."""
    count = len(phase)
    reason = ["" for _ in range(count)]
    for index in range(count):
        if phase[index] != "decode":
            reason[index] = phase[index]
        elif not has_ops[index]:
            reason[index] = "no GPU ops"
    # The last step with GPU ops is open; steps after it, if any, launched nothing.
    last = max(np.flatnonzero(has_ops), default=-1)
    complete = [i for i in range(count) if not reason[i] and i < last]
    if not complete:
        # With no complete step the open one is shown, labelled so.
        return tuple(reason)
    if not reason[last]:
        reason[last] = "open"
    steady = [i for i in complete if not compiles[i]]
    if steady:
        for index in complete:
            if compiles[index]:
                reason[index] = "compile work"
    counted = [i for i in complete if not reason[i]]
    if counted and counted[0] == 0 and overhead[0] and len(counted) > 2:
        reason[0] = "profiler overhead"
    return tuple(reason)
