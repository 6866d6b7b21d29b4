"""Where a token's time goes, one step in numbers, the longest gaps, and the pictures of steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gaptrace.document.blocks import (
    Bar,
    Bars,
    Block,
    Column,
    Inline,
    Row,
    Segment,
    Sentence,
    Table,
    Text,
)
from gaptrace.document.sections import Context
from gaptrace.document.tables import duration, figures, given, known, name, table, words
from gaptrace.quantity import COUNT, NS, SHARE, TRACED, UNPROFILED, Quantity
from gaptrace.results.analysis import AnalysisResult, GapRow, Piecewise, StepFigures
from gaptrace.vocabulary import BUSY, CAUSES, HOST_CLASSES, IDLE, RUN_METRICS, STEP_METRICS, Metric

PARTS = "parts are medians, so that they need not add up to the median step"
BUSY_UNPROFILED = "unprofiled: busy time as traced, since the profiler does not slow kernels"
GAPS_IN_PIECES = (
    "of one gap between pieces, times as profiled; idle is the mean, the others are medians"
)
KINDS_SHOWN = 4
# What a reason must withhold for a figure to be gone with it.
_NAMES = {
    "busy_ns": ("busy",),
    "idle_ns": ("idle",),
    "kernels": ("kernels",),
    "launches": ("launches",),
    "host_dispatch_ns": ("host_dispatch", "host"),
}


def token_time(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """Where a token's time goes: the GPU by cause, the host by class, and both as a table."""
    bars = tuple(_token_bars(result))
    if not bars:
        return
    token = result.headline.token_ns
    if token is not None and not context.brief:
        basis = "" if result.headline.basis == UNPROFILED else " as profiled"
        yield Sentence(
            ("One ", Text("token", term="token"), " takes ",
             Quantity(token, NS, result.headline.basis), f"{basis}."),
            "lead",
        )  # fmt: skip
    notes = () if context.brief else (PARTS,)
    if bars[0].total is not None and not context.brief:
        notes = (*notes, BUSY_UNPROFILED)
    yield Bars(
        f"{context.prefix}token-bars", "Where a token's time goes", bars, "host", notes=notes
    )
    if not context.brief:
        yield _parts(result, f"{context.prefix}token-parts")


def _token_bars(result: AnalysisResult) -> Iterator[Bar]:
    head, token = result.headline, result.per_token
    busy = token.busy_ns
    if busy is not None:
        if head.basis == head.idle_basis == UNPROFILED and head.token_idle_ns is not None:
            yield Bar(
                "GPU",
                (
                    # The profiler does not slow kernels: busy time is as traced.
                    _segment("busy", BUSY.label, Quantity(busy, NS, UNPROFILED)),
                    _segment("idle", IDLE.label, Quantity(head.token_idle_ns, NS, UNPROFILED)),
                ),
                duration(head.token_ns, UNPROFILED),
            )
        idle = [
            _segment(key, word.label, Quantity(ns, NS, TRACED))
            for key, word in CAUSES.items()
            if (ns := token.idle_by_cause_ns.get(key))
        ]
        if not idle and token.idle_ns:
            label = f"{IDLE.label}, causes withheld"
            idle = [_segment("idle", label, Quantity(token.idle_ns, NS, TRACED))]
        yield Bar("GPU", (_segment("busy", BUSY.label, Quantity(busy, NS, TRACED)), *idle))
    host = tuple(
        _segment(key, word.label, Quantity(ns, NS, TRACED))
        for key, word in HOST_CLASSES.items()
        if (ns := token.host_time_ns.get(key))
    )
    if host:
        yield Bar("host thread", host)


def _segment(key: str, label: str, amount: Quantity) -> Segment:
    return Segment(key, label, amount)


