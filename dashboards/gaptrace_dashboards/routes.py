"""Answers that are not pages: timeline windows, gap panels, reports, traces."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from flask import Flask, Response, request, send_file
from werkzeug.exceptions import Conflict, NotFound

from gaptrace.analysis import Analysis, analyze
from gaptrace.compare.compare import FORCE, REFUSE, CompareOptions
from gaptrace.document.blocks import Detail
from gaptrace.errors import GaptraceError, OptionError
from gaptrace.measure.given import STEP, given_of
from gaptrace.measure.options import NOT_GIVEN, Options
from gaptrace.predict.predict import predict, predict_run
from gaptrace.render.files import Report, file_text
from gaptrace.results.prediction import PredictionResult
from gaptrace.runs.compared import analyses_of, compare
from gaptrace.runs.record import with_given
from gaptrace.runs.run import RunAnalysis
from gaptrace.timeline.scope import Scope
from gaptrace_dashboards.compare_page import Compared, timelines
from gaptrace_dashboards.gap_panel import gap_panel
from gaptrace_dashboards.held import Held
from gaptrace_dashboards.library import Library, Recording
from gaptrace_dashboards.places import RUN, SAVED
from gaptrace_dashboards.urls import COMPARE, COMPARISON_REPORT, REPORT, TIMELINES, TRACE, parse
from gaptrace_dashboards.windows import asked, payload
from gaptrace_dashboards.work import Result


class Desk:
    """The library with what was lately asked of it: windows as text, comparisons, reports."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self._windows, self._comparisons, self._reports = Held(64), Held(4), Held(4)
        self._scopes, self._predictions = Held(4), Held(8)
        self._given = Held(4)

    def scope(self, found: Recording, analysis: Analysis) -> Scope:
        """The recording indexed by time, for drawing."""
        return self._scopes.get((found.id, found.entry.file), lambda: Scope(analysis))

    def timeline(self, found: Recording, analysis: Analysis, query: dict[str, str]) -> str:
        """A window of a recording as JSON text."""
        wanted = tuple(sorted(item for item in query.items() if item[0] != "run"))

        def make() -> str:
            scope = self.scope(found, analysis)
            return _json(payload(analysis, scope, asked(scope, query)))

        return self._windows.get((found.id, found.entry.file, wanted), make)

    def comparison(self, found: Sequence[Recording], *, forced: bool) -> Compared:
        """The comparison of recordings, the first being the baseline.

        Raises:
            GaptraceError: they cannot be compared, or are unlike and not forced.
        """
        key = (tuple((r.id, r.entry.file) for r in found), forced)

        def make() -> Compared:
            sides = self.library.sides(found)
            result = compare(sides, CompareOptions(unlike=FORCE if forced else REFUSE))
            return Compared(result, analyses_of((sides[0], side) for side in sides[1:]))

        return self._comparisons.get(key, make)

    def result(self, found: Recording, given: str) -> Result | None:
        """The whole result of a recording's place, with a step that was given for the recording.

        given: as in an address; one that cannot be read counts as none, see `given_error`.
        """
        result = self.library.result(found.entry)
        step = NOT_GIVEN if given_error(given) else given_of(given)
        if not step or result is None:
            return result

        def make() -> Result:
            if isinstance(result, RunAnalysis):
                return with_given(result, found.mode, step)
            if isinstance(result, Analysis):
                return analyze(result.trace, Options(given=step))
            return result

        return self._given.get((found.id, found.entry.file, step), make)

    def analysis(self, found: Recording, given: str) -> Analysis | None:
        """The analysis that stands for a recording, with a step that was given for it."""
        result = self.result(found, given)
        if isinstance(result, RunAnalysis):
            return result.representative(found.mode)
        return result if isinstance(result, Analysis) else None

    def run(self, found: Recording, given: str) -> RunAnalysis | None:
        """The run folder that a recording belongs to, with a step that was given for it."""
        result = self.result(found, given) if found.entry.place.kind == RUN else None
        return result if isinstance(result, RunAnalysis) else None

    def prediction(self, found: Recording, given: str = "") -> PredictionResult | None:
        """What compiling and capturing would buy; of a run from its eager mode, with the score."""
        result = self.result(found, given)

        def make() -> PredictionResult | None:
            try:
                if isinstance(result, RunAnalysis):
                    return predict_run(result)
                if isinstance(result, Analysis) and result.result.headline.step_ns is not None:
                    return predict(result)
            except GaptraceError:
                pass  # Said as nothing that can be predicted.
            return None

        return self._predictions.get(_key(found, given), make)

    def report(self, found: Recording, given: str = "") -> str | None:
        """The HTML report of a place, as `gaptrace analyze PATH -o report.html` writes it."""
        result = self.result(found, given)
        if not isinstance(result, (Analysis, RunAnalysis)):
            return None
        report = Report(result.result, result.analyses)
        return self._reports.get(_key(found, given), lambda: html_text(report))


def _key(found: Recording, given: str) -> tuple[str, ...]:
    """What an answer about a whole place depends on."""
    place = found.entry.place.id
    return (place, found.entry.file, *((found.mode, given) if given else ()))


def given_error(given: str) -> str:
    """Why a given step cannot be read, with what would be one; empty where it can."""
    try:
        given_of(given)
    except OptionError as error:
        return f"{error.message.removeprefix(f'{STEP} ')}: {error.hint}"
    return ""


def html_text(report: Report) -> str:
    """A report as the command line writes it."""
    return file_text("report.html", [report], Detail.FULL)


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
        found, analysis = analysed()
        number = request.args.get("gap", "")
        place = int(number) if number.isdigit() and len(number) < 12 else -1
        return Response(gap_panel(desk.scope(found, analysis), place), mimetype="text/html")

    def compared() -> tuple[Compared, int]:
        """The comparison that is asked for, and which pair of it."""
        state = parse(f"{COMPARE}?{request.query_string.decode()}")
        found = [recording for id_ in state.runs if (recording := library.recording(id_))]
        if len(found) < max(len(state.runs), 2):
            raise NotFound("no such runs")
        try:
            return desk.comparison(found, forced=state.forced), state.pair
        except GaptraceError as error:
            raise Conflict(error.message) from error

    def compare_() -> Response:
        return _answer(_json(timelines(*compared())))

    def report() -> Response:
        text = desk.report(wanted(), parse(request.full_path).given)
        if text is None:
            raise NotFound("a saved baseline has no report of its own")
        return _page(text)

    def comparison_report() -> Response:
        found, _ = compared()
        return _page(html_text(Report(found.result, found.analyses)))

    def trace() -> Response:
        path = trace_path(library, wanted())
        if path is None:
            raise NotFound("this recording's file is not there")
        return send_file(os.path.abspath(path), mimetype="application/octet-stream")

    server.add_url_rule("/api/timeline", "gt_timeline", timeline_)
    server.add_url_rule("/api/gap", "gt_gap", gap)
    server.add_url_rule(TIMELINES, "gt_compare", compare_)
    server.add_url_rule(REPORT, "gt_report", report)
    server.add_url_rule(COMPARISON_REPORT, "gt_report_compare", comparison_report)
    server.add_url_rule(TRACE, "gt_trace", trace)


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
