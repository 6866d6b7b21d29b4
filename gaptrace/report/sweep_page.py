"""A sweep as one HTML file and as one picture: curves first, then every figure in tables."""

from __future__ import annotations

from gaptrace import units
from gaptrace.errors import OptionError
from gaptrace.report.context import Context, Section, section
from gaptrace.report.html import glossary_section, redacted, who_line
from gaptrace.report.markup import element, headline, markup, shortened
from gaptrace.report.page import page
from gaptrace.report.privacy import Privacy
from gaptrace.report.sweep_plot import axis, figures, legend, legends, panel_figure, standalone
from gaptrace.report.sweep_text import choice_words, idle_words, signed, start_words
from gaptrace.report.tables import Cell, Number, counted, data_table, timed
from gaptrace.runs.startup import ModeStart
from gaptrace.runs.sweep import SweepAnalysis


def render_sweep_html(sweep: SweepAnalysis, privacy: Privacy = Privacy.OPEN) -> str:
    """The sweep as an HTML report that needs nothing else."""
    context = Context(privacy=privacy)
    parts = [_curves(sweep, context), _figures(sweep, context)]
    parts += [part for part in (_savings(sweep, context), _notes(sweep, context)) if part]
    parts.append(glossary_section(context.terms))
    facts = [shortened(privacy.text(fact), 80) for fact in sweep.facts]
    return page(
        title=f"{shortened(sweep.name, 120)} · gaptrace",
        who=who_line(shortened(sweep.name, 120), facts),
        top=[element("h1", headline(sweep.sentence))],
        navigation=parts,
        body=markup(*[part.html() for part in parts]),
        timelines=[],
        summary=redacted(sweep.summary, privacy),
    )


def render_sweep_svg(sweep: SweepAnalysis) -> str:
    """The curves of a sweep as an SVG file.

    Raises:
        OptionError: no point has a figure to draw.
    """
    if not figures(sweep):
        raise OptionError("this sweep has nothing to draw", "write .txt to see why")
    return str(standalone(sweep)) + "\n"


def _curves(sweep: SweepAnalysis, context: Context) -> Section:
    children = []
    for key, sentence, panels in figures(sweep):
        children += [
            element("p", sentence),
            legend(legends(sweep)[key]),
            panel_figure(panels, axis(sweep)),
        ]
    if not children:
        children = [element("p", "No point of this sweep has a figure to draw.", class_="soft")]
    return section(context, "curves", "Against batch and length", *children)


def _figures(sweep: SweepAnalysis, context: Context) -> Section:
    """Two tables, as one of all columns would be wider than a page."""
    terms = context.terms
    unit = units.time_unit(max((row.step_ns or 0 for row in sweep.rows), default=0))
    figures: list[list[Cell]] = []
    limits: list[list[Cell]] = []
    for mode in sweep.modes:
        for row in sweep.of_mode(mode):
            cold, warm = start_words(row.start)
            # One line each, however narrow the page.
            named: list[Cell] = [
                row.mode.replace("-", "\u2011"),
                row.place.words.replace(" ", "\u00a0"),
            ]
            figures.append(
                [
                    *named,
                    _rate(row.tokens_per_s),
                    timed(row.step_ns, unit),
                    Number(row.step_spread, units.share(row.step_spread, 1)),
                    Number(row.idle_share, idle_words(row)),
                    counted(row.kernels),
                    counted(row.launches),
                    counted(row.replays),
                    "" if row.repeats else row.status.replace("_", " "),
                ]
            )
            limits.append(
                [
                    *named,
                    _rate(row.launch_tokens_per_s),
                    _rate(row.bandwidth_tokens_per_s),
                    row.binding or units.MISSING,
                    Number(row.distance, units.share(row.distance, 1)),
                    _start(row.start, cold, "cold_ns"),
                    _start(row.start, warm, "warm_ns"),
                    Number(row.padding_share, units.share(row.padding_share, 1)),
                    choice_words(row),
                ]
            )
    figure_header = [
        "mode",
        terms.link("point", "point"),
        terms.link("tokens-per-s", "tok/s"),
        markup(terms.link("period", "step"), f", {unit}"),
        "±",
        terms.link("idle"),
        terms.link("kernel", "kernels"),
        terms.link("launch-call", "launches"),
        terms.link("graph-replay", "replays"),
        "",
    ]
    limit_header = [
        "mode",
        "point",
        markup(terms.link("launch-ceiling", "launch ceiling"), ", tok/s"),
        markup(terms.link("bandwidth-ceiling", "bandwidth ceiling"), ", tok/s"),
        terms.link("binding-ceiling", "binds"),
        "reached",
        markup(terms.link("cold-start", "cold start"), ", s"),
        "warm, s",
        terms.link("padding", "padding"),
        terms.link("autotune", "tuned"),
    ]
    text = f"{len(sweep.modes)} modes at {len(sweep.places)} points; counts are per step."
    return section(
        context,
        "figures",
        "Every mode at every point",
        element("p", terms.link("sweep"), f": {text}"),
        data_table("modes and points", figure_header, figures),
        data_table("ceilings and starts", limit_header, limits),
    )


def _start(start: ModeStart | None, text: str, name: str) -> Number:
    """Seconds until ready, sorted by what they say; `name` is the figure of a cached mode."""
    value = None
    if start is not None and text[:1].isdigit():
        value = getattr(start, name) or start.partly_ns or start.uncached_ns
    return Number(value, text)


def _rate(value: float | None) -> Number:
    return Number(value, units.MISSING if value is None else units.digits(value))


def _savings(sweep: SweepAnalysis, context: Context) -> Section | None:
    if not sweep.savings:
        return None
    terms = context.terms
    rows: list[list[Cell]] = [
        [
            item.place.words.replace(" ", "\u00a0"),
            Number(item.predicted_ns, units.time(item.predicted_ns)),
            Number(item.predicted_bytes, units.size(item.predicted_bytes)),
            item.predicted_from or "",
            item.source or "",
            Number(item.own_ns, units.time(item.own_ns)),
            Number(item.realised_ns, signed(item.realised_ns)),
            item.realised_from or "",
        ]
        for item in sweep.savings
    ]
    return section(
        context,
        "savings",
        "Fusion savings",
        element("p", "What fusion saves of the GPU's busy time in one step, point by point."),
        data_table(
            "fusion savings",
            [
                terms.link("point", "point"),
                terms.link("predicted-fusion", "predicted"),
                "bytes",
                "predicted from",
                "by",
                "from its own eager step",
                terms.link("realised-fusion", "realised"),
                "of the modes",
            ],
            rows,
        ),
    )


def _notes(sweep: SweepAnalysis, context: Context) -> Section | None:
    if not sweep.notes:
        return None
    lines = [element("li", shortened(context.privacy.text(note), 400)) for note in sweep.notes]
    return section(context, "notes", "Notes", element("ul", *lines))