def _parts(result: AnalysisResult, anchor: str) -> Table:
    """The bars' numbers: idle by cause and host time by class, medians of one token."""
    token = result.per_token
    words_ = {"busy": BUSY, **HOST_CLASSES}
    gpu = {"busy": token.busy_ns, **token.idle_by_cause_ns}
    gpu_share = {"busy": token.busy_share, **token.idle_share_by_cause}
    keys = [key for key in words_ if gpu.get(key) or token.host_time_ns.get(key)]
    return table(
        anchor,
        "medians of one token",
        keys,
        [
            words("part", lambda k: Text(words_[k].label, term=words_[k].term, key=k), look="host"),
            figures("GPU", NS, lambda k: gpu.get(k) or None, TRACED, "idle-per-token"),
            figures("of the step", SHARE, lambda k: gpu_share.get(k) or None, TRACED),
            figures("host", NS, lambda k: token.host_time_ns.get(k) or None, TRACED, "host-time"),
            figures("of the step", SHARE, lambda k: token.host_share.get(k) or None, TRACED),
        ],
        shown=len(keys),
        key=lambda k: k,
    )


def step_numbers(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """One step in numbers: each figure with its own unit and basis; per token where they differ."""
    head, steps = result.headline, result.steps
    several = steps.tokens_per_step not in (None, 1)
    rows = []
    if head.step_ns is not None:
        rows.append(_row(RUN_METRICS["tokens_per_s"], head.basis, (head.tokens_per_s,)))
    if head.basis != TRACED:
        # A traced figure stands below with its spread; these have none.
        c = result.ceilings
        rows.append(_row(STEP_METRICS["period_ns"], head.basis, (head.step_ns,)))
        if head.idle_basis == head.basis:
            rows.append(_row(STEP_METRICS["idle_ns"], head.idle_basis, (head.idle_ns,)))
        if c.host_dispatch_basis not in ("", TRACED):
            host = known(c.host_dispatch_ns, NS, c.host_dispatch_basis, bound=c.host_dispatch_bound)
            rows.append(_row(STEP_METRICS["host_dispatch_ns"], c.host_dispatch_basis, (host,)))
    notes = []
    for metric in STEP_METRICS.values():
        own = [_figure(part, metric) for part in (steps.median, steps.p5, steps.p95)]
        if metric.id in ("copies", "memsets") and not own[2]:
            continue
        why = result.quality.why("steps", *_NAMES.get(metric.id, ()))
        if own[0] is None and why:
            notes.append(f"{metric.label} is withheld: {why}")
        token = getattr(result.per_token, metric.id) if several else None
        rows.append(_row(metric, TRACED if metric.unit == NS else "", (*own, token)))
    found = tuple(row for row in rows if row is not None)
    if steps.median.period_ns is None and not found:
        return
    labels = [("", ""), ("median", "median"), ("p5", "spread"), ("p95", "spread")]
    labels += [("per token", "per-token")] if several else []
    columns = tuple(Column(label, term, numeric=bool(label)) for label, term in labels)
    rows_ = tuple(Row(row.cells[: len(columns)], row.unit, row.basis, key=row.key) for row in found)
    yield Table(f"{context.prefix}step-numbers", "one step", columns, rows_, len(rows_),
                notes=tuple(notes))  # fmt: skip


def _figure(figures_: StepFigures, metric: Metric) -> Any:
    return getattr(figures_, metric.id)


def _row(metric: Metric, basis: str, values: tuple[Any, ...]) -> Row | None:
    """A row of up to four values; None where the first is not known."""
    if values[0] is None:
        return None
    cells = [v if isinstance(v, Quantity) else known(v, metric.unit, basis) for v in values]
    cells += [None] * (4 - len(cells))
    label = Text(metric.label, term=metric.term, key=metric.id)
    return Row((label, *cells), metric.unit, basis, key=metric.id)


def pieces(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """The pieces of a step that replays several graphs, and the gaps between them."""
    found = result.piecewise
    if found is None:
        return
    yield Sentence(piece_words(found))
    yield table(
        f"{context.prefix}seams",
        "gaps between pieces, by the work in them",
        found.kinds,
        [
            words(
                "work", lambda k: name(", ".join(w.removeprefix("aten::") for w in k.work)), "seam"
            ),
            figures("per step", COUNT, lambda k: k.per_step),
            figures("kernels", COUNT, lambda k: k.kernels, term="kernel"),
            figures("idle", NS, lambda k: k.idle_mean_ns, TRACED, "seam-idle"),
            figures("busy", NS, lambda k: k.busy_ns, TRACED, "busy"),
            figures("host", NS, lambda k: k.host_ns, TRACED, "host-time"),
        ],
        shown=KINDS_SHOWN,
        notes=(GAPS_IN_PIECES,),
    )


def piece_words(found: Piecewise) -> tuple[Inline, ...]:
    """The pieces of one recording in a sentence."""
    idle = given("; idle in them, as profiled, ", duration(found.idle_ns, TRACED), " per step")
    return (
        Text("Pieces", term="piece"),
        ": ",
        Quantity(found.replays, COUNT),
        " graph replays per step",
        *given(" of ", known(found.pieces, COUNT), " graphs"),
        "; ",
        Quantity(found.seams, COUNT),
        " gaps between pieces, ",
        Quantity(found.with_work, COUNT),
        " of them launch work (",
        Quantity(found.kernels, COUNT),
        " kernels, ",
        Quantity(found.launches, COUNT),
        " launch calls)",
        *idle,
        *given(" (", known(found.share, SHARE, TRACED), ")"),
        *given(", a mean of ", duration(found.idle_per_seam_ns, TRACED), " each"),
        "."
        if found.of == "decode steps"
        else f". No decode step was counted: read from {found.of}.",
    )


def steps_picture(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """The steps side by side; nothing where no trace is behind the result."""
    analysis = context.analyses.get(result.source.path)
    if analysis is not None:
        # Pictures ask the trace, and need what reads it.
        from gaptrace.document import pictures

        chart = pictures.steps_chart(analysis, context.prefix)
        if chart is not None:
            yield chart


def timeline(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """One step drawn true to scale with the longest gaps; without a trace the gaps alone."""
    twin = _gaps(result, f"{context.prefix}gaps")
    analysis = context.analyses.get(result.source.path)
    if analysis is not None:
        from gaptrace.document import pictures

        drawn = pictures.timeline(analysis, prefix=context.prefix)
        if drawn is not None:
            yield drawn
    elif twin is not None:
        yield twin


def _gaps(result: AnalysisResult, anchor: str) -> Table | None:
    gaps = result.longest_gaps
    if not gaps:
        return None
    why = result.quality.why("causes")
    counted = any(gap.step is not None for gap in gaps)
    return table(
        anchor,
        "longest gaps" + (" of the counted steps" if counted else ""),
        gaps,
        [
            figures("gap", NS, lambda g: g.dur_ns, TRACED, "gap"),
            figures("at", NS, lambda g: g.start_ns, TRACED, "time"),
            figures("step", COUNT, lambda g: g.step, term="step"),
            words("cause", lambda g: "withheld" if why else _cause(g), "cause", "cause"),
            words("after", lambda g: name(g.before)),
            words("before", lambda g: name(g.after)),
        ],
        notes=(f"causes are withheld: {why}",) if why else (),
        key=lambda g: f"gap:{g.gap}",
    )


def _cause(gap: GapRow) -> Text | None:
    """The cause of most of a gap, and how many more it has."""
    parts = [key for key in CAUSES if gap.cause_ns.get(key)]
    if not parts:
        return None
    largest = CAUSES[max(parts, key=lambda key: gap.cause_ns[key])]
    more = f" +{len(parts) - 1}" if len(parts) > 1 else ""
    return Text(f"{largest.label}{more}", term=largest.term, key=largest.id)
