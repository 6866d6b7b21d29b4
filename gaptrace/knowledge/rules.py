"""The page of each finding: what it means, how we know, what to try, how to check."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import lru_cache

from gaptrace.errors import OptionError
from gaptrace.knowledge.tables import table


@dataclass(frozen=True)
class RulePage:
    """What is to be said about a finding wherever it occurs.

    means: what was seen and why it costs time. how_we_know: what in the trace says so, and what
    bounds the ceiling. what_to_try: remedies, the likeliest first. how_to_check: what must change
    afterwards. see_also: ids of other pages and of glossary entries.
    """

    id: str
    title: str
    means: str
    how_we_know: str
    what_to_try: str
    how_to_check: str
    see_also: tuple[str, ...]


@lru_cache(maxsize=1)
def _pages() -> dict[str, RulePage]:
    def line(text: str) -> str:
        return " ".join(text.split())

    return {
        row["id"]: RulePage(
            id=row["id"],
            title=row["title"],
            means=line(row["means"]),
            how_we_know=line(row["how_we_know"]),
            what_to_try=line(row["what_to_try"]),
            how_to_check=line(row["how_to_check"]),
            see_also=tuple(row["see_also"]),
        )
        for row in table("rules.toml")["rule"]
    }


def pages() -> tuple[RulePage, ...]:
    """All pages in the order of their ids."""
    return tuple(_pages().values())


def page(id: str) -> RulePage:  # noqa: A002
    """The page of a finding, by its id in any case.

    Raises:
        OptionError: there is no such finding; the hint names the nearest ones.
    """
    known = _pages()
    key = id.strip().upper()
    if key in known:
        return known[key]
    near = [name for name in known if key and name.startswith(key)]
    near = near or difflib.get_close_matches(key, known, n=3, cutoff=0.6)
    hint = f"did you mean {', '.join(near)}?" if near else "`gaptrace explain` lists all findings"
    raise OptionError(f"no finding is called {id!r}", hint)
