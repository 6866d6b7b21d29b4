"""Results as text in any format: the one door from plain data to what is printed or written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gaptrace.document.blocks import Detail, Document
from gaptrace.document.build import document
from gaptrace.document.privacy import redacted, shown_path
from gaptrace.document.sections import Context
from gaptrace.document.several import several
from gaptrace.errors import OptionError
from gaptrace.render import formats
from gaptrace.render.formats import Style
from gaptrace.results.codec import to_json

ANALYSES = "gaptrace.analyses/1"


@dataclass(frozen=True)
class Report:
    """A result and the analyses behind it, by path: those alone know the traces, for pictures."""

    result: Any
    analyses: Mapping[str, Any] = field(default_factory=dict)


def text_of(
    reports: Sequence[Report],
    format_name: str,
    detail: Detail,
    style: Style | None = None,
    *,
    redact: bool = False,
) -> str:
    """The reports in one text of a format; several become one document with a part for each.

    redact: without paths, arguments and hosts.
    """
    chosen = formats.get(format_name)
    return chosen.render(_document(reports, detail, redact=redact), style or Style())


def file_text(path: str, reports: Sequence[Report], detail: Detail, *, redact: bool = False) -> str:
    """The reports in the form that the ending of `path` asks for.

    Raises:
        OptionError: no format has that ending.
    """
    if path.lower().endswith(".json"):
        return json_text(reports, redact=redact)
    chosen = formats.of_path(path)
    # A page and a picture have room; the short form is for a terminal and a comment.
    detail = detail if chosen.name == "markdown" else Detail.FULL
    text = chosen.render(_document(reports, detail, redact=redact), Style())
    return text if text.endswith("\n") else text + "\n"


def json_text(reports: Sequence[Report], *, redact: bool = False) -> str:
    """One result's versioned object, or several in one `gaptrace.analyses/1` object."""
    results = [redacted(report.result) if redact else report.result for report in reports]
    if len(results) == 1:
        return to_json(results[0]) + "\n"
    return to_json({"schema": ANALYSES, "analyses": results}) + "\n"


def _document(reports: Sequence[Report], detail: Detail, *, redact: bool) -> Document:
    if not reports:
        raise OptionError("there is no result to write")
    documents = []
    for index, report in enumerate(reports):
        prefix = f"r{index + 1}-" if len(reports) > 1 else ""
        result, analyses = report.result, report.analyses
        if redact:
            folder = getattr(result, "path", "")
            analyses = {shown_path(path, folder): own for path, own in analyses.items()}
            result = redacted(result)
        context = Context(detail, analyses, prefix, say=redacted if redact else str)
        documents.append(document(result, context))
    return documents[0] if len(documents) == 1 else several(documents, detail)
