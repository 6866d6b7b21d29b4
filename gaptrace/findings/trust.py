"""Findings about trust, and about there being nothing to win: ceilings are 0."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from gaptrace import units
from gaptrace.findings.evidence import gap_evidence
from gaptrace.findings.rule import Claim, Evidence, Finding, Needs, rule
from gaptrace.trace import Cat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gaptrace.findings.view import View

# From this share of kernels inside replays on, the step counts as captured ...
CAPTURED = 0.5
# ... and from this one on, what is launched one by one is a remainder around the replays.
PARTLY_CAPTURED = 0.2
# Profiling that slows the step by more than this makes traced idle a poor guide.
DILATED = 1.2
FEWER = "fewer or faster kernels"


def captured_share(view: View) -> float:
    """Share of the counted steps' kernels that run inside graph replays."""
    return view.analysis.headline.captured_share or 0.0


@rule("GT001", "GT002", needs=Needs.STEPS)
def nothing_to_win(view: View) -> Iterator[Claim]:
    """The host is not in the way: late in under 1 % of the step, captured or not. Ceiling 0.

    Where causes are withheld, idle below that share is enough to say so.
    """
    if view.period is None or view.busy is None or view.idle is None:
        return
    late = view.late.ns if view.known >= Needs.CAUSES else view.idle
    if view.worth(late):
        return
    idle = _idle_words(view)
    if view.known >= Needs.CAUSES and view.worth(view.late.traced or 0.0):
        idle += f" The host is late for {view.late.idle_words}."
    if captured_share(view) > CAPTURED:
        head = view.analysis.headline
        launches = head.per_token["launches"].median
        text = f"{units.share(head.captured_share, 1)} of the kernels run inside graph replays"
        if launches:
            calls = "launch call" if launches == 1 else "launch calls"
            text += f", {units.count(launches)} {calls} per token"
        text += f". {idle} There is nothing to win on the host; a shorter step needs {FEWER}."
        title = "captured decode: nothing to win on the host"
        yield Claim(Finding("GT001", title, 0.0, "measured", text))
        return
    queue = view.analysis.headline.host_time_ns.get("backpressure")
    text = idle
    if view.known >= Needs.CAUSES and queue and view.worth(queue):
        text += (
            f" The host runs so far ahead that it waits {units.time(queue)} per token for room "
            "in the launch queue."
        )
    text += f" There is nothing to win on the host; a shorter step needs {FEWER}."
    title = "GPU-bound: nothing to win on the host"
    yield Claim(Finding("GT002", title, 0.0, "measured", text))


def _idle_words(view: View) -> str:
    assert view.idle is not None
    text = f"Idle is {units.time(view.idle)} per token ({units.share(view.idle, view.period)})"
    if view.known < Needs.CAUSES or view.idle == 0:
        return text + "."
    causes = view.analysis.headline.idle_by_cause_ns
    parts = [
        f"{units.time(causes[name])} {words}"
        for name, words in (
            ("graph_node", "between graph nodes"),
            ("device_wait", "waiting on the device itself"),
        )
        if causes.get(name)
    ]
    return text + (f", of it {' and '.join(parts)}." if parts else ".")


@rule("GT003", needs=Needs.STEPS)
def causes_withheld(view: View) -> Iterator[Claim]:
    """Causes cannot be told, so nothing is said about the host. Ceiling 0."""
    if view.known >= Needs.CAUSES or (view.idle is not None and not view.worth(view.idle)):
        return
    hidden = {"busy", "idle", "causes", "host"}
    why = [r.text for r in view.analysis.quality.reasons if hidden.intersection(r.withheld)]
    text = "No cause of idle time is named, and no advice about the host given"
    text += f": {'; '.join(why)}." if why else ": every counted step mixes work of other steps."
    yield Claim(Finding("GT003", "causes of idle time are withheld", 0.0, "measured", text))


@rule("GT004", needs=Needs.NOTHING)
def no_steps(view: View) -> Iterator[Claim]:
    """No decode step could be measured. Ceiling 0."""
    if view.known > Needs.NOTHING:
        return
    steps, analysis = view.analysis.step_table, view.analysis
    hidden = {"steps", "per_token"}
    text = "; ".join(r.text for r in analysis.quality.reasons if hidden.intersection(r.withheld))
    text = text or "no counted step is left"
    text = f"{text[0].upper()}{text[1:]}."
    if steps is not None and len(steps):
        phases = Counter(steps.phase)
        text += f" Steps were looked for by the rule '{steps.rule}': {len(steps)} found, "
        text += ", ".join(f"{n} {phase}" for phase, n in sorted(phases.items())) + "."
        launched = analysis.device.links.row.size if analysis.device is not None else 0
        inside = int((steps.op_step >= 0).sum())
        if launched and inside < 0.5 * launched:
            text += f" {units.share(launched - inside, launched)} of the GPU ops lie outside them."
    notes = view.trace.rows_of(Cat.ANNOTATION)
    evidence: tuple[Evidence, ...] = ()
    if notes.size:
        longest = notes[np.argsort(-view.trace.dur[notes], kind="stable")[:3]]
        evidence = tuple(
            Evidence(
                None,
                int(view.trace.start[row]),
                int(view.trace.start[row] + view.trace.dur[row]),
                f"annotation {view.trace.name_of(int(row))}",
                row=int(row),
            )
            for row in longest
        )
    yield Claim(Finding("GT004", "no decode step measured", 0.0, "measured", text, evidence))


@rule("GT005", needs=Needs.CAUSES)
def profiler_idle(view: View) -> Iterator[Claim]:
    """Idle caused by the profiler's own work. Ceiling 0: it is gone when nobody profiles."""
    own = view.cause("profiler")
    found = view.amount(view.by_step(own))
    if not view.worth(found.ns):
        return
    gaps = (view.gap_step >= 0) & (own > 0)
    text = (
        f"{units.time(found.ns)} of idle time per token{found.note} is the profiler's own work "
        f"({units.share(found.ns, view.idle)} of idle). It is not there when nobody profiles and "
        "is in no ceiling."
    )
    evidence = gap_evidence(view, own, "the profiler's own work")
    title = "idle caused by the profiler itself"
    yield Claim(Finding("GT005", title, 0.0, "measured", text, evidence, int(gaps.sum())))


@rule("GT006", needs=Needs.STEPS)
def dilation(view: View) -> Iterator[Claim]:
    """Profiling slows the step. Ceiling 0: it says which of two figures to believe.

    Needs the run's unprofiled step time; without it the dilation is not known.
    """
    rate = view.analysis.headline.rate
    if rate.dilation is None or rate.dilation < DILATED:
        return
    text = (
        f"A profiled step takes {units.digits(rate.dilation, 2)} times as long as an unprofiled "
        f"one ({units.time(rate.unprofiled_step_ns)}). Profiling slows the host, not the kernels: "
        "traced idle and host times are upper bounds, and no ceiling here exceeds the unprofiled "
        f"idle of {units.time(view.idle_limit)} per token."
    )
    yield Claim(Finding("GT006", "profiling slows this step", 0.0, "measured", text))
