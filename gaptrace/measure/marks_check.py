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
    begins, shown, alike = seq.start[repeats.first], seq.start[repeats.sign], repeats.alike
    # The sampler of the last step may follow its mark.
    after = end.max() + (int(np.median(np.diff(start))) if start.size > 1 else 0)
    # The repetition within which the first mark begins is counted for marks that only make a part.
    first = max(int(np.searchsorted(begins, start[0], side="right")) - 1, 0)
    around = np.arange(begins.size) >= first
    around &= begins <= after
    # What follows the choice of a token may lie before the next mark and begin that mark's token.
    within = around & (shown >= start[0])
    if not within.any():
        return Checked(Check())

    def changed(text: str, so: str, chosen: Bools) -> Checked:
        if not may_change:
            return Checked(Check(f"{text}; the marks are kept as steps", agrees=False))
        odd = tuple(np.flatnonzero(~alike[chosen]).tolist())
        return Checked(Check(f"{text}: {so}"), begins[chosen], odd)

    mark_of = np.searchsorted(start, shown[within], side="right") - 1
    held = np.bincount(mark_of, minlength=start.size)[countable]
    if _mostly(held == 1):
        return Checked(Check(f"each mark holds one {what}"))
    number, share = _commonest(held)
    if number >= 2 and share >= PLAIN_SHARE and repeats.tokens:
        inside = within & (begins <= end.max())
        return changed(f"one mark holds {number} tokens", "steps are tokens", inside)
    part_of = np.searchsorted(begins[around], start[countable], side="right") - 1
    shared = np.bincount(part_of[part_of >= 0], minlength=int(around.sum()))
    number, share = _commonest(shared[:-1] if shared.size > 1 else shared)
    if number >= 2 and share >= PLAIN_SHARE:
        return changed(f"{number} marks make one {what}", f"a step is a {what}", around)
    if not may_change:
        return Checked(Check())
    if not repeats.tokens:
        return Checked(Check())
    return Checked(
        Check(
            f"the launch sequence shows {int(within.sum())} tokens and there are {held.size} "
            "marks, which do not match",
            agrees=False,
        )
    )


def _mostly(right: Bools) -> bool:
    """Whether nearly all are right; the first and the last may be cut off."""
    return right.mean() >= PLAIN_SHARE or (right.size >= 4 and bool(right[1:-1].all()))


def _commonest(values: Ints) -> tuple[int, float]:
    known, counts = np.unique(values, return_counts=True)
    place = int(np.argmax(counts))
    return int(known[place]), float(counts[place] / values.size)
