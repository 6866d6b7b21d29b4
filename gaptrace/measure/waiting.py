"""When a host thread waits for another thread, a process or the GPU, and does not work.

Nothing in a recording says that a thread sleeps. Two things stand for it: a frame that is known
to wait, and silence: a stretch in which nothing of the thread begins, ends or is open while the
GPU is busy or another thread waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gaptrace import intervals as iv
from gaptrace.intervals import Intervals
from gaptrace.knowledge import runtime_calls
from gaptrace.measure.links import Links, codes_in, rank_codes, rows_named
from gaptrace.trace import GPU_CATS, Cat, Ints, Trace

# A shorter silence is the code between two ops.
SILENCE_NS = 100_000
# Of a silent stretch some device must be busy for 90 %, or another thread synchronize for half.
BUSY_TENTHS, SYNC_TENTHS = 9, 5


@dataclass(frozen=True, eq=False)
class Waits:
    """What the waiting of any thread of a trace is read from.

    process: a number for the process of each lane. busy: for each process when each of its
    devices is busy. sync: for each lane when it is inside a synchronize. extent: of the recording,
    in ns. frames, waiting_frames: rows of Python frames, and of those known to wait.
    """

    trace: Trace
    process: Ints
    busy: Mapping[int, tuple[Intervals, ...]]
    sync: Mapping[int, Intervals]
    extent: tuple[int, int]
    frames: Ints
    waiting_frames: Ints

    def of(self, lane: int, open_rows: Ints) -> tuple[Intervals, Intervals]:
        """When the lane is silent, and when it is in a frame that waits.

        `open_rows`: the events during which it is not silent. The two may overlap each other and
        are not cut at what else the thread does.
        """
        frames = self.frames[self.trace.lane[self.frames] == self._frame_lane(lane)]
        return self._silent(lane, open_rows, frames), self._in_waiting_frames(frames)

    def _frame_lane(self, lane: int) -> int:
        lanes = np.unique(self.trace.lane[self.frames])
        return int(lanes[0]) if lanes.size == 1 else lane

    def _silent(self, lane: int, open_rows: Ints, frames: Ints) -> Intervals:
        """Maximal stretches of 100 us or more in which none of the rows is open.

        Where a frame begins or ends, and at an event of zero length, a stretch ends and the next
        begins.
        """
        start, end = self.trace.start, self.trace.start + self.trace.dur
        still = iv.complement(iv.union(start[open_rows], end[open_rows]), *self.extent)
        still = _at_least(still, SILENCE_NS)
        if still.start.size == 0:
            return still
        short = open_rows[self.trace.dur[open_rows] == 0]
        cuts = iv.distinct(np.concatenate((start[frames], end[frames], start[short])))
        cuts = cuts[iv.holding(*still, cuts) >= 0]
        begins = np.sort(np.concatenate((still.start, cuts)))
        ends = np.sort(np.concatenate((cuts, still.end)))
        pieces = _at_least(Intervals(begins, ends), SILENCE_NS)
        length = pieces.end - pieces.start
        own = int(self.process[lane])
        waited = np.zeros(length.size, np.bool_)
        for busy in self.busy.get(own, ()):
            waited |= 10 * iv.overlap_with(busy, *pieces) >= BUSY_TENTHS * length
        for other, sync in self.sync.items():
            if other != lane and int(self.process[other]) == own:
                waited |= 10 * iv.overlap_with(sync, *pieces) >= SYNC_TENTHS * length
        return Intervals(pieces.start[waited], pieces.end[waited])

    def _in_waiting_frames(self, frames: Ints) -> Intervals:
        """Time in frames known to wait; what other frames inside them do is not waiting."""
        trace = self.trace
        waiting = np.intersect1d(frames, self.waiting_frames, assume_unique=True)
        outer = iv.union(trace.start[waiting], trace.start[waiting] + trace.dur[waiting])
        inner = frames[iv.holding(*outer, trace.start[frames]) >= 0]
        segments = iv.innermost(trace.start[inner], trace.start[inner] + trace.dur[inner])
        mine = np.isin(inner[segments.owner], waiting)
        return iv.union(segments.start[mine], segments.end[mine])


def waits(trace: Trace, links: Links, sync: Mapping[int, Intervals]) -> Waits:
    """What waiting is read from; `sync`: when each lane with a runtime call synchronizes."""
    ranks = rank_codes(trace)
    known: dict[tuple[int, str], int] = {}
    process = np.fromiter(
        (
            known.setdefault((int(ranks[code]), lane.pid), len(known))
            for code, lane in enumerate(trace.lanes)
        ),
        np.int64,
        len(trace.lanes),
    )
    launched = links.launched
    caller = process[trace.lane[links.launch[launched]]]
    busy = {}
    for own in codes_in(caller):
        mine = codes_in(links.device[launched][caller == own])
        busy[int(own)] = tuple(
            iv.union(links.start[links.device == code], links.end[links.device == code])
            for code in mine
        )
    rows = trace.rows_of(Cat.RUNTIME, Cat.CPU_OP, *GPU_CATS)
    extent = (0, 0)
    if rows.size:
        ends = trace.start[rows] + trace.dur[rows]
        extent = (int(trace.start[rows].min()), int(ends.max()))
    return Waits(
        trace=trace,
        process=process,
        busy=busy,
        sync=sync,
        extent=extent,
        frames=trace.rows_of(Cat.PYTHON),
        waiting_frames=rows_named(trace, runtime_calls.is_waiting_frame, Cat.PYTHON),
    )


def _at_least(intervals: Intervals, ns: int) -> Intervals:
    keep = intervals.end - intervals.start >= ns
    return Intervals(intervals.start[keep], intervals.end[keep])
