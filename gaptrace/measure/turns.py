"""Spans on host threads: what they hold, which contains which, and threads that take turns."""

from __future__ import annotations

import numpy as np

from gaptrace.measure.links import Links
from gaptrace.trace import Ints, Trace

# Spans of two threads that overlap by less than this share of their time take turns.
OVERLAP_SHARE = 0.05


def holding(instants: Ints, trace: Trace, rows: Ints) -> Ints:
    """How many of the (sorted) instants each row's span holds."""
    start, end = trace.start[rows], trace.start[rows] + trace.dur[rows]
    return np.asarray(np.searchsorted(instants, end) - np.searchsorted(instants, start))


def outermost(trace: Trace, rows: Ints) -> Ints:
    """Of the rows those that no other contains, in time order."""
    start, end = trace.start[rows], trace.start[rows] + trace.dur[rows]
    order = np.lexsort((rows, -end, start))
    rows, start, end = rows[order], start[order], end[order]
    if rows.size == 0:
        return rows
    reach = np.maximum.accumulate(end)
    inner = np.concatenate(([False], (start[1:] < reach[:-1]) & (end[1:] <= reach[:-1])))
    return rows[~inner]


def nested(trace: Trace, row: int, rows: Ints) -> Ints:
    """Of the rows those that lie inside another row's span on its thread."""
    start, end = int(trace.start[row]), int(trace.start[row] + trace.dur[row])
    inside = (trace.start[rows] >= start) & (trace.start[rows] + trace.dur[rows] <= end)
    return np.asarray(rows[inside & (rows != row) & (trace.lane[rows] == trace.lane[row])])


def in_turn(trace: Trace, links: Links, rows: Ints) -> Ints:
    """The outermost rows of the threads whose steps follow each other, else of one thread.

    Marks on several threads at once would tile the time twice. Threads that each launch inside
    their own marks and whose marks do not overlap take turns, and their marks are one sequence;
    otherwise the thread whose marks hold the most launch calls is kept, then the one with the most
    marks.
    """
    if rows.size == 0:
        return rows
    lanes = trace.lane[rows]
    launches = np.sort(trace.start[links.calls], kind="stable")
    best: tuple[int, int, int] = (-1, -1, 0)
    launching: list[Ints] = []
    for lane in np.unique(lanes):
        here = outermost(trace, rows[lanes == lane])
        best = max(best, (int((holding(launches, trace, here) > 0).sum()), here.size, -int(lane)))
        own = links.calls[trace.lane[links.calls] == lane]
        held = holding(np.sort(trace.start[own], kind="stable"), trace, here)
        if here.size > 1 and (held > 0).mean() >= 0.5:
            launching.append(here)
    if len(launching) > 1:
        together = np.concatenate(launching)
        start, end = trace.start[together], trace.start[together] + trace.dur[together]
        order = np.argsort(start, kind="stable")
        reach = np.maximum.accumulate(end[order])
        overlap = np.clip(np.minimum(reach[:-1], end[order][1:]) - start[order][1:], 0, None)
        if overlap.sum() <= OVERLAP_SHARE * trace.dur[together].sum():
            return together[order]
    return outermost(trace, rows[lanes == -best[2]])
