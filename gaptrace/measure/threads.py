"""What a host thread was doing at each instant, as disjoint intervals per activity.

One instant has one activity. From the outermost claim to the innermost, later ones win:
`python` (nothing recorded: Python frames or untraced code; `unattributed` on a thread of which no
CPU op was recorded), `host_wait` (the thread waits, see measure/waiting.py), `dispatch` (inside a
CPU op),
`compile` (inside Dynamo, Inductor or Triton compile work, the ops that it runs included), a
runtime or driver call (the innermost of nested ones; `sync`, `alloc`, `compile` or `runtime` by
its family; lazy loading, which is recorded without a thread, counts as a `compile` call of every
thread), and the `profiler` itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gaptrace import intervals as iv
from gaptrace.intervals import Intervals
from gaptrace.knowledge import runtime_calls
from gaptrace.measure.links import Links, names_where, rank_codes, rows_named
from gaptrace.measure.waiting import waits
from gaptrace.trace import Cat, Ints, Trace

STEP_MARK = re.compile(r"(?:gaptrace\.step|ProfilerStep)[#*]")


@dataclass(frozen=True, eq=False)
class CallKinds:
    """Runtime and driver calls of a trace, by what they make the thread do.

    row: call rows in file order. kind: index into `KINDS`. last_op_end: the latest end among the
    GPU ops the call launched, -1 for a call that launched none.
    """

    row: Ints
    kind: Ints
    last_op_end: Ints


KINDS = ("runtime", "sync", "alloc", "compile")
RUNTIME, SYNC, ALLOC, COMPILE = range(4)


def call_kinds(trace: Trace, links: Links) -> CallKinds:
    """The kind of every runtime call.

    A call is a `sync` when its name says so, and also when it is an asynchronous copy that lasts
    until its own device op has ended: then the copy was from pageable memory, and it waited.
    """
    rows = trace.rows_of(Cat.RUNTIME)
    name = trace.name[rows]
    by_name = np.full(len(trace.names), RUNTIME, np.int64)
    for code in trace.names_of(Cat.RUNTIME):
        by_name[code] = _kind(trace.names[int(code)])
    kind = by_name[name]
    last = np.full(len(trace), -1, np.int64)
    known = links.launched
    np.maximum.at(last, links.launch[known], links.end[known])
    last_op_end = last[rows]
    copies = names_where(trace, name, runtime_calls.is_async_copy)
    waited = copies & (last_op_end >= 0) & (last_op_end <= trace.start[rows] + trace.dur[rows])
    kind[waited] = SYNC
    return CallKinds(rows, kind, last_op_end)


def _kind(name: str) -> int:
    if runtime_calls.is_sync(name):
        return SYNC
    if runtime_calls.is_alloc(name):
        return ALLOC
    return COMPILE if runtime_calls.is_compile(name) else RUNTIME


@dataclass(frozen=True, eq=False)
class Activity:
    """Disjoint, sorted intervals of one host thread, each instant in at most one of them.

    `calls` are the innermost runtime calls as segments that name the owning row (the profiler's
    own time already taken out); the sets below cover the same time and the rest of what was
    recorded. Whatever no set covers is `rest`: `python`, or `unattributed` where no CPU op of the
    thread was recorded. `ops` are the innermost CPU ops as segments that name the owning row,
    whatever else goes on inside them. silence: the part of `host_wait` that nothing but silence
    speaks for.
    """

    lane: int
    calls: iv.Segments
    ops: iv.Segments
    profiler: Intervals
    sync: Intervals
    alloc: Intervals
    compile: Intervals
    runtime: Intervals
    dispatch: Intervals
    host_wait: Intervals
    silence: Intervals
    rest: str

    def sets(self) -> dict[str, Intervals]:
        """The recorded activities by name."""
        return {
            "sync": self.sync,
            "alloc": self.alloc,
            "compile": self.compile,
            "runtime": self.runtime,
            "dispatch": self.dispatch,
            "host_wait": self.host_wait,
            "profiler": self.profiler,
        }


def activities(
    trace: Trace, links: Links, kinds: CallKinds, lanes: Iterable[int] | None = None
) -> dict[int, Activity]:
    """The activity of each of the given lanes; by default of every lane with a runtime call."""
    calling = np.unique(trace.lane[kinds.row]).tolist()
    lanes = calling if lanes is None else lanes
    syncs = kinds.row[kinds.kind == SYNC]
    waiting = waits(
        trace, links, {lane: _union(trace, syncs[trace.lane[syncs] == lane]) for lane in calling}
    )
    ranks = rank_codes(trace)
    overheads = trace.rows_of(Cat.OVERHEAD)
    lazy = names_where(trace, trace.name[overheads], runtime_calls.is_compile)
    overhead_rank = ranks[trace.lane[overheads]]
    compiling = np.concatenate(
        (
            rows_named(trace, runtime_calls.is_compile, Cat.CPU_OP),
            rows_named(trace, runtime_calls.is_compile, Cat.ANNOTATION),
            rows_named(trace, runtime_calls.is_compile_frame, Cat.PYTHON),
        )
    )
    ops = dispatching_ops(trace)
    result = {}
    for lane in lanes:
        own = overhead_rank == ranks[lane]
        profiler = _union(trace, overheads[own & ~lazy])
        here = trace.lane[kinds.row] == lane
        # Loading has no thread of its own in the file: it is work inside whichever call runs.
        loads = overheads[own & lazy]
        rows = np.concatenate((kinds.row[here], loads))
        kind = np.concatenate((kinds.kind[here], np.full(loads.size, COMPILE)))
        order = np.argsort(rows)
        rows, kind = rows[order], kind[order]
        segments = iv.innermost(trace.start[rows], trace.start[rows] + trace.dur[rows])
        calls = _cut(segments, profiler)
        by_kind = [Intervals(*_select(calls, kind[calls.owner] == k)) for k in range(len(KINDS))]
        claimed = iv.joined(profiler, iv.union(segments.start, segments.end))
        work = iv.subtract(_union(trace, compiling[trace.lane[compiling] == lane]), claimed)
        claimed = iv.joined(claimed, work)
        own_ops = ops[trace.lane[ops] == lane]
        start, end = trace.start[own_ops], trace.start[own_ops] + trace.dur[own_ops]
        inside = iv.union(start, end)
        dispatch = iv.subtract(inside, claimed)
        inner = iv.innermost(start, end)
        claimed = iv.joined(claimed, inside)
        busy = compiling[trace.lane[compiling] == lane]
        active = np.concatenate((rows, own_ops, overheads[own & ~lazy], busy))
        silent, framed = waiting.of(lane, active)
        framed = iv.subtract(framed, claimed)
        silence = iv.subtract(iv.subtract(silent, claimed), framed)
        result[int(lane)] = Activity(
            lane=int(lane),
            calls=iv.Segments(calls.start, calls.end, rows[calls.owner]),
            ops=inner._replace(owner=own_ops[inner.owner]),
            profiler=profiler,
            sync=by_kind[SYNC],
            alloc=by_kind[ALLOC],
            compile=iv.joined(by_kind[COMPILE], work),
            runtime=by_kind[RUNTIME],
            dispatch=dispatch,
            host_wait=iv.joined(framed, silence),
            silence=silence,
            rest="python" if own_ops.size else "unattributed",
        )
    return result


def dispatching_ops(trace: Trace) -> Ints:
    """Rows of CPU ops. Before 2022 step marks were recorded as ops: they dispatch nothing."""
    return rows_named(trace, lambda name: not STEP_MARK.match(name), Cat.CPU_OP)


def _union(trace: Trace, rows: Ints) -> Intervals:
    return iv.union(trace.start[rows], trace.start[rows] + trace.dur[rows])


def _select(segments: iv.Segments, keep: np.ndarray) -> tuple[Ints, Ints]:
    return segments.start[keep], segments.end[keep]


def _cut(segments: iv.Segments, hole: Intervals) -> iv.Segments:
    """The segments without the time that `hole` covers; owners stay with their pieces."""
    if hole.start.size == 0 or segments.start.size == 0:
        return segments
    pieces = iv.subtract(Intervals(segments.start, segments.end), hole)
    owner = segments.owner[np.searchsorted(segments.start, pieces.start, side="right") - 1]
    return iv.Segments(pieces.start, pieces.end, owner)
