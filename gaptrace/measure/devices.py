"""Raw figures of each device over the whole trace: counted, never repaired or withheld."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gaptrace import intervals as iv
from gaptrace.measure import clocks
from gaptrace.measure.clocks import Clock
from gaptrace.measure.gaps import Gaps, device_gaps
from gaptrace.measure.links import Links, codes_in
from gaptrace.measure.stats import share
from gaptrace.measure.threads import Activity
from gaptrace.results.analysis import DeviceFigures
from gaptrace.trace import Cat, Trace


@dataclass(frozen=True, eq=False)
class Device:
    """One device over the whole trace, from its first start to its latest end.

    code: in the trace's table of devices, -1 for several as one. clock: causality, both ways.
    """

    code: int
    links: Links
    gaps: Gaps
    busy: iv.Intervals
    clock: Clock
    figures: DeviceFigures

    @property
    def device(self) -> str:
        """The trace's own id as text."""
        return self.figures.device


def devices(trace: Trace, links: Links, threads: Mapping[int, Activity]) -> tuple[Device, ...]:
    """The figures of every device that has a GPU op, in the order of their ids as text."""
    present = codes_in(links.device).tolist()
    present.sort(key=lambda code: _natural(trace.devices[code]))
    clock = clocks.clocks(trace, links)
    return tuple(
        _measured(trace, trace.devices[code], code, links.of_device(code), threads, clock[code])
        for code in present
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
    name = ", ".join(member.device for member in members)
    return _measured(trace, name, -1, links, threads, clock)


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Numbers in the text in the order of their values."""
    parts = re.split(r"(\d+)", text)
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts if part]


def _measured(
    trace: Trace,
    name: str,
    code: int,
    links: Links,
    threads: Mapping[int, Activity],
    clock: Clock,
) -> Device:
    kernel = links.cat == Cat.KERNEL
    known = links.launched
    busy = iv.union(links.start, links.end)
    gaps = device_gaps(trace, links, threads)
    span_ns, busy_ns = int(links.end.max() - links.start.min()), iv.length(busy)
    figures = DeviceFigures(
        device=name,
        gpu_ops=int(links.row.size),
        kernels=int(kernel.sum()),
        span_ns=span_ns,
        busy_ns=busy_ns,
        idle_ns=span_ns - busy_ns,
        gaps=len(gaps),
        launch_calls=int(links.calls.size),
        kernel_launch_calls=int(iv.distinct(links.launch[known & kernel]).size),
        graph_launches=int(iv.distinct(links.launch[links.replayed]).size),
        ops_in_graphs=int(links.replayed.sum()),
        kernels_in_graphs=int((links.replayed & kernel).sum()),
        orphans=int((~known).sum()),
        starts_before_launch=clock.early,
        largest_skew_ns=clock.largest_early_ns,
        blocking_calls=clock.blocking,
        ends_before_work=clock.late,
        clock_skew_ns=clock.skew_ns,
        clock_offset_range_ns=clock.offset_ns if clock.constant else None,
        kernel_dur_sum_ns=int((links.end - links.start)[kernel].sum()),
        idle_by_cause_ns=gaps.by_cause(),
        idle_share=share(span_ns - busy_ns, span_ns),
    )
    return Device(code, links, gaps, busy, clock, figures)
