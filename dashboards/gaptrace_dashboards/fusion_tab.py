"""What compiling and capturing would buy, what stands in the way, and how right that was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from gaptrace import units
from gaptrace.measure.fusion_model import Estimate
from gaptrace.predict.result import (
    PREDICTED,
    UNKNOWN,
    Blocker,
    CompiledStep,
    Group,
    Place,
    Prediction,
    Readiness,
    Score,
)
from gaptrace.report.context import Context
from gaptrace.report.markup import Markup, element, markup, prose, shortened
from gaptrace.report.matrix import MatrixCell
from gaptrace.report.predict_text import sentence
from gaptrace.report.tables import Cell, Number, data_table, facts, timed
from gaptrace_dashboards.fragments import fragment
from gaptrace_dashboards.grids import Column, counted, filled, grid

PLACES_SHOWN = 5


def fusion_tab(found: Prediction | None) -> list[Any]:
    """The tab's components; None where nothing could be predicted at all."""
    if found is None:
        return [
            html.Div(
                [
                    html.H2("Fusion and capture"),
                    html.P("Nothing can be predicted: no complete step with known times."),
                ],
                className="state small",
            )
        ]
    context = Context()
    parts: list[Any] = [
        html.H2("Fusion and capture"),
        html.P(sentence(found), className="lead"),
        fragment(
            markup(
                *[element("p", f"· {note}", class_="soft") for note in found.notes],
                _readiness(found.readiness, context),
                _steps(found, context),
                _score(found.score),
            )
        ),
    ]
    if found.savings is not None and found.savings.groups:
        parts += _savings(found)
    elif found.compiled is None or not found.compiled.exact:
        parts.append(_how_to_get_more())
    return parts


def _how_to_get_more() -> html.P:
    return html.P(
        [
            "Which kernels fuse is not known: no prediction.json lies beside this recording. ",
            html.Code("gaptrace predict RUN"),
            " makes it from the execution trace of the eager mode, with torch installed.",
        ],
        className="soft",
    )


def square_of(found: Prediction | None) -> dict[str, MatrixCell]:
    """The 2x2 as far as it is known or predicted, every mode with a cell; empty without any."""
    if found is None:
        return {}
    return {
        mode: MatrixCell(
            tokens_per_s=cell.tokens_per_s,
            step_ns=cell.step_ns,
            known=cell.known if cell.step_ns is not None else UNKNOWN,
            note=cell.note,
            range_ns=cell.range_ns if cell.known == PREDICTED else None,
        )
        for mode, cell in found.square.items()
    }


def _ranged(estimate: Estimate | None) -> str:
    if estimate is None:
        return units.MISSING
    low, high = (units.time(end) for end in (estimate.low_ns, estimate.high_ns))
    return f"{units.time(estimate.ns)} (between {low} and {high})"


def _readiness(found: Readiness, context: Context) -> Markup:
    rows: list[list[Cell]] = [
        [
            prose(shortened(blocker.title, 200)),
            "blocks capture" if blocker.blocks else "stays outside",
            Number(blocker.per_token, units.digits(blocker.per_token)),
            timed(blocker.ns_per_token, "µs"),
            prose(shortened(blocker.change, 600)),
            _places(blocker),
        ]
        for blocker in found.blockers
    ]
    header = [
        "what stands in the way", "", "per token", "host, µs per token", "what to do", "where",
    ]  # fmt: skip
    return markup(
        element("h3", context.terms.link("readiness", "Capture"), f": {found.verdict}"),
        element("p", prose(shortened(found.tried, 600))) if found.tried else None,
        data_table("what stands in the way of capture", header, rows)
        if rows
        else element("p", "Nothing was found that stands in the way.", class_="soft"),
        *[element("p", prose(shortened(piece.text, 600))) for piece in found.pieces],
        element("p", prose(f"Not known: {'; '.join(found.unknown)}."), class_="soft")
        if found.unknown
        else None,
    )


def _places(blocker: Blocker) -> Markup:
    shown = [_place(place) for place in blocker.places[:PLACES_SHOWN]]
    more = len(blocker.places) - len(shown)
    parts: list[Markup | str] = []
    for link in shown:
        parts += ["; ", link] if parts else [link]
    return markup(*parts, f"; {more} more" if more > 0 else None)


def _place(place: Place) -> Markup:
    what = shortened(place.stack[0] if place.stack else place.module or place.op or place.what, 80)
    if place.start_ns is None:
        return markup(what)
    return markup(
        element(
            "a",
            f"at {units.time(place.start_ns)}",
            href="#timeline",
            data_from=place.start_ns,
            data_to=place.start_ns + (place.dur_ns or 0),
        ),
        f" {what}",
    )


