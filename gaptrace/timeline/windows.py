"""A stretch of an analysis cut out for a timeline: which ops, gaps, calls and host work it holds.

Where a stretch holds more than a drawing can show, the smallest things are merged or left out, and
a note says how many.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import numpy as np

from gaptrace import intervals as iv
from gaptrace import units
from gaptrace.intervals import Intervals
from gaptrace.knowledge.kernel_names import classify
from gaptrace.measure.gaps import CAUSES, DEVICE_WAIT, GRAPH_NODE, LAUNCH, UNATTRIBUTED
from gaptrace.measure.kernels import OP_CLASSES
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
from gaptrace.trace import Cat, Ints

STREAMS_SHOWN = 8
THREADS_SHOWN = 2
DEEPEST = 24


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
    return _Window(scope, start_ns, end_ns, names, limits or Limits()).stretch(title, step)


@dataclass
class _Window:
    """What a stretch is cut with; `notes` grow while it is."""

    scope: Scope
    start: int
    end: int
    names: Names
    limits: Limits
    notes: list[str] = field(default_factory=list)

    def stretch(self, title: str, step: tuple[int, int] | None) -> Stretch:
        scope, names, start = self.scope, self.names, self.start
        trace, links, gaps = scope.trace, scope.device.links, scope.device.gaps
        span = max(self.end - start, 1)
        inside = scope.gpu.within(start, self.end)
        most = self.limits.gpu_ops
        resolution = -(-span // max(most // 2, 1)) if inside.size > most else 0
        chosen = scope.gaps(start, self.end)
        # The op that ends the last gap starts where the window ends; its launch is the gap's.
        calls = np.unique(np.concatenate((links.launch[inside], gaps.launch[chosen])))
        calls = calls[calls >= 0]
        seen = calls[
            (trace.start[calls] < self.end) & (trace.start[calls] + trace.dur[calls] > start)
        ]
        if lost := int(calls.size - seen.size):
            self.notes.append(f"{units.counted(lost, 'launch call')} outside this window")
        seen = seen[np.argsort(trace.start[seen], kind="stable")]
        gpu = self._gpu_lanes(inside, seen, resolution)
        if resolution:
            small = int((gaps.dur[chosen] < resolution).sum())
            chosen = chosen[gaps.dur[chosen] >= resolution]
            self.notes.append(
                f"{units.count(small)} gaps under {units.time(resolution)} are not drawn"
            )
        cause_ns, gap_starts = gaps.cause_ns[chosen], gaps.start[chosen] - start
        largest = cause_ns.argmax(axis=1) if chosen.size else chosen
        after = names.of_rows(trace, gaps.after[chosen], _short)
        before = names.of_rows(trace, gaps.before[chosen], _short)
        blocks = Blocks(gap_starts, gaps.end[chosen] - gaps.start[chosen], after, largest)
        own = _position(seen, gaps.launch[chosen])
        drained = gaps.drained_by_sync[chosen].astype(np.int64)
        replays = scope.replays[seen].astype(np.int64)
        return Stretch(
            title=title,
            start_ns=start,
            span_ns=span,
            step=None if step is None else (step[0] - start, step[1] - start),
            names=names,
            gpu=gpu,
            gaps=GapLane(blocks, before, own, drained, chosen, cause_ns),
            parts=self._thinned(self._parts(chosen), gap_starts),
            calls=Blocks(
                trace.start[seen] - start, trace.dur[seen], names.of_rows(trace, seen), replays
            ),
            host=self._host_lanes(seen),
            marks=self._step_marks(),
            notes=tuple(self.notes),
            origin_ns=trace.origin_ns,
        )

    def _gpu_lanes(self, inside: Ints, calls: Ints, resolution: int) -> tuple[GpuLane, ...]:
        """One lane a stream, the busiest first in number order; the rest share the last lane."""
        trace, links = self.scope.trace, self.scope.device.links
        stream = self.scope.stream[inside]
        numbers, inverse, counts = np.unique(stream, return_inverse=True, return_counts=True)
        shown = np.sort(np.argsort(-counts, kind="stable")[:STREAMS_SHOWN])
        groups = [(f"stream {numbers[i]}", inverse == i) for i in shown]
        if numbers.size > STREAMS_SHOWN:
            rest = ~np.isin(inverse, shown)
            groups.append((f"{numbers.size - STREAMS_SHOWN} more streams", rest))
        lanes, merged = [], 0
        for label, member in groups:
            own = inside[member]
            start, end = links.start[own], links.end[own]
            name = self.names.of_rows(trace, links.row[own], _short)
            blocks = Blocks(start - self.start, end - start, name, self._classes(own))
            call = _position(calls, links.launch[own])
            size = np.ones(own.size, np.int64)
            if resolution:
                blocks, call, size = _merged(blocks, call, resolution, self.names)
                merged += own.size - len(blocks)
            lanes.append(GpuLane(label, blocks, call, size))
        if merged:
            self.notes.append(
                f"{units.count(merged)} ops under {units.time(resolution)} are drawn merged"
            )
        return tuple(lanes)

    def _classes(self, index: Ints) -> Ints:
        trace, links = self.scope.trace, self.scope.device.links
        codes, inverse = np.unique(trace.name[links.row[index]], return_inverse=True)
        kinds = [OP_CLASSES.index(classify(trace.names[int(code)]).op_class) for code in codes]
        found = np.array(kinds, np.int64)[inverse] if codes.size else np.empty(0, np.int64)
        return np.where(links.cat[index] != Cat.KERNEL, OP_CLASSES.index("copy"), found)

    def _parts(self, chosen: Ints) -> Blocks:
        """The gaps piece by piece: where within each each cause was. Sums equal `cause_ns`."""
        gaps = self.scope.device.gaps
        pieces: list[tuple[Ints, Ints, Ints]] = [(np.empty(0, np.int64),) * 3]

        def add(start: Ints, end: Ints, cause: int) -> None:
            keep = end > start
            pieces.append((start[keep], end[keep], np.full(int(keep.sum()), cause, np.int64)))

        cause_ns = gaps.cause_ns[chosen]
        whole = np.zeros(chosen.size, np.bool_)
        for single in (GRAPH_NODE, DEVICE_WAIT, UNATTRIBUTED):
            here = cause_ns[:, single] == gaps.dur[chosen]
            if single == UNATTRIBUTED:
                here &= gaps.launch[chosen] < 0
            whole |= here
            add(gaps.start[chosen[here]], gaps.end[chosen[here]], single)
        late = chosen[~whole]
        sent = gaps.end[late] - gaps.cause_ns[late, DEVICE_WAIT]
        until = sent - gaps.cause_ns[late, LAUNCH]
        add(until, sent, LAUNCH)
        add(sent, gaps.end[late], DEVICE_WAIT)
        lanes = self.scope.trace.lane[gaps.launch[late]] if late.size else late
        for lane in np.unique(lanes):
            own = lanes == lane
            begin, end = gaps.start[late[own]], until[own]
            rest = Intervals(begin[end > begin], end[end > begin])
            if rest.start.size == 0:
                continue
            waits, first, last = rest, int(rest.start[0]), int(rest.end[-1])
            for name, everything in self.scope.waits(int(lane)).items():
                covered = cut(everything, first, last)
                piece = iv.intersect(covered, waits)
                add(piece.start, piece.end, CAUSES.index(name))
                rest = iv.subtract(rest, covered)
            own_rest = self.scope.analysis.threads[int(lane)].rest
            add(rest.start, rest.end, CAUSES.index(own_rest))
        return self._ordered(pieces)

    def _thinned(self, blocks: Blocks, opens: Ints) -> Blocks:
        """Blocks that follow without a break from each of `opens` on, short neighbours as one.

        A merged block has the kind that took most of its time.
        """
        if len(blocks) <= self.limits.pieces:
            return blocks
        resolution = -(-(self.end - self.start) // max(self.limits.pieces // 2, 1))
        group = np.searchsorted(opens, blocks.start, side="right")
        first = _opening(blocks, resolution) | np.r_[True, group[1:] != group[:-1]]
        begin = np.flatnonzero(first)
        owner, kinds = np.cumsum(first) - 1, int(blocks.kind.max()) + 1
        spent = np.bincount(
            owner * kinds + blocks.kind, weights=blocks.dur, minlength=begin.size * kinds
        )
        self.notes.append(
            f"{units.count(len(blocks) - begin.size)} pieces under {units.time(resolution)} are "
            "drawn as the longest of their neighbours"
        )
        dur = np.add.reduceat(blocks.dur, begin)
        kind = spent.reshape(begin.size, kinds).argmax(axis=1)
        return Blocks(blocks.start[begin], dur, blocks.name[begin], kind)

    def _ordered(self, pieces: list[tuple[Ints, Ints, Ints]]) -> Blocks:
        """Pieces of (start, end, kind) as nameless blocks in time order."""
        start, end, kind = (np.concatenate(column) for column in zip(*pieces, strict=True))
        order = np.argsort(start, kind="stable")
        nameless = np.full(order.size, -1)
        return Blocks(start[order] - self.start, (end - start)[order], nameless, kind[order])

    def _host_lanes(self, calls: Ints) -> tuple[HostLane, ...]:
        """The threads that launched most of the ops shown, by number of calls."""
        analysis = self.scope.analysis
        lanes, counts = np.unique(self.scope.trace.lane[calls], return_counts=True)
        if lanes.size == 0 and analysis.step_table is not None:
            # A window without launches still has a thread that will make the next one.
            lanes = np.unique(analysis.step_table.lane[analysis.step_table.lane >= 0])
            counts = np.ones(lanes.size, np.int64)
        chosen = lanes[np.argsort(-counts, kind="stable")][:THREADS_SHOWN]
        return tuple(self._host_lane(int(lane)) for lane in chosen if int(lane) in analysis.threads)

    def _host_lane(self, lane: int) -> HostLane:
        scope, trace = self.scope, self.scope.trace
        where = trace.lanes[lane]
        title = trace.thread_names.get((where.pid, where.tid), "") or f"host thread {where.tid}"
        ops, frames = (
            kind(lane).within(self.start, self.end) for kind in (scope.ops, scope.frames)
        )
        return HostLane(
            label=units.middle_elided(title, 40),
            states=self._thinned(self._states(lane), np.zeros(1, np.int64)),
            ops=self._nested(ops, self.limits.host_ops, "host events"),
            frames=self._nested(frames, self.limits.frames, "frames"),
        )

    def _states(self, lane: int) -> Blocks:
        """What the thread was doing at each instant of the window."""
        window = rest = Intervals(np.array([self.start]), np.array([self.end]))
        pieces: list[tuple[Ints, Ints, Ints]] = []
        for name, everything in self.scope.states(lane).items():
            piece = iv.intersect(cut(everything, self.start, self.end), window)
            rest = iv.subtract(rest, iv.union(piece.start, piece.end))
            kind = np.full(piece.start.size, HOST_STATES.index(name), np.int64)
            pieces.append((piece.start, piece.end, kind))
        own = HOST_STATES.index(self.scope.analysis.threads[lane].rest)
        kind = np.full(rest.start.size, own, np.int64)
        return self._ordered([*pieces, (rest.start, rest.end, kind)])

    def _nested(self, rows: Ints, limit: int, what: str) -> Blocks:
        """Events in time order with how deep each lies in others; the shortest give way."""
        trace = self.scope.trace
        start = trace.start[rows]
        end = start + trace.dur[rows]
        depth = _depths(start, end)
        keep = depth < DEEPEST
        if int(keep.sum()) > limit:
            dur = np.where(keep, end - start, -1)
            shortest = int(np.sort(dur)[-limit]) if limit else int(dur.max()) + 1
            keep &= dur >= max(shortest, 1)
            lost = units.count(int((~keep).sum()))
            self.notes.append(f"{lost} {what} under {units.time(shortest)} are not drawn")
        rows, start, end, depth = rows[keep], start[keep], end[keep], depth[keep]
        return Blocks(start - self.start, end - start, self.names.of_rows(trace, rows), depth)

    def _step_marks(self) -> Blocks:
        """GPU windows of the steps that the window touches; `kind` is the step's number."""
        steps = self.scope.analysis.step_table
        if steps is None or not len(steps):
            return Blocks(*(np.empty(0, np.int64),) * 4)
        touches = (steps.gpu_start < self.end) & (steps.gpu_end > self.start)
        here = np.flatnonzero(steps.has_ops & touches)
        name = np.array([self.names.of(f"step {i}") for i in here.tolist()], np.int64)
        return Blocks(steps.gpu_start[here] - self.start, steps.period_ns[here], name, here)


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


def _opening(blocks: Blocks, resolution: int) -> np.ndarray:
    """Which blocks begin a run: all but those as short, and in the same cell, as the one before."""
    cell, small = blocks.start // resolution, blocks.dur < resolution
    opens = np.ones(len(blocks), np.bool_)
    opens[1:] = ~(small[1:] & small[:-1] & (cell[1:] == cell[:-1]))
    return opens


def _merged(blocks: Blocks, call: Ints, resolution: int, names: Names) -> tuple[Blocks, Ints, Ints]:
    """Runs of blocks shorter than the resolution that share a cell of it, as one block each."""
    first = np.flatnonzero(_opening(blocks, resolution))
    if first.size == 0:
        return blocks, call, np.zeros(0, np.int64)
    size = np.diff(np.append(first, len(blocks)))
    end = np.maximum.reduceat(blocks.start + blocks.dur, first)
    many = size > 1
    name = np.where(many, -1, blocks.name[first])
    for index in np.flatnonzero(many):
        name[index] = names.of(f"{size[index]} short ops")
    merged = Blocks(blocks.start[first], end - blocks.start[first], name, blocks.kind[first])
    return merged, np.where(many, -1, call[first]), size


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
