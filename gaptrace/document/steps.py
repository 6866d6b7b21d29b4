"""Where a token's time goes, one step in numbers, the longest gaps, and the pictures of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gaptrace import quantity as q
from gaptrace import vocabulary as v
from gaptrace.document import blocks as b
from gaptrace.document import tables as t
from gaptrace.document.answers import each, rate
from gaptrace.document.sections import Context
from gaptrace.knowledge.short_names import frame_name
from gaptrace.results.analysis import AnalysisResult, GapRow, PerToken, Phase, Piecewise
from gaptrace.results.gaps import HostWork

PARTS = "parts are medians, so that they need not add up to the median step"
BUSY_UNPROFILED = "unprofiled: busy time as traced, since the profiler does not slow kernels"
GAPS_IN_PIECES = (
    "of one gap between pieces, times as profiled; idle is the mean, the others are medians"
)
KINDS_SHOWN = 4
NO_FRAMES = (
    "no Python stacks were recorded, so Python time has no function names and no lines "
    "(collect --stacks)"
)
# What a reason must withhold for a figure to be gone with it.
_NAMES = {
    "busy_ns": ("busy",),
    "idle_ns": ("idle",),
    "kernels": ("kernels",),
    "launches": ("launches",),
    "host_dispatch_ns": ("host_dispatch", "host"),
}
Times = Mapping[str, q.Number | None]


def token_time(result: AnalysisResult, context: Context) -> Iterator[b.Block]:
    """Where a token's time goes: the GPU by cause, the host by class, and both as a table."""
    bars = tuple(_bars(result))
    head, one = result.headline, each(result)
    title = f"Where a {one}'s time goes"
    if not bars:
        return
    if context.brief:
        # One screen: the step unprofiled and why the GPU idles, or the GPU and the host.
        yield b.Bars("token-bars", title, bars[:2], "host")
        yield from _busy_kinds(result)
        yield from _largest_work(result)
        return
    if head.token_ns is not None:
        basis = {q.TRACED: " as profiled", q.GIVEN: ", as given"}.get(head.basis, "")
        time = q.Quantity(head.token_ns, q.NS, head.basis)
        yield b.Sentence((f"One {one} takes ", time, f"{basis}."), "lead")
    notes = (PARTS, BUSY_UNPROFILED) if bars[0].total is not None else (PARTS,)
    yield b.Bars("token-bars", title, bars, "host", notes=notes)
    yield from _busy_kinds(result)
    yield _parts(result)


def _traced(result: AnalysisResult) -> PerToken | Phase | None:
    """The traced parts of a token's time; of a step's where steps make no known tokens."""
    if result.per_token.busy_ns is not None or result.steps.tokens_per_step is not None:
        return result.per_token
    steps = result.steps
    own = (p for p in result.phases if p.phase == steps.phase and p.batch == steps.batch)
    return next(own, None)


def _bars(result: AnalysisResult) -> Iterator[b.Bar]:
    head, traced = result.headline, _traced(result)
    if traced is not None and traced.busy_ns is not None:
        busy = traced.busy_ns
        if head.basis == head.idle_basis != q.TRACED and head.token_idle_ns is not None:
            # The profiler does not slow kernels: busy time is as traced.
            whole = ((v.BUSY, busy), (v.IDLE, head.token_idle_ns))
            parts = tuple(_segment(word, ns, head.basis) for word, ns in whole)
            yield b.Bar("GPU", parts, t.duration(head.token_ns, head.basis))
        idle = _segments(v.CAUSES, traced.idle_by_cause_ns)
        if not idle and traced.idle_ns:
            amount = q.Quantity(traced.idle_ns, q.NS, q.TRACED)
            idle = (b.Segment(v.IDLE.id, f"{v.IDLE.label}, causes withheld", amount),)
        yield b.Bar("GPU", (_segment(v.BUSY, busy, q.TRACED), *idle))
    if host := _segments(v.HOST_CLASSES, result.per_token.host_time_ns):
        yield b.Bar("host thread", host)


def _busy_kinds(result: AnalysisResult) -> Iterator[b.Block]:
    """What keeps the device busy, where that is not computing alone."""
    kinds = result.steps.busy_by_kind_ns
    found = [(word, ns) for key, word in v.BUSY_KINDS.items() if (ns := kinds.get(key))]
    if all(word.id == "compute" for word, _ in found):
        return
    parts: list[b.Inline] = []
    for word, ns in found:
        label = b.Text(word.label, term=word.term, key=word.id)
        parts += [", ", label, " ", q.Quantity(ns, q.NS, q.TRACED)]
    yield b.Sentence(("The GPU is busy with ", *parts[1:], " per step."))


