"""Busy time split by op class so that every busy nanosecond counts once."""

from __future__ import annotations

import numpy as np

from gaptrace import intervals as iv
from gaptrace.intervals import Intervals
from gaptrace.measure.devices import Device
from gaptrace.measure.kernels import OP_CLASSES, ops_by_class
from gaptrace.trace import Ints, Trace


def class_intervals(trace: Trace, device: Device) -> tuple[Intervals, ...]:
    """For each of `OP_CLASSES` the disjoint, sorted intervals in which it keeps the device busy.

    Where streams overlap, a busy nanosecond belongs to the op that started first among those that
    are running, of ops that start together to the one that ends first, then to the first in the
    file. Sorted in that order, an op owns what it adds beyond the largest end of the ops before
    it; so the intervals of all classes are disjoint and their union is the busy time.
    """
    links = device.links
    order = np.lexsort((links.row, links.end, links.start))
    start, end = links.start[order], links.end[order]
    begin = start.copy()
    begin[1:] = np.maximum(start[1:], np.maximum.accumulate(end)[:-1])
    names = ops_by_class(trace, device)
    code = np.array([OP_CLASSES.index(name) for name in names], np.int64)[order]
    own = end > begin
    return tuple(
        Intervals(begin[own & (code == i)], end[own & (code == i)]) for i in range(len(OP_CLASSES))
    )


def busy_by_class(parts: tuple[Intervals, ...], start: Ints, end: Ints) -> Ints:
    """Busy ns of each window by op class; one row a window, one column per `OP_CLASSES`.

    Rows sum to the busy time of their window, to the nanosecond.
    """
    columns = [iv.overlap_with(part, start, end) for part in parts]
    return np.stack(columns, axis=1) if columns else np.zeros((start.size, 0), np.int64)
