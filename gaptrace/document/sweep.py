"""The document of a sweep: curves first, then every mode at every point, savings and notes."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from gaptrace import quantity as q
from gaptrace.document import blocks as b
from gaptrace.document import tables as t
from gaptrace.document.build import builder
from gaptrace.document.capture import basis_of
from gaptrace.document.run import START_PARTS, STARTS
from gaptrace.document.sections import SWEEP, Context, notes, section, whole
from gaptrace.document.sweep_words import point_words, sentence
from gaptrace.results.run import SweepPoint, SweepResult, SweepRow, SweepSaving
from gaptrace.units import count

Sized: TypeAlias = SweepPoint | SweepRow | SweepSaving
Measure: TypeAlias = Callable[[SweepRow], q.Quantity | None]


def axis(sweep: SweepResult) -> str:
    """What the horizontal axis counts: `batch`, or `length` where only that varies."""
    batches = {point.batch for point in sweep.points}
    lengths = {point.length for point in sweep.points}
    return "length" if (len(batches) == 1 and len(lengths) > 1) or batches == {None} else "batch"


def _at(item: Sized, along: str) -> int | None:
    return item.batch if along == "batch" else item.length


def _groups(sweep: SweepResult) -> list[tuple[str, set[str]]]:
    """The points that one panel shows, by the size that its axis does not count."""
    along = axis(sweep)
    other = "length" if along == "batch" else "batch"
    found: dict[int | None, set[str]] = {}
    for point in sweep.points:
        if _at(point, along) is not None:
            found.setdefault(_at(point, other), set()).add(point.point)
    return [
        (f" · {other} {count(n)}" if len(found) > 1 and n is not None else "", points)
        for n, points in found.items()
    ]


def _rate(row: SweepRow) -> q.Quantity | None:
    return t.known(row.tokens_per_s, q.TOKENS_PER_S, basis_of(row.rate_source))


def _step(row: SweepRow) -> q.Quantity | None:
    return t.duration(row.step_ns, basis_of(row.rate_source))


def _idle(row: SweepRow) -> q.Quantity | None:
    """The idle share; as profiled it is an upper bound."""
    basis = basis_of(row.idle_source)
    return t.known(row.idle_share, q.SHARE, basis, q.AT_MOST if basis == q.TRACED else q.EXACT)


def _launch(row: SweepRow) -> q.Quantity | None:
    return t.known(row.launch_tokens_per_s, q.TOKENS_PER_S)


def _bandwidth(row: SweepRow) -> q.Quantity | None:
    return t.known(row.bandwidth_tokens_per_s, q.TOKENS_PER_S)


def _rows(sweep: SweepResult, *modes: str, points: set[str] | None = None) -> list[SweepRow]:
    """Rows by mode (all, or these), each mode's points in order."""
    return [
        row
        for mode in modes or sweep.modes
        for row in sweep.rows
        if row.mode == mode and (points is None or row.point in points)
    ]


def _series(
    rows: Sequence[SweepRow], along: str, value: Measure, label: str, style: str = "line"
) -> b.Series:
    points = (
        b.Point(_at(row, along) or 0, quantity, f"{row.mode}, {point_words(row)}", row.mode)
        for row in rows
        if (quantity := value(row)) is not None
    )
    return b.Series(label, tuple(points), rows[0].mode if rows else "", style)


def _panel(
    title: str, along: str, label: str, unit: str, series: Iterable[b.Series], scale: str = "linear"
) -> Iterator[b.Panel]:
    """A panel of those series that have points; none where none has."""
    kept = tuple(item for item in series if item.points)
    sizes = sorted({point.x for item in kept for point in item.points})
    ticks = tuple((float(x), count(x)) for x in sizes)
    if kept:
        yield b.Panel(title, along, label, unit, kept, "log", scale, ticks)


def rate_panels(sweep: SweepResult) -> Iterator[b.Panel]:
    """Tokens per second against the axis, a panel for each mode, both ceilings in it."""
    along = axis(sweep)
    for suffix, points in _groups(sweep):
        for mode in sweep.modes:
            rows = _rows(sweep, mode, points=points)
            series = (
                _series(rows, along, _rate, "measured"),
                _series(rows, along, _launch, "launch ceiling", "dashed"),
                _series(rows, along, _bandwidth, "bandwidth ceiling", "dotted"),
            )
            if series[0].points:
                title = f"{mode}{suffix}"
                yield from _panel(title, along, "token rate", q.TOKENS_PER_S, series, "log")


def _idle_shares(sweep: SweepResult) -> Iterator[b.Panel]:
    """Idle share of the step against the axis, all modes in one panel."""
    along = axis(sweep)
    for suffix, points in _groups(sweep):
        by_mode = ((mode, _rows(sweep, mode, points=points)) for mode in sweep.modes)
        series = (_series(rows, along, _idle, mode) for mode, rows in by_mode)
        yield from _panel(f"idle share{suffix}", along, "GPU idle", q.SHARE, series)


