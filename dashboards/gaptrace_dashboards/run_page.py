"""One recording: the sections of its document, the live timeline, and tabs for the details."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from dash import dcc, html

from gaptrace.analysis import Analysis
from gaptrace.document.blocks import Document
from gaptrace.document.build import document
from gaptrace.document.sections import Context
from gaptrace.render.elements import element
from gaptrace.render.html_blocks import Page, drawn
from gaptrace.results.prediction import PredictionResult
from gaptrace.runs.run import RunAnalysis
from gaptrace.timeline.views import picks
from gaptrace_dashboards.components import Places, absent, answer, component, header, sections
from gaptrace_dashboards.library import GONE, Entry, Recording, recording_id
from gaptrace_dashboards.routes import given_error
from gaptrace_dashboards.urls import TABS, TRACE, State, address, report_url, run_url
from gaptrace_dashboards.what_if import what_if

# The sections behind each tab; the page shows all others. `ceilings` has the sliders.
TAB_SECTIONS: Mapping[str, tuple[str, ...]] = {
    "kernels": ("kernels",),
    "ops": ("ops",),
    "host": ("host",),
    "ceilings": (),
    "fusion": ("capture",),
    "compile": ("compile",),
    "power": ("power",),
    "provenance": ("devices", "provenance", "next"),
}
IN_TABS = frozenset(id_ for ids in TAB_SECTIONS.values() for id_ in ids)
# The live timeline takes its place.
LIVE = frozenset({"timeline"})
TAB_WORDS = {
    "compile": "compilation",
    "ceilings": "what if",
    "ops": "CPU ops",
    "fusion": "fusion and capture",
}
# What an empty tab says: why there is nothing, and what would record it.
ABSENT = {
    "kernels": "No kernel of a counted step to list.",
    "ops": "No CPU op was recorded (activities=[ProfilerActivity.CPU]).",
    "host": "No host activity of a counted step to list.",
    "fusion": "Nothing can be predicted: no complete step with known times.",
    "compile": "The run folder's manifest says nothing about compilation. `gaptrace collect` "
    "records recompiles with the guard that failed and graph breaks with their reason; a bare "
    "trace has neither.",
    "power": "No power or clock samples. `gaptrace collect` takes them while unprofiled steps "
    "run, where NVML is there.",
}
OPEN_STEP = (
    "Only the last, open step is there: it ends with its last op, so what comes after it is "
    "unknown. Record two steps or more."
)
FILE_GONE = "The file has gone; these figures are from when it was there."


def said(analysis: Analysis, run: RunAnalysis | None, without: frozenset[str]) -> Document:
    """The document of a recording; what its run measured of other modes is in its 2x2."""
    result = analysis.result
    if run is not None and run.result is not None and run.result.square:
        result = msgspec.structs.replace(result, square=run.result.square)
    analyses = dict.fromkeys((analysis.path, result.source.path), analysis)
    return document(result, Context(analyses=analyses, without=without))


def run_page(
    found: Recording, analysis: Analysis, run: RunAnalysis | None, state: State
) -> list[Any]:
    """The page's components; the tab's content comes with its own callback.

    state: the address; analysis and run are with the step that is given in it.
    """
    whole = said(analysis, run, IN_TABS | LIVE)
    page = Page(anchors=Places(analysis))
    gone = found.entry.state == GONE
    single = analysis.headline.complete == 0 and analysis.step_table is not None
    banners = [FILE_GONE] * gone + [OPEN_STEP] * (single and analysis.device is not None)
    actions = [
        _download(found.id, found.entry, state.given),
        html.Button(
            "Open in Perfetto", type="button", id="perfetto", className="perfetto",
            title="opens ui.perfetto.dev in a new tab, which takes the trace from this "
                  "one: it stays in your browser and is not uploaded",
            **{"data-trace": address(TRACE, [found.id]), "data-title": found.row.name,
               "data-file": os.path.basename(analysis.source.path)},
        ),
    ]  # fmt: skip
    parts: list[Any] = [
        _header(found.row.name, whole.identity, actions, found.entry, found.mode),
        answer(whole.answer, page),
        given_part(state.given),
        *[component(element("p", text, class_="banner")) for text in banners],
        *sections(whole.sections, page),
    ]
    if analysis.device is not None:
        parts.append(timeline_part(found.id, analysis))
    parts += [
        tab_bar(state.tab),
        dcc.Store(id="tab-shown"),
        html.Div(id="tab", role="tabpanel", **{"aria-label": "details"}),
    ]
    return parts


def given_part(given: str) -> html.Div:
    """The field for a step that was measured without the profiler; the address holds it."""
    error = given_error(given)
    return html.Div(
        [
            html.Label("measured step", htmlFor="given"),
            dcc.Input(
                id="given", type="text", value=given, placeholder="40.65ms or 24.6 tok/s",
                className="filter", autoComplete="off",
            ),
            html.Button("Apply", type="button", id="given-apply",
                        title="a step or rate measured without the profiler"),
            html.Button("Remove", type="button", id="given-remove") if given else None,
            html.Span(error, id="given-error", role="alert") if error else None,
        ],
        className="tools given",
    )  # fmt: skip


def modes_page(entry: Entry, run: RunAnalysis) -> list[Any]:
    """A run folder: its modes side by side, each a link to its own page."""
    whole = document(run.result, Context(without=frozenset()))
    links = {mode: run_url(recording_id(entry.place.id, mode)) for mode in run.modes}
    page = Page(anchors=Places(links=links))
    download = _download(recording_id(entry.place.id, run.modes[0]), entry)
    return [
        _header(run.name, whole.identity, [download], entry, ""),
        answer(whole.answer, page),
        *sections(whole.sections, page),
    ]


def _download(id_: str, entry: Entry, given: str = "") -> html.A:
    return html.A("Download report", href=report_url(id_, given), className="button",
                  download=f"{entry.place.name}.html", id="download")  # fmt: skip


def _header(
    name: str, facts: Sequence[str], actions: Sequence[Any], entry: Entry, mode: str
) -> html.Div:
    modes = [row.key for row in entry.rows if row.key]
    views = [
        (row or "all modes", run_url(recording_id(entry.place.id, row)), row == mode)
        for row in (("", *modes) if modes else ())
    ]
    about = [html.B(name), *[f" · {fact}" for fact in facts]]
    return header(about, actions, views, "run-modes", "modes")


def timeline_part(run: str, analysis: Analysis) -> html.Section:
    """The canvas timeline, filled by the script from `/api/timeline`, and the panel beside it."""
    steps = analysis.step_table
    known = () if steps is None or steps.rule == "whole trace" else picks(steps)
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


def tab_bar(chosen: str) -> html.Div:
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
            for word in TABS
        ],
        role="tablist",
        className="gt-tabs",
        id="tabs",
        **{"aria-label": "details of this recording"},
    )


def tab_content(
    analysis: Analysis, run: RunAnalysis | None, tab: str, prediction: PredictionResult | None
) -> list[Any]:
    """The components of one tab of a recording. prediction: only asked where it is shown."""
    if tab == "ceilings":
        return what_if(analysis)
    page = Page(anchors=Places(analysis), part=f"{tab}-")
    if prediction is not None:
        # It says of capture what the analysis says, and more.
        more = document(prediction, Context(prefix="fusion-", without=frozenset({"next"})))
        return [component(drawn([more.answer], page)), *sections(more.sections, page)]
    whole = said(analysis, run, LIVE).sections
    parts = [part for part in whole if part.id in TAB_SECTIONS[tab]]
    if not parts:
        title = TAB_WORDS.get(tab, tab)
        return [absent(f"{title[:1].upper()}{title[1:]}", ABSENT.get(tab, "Nothing is known."))]
    return sections(parts, page)
