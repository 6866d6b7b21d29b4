"""Findings: what costs time, how much at most, where to see it, what to try, how to check."""

from __future__ import annotations

from collections.abc import Sequence

from gaptrace import units
from gaptrace.findings.rule import Evidence, Finding
from gaptrace.knowledge.kernel_names import classify
from gaptrace.knowledge.rules import page
from gaptrace.measure.result import Analysis
from gaptrace.report.context import Context, Section, section
from gaptrace.report.markup import Markup, element, markup, number, prose, shortened
from gaptrace.report.tables import Cell, Number, data_table, facts, timed
from gaptrace.report.views import View, holding
from gaptrace.units import middle_elided


def findings_section(analysis: Analysis, views: Sequence[View], context: Context) -> Section | None:
    """The findings, largest ceiling first; the first one is open."""
    if not analysis.findings:
        if analysis.device is None or analysis.headline.steps["period_ns"].median is None:
            return None
        return section(
            context,
            "findings",
            "Findings",
            element("p", "No rule found anything that costs this step time.", class_="soft"),
        )
    largest = max(finding.ceiling_ns_per_token for finding in analysis.findings)
    return section(
        context,
        "findings",
        "Findings",
        element(
            "ol",
            *[
                _finding(place, finding, largest, views, context)
                for place, finding in enumerate(analysis.findings)
            ],
            class_="findings",
        ),
    )


def ceiling_text(finding: Finding) -> str:
    """The most a finding can win, in words: `up to 8.10 ms per token`."""
    if finding.ceiling_ns_per_token <= 0:
        return "nothing to win"
    return f"up to {units.time(finding.ceiling_ns_per_token)} per token"


def _finding(
    place: int, finding: Finding, largest: float, views: Sequence[View], context: Context
) -> Markup:
    answers = page(finding.id)
    share = 100 * finding.ceiling_ns_per_token / largest if largest > 0 else 0
    bar = element(
        "svg",
        element("rect", width=f"{number(share)}%", height=4, class_="gain"),
        width="100%",
        height=4,
        class_="gainbar",
        aria_hidden="true",
    )
    seen = markup(
        element("p", prose(shortened(context.privacy.text(finding.text), 1_500))),
        facts(
            [
                ("how we know", prose(answers.how_we_know)),
                ("what to try", prose(answers.what_to_try)),
                ("how to check", prose(answers.how_to_check)),
                (
                    context.terms.link("finding", "confidence"),
                    prose(f"{finding.confidence}; `gaptrace explain {finding.id}` says more"),
                ),
            ]
        ),
        _evidence(finding, views, context),
    )
    times = "place" if finding.places == 1 else "places"
    return element(
        "li",
        element(
            "details",
            element(
                "summary",
                element("span", finding.id, class_="id mono"),
                element("span", finding.title, class_="title"),
                element("span", ceiling_text(finding), bar, class_="ceil"),
                element(
                    "span",
                    f"{units.count(finding.places)} {times}" if finding.places else None,
                    class_="places soft",
                ),
            ),
            element("div", seen, class_="body"),
            open=place == 0,
            id=context.id(f"{finding.id}"),
        ),
    )


def _evidence(finding: Finding, views: Sequence[View], context: Context) -> Markup | None:
    if not finding.evidence:
        return None
    unit = units.time_unit(max(item.end_ns - item.start_ns for item in finding.evidence))
    rows: list[list[Cell]] = [
        [
            _jump(item, views, context),
            Number(item.step, units.count(item.step)),
            timed(item.end_ns - item.start_ns, unit),
            shortened(context.privacy.text(item.what), 400),
            _op(item.before),
            _op(item.after),
            middle_elided(shortened(item.call), 36),
        ]
        for item in finding.evidence
    ]
    return data_table(
        f"evidence of {finding.id}",
        ["where", "step", f"for, {unit}", "what", "after", "before", "host call"],
        rows,
    )


def _op(raw: str) -> str:
    return middle_elided(shortened(classify(raw).short), 40) if raw else ""


def _jump(item: Evidence, views: Sequence[View], context: Context) -> Markup:
    """A link to the place on the timeline; without scripts it leads to the drawing."""
    view = holding(views, item.start_ns, item.end_ns)
    at = f"at {units.time(item.start_ns)}"
    if view is None:
        return markup(at)
    return element(
        "a",
        at,
        href=f"#{context.id('timeline')}",
        data_view=context.id(view.id),
        data_from=item.start_ns,
        data_to=item.end_ns,
    )
