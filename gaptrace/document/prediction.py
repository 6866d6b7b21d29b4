"""The document of a prediction: what compiling and capturing would buy, and how right that was."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator

from gaptrace import quantity as q
from gaptrace.document import capture as c
from gaptrace.document import tables as t
from gaptrace.document.blocks import Block, Document, Inline, Note, Sentence, Table, Text
from gaptrace.document.build import builder
from gaptrace.document.sections import PREDICTION, Context, section, whole
from gaptrace.results import prediction as p
from gaptrace.units import count, counted
from gaptrace.vocabulary import OP_CLASSES, SQUARE


def answer(result: p.PredictionResult) -> tuple[Inline, ...]:
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
    basis, measured = c.cell_basis(found), found.known == p.MEASURED
    ends = None if measured or found.range_ns is None else q.ranged(None, *found.range_ns, q.NS)
    return (
        f"{title} {'is' if measured else 'would be'} fastest: ",
        *t.given(t.known(found.tokens_per_s, q.TOKENS_PER_S, basis), ", "),
        q.Quantity(result.times, q.TIMES, basis), f" {SQUARE[base]}",
        " (as profiled)" if now.source == "as profiled" else "",
        *t.given(" (predicted, step ", ends, ")"),
        f"; {result.capture.verdict}.",
    )  # fmt: skip


@section(PREDICTION, "from", "Predicted from", brief=True)
def subject(result: p.PredictionResult, context: Context) -> Iterator[Block]:
    """The step that was predicted from, and what makes it doubtful."""
    found = result.subject
    basis = c.basis_of(found.step_source)
    tokens = found.tokens_per_step if found.tokens_per_step != 1 else None
    yield t.facts(
        t.fact("from", f"the {found.mode} step"),
        t.fact("step", t.duration(found.step_ns, basis), term="period"),
        t.fact("busy", t.duration(found.busy_ns, q.TRACED), term="busy"),
        t.fact("kernels", t.known(found.kernels, q.COUNT), term="kernel"),
        t.fact("launch calls", t.known(found.launches, q.COUNT), term="launch-call"),
        t.fact("tokens per step", t.known(tokens, q.COUNT)),
        line=True,
    )
    if basis == q.TRACED:
        yield Note((c.MEASURED_UNDER,))
    for note in result.notes:
        yield Note((note,), "limited")


@section(PREDICTION, "square", "What would help", brief=True)
def square(result: p.PredictionResult, context: Context) -> Iterator[Block]:
    """The 2x2: measured where it was recorded, else predicted with its range."""
    yield from c.square_blocks(result.square)


def _held(blocks: Iterator[Block], context: Context) -> Iterator[Block]:
    """The blocks; the short form leaves out the tables that a page folds."""
    return (b for b in blocks if not (context.brief and isinstance(b, Table) and b.folded))


@section(PREDICTION, "capture", "Capture", brief=True)
def capture(result: p.PredictionResult, context: Context) -> Iterator[Block]:
    """Whether the step can be captured, what stands in the way, and the captured step."""
    yield from _held(c.capture_blocks(result.capture), context)


@section(PREDICTION, "compile", "Compiled step", brief=True)
def compiled(result: p.PredictionResult, context: Context) -> Iterator[Block]:
    """The step after torch.compile as predicted, and what compiling would lose on caches."""
    yield from _held(c.compile_blocks(result.compile), context)
    for cache in result.stacked_caches:
        yield Note((Text("Stacked cache", term="stacked-cache"), f": {cache.text}"), "limited")


@section(PREDICTION, "savings", "Fusion savings", brief=True)
def savings(result: p.PredictionResult, context: Context) -> Iterator[Block]:
    """What fusion saves per step, group by group, and at other numbers of sequences."""
    found = result.savings
    if found is None or not found.groups:
        return
    yield Sentence(
        (
            Text("Fusion", term="predicted-fusion"),
            f" saves {counted(found.launches, 'launch', 'launches')}, ",
            q.Quantity(found.bytes, q.BYTES, q.PREDICTED), " of intermediates and ",
            q.Quantity(found.time_ns, q.NS, q.PREDICTED), " of busy time per step ",
            f"({found.source}).",
        ),
        "lead",
    )  # fmt: skip
    for chain in found.quantize_chains:
        # One kernel could do it all, from an activation to a quantized result.
        launches = counted(chain.launches, "launch", "launches")
        text = f"activation and quantize in one kernel: {' '.join(chain.chain)}, {launches} and "
        yield Note((text, q.Quantity(chain.bytes, q.BYTES, q.PREDICTED), " saved"))
    if not context.brief:
        yield from _groups(found)


def _groups(found: p.FusionSavings) -> Iterator[Block]:
    saved = t.figures("bytes", q.BYTES, "bytes", q.PREDICTED)
    time = t.times("time", "time_ns", q.PREDICTED)
    groups = (
        t.words("ops", lambda group: Text(" ".join(group.chain), "name"), "fusion"),
        t.counts("places", "places"),
        t.figures("launches", q.COUNT, "launches", q.PREDICTED),
        saved,
        time,
        *(
            t.figures(f"bytes at batch {batch}", q.BYTES, _at(batch), q.PREDICTED)
            for batch in sorted(found.at_batch, key=int)
        ),
        t.words("modules", lambda group: ", ".join(group.modules)),
    )
    yield t.table("savings", "fused groups", found.groups, groups, shown=8)
    if found.at_batch:
        rows = ((found.recorded_batch, found), *((int(b), s) for b, s in found.at_batch.items()))
        columns = (t.counts("batch", t.first), t.second(saved), t.second(time))
        yield t.table("at-batch", "all groups", rows, columns, folded=True)
    values = (
        t.words("op", lambda item: Text(item[0], "name")),
        t.second(t.figures("not written", q.BYTES, "bytes_written", q.PREDICTED)),
        t.second(t.figures("not read", q.BYTES, "bytes_read", q.PREDICTED)),
    )
    yield t.table("values", "kept in a kernel", found.values.items(), values, folded=True)


def _at(batch: str) -> Callable[[p.FusedGroup], int | None]:
    return lambda group: group.at_batch[batch].bytes if batch in group.at_batch else None


@section(PREDICTION, "measured", "What compiling did", brief=True)
def measured(result: p.PredictionResult, context: Context) -> Iterator[Block]:
    """What compiling did where it was recorded, busy and idle apart, and what it lost."""
    found = result.realised
    if found is None:
        return
    idle = q.change(-found.idle_removed_ns, q.NS, c.basis_of(found.idle_source))
    by_class = ((key, ns) for key, ns in found.busy_by_class.items() if round(ns))
    yield t.facts(
        t.fact("kernels", q.change(-found.kernels_removed, q.COUNT), term="measured-savings"),
        t.fact("launch calls", q.change(-found.launches_removed, q.COUNT)),
        t.fact("idle", idle, term="idle"),
        t.fact("busy", q.change(found.busy_change_ns, q.NS, q.TRACED), term="busy"),
        *(c.class_fact(key, q.change(ns, q.NS, q.TRACED)) for key, ns in by_class),
        title="measured, per step",
    )
    if context.brief:
        yield t.table("groups", "losses per token", found.losses, _MEASURED, shown=4)
    else:
        yield t.table("groups", "groups per token", found.groups, _MEASURED)


_MEASURED = (
    t.words("group", "title", "fusion"),
    t.words("class", lambda group: OP_CLASSES[group.op_class].label, "op-class"),
    t.counts("eager kernels", "eager_kernels"),
    t.counts("compiled kernels", "compiled_kernels"),
    t.figures("predicted", q.COUNT, lambda g: g.predicted and g.predicted[0], q.PREDICTED),
    t.times("eager", "eager_ns", q.TRACED),
    t.times("compiled", "compiled_ns", q.TRACED),
    t.times("predicted", lambda g: g.predicted and g.predicted[1], q.PREDICTED),
    t.times("change", lambda g: q.change(g.compiled_ns - g.eager_ns, q.NS, q.TRACED), q.TRACED),
)


@section(PREDICTION, "score", "Predicted against measured", brief=True)
def score(result: p.PredictionResult, context: Context) -> Iterator[Block]:
    """Every figure that was both predicted and measured, with its error."""
    notes = dict.fromkeys(
        part for row in result.score for part in (row.note or "").split("; ") if part
    )
    for unit, title, own in ((q.NS, "times", notes), (q.COUNT, "counts", {})):
        rows = [row for row in result.score if row.unit == unit]
        columns = (
            t.words("score", "title", "score"),
            t.figures("predicted", unit, _predicted, q.PREDICTED),
            *t.by_basis("measured", unit, _measured, rows),
            t.figures("error", q.SHARE, lambda row: q.change(row.error, q.SHARE)),
            t.words("in range", lambda r: None if r.inside is None else ("no", "yes")[r.inside]),
        )
        yield t.table(f"score-{title}", title, rows, columns, notes=own, shown=t.ALL)


def _predicted(row: p.Score) -> q.Quantity:
    if row.range is None:
        return q.Quantity(row.predicted, row.unit, q.PREDICTED)
    return q.ranged(row.predicted, *row.range, row.unit)


def _measured(row: p.Score) -> q.Quantity:
    return q.Quantity(row.realised, row.unit, "" if row.source is None else c.basis_of(row.source))


@section(PREDICTION, "next", "Next", brief=True)
def commands(result: p.PredictionResult, context: Context) -> Iterator[Block]:
    """The command that shows everything; nothing where there is nothing to show."""
    path = shlex.quote(result.subject.path)
    if context.brief and result.best is not None and result.subject.path not in ("", "-"):
        yield Note((), "next", commands=(f"gaptrace predict {path} --full",))


@builder(p.PredictionResult)
def prediction_document(result: p.PredictionResult, context: Context) -> Document:
    """Everything that is said about a prediction, in the detail that is asked for."""
    found, tokens = result.subject, result.subject.tokens_per_step
    several = (f"{count(tokens)} tokens per step",) if tokens != 1 else ()
    identity = (found.gpu or "unknown GPU", found.mode, *several)
    return whole(PREDICTION, result, context, found.path, answer(result), identity)
