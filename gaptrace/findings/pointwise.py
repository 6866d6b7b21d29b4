"""Findings about runs of tiny kernels between the heavy ones: what fusion could replace.

Kernels inside graph replays are left out: there a node costs a fraction of a microsecond and no
host time, and the fusion prediction says what is left to win.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gaptrace import units
from gaptrace.findings.evidence import EVIDENCE_SHOWN
from gaptrace.findings.rule import Claim, Evidence, Finding, Needs, rule
from gaptrace.findings.view import EXTRAPOLATED, View
from gaptrace.knowledge.kernel_names import classify
from gaptrace.measure.links import names_where

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gaptrace.trace import Ints

# Issuing one kernel costs eager PyTorch 4 to 10 us of host time: a kernel shorter than that is
# over before the next one can be there.
TINY_NS = 10_000
# Fewer launches to save per step are not worth a compiler.
MANY = 20
CHAIN_LENGTH, CHAIN_REPEATS = 3, 4
FUSIBLE = ("pointwise", "copy", "other")


class Runs(NamedTuple):
    """Runs of tiny kernels launched one after the other, in launch order.

    ops: positions in the device's links of all ops in runs. first, size: where each run begins in
    `ops` and how many it has. step, begin, ns: its step, the start of its first launch call, and
    the host time from there to the start of its last.
    """

    ops: Ints
    first: Ints
    size: Ints
    step: Ints
    begin: Ints
    ns: Ints


def tiny_runs(view: View) -> Runs:
    """Runs of at least two tiny fusible kernels of one step, without a wait of the host inside."""
    trace, links = view.trace, view.device.links
    known = (view.op_step >= 0) & links.launched & ~links.replayed
    index = np.flatnonzero(known)
    at = trace.start[links.launch[index]]
    order = np.lexsort((index, at, trace.lane[links.launch[index]]))
    index, at = index[order], at[order]
    across = names_where(
        trace, trace.name[links.row[index]], lambda n: any(k in n for k in ("HtoD", "DtoH", "PtoP"))
    )
    tiny = (links.end - links.start)[index] < TINY_NS
    tiny &= view.of_class(*FUSIBLE)[index] & ~across
    lane, step = trace.lane[links.launch[index]], view.op_step[index]
    waits = np.searchsorted(np.sort(view.calls("sync").start), at)
    same = tiny[1:] & tiny[:-1]
    for column in (lane, step, waits):
        same &= column[1:] == column[:-1]
    begins = np.concatenate(([True], ~same)) if index.size else np.zeros(0, np.bool_)
    first = np.flatnonzero(begins)
    size = np.diff(np.append(first, index.size))
    keep = (size >= 2) & tiny[first] if first.size else np.zeros(0, np.bool_)
    first, size = first[keep], size[keep]
    members = np.repeat(first, size) + _within(size)
    return Runs(
        ops=index[members],
        first=np.cumsum(size) - size,
        size=size,
        step=step[first],
        begin=at[first],
        ns=at[first + size - 1] - at[first],
    )


def _within(size: Ints) -> Ints:
    return np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)


def _run_evidence(view: View, runs: Runs, chosen: Ints) -> tuple[Evidence, ...]:
    """The runs that take the host longest, with their first and last kernel."""
    trace, links = view.trace, view.device.links
    order = chosen[np.lexsort((runs.begin[chosen], -runs.ns[chosen]))[:EVIDENCE_SHOWN]]
    found = []
    for run in order:
        ops = runs.ops[runs.first[run] : runs.first[run] + runs.size[run]]
        call = int(links.launch[ops[0]])
        found.append(
            Evidence(
                step=int(runs.step[run]),
                start_ns=int(runs.begin[run]),
                end_ns=int(runs.begin[run] + runs.ns[run]),
                what=f"launching a run of {ops.size} tiny kernels",
                before=trace.name_of(int(links.row[ops[0]])),
                after=trace.name_of(int(links.row[ops[-1]])),
                call=trace.name_of(call),
                row=call,
            )
        )
    return tuple(found)


@rule("GT501", "GT502", needs=Needs.CAUSES)
def tiny_kernels(view: View) -> Iterator[Claim]:
    """Many tiny kernels in a row (GT501), and the chain among them that repeats most (GT502).

    Ceiling: were each run one kernel, the host would be spared the time from the launch of the
    run's first kernel to that of its last; at most the late idle that follows.
    """
    runs = tiny_runs(view)
    tokens = float(view.steps.tokens[view.usable].sum())
    removed = int((runs.size - 1).sum())
    if removed < MANY * int(view.usable.sum()):
        return
    work, begin = view.per_step(runs.step, runs.ns, runs.begin)
    found = view.idle_amount(view.freed(work, begin))
    if not view.worth(found.ns, EXTRAPOLATED):
        return
    dur = (view.device.links.end - view.device.links.start)[runs.ops]
    text = (
        f"{units.count(runs.ops.size / tokens)} kernels per token of a median "
        f"{units.time(float(np.median(dur)))} follow each other in "
        f"{units.count(runs.size.size / tokens)} runs without a matrix product, "
        f"attention or copy to the host between them. One kernel per run would spare "
        f"{units.count(removed / tokens)} launches and "
        f"{units.time(view.amount(work).ns)} of host time per token."
    )
    evidence = _run_evidence(view, runs, np.arange(runs.size.size))
    yield Claim(
        Finding(
            "GT501",
            "many tiny kernels between matrix products",
            found.ns,
            "likely",
            text,
            evidence,
            int(runs.ops.size),
        ),
        view.late_in(work > 0),
    )
    yield from _chain(view, runs, tokens)


def _chain(view: View, runs: Runs, tokens: float) -> Iterator[Claim]:
    names = view.op_name[runs.ops]
    coded, width = names.tobytes(), names.itemsize
    chains = np.flatnonzero(runs.size >= CHAIN_LENGTH)
    begins, ends = runs.first[chains] * width, (runs.first + runs.size)[chains] * width
    groups: dict[bytes, list[int]] = {}
    for run, lo, hi in zip(chains.tolist(), begins.tolist(), ends.tolist(), strict=True):
        groups.setdefault(coded[lo:hi], []).append(run)
    often = [
        found for found in groups.values() if len(found) >= CHAIN_REPEATS * int(view.usable.sum())
    ]
    if not often:
        return
    members = max(often, key=lambda found: int(runs.ns[found].sum()))
    chosen = np.zeros(runs.size.size, np.bool_)
    chosen[members] = True
    work, begin = view.per_step(runs.step[chosen], runs.ns[chosen], runs.begin[chosen])
    found = view.idle_amount(view.freed(work, begin))
    if not view.worth(found.ns, EXTRAPOLATED):
        return
    lo, size = int(runs.first[members[0]]), int(runs.size[members[0]])
    chain = [classify(view.trace.names[int(code)]).short for code in names[lo : lo + size]]
    shown = " → ".join(chain[:6]) + (" → …" if size > 6 else "")
    text = (
        f"The same {size} kernels run {units.count(len(members) / tokens)} times per "
        f"token: {shown}. One fused kernel each time would spare "
        f"{units.time(view.amount(work).ns)} of host time per token."
    )
    evidence = _run_evidence(view, runs, np.flatnonzero(chosen))
    yield Claim(
        Finding(
            "GT502",
            "one elementwise chain, over and over",
            found.ns,
            "likely",
            text,
            evidence,
            len(members),
        ),
        view.late_in(work > 0),
    )