def _saved(sweep: SweepResult) -> Iterator[b.Panel]:
    """Busy time that fusion saves per step: predicted from eager shapes, and measured."""
    along = axis(sweep)
    for suffix, points in _groups(sweep):
        own = [saving for saving in sweep.savings if saving.point in points]
        series = (
            _marks(own, along, "predicted", "predicted_ns", q.PREDICTED),
            _marks(own, along, "measured", "realised_ns", q.TRACED),
        )
        yield from _panel(f"fusion saves per step{suffix}", along, "saved", q.NS, series)


def _marks(
    savings: Sequence[SweepSaving], along: str, label: str, field: str, basis: str
) -> b.Series:
    guess, value = basis == q.PREDICTED, t.getter(field)
    points = (
        b.Point(_at(item, along) or 0, q.Quantity(ns, q.NS, basis), f"{label}, {point_words(item)}",
              "compiled", hatched=guess)
        for item in savings
        if (ns := value(item)) is not None
    )  # fmt: skip
    return b.Series(label, tuple(points), "compiled", "dashed" if guess else "line")


@section(SWEEP, "curves", "Against batch and length")
def curves(sweep: SweepResult, context: Context) -> Iterator[b.Block]:
    """Rates with both ceilings, idle shares, and what fusion saves, each with its numbers."""
    along, bases = axis(sweep), _bases(sweep)
    base = f" of {bases}" if bases else ""
    rates, idles, saved = (tuple(make(sweep)) for make in (rate_panels, _idle_shares, _saved))
    if rates:
        text = (
            f"Tokens per second against {along}, one panel a mode, both axes logarithmic: how far "
            "the measured rate stays below its two ceilings, and which of them is the lower one."
        )
        yield b.Sentence((text,), "lead")
        yield b.Chart("rates", "rates and ceilings", "panels", rates, _limits(sweep, "rates"))
    else:
        yield b.Note(("no point of this sweep has a figure to draw",))
    if idles:
        yield b.Sentence((f"Share of the step that the GPU idles, against {along}.",), "lead")
        yield b.Chart("idle", "idle share", "panels", idles, _idles(sweep))
    if saved:
        text = (
            f"Busy time that fusion saves per step, against {along}: predicted from the eager "
            f"step{base}, and what compiling saved."
        )
        yield b.Sentence((text,), "lead")
        yield b.Chart("savings", "savings", "panels", saved, _savings(sweep, "savings"))
    if sweep.savings:
        yield b.Note((_savings_words(sweep),))


@section(SWEEP, "figures", "Every mode at every point", brief=True)
def numbers(sweep: SweepResult, context: Context) -> Iterator[b.Block]:
    """Rate, step, idle share and counts of every mode at every point, and how they are known."""
    yield _figures(sweep, context)
    if context.brief:
        yield _limits(sweep, "limits")
    yield _starts(sweep, context)
    yield b.Note((_words(sweep),))


_NAMED = (
    t.words("mode", lambda row: b.Text(row.mode, term="mode", key=row.mode), "mode", "mode"),
    t.counts("batch", "batch", "point"),
    t.counts("length", "length", "point"),
)


def _figures(sweep: SweepResult, context: Context) -> b.Table:
    rows = _rows(sweep)
    more = (
        t.times("busy", "busy_ns", q.TRACED, "busy"),
        t.figures("spread", q.SHARE, "step_spread", term="spread"),
        t.counts("replays", "replays", "graph-replay"),
    )
    columns = (
        *_NAMED,
        *t.by_basis("rate", q.TOKENS_PER_S, _rate, rows, "tokens-per-s"),
        *t.by_basis("step", q.NS, _step, rows, "period"),
        *t.by_basis("idle", q.SHARE, _idle, rows, "idle"),
        t.counts("kernels", "kernels", "kernel"),
        t.counts("launches", "launches", "launch-call"),
        *(() if context.brief else more),
        t.words("failed", _failed),
    )
    return t.table(
        "figures", "", rows, columns, shown=t.ALL, weak=lambda row: not row.repeats, key="mode"
    )


def _failed(row: SweepRow) -> str:
    status = row.status.replace("_", " ")
    return "" if row.repeats else f"{status}: {row.reason}" if row.reason else status


def _idles(sweep: SweepResult) -> b.Table:
    rows = [row for row in _rows(sweep) if row.idle_share is not None]
    columns = (*_NAMED, *t.by_basis("idle", q.SHARE, _idle, rows, "idle"))
    return t.table("idle", "idle share", rows, columns, shown=t.ALL, key="mode")


