"""The document of a comparison: each pair with its bridge, paired metrics and kernels.

One pair is told in one document; several have a part each, the worst first.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import msgspec

from gaptrace import quantity as q
from gaptrace import units
from gaptrace.document import blocks as b
from gaptrace.document import comparison_words as w
from gaptrace.document import tables as t
from gaptrace.document.build import builder
from gaptrace.document.capture import basis_of, square_blocks
from gaptrace.document.sections import COMPARISON, PAIR, Context, notes, section, whole
from gaptrace.results import comparison as r
from gaptrace.results.prediction import MEASURED, UNKNOWN, SquareCell
from gaptrace.vocabulary import EDGES, OP_CLASSES, OTHER_FACTS, RECORDED_FACTS, SAME_FACTS

# The glossary entry behind each metric.
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
FACTS = {
    **SAME_FACTS,
    **OTHER_FACTS,
    **{key: f"{words} recorded" for key, words in RECORDED_FACTS.items()},
}
GATE_SIGNS = {r.HELD: "✓", r.TRIPPED: "✕"}
PARTS_SHOWN, MEMBERS_SHOWN = 14, 6
# Parts below this share of the longer step are drawn as one.
SMALL_PART = 0.001
PREDICTED_ENDS = "both ends are predicted steps; their ranges stand in the table of metrics"
ESTIMATE = "estimate: the unprofiled idle time, split by the shares that causes have as traced"


def _changed(label: str, unit: str, field: str, basis: str = "", term: str = "") -> t.Col:
    """A column of signed differences."""
    get = t.getter(field)
    return t.figures(label, unit, lambda row: q.change(get(row), unit, basis), basis, term)


@section(COMPARISON, "gates", "Gates", brief=True)
def gates(result: r.ComparisonResult, context: Context) -> Iterator[b.Block]:
    """What became of each gate, tripped ones first; of held ones the short form gives the count."""
    names = w.pair_names(result.pairs)
    order = {r.TRIPPED: 0, r.HELD: 2}
    ranked = sorted(result.gates, key=lambda gate: order.get(gate.status, 1))
    shown = [gate for gate in ranked if gate.status != r.HELD or not context.brief]
    columns = (
        t.words("gate", _gate, "gate"),
        t.words("limit", lambda gate: b.Text(gate.gate, "code")),
        t.words("pair", lambda gate: names.get(gate.pair, gate.pair)),
        t.words("why", "text"),
    )
    yield t.table("gates", "", shown, columns, shown=t.ALL)
    if held := len(ranked) - len(shown):
        yield b.Note((f"{units.counted(held, 'gate')} held",))


def _gate(gate: r.GateResult) -> b.Text:
    sign = GATE_SIGNS.get(gate.status, "·")
    return b.Text(f"{sign} {gate.status}", "verdict", key=gate.status)


@section(COMPARISON, "cells", "Cells", brief=True)
def cells(result: r.ComparisonResult, context: Context) -> Iterator[b.Block]:
    """The matrix of two sweeps: how the step of each mode changed at each batch size and length."""
    modes = tuple(dict.fromkeys(cell.mode for cell in result.cells))
    at = {(cell.batch, cell.length, cell.mode): cell for cell in result.cells}

    def column(mode: str) -> t.Col:
        return t.words(mode, lambda point: _cell_text(result, at.get((*point, mode))), "mode")

    columns = (
        t.counts("batch", t.first, "point"),
        t.counts("length", lambda point: point[1], "point"),
        *map(column, modes),
    )
    points = dict.fromkeys((cell.batch, cell.length) for cell in result.cells)
    stars = {
        w.star(result.pairs[cell.pair].metric("step_time"))
        for cell in result.cells
        if cell.pair is not None
    }
    notes = (f"* {r.ONE_RUN}",) if any(stars) else ()
    yield t.table("cells", "change of the step time", points, columns, shown=t.ALL, notes=notes)


def _cell_text(result: r.ComparisonResult, cell: r.ComparedCell | None) -> b.Text | None:
    """The change and its verdict, which leads to the pair; or which side alone has the cell."""
    if cell is None:
        return None
    if cell.pair is None:
        return b.Text(f"only in {'base' if cell.only == 'baseline' else 'cand'}")
    pair = result.pairs[cell.pair]
    words = w.cell_words(pair.metric("step_time"))
    return b.Text(words, "verdict", key=pair.verdict, target=_name(pair))


@section(COMPARISON, "pairs", "Pairs", brief=True)
def pairs(result: r.ComparisonResult, context: Context) -> Iterator[b.Block]:
    """The step time of every pair, where there are several; the worst first."""
    if len(result.pairs) < 2 or (context.brief and result.cells):
        return
    columns = (
        b.Column("pair", "comparison"),
        b.Column("base", numeric=True),
        b.Column("cand", numeric=True),
        b.Column("change", unit=q.SHARE, numeric=True),
        b.Column("verdict", "comparison"),
    )
    rows, names = [], w.pair_names(result.pairs)
    for pair in w.by_verdict(result.pairs):
        step = pair.metric("step_time")
        label = b.Text(names[pair.label], target=_name(pair))
        change = q.change(step.ratio, q.SHARE, _basis(step), step.note)
        rows.append(b.Row((label, *_ends(step), change, _verdict(step)), q.NS, _basis(step)))
    yield b.Table("pairs", "step time", columns, tuple(rows), shown=len(rows))


@section(COMPARISON, "modes", "Compiling and capturing", brief=True)
def modes(result: r.ComparisonResult, context: Context) -> Iterator[b.Block]:
    """The 2x2 of a comparison, with what compiling and capturing did, each with and without."""
    square = result.two_by_two
    if square is None:
        return
    if not context.brief:
        yield b.Sentence((square.sentence,), "lead")
    yield from square_blocks({m: _cell(c, square.source) for m, c in square.corners.items()})
    if context.brief:
        return
    basis = basis_of(square.source)
    corners = (
        t.times("busy", "busy_ns", q.TRACED, "busy-per-token"),
        t.times("idle", "idle_ns", basis, "idle-per-token"),
        t.times("host dispatch", "host_dispatch_ns", basis, "host-dispatch"),
        *(
            t.times(f"busy: {word.label}", _class_of(key), q.TRACED, "op-class")
            for key, word in OP_CLASSES.items()
        ),
    )
    effects = (
        _changed("step", q.NS, "step_ns", basis, "period"),
        _changed("busy per token", q.NS, "busy_ns", q.TRACED),
        _changed("idle per token", q.NS, "idle_ns", basis),
        _changed("kernels", q.COUNT, "kernels"),
        _changed("launches", q.COUNT, "launches"),
        t.words("in words", "words"),
    )
    yield t.mode_table(
        "corners", "the four modes, per token", square.corners.items(), corners,
        label=lambda mode: square.corners[mode].label, folded=True,
    )  # fmt: skip
    edges = [(edge.label, getattr(square, name)) for name, edge in EDGES.items()]
    columns = (t.words("change", t.first), *map(t.second, effects))
    yield t.table("effects", "what each change did", edges, columns)


def _class_of(key: str) -> Callable[[r.Corner], r.Maybe]:
    return lambda corner: corner.busy_by_class_ns.get(key) or None


def _cell(corner: r.Corner, source: str) -> SquareCell:
    step, busy = corner.step_ns, corner.busy_ns
    return SquareCell(
        known=UNKNOWN if step is None else MEASURED,
        step_ns=None if step is None else round(step),
        tokens_per_s=corner.tokens_per_s,
        busy_ns=None if busy is None else round(busy),
        kernels=corner.kernels,
        launches=corner.launches,
        source=source,
    )


@section(COMPARISON, "notes", "Notes", brief=True)
def comparison_notes(result: r.ComparisonResult, context: Context) -> Iterator[b.Block]:
    """What is to be known about the comparison as a whole."""
    yield from notes(result, context)
    lacking: dict[str, list[str]] = {}
    for cell in result.cells:
        if cell.pair is None:
            lacking.setdefault(cell.only, []).append(w.place_words(cell, cell.mode))
    for side, places in lacking.items():
        yield b.Note((f"only in the {side}, so not compared: {'; '.join(places)}",))


@section(PAIR, "doubt", "Are they alike", brief=True)
def doubt(pair: r.Pair, context: Context) -> Iterator[b.Block]:
    """In what the two sides are unlike, and what else to know about the pair."""
    if pair.banner:
        unlike = b.Text("Runs are not comparable", "strong", term="comparison")
        yield b.Note(
            (unlike, f", compared because of --force: {'; '.join(pair.banner)}"), "refused"
        )
    slowed = any(row.verdict == r.NOT_COMPARABLE for row in pair.metrics)
    # The first note then says what would make the sides comparable.
    shown = pair.notes if not context.brief else pair.notes[: int(slowed)]
    level = "limited" if slowed else "note"
    yield from (b.Note((text,), "note" if i else level) for i, text in enumerate(shown))
    if rest := len(pair.notes) - len(shown):
        yield b.Note((f"{units.counted(rest, 'more note')} with --full",))


@section(PAIR, "metrics", "Paired metrics", brief=True)
def metrics(pair: r.Pair, context: Context) -> Iterator[b.Block]:
    """Every metric on both sides; each row states its unit and basis."""
    shown = [row for row in pair.metrics if row.known and not _nothing(row)]
    columns: tuple[b.Column, ...] = (
        b.Column("metric", "metric"),
        b.Column("base", numeric=True),
        b.Column("cand", numeric=True),
        b.Column("change", numeric=True),
        b.Column("change, of base", "metric", q.SHARE, numeric=True),
        b.Column("95 % interval", "comparison", q.SHARE, numeric=True),
        b.Column("verdict", "comparison"),
    )
    if context.brief:
        columns = (*columns[:3], b.Column("change", "metric", q.SHARE, numeric=True), columns[-1])
    rows = tuple(_metric(row, brief=context.brief) for row in shown)
    remarks: dict[str, list[r.MetricRow]] = {}
    for row in shown:
        # What cannot be compared as profiled stands before the table, with the reason.
        if row.note and row.verdict != r.NOT_COMPARABLE:
            remarks.setdefault(row.note, []).append(row)
    found = tuple(_remark(text, about) for text, about in remarks.items())
    yield b.Table("metrics", "", columns, rows, shown=len(rows), notes=found)
    if not context.brief:
        yield _spreads(shown)
        yield _traced(shown)


def _nothing(row: r.MetricRow) -> bool:
    return row.unit == q.COUNT and not row.baseline.value and not row.candidate.value


def _basis(row: r.MetricRow) -> str:
    """How the figure is known; a time that the profiler does not change is traced, too."""
    if row.source is None:
        return q.TRACED if row.unit == q.NS else ""
    return basis_of(row.source)


def _title(row: r.MetricRow, title: str = "") -> b.Text:
    return b.Text(title or row.title, term=TERMS.get(row.id, "metric"))


def _ends(row: r.MetricRow) -> tuple[q.Quantity, ...]:
    """The figure on both sides, or why there is none."""
    return tuple(
        q.Quantity(
            side.value, row.unit, _basis(row), reason="" if side.value is not None else row.note
        )
        if side.low is None
        else q.ranged(side.value, side.low, side.high, row.unit, _basis(row))
        for side in (row.baseline, row.candidate)
    )


def _metric(row: r.MetricRow, *, brief: bool) -> b.Row:
    basis, label = _basis(row), f"{row.title} per token" if row.per_token else row.title
    relative: b.Cell = q.change(row.ratio, q.SHARE)
    if row.ratio is None:
        relative = "from 0" if row.change else None
    moved: tuple[b.Cell, ...] = (q.change(row.change, row.unit, basis), relative, _interval(row))
    cells = (_title(row, label), *_ends(row), *(moved[1:2] if brief else moved), _verdict(row))
    return b.Row(cells, row.unit, basis, weak=row.change is None, key=row.id)


def _interval(row: r.MetricRow) -> b.Cell:
    """The interval of the change, relative to the baseline."""
    if row.basis == r.EXACT:
        return "exact"
    if row.basis == r.RANGES and row.interval_ratio is None:
        return None
    low, high = row.interval_ratio or (None, None)
    if low is None or high is None:
        return None
    return q.Quantity(None, q.SHARE, "", q.RANGE, low, high, signed=True)


def _verdict(row: r.MetricRow) -> b.Text:
    """The verdict; a star where runs were not repeated."""
    term = w.VERDICT_TERMS.get(row.verdict, "comparison")
    return b.Text(f"{w.verdict_words(row)}{w.star(row)}", "verdict", term=term, key=row.verdict)


def _remark(note: str, about: list[r.MetricRow]) -> str:
    """A note once for all rows it is about; those without a verdict are named."""
    if note == r.ONE_RUN:
        return f"* {note}"
    if all(row.change is not None for row in about):
        return note if note != r.VARIES else f"{note}: {', '.join(row.title for row in about)}"
    return f"{note}, so not judged: {', '.join(row.title for row in about)}"


def _spreads(shown: list[r.MetricRow]) -> b.Table:
    """How far the steps of each side spread, and the least and the largest of its runs."""
    columns = (
        b.Column("metric", "metric"),
        b.Column("side"),
        *(b.Column(label, numeric=True) for label in ("p5", "median", "p95")),
        *(b.Column(label, unit=q.COUNT, numeric=True) for label in ("steps", "runs")),
        *(b.Column(label, numeric=True) for label in ("least run", "largest run")),
    )
    rows = []
    for row in shown:
        for side, of in (("base", row.baseline), ("cand", row.candidate)):
            runs = of.runs if len(of.runs) > 1 else ()
            if of.p5 is None and not runs:
                continue
            ends = (of.p5, of.value, of.p95, min(runs, default=None), max(runs, default=None))
            spread = [t.known(value, row.unit, _basis(row)) for value in ends]
            counts = (q.Quantity(n, q.COUNT) for n in (of.n, len(of.runs)))
            cells = (_title(row), side, *spread[:3], *counts, *spread[3:])
            rows.append(b.Row(cells, row.unit, _basis(row)))
    return b.Table("spread", "spread", columns, tuple(rows), 12, True)


def _traced(shown: list[r.MetricRow]) -> b.Table:
    """The figures that are shown unprofiled, as the traces have them."""
    columns = (b.Column("metric", "metric"), *(b.Column(s, numeric=True) for s in ("base", "cand")))
    rows = []
    for row in shown:
        if row.as_profiled is not None:
            ends = (q.Quantity(end, row.unit, q.TRACED) for end in row.as_profiled)
            rows.append(b.Row((row.title, *ends), row.unit, q.TRACED))
    return b.Table("traced", "these figures as profiled", columns, tuple(rows), folded=True)


@section(PAIR, "bridge", "Bridge", brief=True)
def bridge(pair: r.Pair, context: Context) -> Iterator[b.Block]:
    """From one step time to the other in parts that sum exactly; estimates are hatched."""
    found = pair.bridge
    # Where nothing changed a short form has nothing to take apart.
    if found is None or (context.brief and pair.verdict == r.WITHIN_NOISE):
        return
    if sentence := w.bridge_sentence(found):
        yield b.Sentence((sentence[:1].upper() + sentence[1:], "."), "lead")
    yield _bars(found)
    if not context.brief:
        basis = basis_of(found.source)
        columns = (
            t.words(
                "part", lambda p: b.Text(p.title, term=p.key if p.kind == "idle" else "bridge")
            ),
            t.words("known", lambda p: "estimate" if p.estimated else None),
            t.times("base", "baseline_ns", basis),
            t.times("cand", "candidate_ns", basis),
            _changed("change", q.NS, "delta_ns", basis),
        )
        yield t.table("bridge-parts", "parts", found.parts, columns, folded=True, key="key")


def _bars(found: r.Bridge) -> b.Bars:
    basis, moved = basis_of(found.source), w.waterfall(found)
    before, after = found.ends
    largest = sorted(moved, key=lambda part: (-abs(part.delta_ns), part.key))[:PARTS_SHOWN]
    kept = [part for part in moved if part in largest and part.share >= SMALL_PART]
    rest = [part for part in moved if part not in kept]

    def bar(key: str, label: str, ns: q.Number, *, hatched: bool = False) -> b.Bar:
        return b.Bar(label, (b.Segment(key, label, q.change(ns, q.NS, basis)),), hatched=hatched)

    def unsure(part: r.BridgePart) -> bool:
        return part.estimated or (part.kind == "idle" and not found.comparable)

    def drawn_as(part: r.BridgePart) -> b.Bar:
        label = f"{part.title} (estimate)" if part.estimated else part.title
        return bar(part.key, label, part.delta_ns, hatched=unsure(part))

    def end(side: str, step: str, ns: q.Number) -> b.Bar:
        total = q.Quantity(ns, q.NS, basis)
        return b.Bar(f"{side}: {step}", (b.Segment("busy", side, total),), total)

    bars = [end("baseline", found.baseline_step, before)]
    drawn = [drawn_as(part) for part in kept]
    if rest:
        label = units.counted(len(rest), "smaller part")
        smaller = sum(part.delta_ns for part in rest)
        # A gain goes in front of the losses, so that the way stays within the steps.
        place = len(drawn) if smaller > 0 else sum(part.delta_ns < 0 for part in kept)
        drawn.insert(place, bar("other", label, smaller, hatched=any(map(unsure, rest))))
    bars += drawn
    bars.append(end("candidate", found.candidate_step, after))
    per_step = "" if found.basis == "whole recording" else " per step"
    total = units.text(q.change(after - before, q.NS, basis))
    steps = f"{found.baseline_step} → {found.candidate_step}"
    remarks = (
        f"{total}{per_step} in all, exactly ({steps})",
        ESTIMATE if any(part.estimated for part in found.parts) else "",
        PREDICTED_ENDS if found.source == r.PREDICTED else "",
        *found.notes,
        w.profiling_remark(found),
    )
    shown = tuple(text for text in remarks if text)
    return b.Bars("bridge", "Bridge", tuple(bars), "class", "bridge", shown)


@section(PAIR, "timeline", "Timelines")
def timelines(pair: r.Pair, context: Context) -> Iterator[b.Block]:
    """One step of each side from its start, on one scale; only where there is a trace."""
    from gaptrace.document import pictures

    sides = [
        (word, analysis, side.step)
        for word, side in (("baseline", pair.baseline), ("candidate", pair.candidate))
        if (analysis := context.analyses.get(side.recording)) is not None and side.step >= 0
    ]
    yield from pictures.side_by_side(sides, context)


@section(PAIR, "kernels", "Kernels")
def kernels(pair: r.Pair, context: Context) -> Iterator[b.Block]:
    """What happened to the kernels: what replaced what, and every name on both sides."""
    found = pair.kernels
    if pair.kernel_sentence:
        yield b.Sentence((pair.kernel_sentence,), "lead")
    if not found.rows:
        return
    statuses = {status: found.of(status) for status in ("removed", "added", "changed", "same")}
    counts = ", ".join(f"{units.count(len(rows))} {s}" for s, rows in statuses.items() if rows)
    yield b.Sentence((f"By name: {counts}.",))
    yield t.table("groups", "what replaced what", found.groups, _GROUPS, shown=6)
    moved = [row for row in found.rows if row.status != "same"]
    yield t.table(
        "kernels", "by name", (*moved, *statuses["same"]), _KERNELS,
        weak=lambda row: row.status == "same",
    )  # fmt: skip
    classes = (
        t.words("class", lambda item: OP_CLASSES[item[0]].label, "op-class", "class"),
        t.times("base per token", lambda item: item[1][0], q.TRACED),
        t.times("cand per token", lambda item: item[1][1], q.TRACED),
        t.times("change", lambda item: _moved(item[1][1] - item[1][0]), q.TRACED),
    )
    both = [(key, ends) for key, ends in found.by_class_ns.items() if any(ends)]
    yield t.table("kernel-classes", "by class", both, classes, folded=True, key=t.first)


def _moved(ns: r.Number) -> q.Quantity:
    return q.change(ns, q.NS, q.TRACED)


def _use(side: str, field: str) -> Callable[[r.KernelChange], r.Maybe]:
    """A figure of one side's use of a kernel; None where that side does not have it."""
    return lambda row: getattr(getattr(row, side), field, None)


