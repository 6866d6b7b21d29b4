"""A whole run, or several recordings, as one HTML file: the modes side by side, then each alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gaptrace import units
from gaptrace.measure.result import Analysis
from gaptrace.report.context import Context, Section, section
from gaptrace.report.html import (
    Body,
    analysis_body,
    coarser_note,
    glossary_section,
    redacted,
    run_name,
    who_line,
    within_cap,
)
from gaptrace.report.markup import Markup, element, headline, markup, shortened
from gaptrace.report.matrix import SAID, matrix, run_cells
from gaptrace.report.overview import SIGN, identity
from gaptrace.report.page import page
from gaptrace.report.piece_section import run_part_sections
from gaptrace.report.predict_cells import run_predictions
from gaptrace.report.privacy import Privacy
from gaptrace.report.run_parts import host_words
from gaptrace.report.tables import Cell, Number, counted, data_table, timed
from gaptrace.report.terms import Terms
from gaptrace.report.views import Budget
from gaptrace.runs.run import RunAnalysis, host_dispatch, step_ns

# The sections before and after the table of all recordings.
Front = tuple[Callable[[Context], list[Section]], Callable[[Context], list[Section]]]


@dataclass(frozen=True)
class Entry:
    """One recording on a page of several: key for ids, title, and its analysis or why not."""

    key: str
    title: str
    analysis: Analysis | None
    note: str = ""


def render_run_html(
    run: RunAnalysis,
    privacy: Privacy = Privacy.OPEN,
) -> str:
    """A run folder as an HTML report: the 2x2 of its modes, their figures, then mode by mode.

    Modes that were not recorded are in the 2x2 as predicted from those that were.
    """
    entries = [_entry(run, mode) for mode in run.modes]
    cells = run_cells(run, run_predictions(run))

    def square(context: Context) -> list[Section]:
        if cells is None:
            return []
        said = element("p", SAID)
        return [section(context, "modes", "What would help", said, matrix(cells))]

    def parts(context: Context) -> list[Section]:
        return run_part_sections(run, context)

    name = shortened(run.name, 120)
    return within_cap(
        lambda budget: _several(name, run_sentence(run), entries, (square, parts), privacy, budget)
    )


def render_analyses_html(analyses: Sequence[Analysis], privacy: Privacy = Privacy.OPEN) -> str:
    """Several recordings as one HTML report: a table of all, then one after another."""
    entries = [
        Entry(f"r{i}", run_name(analysis, privacy), analysis)
        for i, analysis in enumerate(analyses, start=1)
    ]
    sentence = f"{len(entries)} recordings. {analyses[0].sentence}"
    none: Front = (lambda _: [], lambda _: [])
    return within_cap(lambda budget: _several("gaptrace", sentence, entries, none, privacy, budget))


def run_sentence(run: RunAnalysis) -> str:
    """The fastest mode, its rate, and how that compares with eager."""
    known = [
        (analysis.headline.rate.tokens_per_s, mode)
        for mode in run.modes
        if (analysis := run.representative(mode)) is not None
        and analysis.headline.rate.tokens_per_s is not None
    ]
    if not known:
        return "No mode of this run could be measured."
    rate, best = max(known, key=lambda item: item[0] or 0)
    if len(known) == 1:
        only = run.representative(best)
        assert only is not None
        return f"Only {best} could be measured. {only.sentence}"
    text = f"{best} is the fastest mode: {units.rate(rate)}"
    eager = next((value for value, mode in known if mode == "eager"), None)
    if eager and rate and best != "eager":
        text += f", {units.digits(rate / eager)}× eager ({units.rate(eager)})"
    first = run.representative("eager")
    return f"{text}. {first.sentence}" if first is not None else f"{text}."


def _entry(run: RunAnalysis, mode: str) -> Entry:
    repeats = len(run.repeats(mode))
    reasons = [cell.reason or cell.status for cell in run.cells if cell.mode == mode]
    analysis = run.representative(mode)
    note = f"median of {repeats} repeats" if repeats > 1 else ""
    if analysis is None:
        note = next((reason for reason in reasons if reason), "not recorded")
    return Entry(mode, mode, analysis, note)


def _several(
    name: str,
    sentence: str,
    entries: Sequence[Entry],
    around: Front,
    privacy: Privacy,
    budget: Budget,
) -> str:
    shared = Terms()
    recorded = [entry for entry in entries if entry.analysis is not None]
    each = Budget(budget.characters // max(len(recorded), 1), budget.limits)
    bodies: list[tuple[Entry, Body]] = []
    for entry in recorded:
        assert entry.analysis is not None
        context = Context(f"{entry.key}-", shared, privacy, each)
        bodies.append((entry, analysis_body(entry.analysis, context)))
    context = Context("", shared, privacy, budget)
    front: list[Section] = [
        *around[0](context),
        _overview(entries, context),
        *around[1](context),
    ]
    last = glossary_section(shared)
    first = next((entry.analysis for entry in recorded), None)
    parts = [
        element(
            "div",
            element("h2", entry.title, class_="mode"),
            *[_second_heading(item) for item in body.top],
            *[part.html() for part in body.sections],
            data_mode=entry.key,
            data_title=entry.title,
            data_analysis=f"{entry.key}-",
            id=entry.key,
        )
        for entry, body in bodies
    ]
    return page(
        title=f"{name} · gaptrace",
        who=who_line(name, [] if first is None else identity(first, context)),
        top=[element("h1", headline(sentence)), *coarser_note(budget)],
        navigation=[
            *front,
            *[Section(entry.key, entry.title, markup()) for entry, _ in bodies],
            last,
        ],
        body=markup(
            *[part.html() for part in front],
            element("div", class_="modes", role="group", aria_label="which recording to show"),
            *parts,
            last.html(),
        ),
        timelines=[body.timelines for _, body in bodies if body.timelines["views"]],
        summary=redacted(
            {
                "schema": "gaptrace.analyses/1",
                "analyses": [entry.analysis.summary for entry in recorded if entry.analysis],
            },
            privacy,
        ),
    )


def _second_heading(item: Markup) -> Markup:
    """A top part of a single report one level down: its sentence is no longer the page's title."""
    return Markup(item.replace("<h1>", '<p class="lead">', 1).replace("</h1>", "</p>", 1))


