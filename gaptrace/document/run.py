"""The document of a run: its modes side by side, what each cost to start, then mode by mode."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple, TypeVar

import msgspec

from gaptrace import quantity as q
from gaptrace.document import tables as t
from gaptrace.document.analysis import analysis_document
from gaptrace.document.answers import run_answer
from gaptrace.document.blocks import Block, Document, Inline, Note, Sentence, Text
from gaptrace.document.build import builder
from gaptrace.document.capture import MEASURED_UNDER, square_blocks
from gaptrace.document.findings import gain
from gaptrace.document.sections import RUN, Context, notes, section, whole
from gaptrace.document.trust import verdict_text
from gaptrace.results.analysis import AnalysisResult
from gaptrace.results.manifest import Choice, Pieces, Prepared
from gaptrace.results.run import ModeRow, RunResult, SeamPrice, TuningGain
from gaptrace.units import counted

T = TypeVar("T")
PER_STEP = "all per step; ≤ where only an upper bound is known"
CHOICES_SHOWN = 12


def of_modes(
    result: RunResult, of: Callable[[AnalysisResult], T | None]
) -> Iterator[tuple[str, T]]:
    """What the analysis of each mode has of something, where it has it."""
    for row in result.modes:
        analysis = result.analysis(row.mode)
        found = None if analysis is None else of(analysis)
        if found is not None:
            yield row.mode, found


@section(RUN, "recording", "Recording", brief=True)
def recording(result: RunResult, context: Context) -> Iterator[Block]:
    """What a step of the run reads, and whether the recording is whole."""
    limits = next((c.analysis.ceilings for c in result.cells if c.analysis is not None), None)
    if limits is not None:
        weights = t.known(limits.weight_bytes, q.BYTES)
        yield t.facts(
            t.fact("weights", weights, " per step", term="weight-bytes"),
            t.fact("", t.known(limits.bits_per_weight, q.BITS), " per weight"),
            line=True,
        )
    if result.missing:
        text = f"stopped before it was complete; missing: {', '.join(result.missing)}"
        yield Note((text,), "limited")


@section(RUN, "ranks", "Ranks", brief=True)
def ranks(result: RunResult, context: Context) -> Iterator[Block]:
    """Which ranks there are, and the unprofiled step of each; nothing where there was one."""
    if not result.ranks:
        return
    numbers = sorted({row.rank for row in result.ranks})
    shown = ", ".join(str(rank) for rank in numbers)
    other = next(row.path for row in result.ranks if row.rank == numbers[-1])
    text = f"ranks {shown} were recorded; what follows is rank {numbers[0]}. Another by itself: "
    yield Note((text, Text(f"gaptrace analyze {shlex.quote(other)}", "code")))
    columns = (
        t.words("mode", lambda row: Text(f"{row.mode}/{row.repeat}"), "mode"),
        t.words("rank", lambda row: Text(str(row.rank))),
        t.times("step", "step_ns", q.UNPROFILED, "period"),
        t.words("", lambda row: Text(row.reason or "")),
    )
    yield t.table("ranks", "ranks", result.ranks, columns, shown=t.ALL)


@section(RUN, "recordings", "Modes side by side", brief=True)
def modes(result: RunResult, context: Context) -> Iterator[Block]:
    """The modes in one table: one basis a column, the repeat of median step time a row."""
    rows = result.modes
    notes = [PER_STEP]
    if any(row.basis == q.TRACED for row in rows):
        notes.append(f"as profiled: {MEASURED_UNDER}")
    notes += [_remark(row) for row in rows if _remark(row)]

    def step(row: ModeRow) -> q.Quantity | None:
        return t.duration(row.step_ns, row.basis)

    def rate(row: ModeRow) -> q.Quantity | None:
        return t.known(row.tokens_per_s, q.TOKENS_PER_S, row.basis)

    def idle(row: ModeRow) -> q.Quantity | None:
        return t.known(row.idle_share, q.SHARE, row.idle_basis)

    def host(row: ModeRow) -> q.Quantity | None:
        return t.known(row.host_dispatch_ns, q.NS, row.host_basis, row.host_bound)

    columns = (
        t.words("mode", _mode, "mode", "mode"),
        *t.by_basis("step", q.NS, step, rows, "period"),
        *t.by_basis("rate", q.TOKENS_PER_S, rate, rows, "tokens-per-s"),
        t.figures("spread ±", q.SHARE, "spread", term="spread"),
        *t.by_basis("GPU idle", q.SHARE, idle, rows, "idle"),
        t.counts("kernels", "kernels", "kernel"),
        t.counts("launches", "launches", "launch-call"),
        *t.by_basis("host", q.NS, host, rows, "host-dispatch"),
        t.words("limited by", "binding", "binding-ceiling"),
        t.words("trace", _verdict, "verdict"),
    )
    yield t.table(
        "modes", "", rows, columns, shown=t.ALL, notes=notes, weak=lambda r: r.step_ns is None,
        key="mode",
    )  # fmt: skip


def _mode(row: ModeRow) -> Text:
    return Text(row.mode, "strong" if row.fastest else "plain", key=row.mode, target=row.mode)


def _verdict(row: ModeRow) -> Text:
    return Text(row.status.replace("_", " ")) if row.verdict is None else verdict_text(row.verdict)


def _remark(row: ModeRow) -> str:
    """What is to be said about a mode beside its figures."""
    found = [row.reason] if row.reason else []
    if row.as_fast_as_best:
        found.append("as fast as the fastest within the spread of the repeats")
    if row.repeats > 1:
        found.append(f"median of {row.repeats} repeats")
    found += row.notes
    return f"{row.mode}: {'; '.join(found)}" if found else ""


@section(RUN, "modes", "What would help")
def square(result: RunResult, context: Context) -> Iterator[Block]:
    """The 2x2 of the modes, with what was not recorded as predicted."""
    yield from square_blocks(result.square)


@section(RUN, "findings", "Largest finding of each mode", brief=True)
def findings(result: RunResult, context: Context) -> Iterator[Block]:
    """The largest finding of each mode."""
    largest = of_modes(result, lambda analysis: next(iter(analysis.findings), None))
    columns = (
        t.words("finding", lambda f: Text(f.id, "code", term="finding-id")),
        t.words("what", "title"),
        t.times(
            "up to, per token",
            lambda f: gain(f) if f.ceiling_ns_per_token > 0 else None,
            term="finding-ceiling",
        ),
    )
    yield t.mode_table("largest-findings", "largest finding", largest, columns, shown=t.ALL)


STARTS = (
    t.times("cold", "cold_ns", term="cold-start"),
    t.times("warm", "warm_ns", term="start-up"),
    t.times("partly warm", "partly_ns"),
    t.times("nothing to cache", "uncached_ns"),
)
START_PARTS = (
    t.times("compile", "compile_ns", term="compile"),
    t.times("autotune", "autotune_ns", term="autotune"),
    t.times("capture", "capture_ns", term="capture"),
)


@section(RUN, "start-up", "Start-up")
def start_up(result: RunResult, context: Context) -> Iterator[Block]:
    """How long each mode takes until it is ready, with a cold and a warm compile cache."""
    columns = (*STARTS, *START_PARTS, t.counts("starts", "starts"))
    yield t.mode_table("starts", "start-up", result.startup.items(), columns, shown=t.ALL)


@section(RUN, "pieces", "Pieces")
def pieces(result: RunResult, context: Context) -> Iterator[Block]:
    """Modes that replay several graphs: their gaps between pieces and what those cost."""
    found = of_modes(result, lambda analysis: analysis.piecewise)
    columns = (
        t.counts("replays", "replays", "graph-replay"),
        t.counts("gaps between pieces", "seams", "seam"),
        t.counts("kernels in them", "kernels", "kernel"),
        t.times("idle", "idle_ns", q.TRACED, "seam-idle"),
        t.times("each", "idle_per_seam_ns", q.TRACED),
        t.figures("of the step", q.SHARE, "share", q.TRACED, "seam-share"),
    )
    notes = ("idle of all gaps between pieces of a step; each is their mean",)
    yield t.mode_table("pieces-table", "gaps between graph pieces", found, columns, notes=notes)
    for price in result.seam_prices:
        yield Sentence(_price(price))
    for mode, recorded in result.recorded.items():
        if recorded.piecewise is not None and recorded.piecewise.pieces is not None:
            yield Sentence(_recorded_pieces(mode, recorded.piecewise))


def _price(price: SeamPrice) -> tuple[Inline, ...]:
    step = None if price.change_ns is None else q.change(price.change_ns, q.NS, q.UNPROFILED)
    return (
        f"{price.mode} against {price.whole}, unprofiled: ",
        *t.given(step, " per step over "),
        q.Quantity(price.seams, q.COUNT), " gaps between pieces, ",
        q.change(price.per_seam_ns, q.NS, q.UNPROFILED), " each.",
        "" if price.beyond else " That is within the spread of the repeats.",
    )  # fmt: skip


def _recorded_pieces(mode: str, found: Pieces) -> tuple[Inline, ...]:
    """What the recorder says about a mode's pieces: where it was split, what it copies."""
    inputs = found.copied_inputs
    copied = t.known(found.copied_bytes or None, q.BYTES)
    pool = t.known(found.pool_bytes or None, q.BYTES)
    return (
        f"{mode}: ", q.Quantity(found.pieces, q.COUNT), " pieces",
        *t.given(", ", t.known(found.captured, q.COUNT), " captured"),
        f", split at {', '.join(found.split_at)}" if found.split_at else "",
        *t.given("; ", copied, " copied into static inputs each step"),
        f" ({counted(len(inputs), 'input')})" if copied is not None and inputs is not None else "",
        *t.given("; graphs hold ", pool),
        f". {found.note}" if found.note else ".",
    )  # fmt: skip


