"""Findings about the host waiting for the GPU inside the step, by what made it wait.

The ceiling of each is the time the host spent in these calls, at most the idle with a late host
that follows (`View.freed`). Idle with cause `sync` alone would be too small: a wait also uses up
the host's lead, so that the gaps behind it, with other causes, are its doing too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gaptrace import intervals as iv
from gaptrace import units
from gaptrace.findings.evidence import host_evidence, names_counted
from gaptrace.findings.rule import Bools, Claim, Finding, Needs, rule
from gaptrace.findings.view import Calls, View
from gaptrace.knowledge import runtime_calls
from gaptrace.measure.links import names_where
from gaptrace.trace import Cat, Ints

if TYPE_CHECKING:
    from collections.abc import Iterator

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
TITLES = {
    SCALAR: ("GT201", "a value is read back in the step (.item())"),
    SHAPE: ("GT202", "an op waits to learn its output's size"),
    COPY: ("GT203", "blocking copies in the step"),
    EXPLICIT: ("GT204", "explicit synchronization in the step"),
}


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
    for code, (name, title) in TITLES.items():
        chosen = kind == code
        if chosen.any():
            own = Calls(*(column[chosen] for column in calls))
            yield from _wait(view, name, title, own, around[chosen])


def _wait(view: View, name: str, title: str, calls: Calls, around: Ints) -> Iterator[Claim]:
    work, begin = view.per_step(calls.step, calls.ns, calls.start)
    found = view.idle_amount(view.freed(work, begin, idle=view.late_ns))
    if not view.worth(found.ns):
        return
    tokens = float(view.steps.tokens[view.usable].sum())
    waited = view.amount(work)
    ops = iv.distinct(around[around >= 0])
    who = names_counted(view, ops, tokens) if ops.size else "The program itself"
    text = (
        f"{who} waits for the GPU: {units.time(waited.ns)} of host time per "
        f"token{waited.note} in {names_counted(view, calls.row, tokens)}. Without the wait the "
        "host would be that far ahead."
    )
    gaps = view.device.gaps
    drained = int((view.late_gaps & gaps.drained_by_sync).sum())
    idle = view.amount(view.by_step(view.cause("sync")))
    if drained or idle.ns:
        text += (
            f" All waits together cover {units.time(idle.ns)} of idle per token themselves, and "
            f"{units.count(drained)} gaps began with the queue run dry because of one."
        )
    text += _where(view)
    evidence = host_evidence(view, calls.row, calls.step, calls.ns)
    yield Claim(
        Finding(name, title, found.ns, "measured", text, evidence, int(calls.row.size)),
        view.late_in(work > 0),
    )


def _where(view: View) -> str:
    """Lines of the user's program that synchronize, where the collector saw them."""
    seen = view.analysis.manifest.get("steadiness", "synchronizations")
    places = [
        f"{item['op']} at {item['where']}"
        for item in (seen if isinstance(seen, list) else [])
        if isinstance(item, dict) and item.get("op") and item.get("where")
    ]
    return f" The recorder saw: {'; '.join(places[:3])}." if places else ""
