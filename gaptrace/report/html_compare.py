"""A comparison as one HTML file: the bridge, paired metrics, both timelines, kernels."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from gaptrace import units
from gaptrace.compare.result import (
    Comparison,
    KernelUse,
    Member,
    MetricRow,
    Pair,
    SideView,
    TwoByTwo,
)
from gaptrace.compare.words import change_text, signed_share, signed_time, value_text
from gaptrace.report.bridge_svg import bridge_figure
from gaptrace.report.context import Context, Section, section
from gaptrace.report.detail import class_words
from gaptrace.report.html import coarser_note, glossary_section, redacted, who_line, within_cap
from gaptrace.report.markup import Markup, element, headline, markup, shortened
from gaptrace.report.matrix import matrix, square_cells
from gaptrace.report.page import page
from gaptrace.report.privacy import Privacy
from gaptrace.report.scope import Scope
from gaptrace.report.step_svg import draw_step
from gaptrace.report.step_views import drawn, legend, said
from gaptrace.report.tables import Cell, Name, Number, data_table
from gaptrace.report.terms import Terms
from gaptrace.report.timeline_data import Names, Timeline, as_data
from gaptrace.report.views import Budget, step_window
from gaptrace.report.windows import timeline

# The glossary entry behind each metric.
METRIC_TERMS = {
    "step_time": "period",
    "tokens_per_s": "tokens-per-s",
    "idle": "idle-per-token",
    "idle_share": "idle",
    "busy": "busy-per-token",
    "host_dispatch": "host-dispatch",
    "kernels": "kernels-per-token",
    "launches": "launches-per-token",
    "copies": "copies",
    "memsets": "copies",
    "peak_memory": "peak-memory",
}
VERDICT_TERMS = {
    "better": "better",
    "worse": "worse",
    "within noise": "within-noise",
    "too few steps to judge": "too-few-steps",
    "withheld": "withheld",
}
MEMBERS_SHOWN = 6
STATUS_ORDER = ("removed", "added", "changed", "same")


def render_comparison_html(comparison: Comparison, privacy: Privacy = Privacy.OPEN) -> str:
    """A comparison as an HTML report; one part for each pair."""
    return within_cap(lambda budget: _comparison_page(comparison, privacy, budget))


def _comparison_page(comparison: Comparison, privacy: Privacy, budget: Budget) -> str:
    terms = Terms()
    many = len(comparison.pairs) > 1
    each = Budget(budget.characters // len(comparison.pairs), budget.limits)
    front = Context("", terms, privacy, budget)
    sections: list[Section] = []
    if comparison.two_by_two is not None:
        sections.append(square_section(comparison.two_by_two, front))
    if comparison.gates:
        sections.append(_gates_section(comparison, front))
    bodies, navigation, timelines = [], list(sections), []
    for i, pair in enumerate(comparison.pairs):
        context = Context(f"p{i + 1}-" if many else "", terms, privacy, each)
        parts, data = pair_sections(pair, context)
        timelines += data
        label = shortened(pair.label, 120)
        head = [element("h2", label, class_="mode")] if many else []
        if many or comparison.two_by_two is not None:
            head.append(element("p", shortened(pair.sentence), class_="lead"))
        html = markup(*head, *pair_warnings(pair), *[part.html() for part in parts])
        if many:
            key = f"p{i + 1}"
            navigation.append(Section(key, label, markup()))
            html = element(
                "div", html, data_mode=key, data_title=label, data_analysis=context.prefix, id=key
            )
        else:
            navigation += parts
        bodies.append(html)
    last = glossary_section(terms)
    first = comparison.pairs[0]
    notes = [element("p", f"· {shortened(note, 400)}", class_="soft") for note in comparison.notes]
    return page(
        title=f"{first.label} · gaptrace",
        who=who_line(shortened(first.label, 120), _shared_facts(first)),
        top=[element("h1", headline(comparison.sentence)), *coarser_note(budget), *notes],
        navigation=[*navigation, last],
        body=markup(
            *[part.html() for part in sections],
            element("div", class_="modes", role="group", aria_label="which pair to show")
            if many
            else None,
            *bodies,
            last.html(),
        ),
        timelines=timelines,
        summary=redacted(comparison.summary, privacy),
    )


def _shared_facts(pair: Pair) -> list[str]:
    """GPU, model, type and batch, where both sides agree."""
    return [
        f"{key} {value}" if key == "batch" else str(value)
        for key in ("model", "gpu", "dtype", "batch")
        if (value := pair.baseline.facts.get(key)) and value == pair.candidate.facts.get(key)
    ]


def pair_warnings(pair: Pair) -> list[Markup]:
    """What makes a pair doubtful: in what the two are unlike, and the comparison's own notes."""
    shown = []
    if pair.banner:
        text = "These runs are unlike and were compared all the same: " + "; ".join(pair.banner)
        shown.append(element("p", element("b", "! "), shortened(text, 800), class_="banner"))
    if pair.notes:
        shown.append(
            element(
                "ul", *[element("li", "· ", shortened(note, 400)) for note in pair.notes],
                class_="reasons soft",
            )
        )  # fmt: skip
    return shown


