"""Which op and which module each GPU op comes from, read from the launch call's place in time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gaptrace import intervals as iv
from gaptrace.intervals import Segments
from gaptrace.measure.links import Links, codes_in, rows_named
from gaptrace.measure.threads import Activity
from gaptrace.trace import Cat, Ints, Trace

MODULE_PREFIX = "nn.Module: "


@dataclass(frozen=True, eq=False)
class Origin:
    """For every GPU op of a device, in file order: rows of events around its launch call.

    op: the innermost CPU op, module: the innermost `nn.Module` frame; -1 where there is none
    (replays, orphans, no stacks).
    """

    op: Ints
    module: Ints


def origins(trace: Trace, links: Links, threads: Mapping[int, Activity]) -> Origin:
    """The origin of each GPU op in `links`. Ops of a graph replay have none of their own."""
    at = np.where(links.launched & ~links.replayed, links.launch, -1)
    frames = trace.rows_of(Cat.PYTHON)
    modules = rows_named(trace, lambda name: name.startswith(MODULE_PREFIX), Cat.PYTHON)
    return Origin(
        op=op_around(trace, threads, at),
        module=enclosing(trace, modules, at, frames_of=frames),
    )


def op_around(trace: Trace, threads: Mapping[int, Activity], at: Ints) -> Ints:
    """For each event row in `at` the innermost CPU op on its thread that is open at its start.

    -1 for no op, for an entry of -1, and on threads that made no runtime call.
    """
    result = np.full(at.size, -1, np.int64)
    known = np.flatnonzero(at >= 0)
    lanes = trace.lane[at[known]]
    for lane in codes_in(lanes):
        activity = threads.get(int(lane))
        if activity is not None:
            here = known[lanes == lane]
            result[here] = owner_at(activity.ops, trace.start[at[here]])
    return result


def owner_at(segments: Segments, instants: Ints) -> Ints:
    """The owner of the segment that holds each instant, -1 where none does."""
    return np.append(segments.owner, -1)[iv.holding(segments.start, segments.end, instants)]


def outermost_rows(trace: Trace, rows: Ints) -> Ints:
    """Of the rows those that no other of the same lane contains."""
    if rows.size == 0:
        return rows
    lane, start = trace.lane[rows], trace.start[rows]
    end = start + trace.dur[rows]
    order = np.lexsort((rows, -end, start, lane))
    rows, lane, end = rows[order], lane[order], end[order]
    keep = np.ones(rows.size, np.bool_)
    for code in codes_in(lane):
        here = np.flatnonzero(lane == code)
        reach = np.maximum.accumulate(end[here])
        keep[here[1:]] = end[here[1:]] > reach[:-1]
    return np.sort(rows[keep])


def enclosing(trace: Trace, rows: Ints, at: Ints, *, frames_of: Ints | None = None) -> Ints:
    """For each event row in `at` the innermost of `rows` on its thread that is open at its start.

    `frames_of` are Python frames: some torch versions write these under another thread id than
    the ops, so a thread without frames borrows those of the only thread that has any.
    """
    result = np.full(at.size, -1, np.int64)
    known = np.flatnonzero(at >= 0)
    if rows.size == 0 or known.size == 0:
        return result
    lanes = trace.lane[at[known]]
    row_lane = trace.lane[rows]
    for lane in codes_in(lanes):
        source = lane
        if frames_of is not None:
            source = frame_lane(trace, frames_of, int(lane))
        own = rows[row_lane == source]
        if own.size == 0:
            continue
        here = known[lanes == lane]
        segments = iv.innermost(trace.start[own], trace.start[own] + trace.dur[own])
        result[here] = owner_at(segments._replace(owner=own[segments.owner]), trace.start[at[here]])
    return result


def frame_lane(trace: Trace, frames: Ints, lane: int) -> int:
    """The lane under which the Python frames of a host thread were written."""
    lanes = np.unique(trace.lane[frames])
    if lane in lanes or lanes.size != 1:
        return lane
    return int(lanes[0])
