"""Median, p5 and p95 by nearest rank, so that the statistic of integers is one of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


def share(part: float | None, whole: float | None) -> float | None:
    """`part` over `whole`; None where either is not known, or there is no whole."""
    return part / whole if part is not None and whole else None


@dataclass(frozen=True)
class Spread:
    """Median, 5th and 95th percentile of n values; None where there was no value."""

    median: float | int | None
    p5: float | int | None
    p95: float | int | None
    n: int


def nearest_rank(ordered: npt.NDArray[np.generic], percent: float) -> float | int:
    """The smallest value with at least `percent` % of the values at or below it.

    `ordered` is sorted and not empty. At 50 % of an even number it is the lower middle value.
    """
    rank = max(1, math.ceil(percent / 100 * ordered.size))
    value: float | int = ordered[rank - 1].item()
    return value


def median_place(values: Sequence[float]) -> int:
    """Where the median of the values stands, as `spread` has it; of equal values the first.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("no values, so no median")
    return values.index(sorted(values)[(len(values) - 1) // 2])


def spread(values: npt.ArrayLike) -> Spread:
    """The spread of the values; NaN entries are absent values and not counted."""
    array = np.asarray(values)
    if array.dtype.kind == "f":
        array = array[~np.isnan(array)]
    if array.size == 0:
        return Spread(None, None, None, 0)
    ordered = np.sort(array)
    return Spread(
        nearest_rank(ordered, 50), nearest_rank(ordered, 5), nearest_rank(ordered, 95), array.size
    )
