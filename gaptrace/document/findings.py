"""Findings: what costs time, how much at most, where to see it, what to try, how to check."""

from __future__ import annotations

from collections.abc import Iterator

from gaptrace.document import tables as t
from gaptrace.document.blocks import Block, FindingItem, Findings, Sentence, Table, Text
from gaptrace.document.sections import Context
from gaptrace.document.steps import host_did
from gaptrace.knowledge.kernel_names import classify
from gaptrace.quantity import AT_MOST, NS, TRACED, Quantity
from gaptrace.results.analysis import AnalysisResult, Finding

IN_BRIEF = 3


def findings(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """The findings, largest ceiling first; those that another contains stand under it."""
    kept = result.findings
    if not kept:
        if result.headline.step_ns is not None:
            yield Sentence(("No rule found anything that costs this step time.",))
        return
    ids = {item.id for item in kept}
    outer = [item for item in kept if item.part_of not in ids]
    if context.brief:
        # What contains comes before what it contains; the rest is counted.
        kept = (*outer, *(item for item in kept if item not in outer))[:IN_BRIEF]
    items = tuple(_item(finding, kept, context) for finding in outer if finding in kept)
    yield Findings(items, len(result.findings) - len(kept))


def _item(finding: Finding, others: tuple[Finding, ...], context: Context) -> FindingItem:
    """One finding; the short form tells of the first alone, and leaves the rest to `explain`."""
    brief = context.brief
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
        None if brief or not finding.evidence else _evidence(finding),
        tuple(_item(part, others, context) for part in others if part.part_of == finding.id),
    )


def gain(finding: Finding) -> Quantity:
    """The most a finding can win per token, or that there is nothing to win."""
    if finding.ceiling_ns_per_token <= 0:
        return Quantity(None, NS, reason="nothing to win")
    return Quantity(finding.ceiling_ns_per_token, NS, bound=AT_MOST)


def _evidence(finding: Finding) -> Table:
    columns = (
        t.times("at", "start_ns", TRACED, "time"),
        t.times("for", "dur_ns", TRACED),
        t.counts("step", "step", "step"),
        t.words("what", "what"),
        t.words("after", lambda e: op(e.before)),
        t.words("before", lambda e: op(e.after)),
        *host_did("of it"),
        t.names("host call", "call"),
    )
    anchor = f"{finding.id}-evidence"
    return t.table(anchor, "evidence", finding.evidence, columns, shown=5, key="target")


def op(raw: str) -> Text | None:
    """A GPU op by its short name; the whole of it stands behind."""
    return t.name(classify(raw).short, raw) if raw else None