def _overview(entries: Sequence[Entry], context: Context) -> Section:
    terms = context.terms
    rows: list[list[Cell]] = []
    times = [step_ns(entry.analysis) for entry in entries if entry.analysis is not None]
    unit = units.time_unit(max((time for time in times if time), default=0))
    for entry in entries:
        analysis = entry.analysis
        if analysis is None:
            blank = Number(None, units.MISSING)
            rows.append([entry.title, *[blank] * 6, units.MISSING, shortened(entry.note, 300)])
            continue
        head = analysis.headline
        share = head.unprofiled_idle_share if head.unprofiled_idle_share else head.idle_share
        rate = head.rate.tokens_per_s
        rows.append(
            [
                element("a", entry.title, href=f"#{entry.key}"),
                Number(rate, units.MISSING if rate is None else units.digits(rate)),
                timed(step_ns(analysis), unit),
                Number(share, units.share(share, 1)),
                counted(head.steps["kernels"].median),
                counted(head.steps["launches"].median),
                Number(host_dispatch(analysis)[0], host_words(analysis, unit)),
                f"{SIGN[analysis.quality.verdict]} {analysis.quality.verdict}",
                shortened(entry.note or head.rate.source, 300),
            ]
        )
    return section(
        context,
        "recordings",
        "Side by side",
        data_table(
            "recordings side by side",
            [
                "recording",
                terms.link("tokens-per-s", "tok/s"),
                markup(terms.link("period", "step"), f", {unit}"),
                terms.link("idle"),
                terms.link("kernel", "kernels"),
                terms.link("launch-call", "launches"),
                markup(terms.link("host-dispatch"), f", {unit}"),
                terms.link("verdict", "trace"),
                "note",
            ],
            rows,
        ),
    )
