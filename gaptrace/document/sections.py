"""The sections of each kind of document, in order: one builder each, registered by a decorator.

A builder takes the result and the context and yields blocks. Those in which nothing is are left
out, and so is a section without blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from gaptrace.document import blocks as b
from gaptrace.results.analysis import AnalysisResult

Builder = Callable[[Any, "Context"], Iterable[b.Block]]
# Kinds of documents, by what they are about.
ANALYSIS, RUN, SWEEP, PREDICTION, GAPS = "analysis", "run", "sweep", "prediction", "gaps"
COMPARISON, PAIR = "comparison", "pair"


@dataclass(frozen=True)
class Context:
    """What a builder needs to know besides the result.

    detail: how much to say. analyses: the analyses behind the results, by path, for pictures; only
    pictures ask a trace, and there is none behind a saved result. prefix: keeps ids of several
    documents on one page apart. say: what is done to names that pictures take from a trace, to hide
    private parts. without: ids of sections that the caller shows otherwise.
    """

    detail: b.Detail = b.Detail.FULL
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
        return self.detail is b.Detail.BRIEF


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


def notes(result: Any, context: Context) -> Iterator[b.Block]:
    """What to know about a run, a sweep or a comparison as a whole."""
    del context
    yield from (b.Note((text,)) for text in result.notes)


def remove(kind: str, key: str) -> None:
    """Take a section out again."""
    _SECTIONS[kind] = [entry for entry in _SECTIONS[kind] if entry.id != key]


def build(kind: str, result: Any, context: Context) -> tuple[b.Section, ...]:
    """The sections of a result, those without blocks left out."""
    sections = []
    for entry in _SECTIONS.get(kind, ()):
        if entry.id in context.without or (context.brief and not entry.brief):
            continue
        found = (_placed(block, context.prefix) for block in entry.build(result, context))
        if blocks := tuple(block for block in found if block is not None):
            sections.append(b.Section(f"{context.prefix}{entry.id}", entry.title, blocks))
    return tuple(sections)


def _placed(block: Any, prefix: str) -> Any:
    """The block with the ids of all that is in it made the document's own; None if it is empty."""
    if block is None or (isinstance(block, b.Table) and not block.rows):
        return None
    if isinstance(block, b.Facts) and not block.facts:
        return None
    if not prefix:
        return block
    own: dict[str, Any] = {}
    if isinstance(block, b.Findings | b.FindingItem):
        name = "items" if isinstance(block, b.Findings) else "parts"
        own[name] = tuple(_placed(item, prefix) for item in getattr(block, name))
    elif hasattr(block, "id"):
        own["id"] = f"{prefix}{block.id}"
    for name in ("table", "bars", "evidence"):
        inner = getattr(block, name, None)
        if isinstance(inner, b.Table | b.Bars):
            own[name] = _placed(inner, prefix)
    return replace(block, **own) if own else block


def whole(
    kind: str, result: Any, context: Context, title: str, answer: Iterable[b.Inline],
    identity: Iterable[str] = (),
) -> b.Document:  # fmt: skip
    """The document of a result: its answer first, then all its sections."""
    parts = b.Sentence(tuple(answer), "answer")
    sections = build(kind, result, context)
    return b.Document(kind, title, parts, tuple(identity), sections, result, detail=context.detail)
