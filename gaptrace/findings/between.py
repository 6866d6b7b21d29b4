"""Findings about the end of a step: sampling on the CPU, and host work before the next step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gaptrace import units
from gaptrace.findings.claims import gap_claims
from gaptrace.findings.rule import Claim, rule
from gaptrace.findings.trust import PARTLY_CAPTURED, captured_share
from gaptrace.findings.wording import quantity
from gaptrace.measure.gaps import CAUSES as GAP_CAUSES
from gaptrace.measure.links import names_where, rows_named
from gaptrace.measure.view import NEVER, Bools, Needs, View
from gaptrace.quantity import BYTES
from gaptrace.trace import Cat, Ints
from gaptrace.vocabulary import CAUSES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gaptrace.findings.wording import Fact

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
    claims = [*_sampling(view)] or _between(view)
    yield from claims


def _sampling(view: View) -> Iterator[Claim]:
    copied, nbytes = _results_copied(view)
    has = view.usable & (copied < NEVER)
    if not has.any():
        return
    step = np.maximum(view.gap_step, 0)
    tail = view.late_gaps & has[step] & (view.device.gaps.start >= copied[step])
    names = _sampling_names(view, copied, has)
    per_token = float(nbytes[has].sum() / view.steps.tokens[has].sum())
    if not names and per_token < LOGITS_BYTES:
        return
    facts: dict[str, Fact] = {
        "copied": quantity(per_token, BYTES),
        "ops": ", ".join(names) or None,
        "large": not names,
    }
    for claim in gap_claims(view, "GT103", np.where(tail, view.late_ns, 0), facts):
        yield replace(claim, confidence="measured" if names else "likely")


def _results_copied(view: View) -> tuple[Ints, Ints]:
    """Per step the start of the first device-to-host copy behind its last GEMM, and bytes copied.

    `NEVER` and 0 for steps without such a copy.
    """
    count = len(view.steps)
    links, step = view.device.links, view.op_step
    gemm = view.of_class("gemm") & (step >= 0)
    ends = np.full(count, -1, np.int64)
    np.maximum.at(ends, step[gemm], links.end[gemm])
    last = np.where(ends >= 0, ends, NEVER)
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


def _between(view: View) -> Iterator[Claim]:
    if captured_share(view) > PARTLY_CAPTURED:
        return
    step = np.maximum(view.gap_step, 0)
    last = view.late_gaps & (view.device.gaps.end == view.steps.gpu_end[step])
    per_gap = np.where(last, view.late_ns, 0)
    others = view.late_ns[view.late_gaps & ~last]
    usual = float(np.median(others)) if others.size else 0.0
    if not last.any() or float(np.median(per_gap[last])) < BETWEEN_FACTOR * usual:
        return
    spent = view.device.gaps.cause_ns[last].sum(axis=0).tolist()
    largest = sorted(zip(GAP_CAUSES, spent, strict=True), key=lambda part: -part[1])[:2]
    causes = " and ".join(
        f"{CAUSES[name].label} ({units.share(ns, sum(spent))})" for name, ns in largest if ns
    )
    yield from gap_claims(view, "GT105", per_gap, {"causes": causes}, BETWEEN_SHARE)