def _limits(sweep: SweepResult, anchor: str) -> b.Table:
    rows = [row for row in _rows(sweep) if row.repeats]
    columns = (
        *_NAMED,
        *t.by_basis("rate", q.TOKENS_PER_S, _rate, rows, "tokens-per-s"),
        t.figures("launch ceiling", q.TOKENS_PER_S, _launch, term="launch-ceiling"),
        t.figures("bandwidth ceiling", q.TOKENS_PER_S, _bandwidth, term="bandwidth-ceiling"),
        t.words("limited by", "binding", "binding-ceiling"),
        t.figures("reached", q.SHARE, "distance"),
    )
    return t.table(anchor, "ceilings", rows, columns, shown=t.ALL, key="mode")


def _starts(sweep: SweepResult, context: Context) -> b.Table:
    """Until nothing compiles or is captured any more; what tuning chose; what buckets pad."""
    rows = [r for r in _rows(sweep) if r.startup is not None or r.choices or r.padding_share]
    starts = STARTS if context.brief else (*STARTS, *START_PARTS)
    columns = (
        *_NAMED,
        *(t.inner("startup", start) for start in starts),
        t.figures("padding", q.SHARE, "padding_share", term="padding"),
        t.words("tuned", _choices, "autotune"),
    )
    return t.table("starts", "starts", rows, columns, shown=t.ALL, key="mode")


def _choices(row: SweepRow) -> str:
    """How many matrix products went to which kind of kernel, most first."""
    return ", ".join(f"{kind} {count(n)}" for kind, n in (row.choices or {}).items())


def _words(sweep: SweepResult) -> str:
    """What the figures are."""
    text = "counts and times are per step; a replay is one launch call"
    if any(row.startup is not None for row in sweep.rows):
        text += (
            "; a start lasts until nothing compiles or is captured any more, cold with an empty "
            "compile cache and warm with a full one; a mode without a cache starts alike each time"
        )
    if any(row.padding_share is not None for row in sweep.rows):
        text += "; with buckets one start covers all lengths"
    return text


@section(SWEEP, "savings", "Fusion savings", brief=True)
def savings(sweep: SweepResult, context: Context) -> Iterator[b.Block]:
    """What fusion saves of the GPU's busy time in one step, point by point."""
    # The full form has the table beside its curve.
    if sweep.savings and (context.brief or not tuple(_saved(sweep))):
        yield _savings(sweep, "saved")
        yield b.Note((_savings_words(sweep),))


def _savings(sweep: SweepResult, anchor: str) -> b.Table:
    columns = (
        t.counts("batch", "batch", "point"),
        t.counts("length", "length", "point"),
        t.times("predicted", "predicted_ns", q.PREDICTED, "predicted-fusion"),
        t.times("from its own eager step", "own_ns", q.PREDICTED),
        t.times("measured", "realised_ns", q.TRACED, "measured-savings"),
        t.figures("bytes", q.BYTES, "predicted_bytes", q.PREDICTED),
        t.words("predicted from", "predicted_from"),
        t.words("by", "source"),
        t.words("measured on", "realised_from"),
    )
    return t.table(anchor, "fusion, per step", sweep.savings, columns, shown=t.ALL)


def _bases(sweep: SweepResult) -> str:
    """The points that savings are predicted from."""
    return ", ".join(dict.fromkeys(s.predicted_from for s in sweep.savings if s.predicted_from))


def _savings_words(sweep: SweepResult) -> str:
    bases = _bases(sweep)
    sources = ", ".join(dict.fromkeys(s.source for s in sweep.savings if s.source))
    text = "measured: busy time of the plain step less that of the compiled one"
    if not bases:
        return text
    return f"predicted from the eager step of {bases} ({sources}), scaled to each batch; {text}"


@section(SWEEP, "findings", "Findings", brief=True)
def findings(sweep: SweepResult, context: Context) -> Iterator[b.Block]:
    """What has a gain at any point: analyse that point for how much."""
    if sweep.findings:
        named = ", ".join(f"{id_} {title}" for id_, title in sweep.findings)
        yield b.Note((f"findings with a gain at some point: {named}",))


section(SWEEP, "notes", "Notes", brief=True)(notes)


@section(SWEEP, "next", "Next", brief=True)
def commands(sweep: SweepResult, context: Context) -> Iterator[b.Block]:
    """The command to type next: one point alone, of which a mode could be measured."""
    usable = {row.point for row in sweep.rows if set(row.verdicts) - {"refused"}}
    paths = [point.path for point in sweep.points if point.point in usable and point.path]
    if paths:
        yield b.Note((), "next", commands=(f"gaptrace analyze {shlex.quote(paths[0])}",))


@builder(SweepResult)
def sweep_document(result: SweepResult, context: Context) -> b.Document:
    """Everything that is said about a sweep, in the detail that is asked for."""
    answer = result.sentence or sentence(result)
    return whole(SWEEP, result, context, result.name, (answer,), result.facts)
