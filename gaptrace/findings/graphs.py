"""Findings about captured steps: pieces, what is left outside, graphs that do not hold still."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gaptrace import units
from gaptrace.findings.evidence import (
    EVIDENCE_SHOWN,
    gap_evidence,
    host_evidence,
    names_counted,
)
from gaptrace.findings.rule import Bools, Claim, Evidence, Finding, Needs, rule
from gaptrace.findings.trust import PARTLY_CAPTURED, captured_share
from gaptrace.measure.attribution import enclosing, outermost_rows
from gaptrace.measure.links import rows_named
from gaptrace.measure.piecewise import NOTHING, seams
from gaptrace.trace import Cat, Ints

if TYPE_CHECKING:
    from gaptrace.findings.view import View

# One replay for the model and one or two for what follows it are a captured step.
FEW_REPLAYS = 4
# Two steps with different graphs are two batch sizes; this many in a row are a pattern.
STEPS_FOR_IDS = 3
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
    share = captured_share(view)
    if share <= PARTLY_CAPTURED:
        return
    steps, gaps = view.steps, view.device.gaps
    before, after = _neighbours(view)
    step = np.maximum(view.gap_step, 0)
    last = gaps.end == steps.gpu_end[step]
    outside = view.late_gaps & ((before < 0) | (after < 0) | last)
    for claim in _many_pieces(view):
        assert claim.gaps is not None
        outside &= ~claim.gaps
        yield claim
    yield from _remainder(view, outside, share)


def _many_pieces(view: View) -> Iterator[Claim]:
    replays = view.amount(view.steps.graph_launches).ns
    if float(np.median(view.steps.graph_launches[view.usable])) < FEW_REPLAYS:
        return
    every = seams(view.analysis, view.usable)
    gaps = view.device.gaps
    between = (view.gap_step >= 0) & (every.holding(gaps.end) >= 0)
    own = np.where(between, gaps.dur - view.cause("profiler"), 0)
    found = view.idle_amount(view.by_step(own))
    if not view.worth(found.ns):
        return
    size = view.analysis.headline.kernels_per_graph_launch or 0
    text = (
        f"{units.count(replays)} graph replays per token of "
        f"{units.digits(size)} kernels each. In the seams between them the GPU is idle for "
        f"{found.idle_words}; inside one replay it would not be."
    )
    parts = view.analysis.piecewise
    if parts is not None:
        kind = next((item for item in parts.kinds if item.work != (NOTHING,)), parts.kinds[0])
        text += (
            f" {units.count(parts.with_work)} of {units.count(parts.seams)} seams per step launch "
            f"work: {', '.join(kind.work)}."
        )
    evidence = gap_evidence(view, own, "between two replays")
    yield Claim(
        Finding(
            "GT401",
            "graph replays cut into many pieces",
            found.ns,
            "measured",
            text,
            evidence,
            int((own > 0).sum()),
        ),
        between & (own > 0),
    )


def _remainder(view: View, outside: Bools, share: float) -> Iterator[Claim]:
    links = view.device.links
    own = np.where(outside, view.late_ns, 0)
    found = view.idle_amount(view.by_step(own))
    if not view.worth(found.ns):
        return
    left = (view.op_step >= 0) & ~links.replayed
    tokens = float(view.steps.tokens[view.usable].sum())
    ops = outermost_rows(view.trace, view.trace.rows_of(Cat.CPU_OP))
    around = enclosing(view.trace, ops, np.where(left, links.launch, -1))
    named = names_counted(view, around[around >= 0], tokens)
    text = (
        f"{units.share(share, 1)} of the kernels run inside replays; "
        f"{units.count(float(left.sum()) / tokens)} GPU ops per token do not. Around "
        f"them, and before the next step, the host is late for {found.idle_words}."
    )
    text += f" They come from {named}." if named else ""
    evidence = gap_evidence(view, own, "outside the replays")
    yield Claim(
        Finding(
            "GT402",
            "an uncaptured remainder around the replays",
            found.ns,
            "measured",
            text,
            evidence,
            int(outside.sum()),
        ),
        outside,
    )


class Replays(NamedTuple):
    """Graph replays of usable steps in launch order: call row, step, place in the step, ops, id."""

    row: Ints
    step: Ints
    place: Ints
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
    place = np.arange(row.size) - np.searchsorted(step, step)
    return Replays(row, step, place, ops, ids)


@rule("GT403", needs=Needs.CAUSES)
def reinstantiated(view: View) -> Iterator[Claim]:
    """A graph made anew in every step. Ceiling: late idle of the gaps that replays end.

    Seen by graph ids of which no two steps share one, or by calls that capture or instantiate
    inside counted steps.
    """
    trace, found = view.trace, replays_of(view)
    steps = np.unique(found.step[found.id > 0])
    ids = [set(found.id[(found.step == step) & (found.id > 0)].tolist()) for step in steps]
    changing = len(ids) >= STEPS_FOR_IDS and sum(map(len, ids)) == len(set().union(*ids))
    calls = rows_named(trace, INSTANTIATES.fullmatch, Cat.RUNTIME)
    step = view.host_step(trace.start[calls])
    calls, step = calls[step >= 0], step[step >= 0]
    usable = int(view.usable.sum())
    if not changing and np.unique(step).size < max(usable / 2, 1):
        return
    before, after = _neighbours(view)
    ends = view.late_gaps & (after >= 0) & (before != after)
    own = np.where(ends, view.late_ns, 0)
    won = view.idle_amount(view.by_step(own))
    tokens = float(view.steps.tokens[view.usable].sum())
    parts = []
    if changing:
        parts.append(f"{len(ids)} steps replay graphs with {sum(map(len, ids))} different ids")
    if calls.size:
        parts.append(f"graphs are made inside the steps ({names_counted(view, calls, tokens)})")
    text = f"No graph is used twice: {' and '.join(parts)}."
    text += f" Before replays the host is late for {won.idle_words}."
    evidence = (
        host_evidence(view, calls, step, trace.dur[calls])
        if calls.size
        else gap_evidence(view, own, "before a replay of a new graph")
    )
    places = int(calls.size) or len(ids)
    yield Claim(
        Finding(
            "GT403",
            "graphs are instantiated again in every step",
            won.ns,
            "measured" if calls.size else "likely",
            text,
            evidence,
            places,
        ),
        ends,
    )


@rule("GT404", needs=Needs.STEPS)
def replays_differ(view: View) -> Iterator[Claim]:
    """Replays of one graph recorded different numbers of ops. Ceiling 0: the trace lost some.

    Whether they are of one graph is for the trace's quality to say; this names the replays: those
    whose ops are some of what most steps replay at that place, or all of it and more.
    """
    reasons = [r for r in view.analysis.quality.reasons if r.id == "replays_differ"]
    if not reasons:
        return
    found = replays_of(view)
    kinds = _ops_of(view, found)
    per_step = np.bincount(found.step, minlength=len(view.steps))[found.step]
    evidence = []
    for key in sorted(set(zip(per_step.tolist(), found.place.tolist(), strict=True))):
        group = np.flatnonzero((per_step == key[0]) & (found.place == key[1]))
        usual, times = Counter(_as_key(kinds[i]) for i in group).most_common(1)[0]
        if 2 * times <= group.size:
            continue
        whole = Counter(dict(usual))
        for i in group:
            own = kinds[i]
            if own != whole and (own <= whole or whole <= own):
                evidence.append(_odd(view, found, int(i), whole.total()))
    text = (
        f"{units.count(reasons[0].count)} replays recorded another number of GPU ops than the "
        "other replays of the same graph. A graph runs the same nodes each time, so ops were "
        "lost, and idle time may be an artefact of that: busy, idle and causes are withheld."
    )
    yield Claim(
        Finding(
            "GT404",
            "replays of one graph differ in their kernels",
            0.0,
            "measured",
            text,
            tuple(evidence[:EVIDENCE_SHOWN]),
            reasons[0].count,
        )
    )


def _ops_of(view: View, found: Replays) -> list[Counter[int]]:
    links = view.device.links
    index = np.flatnonzero(links.replayed)
    index = index[np.argsort(links.launch[index], kind="stable")]
    launch = links.launch[index]
    first = np.searchsorted(launch, found.row, side="left")
    last = np.searchsorted(launch, found.row, side="right")
    return [
        Counter(view.trace.name[links.row[index[lo:hi]]].tolist())
        for lo, hi in zip(first, last, strict=True)
    ]


def _as_key(ops: Counter[int]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(ops.items()))


def _odd(view: View, found: Replays, index: int, usual: int) -> Evidence:
    row = int(found.row[index])
    start = int(view.trace.start[row])
    return Evidence(
        int(found.step[index]),
        start,
        start + int(view.trace.dur[row]),
        f"replay with {int(found.ops[index])} GPU ops, usually {units.count(usual)}",
        call=view.trace.name_of(row),
        row=row,
    )


@rule("GT405", needs=Needs.STEPS)
def not_capturable_yet(view: View) -> Iterator[Claim]:
    """What the recorder saw that stands in the way of capture. Ceiling 0: capture is what wins."""
    seen = view.analysis.manifest.get("steadiness")
    if not isinstance(seen, Mapping) or view.analysis.manifest.get("capture") is not None:
        return
    parts = []
    for key, words in (("moved", "inputs whose address moves"), ("grew", "inputs that grow")):
        names = seen.get(key)
        if isinstance(names, list) and names:
            parts.append(f"{words} between steps: {', '.join(map(str, names[:5]))}")
    sequence = seen.get("launch_sequence")
    if isinstance(sequence, Mapping) and sequence.get("equal") is False:
        parts.append("the sequence of launches differs between steps")
    if not parts:
        return
    text = f"{'; '.join(parts)}. A graph replays the same kernels on the same addresses."
    yield Claim(
        Finding(
            "GT405",
            "inputs move or change between steps",
            0.0,
            "measured",
            text[0].upper() + text[1:],
            places=len(parts),
        )
    )
