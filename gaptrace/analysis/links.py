"""Which call launched which GPU op: the link everything else stands on.

A launch call owns the ops that share its non-zero correlation within one rank of one file. Where
two calls carry the same correlation the first in the file owns the ops. `External id` is never
used as a link: traces get it wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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

    @property
    def launched(self) -> Bools:
        """Ops that have a launch call."""
        return self.launch >= 0


def names_where(trace: Trace, codes: Ints | Codes, predicate: Callable[[str], object]) -> Bools:
    """For each name code whether `predicate` holds for the name; each distinct name asked once."""
    present = np.zeros(len(trace.names), np.bool_)
    present[codes] = True
    answers = np.zeros(len(trace.names), np.bool_)
    for code in np.flatnonzero(present):
        answers[code] = bool(predicate(trace.names[int(code)]))
    return answers[codes]


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
    calls = trace.rows_of(Cat.RUNTIME)
    calls = calls[trace.corr[calls] != 0]
    launch = np.full(rows.size, -1, np.int64)
    if calls.size and rows.size:
        _, code = np.unique(
            np.concatenate((trace.corr[calls], trace.corr[rows])), return_inverse=True
        )
        key = code * (int(ranks.max()) + 1) + np.concatenate((ranks[trace.lane[calls]], op_rank))
        first = np.full(int(key.max()) + 1, -1, np.int64)
        # Written back to front so that the first call in the file is the one that stays.
        first[key[: calls.size][::-1]] = calls[::-1]
        launch = first[key[calls.size :]]
        launch[trace.corr[rows] == 0] = -1
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
