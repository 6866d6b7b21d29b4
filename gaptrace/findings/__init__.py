"""Findings: a registry of rules over one analysis, ranked by what they can win.

What makes the advice of others worth nothing comes before them: a step that recompiles every time
before its launches, a wait that stops a capture before the advice to capture.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gaptrace.findings import (  # noqa: F401 - importing a module of rules registers them
    compiling,
    gpu,
    graphs,
    host,
    kernels,
    recorder,
    trust,
    waits,
)
from gaptrace.findings.rule import REGISTRY, Claim
from gaptrace.findings.wording import Fact, clause_text, common_text, quantity, title_text
from gaptrace.knowledge.rules import page, template
from gaptrace.knowledge.short_names import frame_name
from gaptrace.measure.amount import Amount
from gaptrace.measure.gapwork import host_work
from gaptrace.measure.view import Needs, View
from gaptrace.quantity import NS, PREDICTED, Quantity, ranged
from gaptrace.results.analysis import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gaptrace.measure.result import Analysis
    from gaptrace.results.prediction import PredictionResult


def find(analysis: Analysis, prediction: PredictionResult | None = None) -> tuple[Finding, ...]:
    """The findings of an analysis: what makes others moot, then the largest gain; ties by id.

    A rule that needs withheld figures is not asked. Findings that count the same time name each
    other in `overlaps` and say so in their text.
    """
    view, claims = claims_of(analysis, prediction)
    return tuple(_finding(claim, claims, view) for claim in claims)


def claims_of(
    analysis: Analysis, prediction: PredictionResult | None = None
) -> tuple[View, list[Claim]]:
    """What the rules claim of an analysis, in the order of `find`, and what they looked at."""
    view = View(analysis, _captured(analysis, prediction))
    claims: list[Claim] = []
    for entry in dict.fromkeys(REGISTRY.values()):
        if view.known >= entry.needs:
            claims += entry.check(view)
    claims.sort(key=lambda claim: (-claim.ceiling, claim.rule))
    blocked = [b.title for b in prediction.capture.blockers if b.blocks] if prediction else []
    claims = [
        replace(claim, facts={**claim.facts, "blockers": "; ".join(blocked)})
        if blocked and claim.rule in CAPTURE_ADVICE
        else claim
        for claim in claims
    ]
    return view, _ranked(claims, view, prediction)


# A wait goes before the advice to capture where it is no detail of the step.
BLOCKING_SHARE = 0.05
CAPTURE_ADVICE = ("GT101", "GT501", "GT502")


def _ranked(
    claims: Sequence[Claim], view: View, prediction: PredictionResult | None
) -> list[Claim]:
    """The claims, each that makes others moot before the first of these."""
    blockers = {b.id for b in prediction.capture.blockers if b.blocks} if prediction else set()
    ranked = list(claims)
    for claim in claims:
        known = template(claim.rule)
        moots = set(known.moots)
        if claim.rule == "GT505" and not view.analysis.ceilings.bus_bound:
            moots = set()
        if not blockers.isdisjoint(known.blocked_by) and view.matters(
            claim.ceiling, BLOCKING_SHARE
        ):
            moots |= set(CAPTURE_ADVICE)
        place = ranked.index(claim)
        first = next((i for i, other in enumerate(ranked) if other.rule in moots), place)
        if first < place:
            ranked.insert(first, ranked.pop(place))
    return ranked


def _captured(analysis: Analysis, prediction: PredictionResult | None) -> Quantity | None:
    """A token's time if the step were captured, as predicted."""
    capture = None if prediction is None else prediction.capture
    if capture is None or capture.predicted_step_ns is None:
        return None
    tokens = analysis.headline.tokens_per_step or 1
    low, high = capture.range_ns or (capture.predicted_step_ns,) * 2
    return ranged(capture.predicted_step_ns / tokens, low / tokens, high / tokens, NS)


