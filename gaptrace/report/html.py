"""Analysis, run or comparison as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gaptrace import units
from gaptrace.measure.result import Analysis
from gaptrace.report.context import Context, Section, section
from gaptrace.report.detail import (
    compile_section,
    host_section,
    kernels_section,
    ops_section,
    power_section,
    provenance_section,
)
from gaptrace.report.finding_list import findings_section
from gaptrace.report.markup import Markup, element, headline, markup, shortened
from gaptrace.report.matrix import SAID, MatrixCell, analysis_cells, matrix
from gaptrace.report.overview import ceilings_section, identity, token_section, trust_line
from gaptrace.report.page import page
from gaptrace.report.piece_section import piece_section
from gaptrace.report.predict_cells import analysis_predictions
from gaptrace.report.privacy import Privacy
from gaptrace.report.step_views import said, strip_section, timeline_section
from gaptrace.report.terms import Terms
from gaptrace.report.timeline_data import as_data
from gaptrace.report.views import Budget, View, views
from gaptrace.report.windows import Limits

# A report larger than this is made again with coarser timelines.
HARD_CAP = 8_000_000
COARSER = (
    Budget(),
    Budget(characters=0, limits=Limits(4_000, 2_000, 500, 4_000)),
    Budget(characters=0, limits=Limits(1_000, 300, 0, 1_000)),
)


@dataclass(frozen=True)
class Body:
    """One analysis laid out: the lines under its sentence, its sections, its timeline data."""

    top: tuple[Markup, ...]
    sections: tuple[Section, ...]
    timelines: dict[str, Any]


def analysis_body(analysis: Analysis, context: Context) -> Body:
    """Everything a page says about one analysis but the glossary, in reading order."""
    shown = views(analysis, context.budget)
    found: list[Section | None] = [
        token_section(analysis, context),
        ceilings_section(analysis, context),
        modes_section(analysis, context),
        findings_section(analysis, shown, context),
        strip_section(analysis, shown, context),
        timeline_section(analysis, shown, context),
        piece_section(analysis, context),
        kernels_section(analysis, context),
        ops_section(analysis, context),
        host_section(analysis, context),
        compile_section(analysis, context),
        power_section(analysis, context),
        provenance_section(analysis, context),
    ]
    return Body(
        top=(
            element("h1", headline(analysis.sentence)),
            trust_line(analysis, context),
            *_empty_state(analysis),
        ),
        sections=tuple(part for part in found if part is not None),
        timelines=_timeline_data(shown, context),
    )


def modes_section(analysis: Analysis, context: Context) -> Section | None:
    """The 2x2 of a lone recording: its own mode measured, the others as predicted."""
    if not context.predicted:
        return None
    cells = analysis_cells(analysis, context.predicted)
    return section(context, "modes", "What would help", element("p", SAID), matrix(cells))


def _empty_state(analysis: Analysis) -> tuple[Markup, ...]:
    """What to do where there is nothing to measure."""
    if analysis.device is None:
        text = (
            "No kernel, copy or memset is in this trace. Record with "
            "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], or use `gaptrace collect`."
        )
    elif analysis.headline.steps["period_ns"].median is None:
        text = (
            "No decode step was found, so there are no figures per token. Looked for: gaptrace "
            "marks, engine labels, ProfilerStep, repeated annotations, compiled regions, repeating "
            "kernels. Name the steps with --step REGEX."
        )
    else:
        return ()
    return (element("p", text, class_="banner"),)


def _timeline_data(shown: Sequence[View], context: Context) -> dict[str, Any]:
    return {
        "id": context.prefix or "-",
        "names": shown[0].timeline.names.texts if shown else [],
        "views": [
            {
                "id": context.id(view.id),
                "listed": view.step is not None or len(shown) == 1,
                "said": said(view.timeline),
                "data": as_data(view.timeline),
            }
            for view in shown
        ],
    }


def render_analysis_html(analysis: Analysis, privacy: Privacy = Privacy.OPEN) -> str:
    """One analysis as an HTML report, with the other modes of its 2x2 as predicted."""
    predicted = analysis_predictions(analysis)
    return within_cap(lambda budget: _analysis_page(analysis, privacy, budget, predicted))


def within_cap(render: Callable[[Budget], str]) -> str:
    """The finest rendering that stays under the hard cap, else the coarsest there is."""
    text = ""
    for budget in COARSER:
        text = render(budget)
        if len(text) <= HARD_CAP:
            break
    return text


def _analysis_page(
    analysis: Analysis, privacy: Privacy, budget: Budget, predicted: Mapping[str, MatrixCell]
) -> str:
    context = Context(privacy=privacy, budget=budget, predicted=predicted)
    body = analysis_body(analysis, context)
    parts = [*body.sections, glossary_section(context.terms)]
    name = run_name(analysis, privacy)
    return page(
        title=f"{name} · gaptrace",
        who=who_line(name, identity(analysis, context)),
        top=[*body.top, *coarser_note(budget)],
        navigation=parts,
        body=markup(*[part.html() for part in parts]),
        timelines=[body.timelines],
        summary=redacted(analysis.summary, privacy),
    )


def coarser_note(budget: Budget) -> tuple[Markup, ...]:
    """A notice on pages whose timelines had to be made coarser to stay under the cap."""
    if budget == COARSER[0]:
        return ()
    text = (
        f"Timelines are coarser than recorded, to keep this file under {units.size(HARD_CAP)}: "
        f"at most {units.count(budget.limits.gpu_ops)} GPU ops and "
        f"{units.count(budget.limits.host_ops)} host events of the median step are drawn."
    )
    return (element("p", text, class_="banner"),)


def glossary_section(terms: Terms) -> Section:
    """The definitions of everything the page links to."""
    return section(Context(terms=terms), "glossary", "Glossary", terms.section())


def who_line(name: str, facts: Sequence[str]) -> list[Markup | str]:
    """The line above the sentence: the run's name, then what was recorded."""
    line: list[Markup | str] = [element("b", name)]
    for fact in facts:
        line += [" · ", fact]
    return line


def run_name(analysis: Analysis, privacy: Privacy) -> str:
    """What to call a recording: its run's name, else its file's."""
    import os

    named = analysis.manifest.text("name") if analysis.manifest else None
    return shortened(named or os.path.basename(privacy.path(analysis.source.path)) or "trace", 120)


def redacted(value: Any, privacy: Privacy) -> Any:
    """Plain data with folders cut from its texts, where the report is redacted; texts cleaned."""
    if isinstance(value, str):
        return shortened(privacy.text(value))
    if isinstance(value, dict):
        return {key: redacted(item, privacy) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [redacted(item, privacy) for item in value]
    return value
