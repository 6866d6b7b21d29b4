"""The keyboard map."""

from __future__ import annotations

from gaptrace.report.markup import Markup, element, markup

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


def help_dialog() -> Markup:
    """The dialog that `?` opens."""
    return element(
        "dialog",
        element("h2", "Keys"),
        element(
            "dl",
            *[
                element(
                    "div",
                    element("dt", *[markup(element("kbd", key), " ") for key in keys.split()]),
                    element("dd", what),
                )
                for keys, what in KEYS
            ],
            class_="facts",
        ),
        element("button", "Close", type="button", id="keys-close"),
        id="keys",
        aria_label="keyboard map",
    )
