"""Busy, idle, gaps and their causes, per device, exactly as the definitions say.

Order the ops of a device by start, end and position in the file. A gap [a, b) opens where an op
starts at b, later than a, the largest end of all ops before it. The sum of the gaps is the idle
time, to the nanosecond, and every nanosecond of every gap gets exactly one cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gaptrace import intervals as iv
from gaptrace.measure.links import Links, codes_in
from gaptrace.measure.stats import spread
from gaptrace.measure.threads import Activity
from gaptrace.trace import Ints, Trace

# The order of the causes in tables, bars, legends and JSON.
CAUSES = (
    "graph_node",
    "device_wait",
    "launch",
    "unattributed",
    "sync",
    "alloc",
    "compile",
    "runtime",
    "dispatch",
    "python",
    "host_wait",
    "profiler",
)
HOST_CAUSES = CAUSES[4:]
GRAPH_NODE, DEVICE_WAIT, LAUNCH, UNATTRIBUTED = range(4)
PYTHON = CAUSES.index("python")
# How long after its launch call a GPU op may start before the device has to answer for it: a
# fixed part, so many times the usual way of the recording itself, and never more than the last.
LAUNCH_FIXED_NS, LAUNCH_TIMES, LAUNCH_MOST_NS = 20_000, 4, 200_000


@dataclass(frozen=True, eq=False)
class Gaps:
    """The gaps of one device in time order; one entry per gap.

    start, end: ns, half-open. before: row of the op whose end opened the gap. after: row of the op
    that ended it. launch: row of the launch call the cause was read from (the earliest known among
    the ops that start at the gap's end), -1 where none is known. cause_ns: one column per entry of
    `CAUSES`; each row sums to the gap. drained_by_sync: the host was late, and a sync on the
    launching thread was running when the gap began: the queue was empty because somebody waited.
    unrecorded_ns: the part of `unattributed` in which the host was late and nothing tells why, as
    no CPU op of the launching thread was recorded.
    """

    start: Ints
    end: Ints
    before: Ints
    after: Ints
    launch: Ints
    cause_ns: npt.NDArray[np.int64]
    drained_by_sync: npt.NDArray[np.bool_]
    unrecorded_ns: Ints

    def __len__(self) -> int:
        return int(self.start.size)

    @property
    def dur(self) -> Ints:
        """Length of each gap in ns."""
        return self.end - self.start

    @property
    def raw_cause_ns(self) -> npt.NDArray[np.int64]:
        """`cause_ns` as a device's raw figures have it: what was not recorded counts as Python."""
        raw = self.cause_ns.copy()
        raw[:, UNATTRIBUTED] -= self.unrecorded_ns
        raw[:, PYTHON] += self.unrecorded_ns
        return raw

    def by_cause(self) -> dict[str, int]:
        """Raw idle nanoseconds by cause, over all gaps."""
        total = self.raw_cause_ns.sum(axis=0)
        return {cause: int(total[i]) for i, cause in enumerate(CAUSES)}


def device_gaps(trace: Trace, links: Links, threads: Mapping[int, Activity]) -> Gaps:
    """The gaps of the one device that `links` holds, with their causes.

    `threads` must hold the activity of every lane that launched one of its ops.
    """
    order = np.lexsort((links.row, links.end, links.start))
    start, end = links.start[order], links.end[order]
    reach = iv.running_max_before(end)
    opens = np.flatnonzero(start > reach)
    a, b = reach[opens], start[opens]
    # The op before the gap is the first in order whose end is the reach; the reach grew there.
    peak = np.maximum.accumulate(end) if end.size else end
    before = np.searchsorted(peak, a, side="left")
    launch, l0 = _first_launch(trace, links.launch[order], start, opens)
    same_replay = (
        links.replayed[order][before]
        & links.replayed[order][opens]
        & (links.launch[order][before] == links.launch[order][opens])
    )
    cause = np.zeros((opens.size, len(CAUSES)), np.int64)
    length = b - a
    known = launch >= 0
    in_time = known & (l0 <= a)
    cause[same_replay, GRAPH_NODE] = length[same_replay]
    waits = ~same_replay & in_time
    cause[waits, DEVICE_WAIT] = length[waits]
    unknown = ~same_replay & ~known
    cause[unknown, UNATTRIBUTED] = length[unknown]
    late = ~same_replay & known & ~in_time
    until = np.minimum(l0, b)
    sent = _launch_limit(trace, links, order, start, end, launch)
    sent = np.clip(sent, until, b)
    cause[late, LAUNCH] = (sent - until)[late]
    cause[late, DEVICE_WAIT] = (b - sent)[late]
    _split_host(trace, threads, cause, late, launch, a, until)
    return Gaps(
        start=a,
        end=b,
        before=links.row[order][before],
        after=links.row[order][opens],
        launch=launch,
        cause_ns=cause,
        drained_by_sync=_drained(trace, threads, late, launch, a),
        unrecorded_ns=np.where(late, cause[:, UNATTRIBUTED], 0),
    )


def _launch_limit(
    trace: Trace, links: Links, order: Ints, start: Ints, end: Ints, launch: Ints
) -> Ints:
    """For each gap the instant up to which its launch call `launch` can be what it waits for.

    The call's end plus `LAUNCH_FIXED_NS` plus `LAUNCH_TIMES` the lower median, over the ops of the
    device with a launch call of the same kind (graph launches: the first op of each replay), of
    the time from when the op could start (the call and all earlier ops have ended) to its start.
    """
    call, graph = links.launch[order], links.replayed[order]
    known = np.flatnonzero(call >= 0)
    called = trace.start[call[known]] + trace.dur[call[known]]
    # The device's first op has no earlier one to wait for.
    free = np.where(known == 0, called, iv.running_max_before(end)[known])
    way = np.maximum(start[known] - np.maximum(called, free), 0)
    first = np.zeros(known.size, np.bool_)
    first[np.unique(call[known], return_index=True)[1]] = True
    bound = {
        kind: min(LAUNCH_FIXED_NS + LAUNCH_TIMES * usual, LAUNCH_MOST_NS)
        for kind, chosen in ((True, graph[known] & first), (False, ~graph[known]))
        for usual in (int(spread(way[chosen]).median or 0),)
    }
    replays = np.zeros(len(trace), np.bool_)
    replays[links.launch[links.replayed]] = True
    limit = np.where(replays[launch], bound[True], bound[False])
    return np.asarray(trace.start[launch] + trace.dur[launch] + limit)


def _first_launch(trace: Trace, launch: Ints, start: Ints, opens: Ints) -> tuple[Ints, Ints]:
    """The earliest known launch among the ops that start where each gap ends: row and start."""
    big = np.iinfo(np.int64).max
    known = launch >= 0
    launch_start = np.where(known, trace.start[launch], big) if launch.size else launch
    first = np.full(opens.size, -1, np.int64)
    if opens.size:
        # Ops that start together are neighbours in the order; each gap's group begins at `opens`.
        group_end = np.searchsorted(start, start[opens], side="right")
        bounds = np.stack((opens, group_end), axis=1).reshape(-1)
        padded = np.append(launch_start, big)
        earliest = np.minimum.reduceat(padded, bounds)[::2]
        first = np.where(earliest == big, -1, _row_with(launch, padded, opens, group_end, earliest))
    return first, np.where(first >= 0, trace.start[first], 0) if len(trace) else first


def _row_with(
    launch: Ints, launch_start: Ints, opens: Ints, group_end: Ints, earliest: Ints
) -> Ints:
    """The launch row of the first op in each group whose launch starts at `earliest`."""
    result = launch[opens].copy()
    for index in np.flatnonzero(launch_start[opens] != earliest):
        group = slice(int(opens[index]), int(group_end[index]))
        result[index] = launch[group][np.argmax(launch_start[group] == earliest[index])]
    return result


def _split_host(
    trace: Trace,
    threads: Mapping[int, Activity],
    cause: npt.NDArray[np.int64],
    late: npt.NDArray[np.bool_],
    launch: Ints,
    a: Ints,
    until: Ints,
) -> None:
    """Fill the host causes of the gaps for which the host was late."""
    index = np.flatnonzero(late)
    lanes = trace.lane[launch[index]]
    for lane in codes_in(lanes):
        here = index[lanes == lane]
        rest = until[here] - a[here]
        activity = threads[int(lane)]
        for name, covered in activity.sets().items():
            part = iv.overlap_with(covered, a[here], until[here])
            cause[here, CAUSES.index(name)] = part
            rest = rest - part
        cause[here, CAUSES.index(activity.rest)] = rest


def _drained(
    trace: Trace,
    threads: Mapping[int, Activity],
    late: npt.NDArray[np.bool_],
    launch: Ints,
    a: Ints,
) -> npt.NDArray[np.bool_]:
    result = np.zeros(a.size, np.bool_)
    index = np.flatnonzero(late)
    lanes = trace.lane[launch[index]] if index.size else launch[index]
    for lane in codes_in(lanes):
        here = index[lanes == lane]
        sync = threads[int(lane)].sync
        if sync.start.size:
            position = np.searchsorted(sync.start, a[here], side="right") - 1
            result[here] = (position >= 0) & (sync.end[np.maximum(position, 0)] > a[here])
    return result