# What the host did is told on the first screen where it is this much of the idle time.
NAMED_SHARE = 0.1


def _largest_work(result: AnalysisResult) -> Iterator[b.Block]:
    """The one function, op or call that the GPU waits for longest, where that is no detail."""
    found = None if result.findings else result.idle_work  # the first of these names it
    named = [work for work in found.parts if work.name] if found else []
    if not named or (named[0].share or 0) < NAMED_SHARE:
        return
    where = called_from(named[0])
    yield b.Sentence(
        (
            "The GPU waits longest for ", work_name(named[0]),
            *t.given(", called from ", where), ": ",
            q.Quantity(named[0].ns, q.NS, q.TRACED), f" per {each(result)} as profiled.",
        )
    )  # fmt: skip


def _segment(word: v.Word, ns: q.Number, basis: str) -> b.Segment:
    return b.Segment(word.id, word.label, q.Quantity(ns, q.NS, basis))


def _segments(words: dict[str, v.Word], times: Times) -> tuple[b.Segment, ...]:
    """A segment for each part that takes any time, in the order of its vocabulary."""
    found = ((word, times.get(key)) for key, word in words.items())
    return tuple(_segment(word, ns, q.TRACED) for word, ns in found if ns)


def _parts(result: AnalysisResult) -> b.Table:
    """The bars' numbers: idle by cause and host time by class."""
    token, traced = result.per_token, _traced(result) or result.per_token
    words = {"busy": v.BUSY, **v.HOST_CLASSES}
    gpu = {"busy": traced.busy_ns, **traced.idle_by_cause_ns}
    shares = {"busy": token.busy_share, **token.idle_share_by_cause}
    keys = [key for key in words if gpu.get(key) or token.host_time_ns.get(key)]

    def of(values: Times) -> Callable[[str], q.Number | None]:
        return lambda key: values.get(key) or None

    columns = (
        t.words("part", lambda k: b.Text(words[k].label, term=words[k].term, key=k), look="host"),
        t.times("GPU", of(gpu), q.TRACED, "idle-per-token"),
        t.figures("of the step", q.SHARE, of(shares), q.TRACED),
        t.times("host", of(token.host_time_ns), q.TRACED, "host-time"),
        t.figures("of the step", q.SHARE, of(token.host_share), q.TRACED),
    )
    title = f"medians of one {each(result)}"
    return t.table("token-parts", title, keys, columns, shown=len(keys), key=str)


def step_numbers(result: AnalysisResult, context: Context) -> Iterator[b.Block]:
    """One step in numbers: each figure with its own unit and basis; per token where they differ.

    Unprofiled figures come first; the traced ones stand below with their spread.
    """
    head, steps, c = result.headline, result.steps, result.ceilings
    several = steps.tokens_per_step not in (None, 1)
    columns = _NUMBERS if several else _NUMBERS[:-1]
    found: list[tuple[v.Metric, str, Any]] = [
        (v.RUN_METRICS["tokens_per_s"], head.basis, rate(result))
    ]
    if head.basis != q.TRACED:
        found.append((v.STEP_METRICS["period_ns"], head.basis, head.step_ns))
        if head.idle_basis == head.basis:
            found.append((v.STEP_METRICS["idle_ns"], head.basis, head.idle_ns))
    if (basis := c.host_dispatch_basis) not in ("", q.TRACED):
        host = t.known(c.host_dispatch_ns, q.NS, basis, c.host_dispatch_bound)
        found.append((v.STEP_METRICS["host_dispatch_ns"], basis, host))
    found += _predicted(result)
    rows = [_row(len(columns), *figure) for figure in found]
    notes = []
    if result.rate.predicted is not None and result.rate.predicted.why and head.basis == q.TRACED:
        notes.append(f"no step without the profiler is predicted: {result.rate.predicted.why}")
    for key, metric in v.STEP_METRICS.items():
        own = [getattr(part, key) for part in (steps.median, steps.p5, steps.p95)]
        if key in ("copies", "memsets") and not own[2]:
            continue
        why = result.quality.why("steps", *_NAMES.get(key, ()))
        if own[0] is None and why:
            notes.append(f"{metric.label} is withheld: {why}")
        token = getattr(result.per_token, key)
        rows.append(
            _row(len(columns), metric, q.TRACED if metric.unit == q.NS else "", *own, token)
        )
    shown = tuple(row for row in rows if row is not None)
    yield b.Table("step-numbers", "one step", columns, shown, t.ALL, notes=tuple(notes))


