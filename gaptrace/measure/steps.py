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
from gaptrace.measure.busy import busy_kinds
from gaptrace.measure.devices import Device
from gaptrace.measure.gaps import CAUSES
from gaptrace.measure.hosttime import HOST_CLASSES, WAITED, HostClock
from gaptrace.measure.kind import Kind, kind_of
from gaptrace.measure.labels import DECODE, MIXED, PREFILL
from gaptrace.measure.links import Links
from gaptrace.measure.marks import Marks
from gaptrace.measure.populations import Population, population_of
from gaptrace.measure.tokens import Tokens, tokens_of_steps
from gaptrace.measure.windows import PAUSE, closed_early, own_ends
from gaptrace.trace import Cat, Codes, Ints, Trace

Bools = npt.NDArray[np.bool_]
FOREIGN_LIMIT = 0.01


@dataclass(frozen=True, eq=False)
class DeviceShare:
    """What one of several devices does in each step: counts, and busy ns in its GPU window."""

    device: str
    busy_ns: Ints
    kernels: Ints
    copies: Ints
    memsets: Ints
    launches: Ints


@dataclass(frozen=True, eq=False)
class Steps:
    """All steps of one device, in time order; one entry per step unless said otherwise.

    host_start, host_end, gpu_start, gpu_end: the two windows in ns; a step without GPU ops has an
    empty GPU window. lane: launching thread (code), -1 without launches. tokens: generated tokens.
    period_ns, busy_ns, idle_ns, cause_ns (one column per `CAUSES`): of the GPU window.
    busy_kind_ns: busy time by kind, one column per `BUSY_KINDS`. bus_ns: exposed copies between
    host and device, in the window. bus_bytes: that the step moves between them, in the direction
    that moves more. foreign_ns: busy time in the window that belongs to ops of other steps or of
    none. kernels, copies, memsets, launches, graph_launches, kernels_in_graphs, orphans: counts.
    host_ns: one column per `HOST_CLASSES`, summing to the host window. silence_ns: what of it
    counts as waiting for nothing but its silence. compiles: some thread compiles in the host
    window. overhead: an `overhead` event overlaps it. excluded: why a step is left out of medians;
    empty for those that count. has_ops: the step launched a GPU op. op_step: for every GPU op of
    the device, in file order, its step, -1 outside. kind: what the steps are. closed: why a step's
    windows end with its own work, "" where the next step ends them. population: which of the steps
    of the headline's phase the figures are of. shares: the same steps on each of several devices.
    """

    marks: Marks
    kind: Kind
    known_tokens: Tokens
    population: Population
    closed: tuple[str, ...]
    host_start: Ints
    host_end: Ints
    gpu_start: Ints
    gpu_end: Ints
    lane: Ints
    busy_ns: Ints
    busy_kind_ns: npt.NDArray[np.int64]
    bus_ns: Ints
    bus_bytes: Ints
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
    silence_ns: Ints
    compiles: Bools
    overhead: Bools
    excluded: tuple[str, ...]
    has_ops: Bools
    op_step: Ints
    shares: tuple[DeviceShare, ...] = ()

    def __len__(self) -> int:
        return int(self.host_start.size)

    @property
    def rule(self) -> str:
        """Which rule found the steps."""
        return self.marks.rule

    @property
    def phase(self) -> tuple[str, ...]:
        """The phase of each step; that of steps that are not decode is their kind."""
        return self.kind.phase

    @property
    def tokens(self) -> npt.NDArray[np.float64] | Ints:
        """Tokens of each step, 1 where they are not known."""
        return self.known_tokens.tokens

    @property
    def tokens_source(self) -> str:
        """Where the tokens of a step are known from."""
        return self.known_tokens.source

    @property
    def batch(self) -> Ints:
        """Sequences in each step, -1 where unknown."""
        return self.known_tokens.batch

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
        """The host window less what it waits in: the step on an infinitely fast GPU."""
        waited = self.host_ns[:, [HOST_CLASSES.index(name) for name in WAITED]]
        return np.asarray(self.host_window_ns - waited.sum(axis=1))

    @property
    def mixed(self) -> Bools:
        """Steps whose busy and idle are withheld: over 1 % of the busy time is not theirs."""
        return self.foreign_ns > FOREIGN_LIMIT * np.maximum(self.busy_ns, 1)

    @property
    def open_index(self) -> int:
        """Index of the open step: the last with GPU ops; -1 where no step has any."""
        return _last_index(self.has_ops)

    @property
    def counted(self) -> Bools:
        """Steps that the headline medians are taken over."""
        return np.array([not reason for reason in self.excluded], np.bool_)

    def host_step(self, at: Ints) -> Ints:
        """The step whose host window holds each instant, -1 where none does."""
        return iv.holding(self.host_start, self.host_end, at)

    def gap_step(self, gap_end: Ints) -> Ints:
        """The step whose GPU window holds each gap, by the gap's end, -1 outside all windows.

        A window's edge is always the start of an op, so no gap straddles one; a gap that ends
        with the window is inside.
        """
        return iv.holding(self.gpu_start, self.gpu_end, gap_end - 1)

    def ops_of(self, chosen: Bools) -> Bools:
        """Which GPU ops of the device belong to one of the chosen steps."""
        return np.asarray(np.append(chosen, False)[self.op_step])

    @property
    def counted_tokens(self) -> float | int:
        """Tokens of all counted steps."""
        tokens: float | int = self.tokens[self.counted].sum().item()
        return tokens


