"""Findings about the host waiting for the GPU inside the step, by what made it wait.

The ceiling of each is the time the host spent in these calls, at most the idle with a late host
that follows (`View.gained`). Idle with cause `sync` alone would be too small: a wait also uses up
the host's lead, so that the gaps behind it, with other causes, are its doing too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gaptrace import intervals as iv
from gaptrace.findings.claims import host_claims
from gaptrace.findings.evidence import names_counted
from gaptrace.findings.rule import Claim, rule
from gaptrace.findings.wording import quantity
from gaptrace.measure.view import Needs, View
from gaptrace.measure.waits import COPY, EXPLICIT, SCALAR, SHAPE, wait_kinds
from gaptrace.quantity import COUNT, NS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gaptrace.findings.wording import Fact

# Copies from pageable memory to the device are left to GT205.
RULES = {SCALAR: "GT201", SHAPE: "GT202", COPY: "GT203", EXPLICIT: "GT204"}
LINES_SHOWN = 3


@rule("GT201", "GT202", "GT203", "GT204", needs=Needs.CAUSES)
def waits(view: View) -> Iterator[Claim]:
    """Waits by kind. Ceiling: time in these calls, at most the late idle after the first of them.

    Copies from pageable memory to the device are left to GT205.
    """
    calls = view.calls("sync")
    if calls.row.size == 0:
        return
    around = view.op_around(calls.row)
    kind = wait_kinds(view, calls, around)
    drained = int((view.late_gaps & view.device.gaps.drained_by_sync).sum())
    idle = view.amount(view.by_step(view.cause("sync"))).ns
    lines = [
        f"{item['op']} at {item['where']}"
        for item in view.recorded("steadiness", "synchronizations")
        if item.get("op") and item.get("where")
    ]
    for code, name in RULES.items():
        chosen = kind == code
        if not chosen.any():
            continue
        rows, ops = calls.row[chosen], iv.distinct(around[chosen & (around >= 0)])
        facts: dict[str, Fact] = {
            "ops": names_counted(view, ops) or None,
            "by_program": ops.size == 0,
            "calls": names_counted(view, rows),
            "wait_idle": quantity(idle, NS),
            "drained": quantity(drained, COUNT),
            "all_waits": bool(drained or idle),
            "lines": "; ".join(lines[:LINES_SHOWN]) or None,
        }
        step, ns = calls.step[chosen], calls.ns[chosen]
        yield from host_claims(view, name, rows, step, ns, facts, idle=view.late_ns)
