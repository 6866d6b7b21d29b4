"""Findings about copies: from pageable host memory, and dtype casts and small copies on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gaptrace import intervals as iv
from gaptrace import units
from gaptrace.findings.evidence import host_evidence
from gaptrace.findings.rule import Claim, Finding, Needs, rule
from gaptrace.findings.view import EXTRAPOLATED, View
from gaptrace.findings.waits import TO_DEVICE, pageable_ops, wait_kinds
from gaptrace.measure.attribution import enclosing
from gaptrace.measure.links import names_where

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    sync = view.calls("sync")
    waiting = sync.row[wait_kinds(view, sync, view.op_around(sync.row)) == TO_DEVICE]
    rows = iv.distinct(np.concatenate((links.launch[pageable], waiting)))
    rows, step = view.on_launching_thread(rows)
    work, begin = view.per_step(step, trace.dur[rows], trace.start[rows])
    found = view.idle_amount(view.freed(work, begin, idle=view.late_ns))
    if not view.worth(found.ns):
        return
    tokens = float(view.steps.tokens[view.usable].sum())
    sizes = trace.gpu.bytes[np.searchsorted(trace.gpu.rows, links.row[pageable])]
    text = (
        f"{units.count(pageable.size / tokens)} copies per token come from pageable host "
        f"memory ({units.size(float(sizes.sum()) / tokens)} per token). Their calls keep the host "
        f"for {units.time(view.amount(work).ns)} per token{found.note}: the driver stages the "
        "bytes first, and the call may wait until the GPU has them."
    )
    evidence = host_evidence(view, rows, step, trace.dur[rows])
    yield Claim(
        Finding(
            "GT205",
            "copies from pageable memory",
            found.ns,
            "measured",
            text,
            evidence,
            int(pageable.size),
        ),
        view.late_in(work > 0),
    )


@rule("GT206", needs=Needs.CAUSES)
def small_copies(view: View) -> Iterator[Claim]:
    """Dtype casts and small copies. Ceiling: their own GPU time and the host time of their ops.

    Host time counts at most the late idle that follows; copies between host and device are not
    counted, and neither are copies inside graph replays, which cost no host time.
    """
    trace, links = view.trace, view.device.links
    rows = view.op_rows(*CAST_OPS, *LAYOUT_OPS)
    if rows.size == 0:
        return
    moved = names_where(
        trace, trace.name[links.row], lambda name: any(k in name for k in ("HtoD", "DtoH", "PtoP"))
    )
    small = links.end - links.start < SMALL_COPY_NS
    inside = (view.op_step >= 0) & links.launched & ~links.replayed
    around = enclosing(trace, rows, np.where(inside, links.launch, -1))
    across = iv.distinct(around[moved & (around >= 0)])
    ops = np.flatnonzero((around >= 0) & small & ~np.isin(around, across))
    mask = np.zeros(links.row.size, np.bool_)
    mask[ops] = True
    own = iv.distinct(around[ops])
    own, step = view.on_launching_thread(own)
    tokens = float(view.steps.tokens[view.usable].sum())
    if ops.size < FEW_COPIES * int(view.usable.sum()):
        return
    work, begin = view.per_step(step, trace.dur[own], trace.start[own])
    host = view.idle_amount(view.freed(work, begin))
    dur = np.bincount(
        view.op_step[ops], weights=(links.end - links.start)[ops], minlength=len(view.steps)
    )
    device = view.amount(dur)
    total = host.ns + device.ns
    if not view.worth(total, EXTRAPOLATED):
        return
    casts = int(names_where(trace, trace.name[own], frozenset(CAST_OPS).__contains__).sum())
    text = (
        f"{units.count(ops.size / tokens)} small copies per token, "
        f"{units.count(casts / tokens)} of them by a dtype or layout cast (.to()). They "
        f"keep the GPU for {units.time(device.ns)} and their ops keep the host for "
        f"{units.time(view.amount(work).ns)} per token, of which up to {units.time(host.ns)} is "
        "idle time."
    )
    seams = view.analysis.manifest.get("piecewise", "copied_inputs")
    if isinstance(seams, list) and seams:
        text += (
            f" {units.count(len(seams))} a step bring what a launched op returned into the next "
            "captured piece: those go with whole capture, not by compiling."
        )
    evidence = host_evidence(view, own, step, trace.dur[own])
    yield Claim(
        Finding(
            "GT206", "dtype casts and small copies", total, "likely", text, evidence, int(ops.size)
        ),
        view.late_in(work > 0),
        mask,
    )
