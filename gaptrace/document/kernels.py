"""What runs on the GPU: busy time by op class, kernels and copies, and the ops behind them."""

from __future__ import annotations

from collections.abc import Iterator

from gaptrace.document import tables as t
from gaptrace.document.answers import each
from gaptrace.document.blocks import Bar, Bars, Block, Inline, Segment, Sentence, Text
from gaptrace.document.sections import Context
from gaptrace.quantity import BYTES_PER_S, COUNT, NS, SHARE, TRACED, Quantity
from gaptrace.results.analysis import AnalysisResult, KernelRow, Kernels
from gaptrace.vocabulary import OP_CLASSES


def kernels(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """Busy time by op class, and every kernel and copy by total time."""
    found, one = result.kernels, each(result)
    if not found.rows:
        return
    yield Sentence(_lead(found, one), "lead")
    segments = tuple(
        Segment(key, word.label, Quantity(ns, NS, TRACED))
        for key, word in OP_CLASSES.items()
        if (ns := found.time_ns_by_class.get(key))
    )
    title = f"GPU busy, one {one}, by op class"
    yield Bars("classes", title, (Bar("GPU busy", segments),), "class")
    per_one = (
        t.counts(f"per {one}", "per_token", "kernels-per-token"),
        t.times(f"time per {one}", "total_ns_per_token", TRACED),
    )
    share = t.figures("share", SHARE, "share", TRACED)
    columns = (
        t.words("name", lambda k: t.name(k.short, k.name), "kernel"),
        t.words("class", _class, "op-class", "class"),
        t.words("sub-class", "sub_class", "op-class"),
        t.words("backend", "backend", "backend"),
        *per_one,
        t.times("median", "median_ns", TRACED, "median"),
        share,
        t.names("launched by op", "op"),
        t.names("module", "module"),
        t.figures("captured", SHARE, "captured", term="captured-share"),
        t.figures("bandwidth", BYTES_PER_S, "bandwidth_bytes_per_s", TRACED),
        t.figures("of roofline", SHARE, "roofline_share", TRACED, "roofline"),
    )
    notes = dict.fromkeys(
        f"of roofline withheld for {row.short}: {row.roofline_note}"
        for row in found.rows
        if row.roofline_note
    )
    yield t.table("kernels-table", "kernels and copies", found.rows, columns, notes=notes)
    title = "GPU time by the op that launched it"
    origins = (t.names("op", "name"), *per_one, share)
    yield t.table("kernels-by-op", title, found.by_op, origins, folded=True)


def _lead(found: Kernels, one: str) -> tuple[Inline, ...]:
    times = found.time_ns_by_class
    key = max(times, key=lambda key: times[key], default="other")
    largest = OP_CLASSES[key]
    share = t.known(found.share_by_class.get(key), SHARE, TRACED)
    overlap = t.duration(found.overlap_ns or None, TRACED)
    return (
        Quantity(len(found.rows), COUNT),
        " kind of GPU op" if len(found.rows) == 1 else " kinds of GPU op",
        "; the largest class is ", Text(largest.label, term=largest.term),
        *t.given(" with ", share, " of the time"), ".",
        *t.given(" Streams overlap: times sum to ", overlap, f" per {one} more than busy."),
    )  # fmt: skip


def _class(row: KernelRow) -> Text:
    return Text(OP_CLASSES[row.op_class].label, key=row.op_class)