def pair_sections(pair: Pair, context: Context) -> tuple[list[Section], list[dict[str, Any]]]:
    """The sections of one pair, from the bridge to where the two come from, and its timelines."""
    parts: list[Section | None] = [_bridge_section(pair, context), _metrics_section(pair, context)]
    drawn_, data = _timelines_section(pair, context)
    parts += [drawn_, _kernels_section(pair, context), _sides_section(pair, context)]
    return [part for part in parts if part is not None], data


def square_section(square: TwoByTwo, context: Context) -> Section:
    """The 2x2 of a comparison with what compiling and capturing did, each with and without."""
    effects = (
        square.compiled_launched,
        square.compiled_captured,
        square.captured_eager,
        square.captured_compiled,
    )
    return section(
        context,
        "modes",
        "Compiling and capturing",
        element("p", f"Tokens per second by mode, {square.source}."),
        matrix(square_cells(square)),
        element("ul", *[element("li", effect.words) for effect in effects], class_="effects"),
    )


def _gates_section(comparison: Comparison, context: Context) -> Section:
    sign = {"held": "✓", "tripped": "✕", "not judged": "·"}
    rows: list[list[Cell]] = [
        [f"{sign.get(gate.status, '·')} {gate.status}", gate.gate, gate.pair, gate.text]
        for gate in comparison.gates
    ]
    return section(
        context,
        "gates",
        "Gates",
        data_table("gates", ["status", context.terms.link("gate"), "pair", "why"], rows),
    )


def _bridge_section(pair: Pair, context: Context) -> Section | None:
    bridge = pair.bridge
    if bridge is None:
        return None
    before, after = bridge.ends
    unit = units.time_unit(max(before, after))
    rows: list[list[Cell]] = [
        [
            part.title,
            Number(part.baseline_ns, units.time_value(part.baseline_ns, unit)),
            Number(part.candidate_ns, units.time_value(part.candidate_ns, unit)),
            Number(part.delta_ns, signed_time(part.delta_ns)),
            Number(part.delta_ns, str(part.delta_ns)),
        ]
        for part in bridge.parts
    ]
    profiled = "" if bridge.unprofiled_baseline_ns is not None else ", as profiled"
    return section(
        context,
        "bridge",
        "Bridge",
        element(
            "p",
            context.terms.link("bridge", "From"),
            f" {units.time(before)} to {units.time(after)} per step{profiled}: what each part "
            f"added or took. The parts sum exactly ({bridge.baseline_step} → "
            f"{bridge.candidate_step}).",
        ),
        bridge_figure(bridge),
        *[element("p", f"· {note}", class_="soft") for note in bridge.notes],
        element(
            "details",
            element("summary", "data: every part of the bridge"),
            data_table(
                "parts of the bridge",
                [
                    "part", f"baseline, {unit}", f"candidate, {unit}", "change",
                    "change, ns exactly",
                ],
                rows,
            ),
            class_="twin",
        ),
    )  # fmt: skip


