"""Whether a step can be captured: the verdict, its evidence, and the way in pieces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gaptrace.measure.result import Analysis
from gaptrace.measure.view import Needs, View
from gaptrace.predict.blockers import blockers, recorded_blockers
from gaptrace.predict.constants import GraphModel
from gaptrace.predict.differences import differences
from gaptrace.predict.nodes import Nodes
from gaptrace.predict.pieces import at_attention, at_ops
from gaptrace.reading.manifest import Manifest
from gaptrace.results.prediction import (
    AFTER_CHANGES,
    ALREADY,
    AS_IT_IS,
    IN_PIECES,
    NOT_KNOWN,
    Blocker,
    BlockerPlace,
    Capture,
    Doubt,
    PredictedPieces,
)

# Reasons for which a captured mode of a run failed, and what each asks for.
FAILED = {
    "moved_input": "keep the input at one address, or copy it into a static buffer",
    "changing_shape": "keep shapes fixed: a static cache, a fixed batch",
    "sync": "take the wait out of the step",
    "capture_error": "see the error; the named call is not allowed while a graph is captured",
    "recompiles": "make the compiled step steady first: see the guards that fail",
    "outputs_differ": "something that changes from step to step was frozen into the graph",
}
# Blockers that already say that a state grows.
GROWING = frozenset({"changing_shapes", "growing_inputs"})
ADDRESSES = "whether inputs move between steps: a trace does not tell, `gaptrace collect` does"
ONE_STEP = "whether launches and shapes differ between steps: only one step is complete"


def readiness(
    analysis: Analysis,
    nodes: Nodes | None,
    model: GraphModel,
    captured: Sequence[Manifest] = (),
    doubts: Sequence[Doubt] = (),
) -> Capture:
    """The verdict with its evidence, without the captured step.

    captured: manifests of captured modes of the same run. doubts: of the step's dataflow, where it
    was rebuilt from an execution trace.
    """
    view = View(analysis)
    if analysis.headline.captured:
        return _capture(ALREADY)
    if view.known < Needs.STEPS:
        return _capture(NOT_KNOWN, unknown=["no complete decode step that can be trusted"])
    compared, differing = differences(view)
    found = [*blockers(view), *recorded_blockers(view), *differing]
    if not any(item.id in GROWING for item in found):
        found += _growing(doubts)
    found = list({(item.id, item.blocks): item for item in reversed(found)}.values())[::-1]
    tried, failed = _tried(captured)
    found += [item for item in failed if item.id not in {b.id for b in found}]
    found.sort(key=lambda item: (not item.blocks, -item.ns_per_token, item.id))
    unknown = []
    if analysis.manifest.run.steadiness is None:
        unknown.append(ADDRESSES)
    if not compared:
        unknown.append(ONE_STEP)
    blocking = [item for item in found if item.blocks]
    if not blocking:
        verdict = AS_IT_IS
    else:
        verdict = IN_PIECES if any(item.seam for item in blocking) else AFTER_CHANGES
    return _capture(verdict, found, unknown, tried, _plans(view, nodes, model, blocking))


def _capture(
    verdict: str,
    blockers: Sequence[Blocker] = (),
    unknown: Sequence[str] = (),
    tried: str = "",
    pieces: Sequence[PredictedPieces] = (),
) -> Capture:
    ready = None if verdict == NOT_KNOWN else verdict in (AS_IT_IS, ALREADY)
    return Capture(
        ready, verdict, tuple(blockers), tuple(unknown), tried or None, tuple(pieces), None
    )


def _growing(doubts: Sequence[Doubt]) -> list[Blocker]:
    """States that grow by `cat`, as the execution trace shows them: a new address every step."""
    return [
        Blocker(
            id="growing_state",
            title="states grow from step to step",
            blocks=True,
            seam=False,
            per_token=float(len(doubt.ops)),
            ns_per_token=0.0,
            text=doubt.text,
            change="allocate the cache at full length once and write into it (a static cache)",
            places=tuple(
                BlockerPlace(None, None, None, op, "", "a cat whose result the next step reads")
                for op in doubt.ops
            ),
        )
        for doubt in doubts
        if doubt.id == "growing_state"
    ]


def _plans(
    view: View, nodes: Nodes | None, model: GraphModel, blocking: Sequence[Blocker]
) -> tuple[PredictedPieces, ...]:
    """Seams at the blockers that the typical step has, and seams at attention."""
    if nodes is None:
        return ()
    rows = np.array(
        [p.row for item in blocking for p in item.places if p.row is not None], np.int64
    )
    # Evidence holds a few places only: the same ops of the typical step are all seams.
    names = {view.trace.name[row] for row in view.op_around(rows) if row >= 0}
    same = view.trace.op.rows[np.isin(view.trace.name[view.trace.op.rows], list(names))]
    plans = [
        at_ops(view, nodes, model, np.unique(np.concatenate((rows, same)))) if rows.size else None,
        at_attention(view, nodes, model),
    ]
    return tuple(plan for plan in plans if plan is not None)


def _tried(captured: Sequence[Manifest]) -> tuple[str, list[Blocker]]:
    """What came of capturing in the same run, in words, and what stopped it."""
    words, found = [], []
    for manifest in captured:
        mode = manifest.mode or "captured"
        failure, reason = manifest.failure, manifest.failure.reason
        if not reason and manifest.run.status != "mode_failed":
            words.append(f"{mode}: captured in this run")
            continue
        kind = failure.kind or "capture_error"
        words.append(f"{mode}: failed in this run ({reason or kind})")
        if kind not in FAILED or mode != "graph":
            continue
        places = tuple(
            BlockerPlace(
                step=None,
                start_ns=None,
                dur_ns=None,
                op=item.what,
                call="",
                what=item.detail or "",
                stack=(item.where,) if item.where else (),
            )
            for item in failure.evidence
        )
        found.append(
            Blocker(
                id=kind,
                title="capture was tried in this run and failed",
                blocks=True,
                seam=False,
                per_token=float(len(places)),
                ns_per_token=0.0,
                text=reason or kind,
                change=FAILED[kind],
                places=places,
            )
        )
    return "; ".join(dict.fromkeys(words)), found
