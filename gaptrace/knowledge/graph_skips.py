"""Why torch ran a graph launched that it should have captured, and what to change."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from gaptrace.knowledge.tables import table


@dataclass(frozen=True)
class Skip:
    """One known reason. pattern: what the log says. means, change: in words, no full stop."""

    pattern: re.Pattern[str]
    means: str
    change: str


@lru_cache(maxsize=1)
def skips() -> tuple[Skip, ...]:
    """All known reasons; the first that matches decides."""
    return tuple(
        Skip(re.compile(row["pattern"], re.IGNORECASE), row["means"], row["change"])
        for row in table("graph_skips.toml")["skip"]
    )


def skip_of(reason: str) -> Skip | None:
    """What is known about a logged reason, None for one that is new."""
    return next((item for item in skips() if item.pattern.search(reason)), None)
