"""Answers that are not pages: timeline windows, gap panels, reports, traces."""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import Any

from flask import Flask, Response, request, send_file
from werkzeug.exceptions import Conflict, NotFound

from gaptrace.compare.result import Comparison
from gaptrace.errors import GaptraceError
from gaptrace.measure.result import Analysis
from gaptrace.predict import Prediction, predict, predict_run
from gaptrace.report.html import render_analysis_html
from gaptrace.report.html_compare import render_comparison_html
from gaptrace.report.html_run import render_run_html
from gaptrace.report.scope import Scope
from gaptrace.runs.run import RunAnalysis
from gaptrace_dashboards.compare_page import compared, timelines
from gaptrace_dashboards.fragments import in_dashboard
from gaptrace_dashboards.gap_panel import gap_panel
from gaptrace_dashboards.library import Library, Recording
from gaptrace_dashboards.places import RUN, SAVED
from gaptrace_dashboards.urls import parse
from gaptrace_dashboards.windows import asked, payload

KEPT, SCOPES = 64, 4


class Answers:
    """The last answers, so that going back costs nothing. Keys hold a result's file."""

    def __init__(self, most: int = KEPT) -> None:
        self._most, self._lock = most, Lock()
        self._held: OrderedDict[Any, Any] = OrderedDict()

    def get(self, key: Any, make: Callable[[], Any]) -> Any:
        """The answer under a key, made where it is not held."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        value = make()
        with self._lock:
            self._held[key] = value
            while len(self._held) > self._most:
                self._held.popitem(last=False)
        return value


class Desk:
    """The library with what was lately asked of it: windows as text, comparisons, reports."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self._windows, self._comparisons, self._reports = Answers(), Answers(4), Answers(4)
        self._scopes, self._predictions = Answers(SCOPES), Answers(8)

    def scope(self, found: Recording, analysis: Analysis) -> Scope:
        """The recording indexed by time, for drawing."""
        key = (found.id, found.entry.file)
        result: Scope = self._scopes.get(key, lambda: Scope(analysis))
        return result

    def timeline(self, found: Recording, analysis: Analysis, query: dict[str, str]) -> str:
        """A window of a recording as JSON text."""
        window = asked(analysis, query)
        key = (found.id, found.entry.file, window)
        text: str = self._windows.get(
            key, lambda: _json(payload(self.scope(found, analysis), window))
        )
        return text

    def comparison(self, found: Sequence[Recording], *, forced: bool) -> Comparison:
        """The comparison of recordings, the first being the baseline.

        Raises:
            GaptraceError: they cannot be compared, or are unlike and not forced.
        """
        key = (tuple((r.id, r.entry.file) for r in found), forced)

        result: Comparison = self._comparisons.get(
            key, lambda: compared(self.library.sides(found), forced=forced)
        )
        return result

    def prediction(self, found: Recording, analysis: Analysis) -> Prediction | None:
        """What compiling and capturing would buy; of a run from its eager mode, with the score."""
        if analysis.device is None or analysis.headline.steps["period_ns"].median is None:
            return None
        run = self.library.run(found)
        one = found.id if run is None else found.entry.place.id

        def make() -> Prediction | None:
            try:
                return predict(analysis) if run is None else predict_run(run)
            except GaptraceError:
                return None

        result: Prediction | None = self._predictions.get((one, found.entry.file), make)
        return result

    def report(self, found: Recording) -> str | None:
        """The HTML report of a place, as `gaptrace analyze PATH -o report.html` writes it."""
        result = self.library.result(found.entry)
        key = (found.entry.place.id, found.entry.file)
        if isinstance(result, RunAnalysis):
            text: str = self._reports.get(key, partial(render_run_html, result))
        elif isinstance(result, Analysis):
            text = self._reports.get(key, partial(render_analysis_html, result))
        else:
            return None
        return text


def add_routes(server: Flask, desk: Desk) -> None:
    """Register every route on a Flask server."""
    library = desk.library

    def wanted() -> Recording:
        found = library.recording(request.args.get("run", ""))
        if found is None:
            raise NotFound("no such run")
        return found

    def analysed() -> tuple[Recording, Analysis]:
        found = wanted()
        analysis = library.analysis(found)
        if analysis is None or analysis.device is None:
            raise NotFound("this recording has no GPU op to draw")
        return found, analysis

    def timeline_() -> Response:
        found, analysis = analysed()
        return _answer(desk.timeline(found, analysis, request.args.to_dict()))

    def gap() -> Response:
        _, analysis = analysed()
        number = request.args.get("gap", "")
        place = int(number) if number.isdigit() and len(number) < 12 else -1
        return Response(in_dashboard(gap_panel(analysis, place)), mimetype="text/html")

    def compare_() -> Response:
        state = parse(request.full_path.replace("/api/compare", "/compare", 1))
        found = [library.recording(id_) for id_ in state.runs]
        known = [recording for recording in found if recording is not None]
        if len(known) < 2 or len(known) < len(found):
            raise NotFound("no such runs")
        try:
            comparison = desk.comparison(known, forced=state.forced)
        except GaptraceError as error:
            raise Conflict(error.message) from error
        return _answer(_json(timelines(comparison, state.pair)))

    def report() -> Response:
        found = wanted()
        text = desk.report(found)
        if text is None:
            raise NotFound("a saved baseline has no report of its own")
        return _page(text)

    def comparison_report() -> Response:
        state = parse(request.full_path.replace("/report/compare", "/compare", 1))
        found = [r for id_ in state.runs if (r := library.recording(id_)) is not None]
        if len(found) < 2:
            raise NotFound("no such runs")
        try:
            return _page(render_comparison_html(desk.comparison(found, forced=state.forced)))
        except GaptraceError as error:
            raise Conflict(error.message) from error

    def trace() -> Response:
        found = wanted()
        path = trace_path(library, found)
        if path is None:
            raise NotFound("this recording's file is not there")
        return send_file(os.path.abspath(path), mimetype="application/octet-stream")

    server.add_url_rule("/api/timeline", "gt_timeline", timeline_)
    server.add_url_rule("/api/gap", "gt_gap", gap)
    server.add_url_rule("/api/compare", "gt_compare", compare_)
    server.add_url_rule("/report", "gt_report", report)
    server.add_url_rule("/report/compare", "gt_report_compare", comparison_report)
    server.add_url_rule("/trace", "gt_trace", trace)


def trace_path(library: Library, found: Recording) -> str | None:
    """The file behind a recording, if it is there: only ever one that the library found itself."""
    if found.entry.place.kind == SAVED:
        return None
    analysis = library.analysis(found)
    if analysis is None:
        return None
    path = analysis.trace.source.path if found.entry.place.kind == RUN else found.entry.place.path
    inside = any(_within(path, root) for root in library.paths)
    return path if inside and os.path.isfile(path) else None


def _within(path: str, root: str) -> bool:
    path, root = os.path.realpath(path), os.path.realpath(root)
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _answer(text: str) -> Response:
    return Response(text, mimetype="application/json", headers={"Cache-Control": "no-store"})


def _page(text: str) -> Response:
    # The report brings its own, stricter policy in its head; ours would forbid its inline parts.
    return Response(
        text,
        mimetype="text/html",
        headers={
            "Content-Security-Policy": "frame-ancestors 'none'",
            "Cache-Control": "no-store",
        },
    )
