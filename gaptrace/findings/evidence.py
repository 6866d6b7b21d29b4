"""Evidence: the most telling places of a finding, as rows that point into the trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gaptrace import units
from gaptrace.findings.rule import Evidence

if TYPE_CHECKING:
    from gaptrace.findings.view import Values, View
    from gaptrace.trace import Ints

EVIDENCE_SHOWN = 5


def gap_evidence(view: View, per_gap: Values, what: str) -> tuple[Evidence, ...]:
    """The gaps of usable steps with the largest value, with both neighbours and the call."""
    gaps = view.device.gaps
    index = np.flatnonzero((view.gap_step >= 0) & (per_gap > 0))
    order = largest(per_gap[index], gaps.start[index])
    return tuple(_gap(view, int(i), int(view.gap_step[i]), what) for i in index[order])


def largest(weight: Values, start: Ints) -> Ints:
    """Positions of the largest weights, the largest first; of equals the earliest first."""
    if weight.size <= EVIDENCE_SHOWN:
        return np.lexsort((start, -weight))
    least = np.partition(weight, -EVIDENCE_SHOWN)[-EVIDENCE_SHOWN]
    among = np.flatnonzero(weight >= least)
    return among[np.lexsort((start[among], -weight[among]))[:EVIDENCE_SHOWN]]


def _gap(view: View, index: int, step: int, what: str) -> Evidence:
    gaps, launch = view.device.gaps, int(view.device.gaps.launch[index])
    return Evidence(
        step=step,
        start_ns=int(gaps.start[index]),
        end_ns=int(gaps.end[index]),
        what=what,
        before=view.trace.name_of(int(gaps.before[index])),
        after=view.trace.name_of(int(gaps.after[index])),
        call=view.trace.name_of(launch) if launch >= 0 else "",
        row=launch if launch >= 0 else None,
    )


def host_evidence(
    view: View, rows: Ints, step: Ints, weight: Values, what: str = ""
) -> tuple[Evidence, ...]:
    """The host events with the largest weight, each with the op it lies in and the gap it met.

    `before` and `after` are the neighbours of the first gap that ends after the event starts
    and begins before it ends; empty where the GPU worked through all of it.
    """
    gaps = view.device.gaps
    order = largest(weight, view.trace.start[rows])
    around = view.op_around(rows[order])
    found = []
    for row, of, op in zip(rows[order], step[order], around, strict=True):
        start = int(view.trace.start[row])
        end = start + int(view.trace.dur[row])
        at = int(np.searchsorted(gaps.end, start, side="right"))
        met = at < len(gaps) and int(gaps.start[at]) < end
        name = view.trace.name_of(int(row))
        inside = view.trace.name_of(int(op)) if op >= 0 and op != row else ""
        found.append(
            Evidence(
                step=int(of),
                start_ns=start,
                end_ns=end,
                what=what or (f"{name} in {inside}" if inside else name),
                before=view.trace.name_of(int(gaps.before[at])) if met else "",
                after=view.trace.name_of(int(gaps.after[at])) if met else "",
                call=name,
                row=int(row),
            )
        )
    return tuple(found)


def op_evidence(view: View, index: Ints, weight: Values, what: str) -> tuple[Evidence, ...]:
    """The GPU ops (positions in the device's links) with the largest weight."""
    links = view.device.links
    order = largest(weight, links.start[index])
    return tuple(
        Evidence(
            step=int(view.op_step[i]) if view.op_step[i] >= 0 else None,
            start_ns=int(links.start[i]),
            end_ns=int(links.end[i]),
            what=f"{what}: {view.trace.name_of(int(links.row[i]))}",
            call=view.trace.name_of(int(links.launch[i])) if links.launch[i] >= 0 else "",
            row=int(links.row[i]),
        )
        for i in index[order]
    )


def names_counted(view: View, rows: Ints, tokens: float, shown: int = 3) -> str:
    """The most frequent names among event rows, with their number per token, in words."""
    if rows.size == 0:
        return ""
    counts = np.bincount(view.trace.name[rows])
    codes = np.flatnonzero(counts)
    order = codes[np.argsort(-counts[codes], kind="stable")[:shown]]
    return ", ".join(f"{view.trace.names[i]} ({_per_token(counts[i] / tokens)})" for i in order)


def _per_token(count: float) -> str:
    return f"{units.count(float(count))} per token"
