"""Findings about compilation: work in steps, recompiles, graph breaks, guard checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gaptrace.findings.claims import host_claims, host_work
from gaptrace.findings.evidence import host_evidence
from gaptrace.findings.rule import Claim, rule
from gaptrace.findings.wording import quantity
from gaptrace.knowledge import runtime_calls
from gaptrace.measure.amount import Amount
from gaptrace.measure.attribution import outermost_rows
from gaptrace.measure.hosttime import HOST_CLASSES
from gaptrace.measure.links import names_where, rows_named
from gaptrace.measure.view import NEVER, Bools, Needs, View
from gaptrace.quantity import COUNT, NS, UNPROFILED
from gaptrace.trace import Cat, Ints

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gaptrace.findings.wording import Fact

# Steps with compile work beyond this share: the program recompiles for every token.
MOST = 0.5
GUARD_CHECK = "TorchDynamo Cache Lookup"
GUARD_SHARE = 0.02
PIECES_SHARE = 0.02
SHOWN = 3


@rule("GT301", "GT302", "GT303", needs=Needs.CAUSES)
def compile_work(view: View) -> Iterator[Claim]:
    """Compile work inside decode steps: in some (GT301), in most (GT302), in the first (GT303).

    Ceiling of GT301 and GT302: compile time of all complete decode steps, at most the late idle
    that follows, per token over those steps; never more than their idle. Where every counted step
    compiles, the usual step's idle with that cause, if that is more. Steps with compile work are
    not counted in other figures unless all have it, so this looks at all of them. GT303 wins
    nothing: it is about which steps to record.
    """
    steps = view.steps
    complete = np.array([phase == steps.kind.kind for phase in steps.phase], np.bool_)
    complete &= steps.has_ops
    if complete[:-1].any():
        complete[-1] = False
    dirty = complete & steps.compiles
    count, total = int(dirty.sum()), int(complete.sum())
    if count == 0:
        return
    work = np.where(dirty, steps.host_ns[:, HOST_CLASSES.index("compile")], 0)
    rows, of = _compile_rows(view, dirty)
    evidence = host_evidence(view, rows, of, view.trace.dur[rows])
    facts: dict[str, Fact] = {
        "compile_time": quantity(float(work.sum()), NS),
        "dirty": quantity(count, COUNT),
        "steps": quantity(total, COUNT),
        "events": ", ".join(dict.fromkeys(item.what for item in evidence[:SHOWN])) or None,
        "guards": _guards(view),
        "compiled": True,
    }
    order = np.flatnonzero(complete)
    if total == 1 or (count <= MOST * total and bool(dirty[order[:count]].all())):
        yield Claim("GT303", 0.0, facts, "likely", evidence=evidence, places=int(rows.size))
        return
    _, begin = view.per_step(of, view.trace.dur[rows], view.trace.start[rows])
    begin = np.where(begin == NEVER, steps.host_start, begin)
    gained = view.gained(work, begin, idle=view.late_ns, among=complete)
    gain = _mean_gain(view, gained, complete)
    if not (view.usable & ~dirty).any():
        # Every counted step compiles: what a usual one loses, as its causes say.
        usual = view.idle_amount(view.by_step(view.cause("compile")))
        gain = max(gain, usual, key=lambda amount: amount.ns)
    gaps = view.late_in(dirty)
    yield Claim(
        "GT302" if count > MOST * total else "GT301",
        gain.ns,
        {**facts, "gain": gain},
        evidence=evidence,
        places=int(rows.size),
        gaps=gaps if gaps.any() else None,
    )


def _mean_gain(view: View, gained: np.ndarray, complete: Bools) -> Amount:
    """The mean over complete decode steps, at most their mean idle: rare steps count too."""
    tokens = float(view.steps.tokens[complete].sum())
    idle = float(view.steps.idle_ns[complete].sum()) / tokens
    some = int((gained[complete] > 0).sum())
    return Amount(min(float(gained.sum()) / tokens, idle), some, int(complete.sum()), typical=False)


def _compile_rows(view: View, dirty: Bools) -> tuple[Ints, Ints]:
    """Outermost compile events that reach into the host windows of the given steps; the steps."""
    trace, steps = view.trace, view.steps
    host = (Cat.CPU_OP, Cat.ANNOTATION, Cat.OVERHEAD, Cat.RUNTIME)
    rows = rows_named(trace, runtime_calls.is_compile, *host)
    frames = rows_named(trace, runtime_calls.is_compile_frame, Cat.PYTHON)
    rows = outermost_rows(trace, np.concatenate((rows, frames)))
    end = trace.start[rows] + trace.dur[rows]
    first = np.searchsorted(steps.host_start, trace.start[rows], side="right") - 1
    last = np.searchsorted(steps.host_start, end, side="left") - 1
    starts_inside = (first >= 0) & dirty[np.maximum(first, 0)]
    step = np.where(starts_inside, first, last)
    at = np.maximum(step, 0)
    inside = (step >= 0) & dirty[at] & (trace.start[rows] < steps.host_end[at])
    return rows[inside], step[inside]


def _guards(view: View) -> str | None:
    """Guards that failed, as the recorder saw them."""
    guards = dict.fromkeys(
        f"{item.guard} in {item.function}"
        for item in view.analysis.manifest.compile.recompiles or ()
        if item.guard
    )
    return "; ".join(list(guards)[:SHOWN]) or None


@rule("GT304", needs=Needs.CAUSES)
def graph_breaks(view: View) -> Iterator[Claim]:
    """A compiled step in pieces. Ceiling: host time between its regions, at most late idle."""
    trace = view.trace
    rows, step = view.regions
    keep = ~names_where(trace, trace.name[rows], lambda name: "Backward" in name)
    rows, step = rows[keep], step[keep]
    if rows.size < 2:
        return
    order = np.lexsort((trace.start[rows], step))
    rows, step = rows[order], step[order]
    end = trace.start[rows] + trace.dur[rows]
    same = step[1:] == step[:-1]
    between = np.where(same, trace.start[rows][1:] - end[:-1], 0)
    work = host_work(view, step[:-1][same], np.maximum(between[same], 0), end[:-1][same])
    if not view.matters(work.gain.ns, PIECES_SHARE):
        return
    reasons = [
        f"{item.reason} ({item.place})" if item.place else item.reason
        for item in view.analysis.manifest.compile.graph_breaks or ()
        if item.reason
    ]
    yield Claim(
        "GT304",
        work.gain.ns,
        {
            "regions": view.per_token(rows.size, COUNT),
            "host_time": work.time,
            "gain": work.gain,
            "reasons": "; ".join(reasons[:SHOWN]) or None,
        },
        "measured" if reasons else "likely",
        evidence=host_evidence(view, rows, step, np.append(between, 0), "GT304"),
        places=int(same.sum()),
        gaps=work.gaps,
    )


@rule("GT305", needs=Needs.STEPS)
def recompiles_before(view: View) -> Iterator[Claim]:
    """Recompiles that the recorder counted outside the profiled steps. Ceiling 0."""
    seen = view.analysis.manifest.compile
    if not seen.recompiles or view.steps.compiles[view.steps.counted].any():
        return
    late = seen.recompiles_while_measured or 0
    total = seen.recompile_count or len(seen.recompiles)
    if not late and total < len(view.analysis.manifest.buckets.sizes or ()):
        return  # a graph for each bucket is what was asked for
    seconds = [item.seconds for item in seen.recompiles if item.seconds is not None]
    facts: dict[str, Fact] = {
        "recompiles": quantity(total, COUNT, UNPROFILED),
        "while_measured": quantity(late or None, COUNT, UNPROFILED),
        "warm_up": not late,
        "seconds": quantity(sum(seconds) * 1e9 if seconds else None, NS, UNPROFILED),
        "guards": _guards(view),
    }
    yield Claim("GT305", facts=facts, places=total)


@rule("GT306", needs=Needs.CAUSES)
def guard_checks(view: View) -> Iterator[Claim]:
    """Guards checked at every call. Ceiling: their time, at most the late idle that follows."""
    if GUARD_CHECK not in view.trace.names:
        return
    rows, step, ns = view.self_time(GUARD_CHECK)
    facts: dict[str, Fact] = {"checks": view.per_token(rows.size, COUNT)}
    yield from host_claims(view, "GT306", rows, step, ns, facts, least=GUARD_SHARE)
