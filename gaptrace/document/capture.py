"""What capturing and compiling would give: the 2x2, readiness, the predicted compiled step.

Shared by the documents of an analysis, of a run and of a prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import UNSET

from gaptrace import quantity as q
from gaptrace.document import tables as t
from gaptrace.document.blocks import (
    Block,
    Chart,
    Facts,
    Inline,
    Note,
    Panel,
    Point,
    Sentence,
    Series,
    Table,
    Text,
)
from gaptrace.results.prediction import (
    Blocker,
    BlockerPlace,
    Capture,
    Compile,
    MeasuredPieces,
    PredictedPieces,
    SquareCell,
    Variant,
)
from gaptrace.units import counted
from gaptrace.vocabulary import OP_CLASSES, SQUARE

SOURCES = {"unprofiled": q.UNPROFILED, "given": q.GIVEN, "as profiled": q.TRACED}
MEASURED_UNDER = "measured under the profiler, which slows the host"
PLACES_SHOWN = 2
Cells = Mapping[str, SquareCell]


def square_blocks(square: Cells, anchor: str = "square") -> Iterator[Block]:
    """The 2x2 {eager, compiled} x {launched, captured}: measured, predicted with its range.

    Nothing where fewer than two of its cells have a step time.
    """
    if sum(cell.step_ns is not None for cell in square.values()) < 2:
        return
    yield Sentence(
        (
            "Tokens per second by ",
            Text("mode", term="two-by-two"),
            ": solid is measured, hatched is predicted, the line is its range.",
        ),
        "lead",
    )
    twin = square_table(square, anchor)
    rates, steps = (
        Series(label, tuple(_points(square, value)), style="marks")
        for label, value in (("token rate", _rate), ("step time", _step))
    )
    panel = Panel("tokens per second by mode", "mode", "rate", q.TOKENS_PER_S, (rates, steps))
    yield Chart(anchor, "What would help", "grid", (panel,), twin)


def _points(square: Cells, value: Callable[[SquareCell], q.Quantity | None]) -> Iterator[Point]:
    """A point for each cell of which the value is known, in the order of the square."""
    for i, mode in enumerate(SQUARE):
        found = value(square[mode]) if mode in square else None
        if found is not None:
            yield Point(i, found, key=mode, hatched=found.basis == q.PREDICTED)


def square_table(square: Cells, anchor: str) -> Table:
    """The 2x2 in numbers, per step; what is to be said about a cell stands below."""
    cells = [(mode, square[mode]) for mode in SQUARE if mode in square]
    notes = [f"{SQUARE[mode]}: {cell.note}" for mode, cell in cells if cell.note]
    notes += [
        f"{SQUARE[mode]}: {MEASURED_UNDER}"
        for mode, cell in cells
        if cell.known == "measured" and _basis(cell) == q.TRACED
    ]
    return t.table(
        anchor,
        "tokens per second by mode",
        cells,
        [
            t.words("", lambda c: Text(SQUARE[c[0]], key=c[0]), "two-by-two"),
            t.words("known", lambda c: c[1].known),
            *t.by_basis("rate", q.TOKENS_PER_S, lambda c: _rate(c[1]), cells, "tokens-per-s"),
            *t.by_basis("step", q.NS, lambda c: _step(c[1]), cells, "period"),
            t.figures("kernels", q.COUNT, lambda c: c[1].kernels, term="kernel"),
            t.figures("launches", q.COUNT, lambda c: c[1].launches, term="launch-call"),
        ],
        notes=dict.fromkeys(notes),
        key=lambda c: c[0],
        weak=lambda c: c[1].step_ns is None,
    )


def _basis(cell: SquareCell) -> str:
    return q.PREDICTED if cell.known == "predicted" else SOURCES.get(cell.source or "", q.TRACED)


def _step(cell: SquareCell) -> q.Quantity | None:
    return _ranged(cell.step_ns, cell.range_ns, q.NS, _basis(cell))


def _rate(cell: SquareCell) -> q.Quantity | None:
    return _ranged(cell.tokens_per_s, cell.rate_range, q.TOKENS_PER_S, _basis(cell))


def _ranged(
    value: q.Number | None,
    ends: tuple[q.Number, q.Number] | None,
    unit: str,
    basis: str = q.PREDICTED,
) -> q.Quantity | None:
    """A value, with its range where it has one."""
    return t.known(value, unit, basis) if ends is None else q.ranged(value, *ends, unit, basis)


def capture_blocks(capture: Capture, prefix: str = "") -> Iterator[Block]:
    """Whether the step can be captured, what stands in the way, and the step captured."""
    yield Sentence(
        (Text("Capture", term="readiness"), ": ", Text(capture.verdict, "strong"), "."), "lead"
    )
    if capture.tried:
        yield Note((capture.tried,))
    yield from _captured(capture, prefix)
    if capture.blockers:
        yield _blockers(capture.blockers, f"{prefix}blockers")
        places = [(it, place) for it in capture.blockers for place in it.places[:PLACES_SHOWN]]
        if places:
            yield _places(places, f"{prefix}blocker-places")
    for plan in capture.pieces:
        yield Sentence(_plan(plan))
    if capture.measured_pieces is not None:
        yield Sentence(_measured(capture.measured_pieces))
    for text in capture.unknown:
        yield Note((f"not known: {text}",))


def _captured(capture: Capture, prefix: str) -> Iterator[Block]:
    step = _ranged(capture.predicted_step_ns, capture.range_ns, q.NS)
    parts = capture.parts_ns
    if step is not None:
        made_of = () if parts is None else (
            t.fact("busy", t.duration(parts.busy, q.PREDICTED), term="busy"),
            t.fact(
                f"gaps between {counted(capture.nodes or 0, 'node')}",
                t.duration(parts.gaps, q.PREDICTED),
                term="node",
            ),
            t.fact("one replay", t.duration(parts.replay, q.PREDICTED)),
            t.fact("memset nodes", t.duration(parts.memsets or None, q.PREDICTED)),
        )  # fmt: skip
        yield Facts(
            t.facts_of(
                t.fact("captured step", step, term="predicted-captured-step"),
                *made_of,
                t.fact("launch calls", t.known(capture.launches, q.COUNT, q.PREDICTED)),
                t.fact("constants", capture.source or ""),
            )
        )
        if capture.gaps_by_pair:
            yield t.table(
                f"{prefix}gaps-by-pair",
                "gaps between nodes by kind of pair",
                capture.gaps_by_pair,
                [
                    t.words("pair", lambda pair: pair.pair, "node"),
                    t.figures("gaps", q.COUNT, lambda pair: pair.count, q.PREDICTED),
                    t.figures("time per step", q.NS, lambda pair: pair.ns, q.PREDICTED),
                ],
                folded=True,
            )
    if capture.note:
        yield Note((capture.note,))


def _blockers(blockers: tuple[Blocker, ...], anchor: str) -> Table:
    return t.table(
        anchor,
        "what stands in the way of capture",
        blockers,
        [
            t.words(
                "what", lambda it: Text(it.title, "strong" if it.blocks else "plain"), "blockers"
            ),
            t.words("in the way", lambda it: "blocks" if it.blocks else "stays outside"),
            t.figures("per token", q.COUNT, lambda it: it.per_token),
            t.figures("host time per token", q.NS, lambda it: it.ns_per_token or None, q.TRACED),
            t.words("seen", lambda it: it.text),
            t.words("change", lambda it: it.change),
        ],
        weak=lambda it: not it.blocks,
    )


def _places(places: list[tuple[Blocker, BlockerPlace]], anchor: str) -> Table:
    return t.table(
        anchor,
        "where",
        places,
        [
            t.words("what", lambda p: p[0].title),
            t.figures("step", q.COUNT, lambda p: p[1].step),
            t.figures("at", q.NS, lambda p: p[1].start_ns, q.TRACED, "time"),
            t.figures("for", q.NS, lambda p: p[1].dur_ns, q.TRACED),
            t.words("call", lambda p: t.name(p[1].call)),
            t.words("in op", lambda p: t.name(p[1].op)),
            t.words("about", lambda p: p[1].what),
            t.words("module", lambda p: t.name(p[1].module)),
            t.words("called from", lambda p: t.name(p[1].stack[0]) if p[1].stack else None),
        ],
        folded=True,
        key=lambda p: p[1].target,
    )


def _plan(plan: PredictedPieces) -> tuple[Inline, ...]:
    step = _ranged(plan.predicted_step_ns, plan.range_ns, q.NS)
    each, price = plan.price_each_ns, plan.price_ns
    more = () if each is None or price is None else (
        f"; {counted(plan.seams, 'gap')} between pieces at the ",
        q.ranged(None, *each, q.NS, q.UNPROFILED),
        " measured on an H200: ",
        q.ranged(None, *price, q.NS),
    )  # fmt: skip
    return (
        Text("In pieces", term="piece"),
        f": {plan.text}; step ",
        *((step,) if step is not None else ()),
        ", ",
        q.Quantity(plan.cost_ns, q.NS, q.PREDICTED, q.AT_LEAST),
        " more than one graph",
        *more,
        ".",
    )


def _measured(found: MeasuredPieces) -> tuple[Inline, ...]:
    basis = SOURCES.get(found.source, q.TRACED)
    profiled = f" ({found.source})" if basis != q.UNPROFILED else ""
    against = t.given(
        ", ",
        None if found.more_ns is None else q.change(found.more_ns, q.NS, basis),
        " against one graph of it, measured too",
    )
    return (
        Text("Measured in pieces", term="piece"),
        f": the {'compiled' if found.compiled else 'eager'} step, ",
        q.Quantity(found.pieces, q.COUNT),
        " pieces with ",
        q.Quantity(found.seams, q.COUNT),
        " gaps between them; step ",
        q.Quantity(found.step_ns, q.NS, basis),
        profiled,
        *against,
        ".",
    )


def compile_blocks(compiled: Compile, prefix: str = "") -> Iterator[Block]:
    """The step after torch.compile as predicted, with what makes that doubtful."""
    step = compiled.predicted
    note = compiled.note if compiled.note is not UNSET else ""
    if step is None:
        if note:
            yield Sentence((Text("Compile", term="compile-prediction"), f": {note}."))
        return
    ends = step.range
    eager = compiled.eager_kernels if compiled.eager_kernels is not UNSET else None
    yield Sentence(
        (
            Text("Compiled step", term="compile-prediction"),
            ", predicted: ",
            _of(_ranged(step.kernels, ends.kernels, q.COUNT)),
            " kernels",
            *t.given(" of ", t.known(eager, q.COUNT), " eager"),
            *t.given(", ", _ranged(step.generated, ends.generated, q.COUNT), " of them generated"),
            ".",
        ),
        "lead",
    )
    yield Facts(
        t.facts_of(
            t.fact("busy", _ranged(step.busy_ns, ends.busy_ns, q.NS), term="compiled-busy"),
            t.fact("launched", _ranged(step.step_ns, ends.step_ns, q.NS), term="compiled-step"),
            t.fact(
                "captured",
                _ranged(step.captured_step_ns, ends.captured_step_ns, q.NS),
                term="compiled-captured-step",
            ),
            t.fact("library calls", t.known(step.extern, q.COUNT, q.PREDICTED)),
            t.fact("launch calls", t.known(step.launches, q.COUNT, q.PREDICTED)),
            *(
                t.fact(
                    f"busy: {OP_CLASSES[key].label}", t.duration(ns, q.PREDICTED), term="op-class"
                )
                for key, ns in (step.busy_ns_by_class or {}).items()
                if ns
            ),
            t.fact("source", compiled.source or "", term="compile-source"),
        )
    )
    if note:
        yield Note((note,))
    for doubt in compiled.doubts or ():
        # A stacked cache has a part of its own.
        if doubt.id != "stacked_cache":
            yield Note((doubt.text,), "limited")
    if compiled.losses:
        yield t.table(
            f"{prefix}losses",
            "generated kernels that lose",
            compiled.losses,
            [
                t.words("what they do", lambda loss: loss.text),
                t.figures("kernels", q.COUNT, lambda loss: loss.kernels),
                t.figures("lost", q.NS, lambda loss: loss.ns, q.PREDICTED),
            ],
        )
    if compiled.what_ifs:
        yield _variants(compiled.what_ifs, f"{prefix}variants")


def _of(quantity: q.Quantity | None) -> Inline:
    return "" if quantity is None else quantity


def _variants(variants: tuple[Variant, ...], anchor: str) -> Table:
    return t.table(
        anchor,
        "what if the step were changed",
        variants,
        [
            t.words("change", lambda item: item.name, "compile-prediction"),
            t.figures("kernels", q.COUNT, lambda item: item.kernels, q.PREDICTED),
            t.figures("generated", q.COUNT, lambda item: item.generated, q.PREDICTED),
            t.figures(
                "busy", q.NS, lambda v: _ranged(v.busy_ns, v.range.busy_ns, q.NS), q.PREDICTED
            ),
            t.figures("gained", q.NS, lambda item: item.gain_ns, q.PREDICTED),
            t.figures(
                "captured step",
                q.NS,
                lambda v: _ranged(v.captured_step_ns, v.range.captured_step_ns, q.NS),
                q.PREDICTED,
            ),
            t.figures("gained, captured", q.NS, lambda item: item.captured_gain_ns, q.PREDICTED),
            t.words("why", lambda item: item.error or item.text),
        ],
        weak=lambda item: item.error is not None,
    )
