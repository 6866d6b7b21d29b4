"""Which decode steps a headline is of: those of one batch size, the one that holds most time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gaptrace.measure.tokens import Tokens
from gaptrace.trace import Ints

# A population speaks for the recording with so many complete steps, or this share of its time.
ENOUGH_STEPS = 5
ENOUGH_TIME = 0.25


@dataclass(frozen=True)
class Population:
    """The steps that figures are of.

    batch: sequences per step, None where it is not known or mixed. mixed: steps of several batch
    sizes together, as no size has enough of them. others: for every other batch size how many
    steps were left out. time_share: this population's share of the time of all of them. excluded:
    why each step is left out of medians, "" for those that count.
    """

    batch: int | None
    mixed: bool
    others: dict[int, int]
    time_share: float
    excluded: tuple[str, ...]


def population_of(
    tokens: Tokens,
    excluded: tuple[str, ...],
    period_ns: Ints,
    open_index: int,
) -> Population:
    """The steps of the batch size that holds most of the time of the steps that count so far.

    Ties: more steps, then the larger batch.
    """
    counted = [i for i, reason in enumerate(excluded) if not reason]
    sizes: dict[int, list[int]] = {}
    for index in counted:
        sizes.setdefault(int(tokens.batch[index]), []).append(index)
    if len(sizes) < 2:
        known = next(iter(sizes), -1)
        return Population(None if known < 0 else known, False, {}, 1.0, excluded)
    time = {size: int(period_ns[members].sum()) for size, members in sizes.items()}
    total = max(sum(time.values()), 1)
    complete = {size: sum(i != open_index for i in members) for size, members in sizes.items()}
    enough = [
        size
        for size in sizes
        if complete[size] >= ENOUGH_STEPS or time[size] >= ENOUGH_TIME * total
    ]
    if not enough:
        others = {size: len(members) for size, members in sizes.items()}
        return Population(None, True, others, 1.0, excluded)
    best = max(enough, key=lambda size: (time[size], len(sizes[size]), size))
    reason = list(excluded)
    for size, members in sizes.items():
        for index in members:
            if size != best:
                reason[index] = f"batch {size}" if size >= 0 else "batch unknown"
    return Population(
        None if best < 0 else best,
        False,
        {size: len(members) for size, members in sizes.items() if size != best},
        time[best] / total,
        tuple(reason),
    )


def mixed_rate(tokens: np.ndarray, period_ns: Ints) -> float | None:
    """Tokens per second over steps of several sizes: all tokens over all time."""
    total = int(period_ns.sum())
    return float(tokens.sum()) * 1e9 / total if total else None
