"""Two recordings of the same steps as one: the times of a light one, the ops of a full one.

What the profiler records costs the host time, so a recording with every op shows a slower host
than one of launch calls alone, and one of launch calls alone shows no op. Both make the same
launches in the same order. Each call that launched or waited in a step of the light recording is
paired with that of a step of the full one which made the same calls, and the ops and Python frames
of the full step are laid between them: what stood between two calls stands between the same two,
stretched evenly. Order and nesting stay; lengths within a stretch are the full recording's shares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gaptrace.errors import OptionError
from gaptrace.measure.analyze import located
from gaptrace.measure.options import Options
from gaptrace.measure.threads import SYNC
from gaptrace.trace import (
    Cat,
    Codes,
    GpuColumns,
    Ints,
    Joined,
    Lane,
    OpColumns,
    PyColumns,
    Trace,
)

# Two steps are the same if all calls are and at least this share of what they launched: the
# kernel chosen may change with a length that grows.
SAME_WORK = 0.9
# Steps that found no like may be at most this share; of a step without ops no cause can be told.
MOST_UNLIKE = 0.5
HINT = "record the same script once with --trace both, or once light and once in full"


def joined(full: Trace, light: Trace, options: Options) -> Trace:
    """The light recording with the ops, shapes and Python frames of the full one.

    Counts, GPU times, launch calls and step marks are those of `light`, the path that of `full`.
    Steps of it that no step of `full` is like have no ops, and are left out of medians.

    Raises:
        OptionError: the two do not hold the same steps.
    """
    ours, theirs = _Side(light, options), _Side(full, options)
    names = _Names(light.names)
    codes = names.of(full)
    pieces, unlike = [], []
    for step in ours.steps:
        partner = _partner(step, theirs.steps, names, codes)
        if partner is None:
            unlike.append(step.start)
        else:
            pieces.append(_laid(full, step, partner))
    if not pieces or len(unlike) > MOST_UNLIKE * len(ours.steps):
        raise OptionError(_unlike(full, light, ours.steps, theirs.steps), HINT)
    rows, start, dur = (np.concatenate(column) for column in zip(*pieces, strict=True))
    lanes, lane_of = _lanes(full, light, theirs.lane, ours.lane)
    made = _put_together(full, light, rows, start, dur, codes, lane_of)
    return replace(
        made,
        names=names.table,
        lanes=lanes,
        shapes=full.shapes,
        source=replace(light.source, path=full.source.path),
        joined=Joined(light.source.path, len(ours.steps), tuple(unlike)),
        run=light.run or full.run,
    )


@dataclass(frozen=True, eq=False)
class _Step:
    """The calls of one step that launched or waited, in order, and the host time it spans in ns.

    name, work: codes of the call's name and of the first GPU op that it launched, -1 for none.
    """

    number: int
    start: int
    end: int
    row: Ints
    name: Codes
    work: Ints
    begins: Ints
    ends: Ints


class _Side:
    """The steps of one recording and the thread that launches them."""

    def __init__(self, trace: Trace, options: Options) -> None:
        found = located(trace, options)
        steps, device, kinds = found.steps, found.device, found.kinds
        if steps is None or device is None or not steps.has_ops.any():
            raise OptionError(f"{trace.source.path} holds no steps with GPU work", HINT)
        lanes, counts = np.unique(steps.lane[steps.has_ops], return_counts=True)
        self.lane = int(lanes[counts.argmax()])
        waits = kinds.row[kinds.kind == SYNC]
        launches, first = np.unique(device.links.launch, return_index=True)
        work = np.full(len(trace), -1, np.int64)
        work[launches[launches >= 0]] = trace.name[device.links.row[first[launches >= 0]]]
        rows = np.union1d(launches[launches >= 0], waits)
        rows = rows[trace.lane[rows] == self.lane]
        rows = rows[np.argsort(trace.start[rows], kind="stable")]
        starts = steps.host_start
        last = int(trace.end[trace.lane == self.lane].max())
        until = np.append(starts[1:], max(last, int(starts[-1])))
        self.steps = [
            _step(trace, number, int(starts[number]), int(until[number]), rows, work)
            for number in np.flatnonzero(steps.has_ops).tolist()
        ]


def _step(trace: Trace, number: int, start: int, end: int, rows: Ints, work: Ints) -> _Step:
    at = trace.start[rows]
    own = rows[np.searchsorted(at, start) : np.searchsorted(at, end)]
    return _Step(
        number, start, end, own, trace.name[own], work[own], trace.start[own], trace.end[own]
    )


class _Names:
    """The names of two traces in one table, which begins with those of the first."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._codes = {name: code for code, name in reversed(list(enumerate(names)))}
        self._names = list(names)

    def of(self, trace: Trace) -> Codes:
        """The code of each name of another trace in the common table."""
        found = []
        for name in trace.names:
            if name not in self._codes:
                self._codes[name] = len(self._names)
                self._names.append(name)
            found.append(self._codes[name])
        return np.array(found, np.int32)

    @property
    def table(self) -> tuple[str, ...]:
        return tuple(self._names)

    def first(self, codes: npt.NDArray[np.integer]) -> Ints:
        """Codes as the table finds them by name: a file may hold a name twice."""
        known = [self._codes[self._names[int(code)]] if code >= 0 else -1 for code in codes]
        return np.array(known, np.int64)


