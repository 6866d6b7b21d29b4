"""Do the clocks of host and device agree? Causality, checked both ways.

An op cannot start before its launch call does, and a blocking call cannot end before the op that
it waits for. Where either is seen, the GPU's clock is early or late, and causes of idle time,
which rest on the order of host and GPU events, would be wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gaptrace.knowledge import runtime_calls
from gaptrace.measure.links import Links, codes_in, names_where, rank_codes, rows_named
from gaptrace.trace import Cat, Ints, Trace

# So many calls that look wrong are read again, for the stream among their arguments.
READ_AGAIN = 200
# Kineto draws synchronization records on the stream's own number, or this much above it.
SYNC_LANES = 1_000_000
_FAR = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Clock:
    """What the order of host and device events says about one device's clock.

    launched: ops with a launch call. early, largest_early_ns: those that start before it, and by
    how much. blocking: blocking calls that wait for a known op. late, largest_late_ns: those that
    end before it does, and by how much. offset_ns: the least and the most that the device's clock
    can be late (negative: early) if it is so by the same amount all the time; None for no bound.
    """

    launched: int = 0
    early: int = 0
    largest_early_ns: int = 0
    blocking: int = 0
    late: int = 0
    largest_late_ns: int = 0
    offset_ns: tuple[int | None, int | None] = (None, None)

    @property
    def skew_ns(self) -> int:
        """The estimated skew in ns: positive where the GPU's clock is late, negative where early.

        Of the offsets that explain every event the one nearest to 0; where none explains them
        all, the larger of the two violations.
        """
        low, high = self.offset_ns
        if low is not None and high is not None and low > high:
            late = self.largest_late_ns >= self.largest_early_ns
            return self.largest_late_ns if late else -self.largest_early_ns
        if low is not None and low > 0:
            return low
        return high if high is not None and high < 0 else 0

    @property
    def constant(self) -> bool:
        """Whether a constant offset of the device's clock explains every event."""
        low, high = self.offset_ns
        return low is None or high is None or low <= high


def clocks(trace: Trace, links: Links) -> dict[int, Clock]:
    """The clock of every device, by device code."""
    waited = _blocking(trace, links)
    return {int(code): _clock(trace, links, int(code), waited) for code in codes_in(links.device)}


def together(parts: list[Clock]) -> Clock:
    """The clocks of several devices as one: counts add up, the worst skew counts."""
    lows = [part.offset_ns[0] for part in parts if part.offset_ns[0] is not None]
    highs = [part.offset_ns[1] for part in parts if part.offset_ns[1] is not None]
    return Clock(
        launched=sum(part.launched for part in parts),
        early=sum(part.early for part in parts),
        largest_early_ns=max(part.largest_early_ns for part in parts),
        blocking=sum(part.blocking for part in parts),
        late=sum(part.late for part in parts),
        largest_late_ns=max(part.largest_late_ns for part in parts),
        offset_ns=(max(lows, default=None), min(highs, default=None)),
    )


def _clock(trace: Trace, links: Links, code: int, waited: Mapping[int, Ints]) -> Clock:
    own = links.device == code
    known = own & links.launched
    lead = links.start[known] - trace.start[links.launch[known]]
    # Of times in whole microseconds the end, start and duration both cut, says little to the last.
    whole = not (trace.start % 1_000).any() and not (trace.dur % 1_000).any()
    late = waited.get(code, np.empty(0, np.int64)) - (1_000 if whole else 0)
    return Clock(
        launched=int(known.sum()),
        early=int((lead < 0).sum()),
        largest_early_ns=int(max(-lead.min(initial=0), 0)),
        blocking=int(late.size),
        late=int((late > 0).sum()),
        largest_late_ns=int(max(late.max(initial=0), 0)),
        offset_ns=(
            int(late.max()) if late.size else None,
            int(lead.min()) if lead.size else None,
        ),
    )


# Blocking calls ------------------------------------------------------------------------------


def _blocking(trace: Trace, links: Links) -> dict[int, Ints]:
    """For each device how long after each blocking call the op that it waits for ends.

    A blocking copy waits for its own op, a device synchronize for what its thread submitted before
    it, a stream synchronize for what is on its stream. Where the stream is not known, the call has
    waited for any one of the streams that were unfinished when it began, so the earliest counts;
    and where a clock that is late by that much all the time would start ops before their launch
    calls, it was on a stream that had nothing to do.
    """
    found: dict[int, list[Ints]] = {}
    known = np.flatnonzero(links.launched)
    calls = links.launch[known]
    copies = names_where(trace, trace.name[calls], runtime_calls.is_blocking_copy)
    staged = names_where(trace, trace.name[links.row[known]], runtime_calls.is_staged_copy)
    for code in codes_in(links.device[known]):
        own = known[copies & ~staged & (links.device[known] == code)]
        ends = trace.start[links.launch[own]] + trace.dur[links.launch[own]]
        found.setdefault(int(code), []).append(links.end[own] - ends)
    syncs = rows_named(trace, runtime_calls.is_wide_sync, Cat.RUNTIME)
    streams = _Streams(trace, links)
    for lane in codes_in(trace.lane[syncs]) if syncs.size else ():
        mine = syncs[trace.lane[syncs] == lane]
        # A thread is in one call at a time: a second one at the same instant is the same.
        mine = mine[np.unique(trace.start[mine], return_index=True)[1]]
        for code, late in streams.waited(int(lane), mine).items():
            found.setdefault(code, []).append(late)
    return {code: np.concatenate(parts) for code, parts in found.items()}


