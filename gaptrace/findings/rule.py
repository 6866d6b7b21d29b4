"""What a rule may claim, and how rules are registered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from gaptrace.findings.wording import Fact
from gaptrace.measure.view import Bools, Needs, View
from gaptrace.results.analysis import Evidence


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