class _Bucket(NamedTuple):
    size: int
    step_ns: q.Number | None
    prepared: Prepared


@section(RUN, "buckets", "Buckets")
def buckets(result: RunResult, context: Context) -> Iterator[Block]:
    """The lengths that modes were prepared for: their step, and what preparing each cost."""
    columns = (
        t.counts("length", "size", "bucket"),
        t.times("step", "step_ns", q.UNPROFILED, "period"),
        t.times("first call", "prepared.first_call_ns"),
        t.times("compile", lambda it: t.seconds(it.prepared.compile_seconds)),
        t.times("capture", "prepared.capture_ns", term="capture"),
        t.figures("memory", q.BYTES, "prepared.memory_bytes", term="peak-memory"),
    )
    yield t.mode_table("buckets-table", "buckets", _buckets(result), columns, shown=t.ALL)
    for mode, recorded in result.recorded.items():
        share = t.known((recorded.buckets and recorded.buckets.padding_share) or None, q.SHARE)
        if share is not None:
            yield Sentence((f"{mode}: ", share, " of the positions read are padding."))


def _buckets(result: RunResult) -> Iterator[tuple[str, _Bucket]]:
    for mode, recorded in result.recorded.items():
        if (found := recorded.buckets) is None:
            continue
        prepared = {item.size: item for item in found.prepared or ()}
        for size in found.sizes or ():
            step = (found.median_ns or {}).get(str(size))
            if size in prepared or step is not None:
                yield mode, _Bucket(size, step, prepared.get(size, Prepared()))


