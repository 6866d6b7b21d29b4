"""Findings: a registry of rules over one Analysis, ranked by what they can win."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from gaptrace import units
from gaptrace.findings import (
    between,
    compiling,
    copies,
    gpu,
    graphs,
    host,
    kernels,
    pointwise,
    recorder,
    trust,
    waits,
)
from gaptrace.findings.rule import REGISTRY, Claim, Finding, Needs
from gaptrace.findings.view import View

if TYPE_CHECKING:
    from gaptrace.measure.result import Analysis

# Importing a module of rules registers them.
RULE_MODULES = (
    trust,
    host,
    between,
    waits,
    copies,
    compiling,
    graphs,
    recorder,
    kernels,
    pointwise,
    gpu,
)


def find(analysis: Analysis) -> Analysis:
    """The analysis with its findings, the largest gain ceiling first; ties by id.

    A rule that needs withheld figures is not asked. Findings that count the same time name each
    other in `overlaps` and say so in their text.
    """
    view = View(analysis)
    claims: list[Claim] = []
    for entry in dict.fromkeys(REGISTRY.values()):
        if view.known >= entry.needs:
            claims += entry.check(view)
    claims.sort(key=lambda claim: (-claim.finding.ceiling_ns_per_token, claim.finding.id))
    found = tuple(_finished(claim, claims, view) for claim in claims)
    return dataclasses.replace(analysis, findings=found)


def _finished(claim: Claim, claims: list[Claim], view: View) -> Finding:
    """The finding of a claim, with its overlaps and what follows from the other findings."""
    finding = claim.finding
    overlaps = tuple(
        other.finding.id for other in claims if other is not claim and _overlap(claim, other)
    )
    text, confidence = finding.text, finding.confidence
    if overlaps:
        text += f" Shares time with {', '.join(overlaps)}: do not add the ceilings up."
    capped = view.known >= Needs.CAUSES and view.host_limit < (view.idle or 0)
    if capped and claim.gaps is not None and finding.ceiling_ns_per_token >= view.host_limit:
        text += _held(view)
    launch_bound = any(other.finding.id == "GT101" for other in claims)
    if claim.ops is not None and claim.gaps is None and launch_bound:
        text += " Pays only once the host is no longer the limit (GT101)."
    if view.analysis.headline.complete == 0 and finding.ceiling_ns_per_token > 0:
        # read from a single step whose end is not known
        confidence = "hint" if confidence == "hint" else "likely"
    title = finding.title
    if view.training:  # there a token is a step, and a step is no decode
        text, title = text.replace("per token", "per step"), title.replace("decode", "step")
    return dataclasses.replace(
        finding, title=title, text=text, confidence=confidence, overlaps=overlaps
    )


def _held(view: View) -> str:
    text = f" Held to the unprofiled idle of {units.time(view.idle_limit)} per token"
    nodes = view.analysis.headline.idle_by_cause_ns.get("graph_node")
    if nodes:
        text += f", less the {units.time(nodes)} between graph nodes"
    return text + "."


def _overlap(left: Claim, right: Claim) -> bool:
    pairs = ((left.gaps, right.gaps), (left.ops, right.ops))
    return any(a is not None and b is not None and bool((a & b).any()) for a, b in pairs)
