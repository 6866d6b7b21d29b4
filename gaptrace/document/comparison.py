"""The document of a comparison: each pair with its bridge, paired metrics and kernels.

One pair is told in one document; several have a part each, the worst first.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace

from gaptrace import units
from gaptrace.document.blocks import (
    Bar,
    Bars,
    Block,
    Cell,
    Column,
    Document,
    Note,
    Row,
    Section,
    Segment,
    Sentence,
    Table,
    Text,
)
from gaptrace.document.build import builder
from gaptrace.document.capture import square_blocks
from gaptrace.document.comparison_words import (
    bridge_sentence,
    by_verdict,
    headline,
    pair_headline,
    profiling_remark,
    verdict_words,
    waterfall,
)
from gaptrace.document.sections import COMPARISON, PAIR, Context, build, section
from gaptrace.document.tables import figures, name, table, words
from gaptrace.quantity import (
    COUNT,
    NS,
    RANGE,
    SHARE,
    TRACED,
    UNPROFILED,
    Number,
    Quantity,
    change,
)
from gaptrace.results.comparison import (
    BETTER,
    EXACT,
    HELD,
    ONE_RUN,
    TOO_FEW,
    TRIPPED,
    WITHHELD,
    WITHIN_NOISE,
    WORSE,
    Bridge,
    ComparisonResult,
    Corner,
    Figure,
    KernelChange,
    KernelGroup,
    Maybe,
    Member,
    MetricRow,
    Pair,
)
from gaptrace.results.prediction import MEASURED, UNKNOWN, SquareCell
from gaptrace.vocabulary import OP_CLASSES

# The glossary entry behind each metric and each verdict.
TERMS = {
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
    BETTER: "better",
    WORSE: "worse",
    WITHIN_NOISE: "within-noise",
    TOO_FEW: "too-few-steps",
    WITHHELD: "withheld",
}
BASES = {"unprofiled": UNPROFILED, "as profiled": TRACED, None: ""}
FACTS = {
    "gpu": "GPU",
    "model": "model",
    "dtype": "dtype",
    "batch": "batch",
    "tokens_per_step": "tokens per step",
    "weights": "bytes of weights",
    "engine": "engine",
    "torch": "torch",
    "cuda": "CUDA",
    "driver": "driver",
    "shapes": "tensor shapes recorded",
    "stacks": "Python stacks recorded",
}
GATE_SIGNS = {HELD: "✓", TRIPPED: "✕"}
PARTS_SHOWN, MEMBERS_SHOWN = 14, 6
# Parts below this share of the longer step are drawn as one.
SMALL_PART = 0.001


@section(COMPARISON, "gates", "Gates", brief=True)
def gates(result: ComparisonResult, context: Context) -> Iterator[Block]:
    """What became of each gate, tripped ones first; of held ones the short form gives the count."""
    order = {TRIPPED: 0, HELD: 2}
    ranked = sorted(result.gates, key=lambda gate: order.get(gate.status, 1))
    shown = [gate for gate in ranked if gate.status != HELD or not context.brief]
    if shown:
        yield table(
            f"{context.prefix}gates",
            "",
            shown,
            [
                words(
                    "gate",
                    lambda g: Text(
                        f"{GATE_SIGNS.get(g.status, '·')} {g.status}", "verdict", key=g.status
                    ),
                    "gate",
                ),
                words("limit", lambda g: Text(g.gate, "code")),
                words("pair", lambda g: g.pair),
                words("why", lambda g: g.text),
            ],
            shown=len(shown),
        )
    held = len(result.gates) - len(shown)
    if held:
        yield Note((f"{units.counted(held, 'gate')} held",))


@section(COMPARISON, "pairs", "Pairs", brief=True)
def pairs(result: ComparisonResult, context: Context) -> Iterator[Block]:
    """The step time of every pair, where there are several; the worst first."""
    ranked = by_verdict(result.pairs)
    if len(ranked) < 2:
        return
    steps = [(pair, pair.metric("step_time")) for pair in ranked]
    rows = tuple(
        Row(
            (
                Text(pair.label, target=f"{context.prefix}{_prefix(result, pair)}"),
                _quantity(step, step.baseline.value),
                _quantity(step, step.candidate.value),
                change(step.ratio, SHARE, _basis(step), step.note),
                _verdict(step),
            ),
            NS,
            _basis(step),
        )
        for pair, step in steps
    )
    columns = (
        Column("pair", "comparison"),
        Column("base", numeric=True),
        Column("cand", numeric=True),
        Column("change", unit=SHARE, numeric=True),
        Column("verdict", "comparison"),
    )
    yield Table(f"{context.prefix}pairs", "step time", columns, rows, shown=len(rows))


@section(COMPARISON, "modes", "Compiling and capturing", brief=True)
def modes(result: ComparisonResult, context: Context) -> Iterator[Block]:
    """The 2x2 of a comparison, with what compiling and capturing did, each with and without."""
    square = result.two_by_two
    if square is None:
        return
    cells = {mode: _cell(corner, square.source) for mode, corner in square.corners.items()}
    if context.brief:
        yield from square_blocks(cells, f"{context.prefix}square")
        return
    yield Sentence((square.sentence,), "lead")
    yield from square_blocks(cells, f"{context.prefix}square")
    basis = BASES[square.source]
    yield table(
        f"{context.prefix}corners",
        "the four modes, per token",
        list(square.corners.items()),
        [
            words("mode", lambda item: Text(item[1].label, key=item[0]), "mode"),
            figures("busy", NS, lambda item: item[1].busy_ns, TRACED, "busy-per-token"),
            figures("idle", NS, lambda item: item[1].idle_ns, basis, "idle-per-token"),
            figures("host dispatch", NS, lambda i: i[1].host_dispatch_ns, basis, "host-dispatch"),
            *[
                figures(f"busy: {word.label}", NS, _class_of(key), TRACED, "op-class")
                for key, word in OP_CLASSES.items()
            ],
        ],
        folded=True,
    )
    edges = (
        ("compiling, launched", square.compiled_launched),
        ("compiling, captured", square.compiled_captured),
        ("capturing, eager", square.captured_eager),
        ("capturing, compiled", square.captured_compiled),
    )
    yield table(
        f"{context.prefix}effects",
        "what each change did",
        edges,
        [
            words("change", lambda e: e[0]),
            figures("step", NS, lambda e: change(e[1].step_ns, NS, basis), basis, "period"),
            figures("busy per token", NS, lambda e: change(e[1].busy_ns, NS, TRACED), TRACED),
            figures("idle per token", NS, lambda e: change(e[1].idle_ns, NS, basis), basis),
            figures("kernels", COUNT, lambda e: change(e[1].kernels, COUNT)),
            figures("launches", COUNT, lambda e: change(e[1].launches, COUNT)),
            words("in words", lambda e: e[1].words),
        ],
    )


def _class_of(key: str) -> Callable[[tuple[str, Corner]], Number | None]:
    return lambda item: item[1].busy_by_class_ns.get(key) or None


def _cell(corner: Corner, source: str) -> SquareCell:
    return SquareCell(
        known=UNKNOWN if corner.step_ns is None else MEASURED,
        step_ns=None if corner.step_ns is None else round(corner.step_ns),
        tokens_per_s=corner.tokens_per_s,
        busy_ns=None if corner.busy_ns is None else round(corner.busy_ns),
        kernels=corner.kernels,
        launches=corner.launches,
        source=source,
    )


@section(COMPARISON, "notes", "Notes", brief=True)
def notes(result: ComparisonResult, context: Context) -> Iterator[Block]:
    """What is to be known about the comparison as a whole."""
    del context
    for text in result.notes:
        yield Note((text,))


@section(PAIR, "doubt", "Are they alike", brief=True)
def doubt(pair: Pair, context: Context) -> Iterator[Block]:
    """In what the two sides are unlike, and what else to know about the pair."""
    if pair.banner:
        differences = "; ".join(pair.banner)
        yield Note(
            (Text("Runs are not comparable", "strong", term="comparison"),
             f", compared because of --force: {differences}"),
            "refused",
        )  # fmt: skip
    for text in pair.notes if not context.brief else ():
        yield Note((text,))
    if context.brief and pair.notes:
        yield Note((f"{units.counted(len(pair.notes), 'more note')} with --full",))


@section(PAIR, "metrics", "Paired metrics", brief=True)
def metrics(pair: Pair, context: Context) -> Iterator[Block]:
    """Every metric on both sides; each row states its unit and basis."""
    shown = [row for row in pair.metrics if row.known and not _nothing(row)]
    columns = [Column("metric", "metric"), _numbers("base"), _numbers("cand")]
    if not context.brief:
        columns += [_numbers("change"), Column("change, of base", "metric", SHARE, numeric=True)]
        columns += [Column("95 % interval", "comparison", SHARE, numeric=True)]
    else:
        columns += [Column("change", "metric", SHARE, numeric=True)]
    columns += [Column("verdict", "comparison")]
    rows = tuple(_metric(row, brief=context.brief) for row in shown)
    remarks: dict[str, list[MetricRow]] = {}
    for row in shown:
        if row.note:
            remarks.setdefault(row.note, []).append(row)
    yield Table(
        f"{context.prefix}metrics", "", tuple(columns), rows, shown=len(rows),
        notes=tuple(_remark(text, about) for text, about in remarks.items()),
    )  # fmt: skip
    if not context.brief:
        yield from _spreads(shown, context.prefix)


def _numbers(label: str) -> Column:
    return Column(label, numeric=True)


def _nothing(row: MetricRow) -> bool:
    return row.unit == COUNT and not row.baseline.value and not row.candidate.value


def _basis(row: MetricRow) -> str:
    """How the figure is known; a time that the profiler does not change is traced, too."""
    return TRACED if row.source is None and row.unit == NS else BASES[row.source]


def _quantity(row: MetricRow, value: Maybe) -> Quantity:
    return Quantity(value, row.unit, _basis(row), reason="" if value is not None else row.note)


def _metric(row: MetricRow, *, brief: bool) -> Row:
    label = f"{row.title} per token" if row.per_token else row.title
    basis = _basis(row)
    cells: list[Cell] = [
        Text(label, term=TERMS.get(row.id, "metric")),
        _quantity(row, row.baseline.value),
        _quantity(row, row.candidate.value),
    ]
    relative: Cell = change(row.ratio, SHARE)
    if row.ratio is None:
        relative = "from 0" if row.change else None
    if not brief:
        cells += [change(row.change, row.unit, basis), relative, _interval(row)]
    else:
        cells.append(relative)
    return Row((*cells, _verdict(row)), row.unit, basis, weak=row.change is None, key=row.id)


def _interval(row: MetricRow) -> Cell:
    """The interval of the change, relative to the baseline."""
    if row.basis == EXACT:
        return "exact"
    low, high = row.interval_ratio or (None, None)
    if low is None or high is None:
        return None
    return Quantity(None, SHARE, "", RANGE, low, high, signed=True)


def _verdict(row: MetricRow) -> Text:
    """The verdict; a star where runs were not repeated."""
    mark = " *" if row.note == ONE_RUN else ""
    term = VERDICT_TERMS.get(row.verdict, "comparison")
    return Text(f"{verdict_words(row)}{mark}", "verdict", term=term, key=row.verdict)


def _remark(note: str, about: list[MetricRow]) -> str:
    """A note once for all rows it is about; those without a verdict are named."""
    if note == ONE_RUN:
        return f"* {note}"
    if all(row.change is not None for row in about):
        return note
    return f"{note}, so not judged: {', '.join(row.title for row in about)}"


def _spreads(shown: list[MetricRow], prefix: str) -> Iterator[Block]:
    """How far the steps of each side spread, each run's own figure, and the same as traced."""
    rows = []
    for row in shown:
        for side, figure in (("base", row.baseline), ("cand", row.candidate)):
            if figure.p5 is not None or len(figure.runs) > 1:
                rows.append(_spread(row, side, figure))
    columns = (
        Column("metric", "metric"), Column("side"), _numbers("p5"), _numbers("median"),
        _numbers("p95"), Column("steps", unit=COUNT, numeric=True),
        Column("runs", unit=COUNT, numeric=True), _numbers("least run"), _numbers("largest run"),
    )  # fmt: skip
    if rows:
        yield Table(f"{prefix}spread", "spread", columns, tuple(rows), 12, True)
    traced = [(row, row.as_profiled) for row in shown if row.as_profiled is not None]
    if traced:
        yield Table(
            f"{prefix}traced",
            "the same as profiled",
            (Column("metric", "metric"), _numbers("base"), _numbers("cand")),
            tuple(
                Row(
                    (row.title, *(Quantity(end, row.unit, TRACED) for end in ends)),
                    row.unit,
                    TRACED,
                )
                for row, ends in traced
            ),
            folded=True,
        )