def _predicted(result: AnalysisResult) -> Iterator[tuple[v.Metric, str, Any]]:
    """Rate, period and idle time of a step without the profiler, as predicted, with ranges."""
    found = result.rate.predicted
    if found is None or found.step_ns is None or found.range_ns is None:
        return
    if found.tokens_per_s is not None and found.tokens_per_s_range is not None:
        speed = q.ranged(found.tokens_per_s, *found.tokens_per_s_range, q.TOKENS_PER_S)
        yield v.RUN_METRICS["tokens_per_s"], q.PREDICTED, speed
    step = q.ranged(found.step_ns, *found.range_ns, q.NS)
    yield v.STEP_METRICS["period_ns"], q.PREDICTED, step
    if found.idle_ns is not None and found.idle_range_ns is not None:
        idle = q.ranged(found.idle_ns, *found.idle_range_ns, q.NS)
        yield v.STEP_METRICS["idle_ns"], q.PREDICTED, idle


_NUMBERS = (
    b.Column(""),
    b.Column("median", "median", numeric=True),
    b.Column("p5", "spread", numeric=True),
    b.Column("p95", "spread", numeric=True),
    b.Column("per token", "per-token", numeric=True),
)


def _row(width: int, metric: v.Metric, basis: str, *values: Any) -> b.Row | None:
    """A figure's values in its own unit and basis; None where the first is not known."""
    first = values[0]
    if first is None:
        return None
    cells = (v if isinstance(v, q.Quantity) else t.known(v, metric.unit, basis) for v in values)
    unit = first.unit if isinstance(first, q.Quantity) else metric.unit
    label = b.Text(metric.label, term=metric.term, key=metric.id)
    return b.Row((label, *cells, None, None, None)[:width], unit, basis, key=metric.id)


def phases(result: AnalysisResult, context: Context) -> Iterator[b.Block]:
    """Steps of each phase and batch size with their own figures, where there are several."""
    if len(result.phases) < 2:
        return
    columns = (
        t.words("phase", lambda p: v.PHASES[p.phase].label, "phase"),
        t.counts("batch", "batch"),
        t.counts("steps", "steps", "step"),
        t.counts("complete", "complete", "steps-complete"),
        t.counts("tokens", "tokens_per_step", "tokens-per-step"),
        t.times("step", "period_ns", q.TRACED, "period"),
        t.times("busy", "busy_ns", q.TRACED, "busy"),
        t.times("idle", "idle_ns", q.TRACED, "idle"),
        t.figures("idle share", q.SHARE, "idle_share", q.TRACED, "idle"),
        t.counts("kernels", "kernels", "kernel"),
        t.counts("launches", "launches", "launch-call"),
        causes("largest cause", lambda p: p.idle_by_cause_ns),
        t.times("time in all", "time_ns", q.TRACED),
    )
    yield t.table("phases-table", "medians of one step", result.phases, columns)


def pieces(result: AnalysisResult, context: Context) -> Iterator[b.Block]:
    """The pieces of a step that replays several graphs, and the gaps between them."""
    found = result.piecewise
    if found is None:
        return
    columns = (
        t.names("work", lambda k: ", ".join(w.removeprefix("aten::") for w in k.work), "seam"),
        t.counts("per step", "per_step"),
        t.counts("kernels", "kernels", "kernel"),
        t.times("idle", "idle_mean_ns", q.TRACED, "seam-idle"),
        t.times("busy", "busy_ns", q.TRACED, "busy"),
        t.times("host", "host_ns", q.TRACED, "host-time"),
    )
    title, notes = "gaps between pieces, by the work in them", (GAPS_IN_PIECES,)
    yield b.Sentence(_piece_words(found))
    yield t.table("seams", title, found.kinds, columns, shown=KINDS_SHOWN, notes=notes)


