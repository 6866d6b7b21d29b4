"""Two to four recordings side by side: bridge, metrics, timelines under one brush, kernels, 2x2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dash import html

from gaptrace.compare.compare import FORCE, REFUSE, CompareOptions, compare
from gaptrace.compare.result import Comparison
from gaptrace.compare.side import Side
from gaptrace.report.context import Context, Section
from gaptrace.report.html_compare import pair_sections, pair_warnings, square_section
from gaptrace.report.markup import element, headline, markup, shortened
from gaptrace.report.scope import Scope
from gaptrace.report.step_views import said
from gaptrace.report.timeline_data import Names, as_data
from gaptrace.report.views import LONGEST_NS, step_window
from gaptrace.report.windows import timeline
from gaptrace_dashboards.fragments import fragment, sections, state_page
from gaptrace_dashboards.library import Recording
from gaptrace_dashboards.urls import State, compare_url, comparison_report_url, run_url
from gaptrace_dashboards.windows import LIMITS

LONG = 240


def compared(sides: Sequence[Side], *, forced: bool) -> Comparison:
    """The comparison of these sides, the first being the baseline.

    Raises:
        GaptraceError: they are unlike and not forced.
    """
    return compare(sides, CompareOptions(unlike=FORCE if forced else REFUSE))


def compare_page(state: State, found: Sequence[Recording], comparison: Comparison) -> list[Any]:
    """The page's components for the pair that the address names."""
    place = min(state.pair, len(comparison.pairs) - 1)
    pair = comparison.pairs[place]
    context = Context("", budget=Context().budget)
    parts, drawn = pair_sections(pair, context)
    by_id = {part.id: part for part in parts}
    sentence = comparison.sentence if place == 0 else pair.sentence
    top = [
        element("h1", headline(sentence), id="sentence", class_=_size(sentence)),
        element("p", shortened(pair.sentence), class_="lead")
        if place == 0 and comparison.sentence != pair.sentence
        else None,
        *pair_warnings(pair),
    ]
    square = comparison.two_by_two
    first: list[Section | None] = [
        by_id.get("bridge"),
        by_id.get("metrics"),
        square_section(square, context) if square is not None else None,
        by_id.get("timeline"),
        by_id.get("kernels"),
        by_id.get("provenance"),
    ]
    return [
        _header(state, found, place),
        fragment(markup(*top)),
        html.Div(
            sections(*first),
            className="compared",
            id="compared",
            **{"data-timelines": _source(state, place) if drawn else ""},
        ),
    ]


def _size(sentence: str) -> str | None:
    """A sentence of several sentences is set smaller."""
    return "long" if len(sentence) > LONG else None


def _source(state: State, place: int) -> str:
    """Where the script gets the timelines of a pair."""
    address = compare_url(state.runs, pair=place, force=int(state.forced))
    return address.replace("/compare?", "/api/compare?")


def timelines(comparison: Comparison, place: int) -> list[dict[str, Any]]:
    """The timelines of a pair as plain data: each side's step, both from one lead to one length.

    So an instant of the window is the same time after the step's start on both sides, and one
    brush can move both.
    """
    pair = comparison.pairs[min(place, len(comparison.pairs) - 1)]
    sides = [
        (key, side.analysis, side.step)
        for key, side in (("baseline", pair.baseline), ("candidate", pair.candidate))
        if side.analysis is not None and side.analysis.step_table is not None and side.step >= 0
    ]
    leads, lengths = [], []
    for _, analysis, step in sides:
        assert analysis.step_table is not None
        start, end = step_window(analysis, step)
        begins = int(analysis.step_table.gpu_start[step])
        leads.append(begins - start)
        lengths.append(min(end - begins, LONGEST_NS))
    if not sides:
        return pair_sections(pair, Context(""))[1]
    lead, length = max(leads), max(lengths)
    found = []
    for (key, analysis, step), own_length in zip(sides, lengths, strict=True):
        steps, names = analysis.step_table, Names()
        assert steps is not None
        start = int(steps.gpu_start[step])
        own = (start, int(steps.gpu_end[step]))
        title = f"{key}, step {step}"
        item = timeline(
            Scope(analysis), title, start - lead, start + own_length, names, step=own, limits=LIMITS
        )
        wide = replace(item, span_ns=lead + length)
        data = {**as_data(wide), "names": names.texts}
        found.append({"id": key, "said": said(item), "data": data})
    return found


def _header(state: State, found: Sequence[Recording], place: int) -> html.Div:
    runs = state.runs
    swapped = [runs[place + 1], *[run for i, run in enumerate(runs) if i != place + 1]]
    names = [
        html.Span([" → " if i == 1 else " · " if i else "", html.A(r.row.name, href=run_url(r.id))])
        for i, r in enumerate(found)
    ]
    choice: list[Any] = []
    if len(found) > 2:
        choice = [
            html.A(
                f"baseline → {r.row.name}",
                href=compare_url(runs, pair=i, **({"force": 1} if state.forced else {})),
                className="button",
                **({"aria-current": "true"} if i == place else {}),
            )
            for i, r in enumerate(found[1:])
        ]
    return html.Div(
        [
            html.P([html.B("Compare "), *names], className="who"),
            html.Div(
                [
                    html.A("Swap (c)", id="swap", className="button",
                           href=compare_url(swapped, **({"force": 1} if state.forced else {}))),
                    html.A("Download report", id="download", className="button",
                           href=comparison_report_url(runs, forced=state.forced),
                           download="comparison.html"),
                ],
                className="actions",
            ),
            html.Nav(choice, className="views pairs", **{"aria-label": "which pair"})
            if choice
            else None,
        ],
        className="runhead",
    )  # fmt: skip


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
