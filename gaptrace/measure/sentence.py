"""The answer in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gaptrace import units

if TYPE_CHECKING:
    from gaptrace.measure.result import Analysis

# What the screen calls each cause.
CAUSE_WORDS = {
    "graph_node": "between graph nodes",
    "device_wait": "device dependency or queue",
    "launch": "launch and its way to the GPU",
    "unattributed": "cause unknown",
    "sync": "waiting in a sync",
    "alloc": "memory allocator",
    "compile": "compiling",
    "runtime": "other runtime calls",
    "dispatch": "op dispatch",
    "python": "Python between ops",
    "profiler": "the profiler itself",
}
# Repairs after which missing GPU work is the file's fault.
DAMAGE = frozenset(
    {"truncated", "truncated_gzip", "corrupt_gzip", "given_up", "dropped_events", "log_lines"}
)
# The host can do nothing about these.
NOT_HOST = frozenset({"graph_node", "device_wait", "unattributed"})


def sentence(analysis: Analysis) -> str:
    """Rate, step time, idle share and largest cause; or why there is no such sentence."""
    if analysis.device is None:
        damage = next((p.text for p in analysis.trace.problems if p.id in DAMAGE), None)
        if damage:
            return f"No GPU work is left in what could be read of this file: {damage}."
        return "No GPU work was recorded, so there is nothing to measure."
    head, rate = analysis.headline, analysis.headline.rate
    period = head.steps["period_ns"].median
    device = analysis.device
    if period is None or analysis.quality.withholds("per_token", "rate"):
        idle = units.share(device.idle_ns, device.span_ns)
        return (
            f"No decode step could be measured; over the whole recording of "
            f"{units.time(device.span_ns)} the GPU was idle {idle} of the time."
        )
    step = rate.unprofiled_step_ns or period
    profiled = "" if rate.source == "unprofiled" else " (as profiled)"
    training = any(reason.id == "training" for reason in analysis.quality.reasons)
    what = "Training steps" if training else "Decode"
    text = f"{what}: {units.rate(rate.tokens_per_s)}, {units.time(step)} per step{profiled}"
    share, whole = head.steps["idle_ns"].median, period
    if rate.unprofiled_idle_ns is not None and rate.unprofiled_idle_ns >= 0:
        share, whole = rate.unprofiled_idle_ns, step
    if share is None:
        return text + "; idle time is withheld, see below."
    text += f". The GPU idles {units.share(share, whole)} of it"
    causes = {k: v for k, v in head.idle_by_cause_ns.items() if v}
    if not causes or share == 0:
        return text + "."
    # Causes are as traced, and profiling stretches them: none is larger than the idle time, and of
    # that the part between graph nodes, which profiling leaves as it is, is no other cause's.
    whole_idle = share / (head.tokens_per_step or 1)
    late = head.unprofiled_late_per_token
    rest = whole_idle if late is None else min(whole_idle, late)
    held = {k: min(v, whole_idle if k == "graph_node" else rest) for k, v in causes.items()}
    largest = max(causes, key=lambda name: (held[name], causes[name]))
    amount = units.time(held[largest])
    text += f"; largest cause: {CAUSE_WORDS[largest]}, "
    if largest in NOT_HOST:
        return text + f"{amount}/token."
    return text + f"up to {amount}/token recoverable."
