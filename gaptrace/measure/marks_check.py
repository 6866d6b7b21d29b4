"""Whether marks are what they are taken for: the launch sequence is asked.

Several marks that only together make one repetition are one step; one mark that holds many
repetitions is many steps. A repetition must hold a whole token before marks are changed for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gaptrace.measure.period import PLAIN_SHARE, Repetition
from gaptrace.measure.sequence import Sequence
from gaptrace.trace import Ints

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Check:
    """What was decided about the marks, in words.

    text: "" where nothing was there to check. agrees: the marks are steps, or were made so.
    """

    text: str = ""
    agrees: bool = True


@dataclass(frozen=True, eq=False)
class Checked:
    """start: where the steps begin instead, None where the marks stay. odd: steps among them that
    are unlike the others."""

    check: Check
    start: Ints | None = None
    odd: tuple[int, ...] = ()


def check_marks(
    seq: Sequence,
    repeats: Repetition | None,
    start: Ints,
    end: Ints,
    countable: Bools,
    *,
    may_change: bool,
) -> Checked:
    """What the repetitions say about marks that begin and end at these instants.

    `countable` marks may hold tokens of decode; the others are no evidence either way. Without
    `may_change` marks stay as they are, and a disagreement is only said.
    """
    if repeats is None or start.size == 0 or not countable.any():
        return Checked(Check())
    what = "token" if repeats.tokens else "repetition of the launch sequence"
    begins = seq.start[repeats.first]
    within = (begins >= start[0]) & (begins <= end.max())
    begins, alike = begins[within], repeats.alike[within]
    if begins.size == 0:
        return Checked(Check())

    def changed(text: str, so: str) -> Checked:
        if not may_change:
            return Checked(Check(f"{text}; the marks are kept as steps", agrees=False))
        odd = tuple(np.flatnonzero(~alike).tolist())
        return Checked(Check(f"{text}: {so}"), begins, odd)

    mark_of = np.searchsorted(start, begins, side="right") - 1
    held = np.bincount(mark_of, minlength=start.size)[countable]
    spread = np.searchsorted(begins, start[countable], side="right") - 1
    shared = np.bincount(spread[spread >= 0], minlength=begins.size)
    if (held == 1).mean() >= PLAIN_SHARE:
        return Checked(Check(f"each mark holds one {what}"))
    number, share = _commonest(held)
    if number >= 2 and share >= PLAIN_SHARE and repeats.tokens:
        return changed(f"one mark holds {number} tokens", "steps are tokens")
    number, share = _commonest(shared[:-1] if shared.size > 1 else shared)
    if number >= 2 and share >= PLAIN_SHARE:
        return changed(f"{number} marks make one {what}", f"a step is a {what}")
    if not repeats.tokens:
        return Checked(Check())
    return Checked(
        Check(
            f"the launch sequence shows {begins.size} tokens and there are {held.size} marks, "
            "which do not match",
            agrees=False,
        )
    )


def _commonest(values: Ints) -> tuple[int, float]:
    known, counts = np.unique(values, return_counts=True)
    place = int(np.argmax(counts))
    return int(known[place]), float(counts[place] / values.size)