def _steps(found: Prediction, context: Context) -> Markup:
    terms = context.terms
    pairs: list[tuple[Markup | str, Markup | str]] = []
    captured = found.captured
    if captured is not None and captured.step is not None:
        made = (
            f"{_ranged(captured.step)}: busy {units.time(captured.busy_ns)}, gaps between "
            f"{units.count(captured.nodes)} nodes {units.time(captured.gaps_ns)}, one replay "
            f"{units.time(captured.replay_ns)}; constants: {captured.source}"
        )
        pairs.append((terms.link("predicted-captured-step", "captured step"), made))
    if found.compiled is not None and not found.compiled.already:
        pairs += _compiled(found.compiled, context)
    if not pairs:
        return markup()
    return markup(element("h3", "The step, predicted"), facts(pairs))


def _compiled(step: CompiledStep, context: Context) -> list[tuple[Markup | str, Markup | str]]:
    pairs: list[tuple[Markup | str, Markup | str]] = []
    if step.kernels is not None:
        span = step.kernel_range
        between = f" ({span[0]} to {span[1]})" if span and span[0] != span[1] else ""
        before = f" instead of {units.count(step.eager_kernels)}" if step.eager_kernels else ""
        pairs.append(
            (
                context.terms.link("generated", "compiled kernels"),
                f"{units.count(step.kernels)}{between}{before}, "
                f"{units.count(step.generated)} of them generated",
            )
        )
    pairs += [
        ("compiled, GPU busy", _ranged(step.busy)),
        ("compiled step", _ranged(step.launched)),
        ("compiled and captured", _ranged(step.captured)),
        ("from", " · ".join(text for text in (step.source, step.note) if text)),
    ]
    pairs += [("doubt", prose(shortened(doubt.text, 400))) for doubt in step.doubts]
    pairs += [("loses on", prose(shortened(loss.text, 400))) for loss in step.losses]
    for variant in step.what_ifs:
        gain = "" if variant.gain_ns is None else f"; gains {units.time(variant.gain_ns)}"
        result = variant.error or f"{units.count(variant.kernels)} kernels, busy "
        if not variant.error:
            result += _ranged(variant.busy) + gain
        pairs.append((f"what if: {variant.text or variant.name}", shortened(result, 300)))
    return [(what, said) for what, said in pairs if said != units.MISSING]


def _score(scores: Sequence[Score]) -> Markup | None:
    if not scores:
        return None
    rows: list[list[Cell]] = [
        [
            score.title,
            Number(score.predicted, _value(score, score.predicted)),
            Number(score.realised, _value(score, score.realised)),
            Number(score.error, _error(score.error)),
            "" if score.inside is None else "inside" if score.inside else "outside",
            shortened(score.note, 200),
        ]
        for score in scores
    ]
    header = ["figure", "predicted", "realised", "error", "printed range", "note"]
    return markup(
        element("h3", "Predicted against realised"),
        data_table("predicted against realised", header, rows),
    )


def _error(share: float | None) -> str:
    return units.MISSING if share is None else f"{100 * share:+.1f} %".replace("-", "−")


def _value(score: Score, value: float) -> str:
    if score.unit == "ns":
        return units.time(value)
    return units.size(value) if score.unit == "bytes" else units.count(value)


def _savings(found: Prediction) -> list[Any]:
    saved = found.savings
    assert saved is not None
    columns = [
        Column("name", "generated kernel", "name", 260, grow=1),
        Column("chain", "replaces, in order", "name", 320, grow=2),
        Column("places", "places", "number", 90),
        Column("launches", "launches removed", "number", 165),
        Column("bytes", "bytes not moved", "number", 150),
        Column("time", "saves, µs", "number", 110),
        Column("module", "module", "name", 160),
    ]
    rows = [_row(place, group) for place, group in enumerate(saved.groups)]
    said = (
        f"Fusion removes {units.count(saved.launches)} launches per step and leaves "
        f"{units.size(saved.bytes)} of intermediates unmoved, {units.time(saved.time_ns)} in all "
        f"({saved.source})."
    )
    return [
        html.H3("What each fused group saves"),
        html.P(said),
        grid("fusion-grid", filled(columns, rows), rows, height=min(54 + 30 * len(rows), 560)),
    ]


def _row(place: int, group: Group) -> dict[str, Any]:
    return {
        "id": str(place),
        "name": group.name,
        "full": shortened(group.name, 400),
        "chain": " → ".join(op.removeprefix("aten::") for op in group.chain),
        "places": counted(group.places),
        "launches": counted(group.launches),
        "bytes": (group.bytes, units.size(group.bytes)),
        "time": (group.time_ns, units.time_value(group.time_ns, "µs")),
        "module": ", ".join(group.modules),
    }
