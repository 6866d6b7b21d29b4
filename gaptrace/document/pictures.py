"""Pictures that ask the trace: the strip of steps, and one step drawn out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gaptrace import units
from gaptrace.document import blocks as b
from gaptrace.document.sections import Context
from gaptrace.measure.gaps import CAUSES as CAUSE_ORDER
from gaptrace.measure.steps import Steps
from gaptrace.quantity import NS, TRACED, Quantity
from gaptrace.results.analysis import AnalysisResult
from gaptrace.timeline.views import Budget, Pick, Place, picks, step_views, step_window, views
from gaptrace.vocabulary import BUSY, CAUSES, STEP_METRICS

if TYPE_CHECKING:
    from gaptrace.measure.result import Analysis

STRIP_STEPS = 120
_COLUMNS = ("period_ns", "busy_ns", "idle_ns", "host_dispatch_ns", "kernels", "launches")
_METRICS = [(m, TRACED if m.unit == NS else "") for m in map(STEP_METRICS.__getitem__, _COLUMNS)]


def steps_chart(analysis: Analysis, context: Context) -> Iterator[b.Block]:
    """The steps as bars, busy and idle by cause, with every step as a table.

    Of more than 120 steps the longest of each run of neighbours. Nothing with fewer than two steps.
    """
    steps = analysis.step_table
    if steps is None or steps.has_ops.sum() < 2 or steps.rule == "whole trace":
        return
    words = {pick.index: pick.word for pick in picks(steps)}
    shown = _shown(steps, frozenset(words))
    bars = tuple(_bar(steps, i, size, words.get(i, "")) for i, size in shown)
    columns = (
        b.Column("step", "step", numeric=True),
        *(b.Column(m.label, m.term, m.unit, basis, numeric=True) for m, basis in _METRICS),
        b.Column("phase", "phase"),
        b.Column("left out because", "excluded"),
    )
    rows = tuple(_step_row(steps, i) for i in range(len(steps)))
    merged = max(size for _, size in shown)
    left_out = sum(1 for reason in steps.excluded if reason)
    yield b.Sentence(
        (
            f"{units.count(len(steps))} ", b.Text("steps", term="step"),
            f" found by {steps.rule}; bars are step times, split into ",
            b.Text("busy", term="busy"), " and ", b.Text("idle", term="idle"), " by cause.",
            f" Each bar is a picked step or the longest of {merged} neighbours."
            if merged > 1 else "",
            f" Pale: {left_out} left out of medians." if left_out else "",
        ),
        "lead",
    )  # fmt: skip
    table = b.Table("every-step", "every step", columns, rows)
    block = b.Bars("steps-bars", "", bars)
    yield b.Chart("steps-chart", "", "steps", (), table, "cause", block)


def _shown(steps: Steps, picked: frozenset[int]) -> list[tuple[int, int]]:
    """The steps to draw (picked, or the longest of neighbours), each with how many it is for."""
    usable = np.flatnonzero(steps.has_ops)
    size = max(1, -(-usable.size // STRIP_STEPS))
    found = []
    for first in range(0, usable.size, size):
        group = usable[first : first + size].tolist()
        own = [i for i in group if i in picked] or group
        found.append((max(own, key=lambda i: int(steps.period_ns[i])), len(group)))
    return found


def _bar(steps: Steps, i: int, size: int, mark: str) -> b.Bar:
    spent = {BUSY.id: (BUSY.label, int(steps.busy_ns[i]))}
    for name, entry in CAUSES.items():
        if name in CAUSE_ORDER:
            spent[name] = (entry.label, int(steps.cause_ns[i, CAUSE_ORDER.index(name)]))
    notes = [f"stands for {size}"] if size > 1 else []
    if steps.excluded[i]:
        notes.append(f"left out of medians: {steps.excluded[i]}")
    parts = (
        b.Segment(key, label, Quantity(ns, NS, TRACED)) for key, (label, ns) in spent.items() if ns
    )
    return b.Bar(
        f"step {i}",
        tuple(parts),
        Quantity(int(steps.period_ns[i]), NS, TRACED),
        weak=bool(steps.excluded[i]),
        key=f"step:{i}",
        mark=mark,
        note=", ".join(notes),
    )


def _step_row(steps: Steps, i: int) -> b.Row:
    values = (Quantity(int(getattr(steps, m.id)[i]), m.unit, basis) for m, basis in _METRICS)
    step, left_out = b.Text(str(i), target=f"step:{i}"), steps.excluded[i]
    cells: tuple[b.Cell, ...] = (step, *values, steps.phase[i], left_out)
    return b.Row(cells, weak=bool(left_out), key=f"step:{i}")


def timeline(
    analysis: Analysis, result: AnalysisResult, context: Context, twin: b.Table
) -> Iterator[b.Block]:
    """The median step drawn out, others and the places of evidence beside it; `twin` in words.

    Analyses on one page share what it may spend on them. Nothing where no GPU work was recorded.
    """
    leads = [
        Place(place.target, place.start_ns, place.end_ns, f"{finding.id}'s evidence")
        for finding in result.findings
        for place in finding.evidence
    ]
    leads += [
        Place(f"gap:{gap.gap}", gap.start_ns, gap.start_ns + gap.dur_ns, f"gap {gap.gap}")
        for gap in result.longest_gaps
    ]
    budget = Budget().shared(len(context.analyses))
    found = views(analysis, budget, leads, say=context.say)
    if found.shown:
        title = found.shown[0].stretch.title
        yield b.Timeline("timeline-view", title, found, twin if twin.rows else None)
    else:
        yield twin


def side_by_side(sides: Sequence[tuple[str, Analysis, int]], context: Context) -> Iterator[b.Block]:
    """One step of each side on one scale, from its start; zooming one zooms the other.

    sides: what to call it, the analysis, and the step.
    """
    windows = []
    for _, analysis, step in sides:
        assert analysis.step_table is not None
        start, end = step_window(analysis, step)
        begins = int(analysis.step_table.gpu_start[step])
        windows.append((begins - start, end - begins))
    lead = max((before for before, _ in windows), default=0)
    length = max((after for _, after in windows), default=0)
    budget = Budget().shared(max(len(sides), len(context.analyses)))
    for word, analysis, step in sides:
        found = step_views(
            analysis, Pick(word, step), budget, lead_ns=lead, span_ns=lead + length,
            say=context.say, brush=f"{context.prefix}pair",
        )  # fmt: skip
        yield b.Timeline(word, found.shown[0].stretch.title, found)
