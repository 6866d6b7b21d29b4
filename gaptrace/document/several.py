"""Several results in one document: what each says first, then one after another."""

from __future__ import annotations

from collections.abc import Sequence

from gaptrace.document import tables as t
from gaptrace.document.answers import plain
from gaptrace.document.blocks import Detail, Document, Section, Sentence, Text
from gaptrace.units import counted


def several(documents: Sequence[Document], detail: Detail) -> Document:
    """One document with a part for each, under a table of their answers."""
    columns = (
        t.words("recording", lambda found: Text(found.title, "name")),
        t.words("answer", lambda found: plain(found.answer.parts)),
    )
    table = t.table("all", "", documents, columns, shown=t.ALL)
    return Document(
        kind="analyses",
        title="gaptrace",
        answer=Sentence((f"{counted(len(documents), 'recording')}.",), "answer"),
        identity=(),
        sections=(Section("all", "Recordings", (table,)),) if detail is Detail.FULL else (),
        result=tuple(document.result for document in documents),
        parts=tuple(documents),
        detail=detail,
    )
