"""What the ranks of one recording decide together, at the entry of the same step."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from gaptrace_collectors.failure import Evidence, Failure, ModeFailureError
from gaptrace_collectors.ranks import RanksError

if TYPE_CHECKING:
    from gaptrace_collectors.device import Device
    from gaptrace_collectors.ranks import Ranks

_LAST_STEPS = 5


def failure_of(said: dict[str, Any]) -> Failure:
    """The Failure that another rank wrote down."""
    evidence = tuple(Evidence(**item) for item in said["evidence"])
    return Failure(said["kind"], said["reason"], evidence)


class Lockstep:
    """Agreement among ranks; each method raises ModeFailureError where one rank has failed."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self._entries: list[float] = []

    def check(self) -> None:
        """Raise where another rank has found that the mode cannot work."""
        if self.ranks.failed is not None:
            raise ModeFailureError(failure_of(self.ranks.failed))

    def any(self, what: str, mine: bool) -> bool:  # noqa: FBT001 (a value, not a switch)
        """Whether it holds on any rank."""
        return any(self._gathered(what, mine))

    def enter_warm_step(self) -> None:
        """Remember when a warm-up step began."""
        self._entries = [*self._entries[-_LAST_STEPS:], time.monotonic()]

    def periods(self, what: str, wanted: int, fewest: int, seconds: float, device: Device) -> int:
        """Timed steps for all ranks: as many as fit into `seconds` on the slowest of them.

        Alone, the clock decides while they run.
        """
        if not self.ranks.several:
            return wanted
        device.synchronize()
        fits = wanted
        if len(self._entries) > 1:
            each = (self._entries[-1] - self._entries[0]) / (len(self._entries) - 1)
            fits = int(seconds / each) if each > 0 else wanted
        slowest: int = min(self._gathered(what, fits))
        return min(wanted, max(fewest, slowest))

    def _gathered(self, what: str, value: Any) -> list[Any]:
        try:
            return self.ranks.gathered(what, value)
        except RanksError as error:
            self.check()
            raise ModeFailureError(Failure("ranks_differ", str(error))) from error
