"""A stretch of an analysis cut out for a timeline: which ops, gaps, calls and host work it holds.

Where a window holds more than a drawing can show, the smallest things are merged or left out, and
a note says how many.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from gaptrace import intervals as iv
from gaptrace import units
from gaptrace.intervals import Intervals
from gaptrace.knowledge.kernel_names import classify
from gaptrace.measure.devices import Device
from gaptrace.measure.gaps import CAUSES, DEVICE_WAIT, GRAPH_NODE, LAUNCH, UNATTRIBUTED
from gaptrace.measure.kernels import OP_CLASSES
from gaptrace.measure.result import Analysis
from gaptrace.timeline.columns import (
    HOST_STATES,
    Blocks,
    GapLane,
    GpuLane,
    HostLane,
    Names,
    Stretch,
)
from gaptrace.timeline.scope import Scope, cut
from gaptrace.trace import Cat, Ints, Trace

STREAMS_SHOWN = 8
THREADS_SHOWN = 2
DEEPEST = 24
PYTHON = CAUSES.index("python")


@dataclass(frozen=True)
class Limits:
    """How many blocks a lane may hold before its smallest ones are merged or left out."""

    gpu_ops: int = 12_000
    host_ops: int = 8_000
    frames: int = 4_000
    pieces: int = 16_000

    def times(self, factor: float) -> Limits:
        """These limits, all multiplied by a factor."""
        return Limits(*(int(n * factor) for n in dataclasses.astuple(self)))


def stretch(
    scope: Scope,
    title: str,
    start_ns: int,
    end_ns: int,
    names: Names,
    *,
    step: tuple[int, int] | None = None,
    limits: Limits | None = None,
) -> Stretch:
    """The analysed device and the threads that launched its work, between two instants."""
    limits = limits or Limits()
    trace, links, gaps = scope.trace, scope.device.links, scope.device.gaps
    notes: list[str] = []
    span = max(end_ns - start_ns, 1)
    inside = scope.gpu.within(start_ns, end_ns)
    resolution = -(-span // (limits.gpu_ops // 2)) if inside.size > limits.gpu_ops else 0
    chosen = scope.gaps(start_ns, end_ns)
    # The op that ends the last gap starts where the window ends; its launch belongs to the gap.
    calls = np.unique(np.concatenate((links.launch[inside], gaps.launch[chosen])))
    calls = calls[calls >= 0]
    seen = calls[(trace.start[calls] < end_ns) & (trace.start[calls] + trace.dur[calls] > start_ns)]
    if seen.size < calls.size:
        lost = int(calls.size - seen.size)
        notes.append(f"{units.count(lost)} launch call{'s' * (lost > 1)} outside this window")
    seen = seen[np.argsort(trace.start[seen], kind="stable")]
    gpu = _gpu_lanes(scope, inside, seen, start_ns, resolution, names, notes)
    if resolution:
        small = int((gaps.dur[chosen] < resolution).sum())
        chosen = chosen[gaps.dur[chosen] >= resolution]
        notes.append(f"{units.count(small)} gaps under {units.time(resolution)} are not drawn")
    gap_starts = gaps.start[chosen] - start_ns
    return Stretch(
        title=title,
        start_ns=start_ns,
        span_ns=span,
        step=None if step is None else (step[0] - start_ns, step[1] - start_ns),
        names=names,
        gpu=gpu,
        gaps=GapLane(
            Blocks(
                gap_starts,
                gaps.end[chosen] - gaps.start[chosen],
                names.of_rows(trace, gaps.after[chosen], _short),
                gaps.cause_ns[chosen].argmax(axis=1) if chosen.size else chosen,
            ),
            names.of_rows(trace, gaps.before[chosen], _short),
            _position(seen, gaps.launch[chosen]),
            gaps.drained_by_sync[chosen].astype(np.int64),
            chosen,
            gaps.cause_ns[chosen],
        ),
        parts=_thinned(_parts(scope, chosen, start_ns), gap_starts, span, limits, notes),
        calls=Blocks(
            trace.start[seen] - start_ns,
            trace.dur[seen],
            names.of_rows(trace, seen),
            scope.replays[seen].astype(np.int64),
        ),
        host=_host_lanes(scope, seen, start_ns, end_ns, names, limits, notes),
        marks=_step_marks(scope.analysis, start_ns, end_ns, names),
        notes=tuple(notes),
        origin_ns=trace.origin_ns,
    )


def _short(name: str) -> str:
    return classify(name).short


def _position(rows: Ints, wanted: Ints) -> Ints:
    """Where each wanted row stands in `rows`, -1 where it does not."""
    if rows.size == 0:
        return np.full(wanted.size, -1, np.int64)
    order = np.argsort(rows)
    index = np.minimum(np.searchsorted(rows[order], wanted), rows.size - 1)
    found = order[index]
    return np.where(rows[found] == wanted, found, -1)


def _gpu_lanes(
    scope: Scope,
    inside: Ints,
    calls: Ints,
    start_ns: int,
    resolution: int,
    names: Names,
    notes: list[str],
) -> tuple[GpuLane, ...]:
    """One lane a stream, the busiest first in number order; the rest share the last lane."""
    trace, links = scope.trace, scope.device.links
    stream = scope.stream[inside]
    numbers, inverse, counts = np.unique(stream, return_inverse=True, return_counts=True)
    shown = np.sort(np.argsort(-counts, kind="stable")[:STREAMS_SHOWN])
    lanes, merged_ops = [], 0
    groups = [(f"stream {numbers[i]}", inverse == i) for i in shown]
    if numbers.size > STREAMS_SHOWN:
        rest = ~np.isin(inverse, shown)
        groups.append((f"{numbers.size - STREAMS_SHOWN} more streams", rest))
    for label, member in groups:
        own = inside[member]
        start, end = links.start[own], links.end[own]
        blocks = Blocks(
            start - start_ns,
            end - start,
            names.of_rows(trace, links.row[own], _short),
            _classes(trace, scope.device, own),
        )
        call = _position(calls, links.launch[own])
        size = np.ones(own.size, np.int64)
        if resolution:
            before = own.size
            blocks, call, size = _merged(blocks, call, resolution, names)
            merged_ops += before - len(blocks)
        lanes.append(GpuLane(label, blocks, call, size))
    if merged_ops:
        notes.append(
            f"{units.count(merged_ops)} ops under {units.time(resolution)} are drawn merged"
        )
    return tuple(lanes)


def _classes(trace: Trace, device: Device, index: Ints) -> Ints:
    rows = device.links.row[index]
    codes, inverse = np.unique(trace.name[rows], return_inverse=True)
    kinds = np.array(
        [OP_CLASSES.index(classify(trace.names[int(c)]).op_class) for c in codes], np.int64
    )
    found = kinds[inverse] if codes.size else np.empty(0, np.int64)
    copies = device.links.cat[index] != Cat.KERNEL
    return np.where(copies, OP_CLASSES.index("copy"), found)


def _merged(blocks: Blocks, call: Ints, resolution: int, names: Names) -> tuple[Blocks, Ints, Ints]:
    """Runs of blocks shorter than the resolution that share a cell of it, as one block each."""
    cell = blocks.start // resolution
    small = blocks.dur < resolution
    opens = np.ones(len(blocks), np.bool_)
    opens[1:] = ~(small[1:] & small[:-1] & (cell[1:] == cell[:-1]))
    first = np.flatnonzero(opens)
    if first.size == 0:
        return blocks, call, np.zeros(0, np.int64)
    size = np.diff(np.append(first, len(blocks)))
    end = np.maximum.reduceat(blocks.start + blocks.dur, first)
    many = size > 1
    name = np.where(many, -1, blocks.name[first])
    for index in np.flatnonzero(many):
        name[index] = names.of(f"{size[index]} short ops")
    return (
        Blocks(blocks.start[first], end - blocks.start[first], name, blocks.kind[first]),
        np.where(many, -1, call[first]),
        size,
    )


def _parts(scope: Scope, chosen: Ints, start_ns: int) -> Blocks:
    """The gaps piece by piece: where within each gap each cause was. Sums equal `cause_ns`."""
    gaps = scope.device.gaps
    pieces: list[tuple[Ints, Ints, Ints]] = [(np.empty(0, np.int64),) * 3]

    def add(start: Ints, end: Ints, cause: int) -> None:
        keep = end > start
        pieces.append((start[keep], end[keep], np.full(int(keep.sum()), cause, np.int64)))

    cause_ns = gaps.cause_ns[chosen]
    whole = np.zeros(chosen.size, np.bool_)
    for single in (GRAPH_NODE, DEVICE_WAIT, UNATTRIBUTED):
        here = cause_ns[:, single] > 0
        whole |= here
        add(gaps.start[chosen[here]], gaps.end[chosen[here]], single)
    late = chosen[~whole]
    until = gaps.end[late] - gaps.cause_ns[late, LAUNCH]
    add(until, gaps.end[late], LAUNCH)
    lanes = scope.trace.lane[gaps.launch[late]] if late.size else late
    for lane in np.unique(lanes):
        own = lanes == lane
        begin, end = gaps.start[late[own]], until[own]
        rest = Intervals(begin[end > begin], end[end > begin])
        if rest.start.size == 0:
            continue
        waits, first, last = rest, int(rest.start[0]), int(rest.end[-1])
        for name, everything in scope.waits(int(lane)).items():
            covered = cut(everything, first, last)
            piece = iv.intersect(covered, waits)
            add(piece.start, piece.end, CAUSES.index(name))
            rest = iv.subtract(rest, covered)
        add(rest.start, rest.end, PYTHON)
    return _ordered(pieces, start_ns)


def _thinned(blocks: Blocks, opens: Ints, span: int, limits: Limits, notes: list[str]) -> Blocks:
    """Blocks that follow without a break from each of `opens` on, short neighbours as one block.

    A merged block has the kind that took most of its time.
    """
    if len(blocks) <= limits.pieces:
        return blocks
    resolution = -(-span // max(limits.pieces // 2, 1))
    group = np.searchsorted(opens, blocks.start, side="right")
    cell, short = blocks.start // resolution, blocks.dur < resolution
    first = np.ones(len(blocks), np.bool_)
    first[1:] = ~(short[1:] & short[:-1] & (cell[1:] == cell[:-1]) & (group[1:] == group[:-1]))
    begin = np.flatnonzero(first)
    owner = np.cumsum(first) - 1
    kinds = int(blocks.kind.max()) + 1
    spent = np.bincount(
        owner * kinds + blocks.kind, weights=blocks.dur, minlength=begin.size * kinds
    )
    notes.append(
        f"{units.count(len(blocks) - begin.size)} pieces under {units.time(resolution)} are drawn "
        "as the longest of their neighbours"
    )
    return Blocks(
        blocks.start[begin],
        np.add.reduceat(blocks.dur, begin),
        blocks.name[begin],
        spent.reshape(begin.size, kinds).argmax(axis=1),
    )


def _ordered(pieces: list[tuple[Ints, Ints, Ints]], start_ns: int) -> Blocks:
    """Pieces of (start, end, kind) as nameless blocks in time order."""
    start, end, kind = (np.concatenate(column) for column in zip(*pieces, strict=True))
    order = np.argsort(start, kind="stable")
    return Blocks(
        start[order] - start_ns, (end - start)[order], np.full(order.size, -1), kind[order]
    )


def _host_lanes(
    scope: Scope,
    calls: Ints,
    start_ns: int,
    end_ns: int,
    names: Names,
    limits: Limits,
    notes: list[str],
) -> tuple[HostLane, ...]:
    """The threads that launched most of the ops shown, by number of calls."""
    trace, steps = scope.trace, scope.analysis.step_table
    lanes, counts = np.unique(trace.lane[calls], return_counts=True)
    if lanes.size == 0 and steps is not None:
        # A window without launches still has a thread that will make the next one.
        lanes = np.unique(steps.lane[steps.lane >= 0])
        counts = np.ones(lanes.size, np.int64)
    chosen = lanes[np.argsort(-counts, kind="stable")][:THREADS_SHOWN]
    return tuple(
        _host_lane(scope, int(lane), start_ns, end_ns, names, limits, notes)
        for lane in chosen
        if int(lane) in scope.analysis.threads
    )


def _host_lane(
    scope: Scope,
    lane: int,
    start_ns: int,
    end_ns: int,
    names: Names,
    limits: Limits,
    notes: list[str],
) -> HostLane:
    trace = scope.trace
    where = trace.lanes[lane]
    title = trace.thread_names.get((where.pid, where.tid), "")
    ops, frames = (kind(lane).within(start_ns, end_ns) for kind in (scope.ops, scope.frames))
    return HostLane(
        label=units.middle_elided(title or f"host thread {where.tid}", 40),
        states=_thinned(
            _states(scope, lane, start_ns, end_ns),
            np.zeros(1, np.int64),
            end_ns - start_ns,
            limits,
            notes,
        ),
        ops=_nested(trace, ops, start_ns, limits.host_ops, "host events", names, notes),
        frames=_nested(trace, frames, start_ns, limits.frames, "frames", names, notes),
    )


def _states(scope: Scope, lane: int, start_ns: int, end_ns: int) -> Blocks:
    """What the thread was doing at each instant of the window."""
    window = Intervals(np.array([start_ns]), np.array([end_ns]))
    rest = window
    pieces: list[tuple[Ints, Ints, Ints]] = []
    for name, everything in scope.states(lane).items():
        piece = iv.intersect(cut(everything, start_ns, end_ns), window)
        rest = iv.subtract(rest, iv.union(piece.start, piece.end))
        kind = np.full(piece.start.size, HOST_STATES.index(name), np.int64)
        pieces.append((piece.start, piece.end, kind))
    python = np.full(rest.start.size, HOST_STATES.index("python"), np.int64)
    return _ordered([*pieces, (rest.start, rest.end, python)], start_ns)


def _nested(
    trace: Trace,
    rows: Ints,
    start_ns: int,
    limit: int,
    what: str,
    names: Names,
    notes: list[str],
) -> Blocks:
    """Events in time order with how deep each lies in others; the shortest give way."""
    start = trace.start[rows]
    end = start + trace.dur[rows]
    depth = _depths(start, end)
    keep = depth < DEEPEST
    if int(keep.sum()) > limit:
        dur = np.where(keep, end - start, -1)
        shortest = np.sort(dur)[-limit]
        keep &= dur >= max(int(shortest), 1)
        notes.append(
            f"{units.count(int((~keep).sum()))} {what} under {units.time(int(shortest))} "
            "are not drawn"
        )
    rows, start, end, depth = rows[keep], start[keep], end[keep], depth[keep]
    return Blocks(start - start_ns, end - start, names.of_rows(trace, rows), depth)


def _depths(start: Ints, end: Ints) -> Ints:
    """How many of the earlier ones are still open where each starts; sorted by start, -end."""
    open_until: list[int] = []
    depth = np.zeros(start.size, np.int64)
    for i, (s, e) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while open_until and open_until[-1] <= s:
            open_until.pop()
        depth[i] = len(open_until)
        open_until.append(e)
    return depth


def _step_marks(analysis: Analysis, start_ns: int, end_ns: int, names: Names) -> Blocks:
    """GPU windows of the steps that the window touches; `kind` is the step's number."""
    steps = analysis.step_table
    none = np.empty(0, np.int64)
    if steps is None or not len(steps):
        return Blocks(none, none, none, none)
    here = np.flatnonzero(steps.has_ops & (steps.gpu_start < end_ns) & (steps.gpu_end > start_ns))
    name = [names.of(f"step {i}") for i in here.tolist()]
    return Blocks(
        steps.gpu_start[here] - start_ns,
        steps.period_ns[here],
        np.array(name, np.int64),
        here.astype(np.int64),
    )
