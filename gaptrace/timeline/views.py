"""Which stretches of a recording a timeline carries: typical and slow steps, and evidence."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gaptrace import units
from gaptrace.measure.result import Analysis
from gaptrace.measure.steps import Steps
from gaptrace.timeline.columns import Names, Stretch, as_data
from gaptrace.timeline.scope import Scope
from gaptrace.timeline.windows import Limits, stretch

# Room around a place whose step is not shown, in multiples of its length, and the limits of that.
AROUND = 3
MOST_ROOM_NS = 200_000
LEAST_ROOM_NS = 20_000
# A whole recording longer than this is shown by its first part.
LONGEST_NS = 2_000_000_000
LEAD_SHARE = 0.25
# How often the first view is made coarser until it fits.
COARSENINGS = 4


@dataclass(frozen=True)
class Pick:
    """A step worth looking at: why it was picked and its index."""

    word: str
    index: int


@dataclass(frozen=True)
class Place:
    """A stretch of time that something on the page leads to: its target, and what is there."""

    target: str
    start_ns: int
    end_ns: int
    what: str = ""


@dataclass(frozen=True)
class View:
    """One stretch shown. id: short name for addresses. listed: offered by name, not just led to."""

    id: str
    stretch: Stretch
    step: int | None
    listed: bool = True


@dataclass(frozen=True)
class Budget:
    """How many characters of timeline data a page may carry, and how fine it may be.

    first: the first view is always there; with more characters than this it is made coarser.
    """

    characters: int = 150_000
    first: int = 220_000
    limits: Limits = field(default_factory=Limits)

    def shared(self, parts: int) -> Budget:
        """This budget for one of several timelines on a page."""
        parts = max(parts, 1)
        return Budget(self.characters // parts, self.first // parts, self.limits)


@dataclass(frozen=True)
class Views:
    """What one timeline shows, the typical step first.

    leads: places that something leads to. brush: timelines with the same word move together.
    """

    names: Names
    shown: tuple[View, ...]
    leads: tuple[Place, ...] = ()
    brush: str = ""

    def holding(self, start_ns: int, end_ns: int) -> View | None:
        """The view that shows a stretch of time, None where none shows all of it."""
        return _holding(self.shown, start_ns, end_ns)

    def places(self) -> dict[str, str]:
        """Where each target lies, as `VIEW|START|END` in trace time; others are left out.

        Steps and gaps that are shown, and what `leads` names.
        """
        found: dict[str, str] = {}
        for view in self.shown:
            if view.step is not None:
                found.setdefault(f"step:{view.step}", f"{view.id}||")
            gaps, origin = view.stretch.gaps, view.stretch.start_ns
            ends = gaps.blocks.start + gaps.blocks.dur + origin
            for number, start, end in zip(
                gaps.number.tolist(), gaps.blocks.start.tolist(), ends.tolist(), strict=True
            ):
                if start >= 0 and end <= origin + view.stretch.span_ns:
                    found.setdefault(f"gap:{number}", f"{view.id}|{start + origin}|{end}")
        for lead in self.leads:
            view_ = self.holding(lead.start_ns, lead.end_ns)
            if view_ is not None:
                found.setdefault(lead.target, f"{view_.id}|{lead.start_ns}|{lead.end_ns}")
        return found


def _holding(shown: Iterable[View], start_ns: int, end_ns: int) -> View | None:
    for view in shown:
        first = view.stretch.start_ns
        if first <= start_ns and end_ns <= first + view.stretch.span_ns:
            return view
    return None


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


def views(
    analysis: Analysis,
    budget: Budget | None = None,
    leads: Sequence[Place] = (),
    *,
    say: Callable[[str], str] = str,
    brush: str = "",
) -> Views:
    """The views of one analysis that fit the budget, the median step first.

    The picked steps come first, then the surroundings of the places that something leads to, in
    their order. say: what is done to every name. Empty where no GPU work was recorded.
    """
    budget = budget or Budget()
    names = Names(say)
    if analysis.device is None:
        return Views(names, ())
    scope = Scope(analysis)
    chosen: list[View] = []
    left = budget.characters

    def add(view: View) -> None:
        nonlocal left
        size = _size(view)
        if size <= left or not chosen:
            chosen.append(view)
            left -= size

    for pick in picks(analysis.step_table):
        view = step_view(scope, pick, names, budget.limits)
        for _ in range(COARSENINGS if not chosen else 0):
            if (size := _size(view)) <= budget.first:
                break
            coarser = _held(view.stretch).times(0.9 * budget.first / size)
            view = step_view(scope, pick, names, coarser)
        add(view)
    if not chosen:
        add(whole_view(scope, names, budget.limits))
    density = _size(chosen[0]) / chosen[0].stretch.span_ns
    for place in leads:
        if _holding(chosen, place.start_ns, place.end_ns) is not None:
            continue
        length = place.end_ns - place.start_ns
        # As dense as the first view it must fit; drawing it to find out would take time.
        if (length + 2 * _room(length)) * density <= left:
            add(_around(scope, place, names, len(chosen)))
    return Views(names, tuple(chosen), tuple(leads), brush)


def step_views(
    analysis: Analysis,
    pick: Pick,
    budget: Budget | None = None,
    *,
    lead_ns: int = 0,
    span_ns: int = 0,
    say: Callable[[str], str] = str,
    brush: str = "",
) -> Views:
    """One chosen step alone, from at least `lead_ns` before it on, with room for `span_ns`.

    With the same lead and span, two have one scale and the same time after the step's start.
    """
    names = Names(say)
    view = step_view(Scope(analysis), pick, names, (budget or Budget()).limits, lead_ns)
    span_ns = max(span_ns, view.stretch.span_ns)
    view = replace(view, stretch=replace(view.stretch, span_ns=span_ns))
    return Views(names, (view,), brush=brush)


def _size(view: View) -> int:
    """How many characters a view takes on a page."""
    return len(json.dumps(as_data(view.stretch), separators=(",", ":")))


def _held(item: Stretch) -> Limits:
    """The limits that a stretch just meets."""
    lanes = item.host
    return Limits(
        sum(len(lane.blocks) for lane in item.gpu),
        max((len(lane.ops) for lane in lanes), default=0),
        max((len(lane.frames) for lane in lanes), default=0),
        max((len(item.parts), *(len(lane.states) for lane in lanes))),
    )


def step_view(
    scope: Scope, pick: Pick, names: Names, limits: Limits | None = None, lead_ns: int = 0
) -> View:
    """One step drawn out, from at least `lead_ns` before its first op on."""
    steps, index = scope.analysis.step_table, pick.index
    assert steps is not None
    start, end = step_window(scope.analysis, index)
    start = min(start, int(steps.gpu_start[index]) - lead_ns)
    period = units.time(int(steps.period_ns[index]))
    reason = f" ({steps.excluded[index]})" if steps.excluded[index] else ""
    title = (
        f"the whole recording, {period}"
        if steps.rule == "whole trace"
        else " · ".join(filter(None, (f"step {index}", pick.word, f"{period}{reason}")))
    )
    if end - start > LONGEST_NS:
        title += f" (its first {units.time(LONGEST_NS)})"
        end = start + LONGEST_NS
    window = (int(steps.gpu_start[index]), int(steps.gpu_end[index]))
    item = stretch(scope, title, start, end, names, step=window, limits=limits)
    return View(f"step{index}", item, index)


def whole_view(scope: Scope, names: Names, limits: Limits) -> View:
    """The recording from its first GPU op on, at most its first two seconds."""
    links = scope.device.links
    start = int(links.start.min())
    end = min(int(links.end.max()), start + LONGEST_NS)
    title = f"the recording's first {units.time(end - start)}"
    return View("all", stretch(scope, title, start, end, names, limits=limits), None)


def _around(scope: Scope, place: Place, names: Names, number: int) -> View:
    """A place with some room on both sides."""
    room = _room(place.end_ns - place.start_ns)
    title = f"around {place.what or place.target} at {units.time(place.start_ns)}"
    item = stretch(scope, title, place.start_ns - room, place.end_ns + room, names)
    return View(f"place{number}", item, None, listed=False)


def _room(length: int) -> int:
    """How much to show on either side of a place, in ns."""
    return max(min(AROUND * length, MOST_ROOM_NS), length // 4, LEAST_ROOM_NS)