def _spread(row: MetricRow, side: str, figure: Figure) -> Row:
    def of(value: Maybe) -> Quantity | None:
        return None if value is None else Quantity(value, row.unit, _basis(row))

    runs = figure.runs
    cells = (
        Text(row.title, term=TERMS.get(row.id, "metric")),
        side,
        of(figure.p5),
        of(figure.value),
        of(figure.p95),
        Quantity(figure.n, COUNT),
        Quantity(len(runs), COUNT),
        of(min(runs)) if len(runs) > 1 else None,
        of(max(runs)) if len(runs) > 1 else None,
    )
    return Row(cells, row.unit, _basis(row))


@section(PAIR, "bridge", "Bridge", brief=True)
def bridge(pair: Pair, context: Context) -> Iterator[Block]:
    """From one step time to the other in parts that sum exactly; estimates are hatched."""
    found = pair.bridge
    # Where nothing changed a short form has nothing to take apart.
    if found is None or (context.brief and pair.verdict == WITHIN_NOISE):
        return
    if sentence := bridge_sentence(found):
        yield Sentence((sentence[:1].upper() + sentence[1:], "."), "lead")
    yield _bars(found, context.prefix)
    if not context.brief:
        yield _parts(found, context.prefix)


def _bars(found: Bridge, prefix: str) -> Bars:
    basis = BASES[found.source]
    before, after = (Quantity(end, NS, basis) for end in found.ends)
    moved = waterfall(found)
    kept = sorted(moved, key=lambda part: (-abs(part.delta_ns), part.key))[:PARTS_SHOWN]
    kept = [part for part in kept if part.share >= SMALL_PART]
    bars = [_end("baseline", found.baseline_step, before)]
    for part in moved:
        if part in kept:
            label = f"{part.title} (estimate)" if part.estimated else part.title
            amount = change(part.delta_ns, NS, basis)
            segment = Segment(part.key, label, amount)
            bars.append(Bar(label, (segment,), hatched=part.estimated))
    rest = [part.delta_ns for part in moved if part not in kept]
    if rest:
        label = f"{units.counted(len(rest), 'smaller part')}"
        bars.append(Bar(label, (Segment("other", label, change(sum(rest), NS, basis)),)))
    bars.append(_end("candidate", found.candidate_step, after))
    whole = "" if found.basis == "whole recording" else " per step"
    total = units.text(change(found.ends[1] - found.ends[0], NS, basis))
    remarks = [f"{total}{whole} in all, exactly ({found.baseline_step} → {found.candidate_step})"]
    if any(part.estimated for part in found.parts):
        remarks.append(
            "estimate: the unprofiled idle time, split by the shares that causes have as traced"
        )
    remarks += [text for text in (*found.notes, profiling_remark(found)) if text]
    return Bars(f"{prefix}bridge", "Bridge", tuple(bars), "class", "bridge", tuple(remarks))


