"""The document of a prediction: what compiling and capturing would buy, and how right that was."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator

from gaptrace import units
from gaptrace.document.blocks import Block, Document, Facts, Inline, Note, Sentence, Table, Text
from gaptrace.document.build import builder
from gaptrace.document.capture import (
    MEASURED_UNDER,
    SOURCES,
    capture_blocks,
    compile_blocks,
    square_blocks,
)
from gaptrace.document.sections import PREDICTION, Context, build, section
from gaptrace.document.tables import (
    by_basis,
    duration,
    fact,
    facts_of,
    figures,
    known,
    table,
    words,
)
from gaptrace.quantity import (
    BYTES,
    COUNT,
    NS,
    PREDICTED,
    SHARE,
    TIMES,
    TOKENS_PER_S,
    TRACED,
    Quantity,
    change,
    ranged,
)
from gaptrace.results.prediction import (
    MEASURED,
    FusedGroup,
    FusionSavings,
    PredictionResult,
    RealisedGroup,
    Score,
    SquareCell,
)
from gaptrace.vocabulary import OP_CLASSES, SQUARE


def answer(result: PredictionResult) -> tuple[Inline, ...]:
    """What the fastest cell is or would be, and what it takes."""
    best, base = result.best, result.subject.mode
    if best is None:
        return ("Nothing can be predicted: no step with known times.",)
    title = SQUARE[best].capitalize()
    if best == base or result.times is None:
        if sum(cell.step_ns is not None for cell in result.square.values()) == 1:
            return (f"{title}: nothing else can be predicted from this.",)
        return (f"{title} is the fastest of what is known or predicted.",)
    now, found = result.square[base], result.square[best]
    verb = "is" if found.known == MEASURED else "would be"
    times = Quantity(result.times, TIMES, _basis(found))
    parts: list[Inline] = [f"{title} {verb} fastest: "]
    if found.tokens_per_s is not None:
        parts += [Quantity(found.tokens_per_s, TOKENS_PER_S, _basis(found)), ", "]
    parts += [times, f" {SQUARE[base]}"]
    if now.source == "as profiled":
        parts.append(" (as profiled)")
    if found.known != MEASURED and found.range_ns is not None:
        parts += [" (predicted, step ", ranged(None, *found.range_ns, NS), ")"]
    return (*parts, f"; {result.capture.verdict}.")


def _basis(cell: SquareCell) -> str:
    return SOURCES.get(cell.source or "", TRACED) if cell.known == MEASURED else PREDICTED


@section(PREDICTION, "from", "Predicted from", brief=True)
def subject(result: PredictionResult, context: Context) -> Iterator[Block]:
    """The step that was predicted from, and what makes it doubtful."""
    del context
    found = result.subject
    basis = SOURCES.get(found.step_source, TRACED)
    yield Facts(
        facts_of(
            fact("from", f"the {found.mode} step"),
            fact("step", duration(found.step_ns, basis), term="period"),
            fact("busy", duration(found.busy_ns, TRACED), term="busy"),
            fact("kernels", known(found.kernels, COUNT), term="kernel"),
            fact("launch calls", known(found.launches, COUNT), term="launch-call"),
            fact(
                "tokens per step",
                known(found.tokens_per_step if found.tokens_per_step != 1 else None, COUNT),
            ),
        ),
        line=True,
    )
    if basis == TRACED:
        yield Note((MEASURED_UNDER,))
    for note in result.notes:
        yield Note((note,), "limited")


@section(PREDICTION, "square", "What would help", brief=True)
def square(result: PredictionResult, context: Context) -> Iterator[Block]:
    """The 2x2: measured where it was recorded, else predicted with its range."""
    yield from square_blocks(result.square, f"{context.prefix}square")


def _held(blocks: Iterator[Block], context: Context) -> Iterator[Block]:
    """The blocks; the short form leaves out the tables that a page folds."""
    return (b for b in blocks if not (context.brief and isinstance(b, Table) and b.folded))


@section(PREDICTION, "capture", "Capture", brief=True)
def capture(result: PredictionResult, context: Context) -> Iterator[Block]:
    """Whether the step can be captured, what stands in the way, and the captured step."""
    yield from _held(capture_blocks(result.capture, context.prefix), context)


@section(PREDICTION, "compile", "Compiled step", brief=True)
def compiled(result: PredictionResult, context: Context) -> Iterator[Block]:
    """The step after torch.compile as predicted, and what compiling would lose on caches."""
    yield from _held(compile_blocks(result.compile, context.prefix), context)
    for cache in result.stacked_caches:
        yield Note((Text("Stacked cache", term="stacked-cache"), f": {cache.text}"), "limited")


@section(PREDICTION, "savings", "Fusion savings", brief=True)
def savings(result: PredictionResult, context: Context) -> Iterator[Block]:
    """What fusion saves per step, group by group, and at other numbers of sequences."""
    found = result.savings
    if found is None or not found.groups:
        return
    yield Sentence(
        (
            Text("Fusion", term="predicted-fusion"),
            f" saves {units.counted(found.launches, 'launch', 'launches')}, ",
            Quantity(found.bytes, BYTES, PREDICTED),
            " of intermediates and ",
            Quantity(found.time_ns, NS, PREDICTED),
            f" of busy time per step ({found.source}).",
        ),
        "lead",
    )
    yield from _quantize(found)
    if context.brief:
        return
    yield table(
        f"{context.prefix}savings",
        "fused groups",
        found.groups,
        [
            words("ops", lambda group: Text(" ".join(group.chain), "name"), "fusion"),
            figures("places", COUNT, lambda group: group.places),
            figures("launches", COUNT, lambda group: group.launches, PREDICTED),
            figures("bytes", BYTES, lambda group: group.bytes, PREDICTED),
            figures("time", NS, lambda group: group.time_ns, PREDICTED),
            *[
                figures(f"bytes at batch {batch}", BYTES, _at(batch), PREDICTED)
                for batch in sorted(found.at_batch, key=int)
            ],
            words("modules", lambda group: ", ".join(group.modules)),
        ],
        shown=8,
    )
    if found.at_batch:
        yield table(
            f"{context.prefix}at-batch",
            "all groups",
            [(found.recorded_batch, found.bytes, found.time_ns)]
            + [(int(b), s.bytes, s.time_ns) for b, s in found.at_batch.items()],
            [
                figures("batch", COUNT, lambda row: row[0]),
                figures("bytes", BYTES, lambda row: row[1], PREDICTED),
                figures("time", NS, lambda row: row[2], PREDICTED),
            ],
            folded=True,
        )
    yield table(
        f"{context.prefix}values",
        "kept in a kernel",
        list(found.values.items()),
        [
            words("op", lambda item: Text(item[0], "name")),
            figures("not written", BYTES, lambda item: item[1].bytes_written, PREDICTED),
            figures("not read", BYTES, lambda item: item[1].bytes_read, PREDICTED),
        ],
        folded=True,
    )


def _quantize(found: FusionSavings) -> Iterator[Block]:
    """Chains that one kernel could do from an activation to a quantized result."""
    for chain in found.quantize_chains:
        yield Note(
            (
                f"activation and quantize in one kernel: {' '.join(chain.chain)}, "
                f"{units.counted(chain.launches, 'launch', 'launches')} and ",
                Quantity(chain.bytes, BYTES, PREDICTED),
                " saved",
            )
        )


def _at(batch: str) -> Callable[[FusedGroup], int | None]:
    def moved(group: FusedGroup) -> int | None:
        found = group.at_batch.get(batch)
        return None if found is None else found.bytes

    return moved


@section(PREDICTION, "measured", "What compiling did", brief=True)
def measured(result: PredictionResult, context: Context) -> Iterator[Block]:
    """What compiling did where it was recorded, busy and idle apart, and what it lost."""
    found = result.realised
    if found is None:
        return
    basis = SOURCES.get(found.idle_source, TRACED)
    yield Facts(
        facts_of(
            fact("kernels", change(-found.kernels_removed, COUNT), term="measured-savings"),
            fact("launch calls", change(-found.launches_removed, COUNT)),
            fact("idle", change(-found.idle_removed_ns, NS, basis), term="idle"),
            fact("busy", change(found.busy_change_ns, NS, TRACED), term="busy"),
            *(
                fact(f"busy: {OP_CLASSES[key].label}", change(ns, NS, TRACED), term="op-class")
                for key, ns in found.busy_by_class.items()
                if round(ns)
            ),
        ),
        "measured, per step",
    )
    shown = found.losses if context.brief else found.groups
    yield table(
        f"{context.prefix}groups",
        "losses per token" if context.brief else "groups per token",
        shown,
        [
            words("group", lambda group: group.title, "fusion"),
            words("class", lambda group: OP_CLASSES[group.op_class].label, "op-class"),
            figures("eager kernels", COUNT, lambda group: group.eager_kernels),
            figures("compiled kernels", COUNT, lambda group: group.compiled_kernels),
            figures("predicted", COUNT, lambda g: g.predicted and g.predicted[0], PREDICTED),
            figures("eager", NS, lambda group: group.eager_ns, TRACED),
            figures("compiled", NS, lambda group: group.compiled_ns, TRACED),
            figures("predicted", NS, lambda g: g.predicted and g.predicted[1], PREDICTED),
            figures("change", NS, _lost, TRACED),
        ],
        shown=4 if context.brief else 12,
    )


def _lost(group: RealisedGroup) -> Quantity:
    return change(group.compiled_ns - group.eager_ns, NS, TRACED)


@section(PREDICTION, "score", "Predicted against measured", brief=True)
def score(result: PredictionResult, context: Context) -> Iterator[Block]:
    """Every figure that was both predicted and measured, with its error."""
    notes = dict.fromkeys(
        part for row in result.score for part in (row.note or "").split("; ") if part
    )
    for unit, title in ((NS, "times"), (COUNT, "counts")):
        rows = [row for row in result.score if row.unit == unit]
        if rows:
            yield table(
                f"{context.prefix}score-{title}",
                title,
                rows,
                [
                    words("score", lambda row: row.title, "score"),
                    figures("predicted", unit, _predicted, PREDICTED),
                    *by_basis("measured", unit, _measured, rows),
                    figures("error", SHARE, lambda row: change(row.error, SHARE)),
                    words(
                        "in range",
                        lambda row: None if row.inside is None else ("no", "yes")[row.inside],
                    ),
                ],
                notes=notes if unit == NS else (),
                shown=len(rows),
            )


def _predicted(row: Score) -> Quantity:
    if row.range is None:
        return Quantity(row.predicted, row.unit, PREDICTED)
    return ranged(row.predicted, *row.range, row.unit)


def _measured(row: Score) -> Quantity:
    return Quantity(row.realised, row.unit, "" if row.source is None else SOURCES[row.source])


def _inside(row: Score) -> str | None:
    return None if row.inside is None else ("no", "yes")[row.inside]


@section(PREDICTION, "next", "Next", brief=True)
def commands(result: PredictionResult, context: Context) -> Iterator[Block]:
    """The command that shows everything."""
    path = shlex.quote(result.subject.path)
    if context.brief and result.subject.path not in ("", "-"):
        yield Note((), "next", commands=(f"gaptrace predict {path} --full",))


@builder(PredictionResult)
def prediction_document(result: PredictionResult, context: Context) -> Document:
    """Everything that is said about a prediction, in the detail that is asked for."""
    found = result.subject
    tokens = found.tokens_per_step
    return Document(
        kind=PREDICTION,
        title=found.path,
        answer=Sentence(answer(result), "answer"),
        identity=tuple(
            text
            for text in (
                found.gpu or "unknown GPU",
                found.mode,
                f"{units.count(tokens)} tokens per step" if tokens != 1 else "",
            )
            if text
        ),
        sections=build(PREDICTION, result, context),
        result=result,
        detail=context.detail,
    )
