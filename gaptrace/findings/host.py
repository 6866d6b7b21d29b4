"""Findings about host work: launches, Python, sampling, the allocator, one op, between steps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gaptrace import units
from gaptrace.findings.claims import gap_claims, host_claims
from gaptrace.findings.evidence import gap_evidence, names_counted
from gaptrace.findings.rule import Claim, rule
from gaptrace.findings.trust import PARTLY_CAPTURED, captured_share
from gaptrace.findings.wording import quantity
from gaptrace.measure.gaps import CAUSES as GAP_CAUSES
from gaptrace.measure.hosttime import HOST_CLASSES
from gaptrace.measure.links import names_where, rows_named
from gaptrace.measure.marks import COMPILED_REGION
from gaptrace.measure.view import LAUNCHING_CAUSES, NEVER, Bools, Needs, View
from gaptrace.quantity import BYTES, COUNT, NS
from gaptrace.trace import Cat, Ints
from gaptrace.vocabulary import CAUSES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gaptrace.findings.wording import Fact

# Below this share of a token's time, host lateness is a detail and not what limits the step.
LAUNCH_BOUND_SHARE = 0.05
# With fewer late gaps a step is not bound by launching, whatever the host does in them.
FEW_GAPS = 10
# Where the host dispatch time is not known, this share of idle says that launching bounds the step.
MOSTLY_IDLE = 0.5
# An op that runs this long by itself, without launching, is not dispatch: dispatching one op
# takes microseconds, a few tens under the profiler.
STALL_NS = 200_000
STALL_SHARE = 0.05
PYTHON_SHARE = 0.05
# Ops whose own time is that of what they wrap.
_WRAPPERS = ("autograd::engine::", "TorchDynamo Cache Lookup", "ProfilerStep", "CompiledFunction")


@rule("GT101", needs=Needs.CAUSES)
def launch_bound(view: View) -> Iterator[Claim]:
    """The host launches too slowly for the GPU. Ceiling: all idle caused by launching.

    That is idle time with cause `launch`, `dispatch`, `python`, `runtime` or `alloc`: in one graph
    replay no host work lies between the ops. Waits (`sync`) and compile work are not in it.
    """
    if captured_share(view) > PARTLY_CAPTURED:
        return
    head = view.analysis.headline
    causes = head.idle_by_cause_ns
    parts = [(name, ns) for name in LAUNCHING_CAUSES if (ns := causes.get(name))]
    ranked = sorted(parts, key=lambda part: -part[1])
    dispatch = head.per_token["host_dispatch_ns"].median
    compiled = view.regions[0].size > 0
    steps = int(view.usable.sum())
    facts: dict[str, Fact] = {
        "busy": quantity(view.busy, NS),
        "launches": quantity(head.per_token["launches"].median, COUNT),
        "dispatch": quantity(dispatch, NS),
        "causes": ", ".join(f"{CAUSES[name].label} {units.time(ns)}" for name, ns in ranked),
        "code": "compiled" if compiled else "eager",
        "compiled": compiled,
        "captured": view.captured,
    }
    for claim in gap_claims(view, "GT101", view.launching_ns, facts, LAUNCH_BOUND_SHARE):
        if claim.places < FEW_GAPS * steps:
            continue
        if dispatch is None or view.busy is None:
            slower = view.matters(claim.ceiling, MOSTLY_IDLE)
        else:
            slower = dispatch > view.busy
        gaps = quantity(claim.places / steps, COUNT)
        yield replace(
            claim, title="slower" if slower else "late", facts={**claim.facts, "gaps": gaps}
        )


@rule("GT102", needs=Needs.CAUSES)
def python_between_ops(view: View) -> Iterator[Claim]:
    """Python between ops. Ceiling: the host's Python time, at most the idle with a late host."""
    per_gap = view.cause("python")
    idle = view.amount(view.by_step(per_gap))
    if captured_share(view) > PARTLY_CAPTURED or not view.matters(idle.ns, PYTHON_SHARE):
        return
    work = view.steps.host_ns[:, HOST_CLASSES.index("python")]
    gain = view.idle_amount(view.gained(work, view.steps.gpu_start))
    gaps = (view.gap_step >= 0) & (per_gap > 0)
    functions = [row for row in view.analysis.host.python if row.self_ns > 0][:3]
    named = ", ".join(f"{row.name} ({units.time(row.self_ns)})" for row in functions)
    yield Claim(
        "GT102",
        gain.ns,
        {
            "host_time": view.amount(work),
            "python_idle": idle,
            "functions": named or None,
            "unnamed": not named,
        },
        evidence=gap_evidence(view, per_gap, "GT102"),
        places=int(gaps.sum()),
        gaps=gaps,
    )


@rule("GT104", needs=Needs.CAUSES)
def allocator(view: View) -> Iterator[Claim]:
    """Allocator calls in steady state. Ceiling: their time, at most the late idle after them."""
    rows, step, _, ns = view.calls("alloc")
    yield from host_claims(view, "GT104", rows, step, ns, {"calls": names_counted(view, rows)})


