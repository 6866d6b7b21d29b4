"""A number as people are told it: value, unit, basis and bound, or the reason why it is withheld.

Everything above the measurements speaks in quantities: a renderer never formats a bare number, and
no column can mix units or profiled with unprofiled times.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr

Number: TypeAlias = int | float
Maybe: TypeAlias = int | float | None

# What a value is counted in. Times are nanoseconds whatever unit they are shown in.
NS, COUNT, SHARE, TIMES, POINTS = "ns", "count", "share", "times", "points"
TOKENS_PER_S, STEPS_PER_S = "tok/s", "steps/s"
BYTES, BYTES_PER_S, BITS = "bytes", "bytes/s", "bits"
WATT, MEGAHERTZ, JOULE = "W", "MHz", "J"
UNITS = (
    NS, COUNT, SHARE, TIMES, POINTS, TOKENS_PER_S, STEPS_PER_S, BYTES, BYTES_PER_S, BITS, WATT,
    MEGAHERTZ, JOULE,
)  # fmt: skip

# How a value is known. Empty where no profiler, prediction or assumption could move it.
TRACED, UNPROFILED, GIVEN, PREDICTED, ASSUMED = (
    "traced",
    "unprofiled",
    "given",
    "predicted",
    "assumed",
)
BASES = (TRACED, UNPROFILED, GIVEN, PREDICTED, ASSUMED)

Bound: TypeAlias = Literal["exact", "at_most", "at_least", "about", "range"]
EXACT: Bound = "exact"
AT_MOST: Bound = "at_most"
AT_LEAST: Bound = "at_least"
ABOUT: Bound = "about"
RANGE: Bound = "range"


class Quantity(Struct, frozen=True, omit_defaults=True):
    """One number that is shown.

    value: in `unit`, None where it is withheld or unknown. unit: one of `UNITS`. basis: one of
    `BASES`, or empty. bound: `exact`, `at_most`, `at_least`, `about`, or `range` with `low` and
    `high`. signed: a change, printed with its sign. reason: why there is no value, in a few words.
    """

    value: int | float | None
    unit: str
    basis: str = ""
    bound: Bound = EXACT
    low: int | float | None = None
    high: int | float | None = None
    signed: bool = False
    reason: str = ""

    def __post_init__(self) -> None:
        # msgspec leaves out of JSON what *is* the default; read back, a text only equals it.
        if self.bound == EXACT:
            force_setattr(self, "bound", EXACT)

    @property
    def known(self) -> bool:
        """Whether there is anything to print but the reason."""
        return self.value is not None or self.low is not None


# A sentence whose numbers are not yet put into words.
Words: TypeAlias = str | tuple[str | Quantity, ...]


def ranged(
    value: Number | None, low: Number | None, high: Number | None, unit: str, basis: str = PREDICTED
) -> Quantity:
    """A value with the range that it is known to lie in; `value` None where only that is known."""
    return Quantity(value, unit, basis, RANGE, low, high)


def change(value: Number | None, unit: str, basis: str = "", reason: str = "") -> Quantity:
    """A difference: printed with its sign."""
    return Quantity(value, unit, basis, signed=True, reason=reason)
