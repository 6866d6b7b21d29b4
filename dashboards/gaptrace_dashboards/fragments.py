"""Pieces of the report on a page of the dashboard: the same markup, so the same look and words."""

from __future__ import annotations

from typing import Any

from dash import html

from gaptrace.report.context import Section
from gaptrace.report.markup import Markup, element, markup
from gaptrace.report.terms import Terms


def fragment(content: Markup, **more: Any) -> html.Div:
    """Markup as a component: an empty `div` that the page's script fills.

    Dash has no component for markup. The text comes only from `gaptrace.report.markup`, which
    escapes everything that is data, and the security policy lets no script in it run.
    """
    return html.Div(**{"data-html": in_dashboard(content)}, **more)


def sections(*parts: Section | None) -> html.Div:
    """Sections of a report one after another; those that do not apply left out."""
    return fragment(markup(*[part.html() for part in parts if part is not None]))


def in_dashboard(content: Markup) -> str:
    """Markup with the glossary's links leading to the glossary page."""
    return str(content).replace('href="#def-', 'href="/glossary#def-')


def meanings(*columns: tuple[str, str]) -> html.Div:
    """A line under a table with its columns as links to their definitions in the glossary."""
    terms, parts = Terms(), list[Markup | str]()
    for term, word in columns:
        parts += [" · ", terms.link(term, word)] if parts else [terms.link(term, word)]
    return fragment(element("p", "What the columns mean: ", *parts, class_="soft meanings"))


def state_page(title: str, *lines: Markup | str, retry: bool = False) -> html.Div:
    """A designed page for what cannot be shown: what is the case, and what to do about it."""
    return fragment(
        markup(
            element("h1", title),
            *[element("p", line) for line in lines],
            element("p", element("a", "all runs", href="/"), class_="soft"),
        ),
        className="state waiting" if retry else "state",
    )
