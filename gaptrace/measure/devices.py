"""Raw figures of each device over the whole trace: counted, never repaired or withheld."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from gaptrace import intervals as iv
from gaptrace.measure import clocks
from gaptrace.measure.clocks import Clock
from gaptrace.measure.gaps import Gaps, device_gaps
from gaptrace.measure.links import Links, codes_in
from gaptrace.measure.threads import Activity
from gaptrace.trace import Cat, Trace


@dataclass(frozen=True, eq=False)
class Device:
    """One device over the whole trace, from its first start to its latest end.

    device: the trace's own id as text. Counts are of GPU ops (kernels, copies, memsets) unless
    named otherwise; times are ns. `launch_calls` are distinct calls that own an op,
    `kernel_launch_calls` those that own a kernel, `graph_launches` those that replay a graph.
    `starts_before_launch` counts ops whose start lies before their launch call's start, and
    `largest_skew_ns` is the largest such distance. clock: causality, both ways.
    """

    device: str
    code: int
    links: Links
    gaps: Gaps
    busy: iv.Intervals
    gpu_ops: int
    kernels: int
    span_ns: int
    busy_ns: int
    launch_calls: int
    kernel_launch_calls: int
    graph_launches: int
    ops_in_graphs: int
    kernels_in_graphs: int
    orphans: int
    starts_before_launch: int
    largest_skew_ns: int
    kernel_dur_sum_ns: int
    clock: Clock

    @property
    def idle_ns(self) -> int:
        """Span less busy time, in ns."""
        return self.span_ns - self.busy_ns

    @property
    def idle_by_cause_ns(self) -> dict[str, int]:
        """Idle ns by cause; sums to `idle_ns`."""
        return self.gaps.by_cause()


def devices(trace: Trace, links: Links, threads: Mapping[int, Activity]) -> tuple[Device, ...]:
    """The figures of every device that has a GPU op, in the order of their ids as text."""
    present = codes_in(links.device).tolist()
    present.sort(key=lambda code: _natural(trace.devices[code]))
    clock = clocks.clocks(trace, links)
    return tuple(
        _figures(trace, code, links.of_device(code), threads, clock[code]) for code in present
    )


def together(trace: Trace, members: tuple[Device, ...], threads: Mapping[int, Activity]) -> Device:
    """Several devices of one process as one: its ops are theirs, it is busy when any of them is."""
    first = members[0].links
    rows = np.concatenate([member.links.row for member in members])
    order = np.argsort(rows)
    links = Links(
        *(
            np.concatenate([member.links.columns()[i] for member in members])[order]
            for i in range(len(first.columns()))
        )
    )
    clock = clocks.together([member.clock for member in members])
    found = _figures(trace, members[0].code, links, threads, clock)
    return replace(found, device=", ".join(member.device for member in members), code=-1)


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Numbers in the text in the order of their values."""
    parts = re.split(r"(\d+)", text)
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts if part]


def _figures(
    trace: Trace, code: int, links: Links, threads: Mapping[int, Activity], clock: Clock
) -> Device:
    kernel = links.cat == Cat.KERNEL
    known = links.launched
    busy = iv.union(links.start, links.end)
    return Device(
        device=trace.devices[code],
        code=code,
        links=links,
        gaps=device_gaps(trace, links, threads),
        busy=busy,
        gpu_ops=int(links.row.size),
        kernels=int(kernel.sum()),
        span_ns=int(links.end.max() - links.start.min()),
        busy_ns=iv.length(busy),
        launch_calls=int(links.calls.size),
        kernel_launch_calls=int(iv.distinct(links.launch[known & kernel]).size),
        graph_launches=int(iv.distinct(links.launch[links.replayed]).size),
        ops_in_graphs=int(links.replayed.sum()),
        kernels_in_graphs=int((links.replayed & kernel).sum()),
        orphans=int((~known).sum()),
        starts_before_launch=clock.early,
        largest_skew_ns=clock.largest_early_ns,
        kernel_dur_sum_ns=int((links.end - links.start)[kernel].sum()),
        clock=clock,
    )
