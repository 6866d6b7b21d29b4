"""Which stretches of a recording a page carries: typical and slow steps, and evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gaptrace import units
from gaptrace.findings.rule import Evidence
from gaptrace.measure.result import Analysis
from gaptrace.measure.steps import Steps
from gaptrace.report.markup import json_text
from gaptrace.report.scope import Scope
from gaptrace.report.timeline_data import Names, Timeline, as_data
from gaptrace.report.windows import Limits, timeline

# Room around a piece of evidence whose step is not on the page, in multiples of its length, and
# the limits of that.
AROUND = 3
MOST_ROOM_NS = 200_000
LEAST_ROOM_NS = 20_000
# A whole recording longer than this is shown by its first part.
LONGEST_NS = 2_000_000_000
LEAD_SHARE = 0.25
# The first view is always there; with more characters than this it is made coarser.
LARGEST_FIRST = 330_000


@dataclass(frozen=True)
class Pick:
    """A step worth looking at: why it was picked and its index."""

    word: str
    index: int


@dataclass(frozen=True)
class View:
    """One stretch shown: a short name for addresses, its timeline, and how it reads as data."""

    id: str
    timeline: Timeline
    step: int | None


@dataclass(frozen=True)
class Budget:
    """How many characters of timeline data a page may carry, and how fine it may be."""

    characters: int = 225_000
    limits: Limits = field(default_factory=Limits)


def picks(steps: Steps | None) -> tuple[Pick, ...]:
    """The median, p95 and longest of the counted steps, each step once; else the first with ops."""
    if steps is None or not len(steps):
        return ()
    counted = np.flatnonzero(steps.counted & steps.has_ops)
    if counted.size == 0:
        counted = np.flatnonzero(steps.has_ops)[:1]
    if counted.size == 0:
        return ()
    order = counted[np.lexsort((counted, steps.period_ns[counted]))]
    if order.size == 1:
        return (Pick("the only one" if steps.counted.any() else "not counted", int(order[0])),)
    ranks = {
        "median": max(1, -(-order.size // 2)),
        "p95": max(1, -(-95 * order.size // 100)),
        "slowest": order.size,
    }
    found: dict[int, list[str]] = {}
    for word, rank in ranks.items():
        found.setdefault(int(order[rank - 1]), []).append(word)
    return tuple(Pick(", ".join(words), index) for index, words in found.items())


def step_window(analysis: Analysis, index: int) -> tuple[int, int]:
    """The stretch to draw for a step: its GPU window, from the launch of its first op if near."""
    steps, device = analysis.step_table, analysis.device
    assert steps is not None
    assert device is not None
    start, end = int(steps.gpu_start[index]), int(steps.gpu_end[index])
    links = device.links
    first = np.flatnonzero((links.start == start) & links.launched)
    launched = int(analysis.trace.start[links.launch[first]].min()) if first.size else start
    near = launched >= start - LEAD_SHARE * max(end - start, 1)
    return (min(launched, start) if near else start), end


def views(analysis: Analysis, budget: Budget | None = None) -> tuple[View, ...]:
    """The views of one analysis that fit the budget, the median step first.

    The picked steps come first, then the steps that findings point at, in the order of the
    findings; where a whole step does not fit, the surroundings of the evidence alone.
    """
    budget = budget or Budget()
    if analysis.device is None:
        return ()
    names, scope = Names(), Scope(analysis)
    chosen: list[View] = []
    left = budget.characters

    def add(view: View) -> None:
        nonlocal left
        size = _size(view)
        if size <= left or not chosen:
            chosen.append(view)
            left -= size

    for pick in picks(analysis.step_table):
        view = _step_view(scope, pick.word, pick.index, names, budget.limits)
        if not chosen and _size(view) > LARGEST_FIRST:
            coarser = budget.limits.times(LARGEST_FIRST / _size(view))
            view = _step_view(scope, pick.word, pick.index, names, coarser)
        add(view)
    if not chosen:
        add(_whole(scope, names, budget.limits))
    density = _size(chosen[0]) / chosen[0].timeline.span_ns
    for finding in analysis.findings:
        for place in finding.evidence:
            if holding(chosen, place.start_ns, place.end_ns) is not None:
                continue
            length = place.end_ns - place.start_ns
            wide = length + 2 * _room(length)
            # As dense as the first view it must fit; drawing it to find out would take time.
            if wide * density <= left:
                add(_around(scope, finding.id, place, names, len(chosen)))
    return tuple(chosen)


def _size(view: View) -> int:
    """How many characters a view takes on a page."""
    return len(json_text(as_data(view.timeline)))


def holding(chosen: Sequence[View], start_ns: int, end_ns: int) -> View | None:
    """The view that shows a stretch of time, None where none shows all of it."""
    for view in chosen:
        first = view.timeline.start_ns
        if first <= start_ns and end_ns <= first + view.timeline.span_ns:
            return view
    return None


def _step_view(scope: Scope, word: str, index: int, names: Names, limits: Limits) -> View:
    analysis = scope.analysis
    steps = analysis.step_table
    assert steps is not None
    start, end = step_window(analysis, index)
    period = units.time(int(steps.period_ns[index]))
    reason = f" ({steps.excluded[index]})" if steps.excluded[index] else ""
    window = (int(steps.gpu_start[index]), int(steps.gpu_end[index]))
    title = (
        f"the whole recording, {period}"
        if steps.rule == "whole trace"
        else f"step {index} · {word} · {period}{reason}"
    )
    if end - start > LONGEST_NS:
        title += f" (its first {units.time(LONGEST_NS)})"
        end = start + LONGEST_NS
    item = timeline(scope, title, start, end, names, step=window, limits=limits)
    return View(f"step{index}", item, index)


def _whole(scope: Scope, names: Names, limits: Limits) -> View:
    links = scope.device.links
    start = int(links.start.min())
    end = min(int(links.end.max()), start + LONGEST_NS)
    title = f"the recording's first {units.time(end - start)}"
    return View("all", timeline(scope, title, start, end, names, limits=limits), None)


def _around(scope: Scope, finding: str, place: Evidence, names: Names, number: int) -> View:
    """A piece of evidence with some room on both sides."""
    room = _room(place.end_ns - place.start_ns)
    title = f"around {finding}'s evidence at {units.time(place.start_ns)}"
    item = timeline(scope, title, place.start_ns - room, place.end_ns + room, names)
    return View(f"place{number}", item, None)


def _room(length: int) -> int:
    """How much to show on either side of a piece of evidence, in ns."""
    return max(min(AROUND * length, MOST_ROOM_NS), length // 4, LEAST_ROOM_NS)
