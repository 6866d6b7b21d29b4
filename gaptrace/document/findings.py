"""Findings: what costs time, how much at most, where to see it, what to try, how to check."""

from __future__ import annotations

from collections.abc import Iterator

from gaptrace.document.blocks import Block, FindingItem, Findings, Sentence, Table, Text
from gaptrace.document.sections import Context
from gaptrace.document.tables import figures, name, table, words
from gaptrace.knowledge.kernel_names import classify
from gaptrace.quantity import AT_MOST, COUNT, NS, TRACED, Quantity
from gaptrace.results.analysis import AnalysisResult, Finding

IN_BRIEF = 3


def findings(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """The findings, largest ceiling first; those that another contains stand under it."""
    if not result.findings:
        if result.headline.step_ns is not None:
            yield Sentence(("No rule found anything that costs this step time.",))
        return
    ids = {item.id for item in result.findings}
    outer = [item for item in result.findings if item.part_of not in ids]
    kept = result.findings
    if context.brief:
        # What contains comes before what it contains; the rest is counted.
        inner = [item for item in result.findings if item not in outer]
        kept = (*outer, *inner)[:IN_BRIEF]
    items = tuple(_item(finding, kept, context) for finding in outer if finding in kept)
    yield Findings(items, len(result.findings) - len(kept))


def _item(finding: Finding, others: tuple[Finding, ...], context: Context) -> FindingItem:
    """One finding; the short form tells of the first alone, and leaves the rest to `explain`."""
    brief = context.brief
    parts = tuple(_item(part, others, context) for part in others if part.part_of == finding.id)
    return FindingItem(
        finding.id,
        finding.title,
        gain(finding),
        "" if brief and finding is not others[0] else finding.text,
        finding.confidence,
        finding.places,
        "" if brief else finding.how_we_know,
        "" if brief else finding.what_to_try,
        "" if brief else finding.how_to_check,
        None if brief or not finding.evidence else _evidence(finding, context.prefix),
        parts,
    )


def gain(finding: Finding) -> Quantity:
    """The most a finding can win per token, or that there is nothing to win."""
    if finding.ceiling_ns_per_token <= 0:
        return Quantity(None, NS, reason="nothing to win")
    return Quantity(finding.ceiling_ns_per_token, NS, bound=AT_MOST)


def _evidence(finding: Finding, prefix: str) -> Table:
    return table(
        f"{prefix}{finding.id}-evidence",
        "evidence",
        finding.evidence,
        [
            figures("at", NS, lambda e: e.start_ns, TRACED, "time"),
            figures("for", NS, lambda e: e.dur_ns, TRACED),
            figures("step", COUNT, lambda e: e.step, term="step"),
            words("what", lambda e: e.what),
            words("after", lambda e: _op(e.before)),
            words("before", lambda e: _op(e.after)),
            words("host call", lambda e: name(e.call)),
        ],
        shown=5,
        key=lambda e: e.target,
    )


def _op(raw: str) -> Text | None:
    return name(classify(raw).short, raw) if raw else None
