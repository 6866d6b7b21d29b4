"""Pictures that ask the trace: the strip of steps, and one step drawn out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gaptrace import units
from gaptrace.document.blocks import (
    Bar,
    Bars,
    Cell,
    Chart,
    Column,
    Row,
    Segment,
    Table,
    Text,
    Timeline,
)
from gaptrace.measure.gaps import CAUSES as CAUSE_ORDER
from gaptrace.measure.result import Analysis
from gaptrace.measure.steps import Steps
from gaptrace.quantity import NS, TRACED, Quantity
from gaptrace.timeline.columns import Stretch
from gaptrace.timeline.views import Budget, Place, picks, views
from gaptrace.vocabulary import BUSY, CAUSES, STEP_METRICS

STRIP_STEPS, GAPS_LISTED, CAUSES_LISTED = 120, 30, 3
_STEP_COLUMNS = ("period_ns", "busy_ns", "idle_ns", "host_dispatch_ns", "kernels", "launches")


def steps_chart(analysis: Analysis, prefix: str = "") -> Chart | None:
    """The steps as bars, busy and idle by cause, with every step as a table.

    Of more than 120 steps the longest of each run of neighbours. None with fewer than two steps.
    """
    steps = analysis.step_table
    if steps is None or steps.has_ops.sum() < 2 or steps.rule == "whole trace":
        return None
    words = {pick.index: pick.word for pick in picks(steps)}
    bars = tuple(_bar(steps, i, size, words.get(i, "")) for i, size in _longest(steps))
    table = Table(
        f"{prefix}every-step",
        "every step",
        (
            Column("step", "step", numeric=True),
            *(
                Column(metric.label, metric.term, metric.unit, TRACED, numeric=True)
                if metric.unit == NS
                else Column(metric.label, metric.term, metric.unit, numeric=True)
                for metric in (STEP_METRICS[name] for name in _STEP_COLUMNS)
            ),
            Column("phase", "phase"),
            Column("left out because", "excluded"),
        ),
        tuple(_step_row(steps, i) for i in range(len(steps))),
    )
    merged = max(size for _, size in _longest(steps))
    note = (f"Each bar is the longest of {merged} neighbours.",) if merged > 1 else ()
    block = Bars(f"{prefix}steps-bars", "steps", bars, notes=note)
    return Chart(f"{prefix}steps-chart", f"{len(steps)} steps", "steps", (), table, "cause", block)


def _longest(steps: Steps) -> list[tuple[int, int]]:
    """The steps to draw, each with how many neighbours it stands for."""
    usable = np.flatnonzero(steps.has_ops)
    size = max(1, -(-usable.size // STRIP_STEPS))
    groups = [usable[first : first + size] for first in range(0, usable.size, size)]
    return [(int(group[np.argmax(steps.period_ns[group])]), int(group.size)) for group in groups]


def _bar(steps: Steps, i: int, size: int, mark: str) -> Bar:
    spent = {BUSY.id: (BUSY.label, int(steps.busy_ns[i]))}
    for name, entry in CAUSES.items():
        if name in CAUSE_ORDER:
            spent[name] = (entry.label, int(steps.cause_ns[i, CAUSE_ORDER.index(name)]))
    notes = [f"the longest of {size}"] if size > 1 else []
    if steps.excluded[i]:
        notes.append(f"left out of medians: {steps.excluded[i]}")
    return Bar(
        f"step {i}",
        tuple(
            Segment(key, label, Quantity(ns, NS, TRACED))
            for key, (label, ns) in spent.items()
            if ns
        ),
        Quantity(int(steps.period_ns[i]), NS, TRACED),
        weak=bool(steps.excluded[i]),
        key=f"step:{i}",
        mark=mark,
        note=", ".join(notes),
    )


def _step_row(steps: Steps, i: int) -> Row:
    cells: list[Cell] = [Text(str(i), target=f"step:{i}")]
    for name in _STEP_COLUMNS:
        metric = STEP_METRICS[name]
        value = int(getattr(steps, name)[i])
        cells.append(Quantity(value, metric.unit, TRACED if metric.unit == NS else ""))
    cells += [steps.phase[i], steps.excluded[i]]
    return Row(tuple(cells), weak=bool(steps.excluded[i]), key=f"step:{i}")


def timeline(
    analysis: Analysis,
    budget: Budget | None = None,
    *,
    prefix: str = "",
    say: Callable[[str], str] = str,
    brush: str = "",
) -> Timeline | None:
    """The median step drawn out, others beside it, and the longest gaps of it as a table.

    budget: what the page may spend on it; `Budget().shared(n)` for each of several. say: what is
    done to every name, to leave private parts out. brush: timelines with the same word zoom
    together. None where no GPU work was recorded.
    """
    leads = [
        Place(target, place.start_ns, place.end_ns, f"{finding.id}'s evidence")
        for finding in analysis.result.findings
        for place in finding.evidence
        for target in (f"time:{place.start_ns}-{place.end_ns}", f"row:{place.row}")
        if target != "row:None"
    ]
    found = views(analysis, budget, leads, say=say, brush=brush)
    if not found.shown:
        return None
    first = found.shown[0].stretch
    withheld = analysis.quality.withholds("causes")
    table = longest_gaps(first, f"{prefix}gaps", causes=not withheld)
    return Timeline(f"{prefix}timeline-view", first.title, found, table)


def longest_gaps(item: Stretch, id: str, *, causes: bool = True) -> Table | None:  # noqa: A002
    """The longest gaps of the step drawn, which is also what its drawing says in numbers."""
    own = item.own_gaps
    if own.size == 0:
        return None
    dur = item.gaps.blocks.dur
    longest = own[np.argsort(-dur[own], kind="stable")][:GAPS_LISTED]
    rest = int(own.size - longest.size)
    count = (
        f"the {GAPS_LISTED} longest of {units.count(own.size)}" if rest else units.count(own.size)
    )
    return Table(
        id,
        f"{count} gaps, with causes and neighbours",
        (
            Column("gap", "gap"),
            Column("idle", "idle", NS, TRACED, numeric=True),
            Column("causes", "cause"),
            Column("after"),
            Column("before"),
            Column("launch call", "launch-call"),
        ),
        tuple(_gap_row(item, i, causes=causes) for i in longest.tolist()),
    )


def _gap_row(item: Stretch, i: int, *, causes: bool) -> Row:
    names, gaps = item.names.texts, item.gaps
    gap, call = int(gaps.number[i]), int(gaps.call[i])
    spent = gaps.cause_ns[i]
    order = [c for c in np.argsort(-spent, kind="stable").tolist() if spent[c] > 0]
    said = ", ".join(
        f"{CAUSES[CAUSE_ORDER[c]].label} {units.time(int(spent[c]))}" for c in order[:CAUSES_LISTED]
    )
    more = f", {len(order) - CAUSES_LISTED} more" if len(order) > CAUSES_LISTED else ""
    return Row(
        (
            Text(str(gap), target=f"gap:{gap}"),
            Quantity(int(gaps.blocks.dur[i]), NS, TRACED),
            f"{said}{more}" if causes else "withheld",
            _name(names, int(gaps.before[i])),
            _name(names, int(gaps.blocks.name[i])),
            _name(names, int(item.calls.name[call])) if call >= 0 else "",
        ),
        key=CAUSE_ORDER[order[0]] if causes and order else "",
    )


def _name(names: list[str], i: int) -> Text:
    return Text(names[i] if i >= 0 else "", "name")
