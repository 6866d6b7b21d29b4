"""The step time if this step, eager or compiled, were replayed from a CUDA graph."""

from __future__ import annotations

from gaptrace import units
from gaptrace.measure.result import Analysis
from gaptrace.predict.constants import GraphModel
from gaptrace.predict.nodes import Nodes
from gaptrace.predict.steps import CapturedStep
from gaptrace.results.prediction import PairCost


def captured_step(
    analysis: Analysis, nodes: Nodes | None, model: GraphModel
) -> CapturedStep | None:
    """The captured step with its parts; None where busy time or steps are not known.

    Of a recording that is captured already only what is left is predicted: one replay in place of
    several, and what runs outside of them.
    """
    if nodes is None:
        return None
    captured = analysis.headline.captured
    if captured and nodes.replays == 1 and not nodes.outside:
        return _done(nodes, model, "already captured: one replay, nothing outside it")
    busy = float(nodes.busy_ns)
    gaps = model.gaps_ns(nodes.pairs, len(nodes))
    extra = 0.0 if captured else model.memset_extra(nodes.memset_ns)
    step = model.step(busy, nodes.pairs, len(nodes), 1, extra)
    note = ""
    if captured:
        now = analysis.headline.step_ns
        if now is not None and now <= step.ns:
            return _done(nodes, model, f"already captured: {_outside(nodes)}; nothing left to win")
        note = f"already captured: {_outside(nodes)}; predicted is one replay of all of it"
    pairs = [
        PairCost(f"{a} > {b}", count, round(count * model.gap(a, b)))
        for (a, b), count in nodes.pairs.items()
    ]
    return CapturedStep(
        already=captured,
        step=step,
        busy_ns=busy,
        gaps_ns=gaps,
        replay_ns=model.replay_ns,
        memset_ns=extra,
        nodes=len(nodes),
        kernels=nodes.kernels,
        launches=1 + nodes.across,
        pairs=tuple(sorted(pairs, key=lambda item: (-item.ns, item.pair))),
        source=model.source,
        note=note,
    )


def _outside(nodes: Nodes) -> str:
    replays = "1 replay" if nodes.replays == 1 else f"{units.count(nodes.replays)} replays"
    return f"{replays} per step, {units.count(nodes.outside)} GPU ops outside"


def _done(nodes: Nodes, model: GraphModel, note: str) -> CapturedStep:
    return CapturedStep(
        already=True,
        step=None,
        busy_ns=float(nodes.busy_ns),
        nodes=len(nodes),
        kernels=nodes.kernels,
        launches=nodes.replays + nodes.outside,
        source=model.source,
        note=note,
    )
