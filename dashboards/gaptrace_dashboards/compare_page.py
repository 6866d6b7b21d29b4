"""Two to four recordings side by side: the document of a pair, its timelines under one brush."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dash import html

from gaptrace.document.blocks import Document, Section, Timeline
from gaptrace.document.comparison import pair_document
from gaptrace.document.sections import COMPARISON, Context, build
from gaptrace.render.elements import element
from gaptrace.render.html_blocks import Page
from gaptrace.results.comparison import ComparisonResult
from gaptrace.timeline.columns import as_data
from gaptrace_dashboards.components import Places, component, header, sections, state_page
from gaptrace_dashboards.library import Recording
from gaptrace_dashboards.urls import (
    COMPARISON_REPORT,
    TIMELINES,
    State,
    address,
    compare_url,
    run_url,
)

LONG = 240


@dataclass(frozen=True)
class Compared:
    """A comparison and the analyses behind it, by path."""

    result: ComparisonResult
    analyses: Mapping[str, Any]

    def pair(self, place: int) -> Document:
        """The document of a pair; beyond the last pair that of the last one."""
        place = min(place, len(self.result.pairs) - 1)
        return pair_document(self.result.pairs[place], Context(analyses=self.analyses))

    @property
    def sections(self) -> tuple[Section, ...]:
        """What is said about all pairs together; their list is the page's own choice."""
        context = Context(prefix="all-", without=frozenset({"pairs", "gates"}))
        return build(COMPARISON, self.result, context)


def compare_page(state: State, found: Sequence[Recording], compared: Compared) -> list[Any]:
    """The page's components for the pair that the address names."""
    place = min(state.pair, len(compared.result.pairs) - 1)
    pair = compared.pair(place)
    page = Page(anchors=Places())
    first = compared.result.sentence if place == 0 else ""
    said = first or compared.result.pairs[place].sentence
    more = compared.result.pairs[place].sentence
    top = [
        element("h1", said, id="sentence", class_="long" if len(said) > LONG else None),
        element("p", more, class_="lead") if more and more != said else None,
    ]
    return [
        _header(state, found, place),
        component(top),
        html.Div(
            sections((*pair.sections, *compared.sections), page),
            className="compared",
            id="compared",
            **{"data-timelines": _source(state, place) if page.timelines else ""},
        ),
    ]


def _source(state: State, place: int) -> str:
    """Where the script gets the timelines of a pair."""
    return address(TIMELINES, state.runs, pair=place, force=int(state.forced))


def timelines(compared: Compared, place: int) -> list[dict[str, Any]]:
    """The timelines of a pair as plain data, each under the id of its block.

    An instant of the window is the same time after the step's start on both sides, so that one
    brush can move both.
    """
    blocks = [
        block
        for part in compared.pair(place).sections
        for block in part.blocks
        if isinstance(block, Timeline) and block.data is not None
    ]
    shown = [(block.id, block.data.shown[0].stretch) for block in blocks]
    return [
        {"id": id_, "said": item.said, "data": {**as_data(item), "names": item.names.texts}}
        for id_, item in shown
    ]


def _header(state: State, found: Sequence[Recording], place: int) -> html.Div:
    runs, force = state.runs, {"force": 1} if state.forced else {}
    swapped = [runs[place + 1], *[run for i, run in enumerate(runs) if i != place + 1]]
    names = [
        html.Span([" → " if i == 1 else " · " if i else "", html.A(r.row.name, href=run_url(r.id))])
        for i, r in enumerate(found)
    ]
    actions = [
        html.A("Swap (c)", id="swap", className="button", href=compare_url(swapped, **force)),
        html.A("Download report", id="download", className="button",
               href=address(COMPARISON_REPORT, runs, **force), download="comparison.html"),
    ]  # fmt: skip
    pairs = [
        (f"baseline → {r.row.name}", compare_url(runs, pair=i, **force), i == place)
        for i, r in enumerate(found[1:])
    ]
    several = pairs if len(pairs) > 1 else []
    return header([html.B("Compare "), *names], actions, several, "pairs", "which pair")


def refused_page(state: State, message: str) -> html.Div:
    """Why these are not compared, and how to do it all the same."""
    return state_page(
        "These runs are not compared.",
        message,
        "A difference between unlike runs says nothing about a change: compare runs of one thing.",
        element(
            "a", "Compare them all the same", href=compare_url(state.runs, force=1), id="force"
        ),
    )
