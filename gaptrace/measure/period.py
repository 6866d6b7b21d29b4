"""What repeats in the launch sequence: whole tokens where they can be told, else whole periods.

Decode repeats itself: the same ops in the same order, token after token, whatever kernels they
choose. Layers repeat inside a token too. So a repetition is only taken for tokens when every one
of its parts holds a whole token: the embedding look-up and the choice of the next token. Of
repetitions that do, the finest is a token; of sequences without such signs the coarsest is taken,
as the units that occur least often are those of a whole step. A token begins after the last one
was picked and before its own embedding is looked up, so that none shares a part with the prompt.
Where drafts are checked, an iteration ends with the count of those that are accepted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gaptrace.measure.sequence import Sequence
from gaptrace.trace import Ints

Bools = npt.NDArray[np.bool_]

# A sequence counts as repeating when this share of units equals the unit one period later.
MATCH_SHARE = 0.95
# A loop inside one step repeats too; steps are what most of the recording is made of.
COVERED_SHARE = 0.5
MIN_PERIODS = 3
MAX_PERIODS_TRIED = 64
# Of the parts of a repetition at least this share is alike ...
PLAIN_SHARE = 0.9
# ... and two parts are alike when they have this share of their units in common.
ALIKE_SHARE = 0.9
# Tokens may be a lesser part of a recording: loading, warming up, prefill.
TOKENS_COVERED = 0.2
MAX_CLASSES = 64
# Tokens at the ends of a recording that may lack what all others do.
ENDS = 2


@dataclass(frozen=True, eq=False)
class Repetition:
    """Where the parts of a repetition begin: indices into the sequence, ascending.

    sign: the call of each part that shows what it is, such as its look-up of an embedding.
    alike: for each part whether it is like most others; the last one, whose end is not known,
    counts as alike. tokens: every part holds a whole token. drafts: a part is an iteration that
    checks drafts, and makes one token or more.
    """

    first: Ints
    sign: Ints
    alike: Bools
    tokens: bool
    drafts: bool = False


def tokens_of(seq: Sequence) -> Repetition | None:
    """The tokens of a sequence, None where no repetition of whole tokens is plain."""
    if len(seq) == 0:
        return None
    checked = _checked_drafts(seq)
    if checked is not None:
        return checked
    wanted = [
        signs
        for signs in (
            (seq.head, seq.pick),
            (seq.head, seq.weak_pick),
            (seq.head, seq.copy),
            (seq.pick, seq.copy),
        )
        if all(sign.any() for sign in signs)
    ]
    instances = seq.instances
    everything = np.arange(len(seq))
    for signs in wanted:
        for places, codes in ((instances, seq.op_name), (everything, seq.kernels)):
            found = _finest(seq, places, codes[places], signs)
            if found is not None:
                return found
    return None


def periods_of(seq: Sequence) -> Repetition | None:
    """The coarsest repetition of a sequence, whatever it may be; None where there is none."""
    instances = seq.instances
    for places, codes in (
        (np.arange(len(seq)), seq.kernels),
        (instances, seq.op_name[instances]),
    ):
        found = _period(codes)
        if found is not None:
            first = places[_first_of_period(seq, places, codes, *found)]
            return Repetition(first, first, np.ones(first.size, np.bool_), tokens=False)
    return None


# Tokens --------------------------------------------------------------------------------------


def _finest(
    seq: Sequence, places: Ints, codes: Ints, signs: tuple[Bools, ...]
) -> Repetition | None:
    """The repetition with most parts of which each holds all signs."""
    _, code, counts = np.unique(codes, return_inverse=True, return_counts=True)
    hashed = _Hashes(code)
    # How often each sign was seen before each place.
    seen = [np.concatenate(([0], np.cumsum(sign)))[places] for sign in signs]
    before = _pauses(seq, places)
    most = min(int(sign.sum()) for sign in signs)
    finest = 0
    best: tuple[tuple[bool, int, float], Ints] | None = None
    by_count = np.argsort(code, kind="stable")
    ends = np.cumsum(counts)
    for index in np.argsort(-counts, kind="stable").tolist():
        count = int(counts[index])
        if count > most:
            continue
        # What only some tokens do at the ends of a recording may still begin one.
        if count < max(2, finest - ENDS):
            break
        at = by_count[ends[index] - count : ends[index]]
        if (at[-1] - at[0]) < TOKENS_COVERED * places.size * (count - 1) / count:
            continue
        whole = np.logical_and.reduce([np.diff(total[at]) > 0 for total in seen])
        if whole.mean() < PLAIN_SHARE:
            continue
        alike = _alike(code, hashed, at)
        # The first part may be a prefill, which need not be like the others.
        if alike.sum() < max(1, PLAIN_SHARE * (alike.size - 1)):
            continue
        finest = max(finest, count)
        key = (_in_order(places[at], signs), count, float(np.median(before[at[1:]])))
        if best is None or key > best[0]:
            best = (key, at)
    if best is None:
        return None
    at = _whole_ends(best[1], seen, np.array([int(sign.sum()) for sign in signs]))
    if at.size < 2:
        return None
    whole = np.logical_and.reduce([np.diff(total[at]) > 0 for total in seen])
    alike = _alike(code, hashed, at) & whole
    first = places[at]
    return Repetition(first, _next(signs[0], first), np.append(alike, True), tokens=True)


def _in_order(first: Ints, signs: tuple[Bools, ...]) -> bool:
    """Whether parts that begin there mostly show the signs in order, the first one first."""
    begin, end = (_next(sign, first) for sign in signs)
    return bool((begin <= end).mean() >= PLAIN_SHARE)


def _next(sign: Bools, at: Ints) -> Ints:
    """The first call with the sign at or after each of these; the number of calls where none is."""
    shown = np.append(np.flatnonzero(sign), sign.size)
    return np.asarray(shown[np.searchsorted(shown, at)])


def _whole_ends(at: Ints, seen: list[Ints], total: Ints) -> Ints:
    """The places with what precedes the first, and without the last, if a whole token does or not.

    The first token seen begins with its own sign: often it is a prefill that ends where the
    repetition begins. Calls after the last token end it and are no token.
    """
    if any(int(count[at[-1]]) >= int(n) for count, n in zip(seen, total, strict=True)):
        at = at[:-1]
    if at.size == 0:
        return at
    begins = int(np.searchsorted(seen[0], 1, side="left")) - 1
    if 0 <= begins < at[0] and all(count[at[0]] > count[begins] for count in seen):
        at = np.append(begins, at)
    return at


def _checked_drafts(seq: Sequence) -> Repetition | None:
    """Iterations that end with a count of accepted drafts, None where there are not several.

    Each begins with the first embedding that is looked up after the count before it. They need
    not be alike, as the number of drafts may differ.
    """
    counts = np.flatnonzero(seq.accept)
    begins = passes(seq)
    if begins.size < 2 or counts.size < 2:
        return None
    following = np.searchsorted(begins, counts)
    first = np.unique(np.append(begins[0], begins[following[following < begins.size]]))
    if int(np.median(np.diff(np.searchsorted(begins, first)))) == 1:
        # Drafts that cost no pass may be missing now and then, and nothing is counted then.
        first = begins
    return Repetition(first, first, np.ones(first.size, np.bool_), tokens=True, drafts=True)


def passes(seq: Sequence) -> Ints:
    """Where passes of a model begin: the first look-up of an embedding after tokens were picked."""
    events = np.flatnonzero(seq.head | seq.pick)
    head = seq.head[events]
    begins = head & np.concatenate(([True], ~head[:-1]))
    picked = np.flatnonzero(~head)
    # What follows the last choice is no pass.
    return np.asarray(events[begins & (np.arange(events.size) < picked.max(initial=-1))])


def _pauses(seq: Sequence, places: Ints) -> Ints:
    """How long before each place no launch call began or ran."""
    before = np.zeros(places.size, np.int64)
    inner = np.maximum(places - 1, 0)
    before[1:] = (seq.start[places] - seq.end[inner])[1:]
    return before


class _Hashes:
    """Equality of stretches of a sequence, whatever their place."""

    def __init__(self, code: Ints) -> None:
        base = np.uint64(0x9E3779B97F4A7C15 | 1)
        inverse = np.uint64(pow(int(base), -1, 1 << 64))
        with np.errstate(over="ignore"):
            power = np.concatenate(([np.uint64(1)], np.full(code.size, base))).astype(np.uint64)
            self._power = np.multiply.accumulate(power)
            back = np.concatenate(([np.uint64(1)], np.full(code.size, inverse))).astype(np.uint64)
            self._inverse = np.multiply.accumulate(back)
            # Codes are mixed first, so that small codes do not cancel each other.
            mixed = (code.astype(np.uint64) + np.uint64(1)) * np.uint64(0xBF58476D1CE4E5B9)
            mixed ^= mixed >> np.uint64(29)
            self._sum = np.concatenate(
                ([np.uint64(0)], np.add.accumulate(mixed * self._power[:-1]))
            )

    def of(self, start: Ints, stop: Ints) -> npt.NDArray[np.uint64]:
        """One number for each stretch [start, stop); equal ones are the same sequence."""
        with np.errstate(over="ignore"):
            return np.asarray((self._sum[stop] - self._sum[start]) * self._inverse[start])


def _alike(code: Ints, hashed: _Hashes, at: Ints) -> Bools:
    """For each part between two places whether it is like the commonest one."""
    classes, which, counts = np.unique(
        hashed.of(at[:-1], at[1:]), return_inverse=True, return_counts=True
    )
    common = int(np.argmax(counts))
    alike = np.zeros(classes.size, np.bool_)
    alike[common] = True
    if counts[common] < (at.size - 1) and classes.size <= MAX_CLASSES + at.size // 4:
        model = _contents(code, at, int(np.flatnonzero(which == common)[0]))
        for index in range(classes.size):
            if not alike[index]:
                other = _contents(code, at, int(np.flatnonzero(which == index)[0]))
                shared = (model & other).total()
                alike[index] = 2 * shared >= ALIKE_SHARE * (model.total() + other.total())
    return np.asarray(alike[which])


def _contents(code: Ints, at: Ints, part: int) -> Counter[int]:
    return Counter(code[at[part] : at[part + 1]].tolist())


# Periods -------------------------------------------------------------------------------------


def _first_of_period(
    seq: Sequence, places: Ints, codes: Ints, period: int, first: int, count: int
) -> Ints:
    """Where each period begins: at the unit, seen once per period, after the longest pause."""
    whole = slice(first, first + period * count)
    inside = codes[whole].reshape(count, period)
    steady = (inside == inside[count // 2]).all(axis=0)
    rows = places[whole]
    start, end = seq.start[rows].reshape(count, period), seq.end[rows].reshape(count, period)
    before = np.full(period, np.iinfo(np.int64).min)
    before[1:] = np.median(start[:, 1:] - end[:, :-1], axis=0).astype(np.int64)
    before[0] = int(np.median(start[1:, 0] - end[:-1, -1]))
    column = int(np.argmax(np.where(steady, before, np.iinfo(np.int64).min)))
    return _extended(codes, first + column, period)


def _extended(units: Ints, place: int, period: int) -> Ints:
    """All places whole periods away from `place` that hold the same unit, without a break."""
    places = np.arange(place % period, units.size, period)
    same = units[places] == units[place]
    own = int(np.flatnonzero(places == place)[0])
    breaks = np.flatnonzero(~same)
    begin = int(breaks[breaks < own].max(initial=-1)) + 1
    end = int(breaks[breaks > own].min(initial=places.size))
    return places[begin:end]


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
