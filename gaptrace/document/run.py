"""The document of a run: its modes side by side, what each cost to start, then mode by mode."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import msgspec

from gaptrace import quantity as q
from gaptrace.document import tables as t
from gaptrace.document.analysis import analysis_document
from gaptrace.document.answers import run_answer
from gaptrace.document.blocks import Block, Document, Facts, Inline, Note, Sentence, Text
from gaptrace.document.build import builder
from gaptrace.document.capture import MEASURED_UNDER, square_blocks
from gaptrace.document.findings import gain
from gaptrace.document.sections import RUN, Context, build, section
from gaptrace.results.manifest import Choice, Pieces, Prepared
from gaptrace.results.run import ModeRow, RunResult, SeamPrice
from gaptrace.units import counted
from gaptrace.vocabulary import VERDICTS

PER_STEP = "all per step; ≤ where only an upper bound is known"
CHOICES_SHOWN = 12


@section(RUN, "recording", "Recording", brief=True)
def recording(result: RunResult, context: Context) -> Iterator[Block]:
    """What a step of the run reads, and whether the recording is whole."""
    limits = next((c.analysis.ceilings for c in result.cells if c.analysis is not None), None)
    if limits is not None:
        facts = t.facts_of(
            t.fact(
                "weights", t.known(limits.weight_bytes, q.BYTES), " per step", term="weight-bytes"
            ),
            t.fact("", t.known(limits.bits_per_weight, q.BITS), " per weight"),
        )
        if facts:
            yield Facts(facts, line=True)
    if result.missing:
        text = f"stopped before it was complete; missing: {', '.join(result.missing)}"
        yield Note((text,), "limited")


@section(RUN, "recordings", "Modes side by side", brief=True)
def modes(result: RunResult, context: Context) -> Iterator[Block]:
    """The modes in one table: one basis a column, the repeat of median step time a row."""
    rows = result.modes
    notes = [PER_STEP]
    if any(row.basis == q.TRACED for row in rows):
        notes.append(f"as profiled: {MEASURED_UNDER}")
    notes += [_remark(row) for row in rows if _remark(row)]

    def idle(row: ModeRow) -> q.Quantity | None:
        return t.known(row.idle_share, q.SHARE, row.idle_basis)

    def host(row: ModeRow) -> q.Quantity | None:
        return t.known(row.host_dispatch_ns, q.NS, row.host_basis, row.host_bound)

    yield t.table(
        f"{context.prefix}modes",
        "",
        rows,
        [
            t.words("mode", _mode, "mode", "mode"),
            *t.by_basis("step", q.NS, lambda r: t.known(r.step_ns, q.NS, r.basis), rows, "period"),
            *t.by_basis(
                "rate",
                q.TOKENS_PER_S,
                lambda r: t.known(r.tokens_per_s, q.TOKENS_PER_S, r.basis),
                rows,
                "tokens-per-s",
            ),
            t.figures("spread ±", q.SHARE, lambda r: r.spread, term="spread"),
            *t.by_basis("GPU idle", q.SHARE, idle, rows, "idle"),
            t.figures("kernels", q.COUNT, lambda r: r.kernels, term="kernel"),
            t.figures("launches", q.COUNT, lambda r: r.launches, term="launch-call"),
            *t.by_basis("host", q.NS, host, rows, "host-dispatch"),
            t.words("limited by", lambda r: r.binding, "binding-ceiling"),
            t.words("trace", _verdict, "verdict"),
        ],
        shown=len(rows),
        notes=notes,
        weak=lambda r: r.step_ns is None,
        key=lambda r: r.mode,
    )


def _mode(row: ModeRow) -> Text:
    return Text(row.mode, "strong" if row.fastest else "plain", key=row.mode, target=row.mode)


def _verdict(row: ModeRow) -> Text | None:
    if row.verdict is None:
        return Text(row.status.replace("_", " "))
    return Text(VERDICTS[row.verdict], "verdict", term=row.verdict, key=row.verdict)


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
    yield from square_blocks(result.square, f"{context.prefix}square")


@section(RUN, "findings", "Largest finding of each mode", brief=True)
def findings(result: RunResult, context: Context) -> Iterator[Block]:
    """The largest finding of each mode."""
    largest = [
        (row.mode, analysis.findings[0])
        for row in result.modes
        if (analysis := result.analysis(row.mode)) is not None and analysis.findings
    ]
    if largest:
        yield t.table(
            f"{context.prefix}largest-findings",
            "largest finding",
            largest,
            [
                t.words("mode", lambda f: Text(f[0], key=f[0]), "mode", "mode"),
                t.words("finding", lambda f: Text(f[1].id, "code", term="finding-id")),
                t.words("what", lambda f: f[1].title),
                t.figures(
                    "up to, per token",
                    q.NS,
                    lambda f: gain(f[1]) if f[1].ceiling_ns_per_token > 0 else None,
                    term="finding-ceiling",
                ),
            ],
            shown=len(largest),
            key=lambda f: f[0],
        )


@section(RUN, "start-up", "Start-up")
def start_up(result: RunResult, context: Context) -> Iterator[Block]:
    """How long each mode takes until it is ready, with a cold and a warm compile cache."""
    if not result.startup:
        return
    yield t.table(
        f"{context.prefix}starts",
        "start-up",
        tuple(result.startup.items()),
        [
            t.words("mode", lambda s: Text(s[0], key=s[0]), "mode", "mode"),
            t.figures("cold", q.NS, lambda s: s[1].cold_ns, term="cold-start"),
            t.figures("warm", q.NS, lambda s: s[1].warm_ns, term="start-up"),
            t.figures("partly warm", q.NS, lambda s: s[1].partly_ns),
            t.figures("nothing to cache", q.NS, lambda s: s[1].uncached_ns),
            t.figures("compile", q.NS, lambda s: s[1].compile_ns, term="compile"),
            t.figures("autotune", q.NS, lambda s: s[1].autotune_ns, term="autotune"),
            t.figures("capture", q.NS, lambda s: s[1].capture_ns, term="capture"),
            t.figures("starts", q.COUNT, lambda s: s[1].starts),
        ],
        shown=len(result.startup),
        key=lambda s: s[0],
    )


@section(RUN, "pieces", "Pieces")
def pieces(result: RunResult, context: Context) -> Iterator[Block]:
    """Modes that replay several graphs: their gaps between pieces and what those cost."""
    found = [
        (row.mode, analysis.piecewise)
        for row in result.modes
        if (analysis := result.analysis(row.mode)) is not None and analysis.piecewise is not None
    ]
    if found:
        yield t.table(
            f"{context.prefix}pieces-table",
            "gaps between graph pieces",
            found,
            [
                t.words("mode", lambda p: Text(p[0], key=p[0]), "mode", "mode"),
                t.figures("replays", q.COUNT, lambda p: p[1].replays, term="graph-replay"),
                t.figures("gaps between pieces", q.COUNT, lambda p: p[1].seams, term="seam"),
                t.figures("kernels in them", q.COUNT, lambda p: p[1].kernels, term="kernel"),
                t.figures("idle", q.NS, lambda p: p[1].idle_ns, q.TRACED, "seam-idle"),
                t.figures("each", q.NS, lambda p: p[1].idle_per_seam_ns, q.TRACED),
                t.figures("of the step", q.SHARE, lambda p: p[1].share, q.TRACED, "seam-share"),
            ],
            notes=("idle of all gaps between pieces of a step; each is their mean",),
            key=lambda p: p[0],
        )
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
        q.Quantity(price.seams, q.COUNT),
        " gaps between pieces, ",
        q.change(price.per_seam_ns, q.NS, q.UNPROFILED),
        " each.",
        "" if price.beyond else " That is within the spread of the repeats.",
    )


def _recorded_pieces(mode: str, found: Pieces) -> tuple[Inline, ...]:
    """What the recorder says about a mode's pieces: where it was split, what it copies."""
    inputs = found.copied_inputs
    copied = t.known(found.copied_bytes or None, q.BYTES)
    return (
        f"{mode}: ",
        q.Quantity(found.pieces, q.COUNT),
        " pieces",
        *t.given(", ", t.known(found.captured, q.COUNT), " captured"),
        f", split at {', '.join(found.split_at)}" if found.split_at else "",
        *t.given("; ", copied, " copied into static inputs each step"),
        f" ({counted(len(inputs), 'input')})" if copied is not None and inputs is not None else "",
        *t.given("; graphs hold ", t.known(found.pool_bytes or None, q.BYTES)),
        ".",
        f" {found.note}" if found.note else "",
    )


