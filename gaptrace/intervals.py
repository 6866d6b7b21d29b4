"""Interval algebra on int64 nanosecond arrays.

An interval is half-open, [start, end). Touching intervals do not overlap. An interval of zero
length is kept where a function says so. Every function takes arrays of equal length, leaves its
inputs alone and returns new arrays; "sorted" always means by start, then end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


# Beyond this nesting a pass per level costs more than pointer jumping.
DEEP = 64


class Intervals(NamedTuple):
    """A list of intervals as two arrays of one length."""

    start: Ints
    end: Ints


def distinct(values: Ints) -> Ints:
    """The different values, sorted.

    The same as `numpy.unique`, whose hash table is some fifty times slower than sorting on arrays
    of many different integers. The stable sort is the one that makes use of order already there,
    and event rows and times are mostly in order.
    """
    ordered = np.sort(values, kind="stable")
    if ordered.size == 0:
        return ordered
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]


def running_max_before(end: Ints) -> Ints:
    """For each position the largest value before it; the first position gets its own value.

    With ends of intervals sorted by start this is how far the earlier ones reach.
    """
    if end.size == 0:
        return end.astype(np.int64)
    reach = np.maximum.accumulate(end)
    return np.concatenate((end[:1], reach[:-1]))


def union(start: Ints, end: Ints) -> Intervals:
    """The disjoint, sorted intervals that cover the same points as the given ones.

    Intervals that touch are merged. Zero-length intervals cover nothing and vanish. The order of
    the input does not matter, and the union of a union is itself.
    """
    keep = end > start
    start, end = start[keep], end[keep]
    if start.size == 0:
        return Intervals(np.empty(0, np.int64), np.empty(0, np.int64))
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    opens = np.concatenate(([True], start[1:] > reach[:-1]))
    first = np.flatnonzero(opens)
    last = np.concatenate((first[1:] - 1, [start.size - 1]))
    return Intervals(start[first], reach[last])


def joined(*parts: Intervals) -> Intervals:
    """The disjoint, sorted intervals that cover what any of the lists covers."""
    return union(
        np.concatenate([np.empty(0, np.int64), *(part.start for part in parts)]),
        np.concatenate([np.empty(0, np.int64), *(part.end for part in parts)]),
    )


def length(intervals: Intervals) -> int:
    """Total length in nanoseconds, overlap counted as often as it occurs."""
    return int((intervals.end - intervals.start).sum())


def complement(disjoint: Intervals, lo: int, hi: int) -> Intervals:
    """The parts of [lo, hi) that the disjoint, sorted intervals leave uncovered."""
    start = np.clip(disjoint.start, lo, hi)
    end = np.clip(disjoint.end, lo, hi)
    begins = np.concatenate(([lo], end)).astype(np.int64)
    ends = np.concatenate((start, [hi])).astype(np.int64)
    keep = ends > begins
    return Intervals(begins[keep], ends[keep])


def covered_before(disjoint: Intervals, points: Ints) -> Ints:
    """Length covered by disjoint, sorted intervals in (-inf, point), for each point.

    The difference of two such values is the covered length between two points, which makes
    "how much of each window" one subtraction instead of a loop.
    """
    if disjoint.start.size == 0 or points.size == 0:
        return np.zeros(points.shape, np.int64)
    # All that begins before the point, less what of the last one lies behind it.
    begun = np.searchsorted(disjoint.start, points, side="right")
    total = np.concatenate(([0], np.cumsum(disjoint.end - disjoint.start)))
    reach = np.concatenate(([points.min()], disjoint.end))
    return np.asarray(total[begun] - np.maximum(reach[begun] - points, 0), np.int64)


def holding(start: Ints, end: Ints, at: Ints) -> Ints:
    """For each instant the index of the disjoint, sorted interval that holds it, -1 for none.

    Intervals are [start, end); empty ones hold nothing and may stand anywhere.
    """
    real = np.flatnonzero(end > start)
    if real.size == 0:
        return np.full(at.size, -1, np.int64)
    index = np.searchsorted(start[real], at, side="right") - 1
    found = real[np.maximum(index, 0)]
    return np.where((index >= 0) & (at < end[found]), found, -1)


def overlap_with(disjoint: Intervals, start: Ints, end: Ints) -> Ints:
    """How much of each [start, end) the disjoint, sorted intervals cover."""
    end = np.maximum(start, end)
    after = covered_before(disjoint, end)
    # Where one window begins at the end of the one before, half of the answers are there already.
    fresh = np.concatenate(([True], start[1:] != end[:-1])) if start.size else start > 0
    before = np.concatenate((after[:1], after[:-1]))
    before[fresh] = covered_before(disjoint, start[fresh])
    return after - before


def intersect(left: Intervals, right: Intervals) -> Intervals:
    """The points that both disjoint, sorted lists cover, as a disjoint, sorted list.

    Pieces that touch are kept apart where one of the inputs has a boundary between them.
    """
    if left.start.size == 0 or right.start.size == 0:
        return Intervals(np.empty(0, np.int64), np.empty(0, np.int64))
    first = np.searchsorted(right.end, left.start, side="right")
    last = np.searchsorted(right.start, left.end, side="left")
    times = np.maximum(last - first, 0)
    left_index = np.repeat(np.arange(left.start.size), times)
    within = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    right_index = np.repeat(first, times) + within
    start = np.maximum(left.start[left_index], right.start[right_index])
    end = np.minimum(left.end[left_index], right.end[right_index])
    keep = end > start
    return Intervals(start[keep], end[keep])


def subtract(left: Intervals, right: Intervals) -> Intervals:
    """The points of the disjoint, sorted `left` that the disjoint, sorted `right` leaves out."""
    if left.start.size == 0 or right.start.size == 0:
        return left
    lo = int(min(left.start[0], right.start[0]))
    hi = int(max(left.end[-1], right.end[-1]))
    return intersect(left, complement(right, lo, hi))


def previous_greater(values: Ints) -> Ints:
    """For each position the nearest earlier one with a greater value, -1 where there is none.

    Found by pointer jumping: everything between a position and its candidate is known to be no
    greater, so a candidate that fails can be replaced by its own candidate. A flat list settles
    in a logarithmic number of rounds.
    """
    up = np.arange(-1, values.size - 1, dtype=np.int64)
    active = np.flatnonzero(up >= 0)
    while active.size:
        candidate = up[active]
        active = active[values[candidate] <= values[active]]
        if active.size == 0:
            break
        up[active] = up[up[active]]
        active = active[up[active] >= 0]
    return up


class Segments(NamedTuple):
    """Disjoint, sorted pieces of time and the index of the interval that owns each."""

    start: Ints
    end: Ints
    owner: Ints


def innermost(start: Ints, end: Ints) -> Segments:
    """For every covered instant the interval that started last: the innermost one when they nest.

    Of intervals that start together the shorter is the inner one, and of equal ones the later in
    the input. Intervals need not nest properly: one that outlives the interval around it keeps
    its time to its end. Intervals of zero length own nothing.
    """
    index = np.flatnonzero(end > start)
    if index.size == 0:
        none = np.empty(0, np.int64)
        return Segments(none, none, none)
    s = start[index]
    if not (s[1:] > s[:-1]).all():
        # Files are mostly in order of start already; only then is sorting worth its time.
        index = index[np.lexsort((index, -end[index], s))]
        s = start[index]
    e = end[index]
    nested = _nested(s, e)
    if nested is not None:
        return Segments(nested.start, nested.end, index[nested.owner])
    edges = distinct(np.concatenate((s, e)))
    at = edges[:-1]
    owner = np.searchsorted(s, at, side="right").astype(np.int64) - 1
    up = previous_greater(e)
    active = np.flatnonzero(e[owner] <= at)
    while active.size:
        candidate = up[owner[active]]
        owner[active] = candidate
        active = active[(candidate >= 0) & (e[candidate] <= at[active])]
    covered = owner >= 0
    at, until, owner = at[covered], edges[1:][covered], owner[covered]
    opens = np.flatnonzero(
        np.concatenate(([True], (owner[1:] != owner[:-1]) | (at[1:] != until[:-1])))
    )
    closes = np.concatenate((opens[1:] - 1, [at.size - 1]))
    return Segments(at[opens], until[closes], index[owner[opens]])


def _nested(start: Ints, end: Ints) -> Segments | None:
    """The innermost segments of intervals sorted by start that nest properly; None if some cross.

    One pass over the boundaries in time order: after each of them the innermost interval is the
    one that started last at the depth then reached. It is checked that every end closes the
    interval that was innermost before it; where that fails the intervals cross.
    """
    count = start.size
    time = np.concatenate((end, start))
    order = np.argsort(time, kind="stable")
    time = time[order]
    opens = order >= count
    who = np.where(opens, order - count, order)
    depth = np.cumsum(np.where(opens, 1, -1))
    if int(depth.max()) > DEEP:
        return None
    depth = depth.astype(np.int8)
    owner = np.where(opens, who, -1)
    for level in range(1, int(depth.max()) + 1):
        at = np.flatnonzero(depth == level)
        owner[at] = np.maximum.accumulate(owner[at])
    closes = np.flatnonzero(~opens)
    if closes[0] == 0 or (owner[closes - 1] != who[closes]).any():
        return None
    keep = np.flatnonzero((time[1:] > time[:-1]) & (owner[:-1] >= 0))
    return Segments(time[keep], time[keep + 1], owner[keep])
