"""Can the trace be trusted? Each reason why not, and which figures it takes away.

Reasons of level `note` are said and change nothing; `limited` ones weaken or withhold figures;
`refused` ones mean that no number would be right. Raw device figures are never touched.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gaptrace.quantity import Words

NOTE, LIMITED, REFUSED = "note", "limited", "refused"
# Everything that rests on steps, ...
STEP_FIGURES = ("steps", "per_token", "rate", "ceilings", "capture", "compile")
# ... on knowing the host's calls, ...
CALL_FIGURES = ("launches", "causes", "host", "host_dispatch")
# ... and on what those figures say by the token.
TOKEN_FIGURES = ("per_token", "rate", "ceilings")


@dataclass(frozen=True)
class Reason:
    """One thing to know about a trace: a stable id, a sentence, how often, what it withholds.

    words: the sentence; its quantities become text in `gaptrace.analysis.measured`.
    """

    id: str
    words: Words
    level: str = NOTE
    count: int = 1
    withheld: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The sentence, once its quantities are text."""
        if not isinstance(self.words, str):
            raise TypeError(f"the reason {self.id} is not yet put into words")
        return self.words


@dataclass(frozen=True)
class Quality:
    """The verdict `ok`, `limited` or `refused`, and every reason, the gravest first."""

    reasons: tuple[Reason, ...]

    @property
    def verdict(self) -> str:
        """The gravest level among the reasons; notes alone leave a trace `ok`."""
        levels = {reason.level for reason in self.reasons}
        return REFUSED if REFUSED in levels else LIMITED if LIMITED in levels else "ok"

    @property
    def withheld(self) -> frozenset[str]:
        """Names of all figures that must not be shown."""
        return frozenset(name for reason in self.reasons for name in reason.withheld)

    def withholds(self, *names: str) -> bool:
        """Whether any of the names is withheld."""
        return bool(self.withheld.intersection(names))

    def also(self, *reasons: Reason) -> Quality:
        """The same quality with further reasons, the gravest first."""
        return graded((*self.reasons, *reasons))


def graded(reasons: Iterable[Reason]) -> Quality:
    """A quality of these reasons, the gravest first."""
    weight = {REFUSED: 0, LIMITED: 1, NOTE: 2}
    return Quality(tuple(sorted(reasons, key=lambda reason: weight[reason.level])))
