"""Findings about the host waiting for the GPU inside the step, by what made it wait.

The ceiling of each is the time the host spent in these calls, at most the idle with a late host
that follows (`View.gained`). Idle with cause `sync` alone would be too small: a wait also uses up
the host's lead, so that the gaps behind it, with other causes, are its doing too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gaptrace import intervals as iv
from gaptrace.findings.claims import host_claims
from gaptrace.findings.evidence import names_counted
from gaptrace.findings.quantity import quantity
from gaptrace.findings.rule import Claim, rule
from gaptrace.findings.view import Bools, Calls, Needs, View
from gaptrace.knowledge import runtime_calls
from gaptrace.measure.links import names_where
from gaptrace.trace import Cat, Ints

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gaptrace.findings.wording import Fact

SCALAR_OPS = frozenset(
    f"aten::{name}" for name in ("_local_scalar_dense", "item", "is_nonzero", "equal")
)
SHAPE_OPS = frozenset(
    f"aten::{name}"
    for name in (
        "nonzero", "masked_select", "unique", "_unique", "_unique2", "unique_dim",
        "unique_consecutive", "repeat_interleave", "bincount", "argwhere",
    )
)  # fmt: skip
COPY_OPS = frozenset(
    f"aten::{name}"
    for name in ("copy_", "_to_copy", "to", "_foreach_copy_", "_copy_from", "clone", "set_")
)
SCALAR, SHAPE, TO_DEVICE, COPY, EXPLICIT = range(5)
# Copies from pageable memory to the device are left to GT205.
RULES = {SCALAR: "GT201", SHAPE: "GT202", COPY: "GT203", EXPLICIT: "GT204"}
LINES_SHOWN = 3


def wait_kinds(view: View, calls: Calls, around: Ints) -> Ints:
    """What made each call wait: the op around it, else the call itself.

    `TO_DEVICE` are copies whose op moved pageable host memory to the device.
    """
    trace = view.trace
    kind = np.full(calls.row.size, EXPLICIT, np.int64)
    kind[names_where(trace, trace.name[calls.row], runtime_calls.is_copy)] = COPY
    inside = around >= 0
    names = trace.name[around[inside]]
    for code, named in ((COPY, COPY_OPS), (SHAPE, SHAPE_OPS), (SCALAR, SCALAR_OPS)):
        hit = names_where(trace, names, named.__contains__)
        kind[np.flatnonzero(inside)[hit]] = code
    pageable = pageable_ops(view)
    to_device = np.isin(calls.row, view.device.links.launch[pageable])
    ops = view.launching_op[pageable]
    to_device |= inside & np.isin(around, ops[ops >= 0])
    kind[to_device & (kind == COPY)] = TO_DEVICE
    return kind


def pageable_ops(view: View) -> Bools:
    """Copies from pageable host memory to the device in usable steps, outside replays."""
    links = view.device.links
    named = names_where(
        view.trace, view.trace.name[links.row], lambda name: "HtoD" in name and "Pageable" in name
    )
    launched = links.launched & ~links.replayed
    return np.asarray(named & launched & (links.cat == Cat.MEMCPY) & (view.op_step >= 0))


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
            "wait_idle": quantity(idle, "ns/token"),
            "drained": quantity(drained, "count"),
            "all_waits": bool(drained or idle),
            "lines": "; ".join(lines[:LINES_SHOWN]) or None,
        }
        step, ns = calls.step[chosen], calls.ns[chosen]
        yield from host_claims(view, name, rows, step, ns, facts, idle=view.late_ns)
