"""Where a step's windows end when the next step's mark is not what ends them.

A recording may be joined from several profiler cycles, and a server may wait for requests: the
stretch between such steps belongs to none of them.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from gaptrace import intervals as iv
from gaptrace.measure.labels import DECODE, IDLE, MIXED, PREFILL
from gaptrace.measure.links import rows_named
from gaptrace.measure.marks import Marks
from gaptrace.trace import Cat, Ints, Trace

NOT_RECORDED, BETWEEN_REQUESTS, PAUSE = "not recorded", "between requests", "pause"
# Python frames in which a server waits for work.
WAITING = re.compile(
    r"(?:queue|multiprocessing|selectors?|zmq|zmq/.*|asyncio/.*|concurrent/futures/.*|threading"
    r"|socket|shm_broadcast|.*/shm_broadcast|.*/zmq/.*)[^/]*\.py\(\d+\): "
    r"(?:get|recv\w*|select|poll|wait\w*|dequeue|acquire_read|run_once|_run_once|result|accept)"
    r"|<built-in .*(?:sleep|poll|select|recv|acquire|epoll_wait|sched_yield|wait)\b",
)
# Without other evidence a pause must be this much longer than what usually lies between steps ...
_OUTLIER = 4
# ... and where nearly every step is followed by one, it is the loop's own time.
_REGULAR = 0.9


def closed_early(
    trace: Trace,
    marks: Marks,
    phase: tuple[str, ...],
    busy: iv.Intervals,
    first_call: Ints,
    last_op: Ints,
) -> tuple[str, ...]:
    """For each step why its windows end with its own work, "" where the next step ends them.

    first_call, last_op: start of each step's first launch call, end of its last GPU op, -1 where
    unknown. Jumps in the marks' own numbering, and stretches longer than the median time from
    first launch to last op end in which the device is empty, with evidence that nothing was due: a
    waiting frame, an idle label, a next step that admits a request. A `pause` has no evidence.
    """
    count = len(marks)
    reason = [""] * count
    numbers = np.array(marks.number, np.int64)
    if numbers.size == count > 1:
        for step in np.flatnonzero(np.diff(numbers) != 1).tolist():
            reason[step] = NOT_RECORDED
    known = np.flatnonzero((first_call >= 0) & (last_op >= 0))
    if known.size < 3 or DECODE not in phase:
        return tuple(reason)
    due = (last_op - first_call)[known]
    gap = first_call[known][1:] - last_op[known][:-1]
    usual_due, usual_gap = (int(np.median(np.sort(values))) for values in (due, gap))
    own = np.array([not reason[step] for step in known[:-1].tolist()], np.bool_)
    longer = (gap > usual_due) & own
    waits = _waits(trace)
    outliers = longer & (gap > _OUTLIER * max(usual_gap, 1))
    regular = outliers.sum() > _REGULAR * max(own.sum(), 1)
    for place in np.flatnonzero(longer).tolist():
        step, following = int(known[place]), int(known[place + 1])
        start, end = int(last_op[step]), int(first_call[following])
        empty = iv.covered_before(busy, np.array([end])) == iv.covered_before(
            busy, np.array([start])
        )
        if not empty[0]:
            continue
        idles = any(phase[index] == IDLE for index in range(step + 1, following + 1))
        waited = int(iv.overlap_with(waits, np.array([start]), np.array([end]))[0])
        if idles or phase[following] in (PREFILL, MIXED) or 2 * waited > end - start:
            reason[step] = BETWEEN_REQUESTS
        elif outliers[place] and not regular:
            reason[step] = PAUSE
    return tuple(reason)


def _waits(trace: Trace) -> iv.Intervals:
    rows = rows_named(trace, WAITING.search, Cat.PYTHON)
    return iv.union(trace.start[rows], trace.start[rows] + trace.dur[rows])


def own_ends(
    host_end: Ints,
    gpu_start: Ints,
    gpu_end: Ints,
    marks_end: Ints,
    last_call: Ints,
    last_op: Ints,
    closed: npt.NDArray[np.bool_],
) -> tuple[Ints, Ints]:
    """Ends of the host and GPU windows, those of closed steps with their own work.

    A step whose work ends before that of an earlier step begins has no window on the GPU, not one
    of negative length.
    """
    own = np.minimum(np.maximum(marks_end, last_call), host_end)
    host = np.where(closed, own, host_end)
    reached = np.minimum(np.maximum(last_op, gpu_start), gpu_end)
    gpu = np.where(closed & (last_op >= 0), reached, gpu_end)
    return host.astype(np.int64), gpu.astype(np.int64)
