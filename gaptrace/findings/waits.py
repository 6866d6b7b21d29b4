"""Findings about the host waiting for the GPU inside the step, and about copies.

The ceiling of a wait is the time the host spent in it, at most the idle with a late host that
follows (`View.gained`). Idle with cause `sync` alone would be too small: a wait also uses up the
host's lead, so that the gaps behind it, with other causes, are its doing too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gaptrace import intervals as iv
from gaptrace.findings.claims import host_claims, host_work
from gaptrace.findings.evidence import host_evidence, names_counted
from gaptrace.findings.rule import Claim, rule
from gaptrace.findings.wording import quantity
from gaptrace.measure.attribution import enclosing
from gaptrace.measure.links import names_where
from gaptrace.measure.view import EXTRAPOLATED, Needs, View
from gaptrace.measure.waits import (
    COPY,
    EXPLICIT,
    SCALAR,
    SHAPE,
    TO_DEVICE,
    pageable_ops,
)
from gaptrace.measure.waits import waits as waits_of
from gaptrace.quantity import BYTES, COUNT, NS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gaptrace.findings.wording import Fact
    from gaptrace.trace import Ints

# Copies from pageable memory to the device are left to GT205.
RULES = {SCALAR: "GT201", SHAPE: "GT202", COPY: "GT203", EXPLICIT: "GT204"}
LINES_SHOWN = 3


@rule("GT201", "GT202", "GT203", "GT204", needs=Needs.CAUSES)
def waits(view: View) -> Iterator[Claim]:
    """Waits by kind. Ceiling: time in these calls, at most the late idle after the first of them.

    Copies from pageable memory to the device are left to GT205.
    """
    calls, around, kind = waits_of(view)
    if calls.row.size == 0:
        return
    drained = int((view.late_gaps & view.device.gaps.drained_by_sync).sum())
    idle = view.amount(view.by_step(view.cause("sync"))).ns
    lines = [
        f"{item.op} at {item.where}"
        for item in view.analysis.manifest.steadiness.synchronizations or ()
        if item.op and item.where
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


# Moves fewer bytes than the GPU copies while the host launches once (10 us at several TB/s): such a
# copy costs what its launch costs.
SMALL_COPY_NS = 10_000
# A handful of copies per step is every step's business (token in, token out, position).
FEW_COPIES = 8
CAST_OPS = ("aten::to", "aten::_to_copy", "aten::type_as")
LAYOUT_OPS = ("aten::copy_", "aten::clone", "aten::contiguous")


@rule("GT205", needs=Needs.CAUSES)
def pageable_copies(view: View) -> Iterator[Claim]:
    """Copies from pageable memory. Ceiling: time in their calls and waits, at most late idle."""
    trace, links = view.trace, view.device.links
    pageable = np.flatnonzero(pageable_ops(view))
    if pageable.size == 0:
        return
    sync = waits_of(view)
    waiting = sync.calls.row[sync.kind == TO_DEVICE]
    rows = iv.distinct(np.concatenate((links.launch[pageable], waiting)))
    rows, step = view.on_launching_thread(rows)
    sizes = trace.gpu.bytes[np.searchsorted(trace.gpu.rows, links.row[pageable])]
    facts: dict[str, Fact] = {
        "copies": view.per_token(pageable.size, COUNT),
        "bytes": view.per_token(sizes.sum(), BYTES),
    }
    for claim in host_claims(view, "GT205", rows, step, trace.dur[rows], facts, idle=view.late_ns):
        yield replace(claim, places=int(pageable.size))


@rule("GT206", needs=Needs.CAUSES)
def small_copies(view: View) -> Iterator[Claim]:
    """Dtype casts and small copies. Ceiling: their own GPU time and the host time of their ops.

    Host time counts at most the late idle that follows; copies between host and device are not
    counted, and neither are copies inside graph replays, which cost no host time.
    """
    trace, links = view.trace, view.device.links
    ops, callers = _small_copies(view)
    if ops.size < FEW_COPIES * int(view.usable.sum()):
        return
    rows, step = view.on_launching_thread(callers)
    work = host_work(view, step, trace.dur[rows], trace.start[rows])
    dur = (links.end - links.start)[ops]
    gpu = view.amount(np.bincount(view.op_step[ops], weights=dur, minlength=len(view.steps)))
    ceiling = work.gain.ns + gpu.ns
    if not view.matters(ceiling, EXTRAPOLATED):
        return
    casts = int(names_where(trace, trace.name[rows], frozenset(CAST_OPS).__contains__).sum())
    inputs = view.analysis.manifest.piecewise.copied_inputs or ()
    mask = np.zeros(links.row.size, np.bool_)
    mask[ops] = True
    yield Claim(
        "GT206",
        ceiling,
        {
            "copies": view.per_token(ops.size, COUNT),
            "casts": view.per_token(casts, COUNT),
            "gpu_time": gpu,
            "host_time": work.time,
            "gain": work.gain,
            "piece_inputs": quantity(len(inputs) or None, COUNT),
        },
        "likely",
        evidence=host_evidence(view, rows, step, trace.dur[rows]),
        places=int(ops.size),
        gaps=work.gaps,
        ops=mask,
    )


def _small_copies(view: View) -> tuple[Ints, Ints]:
    """Small copies that casts and clones launched one by one, and those ops."""
    trace, links = view.trace, view.device.links
    rows = view.op_rows(*CAST_OPS, *LAYOUT_OPS)
    crossing = names_where(
        trace, trace.name[links.row], lambda name: any(k in name for k in ("HtoD", "DtoH", "PtoP"))
    )
    small = links.end - links.start < SMALL_COPY_NS
    inside = (view.op_step >= 0) & links.launched & ~links.replayed
    around = enclosing(trace, rows, np.where(inside, links.launch, -1))
    across = iv.distinct(around[crossing & (around >= 0)])
    ops = np.flatnonzero((around >= 0) & small & ~np.isin(around, across))
    return ops, iv.distinct(around[ops])
