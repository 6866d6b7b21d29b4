"""An amount of time per token, with how usual it is and what is left of it without a profiler."""

from __future__ import annotations

from dataclasses import dataclass

from gaptrace.quantity import ABOUT, AT_MOST, EXACT, NS, TRACED, UNPROFILED, Quantity


@dataclass(frozen=True)
class Amount:
    """Nanoseconds per token over the usable steps, and in how many of them there were any.

    typical: whether `ns` is the median of the steps; else it is the mean over all of them, as
    fewer than half have any. traced: of idle time that could go, what it is as profiled; `ns` is
    then what is left of it without a profiler. basis: how the step without it is known.
    """

    ns: float
    steps: int
    of: int
    typical: bool
    traced: float | None = None
    basis: str = UNPROFILED

    @property
    def quantity(self) -> Quantity:
        """The amount as a quantity; what could be won is an upper bound."""
        if self.traced is None:
            return Quantity(self.ns, NS, TRACED, EXACT if self.typical else ABOUT)
        return Quantity(self.ns, NS, self.basis if self.ns < self.traced else TRACED, AT_MOST)
