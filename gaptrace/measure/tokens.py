"""Tokens and sequences of each step: from the user, the run's manifest, the label, else one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gaptrace.measure.kind import Kind
from gaptrace.measure.labels import DECODE
from gaptrace.measure.marks import Marks
from gaptrace.results.analysis import TOKENS_ASSUMED
from gaptrace.trace import Ints

GIVEN, MANIFEST, LABEL, ASSUMED, BOUNDS, DRAFTS = (
    "--tokens-per-step",
    "run manifest",
    "label",
    TOKENS_ASSUMED,
    "bounds from labels",
    "bounds from drafts",
)
ACCEPTED = "--accepted"
LARGEST = 1 << 40


@dataclass(frozen=True, eq=False)
class Tokens:
    """What is known about the tokens of each step.

    tokens: 1 where they are not known. low, high: the fewest and the most, where labels or the
    passes that make drafts tell them as bounds only; 0 for no bound. batch: sequences in the step,
    -1 where unknown. source: where `tokens` is from; with `bounds from ...` it is not known.
    """

    tokens: npt.NDArray[np.float64] | Ints
    low: Ints
    high: Ints
    batch: Ints
    source: str

    @property
    def known(self) -> bool:
        """Whether the tokens of a step are one number."""
        return self.source not in (BOUNDS, DRAFTS)


def tokens_of_steps(
    marks: Marks,
    kind: Kind,
    given: float | None,
    manifest: int | None,
    accepted: float | None,
) -> Tokens:
    """Tokens of each step by the first source that has any; batch by the label.

    `accepted` draft tokens per sequence and iteration, and the one that the target model adds.
    """
    count = len(marks)
    labels = marks.label
    batch = np.array([_size(label.batch, -1) for label in labels], np.int64)
    low = np.array([_size(label.tokens_low, 0) for label in labels], np.int64)
    high = np.array([_size(label.tokens_high, 0) for label in labels], np.int64)
    decode = [i for i, phase in enumerate(kind.phase) if phase == DECODE]
    bounded = [i for i in decode if low[i] and low[i] != high[i]]
    ones = np.ones(count, np.int64)
    if given is not None:
        return Tokens(_all(count, given), low, high, batch, GIVEN)
    if manifest is not None:
        return Tokens(_all(count, manifest), low, high, batch, MANIFEST)
    if bounded and accepted is not None:
        tokens = np.array([max(int(n), 1) * (1 + accepted) for n in batch], np.float64)
        return Tokens(tokens, low, high, batch, ACCEPTED)
    if bounded:
        return Tokens(ones, low, high, batch, DRAFTS if marks.drafts else BOUNDS)
    if any(low[i] for i in decode):
        return Tokens(np.maximum(low, 1), low, high, batch, LABEL)
    return Tokens(ones, low, high, batch, ASSUMED)


def _size(number: int | None, unknown: int) -> int:
    """A number that a label names; one that no batch can have is none."""
    return unknown if number is None or number > LARGEST else number


def _all(count: int, tokens: float) -> npt.NDArray[np.float64] | Ints:
    if float(tokens).is_integer():
        return np.full(count, int(tokens), np.int64)
    return np.full(count, tokens, np.float64)
