"""Host time split into exclusive classes that sum to the window, on one thread per window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gaptrace import intervals as iv
from gaptrace.intervals import Intervals
from gaptrace.knowledge import runtime_calls
from gaptrace.measure.links import Links, codes_in
from gaptrace.measure.stats import nearest_rank
from gaptrace.measure.threads import RUNTIME, Activity, CallKinds
from gaptrace.trace import Cat, Ints, Trace

# The order of the classes in tables, bars and JSON.
HOST_CLASSES = (
    "python",
    "dispatch",
    "launch",
    "runtime",
    "alloc",
    "compile",
    "profiler",
    "sync",
    "backpressure",
    "waiting",
    "unattributed",
)
# Time in which the host waits for others: a faster host would not shorten it.
WAITED = ("sync", "backpressure", "waiting")
# A launch call is waiting for room in the queue beyond this multiple of its family's median.
QUEUE_FULL_FACTOR = 10
_NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True, eq=False)
class HostClock:
    """Disjoint intervals of every host class but the rest, per thread.

    rest: the class of what no interval covers, `python` or `unattributed`. silence: the part of
    `waiting` that nothing but silence speaks for. compiling: when any thread compiles. overhead:
    when the profiler says it was at work, loading
    of functions included.
    """

    sets: Mapping[int, Mapping[str, Intervals]]
    rest: Mapping[int, str]
    silence: Mapping[int, Intervals]
    compiling: Intervals
    overhead: Intervals

    def split(self, lane: Ints, start: Ints, end: Ints) -> npt.NDArray[np.int64]:
        """Nanoseconds by class for each window on its thread; rows sum to the window.

        A window whose lane is -1 (nothing was launched) or whose thread recorded no runtime call
        is all `python`.
        """
        result = np.zeros((start.size, len(HOST_CLASSES)), np.int64)
        result[:, HOST_CLASSES.index("python")] = end - start
        for code in np.unique(lane):
            if int(code) not in self.sets:
                continue
            here = np.flatnonzero(lane == code)
            rest = end[here] - start[here]
            result[here, HOST_CLASSES.index("python")] = 0
            for name, covered in self.sets[int(code)].items():
                part = iv.overlap_with(covered, start[here], end[here])
                result[here, HOST_CLASSES.index(name)] = part
                rest = rest - part
            result[here, HOST_CLASSES.index(self.rest[int(code)])] = rest
        return result

    def silent(self, lane: Ints, start: Ints, end: Ints) -> Ints:
        """Nanoseconds of each window that count as waiting for nothing but their silence."""
        result = np.zeros(start.size, np.int64)
        for code, silence in self.silence.items():
            here = np.flatnonzero(lane == code)
            result[here] = iv.overlap_with(silence, start[here], end[here])
        return result


def host_clock(
    trace: Trace, links: Links, kinds: CallKinds, threads: Mapping[int, Activity]
) -> HostClock:
    """The host classes of every thread that made a runtime call.

    `launch` is the exclusive time of calls that own a GPU op, `runtime` that of all other calls,
    `backpressure` the part of a launch call beyond 10 times the median of its family while GPU
    work launched earlier on the same device is unfinished.
    """
    blocked_row, blocked_start, blocked_end = _blocked(trace, links, kinds)
    blocked_from = np.zeros(len(trace), np.int64)
    blocked_until = np.zeros(len(trace), np.int64)
    blocked_from[blocked_row] = blocked_start
    # A call that launches on two devices waits for the later of them.
    np.maximum.at(blocked_until, blocked_row, blocked_end)
    owns = np.zeros(len(trace), np.bool_)
    owns[links.launch[links.launched]] = True
    kind = np.full(len(trace), -1, np.int64)
    kind[kinds.row] = kinds.kind
    sets = {}
    for lane, activity in threads.items():
        calls = activity.calls
        launching = owns[calls.owner] & (kind[calls.owner] == RUNTIME)
        launch = Intervals(calls.start[launching], calls.end[launching])
        # A call's own time only: what runs nested inside a blocked call is its own business.
        owner = calls.owner[launching]
        backpressure = iv.union(
            np.maximum(launch.start, blocked_from[owner]),
            np.minimum(launch.end, blocked_until[owner]),
        )
        sets[lane] = {
            "dispatch": activity.dispatch,
            "launch": iv.subtract(launch, backpressure),
            "runtime": iv.subtract(activity.runtime, iv.union(launch.start, launch.end)),
            "alloc": activity.alloc,
            "compile": activity.compile,
            "profiler": activity.profiler,
            "sync": activity.sync,
            "backpressure": backpressure,
            "waiting": activity.host_wait,
        }
    rows = trace.rows_of(Cat.OVERHEAD)
    return HostClock(
        sets=sets,
        rest={lane: activity.rest for lane, activity in threads.items()},
        silence={lane: activity.silence for lane, activity in threads.items()},
        compiling=iv.joined(*(activity.compile for activity in threads.values())),
        overhead=iv.union(trace.start[rows], trace.start[rows] + trace.dur[rows]),
    )


def _blocked(trace: Trace, links: Links, kinds: CallKinds) -> tuple[Ints, Ints, Ints]:
    """Launch calls that waited for room in the queue, and when: row, start and end in ns."""
    none = np.empty(0, np.int64)
    known = links.launched
    if not known.any():
        return none, none, none
    rows, ends = [], []
    for device in codes_in(links.device[known]):
        own = links.device == device
        # Work is earlier when it was launched earlier; an orphan, when it started earlier.
        launched = np.where(known, trace.start[links.launch], links.start)[own]
        order = np.argsort(launched, kind="stable")
        reach = np.maximum.accumulate(links.end[own][order])
        calls = iv.distinct(links.launch[known & own])
        before = np.searchsorted(launched[order], trace.start[calls], side="left")
        rows.append(calls)
        ends.append(np.where(before > 0, reach[np.maximum(before - 1, 0)], _NEVER))
    row = np.concatenate(rows)
    earlier = np.concatenate(ends)
    start = trace.start[row] + QUEUE_FULL_FACTOR * _family_median(trace, links, row, kinds)
    end = np.minimum(trace.start[row] + trace.dur[row], earlier)
    keep = end > start
    return row[keep], start[keep], end[keep]


def _family_median(trace: Trace, links: Links, row: Ints, kinds: CallKinds) -> Ints:
    """For each launch call the median duration in ns of its family, calls that wait left out."""
    calls = links.calls
    family = _families(trace, calls)
    dur = trace.dur[calls]
    kind = np.full(len(trace), -1, np.int64)
    kind[kinds.row] = kinds.kind
    launching = kind[calls] == RUNTIME
    typical = np.zeros(calls.size, np.int64)
    for code in codes_in(family):
        members = family == code
        ordered = np.sort(dur[members & launching])
        # A family that only ever waits has no typical launch, and no backpressure either.
        typical[members] = nearest_rank(ordered, 50) if ordered.size else dur[members].max()
    return typical[np.searchsorted(calls, row)]


def _families(trace: Trace, calls: Ints) -> Ints:
    families: dict[str, int] = {}
    by_name = np.zeros(len(trace.names), np.int64)
    for code in codes_in(trace.name[calls]):
        name = runtime_calls.family(trace.names[int(code)])
        by_name[code] = families.setdefault(name, len(families))
    return by_name[trace.name[calls]]
