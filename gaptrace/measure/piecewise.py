"""A step that replays several graphs: its pieces, and what each seam between two of them costs.

A seam lies between two graph replays that follow one another in one step: on the GPU from the
latest end of all replays so far to the first start of the next one, on the host from the end of
one replay call to the start of the next. Its idle time is the length of that stretch less the
busy time in it: what the GPU waits for in order to come from one piece into the next. Work that is
launched in a seam (attention, where a serving engine leaves it out of the graphs) is busy time.
Stretches that overlap (pieces on several streams) have length zero: nothing was lost there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gaptrace import intervals as iv
from gaptrace.knowledge.kernel_names import classify
from gaptrace.measure.attribution import enclosing, op_around, outermost_rows
from gaptrace.measure.links import names_where
from gaptrace.measure.marks import COMPILED_REGION
from gaptrace.measure.stats import spread
from gaptrace.measure.threads import STEP_MARK
from gaptrace.results.analysis import Piecewise, SeamKind
from gaptrace.trace import Cat, Ints

if TYPE_CHECKING:
    from gaptrace.measure.links import Links
    from gaptrace.measure.result import Analysis
    from gaptrace.measure.steps import Steps

Bools = npt.NDArray[np.bool_]
NOTHING = "nothing launched"
# More kinds of work than this in one seam are not listed one by one.
NAMED = 6


@dataclass(frozen=True, eq=False)
class Seams:
    """Every seam of a device's steps, in time order; one entry per seam, times in ns.

    step: index into the step table. before, after: rows of the two replay calls. start, end: the
    stretch on the GPU, equal where the replays overlap. busy_ns, idle_ns: its two parts, exact.
    host_ns: from the end of the one replay call to the start of the next. ops, kernels, launches:
    GPU ops, kernels and launch calls submitted between the two calls, in the same step.
    """

    step: Ints
    before: Ints
    after: Ints
    start: Ints
    end: Ints
    busy_ns: Ints
    host_ns: Ints
    ops: Ints
    kernels: Ints
    launches: Ints

    def __len__(self) -> int:
        return int(self.step.size)

    @property
    def idle_ns(self) -> Ints:
        """Length of each stretch less its busy time, in ns."""
        return self.end - self.start - self.busy_ns

    def holding(self, gap_end: Ints) -> Ints:
        """For each gap of the device, by its end, the seam it lies in; -1 for none.

        No gap straddles an edge of a seam: an op ends at the one and starts at the other.
        """
        real = np.flatnonzero(self.end > self.start)
        if real.size == 0:
            return np.full(gap_end.size, -1, np.int64)
        real = real[np.argsort(self.start[real], kind="stable")]
        index = np.searchsorted(self.start[real], gap_end, side="left") - 1
        seam = real[np.maximum(index, 0)]
        return np.where((index >= 0) & (gap_end <= self.end[seam]), seam, -1)

    def where(self, keep: Bools) -> Seams:
        """Those seams alone."""
        return Seams(*(getattr(self, item.name)[keep] for item in fields(self)))


def piecewise(analysis: Analysis) -> Piecewise | None:
    """The pieces and seams of an analysed recording.

    None where the typical step has fewer than two replays, or nothing is launched between any two
    of them. Read from the counted decode steps; where a recording has none (one mixed batch of a
    serving engine), from the steps that it has. Times of steps that mix work of others are left
    out.
    """
    steps, device = analysis.step_table, analysis.device
    if steps is None or device is None or analysis.quality.withholds("kernels"):
        return None
    chosen, of = _chosen(steps)
    replays = spread(steps.graph_launches[chosen]).median or 0
    if replays < 2:
        return None
    found = seams(analysis, chosen)
    with_work = _per_step(found.step[found.launches > 0], None, chosen)
    if not with_work:
        return None
    clean = chosen & ~steps.mixed
    timed = bool(clean.any()) and not analysis.quality.withholds("idle", "busy")
    host = not analysis.quality.withholds("host", "host_dispatch")
    own = found.where(clean[found.step])
    idle = np.bincount(own.step, weights=own.idle_ns, minlength=len(steps))[clean]
    share = spread(idle / np.maximum(steps.period_ns[clean], 1)).median
    idle_ns = _per_step(own.step, own.idle_ns, clean) if timed else None
    number = _per_step(found.step, None, chosen)
    return Piecewise(
        steps=int(chosen.sum()),
        of=of,
        replays=replays,
        pieces=_pieces(analysis, device.links, steps, chosen),
        seams=number,
        with_work=with_work,
        kernels=_per_step(found.step, found.kernels, chosen),
        launches=_per_step(found.step, found.launches, chosen),
        idle_ns=idle_ns,
        busy_ns=_per_step(own.step, own.busy_ns, clean) if timed else None,
        host_ns=_per_step(found.step, found.host_ns, chosen) if host else None,
        share=share if timed else None,
        idle_per_seam_ns=None if idle_ns is None or not number else idle_ns / number,
        kinds=_kinds(
            analysis, own if timed else found, clean if timed else chosen, timed=timed, host=host
        ),
    )


def _per_step(step: Ints, values: Ints | None, chosen: Bools) -> float:
    """Sum over the seams of each chosen step (their number without values): the median."""
    sums = np.bincount(step, weights=values, minlength=chosen.size)[chosen]
    return float(spread(sums).median or 0)


def _chosen(steps: Steps) -> tuple[Bools, str]:
    """The steps to read: the counted ones, else those with GPU work, and what they are."""
    if steps.counted.any():
        return steps.counted, "decode steps"
    phases = Counter(phase for phase, has in zip(steps.phase, steps.has_ops, strict=True) if has)
    return steps.has_ops, ", ".join(f"{n} {phase}" for phase, n in sorted(phases.items()))


def seams(analysis: Analysis, chosen: Bools) -> Seams:
    """Every seam of the chosen steps.

    Replays are taken in the order in which their first ops start. `chosen` has one entry per step.
    """
    steps, device, trace = analysis.step_table, analysis.device, analysis.trace
    assert steps is not None
    assert device is not None
    links = device.links
    call, step, first, last = _replays(links, steps, chosen)
    reach = _reach(step, last)
    pair = np.flatnonzero(step[1:] == step[:-1])
    before, after, of = call[pair], call[pair + 1], step[pair]
    start = np.minimum(reach[pair], first[pair + 1])
    end = first[pair + 1]
    host_end = trace.start[before] + trace.dur[before]
    seam = seam_of_ops(analysis, of, before, after)
    inside, kernel = seam >= 0, (seam >= 0) & (links.cat == Cat.KERNEL)
    _, one = np.unique(links.launch[inside], return_index=True)
    return Seams(
        step=of,
        before=before,
        after=after,
        start=start,
        end=end,
        busy_ns=iv.overlap_with(device.busy, start, end),
        host_ns=np.maximum(trace.start[after] - host_end, 0),
        ops=np.bincount(seam[inside], minlength=of.size).astype(np.int64),
        kernels=np.bincount(seam[kernel], minlength=of.size).astype(np.int64),
        launches=np.bincount(seam[inside][one], minlength=of.size).astype(np.int64),
    )


def _replays(links: Links, steps: Steps, chosen: Bools) -> tuple[Ints, Ints, Ints, Ints]:
    """Replay calls of the chosen steps: call row, step, first start and latest end of their ops."""
    op_step = steps.op_step
    index = np.flatnonzero(links.replayed & steps.ops_of(chosen))
    call, at = np.unique(links.launch[index], return_inverse=True)
    first = np.full(call.size, np.iinfo(np.int64).max)
    last = np.full(call.size, -1, np.int64)
    step = np.zeros(call.size, np.int64)
    np.minimum.at(first, at, links.start[index])
    np.maximum.at(last, at, links.end[index])
    step[at] = op_step[index]
    order = np.lexsort((call, first, step))
    return call[order], step[order], first[order], last[order]


def _reach(step: Ints, last: Ints) -> Ints:
    """For each replay how far it and the earlier ones of its step reach."""
    result = last.copy()
    for index in range(1, result.size):
        if step[index] == step[index - 1]:
            result[index] = max(result[index], result[index - 1])
    return result


def seam_of_ops(analysis: Analysis, of: Ints, before: Ints, after: Ints) -> Ints:
    """For each GPU op of the device the seam that its launch call lies in, -1 for none.

    Ops of replays lie in none; calls of other threads count where they fall in between.
    """
    trace, device, steps = analysis.trace, analysis.device, analysis.step_table
    assert steps is not None
    assert device is not None
    links = device.links
    result = np.full(links.row.size, -1, np.int64)
    if of.size == 0:
        return result
    plain = np.flatnonzero(links.launched & ~links.replayed & (steps.op_step >= 0))
    at = trace.start[links.launch[plain]]
    order = np.argsort(trace.start[before], kind="stable")
    index = np.searchsorted(trace.start[before][order], at, side="right") - 1
    seam = order[np.maximum(index, 0)]
    inside = (index >= 0) & (at < trace.start[after][seam]) & (steps.op_step[plain] == of[seam])
    result[plain[inside]] = seam[inside]
    return result


def _pieces(analysis: Analysis, links: Links, steps: Steps, chosen: Bools) -> float | None:
    """Distinct graph ids per step, None where a replay of a chosen step carries none."""
    index = np.flatnonzero(links.replayed & steps.ops_of(chosen))
    gpu = analysis.trace.gpu
    graph = gpu.graph_id[np.searchsorted(gpu.rows, links.row[index])]
    if index.size == 0 or not (graph > 0).all():
        return None
    pairs = np.unique(np.stack((steps.op_step[index], graph)), axis=1)
    counts = np.bincount(pairs[0], minlength=len(steps))[chosen]
    return float(spread(counts).median or 0)


def _kinds(
    analysis: Analysis, found: Seams, chosen: Bools, *, timed: bool, host: bool
) -> tuple[SeamKind, ...]:
    """The seams by the work in them, the kind with most idle time first."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for index, work in enumerate(_works(analysis, found)):
        groups.setdefault(work, []).append(index)

    def median(values: Ints, at: list[int]) -> float:
        return float(spread(values[at]).median or 0)

    kinds = [
        SeamKind(
            work=work,
            per_step=len(at) / int(chosen.sum()),
            kernels=median(found.kernels, at),
            idle_ns=median(found.idle_ns, at) if timed else None,
            busy_ns=median(found.busy_ns, at) if timed else None,
            host_ns=median(found.host_ns, at) if host else None,
            idle_per_step_ns=_per_step(found.step[at], found.idle_ns[at], chosen)
            if timed
            else None,
        )
        for work, at in groups.items()
    ]
    kinds.sort(key=lambda kind: (-(kind.idle_per_step_ns or 0), -kind.per_step, kind.work))
    return tuple(kinds)


