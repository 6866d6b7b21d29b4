"""Findings about the GPU's own time, and about runs of tiny kernels that fusion could replace.

Tiny kernels inside graph replays are left out: there a node costs a fraction of a microsecond and
no host time, and the fusion prediction says what is left to win.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gaptrace.findings.claims import host_work
from gaptrace.findings.evidence import EVIDENCE_SHOWN, evidence_at, label, op_evidence
from gaptrace.findings.rule import Claim, rule
from gaptrace.findings.wording import quantity
from gaptrace.knowledge.kernel_names import classify
from gaptrace.measure.busy import BUSY_KINDS, busy_kinds
from gaptrace.measure.links import names_where
from gaptrace.measure.view import EXTRAPOLATED, Needs, View
from gaptrace.quantity import AT_LEAST, BYTES, BYTES_PER_S, COUNT, NS, PREDICTED, SHARE
from gaptrace.results.analysis import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gaptrace.findings.wording import Fact
    from gaptrace.trace import Ints

# Matrix products that read weights as decode does reach about 80 % of the peak where the weight is
# large; below this share of it there is something to find.
ROOFLINE_SHARE = 0.6
# Where weights are nearly all that moves, the product is bound by bandwidth and not by arithmetic.
WEIGHT_SHARE = 0.95
# Filling and draining a GPU takes a few microseconds: shorter products cannot reach the peak.
SHORT_GEMM_NS = 10_000
LEAST_SLOW_SHARE = 0.02
EXPOSED_SHARE = 0.05


@rule("GT503", needs=Needs.STEPS)
def below_roofline(view: View) -> Iterator[Claim]:
    """Bandwidth-bound products far from the peak. Ceiling: their time beyond bytes / peak.

    Time of all GEMM kernels that one op launched, less the time its bytes (weights, input, output
    by the recorded shapes) take at peak bandwidth; only products longer than 10 us that move
    almost nothing but weights.
    """
    peak = view.analysis.ceilings.peak_bandwidth_bytes_per_s
    if peak is None or view.busy is None:
        return
    products = view.analysis.products
    bound = (products.moved > 0) & (products.bytes >= WEIGHT_SHARE * products.moved)
    rows, moved = products.rows[bound], products.moved[bound]
    if rows.size == 0:
        return
    links, count = view.device.links, len(view.steps)
    gemms = np.flatnonzero(view.of_class("gemm") & (view.op_step >= 0) & (view.launching_op >= 0))
    at = np.searchsorted(rows, view.launching_op[gemms])
    hit = (at < rows.size) & (rows[np.minimum(at, rows.size - 1)] == view.launching_op[gemms])
    gemms, at = gemms[hit], at[hit]
    time = np.bincount(at, weights=(links.end - links.start)[gemms], minlength=rows.size)
    least = moved / peak * 1e9
    slow = (time > SHORT_GEMM_NS) & (least < ROOFLINE_SHARE * time)
    step = np.full(rows.size, -1, np.int64)
    step[at] = view.op_step[gemms]
    excess = view.amount(np.bincount(step[slow], weights=(time - least)[slow], minlength=count))
    if not view.matters(excess.ns, LEAST_SLOW_SHARE):
        return
    spent = view.amount(np.bincount(step[slow], weights=time[slow], minlength=count))
    moved_sum, least_sum, time_sum = (float(x[slow].sum()) for x in (moved, least, time))
    mask = np.zeros(links.row.size, np.bool_)
    mask[gemms[slow[at]]] = True
    yield Claim(
        "GT503",
        min(excess.ns, view.busy),
        {
            "products": view.per_token(slow.sum(), COUNT),
            "bandwidth": quantity(moved_sum / time_sum * 1e9, BYTES_PER_S),
            "of_peak": quantity(least_sum / time_sum, SHARE),
            "peak_source": str(view.analysis.ceilings.peak_bandwidth_source),
            "spent": spent,
            "at_peak": quantity(spent.ns - excess.ns, NS, PREDICTED, AT_LEAST),
        },
        "likely",
        evidence=op_evidence(view, np.flatnonzero(mask), "GT503"),
        places=int(slow.sum()),
        ops=mask,
    )


@rule("GT504", needs=Needs.STEPS)
def exposed_communication(view: View) -> Iterator[Claim]:
    """Communication that no computing hides. Ceiling: that exposed communication."""
    links, steps = view.device.links, view.steps
    if view.busy is None:
        return
    talks = view.of_class("communication")
    mask = talks & (view.op_step >= 0)
    if not mask.any():
        return
    exposed = view.amount(steps.busy_kind_ns[:, BUSY_KINDS.index("exposed_communication")])
    if not view.matters(exposed.ns, EXPOSED_SHARE):
        return
    dur = (links.end - links.start)[mask]
    running = view.amount(np.bincount(view.op_step[mask], weights=dur, minlength=len(steps)))
    yield Claim(
        "GT504",
        min(exposed.ns, view.busy),
        {"communication": running, "exposed": exposed},
        evidence=op_evidence(view, np.flatnonzero(mask), "GT504"),
        places=int(mask.sum()),
        ops=mask,
    )


@rule("GT505", needs=Needs.STEPS)
def exposed_copies(view: View) -> Iterator[Claim]:
    """Copies between host and device that nothing hides. Ceiling: those exposed copies."""
    steps, limits = view.steps, view.analysis.ceilings
    exposed = view.amount(steps.bus_ns)
    if view.busy is None or not view.matters(exposed.ns, EXPOSED_SHARE):
        return
    kinds = busy_kinds(view.trace, view.device.links)
    mask = (kinds.from_host | kinds.to_host) & (view.op_step >= 0)
    links = view.device.links
    to_device = float(kinds.nbytes[mask & kinds.from_host].sum())
    nbytes = float(kinds.nbytes[mask].sum())
    taken = float((links.end - links.start)[mask].sum())
    yield Claim(
        "GT505",
        min(exposed.ns, view.busy),
        {
            "exposed": exposed,
            "share": quantity(exposed.ns / (view.period or 1), SHARE),
            "copies": view.per_token(mask.sum(), COUNT),
            "bytes": view.per_token(nbytes, BYTES),
            "to_device": quantity(to_device / nbytes, SHARE) if nbytes else None,
            "speed": quantity(nbytes / taken * 1e9, BYTES_PER_S) if nbytes and taken else None,
            "peak": quantity(limits.bus_bandwidth_bytes_per_s, BYTES_PER_S),
            "peak_source": limits.bus_bandwidth_source,
            "bound": limits.bus_bound,
        },
        title="bound" if limits.bus_bound else "",
        evidence=op_evidence(view, np.flatnonzero(mask), "GT505"),
        places=int(mask.sum()),
        ops=mask,
    )


# Issuing one kernel costs eager PyTorch 4 to 10 us of host time: a kernel shorter than that is
# over before the next one can be there.
TINY_NS = 10_000
# Fewer launches to save per step are not worth a compiler.
MANY = 20
CHAIN_LENGTH, CHAIN_REPEATS, CHAIN_SHOWN = 3, 4, 6
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


def _run_evidence(view: View, rule: str, runs: Runs, chosen: Ints) -> tuple[Evidence, ...]:
    """The runs that take the host longest, with their first and last kernel."""
    links = view.device.links
    order = chosen[np.lexsort((runs.begin[chosen], -runs.ns[chosen]))[:EVIDENCE_SHOWN]]
    shown = []
    for run in order:
        first, last = runs.ops[runs.first[run]], runs.ops[runs.first[run] + runs.size[run] - 1]
        what = label(rule, kernels=quantity(runs.size[run], COUNT))
        span = (runs.begin[run], runs.begin[run] + runs.ns[run])
        call, around = links.launch[first], (links.row[first], links.row[last])
        shown.append(
            evidence_at(view, what, runs.step[run], span, row=call, call=call, around=around)
        )
    return tuple(shown)


def _run_claims(
    view: View, rule: str, runs: Runs, chosen: Ints, places: int, facts: Mapping[str, Fact]
) -> Iterator[Claim]:
    """A claim to the host time that the chosen runs would spare, each as one kernel."""
    work = host_work(view, runs.step[chosen], runs.ns[chosen], runs.begin[chosen])
    if view.matters(work.gain.ns, EXTRAPOLATED):
        yield Claim(
            rule,
            work.gain.ns,
            {**facts, "host_time": work.time, "gain": work.gain},
            "likely",
            evidence=_run_evidence(view, rule, runs, chosen),
            places=places,
            gaps=work.gaps,
        )


@rule("GT501", "GT502", needs=Needs.CAUSES)
def tiny_kernels(view: View) -> Iterator[Claim]:
    """Many tiny kernels in a row (GT501), and the chain among them that repeats most (GT502).

    Ceiling: were each run one kernel, the host would be spared the time from the launch of the
    run's first kernel to that of its last; at most the late idle that follows.
    """
    runs = tiny_runs(view)
    removed = int((runs.size - 1).sum())
    if removed < MANY * int(view.usable.sum()):
        return
    dur = (view.device.links.end - view.device.links.start)[runs.ops]
    facts: dict[str, Fact] = {
        "kernels": view.per_token(runs.ops.size, COUNT),
        "duration": quantity(float(np.median(dur)), NS),
        "runs": view.per_token(runs.size.size, COUNT),
        "launches": view.per_token(removed, COUNT),
    }
    every = np.arange(runs.size.size)
    for claim in _run_claims(view, "GT501", runs, every, runs.ops.size, facts):
        yield claim
        yield from _chain(view, runs)


def _chain(view: View, runs: Runs) -> Iterator[Claim]:
    names = view.op_name[runs.ops]
    coded, width = names.tobytes(), names.itemsize
    chains = np.flatnonzero(runs.size >= CHAIN_LENGTH)
    begins, ends = runs.first[chains] * width, (runs.first + runs.size)[chains] * width
    groups: dict[bytes, list[int]] = {}
    for run, lo, hi in zip(chains.tolist(), begins.tolist(), ends.tolist(), strict=True):
        groups.setdefault(coded[lo:hi], []).append(run)
    least = CHAIN_REPEATS * int(view.usable.sum())
    often = [np.array(members) for members in groups.values() if len(members) >= least]
    if not often:
        return
    chosen = max(often, key=lambda members: int(runs.ns[members].sum()))
    first, size = int(runs.first[chosen[0]]), int(runs.size[chosen[0]])
    shown = names[first : first + min(size, CHAIN_SHOWN)].tolist()
    chain = [classify(view.trace.names[code]).short for code in shown]
    facts: dict[str, Fact] = {
        "length": quantity(size, COUNT),
        "times": view.per_token(chosen.size, COUNT),
        "chain": " → ".join(chain + ["…"] * (size > CHAIN_SHOWN)),
    }
    yield from _run_claims(view, "GT502", runs, chosen, chosen.size, facts)
