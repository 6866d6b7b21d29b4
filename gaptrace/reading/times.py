"""Microsecond texts to integer nanoseconds, exactly as the decimal text says.

Kineto writes microseconds with three decimals. Relative to a recent base they fit a double to the
nanosecond, but rint(ts * 1000) is off by one for a quarter of them: the integer and the fraction
are converted apart. Absolute epoch times do not fit, so they are read as text.
"""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

# Below this many microseconds a double is nearer to a three-decimal text than half a nanosecond.
EXACT_BELOW = float(2**43)
# Leaves room for a difference of two times plus a duration in an int64.
TIME_LIMIT = 2**62
DURATION_LIMIT = 2**61
UNREADABLE = -(2**63)


class NeedsTextError(Exception):
    """A time that a double cannot hold was decoded as one; decode the slice again, as text."""


def _of_float(value: float) -> int | None:
    if not math.isfinite(value):
        return None
    if not abs(value) < EXACT_BELOW:
        raise NeedsTextError
    whole = int(value // 1)
    return whole * 1000 + round((value - whole) * 1000)


def _of_text(text: str | bytes) -> int | None:
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    text = text.strip().strip('"')
    whole, _, fraction = text.partition(".")
    if len(fraction) <= 3 and whole not in ("", "-", "+") and len(text) < 24:
        try:
            return int(whole + fraction.ljust(3, "0"))
        except ValueError:
            pass
    if len(text) > 400:
        return None
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    if not value.is_finite() or value.adjusted() > 18:
        return None
    if value.adjusted() < -6:
        return 0
    return round(value * 1000)


def exact_ns(value: object) -> int | None:
    """One time in ns, or None where the value is no time.

    Raises:
        NeedsTextError: the value is a float that may already have lost its nanoseconds.
    """
    if isinstance(value, msgspec.Raw):
        ns = _of_text(bytes(value))
    elif isinstance(value, str):
        ns = _of_text(value)
    elif isinstance(value, int):
        ns = value * 1000
    elif isinstance(value, float):
        ns = _of_float(value)
    else:
        return None
    return ns if ns is not None and abs(ns) < TIME_LIMIT else None


def nanoseconds(events: Sequence[Any], get: Callable[[Any], Any]) -> npt.NDArray[np.int64]:
    """One time of each event in ns; UNREADABLE where a value is no time.

    Raises:
        NeedsTextError: a float among the values may have lost its nanoseconds.
    """
    count = len(events)
    try:
        us = np.fromiter(map(get, events), np.float64, count)
    except (TypeError, ValueError, OverflowError):
        return _one_by_one(map(get, events), count)
    if count == 0:
        return np.empty(0, np.int64)
    size = float(np.abs(us).max())
    if not size < EXACT_BELOW:
        # Whole epoch microseconds: integers are exact at any size.
        if size < 2**53 and set(map(type, map(get, events))) == {int}:
            return us.astype(np.int64) * 1000
        return _one_by_one(map(get, events), count)
    whole = np.floor(us)
    rest = (us - whole) * 1000
    part = np.rint(rest)
    # A text of three decimals lies within half a spacing of its double; more means finer digits.
    if (np.abs(rest - part) > 501 * np.spacing(np.abs(us)) + 3e-13).any():
        if float in set(map(type, map(get, events))):
            raise NeedsTextError
        return _one_by_one(map(get, events), count)
    return whole.astype(np.int64) * 1000 + part.astype(np.int64)


def _one_by_one(values: Iterable[object], count: int) -> npt.NDArray[np.int64]:
    exact = map(exact_ns, values)
    return np.fromiter((UNREADABLE if ns is None else ns for ns in exact), np.int64, count)
