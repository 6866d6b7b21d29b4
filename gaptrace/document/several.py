"""Several results in one document: what each says first, then one after another."""

from __future__ import annotations

from collections.abc import Sequence

from gaptrace import units
from gaptrace.document.answers import plain
from gaptrace.document.blocks import (
    Column,
    Detail,
    Document,
    Inline,
    Row,
    Section,
    Sentence,
    Table,
    Text,
)


def several(documents: Sequence[Document], detail: Detail) -> Document:
    """One document with a part for each, under a table of their answers."""
    rows = tuple(
        Row((Text(document.title, "name"), plain(document.answer.parts))) for document in documents
    )
    table = Table("all", "", (Column("recording"), Column("answer")), rows, shown=len(rows))
    parts: tuple[Inline, ...] = (f"{units.counted(len(documents), 'recording')}.",)
    return Document(
        kind="analyses",
        title="gaptrace",
        answer=Sentence(parts, "answer"),
        identity=(),
        sections=(Section("all", "Recordings", (table,)),) if detail is Detail.FULL else (),
        result=tuple(document.result for document in documents),
        parts=tuple(documents),
        detail=detail,
    )
