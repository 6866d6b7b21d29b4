"""Evidence: the most telling places of a finding, as rows that point into the trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gaptrace.findings.wording import clause_text, common_text
from gaptrace.measure.gapwork import host_work
from gaptrace.quantity import COUNT, Quantity
from gaptrace.results.analysis import Evidence

if TYPE_CHECKING:
    from gaptrace.findings.wording import Fact
    from gaptrace.measure.view import Values, View
    from gaptrace.trace import Ints

EVIDENCE_SHOWN = 5
NAMES_SHOWN = 3


def label(rule: str, **facts: Fact) -> str:
    """What a rule calls the places that it points at."""
    return clause_text(rule, "evidence", facts)


def largest(weight: Values, start: Ints) -> Ints:
    """Positions of the largest weights, the largest first; of equals the earliest first."""
    if weight.size <= EVIDENCE_SHOWN:
        return np.lexsort((start, -weight))
    least = np.partition(weight, -EVIDENCE_SHOWN)[-EVIDENCE_SHOWN]
    among = np.flatnonzero(weight >= least)
    return among[np.lexsort((start[among], -weight[among]))[:EVIDENCE_SHOWN]]


def evidence_at(
    view: View,
    what: str,
    step: int,
    span: tuple[int, int],
    *,
    row: int = -1,
    call: int = -1,
    around: tuple[int, int] = (-1, -1),
    gap: int = -1,
) -> Evidence:
    """Evidence from event rows, of which -1 means none; step -1 is outside of the steps."""
    work = view.analysis.gap_work.of(gap)
    host = host_work(view.trace, work, int(span[1] - span[0])) if work.gap.size else ()

    def name(of: int) -> str:
        return view.trace.name_of(int(of)) if of >= 0 else ""

    return Evidence(
        step=int(step) if step >= 0 else None,
        start_ns=int(span[0]),
        end_ns=int(span[1]),
        what=what,
        before=name(around[0]),
        after=name(around[1]),
        call=name(call),
        row=int(row) if row >= 0 else None,
        host=host[:1],
    )


def event_evidence(view: View, what: str, row: int, step: int = -1, call: int = -1) -> Evidence:
    """One event of the trace as evidence."""
    start = view.trace.start[row]
    return evidence_at(view, what, step, (start, start + view.trace.dur[row]), row=row, call=call)


def gap_evidence(view: View, per_gap: Values, rule: str) -> tuple[Evidence, ...]:
    """The gaps of usable steps with the largest value, with both neighbours and the call."""
    gaps = view.device.gaps
    index = np.flatnonzero((view.gap_step >= 0) & (per_gap > 0))
    order = largest(per_gap[index], gaps.start[index])
    what = label(rule) if index.size else ""
    return tuple(
        evidence_at(
            view,
            what,
            view.gap_step[i],
            (gaps.start[i], gaps.end[i]),
            row=gaps.launch[i],
            call=gaps.launch[i],
            around=(gaps.before[i], gaps.after[i]),
            gap=int(i),
        )
        for i in index[order]
    )


def host_evidence(
    view: View, rows: Ints, step: Ints, weight: Values, rule: str | None = None
) -> tuple[Evidence, ...]:
    """The host events with the largest weight, each with the gap it met.

    They are labelled with the rule's words, or by their name and the op they lie in. `before` and
    `after` are the neighbours of the first gap that ends after the event starts and begins before
    it ends; empty where the GPU worked through all of it.
    """
    trace, gaps = view.trace, view.device.gaps
    order = largest(weight, trace.start[rows])
    around = view.op_around(rows[order])
    shown = []
    for row, of, op in zip(rows[order], step[order], around, strict=True):
        span = (trace.start[row], trace.start[row] + trace.dur[row])
        at = int(np.searchsorted(gaps.end, span[0], side="right"))
        met = at < len(gaps) and gaps.start[at] < span[1]
        what = label(rule) if rule else trace.name_of(int(row))
        if not rule and op >= 0 and op != row:
            what += f" in {trace.name_of(int(op))}"
        neighbours = (gaps.before[at], gaps.after[at]) if met else (-1, -1)
        shown.append(evidence_at(view, what, of, span, row=row, call=row, around=neighbours))
    return tuple(shown)


def op_evidence(view: View, index: Ints, rule: str) -> tuple[Evidence, ...]:
    """The longest of some GPU ops, given by their positions in the device's links."""
    links = view.device.links
    order = index[largest((links.end - links.start)[index], links.start[index])]
    return tuple(
        evidence_at(
            view,
            f"{label(rule)}: {view.trace.name_of(int(links.row[i]))}",
            view.op_step[i],
            (links.start[i], links.end[i]),
            row=links.row[i],
            call=links.launch[i],
        )
        for i in order
    )


def names_counted(view: View, rows: Ints) -> str:
    """The most frequent names among event rows, with their number per token, in words."""
    counts = np.bincount(view.trace.name[rows])
    codes = np.flatnonzero(counts)
    order = codes[np.argsort(-counts[codes], kind="stable")[:NAMES_SHOWN]]
    return ", ".join(
        common_text(
            "counted",
            {
                "name": view.trace.names[i],
                "count": Quantity(float(counts[i] / view.tokens), COUNT),
                **view.words,
            },
        )
        for i in order
    )