_KERNELS = (
    t.words("kernel", lambda row: t.name(row.short, row.name), "kernel"),
    t.words("class", lambda row: OP_CLASSES[row.op_class].label, "op-class"),
    t.words("status", "status"),
    t.counts("base per token", _use("baseline", "per_token")),
    t.counts("cand per token", _use("candidate", "per_token")),
    t.times("base time", _use("baseline", "ns_per_token"), q.TRACED),
    t.times("cand time", _use("candidate", "ns_per_token"), q.TRACED),
    _changed("change per token", q.NS, "delta_ns", q.TRACED),
    t.words("op, or ops fused", lambda row: row.op or ", ".join(row.fuses)),
)
_GROUPS = (
    t.words("group", "title", "fusion"),
    t.words("base", lambda group: _members(group.baseline)),
    t.words("cand", lambda group: _members(group.candidate)),
    _changed("kernels per token", q.COUNT, "delta_count"),
    _changed("time per token", q.NS, "delta_ns", q.TRACED),
)


def _members(members: tuple[r.Member, ...]) -> str:
    shown = ", ".join(f"{m.short} ×{units.count(m.per_token)}" for m in members[:MEMBERS_SHOWN])
    rest = len(members) - MEMBERS_SHOWN
    return f"{shown} and {units.count(rest)} more" if rest > 0 else shown


