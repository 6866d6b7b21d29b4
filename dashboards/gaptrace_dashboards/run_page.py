"""One recording: its sentence, how far to trust it, where time goes, findings, the steps."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dash import dcc, html

from gaptrace.measure.result import Analysis
from gaptrace.report.context import Context, Section, section
from gaptrace.report.finding_list import findings_section
from gaptrace.report.markup import Markup, element, headline, markup, prose
from gaptrace.report.matrix import PREDICTED, UNKNOWN, MatrixCell, matrix, run_cells
from gaptrace.report.overview import ceilings_section, identity, token_section, trust_line
from gaptrace.report.scope import Scope
from gaptrace.report.step_views import strip_section
from gaptrace.report.timeline_data import Names
from gaptrace.report.views import View, picks, step_window
from gaptrace.report.windows import Limits, timeline
from gaptrace.runs.run import RunAnalysis
from gaptrace_dashboards.fragments import fragment, sections
from gaptrace_dashboards.library import GONE, Recording, recording_id
from gaptrace_dashboards.urls import TABS, report_url, run_url, trace_url

# Small drawings need no host rows.
SMALL = Limits(gpu_ops=1_500, host_ops=1, frames=1)
TAB_WORDS = {
    "compile": "compilation",
    "ceilings": "what if",
    "ops": "CPU ops",
    "fusion": "fusion and capture",
}


def run_page(
    found: Recording,
    analysis: Analysis,
    scope: Scope | None,
    run: RunAnalysis | None,
    predicted: Mapping[str, MatrixCell],
    tab: str,
) -> list[Any]:
    """The page's components; the tab's content comes with its own callback."""
    context = Context()
    small = small_views(scope)
    parts: list[Any] = [
        _header(found, analysis, context),
        fragment(
            markup(
                element("h1", headline(analysis.sentence), id="sentence"),
                trust_line(analysis, context),
                *_banners(found, analysis),
            )
        ),
        sections(
            token_section(analysis, context),
            ceilings_section(analysis, context),
            modes_section(found, run, predicted, context),
            findings_section(analysis, small, context),
            strip_section(analysis, small, context),
        ),
    ]
    if scope is not None:
        parts.append(timeline_part(found.id, analysis))
    parts += [
        tab_bar(tab),
        dcc.Store(id="tab-shown"),
        html.Div(id="tab", role="tabpanel", **{"aria-label": "details"}),
    ]
    return parts


def _header(found: Recording, analysis: Analysis, context: Context) -> html.Div:
    facts = [found.row.name, *identity(analysis, context)]
    return html.Div(
        [
            html.P([html.B(facts[0]), *[f" · {fact}" for fact in facts[1:]]], className="who"),
            html.Div(
                [
                    html.A("Download report", href=report_url(found.id), className="button",
                           download=f"{found.entry.place.name}.html", id="download"),
                    html.Button(
                        "Open in Perfetto", type="button", id="perfetto", className="perfetto",
                        title="opens ui.perfetto.dev in a new tab, which takes the trace from this "
                              "one: it stays in your browser and is not uploaded",
                        **{"data-trace": trace_url(found.id), "data-title": found.row.name,
                           "data-file": os.path.basename(analysis.source.path)},
                    ),
                ],
                className="actions",
            ),
        ],
        className="runhead",
    )  # fmt: skip


def _banners(found: Recording, analysis: Analysis) -> list[Markup]:
    """What is special about this recording: the file has gone, no kernels, no steps, one step."""
    shown = []
    if found.entry.state == GONE:
        shown.append("The file has gone; these figures are from when it was there.")
    if analysis.device is None:
        shown.append(
            "No kernel, copy or memset is in this trace, so there is no idle time to explain. "
            "Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], or use "
            "`gaptrace collect`."
        )
    elif analysis.headline.steps["period_ns"].median is None:
        shown.append(
            "No decode step could be measured, so there are no figures per token. Looked for: "
            "gaptrace marks, engine labels, ProfilerStep, repeated annotations, compiled regions, "
            "repeating kernels. `gaptrace analyze --step REGEX` names the steps."
        )
    elif analysis.headline.complete == 0:
        shown.append(
            "Only the last, open step is there: it ends with its last op, so what comes after it "
            "is unknown. Record two steps or more."
        )
    return [element("p", prose(text), class_="banner") for text in shown]


def small_views(scope: Scope | None) -> tuple[View, ...]:
    """The picked steps as small drawings, then one view that stands for the whole recording.

    The last has no blocks: it is what makes every piece of evidence a link, since the page can
    show any stretch of the recording.
    """
    if scope is None:
        return ()
    analysis, steps = scope.analysis, scope.analysis.step_table
    names, found = Names(), []
    for pick in picks(steps):
        if steps is None or steps.rule == "whole trace":
            break
        start, end = step_window(analysis, pick.index)
        own = int(steps.gpu_start[pick.index]), int(steps.gpu_end[pick.index])
        title = f"step {pick.index} · {pick.word}"
        item = timeline(scope, title, start, end, names, step=own, limits=SMALL)
        found.append(View(f"step{pick.index}", item, pick.index))
    last = int(analysis.trace.end.max()) + 1
    empty = timeline(scope, "anywhere", last, last + 1, names, limits=SMALL)
    found.append(View("anywhere", replace(empty, start_ns=-1, span_ns=last + 1), None))
    return tuple(found)


def modes_section(
    found: Recording,
    run: RunAnalysis | None,
    predicted: Mapping[str, MatrixCell],
    context: Context,
) -> Section | None:
    """The 2x2 of the run folder that the recording belongs to, each mode a link."""
    if run is None:
        if sum(cell.known != UNKNOWN for cell in predicted.values()) < 2:
            return None
        said = "Tokens per second by mode. Solid bars are measured, hatched ones predicted."
        return section(context, "modes", "What would help", element("p", said), matrix(predicted))
    hatched = {mode: cell for mode, cell in predicted.items() if cell.known == PREDICTED}
    cells = run_cells(run, hatched)
    links: list[Markup | str] = []
    place = found.entry.place.id
    for mode in run.modes:
        if links:
            links.append(" · ")
        address = run_url(recording_id(place, mode))
        here = element("b", mode, aria_current="page")
        links.append(here if mode == found.mode else element("a", mode, href=address))
    return section(
        context,
        "modes",
        "The modes of this run",
        element("p", "Modes: ", *links, "."),
        matrix(cells) if cells is not None else None,
        None
        if cells is None
        else element("p", "Solid bars are measured, hatched ones predicted.", class_="soft"),
    )


def timeline_part(run: str, analysis: Analysis) -> html.Section:
    """The canvas timeline, filled by the script from `/api/timeline`, and the panel beside it."""
    chosen = picks(analysis.step_table)
    steps = analysis.step_table
    known = () if steps is None or steps.rule == "whole trace" else chosen
    return html.Section(
        [
            html.H2("Timeline", id="h-timeline"),
            html.P("…", id="timeline-said", className="said", role="status"),
            html.Div(
                [
                    html.Button("‹ step", type="button", id="step-previous", title="previous (p)"),
                    html.Button("step ›", type="button", id="step-next", title="next (n)"),
                    *[
                        html.Button(
                            f"{pick.word}: step {pick.index}", type="button", className="pick",
                            **{"data-step": str(pick.index)},
                        )
                        for pick in known
                    ],
                    html.Button("whole step", type="button", id="step-whole", hidden=True),
                    html.Span("", id="timeline-notes", className="soft"),
                ],
                className="views",
            ),
            html.Div(id="timeline-canvas", **{"data-run": run}),
            html.Div(id="gap-panel", **{"aria-live": "polite"}),
            html.Div(id="timeline-legend"),
            html.Details(
                [html.Summary("data: the longest gaps shown"), html.Div(id="timeline-gaps")],
                className="twin",
            ),
        ],
        id="timeline",
        className="part",
        **{"aria-labelledby": "h-timeline"},
    )  # fmt: skip


def tab_bar(chosen: str, words: Sequence[str] = TABS) -> html.Div:
    """The tabs under the timeline; the address names the one that is open."""
    return html.Div(
        [
            html.Button(
                TAB_WORDS.get(word, word),
                type="button",
                role="tab",
                className="gt-tab",
                id=f"tab-{word}",
                tabIndex="0" if word == chosen else "-1",
                **{
                    "data-tab": word,
                    "aria-selected": "true" if word == chosen else "false",
                    "aria-controls": "tab",
                },
            )
            for word in words
        ],
        role="tablist",
        className="gt-tabs",
        id="tabs",
        **{"aria-label": "details of this recording"},
    )
