"""Every word and number with its definition; each number on the other pages links here."""

from __future__ import annotations

from dash import html

from gaptrace.knowledge.glossary import entries
from gaptrace.render.elements import element
from gaptrace.render.html_blocks import definitions

KEYS = (
    ("?", "this list"),
    ("/", "search the timeline, or filter the table"),
    ("j k", "next and previous finding; on the list of runs, row"),
    ("n p", "next and previous step"),
    ("[ ]", "previous and next gap"),
    ("w a s d", "zoom and move the timeline"),
    ("0", "fit the timeline"),
    ("← → ↑ ↓", "blocks and lanes of the timeline, cells of a table"),
    ("Enter", "open the run, zoom to the selection"),
    ("x", "pick the run for comparison"),
    ("c", "compare the picked runs; on a comparison, swap the sides"),
    ("r", "back to all runs"),
    ("t", "light or dark"),
    ("Esc", "clear the selection, close this"),
)


def glossary_page() -> list[html.Div]:
    """The page's components."""
    title = element("h1", "Glossary: what every word and number means.")
    # Its own links stay on the page.
    return [html.Div(**{"data-html": f"{title}{definitions(entries())}"})]