def measure_steps(
    trace: Trace,
    device: Device,
    marks: Marks,
    clock: HostClock,
    *,
    members: tuple[Device, ...] = (),
    tokens_per_step: float | None = None,
    manifest_tokens: int | None = None,
    accepted: float | None = None,
) -> Steps:
    """Windows, counts, times and exclusions of every marked step on one device.

    `members`: the devices that `device` stands for, where it stands for several.
    """
    links = device.links
    count = len(marks)
    known = links.launched
    launch_start = trace.start[links.launch[known]]
    host_start, host_end = _host_windows(trace, marks, links.calls)
    op_step = np.full(links.row.size, -1, np.int64)
    op_step[known] = iv.holding(host_start, host_end, launch_start)
    if count:
        # Nothing follows the last step, so a call that ends it with zero length is still its own.
        op_step[known] = np.where(launch_start >= host_start[-1], count - 1, op_step[known])
    gpu_start, gpu_end, has_ops = _gpu_windows(links.start, links.end, op_step, count)
    orphan = np.flatnonzero(~known)
    op_step[orphan] = iv.holding(gpu_start, gpu_end, links.start[orphan])
    calls, first = np.unique(links.launch[known], return_index=True)
    call_step = op_step[known][first]

    busy = iv.overlap_with(device.busy, gpu_start, gpu_end)
    kind = kind_of(trace, links, marks, (host_start, host_end), op_step, busy)
    first_call, last_call = extent(
        trace.start[calls], trace.start[calls] + trace.dur[calls], call_step, count
    )
    last_op = extent(links.start[known], links.end[known], op_step[known], count)[1]
    closed = closed_early(trace, marks, kind.phase, device.busy, first_call, last_op)
    ends = np.array([bool(reason) and reason != PAUSE for reason in closed], np.bool_)
    host_end, gpu_end = own_ends(host_end, gpu_start, gpu_end, marks.end, last_call, last_op, ends)
    # Orphans after a window that has been closed belong to no step.
    op_step[orphan] = iv.holding(gpu_start, gpu_end, links.start[orphan])

    kernel = links.cat == Cat.KERNEL
    call_graph = links.replayed[known][first]
    lane = _launching_lane(trace.lane[calls], trace.start[calls], call_step, count)
    busy = iv.overlap_with(device.busy, gpu_start, gpu_end)
    kinds = busy_kinds(trace, links)
    foreign = _foreign(links.start, links.end, op_step, gpu_start, gpu_end)
    tokens = tokens_of_steps(marks, kind, tokens_per_step, manifest_tokens, accepted)
    host_ns = clock.split(lane, host_start, host_end)
    compiles = _overlaps(clock.compiling, host_start, host_end)
    overhead = _overlaps(clock.overhead, host_start, host_end)
    draining = _draining(kind.phase, foreign, busy)
    kernels = _count(op_step[kernel], count)
    odd = (*marks.odd, *_odd_work(kind, kernels, has_ops), *_unjoined(trace, host_start))
    excluded = _exclusions(kind, odd, has_ops, closed, draining, compiles, overhead)
    population = population_of(tokens, excluded, gpu_end - gpu_start, _last_index(has_ops))
    return Steps(
        marks=marks,
        kind=kind,
        known_tokens=tokens,
        population=population,
        closed=closed,
        host_start=host_start,
        host_end=host_end,
        gpu_start=gpu_start,
        gpu_end=gpu_end,
        lane=lane,
        busy_ns=busy,
        busy_kind_ns=kinds.within(gpu_start, gpu_end),
        bus_ns=kinds.bus_ns(gpu_start, gpu_end),
        bus_bytes=kinds.bus_bytes(op_step, count),
        cause_ns=_causes(device, gpu_start, gpu_end),
        foreign_ns=foreign,
        kernels=kernels,
        copies=_count(op_step[links.cat == Cat.MEMCPY], count),
        memsets=_count(op_step[links.cat == Cat.MEMSET], count),
        launches=_count(call_step, count),
        graph_launches=_count(call_step[call_graph], count),
        kernels_in_graphs=_count(op_step[kernel & links.replayed], count),
        orphans=_count(op_step[orphan], count),
        host_ns=host_ns,
        silence_ns=clock.silent(lane, host_start, host_end),
        compiles=compiles,
        overhead=overhead,
        excluded=population.excluded,
        has_ops=has_ops,
        op_step=op_step,
        shares=tuple(_share(links, one, op_step, gpu_start, gpu_end) for one in members),
    )