@section(PAIR, "sides", "What was compared")
def sides(pair: r.Pair, context: Context) -> Iterator[b.Block]:
    """Both sides: how much of each was recorded, whether it can be trusted, and its facts."""
    both = (pair.baseline, pair.candidate)
    rows: list[tuple[str, list[b.Cell]]] = [
        ("runs", [q.Quantity(side.runs, q.COUNT) for side in both]),
        ("complete steps", [q.Quantity(side.steps, q.COUNT) for side in both]),
        ("trace", [b.Text(side.verdict, "verdict", key=side.verdict) for side in both]),
        ("mode", [side.mode for side in both]),
        ("from", ["saved baseline" if side.saved else side.path for side in both]),
    ]
    rows += [(label, [side.facts.get(key) for side in both]) for key, label in FACTS.items()]
    rows += [("to know", [text, None]) for text in pair.baseline.reasons]
    rows += [("to know", [None, text]) for text in pair.candidate.reasons]
    shown = tuple(
        b.Row((label, *cells), q.COUNT if isinstance(cells[0], q.Quantity) else None)
        for label, cells in rows
        if any(cell is not None for cell in cells)
    )
    columns = (b.Column(""), b.Column(f"base: {both[0].label}"), b.Column(f"cand: {both[1].label}"))
    yield b.Table("sides", "", columns, shown, shown=len(rows))


