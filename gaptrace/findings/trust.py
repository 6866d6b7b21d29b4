"""Findings about trust, and about there being nothing to win: ceilings are 0."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from gaptrace.findings.evidence import event_evidence, gap_evidence, label
from gaptrace.findings.rule import Claim, rule
from gaptrace.findings.wording import quantity
from gaptrace.measure.assess import on_cpu
from gaptrace.measure.ceilings import ALIKE
from gaptrace.measure.view import Needs, View
from gaptrace.quantity import COUNT, NS, SHARE, TIMES, Quantity
from gaptrace.results.analysis import Evidence
from gaptrace.trace import Cat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gaptrace.findings.wording import Fact

# From this share of kernels inside replays on, the step counts as captured ...
CAPTURED = 0.5
# ... and from this one on, what is launched one by one is a remainder around the replays.
PARTLY_CAPTURED = 0.2
# Profiling that slows the step by more than this makes traced idle a poor guide.
SLOWED = 1.2


def captured_share(view: View) -> float:
    """Share of the counted steps' kernels that run inside graph replays."""
    return view.analysis.headline.captured_share or 0.0


def _share(part: float, whole: float | None) -> Quantity | None:
    return quantity(part / whole, SHARE) if whole else None


@rule("GT001", "GT002", needs=Needs.STEPS)
def nothing_to_win(view: View) -> Iterator[Claim]:
    """The host is not in the way: late in under 1 % of the step, captured or not. Ceiling 0.

    Where causes are withheld, idle below that share is enough to say so.
    """
    if view.period is None or view.busy is None or view.idle is None:
        return
    causes_known = view.known >= Needs.CAUSES
    if view.matters(view.late.ns if causes_known else view.idle):
        return
    head = view.analysis.headline
    facts: dict[str, Fact] = {
        "idle_total": quantity(view.idle, NS),
        "idle_share": _share(view.idle, view.period),
    }
    limits = view.analysis.ceilings
    host = limits.host_dispatch_ns
    dispatch = None if host is None else host / (head.tokens_per_step or 1)
    bus = limits.bus_bound
    # What-ifs with a faster GPU are capped by such a host: then it is not out of the way.
    near = not bus and dispatch is not None and dispatch >= ALIKE * view.busy
    title = "bus" if bus else "matched" if near else ""
    facts["not_bus"], facts["not_the_host"] = bus, not title
    facts["dispatch"], facts["matched"] = quantity(dispatch, NS), near
    if causes_known:
        causes = head.idle_by_cause_ns if view.idle else {}
        facts["nodes"] = quantity(causes.get("graph_node") or None, NS)
        facts["device_waits"] = quantity(causes.get("device_wait") or None, NS)
        facts["late"] = view.late if view.matters(view.late.traced or 0.0) else None
    if captured_share(view) > CAPTURED:
        facts["captured"] = quantity(head.captured_share, SHARE)
        launches = head.per_token["launches"].median
        facts["launches"] = quantity(launches or None, COUNT)
        yield Claim("GT001", facts=facts, title=title)
        return
    queue = head.host_time_ns.get("backpressure")
    if causes_known and queue and view.matters(queue):
        facts["queue"] = quantity(queue, NS)
    yield Claim("GT002", facts=facts, title=title)


@rule("GT003", needs=Needs.STEPS)
def causes_withheld(view: View) -> Iterator[Claim]:
    """Causes cannot be told, so nothing is said about the host. Ceiling 0."""
    if view.known >= Needs.CAUSES or (view.idle is not None and not view.matters(view.idle)):
        return
    reasons = _reasons(view, "busy", "idle", "causes", "host")
    yield Claim("GT003", facts={"reasons": reasons or None, "mixed": not reasons})


def _reasons(view: View, *withheld: str) -> str:
    """Why the trace withholds any of these figures."""
    reasons = view.analysis.quality.reasons
    return "; ".join(r.text for r in reasons if not set(withheld).isdisjoint(r.withheld))


@rule("GT004", needs=Needs.NOTHING)
def no_steps(view: View) -> Iterator[Claim]:
    """No step could be measured. Ceiling 0."""
    if view.known > Needs.NOTHING or on_cpu(view.analysis.manifest):
        return
    steps, device = view.analysis.step_table, view.analysis.device
    reasons = _reasons(view, "steps", "per_token")
    facts: dict[str, Fact] = {
        "reasons": f"{reasons[0].upper()}{reasons[1:]}" if reasons else None,
        "none_left_over": not reasons,
    }
    if steps is not None and len(steps):
        phases = sorted(Counter(steps.phase).items())
        facts["rule"] = steps.rule
        facts["steps"] = quantity(len(steps), COUNT)
        facts["phases"] = ", ".join(f"{n} {phase}" for phase, n in phases)
        launched = device.links.row.size if device is not None else 0
        outside = launched - int((steps.op_step >= 0).sum())
        if outside > 0.5 * launched:
            facts["outside_share"] = quantity(outside / launched, SHARE)
    notes = view.trace.rows_of(Cat.ANNOTATION)
    longest = notes[np.argsort(-view.trace.dur[notes], kind="stable")[:3]].tolist()
    evidence: tuple[Evidence, ...] = tuple(
        event_evidence(view, label("GT004", name=view.trace.name_of(row)), row) for row in longest
    )
    yield Claim("GT004", facts=facts, evidence=evidence)


@rule("GT005", needs=Needs.CAUSES)
def profiler_idle(view: View) -> Iterator[Claim]:
    """Idle caused by the profiler's own work. Ceiling 0: it is gone when nobody profiles."""
    per_gap = view.cause("profiler")
    amount = view.amount(view.by_step(per_gap))
    if not view.matters(amount.ns):
        return
    yield Claim(
        "GT005",
        facts={"profiler": amount, "share": _share(amount.ns, view.idle)},
        evidence=gap_evidence(view, per_gap, "GT005"),
        places=int(((view.gap_step >= 0) & (per_gap > 0)).sum()),
    )


@rule("GT006", needs=Needs.STEPS)
def profiler_slowdown(view: View) -> Iterator[Claim]:
    """Profiling slows the step. Ceiling 0: it says which of two figures to believe.

    Needs the run's unprofiled step time; without it the slowdown is not known.
    """
    rate = view.analysis.headline.rate
    if rate.dilation is None or rate.dilation < SLOWED:
        return
    yield Claim(
        "GT006",
        facts={
            "slowdown": quantity(rate.dilation, TIMES),
            "step": quantity(rate.unprofiled_step_ns, NS, rate.source),
            "idle_limit": quantity(view.idle_limit, NS, rate.source),
        },
    )
