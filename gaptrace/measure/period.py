"""Steps of a trace without marks: one per period of a repeating kernel or replay sequence.

Decode repeats itself: the same launch calls in the same order, token after token. The period is
found on the sequence of launch units (a plain launch is its kernel's name, a graph replay the
sequence of names it replays). Layers repeat inside a step too, so the search starts from the
units that occur least often: those of a whole step (embedding, sampling), not those of a layer.
"""

from __future__ import annotations

import numpy as np

from gaptrace.measure.links import Links
from gaptrace.trace import Ints, Trace

# A sequence counts as repeating when this share of units equals the unit one period later.
MATCH_SHARE = 0.95
# A loop inside one step repeats too; steps are what most of the recording is made of.
COVERED_SHARE = 0.5
MIN_PERIODS = 3
MAX_PERIODS_TRIED = 64


def period_starts(trace: Trace, links: Links) -> Ints:
    """Start times in ns of the steps, empty where no sequence repeats at least three times.

    A step begins at the launch call that, among the units seen once per period, comes after the
    largest median idle time: between steps the device waits longest.
    """
    calls, units = _units(trace, links)
    found = _period(units)
    if found is None:
        return np.empty(0, np.int64)
    period, first, count = found
    whole = slice(first, first + period * count)
    inside = units[whole].reshape(count, period)
    steady = (inside == inside[count // 2]).all(axis=0)
    start = trace.start[calls[whole]].reshape(count, period)
    end = start + trace.dur[calls[whole]].reshape(count, period)
    before = np.full(period, np.iinfo(np.int64).min)
    before[1:] = np.median(start[:, 1:] - end[:, :-1], axis=0).astype(np.int64)
    before[0] = int(np.median(start[1:, 0] - end[:-1, -1]))
    column = int(np.argmax(np.where(steady, before, np.iinfo(np.int64).min)))
    places = _extended(units, first + column, period)
    return trace.start[calls[places]].astype(np.int64)


def _extended(units: Ints, place: int, period: int) -> Ints:
    """All places whole periods away from `place` that hold the same unit, without a break."""
    places = np.arange(place % period, units.size, period)
    same = units[places] == units[place]
    own = int(np.flatnonzero(places == place)[0])
    breaks = np.flatnonzero(~same)
    begin = int(breaks[breaks < own].max(initial=-1)) + 1
    end = int(breaks[breaks > own].min(initial=places.size))
    return places[begin:end]


def _units(trace: Trace, links: Links) -> tuple[Ints, Ints]:
    """Launch calls in time order and a code for what each launches.

    A device whose ops have no launch calls is read by its kernels instead.
    """
    known = links.launched
    if not known.any():
        order = np.lexsort((links.row, links.start))
        return links.row[order], trace.name[links.row[order]].astype(np.int64)
    order = np.lexsort((links.row[known], links.start[known], links.launch[known]))
    launch = links.launch[known][order]
    names = trace.name[links.row[known][order]].astype(np.int64)
    calls, first, size = np.unique(launch, return_index=True, return_counts=True)
    signatures: dict[bytes, int] = {}
    units = np.empty(calls.size, np.int64)
    single = size == 1
    units[single] = names[first[single]]
    base = int(names.max()) + 1
    for index in np.flatnonzero(~single):
        key = names[first[index] : first[index] + size[index]].tobytes()
        units[index] = base + signatures.setdefault(key, len(signatures))
    in_time = np.lexsort((calls, trace.start[calls]))
    return calls[in_time], units[in_time]


def _period(units: Ints) -> tuple[int, int, int] | None:
    """Length, first position and number of periods, or None where nothing repeats."""
    values, counts = np.unique(units, return_counts=True)
    order = np.argsort(counts, kind="stable")
    for index in order[: 4 * MAX_PERIODS_TRIED]:
        if counts[index] < MIN_PERIODS:
            continue
        places = np.flatnonzero(units == values[index])
        steps, how_often = np.unique(np.diff(places), return_counts=True)
        period = int(steps[np.argmax(how_often)])
        if how_often.max() < 0.6 * (places.size - 1):
            continue
        first, last = _regular_run(places, period)
        count = (last - first) // period + 1
        if count < MIN_PERIODS:
            continue
        end = min(last + period, units.size)
        same = units[first : end - period] == units[first + period : end]
        if count * period < COVERED_SHARE * units.size:
            continue
        if same.size and same.mean() >= MATCH_SHARE:
            if last + period > units.size:
                count -= 1
            return (period, first, count) if count >= MIN_PERIODS else None
    return None


def _regular_run(places: Ints, period: int) -> tuple[int, int]:
    """First and last of the longest run of places exactly one period apart."""
    breaks = np.flatnonzero(np.diff(places) != period)
    begins = np.concatenate(([0], breaks + 1))
    ends = np.concatenate((breaks, [places.size - 1]))
    longest = int(np.argmax(ends - begins))
    return int(places[begins[longest]]), int(places[ends[longest]])
