"""What the other modes of a run show of a finding's advice: the truth beside the prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from gaptrace.findings.wording import Fact, common_text
from gaptrace.knowledge.rules import template
from gaptrace.quantity import NS, UNPROFILED, Quantity
from gaptrace.results.analysis import Finding

# The mode that does what a finding of another mode advises.
REMEDIES: Mapping[str, Mapping[str, str]] = {
    "capture": {"eager": "graph", "compiled": "compiled-graph"},
    "compile": {"eager": "compiled", "graph": "compiled-graph"},
    "eager": {"compiled": "eager"},
}


@dataclass(frozen=True)
class Sibling:
    """Another mode of the run: its unprofiled step in ns, None where it failed, and why."""

    step_ns: float | None
    reason: str = ""


def with_siblings(
    finding: Finding, mode: str, step_ns: float | None, siblings: Mapping[str, Sibling]
) -> Finding:
    """The finding with what this run shows of its advice, in its text and its quantities.

    step_ns: the unprofiled step of the mode that the finding is of. Nothing is added where the mode
    that follows the advice was not asked for, or one of the two was not timed. The quantity `shown`
    is the unprofiled time per step that the other mode saves, below 0 where it takes longer.
    """
    other = sibling_of(finding.id, mode)
    found = siblings.get(other)
    if found is None:
        return finding
    facts: dict[str, Fact] = {"mode": other}
    if found.step_ns is None:
        reason = f" ({found.reason})" if found.reason else ""
        said = common_text("failed", {**facts, "reason": reason})
        return replace(finding, text=f"{finding.text} {said}")
    if step_ns is None:
        return finding
    less = step_ns - found.step_ns
    facts |= {
        "other": Quantity(found.step_ns, NS, UNPROFILED),
        "own": Quantity(step_ns, NS, UNPROFILED),
        "less": Quantity(less, NS, UNPROFILED),
    }
    said = common_text("shown" if less > 0 else "refuted", facts)
    shown = Quantity(less, NS, UNPROFILED, signed=True)
    return replace(
        finding, text=f"{finding.text} {said}", quantities={**finding.quantities, "shown": shown}
    )


def sibling_of(rule: str, mode: str) -> str:
    """The mode of a run that did what a rule advises for another mode; empty where none does."""
    return REMEDIES.get(template(rule).remedy, {}).get(mode, "")
