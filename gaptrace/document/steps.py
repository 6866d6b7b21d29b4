"""Where a token's time goes, one step in numbers, the longest gaps, and the pictures of steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from gaptrace.document.answers import each, rate
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
from gaptrace.quantity import COUNT, NS, SHARE, TRACED, UNPROFILED, Number, Quantity
from gaptrace.results.analysis import AnalysisResult, GapRow, PerToken, Phase, Piecewise
from gaptrace.vocabulary import (
    BUSY,
    BUSY_KINDS,
    CAUSES,
    HOST_CLASSES,
    IDLE,
    PHASES,
    RUN_METRICS,
    STEP_METRICS,
    Metric,
    Word,
)

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
    bars = tuple(_bars(result))
    if not bars:
        return
    if context.brief:
        # One screen: the step unprofiled and why the GPU idles, or the GPU and the host.
        bars = bars[:2]
    head, one = result.headline, each(result)
    notes: tuple[str, ...] = ()
    if not context.brief:
        if head.token_ns is not None:
            time = Quantity(head.token_ns, NS, head.basis)
            basis = "" if head.basis == UNPROFILED else " as profiled"
            yield Sentence((f"One {one} takes ", time, f"{basis}."), "lead")
        notes = (PARTS, *([BUSY_UNPROFILED] if bars[0].total is not None else []))
    title = f"Where a {one}'s time goes"
    yield Bars(f"{context.prefix}token-bars", title, bars, "host", notes=notes)
    kinds = tuple(_busy_kinds(result))
    if kinds:
        yield Sentence(kinds)
    if not context.brief:
        yield _parts(result, f"{context.prefix}token-parts")


def _traced(result: AnalysisResult) -> PerToken | Phase | None:
    """The traced parts of a token's time; of a step's where steps make no known tokens."""
    if result.per_token.busy_ns is not None or result.steps.tokens_per_step is not None:
        return result.per_token
    steps = result.steps
    own = [p for p in result.phases if p.phase == steps.phase and p.batch == steps.batch]
    return own[0] if own else None


def _bars(result: AnalysisResult) -> Iterator[Bar]:
    head, traced = result.headline, _traced(result)
    if traced is not None and traced.busy_ns is not None:
        busy = traced.busy_ns
        if head.basis == head.idle_basis == UNPROFILED and head.token_idle_ns is not None:
            # The profiler does not slow kernels: busy time is as traced.
            whole = ((BUSY, busy), (IDLE, head.token_idle_ns))
            parts = tuple(_segment(word, ns, UNPROFILED) for word, ns in whole)
            yield Bar("GPU", parts, duration(head.token_ns, UNPROFILED))
        idle = _segments(CAUSES, traced.idle_by_cause_ns)
        if not idle and traced.idle_ns:
            amount = Quantity(traced.idle_ns, NS, TRACED)
            idle = (Segment(IDLE.id, f"{IDLE.label}, causes withheld", amount),)
        yield Bar("GPU", (_segment(BUSY, busy, TRACED), *idle))
    host = _segments(HOST_CLASSES, result.per_token.host_time_ns)
    if host:
        yield Bar("host thread", host)


def _busy_kinds(result: AnalysisResult) -> Iterator[Inline]:
    """What keeps the device busy, where that is not computing alone."""
    kinds = result.steps.busy_by_kind_ns
    parts = [(word, ns) for key, word in BUSY_KINDS.items() if (ns := kinds.get(key))]
    if not any(word.id != "compute" for word, _ in parts):
        return
    for number, (word, ns) in enumerate(parts):
        yield ", " if number else "The GPU is busy with "
        yield Text(word.label, term=word.term, key=word.id)
        yield " "
        yield Quantity(ns, NS, TRACED)
    yield " per step."


def _segment(word: Word, ns: Number, basis: str) -> Segment:
    return Segment(word.id, word.label, Quantity(ns, NS, basis))


def _segments(words_: dict[str, Word], times: Mapping[str, Number | None]) -> tuple[Segment, ...]:
    """A segment for each part that takes any time, in the order of its vocabulary."""
    found = ((word, times.get(key)) for key, word in words_.items())
    return tuple(_segment(word, ns, TRACED) for word, ns in found if ns)


def _parts(result: AnalysisResult, anchor: str) -> Table:
    """The bars' numbers: idle by cause and host time by class."""
    token, traced = result.per_token, _traced(result) or result.per_token
    words_ = {"busy": BUSY, **HOST_CLASSES}
    gpu = {"busy": traced.busy_ns, **traced.idle_by_cause_ns}
    gpu_share = {"busy": token.busy_share, **token.idle_share_by_cause}
    keys = [key for key in words_ if gpu.get(key) or token.host_time_ns.get(key)]
    return table(
        anchor,
        f"medians of one {each(result)}",
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
    """One step in numbers: each figure with its own unit and basis; per token where they differ.

    Unprofiled figures come first; the traced ones stand below with their spread.
    """
    head, steps, c = result.headline, result.steps, result.ceilings
    several = steps.tokens_per_step not in (None, 1)
    rows = [_row(RUN_METRICS["tokens_per_s"], head.basis, (rate(result),))]
    if head.basis != TRACED:
        rows.append(_row(STEP_METRICS["period_ns"], head.basis, (head.step_ns,)))
        if head.idle_basis == head.basis:
            rows.append(_row(STEP_METRICS["idle_ns"], head.basis, (head.idle_ns,)))
    if c.host_dispatch_basis not in ("", TRACED):
        basis = c.host_dispatch_basis
        host = known(c.host_dispatch_ns, NS, basis, c.host_dispatch_bound)
        rows.append(_row(STEP_METRICS["host_dispatch_ns"], basis, (host,)))
    notes = []
    for metric in STEP_METRICS.values():
        own = tuple(getattr(part, metric.id) for part in (steps.median, steps.p5, steps.p95))
        if metric.id in ("copies", "memsets") and not own[2]:
            continue
        why = result.quality.why("steps", *_NAMES.get(metric.id, ()))
        if own[0] is None and why:
            notes.append(f"{metric.label} is withheld: {why}")
        token = (getattr(result.per_token, metric.id),) if several else ()
        rows.append(_row(metric, TRACED if metric.unit == NS else "", (*own, *token)))
    found = tuple(row for row in rows if row is not None)
    if steps.median.period_ns is None and not found:
        return
    labels = [("", ""), ("median", "median"), ("p5", "spread"), ("p95", "spread")]
    labels += [("per token", "per-token")] if several else []
    columns = tuple(Column(label, term, numeric=bool(label)) for label, term in labels)
    kept = tuple(
        msgspec.structs.replace(row, cells=(*row.cells, *[None] * 4)[: len(columns)])
        for row in found
    )
    anchor = f"{context.prefix}step-numbers"
    yield Table(anchor, "one step", columns, kept, len(kept), notes=tuple(notes))


def _row(metric: Metric, basis: str, values: tuple[Any, ...]) -> Row | None:
    """A figure's values in its own unit and basis; None where the first is not known."""
    if values[0] is None:
        return None
    cells = [v if isinstance(v, Quantity) else known(v, metric.unit, basis) for v in values]
    unit = values[0].unit if isinstance(values[0], Quantity) else metric.unit
    label = Text(metric.label, term=metric.term, key=metric.id)
    return Row((label, *cells), unit, basis, key=metric.id)


def phases(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """Steps of each phase and batch size with their own figures, where there are several."""
    if len(result.phases) < 2:
        return
    yield table(
        f"{context.prefix}phases-table",
        "medians of one step",
        result.phases,
        [
            words("phase", lambda p: PHASES[p.phase].label, "phase"),
            figures("batch", COUNT, lambda p: p.batch),
            figures("steps", COUNT, lambda p: p.steps, term="step"),
            figures("complete", COUNT, lambda p: p.complete, term="steps-complete"),
            figures("tokens", COUNT, lambda p: p.tokens_per_step, term="tokens-per-step"),
            figures("step", NS, lambda p: p.period_ns, TRACED, "period"),
            figures("busy", NS, lambda p: p.busy_ns, TRACED, "busy"),
            figures("idle", NS, lambda p: p.idle_ns, TRACED, "idle"),
            figures("idle share", SHARE, lambda p: p.idle_share, TRACED, "idle"),
            figures("kernels", COUNT, lambda p: p.kernels, term="kernel"),
            figures("launches", COUNT, lambda p: p.launches, term="launch-call"),
            words("largest cause", lambda p: _cause(p.idle_by_cause_ns), "cause", "cause"),
            figures("time in all", NS, lambda p: p.time_ns, TRACED),
        ],
    )


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
    analysis = context.analysis_of(result)
    if analysis is not None:
        # Pictures ask the trace, and need what reads it.
        from gaptrace.document.pictures import steps_chart

        yield from steps_chart(analysis, context)


def timeline(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """One step drawn true to scale with its gaps; without a trace the longest gaps alone."""
    twin = _gaps(result, f"{context.prefix}gaps")
    analysis = context.analysis_of(result)
    if analysis is not None:
        from gaptrace.document.pictures import timeline as drawn

        yield from drawn(analysis, result, context, twin)
    elif twin is not None:
        yield twin


def _gaps(result: AnalysisResult, anchor: str) -> Table | None:
    gaps = result.longest_gaps
    if not gaps:
        return None
    notes = ["of the counted steps"] if any(gap.step is not None for gap in gaps) else []
    return gap_table(gaps, anchor, result.quality.why("causes"), notes)


def gap_table(
    gaps: Sequence[GapRow], anchor: str, why: str = "", notes: Sequence[str] = ()
) -> Table:
    """Gaps with their largest cause and both neighbours. why: causes are withheld, if they are."""
    return table(
        anchor,
        "longest gaps",
        gaps,
        [
            figures("", NS, lambda g: g.dur_ns, TRACED, "gap"),
            figures("at", NS, lambda g: g.start_ns, TRACED, "time"),
            figures("step", COUNT, lambda g: g.step, term="step"),
            words("cause", lambda g: "withheld" if why else _cause(g.cause_ns), "cause", "cause"),
            words("after", lambda g: name(g.before)),
            words("before", lambda g: name(g.after)),
        ],
        notes=[*notes, *([f"causes are withheld: {why}"] if why else [])],
        key=lambda g: f"gap:{g.gap}",
    )


def _cause(times: Mapping[str, Number | None]) -> Text | None:
    """The cause of most of an idle time, and how many more it has."""
    parts = {key: ns for key in CAUSES if (ns := times.get(key))}
    if not parts:
        return None
    largest = CAUSES[max(parts, key=lambda key: parts[key])]
    more = f" +{len(parts) - 1}" if len(parts) > 1 else ""
    return Text(f"{largest.label}{more}", term=largest.term, key=largest.id)
