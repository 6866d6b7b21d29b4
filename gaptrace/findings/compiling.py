"""Findings about compilation: work in steps, recompiles, graph breaks, guard checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gaptrace import units
from gaptrace.findings.evidence import host_evidence
from gaptrace.findings.rule import Bools, Claim, Finding, Needs, rule
from gaptrace.findings.view import NEVER, Amount, View
from gaptrace.knowledge import runtime_calls
from gaptrace.measure.attribution import outermost_rows
from gaptrace.measure.hosttime import HOST_CLASSES
from gaptrace.measure.links import names_where, rows_named
from gaptrace.trace import Cat, Ints

# Steps with compile work beyond this share: the program recompiles for every token.
MOST = 0.5
GUARD_CHECK = "TorchDynamo Cache Lookup"
GUARD_SHARE = 0.02
PIECES_SHARE = 0.02


@rule("GT301", "GT302", "GT303", needs=Needs.CAUSES)
def compile_work(view: View) -> Iterator[Claim]:
    """Compile work inside decode steps: in some (GT301), in most (GT302), in the first (GT303).

    Ceiling of GT301 and GT302: compile time of all complete decode steps, at most the late idle
    that follows, per token over those steps; never more than their idle. Steps with compile work
    are not counted in other figures unless all have it, so this looks at all of them. GT303 wins
    nothing: it is about which steps to record.
    """
    steps = view.steps
    complete = np.array([phase == "decode" for phase in steps.phase], np.bool_) & steps.has_ops
    if complete[:-1].any():
        complete[-1] = False
    dirty = complete & steps.compiles
    count, total = int(dirty.sum()), int(complete.sum())
    if count == 0:
        return
    work = np.where(dirty, steps.host_ns[:, HOST_CLASSES.index("compile")], 0)
    rows, of = _compile_rows(view, dirty)
    evidence = host_evidence(view, rows, of, view.trace.dur[rows])
    spent = f"{units.time(float(work.sum()))} of compile work in {count} of {total} decode steps"
    named = ", ".join(dict.fromkeys(item.what for item in evidence[:3]))
    spent += f" ({named})." if named else "."
    order = np.flatnonzero(complete)
    if total == 1 or (count <= MOST * total and bool(dirty[order[:count]].all())):
        text = (
            f"{spent} It is the first that was recorded: warm-up, not steady state. Steps with "
            "compile work are left out of the figures where others are there."
        )
        title = "the first call after compiling was profiled"
        yield Claim(Finding("GT303", title, 0.0, "likely", text, evidence, int(rows.size)))
        return
    _, begin = view.per_step(of, view.trace.dur[rows], view.trace.start[rows])
    begin = np.where(begin == NEVER, steps.host_start, begin)
    freed = view.freed(work, begin, idle=view.late_ns, among=complete)
    found = _bounded(view, freed, complete)
    text = spent + _guards(view)
    if count > MOST * total:
        text += " Most steps recompile, so none of them is steady state."
        name, title = "GT302", "recompiling for every token"
    else:
        text += " These steps are left out of all other figures."
        name, title = "GT301", "compile work in some steps"
    gaps = view.late_in(dirty)
    yield Claim(
        Finding(name, title, found.ns, "measured", text, evidence, int(rows.size)),
        gaps if gaps.any() else None,
    )


def _bounded(view: View, freed: np.ndarray, complete: Bools) -> Amount:
    """The mean over complete decode steps, at most their mean idle: rare steps count too."""
    tokens = float(view.steps.tokens[complete].sum())
    idle = float(view.steps.idle_ns[complete].sum()) / tokens
    some = int((freed[complete] > 0).sum())
    return Amount(min(float(freed.sum()) / tokens, idle), some, int(complete.sum()), typical=False)


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


def _recompiles(view: View) -> list[Mapping[str, Any]]:
    found = view.analysis.manifest.get("compile", "recompiles")
    return [
        item for item in (found if isinstance(found, list) else []) if isinstance(item, Mapping)
    ]


def _guards(view: View) -> str:
    """Guards that failed, as the recorder saw them."""
    seen = dict.fromkeys(
        f"{item.get('guard')} in {item.get('function')}"
        for item in _recompiles(view)
        if item.get("guard")
    )
    return f" Guards that failed: {'; '.join(list(seen)[:3])}." if seen else ""


@rule("GT304", needs=Needs.CAUSES)
def graph_breaks(view: View) -> Iterator[Claim]:
    """A compiled step in pieces. Ceiling: host time between its regions, at most late idle."""
    rows, step = view.regions
    keep = ~names_where(view.trace, view.trace.name[rows], lambda name: "Backward" in name)
    rows, step = rows[keep], step[keep]
    if rows.size < 2:
        return
    trace = view.trace
    order = np.lexsort((trace.start[rows], step))
    rows, step = rows[order], step[order]
    same = step[1:] == step[:-1]
    end = trace.start[rows] + trace.dur[rows]
    between = np.maximum(trace.start[rows][1:] - end[:-1], 0)[same]
    work, begin = view.per_step(step[:-1][same], between, end[:-1][same])
    found = view.idle_amount(view.freed(work, begin))
    if not view.worth(found.ns, PIECES_SHARE):
        return
    tokens = float(view.steps.tokens[view.usable].sum())
    text = (
        f"{units.count(rows.size / tokens)} compiled regions per token, and "
        f"{units.time(view.amount(work).ns)} of host time per token between the first and the "
        "last of a step."
    )
    breaks = view.analysis.manifest.get("compile", "graph_breaks")
    reasons = [
        f"{item.get('reason')} ({item.get('place')})" if item.get("place") else str(item["reason"])
        for item in (breaks if isinstance(breaks, list) else [])
        if isinstance(item, Mapping) and item.get("reason")
    ]
    if reasons:
        text += f" Graph breaks: {'; '.join(reasons[:3])}."
    weight = np.append(np.where(same, trace.start[rows][1:] - end[:-1], 0), 0)
    evidence = host_evidence(view, rows, step, weight, "host work follows this compiled region")
    confidence = "measured" if reasons else "likely"
    yield Claim(
        Finding(
            "GT304",
            "a compiled step in pieces",
            found.ns,
            confidence,
            text,
            evidence,
            int(same.sum()),
        ),
        view.late_in(work > 0),
    )


@rule("GT305", needs=Needs.STEPS)
def recompiles_before(view: View) -> Iterator[Claim]:
    """Recompiles that the recorder counted outside the profiled steps. Ceiling 0."""
    found = _recompiles(view)
    if not found or view.steps.compiles[view.steps.counted].any():
        return
    measured = view.analysis.manifest.integer("compile", "recompiles_while_measured") or 0
    total = view.analysis.manifest.integer("compile", "recompile_count") or len(found)
    sizes = view.analysis.manifest.get("buckets", "sizes")
    if not measured and isinstance(sizes, list) and total < len(sizes):
        return  # a graph for each bucket is what was asked for
    seconds = [s for s in (item.get("seconds") for item in found) if isinstance(s, (int, float))]
    text = f"The recorder counted {total} {'recompile' if total == 1 else 'recompiles'}"
    text += f", {measured} of them while steps were measured." if measured else " during warm-up."
    if seconds:
        text += f" {'It' if total == 1 else 'They'} took {units.digits(sum(seconds))} s."
    text += _guards(view)
    yield Claim(
        Finding(
            "GT305", "recompiles before the step was steady", 0.0, "measured", text, places=total
        )
    )


@rule("GT306", needs=Needs.CAUSES)
def guard_checks(view: View) -> Iterator[Claim]:
    """Guards checked at every call. Ceiling: their time, at most the late idle that follows."""
    if GUARD_CHECK not in view.trace.names:
        return
    rows, step, own = view.own_time(GUARD_CHECK)
    work, begin = view.per_step(step, own, view.trace.start[rows])
    found = view.idle_amount(view.freed(work, begin))
    if not view.worth(found.ns, GUARD_SHARE):
        return
    tokens = float(view.steps.tokens[view.usable].sum())
    text = (
        f"Before compiled code runs its guards are checked: "
        f"{units.count(rows.size / tokens)} times and {units.time(found.ns)} per token."
    )
    evidence = host_evidence(view, rows, step, own)
    yield Claim(
        Finding(
            "GT306",
            "guard checks at every call",
            found.ns,
            "measured",
            text,
            evidence,
            int(rows.size),
        ),
        view.late_in(work > 0),
    )