def _works(analysis: Analysis, found: Seams) -> list[tuple[str, ...]]:
    """For each seam the ops that launch in it, each once, in order of their launch calls.

    The outermost op around a launch call inside a compiled region or step mark; the kernel's short
    name where no op was recorded.
    """
    trace, device = analysis.trace, analysis.device
    assert device is not None
    links = device.links
    seam = seam_of_ops(analysis, found.step, found.before, found.after)
    index = np.flatnonzero(seam >= 0)
    launch = links.launch[index]
    order = np.lexsort((trace.start[launch], seam[index]))
    index, launch = index[order], launch[order]
    ops = trace.rows_of(Cat.CPU_OP)
    around = names_where(
        trace, trace.name[ops], lambda name: COMPILED_REGION.match(name) or STEP_MARK.match(name)
    )
    inner = op_around(trace, analysis.threads, launch)
    outer = enclosing(trace, outermost_rows(trace, ops[~around]), launch)
    names: list[dict[str, None]] = [{} for _ in range(len(found))]
    for place, op, own in zip(index, outer, inner, strict=True):
        row = op if op >= 0 else own
        name = (
            trace.name_of(int(row))
            if row >= 0
            else classify(trace.name_of(int(links.row[place]))).short
        )
        names[int(seam[place])][name] = None
    return [_listed(tuple(item)) for item in names]


def _listed(work: tuple[str, ...]) -> tuple[str, ...]:
    if not work:
        return (NOTHING,)
    if len(work) <= NAMED:
        return work
    return (*work[: NAMED - 1], f"{len(work) - NAMED + 1} more")
