"""What is said about findings: the page of each rule, and the templates of its sentences."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from gaptrace.errors import OptionError
from gaptrace.knowledge.tables import records, table


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


Clauses = Mapping[str, str | tuple[str, ...]]


@dataclass(frozen=True)
class Template:
    """What a finding says of one trace, with its numbers left open (see findings/wording.py).

    titles: other titles than the usual one. text: all of what is said; fields name facts or
    clauses. evidence: the label of the places that it points at. part_of: findings that count
    all of what this one counts, the closest first. moots: findings whose advice is worth nothing
    before this one's is followed. blocked_by: ids of blockers of capture; where one of them blocks,
    this finding comes before the advice to capture.
    """

    id: str
    title: str
    text: str
    titles: Mapping[str, str] = field(default_factory=dict)
    clauses: Clauses = field(default_factory=dict)
    evidence: str = ""
    part_of: tuple[str, ...] = ()
    moots: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()
    remedy: str = ""


@cache
def _pages() -> dict[str, RulePage]:
    # A page speaks of decode steps, as there is no trace to say otherwise.
    rows = [
        {**row, "title": row["title"].replace("{kind}", "decode")}
        for row in table("rules.toml")["rule"]
    ]
    return {page.id: page for page in records(RulePage, rows)}


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


@cache
def common_clauses() -> Clauses:
    """Clauses that several rules share, and those that are about several findings."""
    return dict(table("rules.toml")["common"])


@cache
def template(rule: str) -> Template:
    """The templates of a rule, with the clauses that all rules share."""
    (row,) = (row for row in table("rules.toml")["rule"] if row["id"] == rule)
    (known,) = records(
        Template, [{**row, "clauses": {**common_clauses(), **row.get("clauses", {})}}]
    )
    return known
