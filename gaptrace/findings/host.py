"""Findings about host work: launches, Python, the allocator, single ops that stall the host."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gaptrace import units
from gaptrace.findings.claims import gap_claims, host_claims
from gaptrace.findings.evidence import gap_evidence, names_counted
from gaptrace.findings.rule import Claim, rule
from gaptrace.findings.trust import PARTLY_CAPTURED, captured_share
from gaptrace.findings.wording import quantity
from gaptrace.measure.hosttime import HOST_CLASSES
from gaptrace.measure.marks import COMPILED_REGION
from gaptrace.measure.view import LAUNCHING_CAUSES, Needs, View
from gaptrace.quantity import COUNT, NS
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
