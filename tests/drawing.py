"""What a drawing is: events in file order, and what must come out of them, both as data.

Most drawings begin with `FIRST`, a kernel that runs over [5, 10), and ask about the gap that opens
at 10. Times are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.builders import Event, kernel, launch

Parts = Mapping[str, int]


@dataclass(frozen=True)
class GapRow:
    """One expected gap; causes that `parts` does not name are 0."""

    start: int
    end: int
    parts: Parts
    drained: bool = False


@dataclass(frozen=True)
class Drawing:
    """Events in file order and what must come out of them, by device id.

    In a file of several ranks a device id reads `TP00 0`, as ranks number their devices alone.

    `figures` holds keys of `devices[]`, not all of them for each drawing; `gaps` is complete.
    """

    name: str
    events: tuple[Event, ...]
    gaps: Mapping[str, tuple[GapRow, ...]]
    figures: Mapping[str, Parts] = field(default_factory=dict)

    def causes(self, device: str) -> dict[str, int]:
        """Idle by cause of a device, only the causes that occur."""
        total: dict[str, int] = {}
        for row in self.gaps[device]:
            for cause, ns in row.parts.items():
                total[cause] = total.get(cause, 0) + ns
        return total


def one_device(name: str, *events: Event, gaps: tuple[GapRow, ...], **figures: int) -> Drawing:
    return Drawing(name, events, {"0": gaps}, {"0": figures})


FIRST = (launch(at=0, dur=2, corr=1), kernel("first", at=5, dur=5, corr=1))