def _piece_words(found: Piecewise) -> tuple[b.Inline, ...]:
    """The pieces of one recording in a sentence."""
    idle, each_idle = (t.duration(ns, q.TRACED) for ns in (found.idle_ns, found.idle_per_seam_ns))
    counted = f". No decode step was counted: read from {found.of}."
    return (
        b.Text("Pieces", term="piece"), ": ",
        q.Quantity(found.replays, q.COUNT), " graph replays per step",
        *t.given(" of ", t.known(found.pieces, q.COUNT), " graphs"), "; ",
        q.Quantity(found.seams, q.COUNT), " gaps between pieces, ",
        q.Quantity(found.with_work, q.COUNT), " of them launch work (",
        q.Quantity(found.kernels, q.COUNT), " kernels, ",
        q.Quantity(found.launches, q.COUNT), " launch calls)",
        *t.given("; idle in them, as profiled, ", idle, " per step"),
        *t.given(" (", t.known(found.share, q.SHARE, q.TRACED), ")"),
        *t.given(", a mean of ", each_idle, " each"),
        "." if found.of == "decode steps" else counted,
    )  # fmt: skip


def steps_picture(result: AnalysisResult, context: Context) -> Iterator[b.Block]:
    """The steps side by side; nothing where no trace is behind the result."""
    analysis = context.analysis_of(result)
    if analysis is not None:
        # Pictures ask the trace, and need what reads it.
        from gaptrace.document.pictures import steps_chart

        yield from steps_chart(analysis, context)


def timeline(result: AnalysisResult, context: Context) -> Iterator[b.Block]:
    """One step drawn true to scale with its gaps; without a trace the longest gaps alone."""
    notes = ["of the counted steps"] if any(g.step is not None for g in result.longest_gaps) else []
    twin = gap_table(result.longest_gaps, "gaps", result.quality.why("causes"), notes)
    analysis = context.analysis_of(result)
    if analysis is None:
        yield twin
        return
    from gaptrace.document.pictures import timeline as drawn

    yield from drawn(analysis, result, context, twin)


def gap_table(
    gaps: Sequence[GapRow], anchor: str, why: str = "", notes: Sequence[str] = ()
) -> b.Table:
    """Gaps with their largest cause and both neighbours. why: causes are withheld, if they are."""
    columns = (
        t.times("", "dur_ns", q.TRACED, "gap"),
        t.times("at", "start_ns", q.TRACED, "time"),
        t.counts("step", "step", "step"),
        causes("cause", lambda g: g.cause_ns, why),
        *host_did(),
        t.names("after", "before"),
        t.names("before", "after"),
    )
    notes = (*notes, *withheld(why))
    return t.table(anchor, "longest gaps", gaps, columns, notes=notes, key=lambda g: f"gap:{g.gap}")


def host_did(share: str = "of the gap") -> tuple[t.Col, t.Col]:
    """Columns of what the host did for most of the time in which the GPU waited for it.

    The rows have it in `host`, the largest part first.
    """

    def name(row: Any) -> b.Text | None:
        return work_name(row.host[0]) if row.host else None

    def part(row: Any) -> q.Number | None:
        return row.host[0].share if row.host else None

    return (
        t.words("host did", name, "host-work"),
        t.figures(share, q.SHARE, part, "", "host-work"),
    )


def work_name(work: HostWork) -> b.Text:
    """What the host did, by name; the program's line where the name alone says too little."""
    if not work.name:
        line = f", in {frame_name(work.where)}" if work.where else ""
        return b.Text(f"{work.kind}{line}", full=work.where)
    full = f"{work.name} in {work.where}" if work.where else work.name
    return b.Text(frame_name(work.name), "name", full)


def called_from(work: HostWork) -> b.Text | None:
    """The line of the program that the host's work was done for."""
    return t.name(frame_name(work.where), work.where) if work.where else None


def withheld(why: str) -> tuple[str, ...]:
    """A note that causes are withheld, if they are."""
    return (f"causes are withheld: {why}",) if why else ()


def causes(label: str, times: Callable[[Any], Times], why: str = "") -> t.Col:
    """A column of the cause of most of an idle time, and how many more it has."""
    gone = b.Text("withheld", term="withheld")
    return t.words(label, lambda row: gone if why else _cause(times(row)), "cause", "cause")


def _cause(times: Times) -> b.Text | None:
    parts = {key: ns for key in v.CAUSES if (ns := times.get(key))}
    if not parts:
        return None
    more = f" +{len(parts) - 1}" if len(parts) > 1 else ""
    return cause_name(max(parts, key=lambda key: parts[key]), more)


def cause_name(cause: str, more: str = "") -> b.Text:
    """A cause in words."""
    word = v.CAUSES[cause]
    return b.Text(f"{word.label}{more}", term=word.term, key=word.id)
