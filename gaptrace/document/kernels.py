"""What runs on the GPU: busy time by op class, kernels and copies, and the ops behind them."""

from __future__ import annotations

from collections.abc import Iterator

from gaptrace.document.answers import each
from gaptrace.document.blocks import Bar, Bars, Block, Inline, Segment, Sentence, Text
from gaptrace.document.sections import Context
from gaptrace.document.tables import duration, figures, given, known, name, table, words
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
    yield Bars(
        f"{context.prefix}classes",
        f"GPU busy, one {one}, by op class",
        (Bar("GPU busy", segments),),
        "class",
    )
    yield table(
        f"{context.prefix}kernels-table",
        "kernels and copies",
        found.rows,
        [
            words("name", lambda k: name(k.short, k.name), "kernel"),
            words("class", _class, "op-class", "class"),
            words("sub-class", lambda k: k.sub_class, "op-class"),
            words("backend", lambda k: k.backend, "backend"),
            figures(f"per {one}", COUNT, lambda k: k.per_token, term="kernels-per-token"),
            figures(f"time per {one}", NS, lambda k: k.total_ns_per_token, TRACED),
            figures("median", NS, lambda k: k.median_ns, TRACED, "median"),
            figures("share", SHARE, lambda k: k.share, TRACED),
            words("launched by op", lambda k: name(k.op)),
            words("module", lambda k: name(k.module)),
            figures("captured", SHARE, lambda k: k.captured, term="captured-share"),
            figures("bandwidth", BYTES_PER_S, lambda k: k.bandwidth_bytes_per_s, TRACED),
            figures("of roofline", SHARE, lambda k: k.roofline_share, TRACED, "roofline"),
        ],
        notes=dict.fromkeys(
            f"of roofline withheld for {row.short}: {row.roofline_note}"
            for row in found.rows
            if row.roofline_note
        ),
    )
    if found.by_op:
        yield table(
            f"{context.prefix}kernels-by-op",
            "GPU time by the op that launched it",
            found.by_op,
            [
                words("op", lambda o: name(o.name)),
                figures(f"per {one}", COUNT, lambda o: o.per_token, term="kernels-per-token"),
                figures(f"time per {one}", NS, lambda o: o.total_ns_per_token, TRACED),
                figures("share", SHARE, lambda o: o.share, TRACED),
            ],
            folded=True,
        )


def _lead(found: Kernels, one: str) -> tuple[Inline, ...]:
    times = found.time_ns_by_class
    key = max(times, key=lambda key: times[key], default="other")
    largest = OP_CLASSES[key]
    return (
        Quantity(len(found.rows), COUNT),
        " kind of GPU op" if len(found.rows) == 1 else " kinds of GPU op",
        "; the largest class is ", Text(largest.label, term=largest.term),
        *given(" with ", known(found.share_by_class.get(key), SHARE, TRACED), " of the time"),
        ".",
        *given(
            " Streams overlap: times sum to ",
            duration(found.overlap_ns or None, TRACED),
            f" per {one} more than busy.",
        ),
    )  # fmt: skip


def _class(row: KernelRow) -> Text:
    word = OP_CLASSES[row.op_class]
    return Text(word.label, key=word.id)