@section(RUN, "autotuning", "Autotuning")
def autotuning(result: RunResult, context: Context) -> Iterator[Block]:
    """What autotuning chose, what it cost, and when that is earned back."""
    choices = [
        (mode, choice)
        for mode, recorded in result.recorded.items()
        for choice in (recorded.autotune and recorded.autotune.choices) or ()
    ]
    columns = (
        t.words("product", _product),
        t.names("chosen", "chosen", "autotune"),
        t.words("kind", "kind"),
        t.times("time", "ns"),
        t.times("best library call", "best_extern_ns"),
        t.counts("of", "candidates"),
    )
    yield t.mode_table("choices", "matrix products", choices, columns, shown=CHOICES_SHOWN)
    for mode in result.recorded:
        for parts in _tuning_words(result, mode):
            yield Sentence((f"{mode}: ", *parts))
    if result.autotuning is not None:
        yield Sentence(_earned_back(result.autotuning))


def _product(choice: Choice) -> str:
    shapes = [s for s in choice.shapes or () if isinstance(s, (list, tuple))]
    sizes = " by ".join("×".join(str(n) for n in shape) for shape in shapes)
    return f"{choice.op or ''} {sizes}".strip()


def _tuning_words(result: RunResult, mode: str) -> Iterator[tuple[Inline, ...]]:
    recorded, analysis = result.recorded[mode], result.analysis(mode)
    found, counts = recorded.autotune, recorded.tuned
    if found is None:
        return
    if found.skipped:
        yield (f"nothing was tuned: {found.skipped}",)
    if counts is not None and counts.products:
        kinds = ", ".join(f"{kind} {n}" for kind, n in counts.by_kind.items())
        yield (f"{counted(counts.products, 'product')} tuned: {kinds}",)
    if counts is not None and counts.templates:
        yield (
            f"{counted(counts.templates, 'template kernel')}, ",
            q.Quantity(counts.prologues, q.COUNT), " with a prologue and ",
            q.Quantity(counts.epilogues, q.COUNT), " with an epilogue",
        )  # fmt: skip
    if found.note:
        yield (found.note,)
    for item in analysis.findings if analysis is not None else ():
        if item.id == "GT409":
            yield (Text(item.id, "code"), f" {item.title}")


