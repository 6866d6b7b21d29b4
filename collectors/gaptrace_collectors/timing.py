"""Step periods without a profiler: one stamp at the entry of every step."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from gaptrace_collectors.device import Device


_FEWEST_FOR_SPREAD = 20
_UNSTEADY = 1.3


class StepClock:
    """Stamps at step entries; the period of a step is the time between two of them.

    Host stamps are `perf_counter_ns`; device stamps are events on the current stream, so a device
    period is complete when the work of the step is. A period that something else interrupted (a
    prefill) is left out.
    """

    def __init__(self, device: Device, periods: int) -> None:
        self._device = device
        self._pool: list[Any] = [device.event() for _ in range(periods + 1)]
        self._host: list[int] = []
        self._broken: set[int] = set()

    @property
    def periods(self) -> int:
        """Whole periods so far, the interrupted ones not counted."""
        return max(0, len(self._host) - 1) - len(self._broken)

    @property
    def elapsed_ns(self) -> int:
        """Host time since the first stamp."""
        return time.perf_counter_ns() - self._host[0] if self._host else 0

    def stamp(self) -> None:
        """Mark the entry of a step (or the end of the last one)."""
        number = len(self._host)
        if number == len(self._pool):
            self._pool.append(self._device.event())
        event = self._pool[number]
        if event is not None:
            event.record()
        self._host.append(time.perf_counter_ns())

    def interrupt(self) -> None:
        """The period under way holds something that is not a decode step: drop it."""
        if self._host:
            self._broken.add(len(self._host) - 1)

    @property
    def kept(self) -> list[int]:
        """Numbers of the periods that count."""
        return [n for n in range(len(self._host) - 1) if n not in self._broken]

    def samples(self) -> dict[str, Any]:
        """Periods in ns by both clocks, and their medians; waits for the device."""
        self._device.synchronize()
        kept = self.kept
        host = [self._host[n + 1] - self._host[n] for n in kept]
        device: list[int] | None = None
        if self._device.accelerated:
            device = [round(self._pool[n].elapsed_time(self._pool[n + 1]) * 1e6) for n in kept]
        return {
            "device_ns": device,
            "host_ns": host,
            "device_median_ns": median_ns(device),
            "host_median_ns": median_ns(host),
        }


def median_ns(samples: list[int] | None) -> int | None:
    """Median of integer samples, the lower of two middle values; None without samples."""
    return statistics.median_low(samples) if samples else None


def unprofiled(before: dict[str, Any] | None, after: dict[str, Any] | None) -> dict[str, Any]:
    """The section of run.json on steps that nobody profiled, before and after profiling.

    The median is that of the steps before: the profiler leaves its hooks in the driver, and a
    launch-bound step stays tens of percent slower behind it (1.2 to 1.46 times, H200, torch 2.11).
    `drift` says by how much.
    """
    clock = "device_ns" if before and before["device_ns"] else "host_ns"
    medians = [median_ns(part[clock]) if part else None for part in (before, after)]
    drift = medians[1] / medians[0] if medians[0] and medians[1] else None
    return {
        "median_ns": medians[0],
        "clock": "device_events" if clock == "device_ns" else "host",
        "before": before,
        "after": after,
        "drift": None if drift is None else round(drift, 4),
    }


def unsteady(section: dict[str, Any]) -> str | None:
    """A sentence where the steps before profiling ran at clearly different speeds, else None.

    Hosts change between two speeds within one process (seen: 3.4 and 5.2 ms, H200 machine); the
    median then is that of whichever lasted longer.
    """
    before = section["before"] or {}
    samples = sorted(before.get("device_ns") or before.get("host_ns") or [])
    if len(samples) < _FEWEST_FOR_SPREAD:
        return None
    low, high = samples[len(samples) // 10], samples[-1 - len(samples) // 10]
    if high < _UNSTEADY * low:
        return None
    return (
        f"unprofiled steps took between {low / 1e6:.3g} and {high / 1e6:.3g} ms (10th and 90th"
        " percentile): the machine's speed changed while they ran"
    )


def hook_cost(device: Device, also: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """What one stamp, and what is done `also` at each step, adds to a timed step.

    `share` of the step is filled in once that is known.
    """
    rounds = 200
    clock = StepClock(device, rounds)
    clock.stamp()
    device.synchronize()
    host_times = []
    for _ in range(rounds):
        begin = time.perf_counter_ns()
        clock.stamp()
        also()
        host_times.append(time.perf_counter_ns() - begin)
    host = statistics.median(host_times)  # the machine's hiccups are not the recorder's cost
    periods = clock.samples()
    cost = round(max(host, periods["device_median_ns"] or 0))
    return {
        "cost_ns": cost,
        "share": None,
        "how": "median of 200 stamps; the larger of host time and device time per stamp",
    }