def _partner(step: _Step, others: Sequence[_Step], names: _Names, codes: Codes) -> _Step | None:
    """The step that made the same calls: that of the same number, else the nearest."""
    own_name, own_work = names.first(step.name), names.first(step.work)
    for other in sorted(others, key=lambda other: (abs(other.number - step.number), other.number)):
        if other.row.size != step.row.size or not step.row.size:
            continue
        if (codes[other.name] != own_name).any():
            continue
        work = np.where(other.work >= 0, codes[np.maximum(other.work, 0)], -1)
        if (work == own_work).mean() >= SAME_WORK:
            return other
    return None


def _unlike(full: Trace, light: Trace, ours: Sequence[_Step], theirs: Sequence[_Step]) -> str:
    """Why two recordings cannot be joined."""
    counts = [sorted({step.row.size for step in side}) for side in (ours, theirs)]
    shown = [f"{low[0]} to {low[-1]}" if len(low) > 1 else str(low[0]) for low in counts]
    what = "other calls, or another order of them"
    if counts[0] != counts[1]:
        what = f"{shown[0]} launches and waits a step there, {shown[1]} here"
    return f"{light.source.path} does not hold the steps of {full.source.path}: {what}"


def _laid(full: Trace, step: _Step, other: _Step) -> tuple[Ints, Ints, Ints]:
    """Rows of the full step's ops and frames, and their starts and lengths in the light one."""
    rows = full.rows_of(Cat.CPU_OP, Cat.PYTHON)
    begin, end = full.start[rows], full.end[rows]
    inside = (begin < other.end) & (end > other.start)
    rows, begin, end = rows[inside], begin[inside], end[inside]
    there = np.concatenate(([other.start], other.begins, other.ends, [other.end]))
    here = np.concatenate(([step.start], step.begins, step.ends, [step.end]))
    order = np.lexsort((here, there))
    there, here = there[order], np.maximum.accumulate(here[order])
    # A frame around several steps is cut at their bounds, for each step has its own measure.
    first = np.rint(np.interp(np.maximum(begin, other.start), there, here)).astype(np.int64)
    last = np.rint(np.interp(np.minimum(end, other.end), there, here)).astype(np.int64)
    return rows, first, last - first


def _lanes(
    full: Trace, light: Trace, their_lane: int, our_lane: int
) -> tuple[tuple[Lane, ...], Codes]:
    """All threads, and for each of the full recording its code among them."""
    lanes = list(light.lanes)
    found = []
    for code, lane in enumerate(full.lanes):
        if code == their_lane:
            found.append(our_lane)
        elif lane in lanes:
            found.append(lanes.index(lane))
        else:
            found.append(len(lanes))
            lanes.append(lane)
    return tuple(lanes), np.array(found, np.int32)


def _put_together(
    full: Trace, light: Trace, rows: Ints, start: Ints, dur: Ints, codes: Codes, lane_of: Codes
) -> Trace:
    """The light recording, its own ops and frames left out, and the given rows of the full one."""
    kept = np.flatnonzero((light.cat != Cat.CPU_OP) & (light.cat != Cat.PYTHON))
    place = np.full(len(light), -1, np.int64)
    place[kept] = np.arange(kept.size)

    def both(one: npt.NDArray[np.generic], other: npt.NDArray[np.generic]) -> npt.NDArray[Any]:
        return np.concatenate((one[kept], other)).astype(one.dtype)

    origin = np.concatenate((kept, rows))

    def read_event(row: int) -> Mapping[str, Any]:
        return (light if row < kept.size else full).event(int(origin[row]))

    gpu = light.gpu
    return replace(
        light,
        start=both(light.start, start),
        dur=both(light.dur, dur),
        name=both(light.name, codes[full.name[rows]]),
        cat=both(light.cat, full.cat[rows]),
        lane=both(light.lane, lane_of[full.lane[rows]]),
        corr=both(light.corr, np.zeros(rows.size)),
        ext=both(light.ext, full.ext[rows]),
        gpu=GpuColumns(
            place[gpu.rows], gpu.device, gpu.stream, gpu.graph_id, gpu.graph_node, gpu.bytes
        ),
        py=PyColumns(*_group(full.py.rows, rows, kept.size, full.py.id, full.py.parent)),
        op=OpColumns(
            *_group(full.op.rows, rows, kept.size, full.op.record_function_id, full.op.shape)
        ),
        read_event=read_event if light.read_event or full.read_event else None,
    )


def _group(
    members: Ints, rows: Ints, before: int, *columns: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], ...]:
    """The rows of a sparse group after joining, and its columns."""
    at = np.searchsorted(members, rows)
    known = np.flatnonzero(at < members.size)
    known = known[members[at[known]] == rows[known]]
    return (known + before, *(column[at[known]] for column in columns))
