"""The typed numbers of a finding: value, unit, basis and bound."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gaptrace import units

if TYPE_CHECKING:
    from collections.abc import Callable

_TEXT: dict[str, Callable[[float], str]] = {
    "ns": units.time,
    "count": units.count,
    "share": partial(units.share, whole=1),
    "bytes": units.size,
    "bytes/s": units.bandwidth,
    "x": partial(units.digits, significant=2),
}


@dataclass(frozen=True)
class Quantity:
    """One number of a finding.

    unit: `ns`, `count`, `share` (of 1), `bytes`, `bytes/s`, `x` (a ratio), `W`, `J`, `MHz`, `°C`
    or `s`; `/token` or `/step` behind it where the number is of one token or step. basis:
    `traced`, `unprofiled` (the recorder's own, without a profiler), `given`, `predicted` or
    `assumed`. bound: `exact`, `at most`, `at least` or `about`.
    """

    value: float
    unit: str
    basis: str = "traced"
    bound: str = "exact"

    @property
    def text(self) -> str:
        """The number for people, without `per token`, which is the sentence's to say."""
        unit = self.unit.removesuffix("/token").removesuffix("/step")
        write = _TEXT.get(unit)
        return write(self.value) if write else f"{units.digits(self.value)} {unit}"


def quantity(
    value: float | None, unit: str, basis: str = "traced", bound: str = "exact"
) -> Quantity | None:
    """A quantity, or None where its value is not known."""
    return None if value is None else Quantity(float(value), unit, basis, bound)


@dataclass(frozen=True)
class Amount:
    """Nanoseconds per token over the usable steps, and in how many of them there were any.

    typical: whether `ns` is the median of the steps; else it is the mean over all of them, as
    fewer than half have any. traced: of idle time that could go, what it is as profiled; `ns` is
    then what is left of it without a profiler.
    """

    ns: float
    steps: int
    of: int
    typical: bool
    traced: float | None = None

    def quantity(self, unit: str = "ns") -> Quantity:
        """The amount as a quantity; what could be won is an upper bound."""
        if self.traced is None:
            return Quantity(self.ns, unit, bound="exact" if self.typical else "about")
        return Quantity(
            self.ns, unit, "unprofiled" if self.ns < self.traced else "traced", "at most"
        )
