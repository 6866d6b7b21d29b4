"""Busy time by what keeps the device: computing, communication or copies, exposed or hidden."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gaptrace import intervals as iv
from gaptrace import vocabulary
from gaptrace.intervals import Intervals
from gaptrace.knowledge.kernel_names import classify
from gaptrace.knowledge.runtime_calls import BETWEEN, FROM_HOST, TO_HOST, copy_kind
from gaptrace.measure.links import Links, names_where
from gaptrace.trace import Cat, Ints, Trace

# The first three partition busy time; the others are what runs beside them.
BUSY_KINDS = tuple(vocabulary.BUSY_KINDS)
# A step is bound by the bus where its exposed copies between host and device exceed this share.
BUS_BOUND = 0.5


@dataclass(frozen=True, eq=False)
class BusyKinds:
    """When a device is busy, by kind, as disjoint intervals.

    sets: one entry for each of `BUSY_KINDS`; what is hidden includes nothing exposed. bus: the part
    of exposed copies that goes over the bus between host and device. from_host, to_host: which ops
    are such copies, in the order of the links. nbytes: that each op moves.
    """

    sets: tuple[Intervals, ...]
    bus: Intervals
    from_host: npt.NDArray[np.bool_]
    to_host: npt.NDArray[np.bool_]
    nbytes: Ints

    def within(self, start: Ints, end: Ints) -> npt.NDArray[np.int64]:
        """Nanoseconds by kind in each window, one column per entry of `BUSY_KINDS`."""
        return np.stack([iv.overlap_with(part, start, end) for part in self.sets], axis=1)

    def bus_ns(self, start: Ints, end: Ints) -> Ints:
        """Exposed copies between host and device in each window, in ns."""
        return iv.overlap_with(self.bus, start, end)

    def bus_bytes(self, step: Ints, count: int) -> Ints:
        """Bytes between host and device of each step, in the direction that moves more.

        Both directions of the bus work at once. step: of each op, -1 for none.
        """
        sums = []
        for chosen in (self.from_host, self.to_host):
            mine = chosen & (step >= 0)
            sums.append(np.bincount(step[mine], weights=self.nbytes[mine], minlength=count))
        return np.maximum(*sums).astype(np.int64)


def busy_kinds(trace: Trace, links: Links) -> BusyKinds:
    """The busy time of the ops in `links`.

    Where several kinds run at once, computing comes before communication and that before copies.
    Memsets and copies within a device count as computing.
    """
    name = trace.name[links.row]
    copies = links.cat == Cat.MEMCPY

    def moving(kind: str) -> npt.NDArray[np.bool_]:
        return np.asarray(copies & names_where(trace, name, lambda text: copy_kind(text) == kind))

    from_host, to_host, between = (moving(kind) for kind in (FROM_HOST, TO_HOST, BETWEEN))
    bus = from_host | to_host
    crossing = bus | between
    talking = (links.cat == Cat.KERNEL) & names_where(
        trace, name, lambda text: classify(text).op_class == "communication"
    )

    def covered(chosen: npt.NDArray[np.bool_]) -> Intervals:
        return iv.union(links.start[chosen], links.end[chosen])

    compute, communication = covered(~talking & ~crossing), covered(talking)
    copied = covered(crossing)
    exposed = iv.subtract(communication, compute)
    before = iv.joined(compute, communication)
    bare = iv.subtract(copied, before)
    return BusyKinds(
        sets=(
            compute,
            exposed,
            bare,
            iv.subtract(communication, exposed),
            iv.subtract(copied, bare),
        ),
        bus=iv.subtract(covered(bus), before),
        from_host=from_host,
        to_host=to_host,
        nbytes=trace.gpu.bytes[np.searchsorted(trace.gpu.rows, links.row)],
    )