def _finding(claim: Claim, claims: Sequence[Claim], view: View) -> Finding:
    """The finding of a claim, in words, with what follows for it from the others."""
    known = page(claim.rule)
    facts = {**claim.facts, **view.words}
    overlaps = tuple(
        other.rule for other in claims if other is not claim and _overlap(claim, other)
    )
    confidence = claim.confidence
    if view.analysis.headline.complete == 0 and claim.ceiling > 0 and confidence == "measured":
        confidence = "likely"  # read from a single step whose end is not known
    text = clause_text(claim.rule, "text", facts)
    return Finding(
        id=claim.rule,
        title=title_text(claim.rule, claim.title, facts),
        ceiling_ns_per_token=claim.ceiling,
        confidence=confidence,
        text=" ".join((text, *_remarks(claim, claims, overlaps, view))),
        places=claim.places,
        overlaps=overlaps,
        part_of=_whole(claim, claims),
        how_we_know=known.how_we_know,
        what_to_try=known.what_to_try,
        how_to_check=known.how_to_check,
        evidence=claim.evidence,
        quantities={
            name: fact.quantity if isinstance(fact, Amount) else fact
            for name, fact in claim.facts.items()
            if isinstance(fact, Amount | Quantity)
        },
    )


def _remarks(
    claim: Claim, claims: Sequence[Claim], overlaps: Sequence[str], view: View
) -> Iterator[str]:
    """Sentences about a claim that follow from its gaps, the other claims, unprofiled times."""
    yield from _mostly(claim, view)
    if overlaps:
        yield common_text("overlaps", {"others": ", ".join(overlaps)})
    capped = view.known >= Needs.CAUSES and view.host_limit < (view.idle or 0)
    if capped and claim.gaps is not None and claim.ceiling >= view.host_limit:
        facts: dict[str, Fact] = {
            "idle_limit": quantity(view.idle_limit, NS),
            "nodes": quantity(
                view.analysis.headline.idle_by_cause_ns.get("graph_node") or None, "ns"
            ),
        }
        yield common_text("capped", {**facts, **view.words})
    elif claim.gaps is not None and (left := _predicted_idle(view)) and claim.ceiling > left:
        yield common_text("predicted_left", {"left": quantity(left, NS, PREDICTED), **view.words})
    on_gpu = claim.ops is not None and claim.gaps is None
    if on_gpu and any(other.rule == "GT101" for other in claims):
        yield common_text("host_first", {})


def _predicted_idle(view: View) -> float | None:
    """The most idle per token without the profiler, as predicted; None where it was measured."""
    idle = view.analysis.predicted.idle_range_ns
    if idle is None or view.analysis.headline.rate.unprofiled_step_ns is not None:
        return None
    return idle[1] / (view.analysis.headline.tokens_per_step or 1)


# What the host did is named where it is this much of the time in a finding's gaps.
NAMED_SHARE = 0.1


def _mostly(claim: Claim, view: View) -> Iterator[str]:
    """What the host did longest in the gaps that a claim counts, where that is no detail."""
    if claim.gaps is None or not claim.gaps.any():
        return
    pieces = view.analysis.gap_work
    pieces = pieces.only(claim.gaps[pieces.gap])
    tokens = float(view.steps.tokens[view.usable].sum()) or 1.0
    work = host_work(view.trace, pieces, int(pieces.ns.sum()), tokens)
    named = [part for part in work if part.name]
    if not named or (named[0].share or 0) < NAMED_SHARE:
        return
    what = frame_name(named[0].name)
    if named[0].where:
        what += f", called from {frame_name(named[0].where)}"
    facts: dict[str, Fact] = {"what": what, "time": quantity(named[0].ns, NS)}
    yield common_text("mostly", {**facts, **view.words})


def _whole(claim: Claim, claims: Sequence[Claim]) -> str | None:
    """The closest finding that counts all of this one's time."""
    larger = {other.rule for other in claims if other.ceiling >= claim.ceiling}
    return next((rule for rule in template(claim.rule).part_of if rule in larger), None)


def _overlap(left: Claim, right: Claim) -> bool:
    pairs = ((left.gaps, right.gaps), (left.ops, right.ops))
    return any(a is not None and b is not None and bool((a & b).any()) for a, b in pairs)
