"""What capturing and compiling would give: the 2x2, readiness, the predicted compiled step.

Shared by the documents of an analysis, of a run and of a prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import UNSET

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
from gaptrace.document.tables import (
    by_basis,
    duration,
    fact,
    facts_of,
    figures,
    given,
    known,
    name,
    table,
    words,
)
from gaptrace.quantity import (
    AT_LEAST,
    COUNT,
    GIVEN,
    NS,
    PREDICTED,
    TOKENS_PER_S,
    TRACED,
    UNPROFILED,
    Number,
    Quantity,
    change,
    ranged,
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

SOURCES = {"unprofiled": UNPROFILED, "given": GIVEN, "as profiled": TRACED}
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
    panel = Panel("tokens per second by mode", "mode", "rate", TOKENS_PER_S, (rates, steps))
    yield Chart(anchor, "What would help", "grid", (panel,), twin)


def _points(square: Cells, value: Callable[[SquareCell], Quantity | None]) -> Iterator[Point]:
    """A point for each cell of which the value is known, in the order of the square."""
    for i, mode in enumerate(SQUARE):
        found = value(square[mode]) if mode in square else None
        if found is not None:
            yield Point(i, found, key=mode, hatched=found.basis == PREDICTED)


def square_table(square: Cells, anchor: str) -> Table:
    """The 2x2 in numbers, per step; what is to be said about a cell stands below."""
    cells = [(mode, square[mode]) for mode in SQUARE if mode in square]
    notes = [f"{SQUARE[mode]}: {cell.note}" for mode, cell in cells if cell.note]
    notes += [
        f"{SQUARE[mode]}: {MEASURED_UNDER}"
        for mode, cell in cells
        if cell.known == "measured" and _basis(cell) == TRACED
    ]
    return table(
        anchor,
        "tokens per second by mode",
        cells,
        [
            words("", lambda c: Text(SQUARE[c[0]], key=c[0]), "two-by-two"),
            words("known", lambda c: c[1].known),
            *by_basis("rate", TOKENS_PER_S, lambda c: _rate(c[1]), cells, "tokens-per-s"),
            *by_basis("step", NS, lambda c: _step(c[1]), cells, "period"),
            figures("kernels", COUNT, lambda c: c[1].kernels, term="kernel"),
            figures("launches", COUNT, lambda c: c[1].launches, term="launch-call"),
        ],
        notes=dict.fromkeys(notes),
        key=lambda c: c[0],
        weak=lambda c: c[1].step_ns is None,
    )


def _basis(cell: SquareCell) -> str:
    return PREDICTED if cell.known == "predicted" else SOURCES.get(cell.source or "", TRACED)


def _step(cell: SquareCell) -> Quantity | None:
    return _ranged(cell.step_ns, cell.range_ns, NS, _basis(cell))


def _rate(cell: SquareCell) -> Quantity | None:
    return _ranged(cell.tokens_per_s, cell.rate_range, TOKENS_PER_S, _basis(cell))


def _ranged(
    value: Number | None, ends: tuple[Number, Number] | None, unit: str, basis: str = PREDICTED
) -> Quantity | None:
    """A value, with its range where it has one."""
    return known(value, unit, basis) if ends is None else ranged(value, *ends, unit, basis)


def capture_blocks(capture: Capture, prefix: str = "") -> Iterator[Block]:
    """Whether the step can be captured, what stands in the way, and the step captured."""
    yield Sentence(
        (Text("Capture", term="readiness"), ": ", Text(capture.verdict, "strong"), "."), "lead"
    )
    if capture.tried:
        yield Note((capture.tried,))
    yield from _captured(capture)
    if capture.blockers:
        yield _blockers(capture.blockers, f"{prefix}blockers")
        places = [(b, place) for b in capture.blockers for place in b.places[:PLACES_SHOWN]]
        if places:
            yield _places(places, f"{prefix}blocker-places")
    for plan in capture.pieces:
        yield Sentence(_plan(plan))
    if capture.measured_pieces is not None:
        yield Sentence(_measured(capture.measured_pieces))
    for text in capture.unknown:
        yield Note((f"not known: {text}",))


def _captured(capture: Capture) -> Iterator[Block]:
    step = _ranged(capture.predicted_step_ns, capture.range_ns, NS)
    parts = capture.parts_ns
    if step is not None:
        made_of = () if parts is None else (
            fact("busy", duration(parts.busy, PREDICTED), term="busy"),
            fact(
                f"gaps between {counted(capture.nodes or 0, 'node')}",
                duration(parts.gaps, PREDICTED),
                term="node",
            ),
            fact("one replay", duration(parts.replay, PREDICTED)),
            fact("memset nodes", duration(parts.memsets or None, PREDICTED)),
        )  # fmt: skip
        yield Facts(
            facts_of(
                fact("captured step", step, term="predicted-captured-step"),
                *made_of,
                fact("launch calls", known(capture.launches, COUNT, PREDICTED)),
                fact("constants", capture.source or ""),
            )
        )
        if capture.gaps_by_pair:
            yield table(
                "gaps-by-pair",
                "gaps between nodes by kind of pair",
                capture.gaps_by_pair,
                [
                    words("pair", lambda pair: pair.pair, "node"),
                    figures("gaps", COUNT, lambda pair: pair.count, PREDICTED),
                    figures("time per step", NS, lambda pair: pair.ns, PREDICTED),
                ],
                folded=True,
            )
    if capture.note:
        yield Note((capture.note,))


def _blockers(blockers: tuple[Blocker, ...], anchor: str) -> Table:
    return table(
        anchor,
        "what stands in the way of capture",
        blockers,
        [
            words("what", lambda b: Text(b.title, "strong" if b.blocks else "plain"), "blockers"),
            words("in the way", lambda b: "blocks" if b.blocks else "stays outside"),
            figures("per token", COUNT, lambda b: b.per_token),
            figures("host time per token", NS, lambda b: b.ns_per_token or None, TRACED),
            words("seen", lambda b: b.text),
            words("change", lambda b: b.change),
        ],
        weak=lambda b: not b.blocks,
    )


def _places(places: list[tuple[Blocker, BlockerPlace]], anchor: str) -> Table:
    return table(
        anchor,
        "where",
        places,
        [
            words("what", lambda p: p[0].title),
            figures("step", COUNT, lambda p: p[1].step),
            figures("at", NS, lambda p: p[1].start_ns, TRACED, "time"),
            figures("for", NS, lambda p: p[1].dur_ns, TRACED),
            words("call", lambda p: name(p[1].call)),
            words("in op", lambda p: name(p[1].op)),
            words("about", lambda p: p[1].what),
            words("module", lambda p: name(p[1].module)),
            words("called from", lambda p: name(p[1].stack[0]) if p[1].stack else None),
        ],
        folded=True,
        key=lambda p: p[1].target,
    )


def _plan(plan: PredictedPieces) -> tuple[Inline, ...]:
    step = _ranged(plan.predicted_step_ns, plan.range_ns, NS)
    each, price = plan.price_each_ns, plan.price_ns
    more = () if each is None or price is None else (
        f"; {counted(plan.seams, 'gap')} between pieces at the ",
        ranged(None, *each, NS, UNPROFILED),
        " measured on an H200: ",
        ranged(None, *price, NS),
    )  # fmt: skip
    return (
        Text("In pieces", term="piece"),
        f": {plan.text}; step ",
        *((step,) if step is not None else ()),
        ", ",
        Quantity(plan.cost_ns, NS, PREDICTED, AT_LEAST),
        " more than one graph",
        *more,
        ".",
    )


def _measured(found: MeasuredPieces) -> tuple[Inline, ...]:
    basis = SOURCES.get(found.source, TRACED)
    profiled = f" ({found.source})" if basis != UNPROFILED else ""
    against = given(
        ", ",
        None if found.more_ns is None else change(found.more_ns, NS, basis),
        " against one graph of it, measured too",
    )
    return (
        Text("Measured in pieces", term="piece"),
        f": the {'compiled' if found.compiled else 'eager'} step, ",
        Quantity(found.pieces, COUNT),
        " pieces with ",
        Quantity(found.seams, COUNT),
        " gaps between them; step ",
        Quantity(found.step_ns, NS, basis),
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
            _of(_ranged(step.kernels, ends.kernels, COUNT)),
            " kernels",
            *given(" of ", known(eager, COUNT), " eager"),
            *given(", ", _ranged(step.generated, ends.generated, COUNT), " of them generated"),
            ".",
        ),
        "lead",
    )
    yield Facts(
        facts_of(
            fact("busy", _ranged(step.busy_ns, ends.busy_ns, NS), term="compiled-busy"),
            fact("launched", _ranged(step.step_ns, ends.step_ns, NS), term="compiled-step"),
            fact(
                "captured",
                _ranged(step.captured_step_ns, ends.captured_step_ns, NS),
                term="compiled-captured-step",
            ),
            fact("library calls", known(step.extern, COUNT, PREDICTED)),
            fact("launch calls", known(step.launches, COUNT, PREDICTED)),
            *(
                fact(f"busy: {OP_CLASSES[key].label}", duration(ns, PREDICTED), term="op-class")
                for key, ns in (step.busy_ns_by_class or {}).items()
                if ns
            ),
            fact("source", compiled.source or "", term="compile-source"),
        )
    )
    if note:
        yield Note((note,))
    for doubt in compiled.doubts or ():
        # A stacked cache has a part of its own.
        if doubt.id != "stacked_cache":
            yield Note((doubt.text,), "limited")
    if compiled.losses:
        yield table(
            f"{prefix}losses",
            "generated kernels that lose",
            compiled.losses,
            [
                words("what they do", lambda loss: loss.text),
                figures("kernels", COUNT, lambda loss: loss.kernels),
                figures("lost", NS, lambda loss: loss.ns, PREDICTED),
            ],
        )
    if compiled.what_ifs:
        yield _variants(compiled.what_ifs, f"{prefix}variants")


def _of(quantity: Quantity | None) -> Inline:
    return "" if quantity is None else quantity


def _variants(variants: tuple[Variant, ...], anchor: str) -> Table:
    return table(
        anchor,
        "what if the step were changed",
        variants,
        [
            words("change", lambda item: item.name, "compile-prediction"),
            figures("kernels", COUNT, lambda item: item.kernels, PREDICTED),
            figures("generated", COUNT, lambda item: item.generated, PREDICTED),
            figures("busy", NS, lambda v: _ranged(v.busy_ns, v.range.busy_ns, NS), PREDICTED),
            figures("gained", NS, lambda item: item.gain_ns, PREDICTED),
            figures(
                "captured step",
                NS,
                lambda v: _ranged(v.captured_step_ns, v.range.captured_step_ns, NS),
                PREDICTED,
            ),
            figures("gained, captured", NS, lambda item: item.captured_gain_ns, PREDICTED),
            words("why", lambda item: item.error or item.text),
        ],
        weak=lambda item: item.error is not None,
    )