def _end(side: str, step: str, total: Quantity) -> Bar:
    return Bar(f"{side}: {step}", (Segment("busy", side, total),), total)


def _parts(found: Bridge, prefix: str) -> Table:
    basis = BASES[found.source]
    return table(
        f"{prefix}bridge-parts",
        "parts",
        found.parts,
        [
            words("part", lambda p: Text(p.title, term=p.key if p.kind == "idle" else "bridge")),
            words("known", lambda p: "estimate" if p.estimated else None),
            figures("base", NS, lambda p: p.baseline_ns, basis),
            figures("cand", NS, lambda p: p.candidate_ns, basis),
            figures("change", NS, lambda p: change(p.delta_ns, NS, basis), basis),
        ],
        folded=True,
        key=lambda p: p.key,
    )


@section(PAIR, "timeline", "Timelines")
def timelines(pair: Pair, context: Context) -> Iterator[Block]:
    """One step of each side from its start, on one scale; only where there is a trace."""
    from gaptrace.document import pictures

    sides = [
        (word, analysis, side.step)
        for word, side in (("baseline", pair.baseline), ("candidate", pair.candidate))
        if (analysis := context.analyses.get(side.recording)) is not None and side.step >= 0
    ]
    yield from pictures.side_by_side(sides, context)


@section(PAIR, "kernels", "Kernels")
def kernels(pair: Pair, context: Context) -> Iterator[Block]:
    """What happened to the kernels: what replaced what, and every name on both sides."""
    if pair.kernel_sentence:
        yield Sentence((pair.kernel_sentence,), "lead")
    found = pair.kernels
    if not found.rows:
        return
    moved = [row for row in found.rows if row.status != "same"]
    counts = ", ".join(
        f"{units.count(len(found.of(status)))} {status}"
        for status in ("removed", "added", "changed", "same")
        if found.of(status)
    )
    yield Sentence((f"By name: {counts}.",))
    if found.groups:
        yield _groups(found.groups, context.prefix)
    yield table(
        f"{context.prefix}kernels",
        "by name",
        (*moved, *found.of("same")),
        [
            words("kernel", lambda r: name(r.short, r.name), "kernel"),
            words("class", lambda r: OP_CLASSES[r.op_class].label, "op-class"),
            words("status", lambda r: r.status),
            figures("base per token", COUNT, _use("baseline", "per_token")),
            figures("cand per token", COUNT, _use("candidate", "per_token")),
            figures("base time", NS, _use("baseline", "ns_per_token"), TRACED),
            figures("cand time", NS, _use("candidate", "ns_per_token"), TRACED),
            figures("change per token", NS, lambda r: _moved(r.delta_ns), TRACED),
            words("op, or ops fused", _op),
        ],
        weak=lambda r: r.status == "same",
    )
    yield table(
        f"{context.prefix}kernel-classes",
        "by class",
        [(key, ends) for key, ends in found.by_class_ns.items() if any(ends)],
        [
            words("class", lambda item: OP_CLASSES[item[0]].label, "op-class", "class"),
            figures("base per token", NS, lambda item: item[1][0], TRACED),
            figures("cand per token", NS, lambda item: item[1][1], TRACED),
            figures("change", NS, lambda item: _moved(item[1][1] - item[1][0]), TRACED),
        ],
        folded=True,
        key=lambda item: item[0],
    )


