"""Every word and number with its definition; each number on the other pages links here."""

from __future__ import annotations

from typing import Any

from gaptrace.knowledge.glossary import Entry, entries
from gaptrace.report.markup import Markup, element, markup
from gaptrace_dashboards.fragments import fragment


def glossary_page() -> list[Any]:
    """The page's components."""
    known = {entry.id: entry for entry in entries()}
    return [
        fragment(
            markup(
                element("h1", "Glossary: what every word and number means."),
                element("dl", *[_entry(entry, known) for entry in entries()], class_="glossary"),
            )
        )
    ]


def _entry(entry: Entry, known: dict[str, Entry]) -> Markup:
    see = [
        markup(", " if i else " See ", element("a", known[id_].title, href=f"#def-{id_}"))
        for i, id_ in enumerate(id_ for id_ in entry.see if id_ in known)
    ]
    return element(
        "div",
        element("dt", entry.title, id=f"def-{entry.id}", tabindex="-1"),
        element(
            "dd",
            element("b", entry.answer),
            " ",
            entry.definition,
            element("span", f" Unit: {entry.unit}.", class_="soft") if entry.unit else None,
            element("span", f" JSON: {', '.join(entry.json)}.", class_="soft mono")
            if entry.json
            else None,
            element("span", *see, ".", class_="soft") if see else None,
        ),
    )