def _prefix(result: r.ComparisonResult, pair: r.Pair) -> str:
    """Keeps the ids of several pairs on one page apart."""
    return f"p{result.pairs.index(pair) + 1}-" if len(result.pairs) > 1 else ""


def _next(result: r.ComparisonResult) -> Iterator[b.Section]:
    """The commands to type next: look at the worst candidate, and say it again with all details."""
    if all("refused" in (p.baseline.verdict, p.candidate.verdict) for p in result.pairs):
        return
    pair = w.by_verdict(result.pairs)[0]
    base, worst = pair.baseline, pair.candidate
    others = [worst] if result.cells else [each.candidate for each in result.pairs]
    named = dict.fromkeys(side.path for side in others)
    # A run is named once where its own modes are compared.
    own = base.path in named and base.mode != worst.mode
    paths = list(named) if own else [base.path, *named]
    look = worst.path not in ("", "-") and not worst.saved and worst.verdict != "refused"
    again = " ".join(shlex.quote(path) for path in paths)
    force = " --force" if any(pair.banner for pair in result.pairs) else ""
    commands = (
        *((f"gaptrace analyze {shlex.quote(worst.path)}",) if look else ()),
        *((f"gaptrace compare {again} --full{force}",) if not {"", "-"} & {*paths} else ()),
    )
    if commands:
        yield b.Section("next", "Next", (b.Note((), "next", commands=commands),))