class _Bucket(NamedTuple):
    mode: str
    size: int
    step_ns: q.Number | None
    prepared: Prepared


@section(RUN, "buckets", "Buckets")
def buckets(result: RunResult, context: Context) -> Iterator[Block]:
    """The lengths that modes were prepared for: their step, and what preparing each cost."""
    rows = tuple(_buckets(result))
    if rows:
        yield t.table(
            f"{context.prefix}buckets-table",
            "buckets",
            rows,
            [
                t.words("mode", lambda it: Text(it.mode, key=it.mode), "mode", "mode"),
                t.figures("length", q.COUNT, lambda it: it.size, term="bucket"),
                t.figures("step", q.NS, lambda it: it.step_ns, q.UNPROFILED, "period"),
                t.figures("first call", q.NS, lambda it: it.prepared.first_call_ns),
                t.figures("compile", q.NS, lambda it: t.seconds(it.prepared.compile_seconds)),
                t.figures("capture", q.NS, lambda it: it.prepared.capture_ns, term="capture"),
                t.figures(
                    "memory", q.BYTES, lambda it: it.prepared.memory_bytes, term="peak-memory"
                ),
            ],
            shown=len(rows),
            key=lambda it: it.mode,
        )
    for mode, recorded in result.recorded.items():
        share = t.known((recorded.buckets and recorded.buckets.padding_share) or None, q.SHARE)
        if share is not None:
            yield Sentence((f"{mode}: ", share, " of the positions read are padding."))


