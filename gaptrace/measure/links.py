"""Which call launched which GPU op: the link everything else stands on.

A launch call owns the ops that share its non-zero correlation within one rank of one file. Where
two calls carry the same correlation the first in the file owns the ops. `External id` is never
used as a link: traces get it wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gaptrace import intervals as iv
from gaptrace.knowledge import runtime_calls
from gaptrace.trace import Cat, Codes, Ints, Trace

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Links:
    """GPU ops of a trace and the calls that launched them.

    Every array has one entry per GPU op, in file order. row: event row. start, end: ns. cat: kind
    of op. device: code into `Trace.devices`. rank: rank code. launch: row of the launch call, -1
    for an orphan. replayed: the launch call is a graph launch.
    """

    row: Ints
    start: Ints
    end: Ints
    cat: npt.NDArray[np.int8]
    device: Codes
    rank: Codes
    launch: Ints
    replayed: Bools

    def of_device(self, device: int) -> Links:
        """The same links, of one device only."""
        keep = self.device == device
        return Links(*(column[keep] for column in self.columns()))

    def columns(self) -> tuple[npt.NDArray[np.generic], ...]:
        """The arrays in declaration order."""
        return (
            self.row,
            self.start,
            self.end,
            self.cat,
            self.device,
            self.rank,
            self.launch,
            self.replayed,
        )

    @cached_property
    def launched(self) -> Bools:
        """Ops that have a launch call."""
        return self.launch >= 0

    @cached_property
    def calls(self) -> Ints:
        """Rows of the calls that launched an op, ascending."""
        return iv.distinct(self.launch[self.launched])


def codes_in(codes: Ints | Codes) -> Ints:
    """The different codes among the given ones, ascending: `distinct` for small whole numbers."""
    return np.flatnonzero(np.bincount(codes))


def names_where(trace: Trace, codes: Ints | Codes, predicate: Callable[[str], object]) -> Bools:
    """For each name code whether `predicate` holds for the name; each distinct name asked once."""
    present = np.zeros(len(trace.names), np.bool_)
    present[codes] = True
    answers = np.zeros(len(trace.names), np.bool_)
    for code in np.flatnonzero(present):
        answers[code] = bool(predicate(trace.names[int(code)]))
    return answers[codes]


def rows_named(trace: Trace, predicate: Callable[[str], object], *cats: Cat) -> Ints:
    """Rows of the given kinds whose name `predicate` holds for, in file order.

    Each distinct name is asked once, and no event is looked at where the names decide.
    """
    present = trace.names_of(*cats)
    answers = np.zeros(len(trace.names), np.bool_)
    for code in present:
        answers[code] = bool(predicate(trace.names[int(code)]))
    if not answers.any():
        return np.empty(0, np.int64)
    rows = trace.rows_of(*cats)
    return rows if answers[present].all() else rows[answers[trace.name[rows]]]


def rank_codes(trace: Trace) -> Codes:
    """Rank code of each lane: lanes of one rank label share a code."""
    labels: dict[str, int] = {}
    return np.fromiter(
        (labels.setdefault(lane.rank, len(labels)) for lane in trace.lanes),
        np.int32,
        len(trace.lanes),
    )


def link(trace: Trace) -> Links:
    """Every GPU op with its launch call."""
    rows = trace.gpu.rows
    ranks = rank_codes(trace)
    op_rank = ranks[trace.lane[rows]] if rows.size else np.zeros(0, np.int32)
    launch = _launch_calls(trace, rows, op_rank, ranks)
    replayed = np.zeros(rows.size, np.bool_)
    known = launch >= 0
    replayed[known] = names_where(trace, trace.name[launch[known]], runtime_calls.is_graph_launch)
    return Links(
        row=rows,
        start=trace.start[rows],
        end=trace.start[rows] + trace.dur[rows],
        cat=trace.cat[rows],
        device=trace.gpu.device,
        rank=op_rank,
        launch=launch,
        replayed=replayed,
    )


def _launch_calls(trace: Trace, ops: Ints, op_rank: Codes, ranks: Codes) -> Ints:
    """For each op the first call in the file that has its rank and its correlation, -1 for none."""
    calls = trace.rows_of(Cat.RUNTIME)
    calls = calls[trace.corr[calls] != 0]
    call_rank, wanted = ranks[trace.lane[calls]], trace.corr[ops]
    launch = np.full(ops.size, -1, np.int64)
    for rank in range(int(ranks.max(initial=-1)) + 1):
        own = calls[call_rank == rank]
        if own.size == 0:
            continue
        own = own[np.argsort(trace.corr[own], kind="stable")]
        ids = trace.corr[own]
        here = np.flatnonzero((op_rank == rank) & (wanted != 0))
        at = np.minimum(np.searchsorted(ids, wanted[here]), own.size - 1)
        launch[here] = np.where(ids[at] == wanted[here], own[at], -1)
    return launch
