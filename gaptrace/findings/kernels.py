"""Findings about the GPU's own time: matrix products below the roofline, exposed communication."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gaptrace import intervals as iv
from gaptrace.findings.evidence import op_evidence
from gaptrace.findings.rule import Claim, rule
from gaptrace.findings.wording import quantity
from gaptrace.measure.view import Needs, View
from gaptrace.quantity import AT_LEAST, BYTES_PER_S, COUNT, NS, PREDICTED, SHARE

if TYPE_CHECKING:
    from collections.abc import Iterator


# Matrix products that read weights as decode does reach about 80 % of the peak where the weight is
# large; below this share of it there is something to find.
ROOFLINE_SHARE = 0.6
# Where weights are nearly all that moves, the product is bound by bandwidth and not by arithmetic.
WEIGHT_SHARE = 0.95
# Filling and draining a GPU takes a few microseconds: shorter products cannot reach the peak.
SHORT_GEMM_NS = 10_000
LEAST_SLOW_SHARE = 0.02
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
    links, count = view.device.links, len(view.steps)
    gemms = np.flatnonzero(view.of_class("gemm") & (view.op_step >= 0) & (view.launching_op >= 0))
    at = np.searchsorted(rows, view.launching_op[gemms])
    hit = (at < rows.size) & (rows[np.minimum(at, rows.size - 1)] == view.launching_op[gemms])
    gemms, at = gemms[hit], at[hit]
    time = np.bincount(at, weights=(links.end - links.start)[gemms], minlength=rows.size)
    least = moved / peak * 1e9
    slow = (time > SHORT_GEMM_NS) & (least < ROOFLINE_SHARE * time)
    step = np.full(rows.size, -1, np.int64)
    step[at] = view.op_step[gemms]
    excess = view.amount(np.bincount(step[slow], weights=(time - least)[slow], minlength=count))
    if not view.matters(excess.ns, LEAST_SLOW_SHARE):
        return
    spent = view.amount(np.bincount(step[slow], weights=time[slow], minlength=count))
    moved_sum, least_sum, time_sum = (float(x[slow].sum()) for x in (moved, least, time))
    mask = np.zeros(links.row.size, np.bool_)
    mask[gemms[slow[at]]] = True
    yield Claim(
        "GT503",
        min(excess.ns, view.busy),
        {
            "products": view.per_token(slow.sum(), COUNT),
            "bandwidth": quantity(moved_sum / time_sum * 1e9, BYTES_PER_S),
            "of_peak": quantity(least_sum / time_sum, SHARE),
            "peak_source": str(view.analysis.ceilings.peak_source),
            "spent": spent,
            "at_peak": quantity(spent.ns - excess.ns, NS, PREDICTED, AT_LEAST),
        },
        "likely",
        evidence=op_evidence(view, np.flatnonzero(mask), "GT503"),
        places=int(slow.sum()),
        ops=mask,
    )


@rule("GT504", needs=Needs.STEPS)
def exposed_communication(view: View) -> Iterator[Claim]:
    """Communication that no other kernel hides. Ceiling: busy time that it alone accounts for."""
    links, steps = view.device.links, view.steps
    if view.busy is None:
        return
    talks = view.of_class("communication")
    mask = talks & (view.op_step >= 0)
    if not mask.any():
        return
    others = iv.union(links.start[~talks], links.end[~talks])
    exposed = view.amount(
        steps.busy_ns
        - (iv.covered_before(others, steps.gpu_end) - iv.covered_before(others, steps.gpu_start))
    )
    if not view.matters(exposed.ns, EXPOSED_SHARE):
        return
    dur = (links.end - links.start)[mask]
    running = view.amount(np.bincount(view.op_step[mask], weights=dur, minlength=len(steps)))
    yield Claim(
        "GT504",
        min(exposed.ns, view.busy),
        {"communication": running, "exposed": exposed},
        evidence=op_evidence(view, np.flatnonzero(mask), "GT504"),
        places=int(mask.sum()),
        ops=mask,
    )
