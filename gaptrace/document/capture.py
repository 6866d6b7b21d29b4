"""What capturing and compiling would give: the 2x2, readiness, the predicted compiled step.

Shared by the documents of an analysis, of a run, of a comparison and of a prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from msgspec import UNSET, UnsetType

from gaptrace import quantity as q
from gaptrace.document import blocks as b
from gaptrace.document import tables as t
from gaptrace.results import prediction as p
from gaptrace.units import counted
from gaptrace.vocabulary import OP_CLASSES, SQUARE

T = TypeVar("T")
SOURCES = {
    "unprofiled": q.UNPROFILED,
    "given": q.GIVEN,
    "predicted": q.PREDICTED,
    "as profiled": q.TRACED,
}
MEASURED_UNDER = "measured under the profiler, which slows the host"
PLACES_SHOWN = 2
Cells = Mapping[str, p.SquareCell]


def basis_of(source: str | None) -> str:
    """The basis of a figure by how a result says that it is known."""
    return SOURCES.get(source or "", q.TRACED)


def ranged(field: str, unit: str, ends: str = "") -> Callable[[object], q.Quantity | None]:
    """What a result predicts in `field`, with the range that stands in the field `ends`."""
    value_of, range_of = t.getter(field), t.getter(ends or f"range.{field}")

    def figure(found: object) -> q.Quantity | None:
        value, both = value_of(found), range_of(found)
        if both is None:
            return t.known(value, unit, q.PREDICTED)
        return q.ranged(value, both[0], both[1], unit)

    return figure


def predicted(label: str, unit: str, field: str, ends: str = "", term: str = "") -> t.Col:
    """A predicted figure with its range: a column of a table, or a fact."""
    return t.figures(label, unit, ranged(field, unit, ends), q.PREDICTED, term)


def square_blocks(square: Cells) -> Iterator[b.Block]:
    """The 2x2 {eager, compiled} x {launched, captured}: measured, predicted with its range.

    Nothing where fewer than two of its cells have a step time.
    """
    if sum(cell.step_ns is not None for cell in square.values()) < 2:
        return
    marks = ": solid is measured, hatched is predicted, the line is its range."
    yield b.Sentence(("Tokens per second by ", b.Text("mode", term="two-by-two"), marks), "lead")
    series = tuple(
        b.Series(label, tuple(_points(square, value)), style="marks")
        for label, value in (("token rate", _rate), ("step time", _step))
    )
    panel = b.Panel("tokens per second by mode", "mode", "rate", q.TOKENS_PER_S, series)
    yield b.Chart("square", "What would help", "grid", (panel,), _square_table(square))


def _points(square: Cells, value: Callable[[p.SquareCell], q.Quantity | None]) -> Iterator[b.Point]:
    """A point for each cell of which the value is known, in the order of the square."""
    for i, mode in enumerate(SQUARE):
        found = value(square[mode]) if mode in square else None
        if found is not None:
            yield b.Point(i, found, key=mode, hatched=found.basis == q.PREDICTED)


def _square_table(square: Cells) -> b.Table:
    """The 2x2 in numbers, per step; what is to be said about a cell stands below."""
    cells = {mode: square[mode] for mode in SQUARE if mode in square}
    notes = [f"{SQUARE[mode]}: {cell.note}" for mode, cell in cells.items() if cell.note]
    notes += [
        f"{SQUARE[mode]}: {MEASURED_UNDER}"
        for mode, cell in cells.items()
        if cell.known == p.MEASURED and cell_basis(cell) == q.TRACED
    ]
    own = list(cells.values())
    columns = (
        t.words("known", "known"),
        *t.by_basis("rate", q.TOKENS_PER_S, _rate, own, "tokens-per-s"),
        *t.by_basis("step", q.NS, _step, own, "period"),
        t.counts("kernels", "kernels", "kernel"),
        t.counts("launches", "launches", "launch-call"),
    )
    return t.mode_table(
        "square", "tokens per second by mode", cells.items(), columns,
        heading=("", "two-by-two", ""), label=SQUARE.__getitem__, notes=dict.fromkeys(notes),
        weak=lambda cell: cell[1].step_ns is None,
    )  # fmt: skip


def cell_basis(cell: p.SquareCell) -> str:
    """How the times of a cell of the 2x2 are known."""
    return q.PREDICTED if cell.known == p.PREDICTED else basis_of(cell.source)


def _step(cell: p.SquareCell) -> q.Quantity | None:
    ends, basis = cell.range_ns, cell_basis(cell)
    return q.ranged(cell.step_ns, *ends, q.NS, basis) if ends else t.duration(cell.step_ns, basis)


def _rate(cell: p.SquareCell) -> q.Quantity | None:
    ends, basis, rate = cell.rate_range, cell_basis(cell), cell.tokens_per_s
    if ends is None:
        return t.known(rate, q.TOKENS_PER_S, basis)
    return q.ranged(rate, *ends, q.TOKENS_PER_S, basis)


def capture_blocks(capture: p.Capture) -> Iterator[b.Block]:
    """Whether the step can be captured, what stands in the way, and the step captured."""
    verdict = b.Text(capture.verdict, "strong")
    yield b.Sentence((b.Text("Capture", term="readiness"), ": ", verdict, "."), "lead")
    if capture.tried:
        yield b.Note((capture.tried,))
    if capture.predicted_step_ns is not None or capture.range_ns is not None:
        yield t.facts(*_captured(capture))
        title = "gaps between nodes by kind of pair"
        yield t.table("gaps-by-pair", title, capture.gaps_by_pair, _PAIRS, folded=True)
    if capture.note:
        yield b.Note((capture.note,))
    yield t.table(
        "blockers", "what stands in the way of capture", capture.blockers, _BLOCKERS,
        weak=lambda it: not it.blocks,
    )  # fmt: skip
    places = [(it.title, place) for it in capture.blockers for place in it.places[:PLACES_SHOWN]]
    yield t.table(
        "blocker-places", "where", places, _PLACES, folded=True, key=lambda found: found[1].target
    )
    for plan in capture.pieces:
        yield b.Sentence(_plan(plan))
    if capture.measured_pieces is not None:
        yield b.Sentence(_measured(capture.measured_pieces))
    for text in capture.unknown:
        yield b.Note((f"not known: {text}",))


def _captured(capture: p.Capture) -> Iterator[b.Fact | None]:
    step = predicted("captured step", q.NS, "predicted_step_ns", "range_ns",
                     "predicted-captured-step")  # fmt: skip
    yield from t.told(capture, step)
    if (parts := capture.parts_ns) is not None:
        gaps = f"gaps between {counted(capture.nodes or 0, 'node')}"
        yield t.fact("busy", t.duration(parts.busy, q.PREDICTED), term="busy")
        yield t.fact(gaps, t.duration(parts.gaps, q.PREDICTED), term="node")
        yield t.fact("one replay", t.duration(parts.replay, q.PREDICTED))
        yield t.fact("memset nodes", t.duration(parts.memsets or None, q.PREDICTED))
    yield t.fact("launch calls", t.known(capture.launches, q.COUNT, q.PREDICTED))
    yield t.fact("constants", capture.source)


_PAIRS = (
    t.words("pair", "pair", "node"),
    t.figures("gaps", q.COUNT, "count", q.PREDICTED),
    t.times("time per step", "ns", q.PREDICTED),
)
_BLOCKERS = (
    t.words("what", lambda it: b.Text(it.title, "strong" if it.blocks else "plain"), "blockers"),
    t.words("in the way", lambda it: "blocks" if it.blocks else "stays outside"),
    t.counts("per token", "per_token"),
    t.times("host time per token", lambda it: it.ns_per_token or None, q.TRACED),
    t.words("seen", "text"),
    t.words("change", "change"),
)
_PLACES = (
    t.words("what", t.first),
    *map(
        t.second,
        (
            t.counts("step", "step"),
            t.times("at", "start_ns", q.TRACED, "time"),
            t.times("for", "dur_ns", q.TRACED),
            t.names("call", "call"),
            t.names("in op", "op"),
            t.words("about", "what"),
            t.names("module", "module"),
            t.names("called from", lambda place: next(iter(place.stack), "")),
        ),
    ),
)


def _plan(plan: p.PredictedPieces) -> tuple[b.Inline, ...]:
    step = ranged("predicted_step_ns", q.NS, "range_ns")(plan)
    each, price = plan.price_each_ns, plan.price_ns
    more = () if each is None or price is None else (
        f"; {counted(plan.seams, 'gap')} between pieces at the ",
        q.ranged(None, *each, q.NS, q.UNPROFILED),
        " measured on an H200: ",
        q.ranged(None, *price, q.NS),
    )  # fmt: skip
    least = q.Quantity(plan.cost_ns, q.NS, q.PREDICTED, q.AT_LEAST)
    head = (b.Text("In pieces", term="piece"), f": {plan.text}; step ", *t.given(step))
    return (*head, ", ", least, " more than one graph", *more, ".")


def _measured(found: p.MeasuredPieces) -> tuple[b.Inline, ...]:
    basis = basis_of(found.source)
    change = None if found.more_ns is None else q.change(found.more_ns, q.NS, basis)
    return (
        b.Text("Measured in pieces", term="piece"),
        f": the {'compiled' if found.compiled else 'eager'} step, ",
        q.Quantity(found.pieces, q.COUNT), " pieces with ",
        q.Quantity(found.seams, q.COUNT), " gaps between them; step ",
        q.Quantity(found.step_ns, q.NS, basis),
        f" ({found.source})" if basis != q.UNPROFILED else "",
        *t.given(", ", change, " against one graph of it, measured too"),
        ".",
    )  # fmt: skip


def compile_blocks(compiled: p.Compile) -> Iterator[b.Block]:
    """The step after torch.compile as predicted, with what makes that doubtful."""
    step, note = compiled.predicted, _set(compiled.note)
    if step is None:
        if note:
            yield b.Sentence((b.Text("Compile", term="compile-prediction"), f": {note}."))
        return
    eager = t.known(_set(compiled.eager_kernels), q.COUNT)
    yield b.Sentence(
        (
            b.Text("Compiled step", term="compile-prediction"), ", predicted: ",
            *t.given(ranged("kernels", q.COUNT)(step), " kernels"),
            *t.given(" of ", eager, " eager"),
            *t.given(", ", ranged("generated", q.COUNT)(step), " of them generated"),
            ".",
        ),
        "lead",
    )  # fmt: skip
    by_class = (step.busy_ns_by_class or {}).items()
    yield t.facts(
        *t.told(step, *_STEP),
        *(class_fact(key, t.duration(ns, q.PREDICTED)) for key, ns in by_class if ns),
        t.fact("source", compiled.source, term="compile-source"),
    )
    if note:
        yield b.Note((note,))
    for doubt in _set(compiled.doubts) or ():
        # A stacked cache has a part of its own.
        if doubt.id != "stacked_cache":
            yield b.Note((doubt.text,), "limited")
    losses, what_ifs = _set(compiled.losses) or (), _set(compiled.what_ifs) or ()
    yield t.table("losses", "generated kernels that lose", losses, _LOSSES)
    yield t.table(
        "variants", "what if the step were changed", what_ifs, _VARIANTS,
        weak=lambda item: item.error is not None,
    )  # fmt: skip


def _set(value: T | UnsetType) -> T | None:
    return None if value is UNSET else value


def class_fact(key: str, time: q.Quantity | None) -> b.Fact | None:
    """Busy time of an op class."""
    return t.fact(f"busy: {OP_CLASSES[key].label}", time, term="op-class")


_STEP = (
    predicted("busy", q.NS, "busy_ns", term="compiled-busy"),
    predicted("launched", q.NS, "step_ns", term="compiled-step"),
    predicted("captured", q.NS, "captured_step_ns", term="compiled-captured-step"),
    t.figures("library calls", q.COUNT, "extern", q.PREDICTED),
    t.figures("launch calls", q.COUNT, "launches", q.PREDICTED),
)
_LOSSES = (
    t.words("what they do", "text"),
    t.counts("kernels", "kernels"),
    t.times("lost", "ns", q.PREDICTED),
)
_VARIANTS = (
    t.words("change", "name", "compile-prediction"),
    t.figures("kernels", q.COUNT, "kernels", q.PREDICTED),
    t.figures("generated", q.COUNT, "generated", q.PREDICTED),
    predicted("busy", q.NS, "busy_ns"),
    t.times("gained", "gain_ns", q.PREDICTED),
    predicted("captured step", q.NS, "captured_step_ns"),
    t.times("gained, captured", "captured_gain_ns", q.PREDICTED),
    t.words("why", lambda item: item.error or item.text),
)
