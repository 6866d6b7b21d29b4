"""What a finding is, what a rule may claim, and how rules are registered."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gaptrace.findings.quantity import Quantity
from gaptrace.findings.view import Bools, Needs, View
from gaptrace.findings.wording import Fact


@dataclass(frozen=True)
class Evidence:
    """One place in the trace that a finding points at.

    step: index into the step table, None outside steps. start_ns, end_ns: trace time. what: the
    gap, op or call in words. before, after: the GPU ops around it. call: the host call that
    overlapped it. row: event row to jump to, None where the evidence is not one event.
    """

    step: int | None
    start_ns: int
    end_ns: int
    what: str
    before: str = ""
    after: str = ""
    call: str = ""
    row: int | None = None


@dataclass(frozen=True)
class Finding:
    """Something that costs time, with the most it can win.

    id: stable, `GT101`. ceiling_ns_per_token: upper bound of the gain; 0 where the finding is
    about trust or about there being nothing to win. confidence: `measured`, `likely` or `hint`.
    text: what was seen, with its numbers. places: how often it was seen in the counted steps;
    `evidence` holds the most telling of them. overlaps: ids of other findings of the same run that
    count some of the same time, so that their ceilings must not be added up. part_of: the finding
    of the same run that counts all of it. quantities: the numbers of the text, by name.
    """

    id: str
    title: str
    ceiling_ns_per_token: float
    confidence: str
    text: str
    places: int
    overlaps: tuple[str, ...]
    part_of: str | None
    how_we_know: str
    what_to_try: str
    how_to_check: str
    evidence: tuple[Evidence, ...]
    quantities: Mapping[str, Quantity]

    def as_dict(self) -> dict[str, Any]:
        """The finding as plain data."""
        ceiling = round(self.ceiling_ns_per_token, 3)
        return {**dataclasses.asdict(self), "ceiling_ns_per_token": ceiling}


@dataclass(frozen=True, eq=False)
class Claim:
    """What a rule found in one trace, before it is put into words.

    ceiling: the most it can win, ns per token. facts: what the templates of the rule name. title:
    a variant of the rule's title, empty for the usual one. gaps: which gaps of the device the
    ceiling counts; ops: which GPU ops' own time it counts, in the order of the device's links;
    None where it counts none, so that overlaps can be told.
    """

    rule: str
    ceiling: float = 0.0
    facts: Mapping[str, Fact] = field(default_factory=dict)
    confidence: str = "measured"
    title: str = ""
    evidence: tuple[Evidence, ...] = ()
    places: int = 0
    gaps: Bools | None = None
    ops: Bools | None = None


Check = Callable[[View], Iterator[Claim]]


@dataclass(frozen=True)
class Rule:
    """A check, the ids of the findings it may yield, and what it needs to know."""

    ids: tuple[str, ...]
    check: Check
    needs: Needs


REGISTRY: dict[str, Rule] = {}


def rule(*ids: str, needs: Needs) -> Callable[[Check], Check]:
    """Register a check under the ids of the findings it may yield."""

    def register(check: Check) -> Check:
        entry = Rule(ids, check, needs)
        for name in ids:
            if name in REGISTRY:
                raise RuntimeError(f"two rules are named {name}")
            REGISTRY[name] = entry
        return check

    return register