def _identity(pairs: Sequence[r.Pair]) -> Iterator[str]:
    """GPU, model, type and batch, where both sides of all pairs agree."""
    sides = [side.facts for pair in pairs for side in (pair.baseline, pair.candidate)]
    left = sides[0]
    for key in ("model", "gpu", "dtype", "batch", "torch"):
        if (value := left.get(key)) and all(side.get(key) == value for side in sides):
            yield f"{key} {value}" if key in ("batch", "torch") else value


def _name(pair: r.Pair) -> str:
    """The title of a pair, by which a page finds its part; the title of two sweeps names both."""
    at_point = pair.baseline.batch or pair.baseline.length
    return (at_point and w.place_of(pair)) or pair.label


def pair_document(pair: r.Pair, context: Context) -> b.Document:
    """Everything that is said about one pair."""
    found = whole(PAIR, pair, context, _name(pair), (w.pair_headline(pair),))
    return msgspec.structs.replace(found, result=None)


@builder(r.ComparisonResult)
def comparison_document(result: r.ComparisonResult, context: Context) -> b.Document:
    """Everything that is said about a comparison, in the detail that is asked for."""
    ranked = w.by_verdict(result.pairs)
    single = len(ranked) == 1
    # A matrix says the rest in short.
    told = ranked[:1] if result.cells and context.brief else ranked
    parts = tuple(
        pair_document(pair, replace(context, prefix=f"{context.prefix}{_prefix(result, pair)}"))
        for pair in told
    )
    title, answer = w.title(result), (w.headline(result),)
    found = whole(COMPARISON, result, context, title, answer, _identity(ranked))
    sections = (*found.sections, *(parts[0].sections if single else ()), *_next(result))
    return msgspec.structs.replace(found, sections=sections, parts=() if single else parts)
