"""The sections of each kind of document, in order: one builder each, registered by a decorator.

A builder takes the result and the context and yields blocks. A section without blocks is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gaptrace.document.blocks import Block, Detail, Section
from gaptrace.results.analysis import AnalysisResult

Builder = Callable[[Any, "Context"], Iterable[Block]]
# Kinds of documents, by what they are about.
ANALYSIS, RUN, SWEEP, COMPARISON, PAIR, PREDICTION, GAPS = (
    "analysis",
    "run",
    "sweep",
    "comparison",
    "pair",
    "prediction",
    "gaps",
)


@dataclass(frozen=True)
class Context:
    """What a builder needs to know besides the result.

    detail: how much to say. analyses: the analyses behind the results, by path, for pictures; only
    pictures ask a trace, and there is none behind a saved result. prefix: keeps ids of several
    documents on one page apart. say: what is done to names that pictures take from a trace, to hide
    private parts. without: ids of sections that the caller shows otherwise.
    """

    detail: Detail = Detail.FULL
    analyses: Mapping[str, Any] = field(default_factory=dict)
    prefix: str = ""
    say: Callable[[str], str] = str
    without: frozenset[str] = frozenset()

    def analysis_of(self, result: AnalysisResult) -> Any:
        """The analysis behind a result, None where there is none."""
        return self.analyses.get(result.source.folder or result.source.path)

    @property
    def brief(self) -> bool:
        """Whether one screen is asked for."""
        return self.detail is Detail.BRIEF


@dataclass(frozen=True)
class Entry:
    """A registered section: id, title, builder, and whether the short form holds it, too."""

    id: str
    title: str
    build: Builder
    brief: bool


_SECTIONS: dict[str, list[Entry]] = {}


def section(
    kind: str, key: str, title: str, *, brief: bool = False, after: str = ""
) -> Callable[[Builder], Builder]:
    """Register a builder as a section of a kind of document: behind `after`, else at the end."""

    def register(build: Builder) -> Builder:
        entries = _SECTIONS.setdefault(kind, [])
        if any(entry.id == key for entry in entries):
            raise RuntimeError(f"two sections of {kind} are called {key}")
        places = [i + 1 for i, entry in enumerate(entries) if entry.id == after]
        entries.insert(places[0] if places else len(entries), Entry(key, title, build, brief))
        return build

    return register


def remove(kind: str, key: str) -> None:
    """Take a section out again."""
    _SECTIONS[kind] = [entry for entry in _SECTIONS[kind] if entry.id != key]


def build(kind: str, result: Any, context: Context) -> tuple[Section, ...]:
    """The sections of a result, those without blocks left out."""
    sections = []
    for entry in _SECTIONS.get(kind, ()):
        if entry.id in context.without or (context.brief and not entry.brief):
            continue
        blocks = tuple(entry.build(result, context))
        if blocks:
            sections.append(Section(f"{context.prefix}{entry.id}", entry.title, blocks))
    return tuple(sections)
