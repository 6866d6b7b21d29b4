"""An analysis ordered in time, so that any window of it is found without looking at the rest.

Built once for an analysis and asked for many windows: by a report for each step and each piece of
evidence, by the dashboard for each move of the mouse.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gaptrace import intervals as iv
from gaptrace.intervals import Intervals
from gaptrace.measure.attribution import frame_lane
from gaptrace.measure.devices import Device
from gaptrace.measure.result import Analysis
from gaptrace.trace import Cat, Ints, Trace

Bools = npt.NDArray[np.bool_]


class Spans(NamedTuple):
    """Events in time order, the longer first: an id, both ends, how far any reached so far."""

    id: Ints
    start: Ints
    end: Ints
    reach: Ints

    @staticmethod
    def of(ids: Ints, start: Ints, end: Ints) -> Spans:
        """The events put in order."""
        order = np.lexsort((ids, -end, start))
        end = end[order]
        reach = np.maximum.accumulate(end) if end.size else end
        return Spans(ids[order], start[order], end, reach)

    def within(self, start_ns: int, end_ns: int) -> Ints:
        """Ids of the events that overlap a window, in order."""
        first = int(np.searchsorted(self.reach, start_ns, side="right"))
        last = int(np.searchsorted(self.start, end_ns, side="left"))
        part = slice(first, max(last, first))
        return self.id[part][self.end[part] > start_ns]


def cut(disjoint: Intervals, start_ns: int, end_ns: int) -> Intervals:
    """Those of the disjoint, sorted intervals that overlap a window, as they are."""
    first = int(np.searchsorted(disjoint.end, start_ns, side="right"))
    last = int(np.searchsorted(disjoint.start, end_ns, side="left"))
    return Intervals(disjoint.start[first:last], disjoint.end[first:last])


class Scope:
    """One analysis with a device, ordered for windows."""

    def __init__(self, analysis: Analysis) -> None:
        if analysis.device is None:
            raise ValueError("an analysis without a device has no timeline")
        self.analysis = analysis
        self.trace: Trace = analysis.trace
        self.device: Device = analysis.device
        self._ops: dict[int, Spans] = {}
        self._frames: dict[int, Spans] = {}
        self._states: dict[int, Mapping[str, Intervals]] = {}
        self._waits: dict[int, Mapping[str, Intervals]] = {}

    @cached_property
    def gpu(self) -> Spans:
        """The device's ops, by their place in its links."""
        links = self.device.links
        return Spans.of(np.arange(links.row.size, dtype=np.int64), links.start, links.end)

    @cached_property
    def stream(self) -> Ints:
        """The stream of each of the device's ops."""
        gpu = self.trace.gpu
        return gpu.stream[np.searchsorted(gpu.rows, self.device.links.row)]

    @cached_property
    def replays(self) -> Bools:
        """For each event row whether it is a call that replays a graph."""
        links = self.device.links
        return self._flags(links.launch[links.replayed])

    @cached_property
    def launches(self) -> Bools:
        """For each event row whether it is a call that launched an op of the device."""
        links = self.device.links
        return self._flags(links.launch[links.launched])

    def gaps(self, start_ns: int, end_ns: int) -> Ints:
        """Numbers of the gaps that overlap a window."""
        gaps = self.device.gaps
        first = int(np.searchsorted(gaps.end, start_ns, side="right"))
        last = int(np.searchsorted(gaps.start, end_ns, side="left"))
        return np.arange(first, max(last, first), dtype=np.int64)

    def ops(self, lane: int) -> Spans:
        """Ops, annotations and runtime calls of a host thread."""
        if lane not in self._ops:
            self._ops[lane] = self._spans(self._host_rows[self._host_lanes == lane])
        return self._ops[lane]

    def frames(self, lane: int) -> Spans:
        """Python frames of a host thread, wherever the profiler wrote them."""
        if lane not in self._frames:
            rows = self._frame_rows
            if rows.size:
                rows = rows[self.trace.lane[rows] == frame_lane(self.trace, rows, lane)]
            self._frames[lane] = self._spans(rows)
        return self._frames[lane]

    def waits(self, lane: int) -> Mapping[str, Intervals]:
        """What the thread was doing as causes of idle see it: launch calls are runtime calls."""
        if lane not in self._waits:
            self._waits[lane] = self.analysis.threads[lane].sets()
        return self._waits[lane]

    def states(self, lane: int) -> Mapping[str, Intervals]:
        """What the thread was doing, launch calls told apart from other runtime calls."""
        if lane not in self._states:
            activity = self.analysis.threads[lane]
            sets = dict(self.waits(lane))
            owner = self.launches[activity.calls.owner]
            launching = iv.intersect(
                Intervals(activity.calls.start[owner], activity.calls.end[owner]), activity.runtime
            )
            sets["runtime"] = iv.subtract(
                activity.runtime, iv.union(launching.start, launching.end)
            )
            sets["launch"] = launching
            self._states[lane] = sets
        return self._states[lane]

    @cached_property
    def _host_rows(self) -> Ints:
        return self.trace.rows_of(Cat.CPU_OP, Cat.ANNOTATION, Cat.RUNTIME)

    @cached_property
    def _host_lanes(self) -> npt.NDArray[np.int32]:
        return self.trace.lane[self._host_rows]

    @cached_property
    def _frame_rows(self) -> Ints:
        return self.trace.rows_of(Cat.PYTHON)

    def _spans(self, rows: Ints) -> Spans:
        start = self.trace.start[rows]
        return Spans.of(rows, start, start + self.trace.dur[rows])

    def _flags(self, rows: Ints) -> Bools:
        flags = np.zeros(len(self.trace), np.bool_)
        flags[rows] = True
        return flags