def _metrics_section(pair: Pair, context: Context) -> Section:
    terms = context.terms
    rows: list[list[Cell]] = [
        [
            markup(
                terms.link(METRIC_TERMS.get(row.id, "metric"), row.title),
                element("span", f" {_how(row)}", class_="soft"),
            ),
            _figure(row, row.baseline.value, row.baseline.p5, row.baseline.p95),
            _figure(row, row.candidate.value, row.candidate.p5, row.candidate.p95),
            Number(row.change, change_text(row.unit, row.change)),
            Number(row.ratio, signed_share(row.ratio)),
            _verdict(row, context),
        ]
        for row in pair.metrics
        if row.baseline.value is not None or row.candidate.value is not None
    ]
    return section(
        context,
        "metrics",
        "Paired metrics",
        data_table(
            "metrics of both sides",
            ["metric", "baseline [p5–p95]", "candidate [p5–p95]", "change", "%", "verdict"],
            rows,
        ),
    )


def _how(row: MetricRow) -> str:
    words = ["per token"] if row.per_token else []
    return ", ".join([*words, *([row.source] if row.source else [])])


def _figure(row: MetricRow, value: float | None, low: float | None, high: float | None) -> Number:
    text = value_text(row.unit, value)
    if low is not None and high is not None and low != high:
        text += f" [{value_text(row.unit, low)} – {value_text(row.unit, high)}]"
    return Number(value, text)


def _verdict(row: MetricRow, context: Context) -> Markup:
    interval = ""
    if row.interval is not None and row.basis != "exact":
        low, high = (change_text(row.unit, end) for end in row.interval)
        interval = f" ({low} to {high})"
    return markup(
        element(
            "b",
            f"{row.arrow} ".lstrip(),
            context.terms.link(VERDICT_TERMS.get(row.verdict, "comparison"), row.words),
        ),
        element("span", interval, f"; {row.note}" if row.note else "", class_="soft"),
    )


def _timelines_section(pair: Pair, context: Context) -> tuple[Section | None, list[dict[str, Any]]]:
    """Both median steps under each other on one scale; with scripts one brush moves both."""
    names = Names()
    found: list[tuple[str, Timeline]] = []
    for key, side in (("baseline", pair.baseline), ("candidate", pair.candidate)):
        item = _side_timeline(side, names, context.budget)
        if item is not None:
            found.append((key, item))
    if not found:
        return None, []
    longest = max(item.span_ns for _, item in found)
    blocks, data = [], []
    for key, item in found:
        own = f"{context.prefix}{key}"
        wide = _stretched(item, longest)
        blocks += [
            element("h3", f"{key}: {said(item)}", class_="said"),
            element("div", class_="canvas", data_timeline=own, data_brush=context.id("brush")),
            element("figure", drawn(draw_step(wide), item.title), class_="static"),
        ]
        data.append(
            {
                "id": own,
                "names": names.texts,
                "views": [
                    {
                        "id": f"{own}-step", "listed": True, "said": f"{key}: {said(item)}",
                        "data": as_data(wide),
                    }
                ],
            }
        )  # fmt: skip
    return (
        section(
            context,
            "timeline",
            "Timelines",
            element("p", "One step of each side from its start, on one scale."),
            *blocks,
            legend([item for _, item in found], context),
        ),
        data,
    )


def _stretched(item: Timeline, span_ns: int) -> Timeline:
    """The same blocks in a longer window, so that two timelines share one scale."""
    return dataclasses.replace(item, span_ns=max(span_ns, item.span_ns))


def _side_timeline(side: SideView, names: Names, budget: Budget) -> Timeline | None:
    analysis = side.analysis
    if analysis is None or analysis.device is None or side.step < 0:
        return None
    steps = analysis.step_table
    if steps is None or side.step >= len(steps) or not steps.has_ops[side.step]:
        return None
    start, end = step_window(analysis, side.step)
    title = f"step {side.step} of {side.label}, {units.time(int(steps.period_ns[side.step]))}"
    window = (int(steps.gpu_start[side.step]), int(steps.gpu_end[side.step]))
    return timeline(Scope(analysis), title, start, end, names, step=window, limits=budget.limits)