def _earned_back(tuned: TuningGain) -> tuple[Inline, ...]:
    cost = t.duration(tuned.cost_ns) or q.Quantity(None, q.NS, reason="a time not recorded")
    saved = t.duration(tuned.saved_ns_per_token, q.UNPROFILED)
    tokens = t.known(tuned.break_even_tokens, q.COUNT)
    head = (Text("Tuning", term="autotune"), " took ", cost, f" ({tuned.source})")
    if tokens is None or saved is None:
        return (*head, f"; no break-even: {tuned.reason}.")
    text = f" per token against {tuned.against}: earned back after "
    return (*head, " and saves ", saved, text, tokens, " tokens.")


@section(RUN, "graph-trees", "Graph trees")
def graph_trees(result: RunResult, context: Context) -> Iterator[Block]:
    """What torch's CUDA-graph trees did in each mode."""
    found = ((mode, recorded.cudagraph_trees) for mode, recorded in result.recorded.items())
    columns = (
        t.counts("recorded", "recordings", "graph-replay"),
        t.counts("recorded again", "rerecordings"),
        t.counts("partitions", "partitions"),
        t.counts("given up", "skips"),
    )
    yield t.mode_table("trees", "graphs", (row for row in found if row[1] is not None), columns)


section(RUN, "notes", "Notes", brief=True)(notes)


@section(RUN, "next", "Next", brief=True)
def commands(result: RunResult, context: Context) -> Iterator[Block]:
    """What to type next; nothing where no mode has a recording that can be used."""
    usable = [
        c
        for c in result.cells
        if c.analysis is not None and c.analysis.quality.verdict != "refused"
    ]
    if not usable:
        return
    cell = next((c for c in usable if c.mode == result.fastest), usable[0])
    full = [f"gaptrace analyze {shlex.quote(result.path)} --full"] if context.brief else []
    one = [f"gaptrace analyze {shlex.quote(cell.path)}"] if cell.path else []
    yield Note((), "next", commands=(*full, *one))


@builder(RunResult)
def run_document(result: RunResult, context: Context) -> Document:
    """Everything that is said about a run; in full with the document of each mode."""
    found = whole(RUN, result, context, result.name, run_answer(result), result.facts)
    parts = () if context.brief else tuple(_parts(result, context))
    return msgspec.structs.replace(found, parts=parts)


def _parts(result: RunResult, context: Context) -> Iterator[Document]:
    for mode, analysis in of_modes(result, lambda analysis: analysis):
        inner = replace(context, prefix=f"{context.prefix}{mode}-")
        yield msgspec.structs.replace(analysis_document(analysis, inner), title=mode)
