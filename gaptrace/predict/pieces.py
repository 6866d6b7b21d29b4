"""A step captured in pieces: how many there would be, and what the seams cost.

At a seam the host launches some ops one by one and then the next piece. The host needs its time
for those ops, as recorded here, and one graph launch per piece; the GPU needs what one graph of the
whole step would take, and one more start per further piece. The slower of the two sets the pace.
"""

from __future__ import annotations

import numpy as np

from gaptrace import units
from gaptrace.measure.attribution import enclosing, outermost_rows
from gaptrace.measure.fusion_model import Estimate
from gaptrace.measure.links import names_where
from gaptrace.measure.result import Analysis
from gaptrace.measure.view import View
from gaptrace.predict.constants import SEAM_PRICE_NS, GraphModel
from gaptrace.predict.nodes import Nodes
from gaptrace.predict.square import is_compiled
from gaptrace.predict.steps import range_of
from gaptrace.results.prediction import MeasuredPieces, PredictedPieces
from gaptrace.trace import Cat, Ints


def at_attention(view: View, nodes: Nodes, model: GraphModel) -> PredictedPieces | None:
    """Seams at every attention op, the usual choice of serving engines; None without attention."""
    links = view.device.links
    chosen = nodes.index[[kind == "attention" for kind in nodes.kinds]]
    chosen = chosen[links.launched[chosen] & ~links.replayed[chosen]]
    return _pieces(view, nodes, model, links.launch[chosen], "attention")


def at_ops(view: View, nodes: Nodes, model: GraphModel, rows: Ints) -> PredictedPieces | None:
    """Seams at the ops around the given host events; None where none is in the typical step."""
    steps = view.steps
    begin, end = steps.host_start[nodes.step], steps.host_end[nodes.step]
    rows = rows[(view.trace.start[rows] >= begin) & (view.trace.start[rows] < end)]
    return _pieces(view, nodes, model, rows, "")


def _pieces(
    view: View, nodes: Nodes, model: GraphModel, rows: Ints, named: str
) -> PredictedPieces | None:
    trace, links = view.trace, view.device.links
    ops = trace.rows_of(Cat.CPU_OP)
    ops = outermost_rows(trace, ops[names_where(trace, trace.name[ops], lambda n: "::" in n)])
    around = np.unique(enclosing(trace, ops, rows)) if rows.size else rows
    around = around[around >= 0]
    if around.size == 0:
        return None
    seam_of = enclosing(trace, ops, np.where(links.launched, links.launch, -1)[nodes.index])
    between = np.isin(seam_of, around)
    groups = int((np.diff(between.astype(np.int8)) == 1).sum() + int(between[:1].sum()))
    seams = max(groups, 1)
    starts = np.diff(np.concatenate(([True], between, [True])).astype(np.int8))
    pieces = max(int((starts == -1).sum()), 1)
    dilation = view.analysis.headline.rate.dilation or 1.0
    host = float(trace.dur[around].sum()) / max(dilation, 1.0)
    memsets = model.memset_extra(nodes.memset_ns)
    whole = model.step(float(nodes.busy_ns), nodes.pairs, len(nodes), memset_extra_ns=memsets)
    further = (pieces - 1) * model.node_ns
    gpu = whole.ns + further
    launching = host + pieces * model.replay_ns
    ns = max(launching, gpu)
    names = sorted({trace.name_of(int(row)) for row in around})
    where = named or ", ".join(names[:4])
    step = Estimate(
        ns,
        max(whole.low_ns + further, 0.6 * launching),
        max(whole.high_ns + further, launching + gpu),
    )
    text = (
        f"{pieces} pieces with {seams} seams at {where}: the host needs "
        f"{units.time(host)} for the ops between them and {units.time(pieces * model.replay_ns)} "
        f"to launch the pieces"
    )
    low, high = SEAM_PRICE_NS
    return PredictedPieces(
        seams_at=where,
        seams=seams,
        pieces=pieces,
        predicted_step_ns=round(step.ns),
        range_ns=range_of(step),
        cost_ns=round(ns - whole.ns),
        text=text,
        price_each_ns=SEAM_PRICE_NS,
        price_ns=(seams * low, seams * high),
    )


def measured_pieces(analysis: Analysis | None, whole: Analysis | None) -> MeasuredPieces | None:
    """A recorded step in pieces, beside the same code in one graph; None where none was timed."""
    parts = None if analysis is None else analysis.piecewise
    time = None if analysis is None else analysis.headline.step_ns
    if analysis is None or parts is None or time is None:
        return None
    against = None if whole is None else whole.headline.step_ns
    return MeasuredPieces(
        compiled=is_compiled(analysis),
        pieces=parts.replays,
        seams=parts.seams,
        step_ns=float(time),
        source=analysis.headline.rate.source,
        whole_ns=against,
        more_ns=None if against is None else time - against,
    )