def _moved(ns: Number) -> Quantity:
    return change(ns, NS, TRACED)


def _use(side: str, name_: str) -> Callable[[KernelChange], Number | None]:
    """A figure of one side's use of a kernel; None where that side does not have it."""
    return lambda row: getattr(getattr(row, side), name_, None)


def _op(row: KernelChange) -> Cell:
    return row.op or ", ".join(row.fuses) or None


def _groups(groups: tuple[KernelGroup, ...], prefix: str) -> Table:
    return table(
        f"{prefix}groups",
        "what replaced what",
        groups,
        [
            words("group", lambda g: g.title, "fusion"),
            words("base", lambda g: _members(g.baseline)),
            words("cand", lambda g: _members(g.candidate)),
            figures("kernels per token", COUNT, lambda g: change(g.delta_count, COUNT)),
            figures("time per token", NS, lambda g: _moved(g.delta_ns), TRACED),
        ],
        shown=6,
    )


def _members(members: tuple[Member, ...]) -> str:
    shown = ", ".join(f"{m.short} ×{units.count(m.per_token)}" for m in members[:MEMBERS_SHOWN])
    rest = len(members) - MEMBERS_SHOWN
    return f"{shown} and {units.count(rest)} more" if rest > 0 else shown


@section(PAIR, "sides", "What was compared")
def sides(pair: Pair, context: Context) -> Iterator[Block]:
    """Both sides: how much of each was recorded, whether it can be trusted, and its facts."""
    both = (pair.baseline, pair.candidate)
    rows: list[tuple[str, list[Cell]]] = [
        ("runs", [Quantity(side.runs, COUNT) for side in both]),
        ("complete steps", [Quantity(side.steps, COUNT) for side in both]),
        ("trace", [Text(side.verdict, "verdict", key=side.verdict) for side in both]),
        ("mode", [side.mode for side in both]),
        ("from", ["saved baseline" if side.saved else side.path for side in both]),
    ]
    rows += [(label, [side.facts.get(key) for side in both]) for key, label in FACTS.items()]
    rows += [("to know", [text, None]) for text in pair.baseline.reasons]
    rows += [("to know", [None, text]) for text in pair.candidate.reasons]
    columns = (Column(""), Column(f"base: {both[0].label}"), Column(f"cand: {both[1].label}"))
    yield Table(
        f"{context.prefix}sides",
        "",
        columns,
        tuple(
            Row((label, *cells), COUNT if isinstance(cells[0], Quantity) else None)
            for label, cells in rows
            if any(cell is not None for cell in cells)
        ),
        shown=len(rows),
    )