def _buckets(result: RunResult) -> Iterator[_Bucket]:
    for mode, recorded in result.recorded.items():
        found = recorded.buckets
        if found is None:
            continue
        prepared = {item.size: item for item in found.prepared or ()}
        for size in found.sizes or ():
            step = (found.median_ns or {}).get(str(size))
            if size in prepared or step is not None:
                yield _Bucket(mode, size, step, prepared.get(size, Prepared()))


@section(RUN, "autotuning", "Autotuning")
def autotuning(result: RunResult, context: Context) -> Iterator[Block]:
    """What autotuning chose, what it cost, and when that is earned back."""
    choices = [
        (mode, choice)
        for mode, recorded in result.recorded.items()
        if recorded.autotune is not None
        for choice in recorded.autotune.choices or ()
    ]
    if choices:
        yield t.table(
            f"{context.prefix}choices",
            "matrix products",
            choices,
            [
                t.words("mode", lambda c: Text(c[0], key=c[0]), "mode", "mode"),
                t.words("product", lambda c: _product(c[1])),
                t.words("chosen", lambda c: t.name(c[1].chosen or ""), "autotune"),
                t.words("kind", lambda c: c[1].kind),
                t.figures("time", q.NS, lambda c: c[1].ns),
                t.figures("best library call", q.NS, lambda c: c[1].best_extern_ns),
                t.figures("of", q.COUNT, lambda c: c[1].candidates),
            ],
            shown=CHOICES_SHOWN,
        )
    for mode in result.recorded:
        for parts in _tuning_words(result, mode):
            yield Sentence((f"{mode}: ", *parts))
    if result.autotuning is not None:
        yield Sentence(_earned_back(result))


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
            q.Quantity(counts.prologues, q.COUNT),
            " with a prologue and ",
            q.Quantity(counts.epilogues, q.COUNT),
            " with an epilogue",
        )
    if found.note:
        yield (found.note,)
    for item in analysis.findings if analysis is not None else ():
        if item.id == "GT409":
            yield (Text(item.id, "code"), f" {item.title}")


def _earned_back(result: RunResult) -> tuple[Inline, ...]:
    tuned = result.autotuning
    assert tuned is not None
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
    rows = [
        (mode, recorded.cudagraph_trees)
        for mode, recorded in result.recorded.items()
        if recorded.cudagraph_trees is not None
    ]
    if rows:
        yield t.table(
            f"{context.prefix}trees",
            "graphs",
            rows,
            [
                t.words("mode", lambda it: Text(it[0], key=it[0]), "mode", "mode"),
                t.figures("recorded", q.COUNT, lambda it: it[1].recordings, term="graph-replay"),
                t.figures("recorded again", q.COUNT, lambda it: it[1].rerecordings),
                t.figures("partitions", q.COUNT, lambda it: it[1].partitions),
                t.figures("given up", q.COUNT, lambda it: it[1].skips),
            ],
        )


@section(RUN, "notes", "Notes", brief=True)
def notes(result: RunResult, context: Context) -> Iterator[Block]:
    """What to know about single recordings."""
    yield from (Note((text,)) for text in result.notes)


@section(RUN, "next", "Next", brief=True)
def commands(result: RunResult, context: Context) -> Iterator[Block]:
    """What to type next."""
    recorded = [c for c in result.cells if c.analysis is not None and c.path]
    cell = next((c for c in recorded if c.mode == result.fastest), next(iter(recorded), None))
    full = [f"gaptrace analyze {shlex.quote(result.path)} --full"] if context.brief else []
    one = [f"gaptrace analyze {shlex.quote(cell.path)}"] if cell is not None else []
    yield Note((), "next", commands=(*full, *one))


@builder(RunResult)
def run_document(result: RunResult, context: Context) -> Document:
    """Everything that is said about a run; in full with the document of each mode."""
    return Document(
        kind=RUN,
        title=result.name,
        answer=Sentence(run_answer(result), "answer"),
        identity=result.facts,
        sections=build(RUN, result, context),
        result=result,
        parts=() if context.brief else tuple(_parts(result, context)),
        detail=context.detail,
    )


def _parts(result: RunResult, context: Context) -> Iterator[Document]:
    for row in result.modes:
        analysis = result.analysis(row.mode)
        if analysis is not None:
            inner = replace(context, prefix=f"{context.prefix}{row.mode}-")
            part = analysis_document(analysis, inner)
            yield msgspec.structs.replace(part, title=row.mode)