def _share(
    links: Links, device: Device, op_step: Ints, gpu_start: Ints, gpu_end: Ints
) -> DeviceShare:
    own = links.device == device.code
    step, count = op_step[own], gpu_start.size
    cat, launch = links.cat[own], links.launch[own]
    known = launch >= 0
    _, first = np.unique(launch[known], return_index=True)
    return DeviceShare(
        device=device.device,
        busy_ns=iv.overlap_with(device.busy, gpu_start, gpu_end),
        kernels=_count(step[cat == Cat.KERNEL], count),
        copies=_count(step[cat == Cat.MEMCPY], count),
        memsets=_count(step[cat == Cat.MEMSET], count),
        launches=_count(step[known][first], count),
    )


def extent(start: Ints, end: Ints, step: Ints, count: int) -> tuple[Ints, Ints]:
    """Earliest start and latest end in each step, -1 where it has none."""
    inside = step >= 0
    first = np.full(count, np.iinfo(np.int64).max)
    last = np.full(count, -1, np.int64)
    np.minimum.at(first, step[inside], start[inside])
    np.maximum.at(last, step[inside], end[inside])
    return np.where(last >= 0, first, -1), last


def _last_index(has_ops: Bools) -> int:
    return int(max(np.flatnonzero(has_ops), default=-1))


def _draining(phase: tuple[str, ...], foreign_ns: Ints, busy_ns: Ints) -> Bools:
    """Decode steps whose GPU window still runs work of a prefill before them."""
    after = np.array(
        [
            own == DECODE and index > 0 and phase[index - 1] in (PREFILL, MIXED)
            for index, own in enumerate(phase)
        ],
        np.bool_,
    )
    return np.asarray(after & (foreign_ns > FOREIGN_LIMIT * np.maximum(busy_ns, 1)))


def _host_windows(trace: Trace, marks: Marks, calls: Ints) -> tuple[Ints, Ints]:
    """Mark start to next mark start; the last ends with the last launch call after its mark."""
    if not len(marks):
        return marks.start, marks.end
    calls = calls[trace.start[calls] >= marks.start[-1]]
    last = (trace.start[calls] + trace.dur[calls]).max(initial=-1)
    last = last if calls.size else marks.end[-1]
    return marks.start, np.append(marks.start[1:], last).astype(np.int64)


def _gpu_windows(start: Ints, end: Ints, step: Ints, count: int) -> tuple[Ints, Ints, Bools]:
    """First op of each step to first op of the next step that has one; the last to its last end.

    A step whose first op starts before that of an earlier step (work of two steps interleaved on
    several streams) begins where the earlier one does, so that windows stay in order and tile.
    """
    first, last = extent(start, end, step, count)
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


def _overlaps(covered: iv.Intervals, start: Ints, end: Ints) -> Bools:
    return iv.overlap_with(covered, start, end) > 0


# A step with this many times more or fewer kernels than a usual one did other work. Of few steps or
# few kernels none can be called usual, and what more than one in ten steps do is no exception.
ODD_TIMES, ODD_ONE_IN, USUAL_STEPS, USUAL_KERNELS = 1.5, 10, 6, 8


def _odd_work(kind: Kind, kernels: Ints, has_ops: Bools) -> list[int]:
    """Steps into which other work fell (a prefill without a mark, a warm-up), or most went missing.

    The open step is not judged: it ends with its own work.
    """
    own = np.array([phase == kind.kind for phase in kind.phase], np.bool_) & has_ops
    own[_last_index(has_ops) :] = False
    index = np.flatnonzero(own)
    if index.size < USUAL_STEPS:
        return []
    usual = int(np.sort(kernels[index])[(index.size - 1) // 2])
    unlike = (kernels[index] > ODD_TIMES * usual) | (ODD_TIMES * kernels[index] < usual)
    few = int(unlike.sum()) <= max(1, index.size // ODD_ONE_IN)
    return index[unlike].tolist() if few and usual >= USUAL_KERNELS else []


def _unjoined(trace: Trace, host_start: Ints) -> list[int]:
    """Steps whose ops the other of two joined recordings does not have."""
    unlike = trace.joined.unlike if trace.joined else ()
    return np.flatnonzero(np.isin(host_start, unlike)).tolist()


def _exclusions(
    kind: Kind,
    odd: tuple[int, ...],
    has_ops: Bools,
    closed: tuple[str, ...],
    draining: Bools,
    compiles: Bools,
    overhead: Bools,
) -> tuple[str, ...]:
    """Why each step is left out of medians: phase, no own end, empty, compile work, profiler."""
    count = len(kind.phase)
    reason = [_own_reason(kind, index, has_ops, closed, draining) for index in range(count)]
    for index in odd:
        reason[index] = reason[index] or "unlike the others"
    # The last step with GPU ops is open; steps after it, if any, launched nothing.
    last = _last_index(has_ops)
    complete = [i for i in range(count) if not reason[i] and i < last]
    if not complete:
        # With no complete step the open one is shown, labelled so.
        if last >= 0 and reason[last] in closed[last : last + 1]:
            reason[last] = ""
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


def _own_reason(
    kind: Kind, index: int, has_ops: Bools, closed: tuple[str, ...], draining: Bools
) -> str:
    if kind.phase[index] != kind.kind:
        return kind.phase[index]
    if not has_ops[index]:
        return "no GPU ops"
    if draining[index]:
        return "drains a prefill"
    return closed[index]