def _kernels_section(pair: Pair, context: Context) -> Section | None:
    kernels = pair.kernels
    if not kernels.rows:
        return None
    counts = ", ".join(
        f"{len(kernels.of(status))} {status}" for status in STATUS_ORDER if kernels.of(status)
    )
    rows: list[list[Cell]] = [
        [
            Name(row.short, shortened(row.name)),
            class_words(row.op_class),
            row.status,
            _uses(row.baseline),
            _uses(row.candidate),
            _total(row.baseline),
            _total(row.candidate),
            Number(row.delta_ns, signed_time(row.delta_ns)),
            row.op or shortened(", ".join(row.fuses), 200),
        ]
        for row in kernels.rows
    ]
    groups: list[list[Cell]] = [
        [
            shortened(group.title, 200),
            _members(group.baseline),
            _members(group.candidate),
            Number(group.delta_count, _signed_count(group.delta_count)),
            Number(group.delta_ns, signed_time(group.delta_ns)),
        ]
        for group in kernels.groups
    ]
    terms = context.terms
    return section(
        context,
        "kernels",
        "Kernels",
        element("p", f"By name: {counts}. Times and counts are per token."),
        element("h3", "What replaced what") if groups else None,
        data_table(
            "kernels grouped by what replaced what",
            [terms.link("fusion", "group"), "baseline", "candidate", "count", "time"],
            groups,
        )
        if groups
        else None,
        element("h3", "By name"),
        data_table(
            "kernels by name",
            [
                terms.link("kernel"), terms.link("op-class", "class"), "status", "count, baseline",
                "count, candidate", "µs, baseline", "µs, candidate", "change", "op, or ops fused",
            ],
            rows,
        ),
    )  # fmt: skip


def _uses(use: KernelUse | None) -> Number:
    return Number(use.per_token, units.count(use.per_token)) if use else Number(0, "")


def _total(use: KernelUse | None) -> Number:
    if use is None:
        return Number(0, "")
    return Number(use.ns_per_token, units.time_value(use.ns_per_token, "µs"))


def _signed_count(value: float) -> str:
    return f"{'+' if value > 0 else '−' if value < 0 else ''}{units.count(abs(value))}"


def _members(members: Sequence[Member]) -> Markup:
    """Kernels of one side of a group, one a line; those of one short name together."""
    counts: dict[str, float] = {}
    for item in members:
        counts[item.short] = counts.get(item.short, 0.0) + item.per_token
    lines = [
        element("li", f"{units.count(count)} × ", units.middle_elided(shortened(short), 52))
        for short, count in list(counts.items())[:MEMBERS_SHOWN]
    ]
    more = len(counts) - len(lines)
    if more:
        lines.append(element("li", f"{more} more", class_="soft"))
    return element("ul", *lines, class_="members")


def _sides_section(pair: Pair, context: Context) -> Section:
    """What was compared: both sides, fact by fact."""
    privacy = context.privacy
    rows: list[list[Cell]] = [
        ["file", *[shortened(privacy.path(s.path), 200) for s in (pair.baseline, pair.candidate)]],
        ["runs", *[units.count(s.runs) for s in (pair.baseline, pair.candidate)]],
        [
            context.terms.link("steps-complete", "complete steps"),
            *[units.count(s.steps) for s in (pair.baseline, pair.candidate)],
        ],
        [
            context.terms.link("verdict", "trace"),
            *[
                shortened(privacy.text("; ".join([s.verdict, *s.reasons])), 400)
                for s in (pair.baseline, pair.candidate)
            ],
        ],
    ]
    keys = dict.fromkeys([*pair.baseline.facts, *pair.candidate.facts])
    for key in keys:
        left, right = pair.baseline.facts.get(key), pair.candidate.facts.get(key)
        if left or right:
            rows.append([key.replace("_", " "), left or units.MISSING, right or units.MISSING])
    return section(
        context,
        "provenance",
        "What was compared",
        element(
            "p",
            "Names of kernels, ops and files, times, and the facts below. Nothing in this file "
            "loads from or reports to anywhere.",
        ),
        data_table(
            "the two sides",
            ["", f"baseline: {pair.baseline.label}", f"candidate: {pair.candidate.label}"],
            rows,
        ),
    )
