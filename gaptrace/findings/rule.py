"""What a finding is, what a rule may claim, and how rules are registered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from gaptrace.findings.view import View

Bools = npt.NDArray[np.bool_]


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
    count some of the same time, so that their ceilings must not be added up.
    """

    id: str
    title: str
    ceiling_ns_per_token: float
    confidence: str
    text: str
    evidence: tuple[Evidence, ...] = ()
    places: int = 0
    overlaps: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The finding as plain data, its page's three answers included."""
        from gaptrace.knowledge.rules import page

        answers = page(self.id)
        return {
            "id": self.id,
            "title": self.title,
            "ceiling_ns_per_token": round(self.ceiling_ns_per_token, 3),
            "confidence": self.confidence,
            "text": self.text,
            "places": self.places,
            "overlaps": list(self.overlaps),
            "how_we_know": answers.how_we_know,
            "what_to_try": answers.what_to_try,
            "how_to_check": answers.how_to_check,
            "evidence": [
                {
                    "step": item.step,
                    "start_ns": item.start_ns,
                    "end_ns": item.end_ns,
                    "what": item.what,
                    "before": item.before,
                    "after": item.after,
                    "call": item.call,
                    "row": item.row,
                }
                for item in self.evidence
            ],
        }


@dataclass(frozen=True, eq=False)
class Claim:
    """A finding and the time it lays claim to, so that overlaps can be told.

    gaps: which gaps of the device the ceiling counts. ops: which GPU ops' own time it counts, in
    the order of the device's links. None where it counts none.
    """

    finding: Finding
    gaps: Bools | None = None
    ops: Bools | None = None


class Needs(IntEnum):
    """What must be known before a rule may look: each level includes the ones before it.

    STEPS: counted decode steps with per-token figures. CAUSES: also busy, idle and causes of
    idle, none of them withheld.
    """

    NOTHING = 0
    STEPS = 1
    CAUSES = 2


Check = Callable[["View"], Iterator[Claim]]


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
