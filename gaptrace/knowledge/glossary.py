"""The glossary: one entry for each word and number that gaptrace shows."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import cache

from gaptrace.errors import OptionError
from gaptrace.knowledge.tables import records, table


@dataclass(frozen=True)
class Entry:
    """What a word or number means.

    answer: one sentence. definition: plain words and the formula. see: ids of related entries.
    unit: of the number, empty for a word. json: where the number stands in `--json`. aliases: other
    ways to ask. source: public documents that define it.
    """

    id: str
    title: str
    answer: str
    definition: str
    see: tuple[str, ...]
    unit: str = ""
    json: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    source: str = ""


@cache
def entries() -> tuple[Entry, ...]:
    """All entries, in the order of a reader who starts from nothing."""
    return records(Entry, table("glossary.toml")["entry"])


# What a report adds to a label: brackets, a unit or source, a size, a class.
_ADDED = re.compile(
    r" \([^)]*\)$|, (?:[nµm]?s|tok/s|%|per step|unprofiled|given|as profiled)$| \d+$|(?<=\w): .*$"
)


def _key(term: str) -> str:
    return re.sub(r"[\s_-]+", " ", term.strip().lower())


@cache
def _names() -> dict[str, Entry]:
    """Every way to ask for an entry; ids win over titles, those over aliases and JSON names."""
    names: dict[str, Entry] = {}
    rounds = (
        [(item.id, item) for item in entries()],
        [(item.title, item) for item in entries()],
        # A cause's word stands in legends without "Cause:".
        [(item.title.removeprefix("Cause: "), item) for item in entries()],
        [(alias, item) for item in entries() for alias in item.aliases],
        [(path, item) for item in entries() for path in item.json],
        [(path.rpartition(".")[2], item) for item in entries() for path in item.json],
    )
    for pairs in rounds:
        for name, item in pairs:
            names.setdefault(_key(name), item)
    return names


def entry(term: str) -> Entry:
    """The entry that `term` asks for: an id, title, alias or JSON name, in any spelling of gaps.

    `busy`, `Busy time`, `busy_ns` and `steps.median.busy_ns` are one entry; what a report adds to a
    label may stay: a unit (`GPU busy, ms`), a class (`busy: gemm`), a size (`batch 256`), brackets.

    Raises:
        OptionError: no entry has this name; the hint names the nearest ones.
    """
    names = _names()
    key = _key(term)
    # p5 and p95 hold the same names as the median, and a unit is no part of a name.
    attempts = (
        key,
        key.removesuffix(" ns"),
        re.sub(r"^steps\.p9?5\.", "steps.median.", key),
        _ADDED.sub("", key),
    )
    for attempt in attempts:
        if attempt in names:
            return names[attempt]
    near = difflib.get_close_matches(key, names, n=8, cutoff=0.6)
    titles = list(dict.fromkeys(names[name].id for name in near))[:3]
    hint = f"did you mean {', '.join(titles)}?" if titles else "`gaptrace explain` lists all terms"
    raise OptionError(f"no glossary entry for {term!r}", hint)