class _Streams:
    """What was submitted to which stream, and which stream a call waits for."""

    def __init__(self, trace: Trace, links: Links) -> None:
        self.trace = trace
        self.links = links
        known = np.flatnonzero(links.launched)
        self.op = known
        self.called = trace.start[links.launch[known]]
        self.lane = trace.lane[links.launch[known]]
        self.stream = trace.gpu.stream[np.searchsorted(trace.gpu.rows, links.row[known])]
        self.named = _recorded_streams(trace)
        self.ranks = rank_codes(trace)

    def waited(self, lane: int, calls: Ints) -> dict[int, Ints]:
        """For each device how long after each of the lane's calls the op it waits for ends."""
        trace, links = self.trace, self.links
        own = np.flatnonzero(self.lane == lane)
        if own.size == 0:
            return {}
        begin, end = trace.start[calls], trace.start[calls] + trace.dur[calls]
        device, stream = links.device[self.op[own]], self.stream[own]
        keys, which = np.unique(np.stack((device, stream)), axis=1, return_inverse=True)
        reach = np.full((keys.shape[1], calls.size), -1, np.int64)
        last = np.full((keys.shape[1], calls.size), -1, np.int64)
        for key in range(keys.shape[1]):
            mine = own[which.reshape(-1) == key]
            order = np.argsort(self.called[mine], kind="stable")
            called = self.called[mine][order]
            ends = np.maximum.accumulate(links.end[self.op[mine]][order])
            at = np.searchsorted(called, begin, side="left") - 1
            reach[key] = np.where(at >= 0, ends[np.maximum(at, 0)], -1)
            last[key] = np.where(at >= 0, called[np.maximum(at, 0)], -1)
        # The thread's device is that of its latest launch.
        current = keys[0][np.argmax(last, axis=0)]
        reach = np.where(keys[0][:, None] == current, reach, -1)
        by_stream = names_where(trace, trace.name[calls], runtime_calls.is_stream_sync)
        target = np.where(by_stream, self._unnamed(reach, begin), reach.max(axis=0))
        unknown = by_stream.copy()
        for index in np.flatnonzero(by_stream).tolist():
            name = self.named.get((int(self.ranks[lane]), int(trace.corr[calls[index]])))
            if name is not None:
                unknown[index] = False
                target[index] = reach[keys[1] == name, index].max(initial=-1)
        wrong = unknown & (target > end) & ((reach >= 0).sum(axis=0) > 1)
        for index in np.flatnonzero(wrong)[:READ_AGAIN].tolist():
            given = (trace.event(int(calls[index])).get("args") or {}).get("stream")
            if isinstance(given, int):
                unknown[index] = False
                target[index] = reach[keys[1] == given, index].max(initial=-1)
        late = target - end
        # The least time from launch call to start: no constant offset of the clock exceeds it.
        lead = np.full(len(trace.devices), _FAR)
        np.minimum.at(lead, links.device[self.op], links.start[self.op] - self.called)
        elsewhere = by_stream & unknown & (late > np.maximum(lead[current], 0))
        if keys.shape[1] > 1:
            target = np.where(elsewhere, -1, target)
        return {int(code): late[(current == code) & (target >= 0)] for code in codes_in(current)}

    def _unnamed(self, reach: Ints, begin: Ints) -> Ints:
        """What a call on an unknown stream waits for at least: the earliest unfinished stream."""
        unfinished = np.where(reach > begin, reach, _FAR).min(axis=0)
        return np.asarray(np.where(unfinished < _FAR, unfinished, reach.max(axis=0)))


def _recorded_streams(trace: Trace) -> dict[tuple[int, int], int]:
    """The stream that each stream synchronize waited for, by rank and correlation of its call."""
    rows = rows_named(trace, re.compile("Stream Sync").search, Cat.SYNC)
    ranks = rank_codes(trace)
    found = {}
    for row in rows[trace.corr[rows] != 0].tolist():
        tid = trace.lanes[trace.lane[row]].tid
        if tid.isdecimal():
            number = int(tid)
            stream = number - SYNC_LANES if number >= SYNC_LANES else number
            found[int(ranks[trace.lane[row]]), int(trace.corr[row])] = stream
    return found
