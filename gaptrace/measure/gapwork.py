"""What the launching thread did during the gaps for which the host was late.

The causes of a gap say what kind of thing it was; this says which: the runtime call, the CPU op,
the Python function, and the line of the program that they ran for. The same intervals are cut
that the causes were read from, so the pieces of a gap sum to its host causes, to the nanosecond.
Nothing is told of the time after the launch call began, nor of gaps that the GPU has to answer
for: what the host did then is not why the GPU was idle.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gaptrace import intervals as iv
from gaptrace.intervals import Intervals, Segments
from gaptrace.knowledge import runtime_calls
from gaptrace.measure.attribution import frame_lane, owner_at
from gaptrace.measure.gaps import CAUSES, GRAPH_NODE, Gaps
from gaptrace.measure.links import codes_in, names_where, rank_codes, rows_named
from gaptrace.measure.threads import STEP_MARK, Activity
from gaptrace.results.gaps import HostWork
from gaptrace.trace import Cat, Ints, Trace

# What a piece of host time was inside of, by the kind of its innermost event.
CALL, OP, FUNCTION, RANGE, COMPILER, PROFILER, NOTHING = (
    "runtime call",
    "op",
    "function",
    "annotation",
    "compiler",
    "profiler",
    "nothing recorded",
)
_KINDS = {
    Cat.RUNTIME: CALL,
    Cat.CPU_OP: OP,
    Cat.PYTHON: FUNCTION,
    Cat.ANNOTATION: RANGE,
    Cat.OVERHEAD: PROFILER,
}
# Frames of a line of source, and those of them that are nobody's program.
_SOURCE = re.compile(r"\.pyx?\(\d+\): ")
_LIBRARY = re.compile(
    r"(?:^|/)(?:torch|torchgen|importlib|site-packages|dist-packages|contextlib\.py|threading\.py)"
    r"(?:/|\(|$)"
)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True, eq=False)
class GapWork:
    """Pieces of host time inside gaps, each of one gap, one cause and one innermost event.

    gap: index into the gaps. cause: index into `CAUSES`. ns: length. row: the innermost event, -1
    where nothing was recorded. source: the innermost Python frame of the program's own code that
    was open (of a library where there is none), -1 without one. `frames`: Python frames of a
    launching thread were recorded.
    """

    gap: Ints
    cause: Ints
    ns: Ints
    row: Ints
    source: Ints
    frames: bool

    def of(self, gap: int) -> GapWork:
        """The pieces of one gap."""
        first, last = np.searchsorted(self.gap, (gap, gap + 1))
        return self.only(slice(int(first), int(last)))

    def only(self, kept: slice | npt.NDArray[np.bool_]) -> GapWork:
        """Some of the pieces."""
        return GapWork(
            self.gap[kept],
            self.cause[kept],
            self.ns[kept],
            self.row[kept],
            self.source[kept],
            self.frames,
        )


_NONE = np.empty(0, np.int64)
NO_WORK = GapWork(_NONE, _NONE, _NONE, _NONE, _NONE, frames=False)


def gap_work(trace: Trace, gaps: Gaps, threads: Mapping[int, Activity]) -> GapWork:
    """What the thread that launched the op behind each gap did until it launched it.

    From the gap's start to the start of its launch call, where that is later and the launch call
    is known; other gaps have no pieces. In order of the gaps, then of time.
    """
    launch = gaps.launch
    late = (launch >= 0) & (gaps.cause_ns[:, GRAPH_NODE] == 0)
    late[late] = trace.start[launch[late]] > gaps.start[late]
    index = np.flatnonzero(late)
    parts = []
    frames = trace.rows_of(Cat.PYTHON)
    seen = False
    for lane in codes_in(trace.lane[launch[index]]).tolist():
        here = index[trace.lane[launch[index]] == lane]
        until = np.minimum(trace.start[launch[here]], gaps.end[here])
        own = frames[trace.lane[frames] == frame_lane(trace, frames, lane)]
        seen |= own.size > 0
        for start, end, cause, row in _pieces(
            trace, threads[lane], own, Intervals(gaps.start[here], until)
        ):
            which = here[np.searchsorted(gaps.start[here], start, side="right") - 1]
            source = _source_at(trace, own, start)
            parts.append((which, start, np.full(start.size, cause), end - start, row, source))
    if not parts:
        return replace(NO_WORK, frames=seen)
    gap, began, why, ns, row_of, source_of = map(np.concatenate, zip(*parts, strict=True))
    order = np.lexsort((began, gap))
    return GapWork(gap[order], why[order], ns[order], row_of[order], source_of[order], seen)


def _pieces(
    trace: Trace, activity: Activity, frames: Ints, windows: Intervals
) -> Iterator[tuple[Ints, Ints, int, Ints]]:
    """Start, end, cause and innermost event of all time in the windows, cause by cause."""
    lane = activity.lane
    ranks, overheads = rank_codes(trace), trace.rows_of(Cat.OVERHEAD)
    overheads = overheads[ranks[trace.lane[overheads]] == ranks[lane]]
    loads = names_where(trace, trace.name[overheads], runtime_calls.is_compile)
    compiling = rows_named(trace, runtime_calls.is_compile, Cat.CPU_OP, Cat.ANNOTATION)
    compiling = compiling[trace.lane[compiling] == lane]
    notes = trace.rows_of(Cat.ANNOTATION)
    notes = notes[trace.lane[notes] == lane]
    notes = notes[~names_where(trace, trace.name[notes], STEP_MARK.match)]
    frame, note = _innermost(trace, frames), _innermost(trace, notes)
    owners: dict[str, tuple[Segments, ...]] = {
        "dispatch": (activity.ops,),
        "compile": (activity.calls, _innermost(trace, compiling), frame),
        "profiler": (_innermost(trace, overheads[~loads]),),
        "host_wait": (frame, note),
    }
    rest = windows
    for name, covered in activity.sets().items():
        mine = iv.intersect(covered, windows)
        rest = iv.subtract(rest, covered)
        yield from _owned(mine, CAUSES.index(name), *owners.get(name, (activity.calls,)))
    yield from _owned(rest, CAUSES.index(activity.rest), frame, note)


def _innermost(trace: Trace, rows: Ints) -> Segments:
    found = iv.innermost(trace.start[rows], trace.start[rows] + trace.dur[rows])
    return found._replace(owner=rows[found.owner])


def _owned(
    covered: Intervals, cause: int, *owners: Segments
) -> Iterator[tuple[Ints, Ints, int, Ints]]:
    """The covered time, cut where its owner changes: the first of the owners that has any."""
    for segments in owners:
        inside = iv.intersect(covered, Intervals(segments.start, segments.end))
        if inside.start.size:
            yield inside.start, inside.end, cause, owner_at(segments, inside.start)
        covered = iv.subtract(covered, Intervals(segments.start, segments.end))
    if covered.start.size:
        yield covered.start, covered.end, cause, np.full(covered.start.size, -1, np.int64)


def _source_at(trace: Trace, frames: Ints, at: Ints) -> Ints:
    """The innermost frame of the program's own code at each instant; a library's without one."""
    if frames.size == 0:
        return np.full(at.size, -1, np.int64)
    sourced = frames[names_where(trace, trace.name[frames], _SOURCE.search)]
    library = names_where(trace, trace.name[sourced], _LIBRARY.search)
    found = owner_at(_innermost(trace, sourced[~library]), at)
    return np.where(found >= 0, found, owner_at(_innermost(trace, sourced), at))


def host_work(trace: Trace, work: GapWork, whole_ns: int, per: float = 1.0) -> tuple[HostWork, ...]:
    """What the pieces were, the largest first: time of equal name, kind, cause and place added up.

    `whole_ns`: what shares are of. `per`: what times are divided by (tokens of the steps).
    """
    sums: dict[tuple[int, str, str, str], int] = {}
    keys = np.stack((work.cause, work.row, work.source), axis=1)
    different, place = np.unique(keys, axis=0, return_inverse=True)
    totals = np.bincount(place.reshape(-1), weights=work.ns, minlength=len(different))
    for (cause, row, source), ns in zip(different.tolist(), totals.tolist(), strict=True):
        kind, name, where = _named(trace, row, source)
        if CAUSES[cause] == "compile":
            kind = COMPILER
        key = (cause, kind, name, where)
        sums[key] = sums.get(key, 0) + int(ns)
    ordered = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    return tuple(
        HostWork(
            cause=CAUSES[cause], kind=kind, name=name, where=where, ns=ns / per if per != 1 else ns,
            share=ns / whole_ns if whole_ns else None,
        )
        for (cause, kind, name, where), ns in ordered
    )  # fmt: skip


def _named(trace: Trace, row: int, source: int) -> tuple[str, str, str]:
    where = trace.name_of(source) if source >= 0 else ""
    if row < 0:
        return NOTHING, "", where
    kind, name = _KINDS.get(Cat(trace.cat[row]), NOTHING), _ADDRESS.sub("", trace.name_of(row))
    return kind, name, "" if row == source else where


class LaunchPaths:
    """How ops were launched: the program's line, the ops around the call, the call itself."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._lanes: dict[int, tuple[Ints, Ints, Ints, Ints]] = {}

    def of(self, launch: int) -> tuple[str, ...]:
        """The path to one launch call, outermost first; empty for -1."""
        if launch < 0:
            return ()
        trace = self._trace
        at, lane = int(trace.start[launch]), int(trace.lane[launch])
        if lane not in self._lanes:
            self._lanes[lane] = self._events(lane)
        frames, ops, start, reach = self._lanes[lane]
        source = int(_source_at(trace, frames, np.array([at]))[0]) if frames.size else -1
        first = int(np.searchsorted(reach, at, side="right"))
        around = ops[first : int(np.searchsorted(start, at, side="right"))]
        around = around[at < trace.start[around] + trace.dur[around]]
        rows = [*((source,) if source >= 0 else ()), *around.tolist(), launch]
        return tuple(_ADDRESS.sub("", trace.name_of(int(row))) for row in rows)

    def _events(self, lane: int) -> tuple[Ints, Ints, Ints, Ints]:
        """The Python frames of a thread; its ops in time order, and how far any reached so far."""
        trace = self._trace
        frames, ops = trace.rows_of(Cat.PYTHON), trace.rows_of(Cat.CPU_OP)
        if frames.size:
            frames = frames[trace.lane[frames] == frame_lane(trace, frames, lane)]
        ops = ops[trace.lane[ops] == lane]
        ops = ops[np.lexsort((ops, -trace.dur[ops], trace.start[ops]))]
        start = trace.start[ops]
        return frames, ops, start, np.maximum.accumulate(start + trace.dur[ops])