@rule("GT106", needs=Needs.CAUSES)
def stalling_op(view: View) -> Iterator[Claim]:
    """One op that launches nothing stalls the host. Ceiling: its self time, at most late idle.

    Self time is time in no nested op, call or compile work, per token over the counted steps.
    """
    for op in view.analysis.host.ops[:5]:
        if op.calls == 0 or op.launches > 0 or op.self_ns / op.calls < STALL_NS:
            continue
        if op.name.startswith(_WRAPPERS) or COMPILED_REGION.match(op.name):
            continue
        facts: dict[str, Fact] = {
            "op": op.name,
            "calls": quantity(op.calls, COUNT),
            "self_time": quantity(op.self_ns, NS),
        }
        work = view.self_time(op.name)
        for claim in host_claims(view, "GT106", *work, facts, least=STALL_SHARE):
            yield replace(claim, title="named")
            return


# A token id is 8 bytes per sequence; one row of logits of a small vocabulary is above this.
LOGITS_BYTES = 16_384
# Ops that choose a token. Where they launch nothing, they run on the CPU.
SAMPLING_OPS = frozenset(
    f"aten::{name}"
    for name in (
        "softmax", "_softmax", "log_softmax", "_log_softmax", "topk", "sort", "argsort",
        "multinomial", "argmax", "cumsum", "exponential_", "searchsorted",
    )
)  # fmt: skip
# Host work between two steps is named apart from launching when it takes this much of the step ...
BETWEEN_SHARE = 0.05
# ... and is this many times the usual late gap: else it is one launch among others.
BETWEEN_FACTOR = 5


@rule("GT103", "GT105", needs=Needs.CAUSES)
def end_of_step(view: View) -> Iterator[Claim]:
    """CPU-side sampling (GT103), else other host work between steps (GT105).

    Ceiling of GT103: idle with a late host that begins after the step's results were copied to
    the host, behind its last GEMM, until the next step's first op. Ceiling of GT105: the late
    part of the one gap that the next step's first op ends.
    """
    claims = [*_sampling(view)] or _between(view)
    yield from claims


def _sampling(view: View) -> Iterator[Claim]:
    copied, nbytes = _results_copied(view)
    has = view.usable & (copied < NEVER)
    if not has.any():
        return
    step = np.maximum(view.gap_step, 0)
    tail = view.late_gaps & has[step] & (view.device.gaps.start >= copied[step])
    names = _sampling_names(view, copied, has)
    per_token = float(nbytes[has].sum() / view.steps.tokens[has].sum())
    if not names and per_token < LOGITS_BYTES:
        return
    facts: dict[str, Fact] = {
        "copied": quantity(per_token, BYTES),
        "ops": ", ".join(names) or None,
        "large": not names,
    }
    for claim in gap_claims(view, "GT103", np.where(tail, view.late_ns, 0), facts):
        yield replace(claim, confidence="measured" if names else "likely")


def _results_copied(view: View) -> tuple[Ints, Ints]:
    """Per step the start of the first device-to-host copy behind its last GEMM, and bytes copied.

    `NEVER` and 0 for steps without such a copy.
    """
    count = len(view.steps)
    links, step = view.device.links, view.op_step
    gemm = view.of_class("gemm") & (step >= 0)
    ends = np.full(count, -1, np.int64)
    np.maximum.at(ends, step[gemm], links.end[gemm])
    last = np.where(ends >= 0, ends, NEVER)
    to_host = names_where(view.trace, view.op_name, lambda name: "DtoH" in name)
    to_host &= (links.cat == Cat.MEMCPY) & (step >= 0) & ~links.replayed
    to_host &= links.start >= last[np.maximum(step, 0)]
    first = np.full(count, NEVER)
    np.minimum.at(first, step[to_host], links.start[to_host])
    sizes = view.trace.gpu.bytes[np.searchsorted(view.trace.gpu.rows, links.row)]
    nbytes = np.bincount(step[to_host], weights=sizes[to_host], minlength=count)
    return first, nbytes.astype(np.int64)


def _sampling_names(view: View, copied: Ints, has: Bools) -> list[str]:
    """Sampling ops that ran after the copy, before the next step, and launched nothing."""
    trace = view.trace
    rows = rows_named(trace, SAMPLING_OPS.__contains__, Cat.CPU_OP)
    rows, step = view.on_launching_thread(rows)
    if rows.size == 0:
        return []
    links = view.device.links
    at = np.sort(trace.start[links.calls], kind="stable")
    end = trace.start[rows] + trace.dur[rows]
    launched = np.searchsorted(at, end) > np.searchsorted(at, trace.start[rows])
    after = has[step] & (end > copied[step]) & ~launched
    return sorted({trace.name_of(int(row)) for row in rows[after]})


def _between(view: View) -> Iterator[Claim]:
    if captured_share(view) > PARTLY_CAPTURED:
        return
    step = np.maximum(view.gap_step, 0)
    last = view.late_gaps & (view.device.gaps.end == view.steps.gpu_end[step])
    per_gap = np.where(last, view.late_ns, 0)
    others = view.late_ns[view.late_gaps & ~last]
    usual = float(np.median(others)) if others.size else 0.0
    if not last.any() or float(np.median(per_gap[last])) < BETWEEN_FACTOR * usual:
        return
    spent = view.device.gaps.cause_ns[last].sum(axis=0).tolist()
    largest = sorted(zip(GAP_CAUSES, spent, strict=True), key=lambda part: -part[1])[:2]
    causes = " and ".join(
        f"{CAUSES[name].label} ({units.share(ns, sum(spent))})" for name, ns in largest if ns
    )
    yield from gap_claims(view, "GT105", per_gap, {"causes": causes}, BETWEEN_SHARE)
