"""Findings about the end of a step: sampling on the CPU, and host work before the next step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gaptrace import units
from gaptrace.findings.evidence import gap_evidence
from gaptrace.findings.rule import Bools, Claim, Finding, Needs, rule
from gaptrace.findings.trust import PARTLY_CAPTURED, captured_share
from gaptrace.findings.view import NEVER, View
from gaptrace.measure.links import names_where, rows_named
from gaptrace.measure.sentence import CAUSE_WORDS
from gaptrace.trace import Cat, Ints

if TYPE_CHECKING:
    from collections.abc import Iterator

# A token id is 8 bytes per sequence; one row of logits of a small vocabulary is above this.
LOGITS_BYTES = 16_384
# Ops that choose a token. Where they launch nothing, they run on the CPU.
SAMPLING_OPS = frozenset(
    f"aten::{name}"
    for name in (
        "softmax", "_softmax", "log_softmax", "_log_softmax", "topk", "sort", "argsort",
        "multinomial", "argmax", "cumsum", "exponential_", "searchsorted",
    )
)  # fmt: skip
# Host work between two steps is named apart from launching when it takes this much of the step ...
BETWEEN_SHARE = 0.05
# ... and is this many times the usual late gap: else it is one launch among others.
BETWEEN_FACTOR = 5


@rule("GT103", "GT105", needs=Needs.CAUSES)
def end_of_step(view: View) -> Iterator[Claim]:
    """CPU-side sampling (GT103), else other host work between steps (GT105).

    Ceiling of GT103: idle with a late host that begins after the step's results were copied to
    the host, behind its last GEMM, until the next step's first op. Ceiling of GT105: the late
    part of the one gap that the next step's first op ends.
    """
    copied, nbytes = _results_copied(view)
    has = view.usable & (copied < NEVER)
    if has.any():
        gaps = view.device.gaps
        step = np.maximum(view.gap_step, 0)
        tail = view.late_gaps & has[step] & (gaps.start >= copied[step])
        found = view.idle_amount(view.by_step(np.where(tail, view.late_ns, 0)))
        names = _sampling_names(view, copied, has)
        per_token = float(nbytes[has].sum() / view.steps.tokens[has].sum())
        if view.worth(found.ns) and (names or per_token >= LOGITS_BYTES):
            yield _sampling(view, tail, found.ns, found.note, names, per_token)
            return
    yield from _between(view)


def _results_copied(view: View) -> tuple[Ints, Ints]:
    """Per step the start of the first device-to-host copy behind its last GEMM, and bytes copied.

    `NEVER` and 0 for steps without such a copy.
    """
    count = len(view.steps)
    links, step = view.device.links, view.op_step
    gemm = view.of_class("gemm") & (step >= 0)
    last = np.full(count, NEVER)
    ends = np.full(count, -1, np.int64)
    np.maximum.at(ends, step[gemm], links.end[gemm])
    last[ends >= 0] = ends[ends >= 0]
    to_host = names_where(view.trace, view.op_name, lambda name: "DtoH" in name)
    to_host &= (links.cat == Cat.MEMCPY) & (step >= 0) & ~links.replayed
    to_host &= links.start >= last[np.maximum(step, 0)]
    first = np.full(count, NEVER)
    np.minimum.at(first, step[to_host], links.start[to_host])
    sizes = view.trace.gpu.bytes[np.searchsorted(view.trace.gpu.rows, links.row)]
    nbytes = np.bincount(step[to_host], weights=sizes[to_host], minlength=count)
    return first, nbytes.astype(np.int64)


def _sampling_names(view: View, copied: Ints, has: Bools) -> list[str]:
    """Sampling ops that ran after the copy, before the next step, and launched nothing."""
    trace = view.trace
    rows = rows_named(trace, SAMPLING_OPS.__contains__, Cat.CPU_OP)
    rows, step = view.on_launching_thread(rows)
    if rows.size == 0:
        return []
    links = view.device.links
    at = np.sort(trace.start[links.calls], kind="stable")
    end = trace.start[rows] + trace.dur[rows]
    launched = np.searchsorted(at, end) > np.searchsorted(at, trace.start[rows])
    after = has[step] & (end > copied[step]) & ~launched
    return sorted({trace.name_of(int(row)) for row in rows[after]})


def _sampling(
    view: View, tail: Bools, ns: float, note: str, names: list[str], nbytes: float
) -> Claim:
    text = (
        f"After its last matrix product the step copies {units.size(nbytes)} per token to the "
        f"host; until the next step's first op the GPU then waits {units.time(ns)} per token "
        f"for the host{note}."
    )
    if names:
        text += (
            f" Ops that choose a token run there without launching anything: {', '.join(names)}."
        )
    else:
        text += " That is more than token ids: logits or probabilities."
    evidence = gap_evidence(view, np.where(tail, view.late_ns, 0), "host work after the copy back")
    confidence = "measured" if names else "likely"
    return Claim(
        Finding("GT103", "sampling on the CPU", ns, confidence, text, evidence, int(tail.sum())),
        tail,
    )


def _between(view: View) -> Iterator[Claim]:
    gaps = view.device.gaps
    step = np.maximum(view.gap_step, 0)
    last = view.late_gaps & (gaps.end == view.steps.gpu_end[step])
    own = np.where(last, view.late_ns, 0)
    found = view.idle_amount(view.by_step(own))
    if captured_share(view) > PARTLY_CAPTURED or not view.worth(found.ns, BETWEEN_SHARE):
        return
    others = view.late_ns[view.late_gaps & ~last]
    usual = float(np.median(others)) if others.size else 0.0
    if float(np.median(own[last])) < BETWEEN_FACTOR * usual:
        return
    parts = {name: int(view.cause(name)[last].sum()) for name in CAUSE_WORDS}
    shown = sorted((n for n in parts if parts[n]), key=lambda n: -parts[n])[:2]
    total = sum(parts.values())
    words = " and ".join(f"{CAUSE_WORDS[n]} ({units.share(parts[n], total)})" for n in shown)
    text = (
        f"Between the last op of a step and the first of the next the GPU waits "
        f"{found.idle_words} for the host, most of it {words}."
    )
    evidence = gap_evidence(view, own, "host work between steps")
    yield Claim(
        Finding(
            "GT105",
            "host work between steps",
            found.ns,
            "measured",
            text,
            evidence,
            int(last.sum()),
        ),
        last,
    )
