"""Findings about the GPU's own time: matrix products below the roofline, exposed communication."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gaptrace import intervals as iv
from gaptrace import units
from gaptrace.findings.evidence import op_evidence
from gaptrace.findings.rule import Claim, Finding, Needs, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gaptrace.findings.view import View

# Matrix products that read weights as decode does reach about 80 % of the peak where the weight is
# large; below this share of it there is something to find.
ROOFLINE_SHARE = 0.6
# Where weights are nearly all that moves, the product is bound by bandwidth and not by arithmetic.
WEIGHT_SHARE = 0.95
# Filling and draining a GPU takes a few microseconds: shorter products cannot reach the peak.
SHORT_GEMM_NS = 10_000
ROOFLINE_WORTH = 0.02
EXPOSED_SHARE = 0.05


@rule("GT503", needs=Needs.STEPS)
def below_roofline(view: View) -> Iterator[Claim]:
    """Bandwidth-bound products far from the peak. Ceiling: their time beyond bytes / peak.

    Time of all GEMM kernels that one op launched, less the time its bytes (weights, input, output
    by the recorded shapes) take at peak bandwidth; only products longer than 10 us that move
    almost nothing but weights.
    """
    peak = view.analysis.ceilings.peak_bandwidth
    if peak is None or view.busy is None:
        return
    products = view.analysis.products
    bound = (products.moved > 0) & (products.bytes >= WEIGHT_SHARE * products.moved)
    rows, moved = products.rows[bound], products.moved[bound]
    if rows.size == 0:
        return
    links = view.device.links
    own = np.flatnonzero(view.of_class("gemm") & (view.op_step >= 0) & (view.launching_op >= 0))
    at = np.searchsorted(rows, view.launching_op[own])
    hit = (at < rows.size) & (rows[np.minimum(at, rows.size - 1)] == view.launching_op[own])
    own, at = own[hit], at[hit]
    dur = (links.end - links.start)[own]
    time = np.bincount(at, weights=dur, minlength=rows.size)
    least = moved / peak * 1e9
    slow = (time > SHORT_GEMM_NS) & (least < ROOFLINE_SHARE * time)
    step = np.full(rows.size, -1, np.int64)
    step[at] = view.op_step[own]
    excess = np.bincount(step[slow], weights=(time - least)[slow], minlength=len(view.steps))
    found = view.amount(excess)
    if not view.worth(found.ns, ROOFLINE_WORTH):
        return
    mask = np.zeros(links.row.size, np.bool_)
    mask[own[slow[at]]] = True
    spent = view.amount(np.bincount(step[slow], weights=time[slow], minlength=len(view.steps)))
    tokens = float(view.steps.tokens[view.usable].sum())
    text = (
        f"{units.count(slow.sum() / tokens)} matrix products per token read their "
        f"weights at {units.bandwidth(float(moved[slow].sum() / time[slow].sum() * 1e9))}, "
        f"{units.share(float(least[slow].sum()), float(time[slow].sum()))} of the peak "
        f"({view.analysis.ceilings.peak_source}). They take {units.time(spent.ns)} per token; at "
        f"the peak it would be {units.time(spent.ns - found.ns)}."
    )
    index = np.flatnonzero(mask)
    evidence = op_evidence(view, index, (links.end - links.start)[index], "below the roofline")
    yield Claim(
        Finding(
            "GT503",
            "matrix products below the roofline",
            min(found.ns, view.busy),
            "likely",
            text,
            evidence,
            int(slow.sum()),
        ),
        ops=mask,
    )


@rule("GT504", needs=Needs.STEPS)
def exposed_communication(view: View) -> Iterator[Claim]:
    """Communication that no other kernel hides. Ceiling: busy time that it alone accounts for."""
    links, steps = view.device.links, view.steps
    if view.busy is None:
        return
    talks = view.of_class("communication")
    if not (talks & (view.op_step >= 0)).any():
        return
    others = iv.union(links.start[~talks], links.end[~talks])
    exposed = steps.busy_ns - (
        iv.covered_before(others, steps.gpu_end) - iv.covered_before(others, steps.gpu_start)
    )
    found = view.amount(exposed)
    if not view.worth(found.ns, EXPOSED_SHARE):
        return
    mask = talks & (view.op_step >= 0)
    own = np.bincount(
        view.op_step[mask], weights=(links.end - links.start)[mask], minlength=len(steps)
    )
    text = (
        f"Collectives run for {units.time(view.amount(own).ns)} per token, and for "
        f"{units.time(found.ns)} of busy time nothing else runs beside them. A collective also "
        "waits for the slowest rank: one rank's trace cannot tell waiting from moving bytes."
    )
    index = np.flatnonzero(mask)
    evidence = op_evidence(view, index, (links.end - links.start)[index], "collective")
    yield Claim(
        Finding(
            "GT504",
            "communication that nothing hides",
            min(found.ns, view.busy),
            "measured",
            text,
            evidence,
            int(mask.sum()),
        ),
        ops=mask,
    )
