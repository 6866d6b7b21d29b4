"""The Dash app: one shell, pages by address, callbacks that hand over to pure functions."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from dash import Dash, Input, Output, State, dcc, html, no_update
from flask import has_request_context, request

from gaptrace.errors import GaptraceError
from gaptrace.render.drawing.looks import canvas_looks, pattern_defs
from gaptrace.render.elements import Node, element
from gaptrace.render.html_blocks import keys_dialog
from gaptrace.runs.run import RunAnalysis
from gaptrace_dashboards import urls
from gaptrace_dashboards.compare_page import compare_page, refused_page
from gaptrace_dashboards.components import component, state_page
from gaptrace_dashboards.delivery import ASSETS, add_shared_files, document
from gaptrace_dashboards.glossary_page import KEYS, glossary_page
from gaptrace_dashboards.grids import flat
from gaptrace_dashboards.library import FAILED, WORKING, Library, Recording, recording_id
from gaptrace_dashboards.routes import Desk, add_routes
from gaptrace_dashboards.run_page import modes_page, run_page, tab_content
from gaptrace_dashboards.runs_page import (
    grid_rows,
    headline,
    ladder_part,
    pending_words,
    progress_words,
    runs_page,
    table_height,
)
from gaptrace_dashboards.security import secure
from gaptrace_dashboards.what_if import answer as what_if_answer

TICK_MS = 1_500
F = TypeVar("F", bound=Callable[..., Any])


def create_app(runs: Library) -> Dash:
    """A Dash app that shows the runs of a library; nothing is kept outside the two."""
    app = Dash(
        "gaptrace_dashboards",
        title="gaptrace",
        update_title=None,
        assets_folder=ASSETS,
        index_string=document(),
        serve_locally=True,
        suppress_callback_exceptions=True,
        enable_mcp=False,
    )
    desk = Desk(runs)
    app.layout = partial(first_layout, desk)
    _add_callbacks(app, desk)
    add_routes(app.server, desk)
    add_shared_files(app.server)
    secure(app.server, app.csp_hashes())
    return app


def first_layout(desk: Desk) -> html.Div:
    """The shell; that of the list of runs has the list in it, which spares a second answer.

    Dash asks for the layout without saying for which page: the browser says where it is.
    """
    here = request.headers.get("Referer") if has_request_context() else None
    state = urls.parse(here)
    if here is None or state.page != urls.RUNS:
        return shell()
    return shell(page(desk, state), page_key(desk.library, state))


def shell(content: list[Any] | None = None, shown: str | None = None) -> html.Div:
    """What every page has: the address, the tick, the header, the place for the page, the keys.

    `content` is the page, and `shown` its key, where they are known already.
    """
    return html.Div(
        [
            dcc.Location(id="url", refresh=False),
            dcc.Store(id="shown", data=shown),
            dcc.Store(id="changed"),
            dcc.Interval(id="tick", interval=TICK_MS),
            html.A("skip to the answer", href="#page", className="skip"),
            component(element("svg", pattern_defs(), width=0, height=0, class_="defs",
                              aria_hidden="true")),
            html.Div(id="looks", hidden=True, **{"data-looks": json.dumps(canvas_looks())}),
            html.Header(
                [
                    html.A([html.B("gap"), "trace"], href="/", className="brand",
                           **{"aria-label": "gaptrace: all runs"}),
                    html.Nav(
                        [
                            html.A("Runs", href="/", **{"data-page": "/"}),
                            html.A("Glossary", href="/glossary", **{"data-page": "/glossary"}),
                        ],
                        **{"aria-label": "pages"},
                    ),
                    html.Div(
                        [
                            html.Button("Theme", id="theme", type="button", title="theme (t)"),
                            html.Button("Keys ?", id="keys-button", type="button",
                                        title="keyboard map (?)"),
                        ],
                        className="actions",
                    ),
                ],
                className="top",
            ),
            dcc.Loading(
                html.Main(content, id="page", tabIndex="-1"),
                delay_show=400,
                type="default",
                overlay_style={"visibility": "visible", "opacity": 0.5},
            ),
            component(keys_dialog(
                KEYS, element("button", "Close", type="button", id="keys-close")
            )),
        ],
        id="shell",
    )  # fmt: skip


def _add_callbacks(app: Dash, desk: Desk) -> None:
    library = desk.library
    # Dash does not say what its decorator leaves: the function as it is.
    callback: Callable[..., Callable[[F], F]] = app.callback

    @callback(
        Output("changed", "data"),
        Input("tick", "n_intervals"),
        State("url", "href"),
        State("shown", "data"),
        prevent_initial_call=True,
    )
    def look(_tick: int | None, href: str | None, shown: str | None) -> Any:
        library.refresh()
        key = page_key(library, urls.parse(href))
        return no_update if key == shown else key

    @callback(
        Output("page", "children"),
        Output("shown", "data"),
        Input("url", "href"),
        Input("changed", "data"),
        State("shown", "data"),
    )
    def show_page(href: str | None, _changed: str | None, shown: str | None) -> tuple[Any, Any]:
        state = urls.parse(href)
        key = page_key(library, state)
        return (no_update, no_update) if key == shown else (page(desk, state), key)

    @callback(
        Output("tab", "children"),
        Output("tab-shown", "data"),
        Input("url", "href"),
        Input("shown", "data"),
        State("tab-shown", "data"),
    )
    def show_tab(href: str | None, shown: str | None, known: str | None) -> tuple[Any, Any]:
        state = urls.parse(href)
        key = f"{state.tab} {shown}"
        found = library.recording(state.runs[0]) if state.page == urls.RUN and state.runs else None
        analysis = None if found is None else desk.analysis(found, state.given)
        if found is None or analysis is None or shown is None or key == known:
            return no_update, no_update
        predicted = desk.prediction(found, state.given) if state.tab == "fusion" else None
        return tab_content(analysis, desk.run(found, state.given), state.tab, predicted), key

    @callback(
        Output("runs-grid", "rowData"),
        Output("runs-grid", "style"),
        Output("runs-sentence", "children"),
        Output("runs-progress", "children"),
        Output("ladder", "children"),
        Output("runs-version", "data"),
        Input("runs-tick", "n_intervals"),
        State("runs-version", "data"),
        prevent_initial_call=True,
    )
    def new_rows(_tick: int | None, known: int | None) -> tuple[Any, ...]:
        version = library.refresh()
        busy = any(entry.state == WORKING for entry in library.entries())
        if version == known and not busy:
            return (no_update,) * 6
        rows = flat(grid_rows(library))
        return (
            rows,
            {"height": table_height(len(rows)), "width": "100%"},
            headline(library),
            progress_words(library),
            ladder_part(library.recordings()),
            version,
        )

    @callback(
        Output("what-if", "data-html"),
        Output("what-if-said", "children"),
        Output("what-if-captured", "aria-pressed"),
        Input("what-if-bits", "value"),
        Input("what-if-bandwidth", "value"),
        Input("what-if-host", "value"),
        Input("what-if-captured", "n_clicks"),
        State("url", "href"),
        prevent_initial_call=True,
    )
    def moved(*values: Any) -> tuple[Any, Any, Any]:
        state = urls.parse(values[-1])
        found = library.recording(state.runs[0]) if state.runs else None
        analysis = None if found is None else desk.analysis(found, state.given)
        return (no_update,) * 3 if analysis is None else what_if_answer(analysis, *values[:-1])


def page_key(library: Library, state: urls.State) -> str:
    """Changes when a page has to be made again."""
    return json.dumps([*state.key, *content_key(library, state)])


def content_key(library: Library, state: urls.State) -> list[str]:
    """What of the library a page's content depends on: empty lists, states, files' stamps."""
    if state.page == urls.RUNS:
        return [str(bool(library.entries()))]
    found = []
    for id_ in state.runs:
        entry = library.entry(id_)
        if entry is None:
            found.append("absent")
        else:
            words = "" if entry.rows or entry.state == FAILED else pending_words(library, entry)
            found.append(f"{entry.state} {entry.file} {words}")
    return found


def page(desk: Desk, state: urls.State) -> list[Any]:
    """The components of the page that an address names."""
    if state.page == urls.RUNS:
        return runs_page(desk.library)
    if state.page == urls.GLOSSARY:
        return glossary_page()
    if state.page == urls.RUN:
        return _run(desk, state)
    if state.page == urls.COMPARE:
        return _compare(desk, state)
    return [state_page("There is no such page.", f"Nothing lives at {state.page}.")]


def _run(desk: Desk, state: urls.State) -> list[Any]:
    library = desk.library
    if not state.runs:
        return [state_page("No run is named.", "Pick one from the list of runs.")]
    found = library.recording(state.runs[0])
    if found is None:
        entry = library.entry(state.runs[0])
        whole = None if entry is None else library.result(entry)
        if entry is not None and isinstance(whole, RunAnalysis):
            return modes_page(entry, whole)
        return [_unready(library, state.runs[0])]
    analysis = desk.analysis(found, state.given)
    if analysis is None:
        reason = found.row.note or "It has no recording."
        if found.row.note == "saved":
            said = "A saved baseline holds figures to compare with and no trace to look into."
            return [state_page(f"{found.row.name} is a saved baseline.", said)]
        return [state_page(f"{found.row.name} was not recorded.", reason, *_other_modes(found))]
    return run_page(found, analysis, desk.run(found, state.given), state)


def _other_modes(found: Recording) -> list[list[Node]]:
    place = found.entry.place.id
    links: list[Node] = []
    for row in found.entry.rows:
        if row.key != found.mode and not row.note:
            address = urls.run_url(recording_id(place, row.key))
            links += [", "] * bool(links) + [element("a", row.key, href=address)]
    return [["Recorded modes of this run: ", *links, "."]] if links else []


def _unready(library: Library, id_: str) -> html.Div:
    entry = library.entry(id_)
    if entry is None:
        return state_page(
            "This run is not here.",
            "The address names a run that is not under the paths this dashboard was started with.",
        )
    words = pending_words(library, entry)
    if entry.state == FAILED:
        return state_page(f"{entry.place.name} was refused.", entry.error, entry.hint)
    return state_page(f"{entry.place.name}: {words}.", "This page fills itself.", retry=True)


def _compare(desk: Desk, state: urls.State) -> list[Any]:
    library = desk.library
    if len(state.runs) < 2:
        return [state_page("Two runs are needed.", "Pick two to four in the list of runs.")]
    found = []
    for id_ in state.runs:
        recording = library.recording(id_)
        if recording is None:
            return [_unready(library, id_)]
        found.append(recording)
    try:
        comparison = desk.comparison(found, forced=state.forced)
    except GaptraceError as error:
        return [refused_page(state, error.message)]
    return compare_page(state, found, comparison)