def _prefix(result: ComparisonResult, pair: Pair) -> str:
    """Keeps the ids of several pairs on one page apart."""
    return f"p{result.pairs.index(pair) + 1}-" if len(result.pairs) > 1 else ""


def _next(result: ComparisonResult) -> Section:
    """The commands to type next: look at the worst candidate, and say it again with all details."""
    paths = [result.pairs[0].baseline.path, *(pair.candidate.path for pair in result.pairs)]
    worst = by_verdict(result.pairs)[0].candidate
    commands = []
    if worst.path and worst.path != "-" and not worst.saved:
        commands.append(f"gaptrace analyze {shlex.quote(worst.path)}")
    again = " ".join(shlex.quote(path) for path in dict.fromkeys(paths) if path)
    commands.append(f"gaptrace compare {again} --full")
    return Section("next", "Next", (Note((), "next", commands=tuple(commands)),))


def _identity(pair: Pair) -> tuple[str, ...]:
    """GPU, model, type and batch, where both sides agree."""
    left, right = pair.baseline.facts, pair.candidate.facts
    return tuple(
        f"{key} {value}" if key in ("batch", "torch") else value
        for key in ("model", "gpu", "dtype", "batch", "torch")
        if (value := left.get(key)) and value == right.get(key)
    )


def pair_document(pair: Pair, context: Context) -> Document:
    """Everything that is said about one pair."""
    return Document(
        kind=PAIR,
        title=pair.label,
        answer=Sentence((pair_headline(pair),), "answer"),
        identity=(),
        sections=build(PAIR, pair, context),
        detail=context.detail,
    )


@builder(ComparisonResult)
def comparison_document(result: ComparisonResult, context: Context) -> Document:
    """Everything that is said about a comparison, in the detail that is asked for."""
    ranked = by_verdict(result.pairs)
    single = len(ranked) == 1
    parts = tuple(
        pair_document(pair, replace(context, prefix=f"{context.prefix}{_prefix(result, pair)}"))
        for pair in ranked
    )
    first = ranked[0]
    sections = build(COMPARISON, result, context) + (parts[0].sections if single else ())
    several = f"{first.baseline.label} → {units.count(len(ranked))} others"
    return Document(
        kind=COMPARISON,
        title=first.label if single else several,
        answer=Sentence((headline(result),), "answer"),
        identity=_identity(first),
        sections=(*sections, _next(result)),
        result=result,
        parts=() if single else parts,
        detail=context.detail,
    )
