"""Findings about captured steps: pieces, what is left outside, graphs that change."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gaptrace.findings.claims import gap_claims
from gaptrace.findings.evidence import (
    EVIDENCE_SHOWN,
    event_evidence,
    gap_evidence,
    host_evidence,
    label,
    names_counted,
)
from gaptrace.findings.rule import Claim, rule
from gaptrace.findings.trust import PARTLY_CAPTURED, captured_share
from gaptrace.findings.wording import quantity
from gaptrace.measure.attribution import enclosing, outermost_rows
from gaptrace.measure.links import rows_named
from gaptrace.measure.piecewise import NOTHING, seams
from gaptrace.measure.view import Bools, Needs, View
from gaptrace.quantity import COUNT, SHARE
from gaptrace.trace import Cat, Ints

if TYPE_CHECKING:
    from gaptrace.findings.wording import Fact

# One replay for the model and one or two for what follows it are a captured step.
FEW_REPLAYS = 4
# Two steps with different graphs are two batch sizes; this many in a row are a pattern.
STEPS_FOR_IDS = 3
INPUTS_SHOWN = 5
INSTANTIATES = re.compile(
    r"_*(?:cuda|cu|hip)(?:GraphInstantiate|GraphExecUpdate|StreamEndCapture)\w*"
)


def _neighbours(view: View) -> tuple[Ints, Ints]:
    """For each gap the launch row of the replay before and after it, -1 for no replay."""
    links, gaps = view.device.links, view.device.gaps
    replay = np.where(links.replayed, links.launch, -1)
    return replay[view.op_at(gaps.before)], replay[view.op_at(gaps.after)]


@rule("GT401", "GT402", needs=Needs.CAUSES)
def pieces(view: View) -> Iterator[Claim]:
    """Replays cut into many pieces (GT401), and an uncaptured remainder around them (GT402).

    Ceiling of GT401: idle in the seams of a step, from one replay to the next, whatever is launched
    in between; waits on the device are included, as each replay pays its own start. Ceiling of
    GT402: idle with a late host at gaps where one side is in no replay, outside such seams, and
    between the steps of a captured loop. No gap counts for both.
    """
    if captured_share(view) <= PARTLY_CAPTURED:
        return
    gaps = view.device.gaps
    before, after = _neighbours(view)
    last = gaps.end == view.steps.gpu_end[np.maximum(view.gap_step, 0)]
    outside = view.late_gaps & ((before < 0) | (after < 0) | last)
    for claim in _many_pieces(view):
        assert claim.gaps is not None
        outside &= ~claim.gaps
        yield claim
    yield from _remainder(view, outside)


def _many_pieces(view: View) -> Iterator[Claim]:
    if float(np.median(view.steps.graph_launches[view.usable])) < FEW_REPLAYS:
        return
    facts: dict[str, Fact] = {
        "replays": quantity(view.amount(view.steps.graph_launches).ns, COUNT),
        "kernels": quantity(view.analysis.headline.kernels_per_graph_launch or 0, COUNT),
    }
    parts = view.analysis.piecewise
    if parts is not None:
        kind = next((item for item in parts.kinds if item.work != (NOTHING,)), parts.kinds[0])
        facts["with_work"] = quantity(parts.with_work, COUNT)
        facts["seams"] = quantity(parts.seams, COUNT)
        facts["work"] = ", ".join(kind.work)
    gaps = view.device.gaps
    between = (view.gap_step >= 0) & (seams(view.analysis, view.usable).holding(gaps.end) >= 0)
    per_gap = np.where(between, gaps.dur - view.cause("profiler"), 0)
    yield from gap_claims(view, "GT401", per_gap, facts)


def _remainder(view: View, outside: Bools) -> Iterator[Claim]:
    links = view.device.links
    launched = (view.op_step >= 0) & ~links.replayed
    ops = outermost_rows(view.trace, view.trace.rows_of(Cat.CPU_OP))
    around = enclosing(view.trace, ops, np.where(launched, links.launch, -1))
    facts: dict[str, Fact] = {
        "captured": quantity(captured_share(view), SHARE),
        "launched": view.per_token(launched.sum(), COUNT),
        "ops": names_counted(view, around[around >= 0]) or None,
    }
    yield from gap_claims(view, "GT402", np.where(outside, view.late_ns, 0), facts)


class Replays(NamedTuple):
    """Graph replays of usable steps in launch order: call row, step, rank in the step, ops, id."""

    row: Ints
    step: Ints
    rank: Ints
    ops: Ints
    id: Ints


def replays_of(view: View) -> Replays:
    """The replays of the counted steps, mixed ones included."""
    links, steps = view.device.links, view.steps
    chosen = steps.counted
    inside = links.replayed & (steps.op_step >= 0) & chosen[np.maximum(steps.op_step, 0)]
    index = np.flatnonzero(inside)
    row, first, ops = np.unique(links.launch[index], return_index=True, return_counts=True)
    graph = view.trace.gpu.graph_id[np.searchsorted(view.trace.gpu.rows, links.row[index])]
    ids = np.zeros(row.size, np.int64)
    np.maximum.at(ids, np.searchsorted(row, links.launch[index]), graph)
    step = steps.op_step[index][first]
    order = np.lexsort((view.trace.start[row], step))
    row, step, ops, ids = row[order], step[order], ops[order], ids[order]
    rank = np.arange(row.size) - np.searchsorted(step, step)
    return Replays(row, step, rank, ops, ids)


@rule("GT403", needs=Needs.CAUSES)
def reinstantiated(view: View) -> Iterator[Claim]:
    """A graph made anew in every step. Ceiling: late idle of the gaps that replays end.

    Seen by graph ids of which no two steps share one, or by calls that capture or instantiate
    inside counted steps.
    """
    trace, replays = view.trace, replays_of(view)
    steps = np.unique(replays.step[replays.id > 0])
    ids = [set(replays.id[(replays.step == s) & (replays.id > 0)].tolist()) for s in steps]
    graphs = sum(map(len, ids))
    changing = len(ids) >= STEPS_FOR_IDS and graphs == len(set().union(*ids))
    calls = rows_named(trace, INSTANTIATES.fullmatch, Cat.RUNTIME)
    step = view.host_step(trace.start[calls])
    calls, step = calls[step >= 0], step[step >= 0]
    if not changing and np.unique(step).size < max(int(view.usable.sum()) / 2, 1):
        return
    before, after = _neighbours(view)
    ends = view.late_gaps & (after >= 0) & (before != after)
    per_gap = np.where(ends, view.late_ns, 0)
    gain = view.idle_amount(view.by_step(per_gap))
    yield Claim(
        "GT403",
        gain.ns,
        {
            "steps": quantity(len(ids) if changing else None, COUNT),
            "graphs": quantity(graphs if changing else None, COUNT),
            "calls": names_counted(view, calls) or None,
            "gain": gain,
        },
        "measured" if calls.size else "likely",
        evidence=host_evidence(view, calls, step, trace.dur[calls])
        if calls.size
        else gap_evidence(view, per_gap, "GT403"),
        places=int(calls.size) or len(ids),
        gaps=ends,
    )


@rule("GT404", needs=Needs.STEPS)
def replays_differ(view: View) -> Iterator[Claim]:
    """Replays of one graph recorded different numbers of ops. Ceiling 0: the trace lost some.

    Whether they are of one graph is for the trace's quality to say; this names the replays: those
    whose ops are some of what most steps replay at that place, or all of it and more.
    """
    reason = next((r for r in view.analysis.quality.reasons if r.id == "replays_differ"), None)
    if reason is None:
        return
    replays = replays_of(view)
    ops = _ops_of(view, replays)
    per_step = np.bincount(replays.step, minlength=len(view.steps))[replays.step]
    evidence = []
    for key in sorted(set(zip(per_step.tolist(), replays.rank.tolist(), strict=True))):
        group = np.flatnonzero((per_step == key[0]) & (replays.rank == key[1])).tolist()
        usual, times = Counter(tuple(sorted(ops[i].items())) for i in group).most_common(1)[0]
        if 2 * times <= len(group):
            continue
        whole = Counter(dict(usual))
        for i in group:
            if ops[i] != whole and (ops[i] <= whole or whole <= ops[i]):
                counts = {
                    "ops": quantity(replays.ops[i], COUNT),
                    "usual": quantity(whole.total(), COUNT),
                }
                row = int(replays.row[i])
                what = label("GT404", **counts)
                evidence.append(event_evidence(view, what, row, replays.step[i], row))
    yield Claim(
        "GT404",
        facts={"replays": quantity(reason.count, COUNT)},
        evidence=tuple(evidence[:EVIDENCE_SHOWN]),
        places=reason.count,
    )


def _ops_of(view: View, replays: Replays) -> list[Counter[int]]:
    """The name codes of the ops of each replay."""
    links = view.device.links
    index = np.flatnonzero(links.replayed)
    index = index[np.argsort(links.launch[index], kind="stable")]
    launch = links.launch[index]
    first = np.searchsorted(launch, replays.row, side="left")
    last = np.searchsorted(launch, replays.row, side="right")
    return [
        Counter(view.trace.name[links.row[index[lo:hi]]].tolist())
        for lo, hi in zip(first, last, strict=True)
    ]


@rule("GT405", needs=Needs.STEPS)
def not_capturable_yet(view: View) -> Iterator[Claim]:
    """What the recorder saw that stands in the way of capture. Ceiling 0: capture is what wins."""
    seen = view.analysis.manifest.steadiness
    if view.analysis.manifest.run.capture is not None:
        return
    differs = seen.launch_sequence is not None and seen.launch_sequence.equal is False
    facts: dict[str, Fact] = {
        "moved": ", ".join((seen.moved or ())[:INPUTS_SHOWN]) or None,
        "grew": ", ".join((seen.grew or ())[:INPUTS_SHOWN]) or None,
        "launch_sequence": differs or None,
    }
    places = sum(fact is not None for fact in facts.values())
    if places:
        yield Claim("GT405", facts=facts, places=places)
