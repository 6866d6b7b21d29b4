"""Words that lead to their definitions: every number's label is a link into the glossary."""

from __future__ import annotations

from gaptrace.knowledge.glossary import Entry, entries
from gaptrace.report.markup import Markup, element, markup


class Terms:
    """The terms a page has used, in the order of the glossary."""

    def __init__(self) -> None:
        self._known = {item.id: item for item in entries()}
        self._used: set[str] = set()

    def link(self, id: str, text: str | None = None) -> Markup:  # noqa: A002
        """`text` (else the entry's title as within a sentence) as a link to what defines `id`.

        A word that the glossary lacks is shown as plain text.
        """
        item = self._known.get(id)
        if item is None:
            return markup(text or id)
        self._used.add(id)
        return element(
            "a", text or _within(item.title), href=f"#def-{id}", class_="def", title=item.answer
        )

    def has(self, id: str) -> bool:  # noqa: A002
        """Whether the glossary explains `id`."""
        return id in self._known

    def used(self) -> tuple[Entry, ...]:
        """The entries that the page links to, in the order of the glossary."""
        return tuple(item for item in entries() if item.id in self._used)

    def section(self) -> Markup:
        """The glossary of the page: the entries linked to so far."""
        return element(
            "dl",
            *[
                element(
                    "div",
                    element("dt", item.title, id=f"def-{item.id}", tabindex="-1"),
                    element(
                        "dd",
                        element("b", item.answer),
                        " ",
                        item.definition,
                        element("span", f" Unit: {item.unit}.", class_="soft")
                        if item.unit
                        else None,
                        element("span", f" JSON: {', '.join(item.json)}.", class_="soft mono")
                        if item.json
                        else None,
                    ),
                )
                for item in self.used()
            ],
            class_="glossary",
        )


def _within(title: str) -> str:
    """A title as it stands in a sentence or a column's head: "Launch ceiling" but "GPU op"."""
    return title[:1].lower() + title[1:] if title[1:2].islower() else title
