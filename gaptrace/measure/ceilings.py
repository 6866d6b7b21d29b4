"""The ceilings of decode, which binds, and what would change it.

The launch ceiling is tokens over host dispatch time: no GPU, however fast, gets past it. The
bandwidth ceiling is tokens times peak bandwidth over the bytes one step must read: no host,
however fast, gets past it. Quantizing raises the second and leaves the first, so below some
number of bits per weight (the crossover) the launch ceiling binds. A step that copies between host
and device for over half of its time is bound by the bus instead: its ceiling is tokens times the
bandwidth of the bus over the bytes that cross it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gaptrace.knowledge.devices import Device as KnownDevice
from gaptrace.measure.busy import BUS_BOUND
from gaptrace.measure.gemm import Products
from gaptrace.measure.headline import (
    GIVEN_BY_HAND,
    PROFILED,
    Headline,
    basis_of,
    host_bound,
)
from gaptrace.measure.options import Options
from gaptrace.measure.quality import Quality
from gaptrace.measure.stats import nearest_rank
from gaptrace.measure.steps import Steps
from gaptrace.quantity import AT_MOST, EXACT
from gaptrace.reading.manifest import Manifest
from gaptrace.results.analysis import Ceilings
from gaptrace.trace import Trace

NS = 1e9
FROM_SHAPES = "shapes of matrix products"
# Where reading the weights that shapes show takes less than this share of the time in matrix
# products, most products recorded no usable shape.
PARTIAL_SHARE = 0.02
PARTIAL = "shapes cover only part of the matrix products"


@dataclass(frozen=True)
class StepBytes:
    """Bytes one step must read: weights and KV cache, how many weights, and where it is known from.

    `weights` is the number of weight values, needed for bits per weight; None where unknown.
    """

    weight_bytes: int | None
    weights: float | None
    weight_source: str | None
    kv_bytes: int | None
    kv_source: str


@dataclass(frozen=True)
class Bus:
    """What a step copies between host and device, and how fast the bus is.

    bound: exposed copies take over half of the step. nbytes: per step, in the direction that moves
    more. bandwidth and its source: peak in one direction, bytes per second.
    """

    bound: bool = False
    nbytes: float | None = None
    bandwidth: float | None = None
    source: str | None = None


# Waiting that nothing but silence speaks for, beyond this share of the host window, makes the
# launch ceiling a range.
MUCH_SILENCE = 0.10
# A GPU that idles for less than this share of the step has no room left for a faster host ...
GPU_PACED_IDLE = 0.15
# ... unless the host needs nearly as long as the GPU: two measured times this close are equal.
ALIKE = 0.9


def pacing(
    busy_share: float | None, busy_ns: float | None, host_dispatch_ns: float | None
) -> str | None:
    """What the step waits for: `gpu`, `host`, or None where unknown or neither clearly.

    `gpu`: it idles for less than 15 % of the step, and host dispatch is clearly below its busy
    time. `host`: the GPU idles for longer, and host dispatch is at least its busy time.
    """
    if busy_share is None or busy_ns is None or host_dispatch_ns is None:
        return None
    if 1 - busy_share < GPU_PACED_IDLE:
        return "gpu" if host_dispatch_ns < ALIKE * busy_ns else None
    return "host" if host_dispatch_ns >= busy_ns else None


def weights_from_shapes(trace: Trace, steps: Steps, products: Products) -> tuple[int, float] | None:
    """Weight bytes and weight count of one step, from matrix product shapes; the median step.

    Each call's weight operand counts once per call; a step that reads a weight twice reads it
    twice. None where no shapes were recorded for any counted step.
    """
    rows = products.rows
    if rows.size == 0 or not steps.counted.any():
        return None
    step = steps.host_step(trace.start[rows])
    inside = step >= 0
    if not inside.any():
        return None
    per_step = np.bincount(step[inside], weights=products.bytes[inside], minlength=len(steps))
    count = np.bincount(step[inside], weights=products.count[inside], minlength=len(steps))
    chosen = np.sort(per_step[steps.counted])
    if chosen.size == 0 or chosen[-1] == 0:
        return None
    middle = nearest_rank(chosen, 50)
    index = int(np.flatnonzero(steps.counted & (per_step == middle))[0])
    return int(per_step[index]), float(count[index])


@dataclass(frozen=True)
class Given:
    """What is known beside the trace: options, the run's manifest, the datasheet of the GPU."""

    options: Options
    manifest: Manifest
    known: KnownDevice | None

    def peak_bandwidth(self) -> tuple[float | None, str | None]:
        """Peak bandwidth in bytes/s and its source: measured, else given, else datasheet."""
        known = self.known
        if self.manifest.copy_bandwidth is not None:
            return self.manifest.copy_bandwidth, "measured copy"
        if self.options.peak_bandwidth is not None:
            return self.options.peak_bandwidth, "--peak-bandwidth"
        if known is not None and known.bandwidth_bytes_per_s is not None:
            doubt = ", doubtful" if known.doubtful else ""
            return known.bandwidth_bytes_per_s, f"datasheet ({known.title}{doubt})"
        return None, None

    def bus(self, head: Headline) -> Bus:
        """What a step copies over the bus, and how fast that is: given, else from the datasheet."""
        exposed, period, known = head.bus_ns, head.steps["period_ns"].median, self.known
        bound = bool(exposed and period and exposed > BUS_BOUND * period)
        bandwidth: float | None = self.options.bus_bandwidth
        source = None if bandwidth is None else "--bus-bandwidth"
        if bandwidth is None and known is not None and known.bus_bytes_per_s is not None:
            bandwidth, source = known.bus_bytes_per_s, f"datasheet ({known.title})"
        return Bus(bound, head.bus_bytes or None, bandwidth, source)

    def step_bytes(self, trace: Trace, steps: Steps | None, products: Products) -> StepBytes:
        """What one step must read: from the options, else the manifest, else the shapes."""
        options, manifest = self.options, self.manifest
        from_shapes = weights_from_shapes(trace, steps, products) if steps is not None else None
        weights = from_shapes[1] if from_shapes else None
        weight_bytes: int | None = None
        source: str | None = None
        if options.weight_bytes is not None:
            weight_bytes, source = options.weight_bytes, "--weight-bytes"
        elif manifest.weight_bytes is not None:
            weight_bytes, source = manifest.weight_bytes, "run manifest"
        elif manifest.weights_withheld is not None:
            weights, source = None, manifest.weights_withheld
        elif from_shapes:
            weight_bytes, source = from_shapes[0], FROM_SHAPES
        if weight_bytes is not None and source != FROM_SHAPES:
            if manifest.weight_bytes is not None and manifest.bits_per_weight:
                weights = weight_bytes * 8 / manifest.bits_per_weight
            elif weights is None:
                weights = weight_bytes / 2  # 16 bits a weight, unless something says otherwise
        if options.kv_bytes is not None:
            return StepBytes(weight_bytes, weights, source, options.kv_bytes, "--kv-bytes")
        if manifest.kv_bytes is not None:
            return StepBytes(weight_bytes, weights, source, manifest.kv_bytes, "run manifest")
        return StepBytes(weight_bytes, weights, source, None, "weights only")


def ceilings_of(
    head: Headline, quality: Quality, given: Given, moved: StepBytes, gemm_ns_per_token: float
) -> Ceilings:
    """The ceilings of the step that a headline is of; `moved` is what the step must read."""
    dispatch = head.steps["host_dispatch_ns"].median
    source = PROFILED
    if head.rate.issue_ns is not None:
        dispatch, source = head.rate.issue_ns, "unprofiled issue time"
    if quality.withholds("ceilings", "host_dispatch"):
        dispatch = head.rate.issue_ns
    bound = host_bound(head.rate, given.manifest)
    if bound is not None and dispatch is not None and dispatch > bound[0]:
        dispatch, source = bound[0], f"{bound[1]}, its upper bound"
    peak, peak_source = given.peak_bandwidth()
    tokens = head.tokens_per_step or 1
    if moved.weight_source == FROM_SHAPES and moved.weight_bytes and peak:
        reading_ns = moved.weight_bytes * NS / peak
        if reading_ns < PARTIAL_SHARE * gemm_ns_per_token * tokens:
            moved = replace(moved, weight_bytes=None, weights=None, weight_source=PARTIAL)
    return ceilings(
        tokens=tokens,
        host_dispatch_ns=None if quality.withholds("ceilings") else dispatch,
        host_dispatch_source=source,
        measured_tokens_per_s=head.rate.tokens_per_s,
        moved=moved,
        peak_bandwidth=peak,
        peak_source=peak_source,
        busy_share=_busy_share(head),
        busy_ns=head.steps["busy_ns"].median,
        silence_ns=much_silence(head, dispatch) if source == PROFILED else None,
        bus=given.bus(head),
    )


def _busy_share(head: Headline) -> float | None:
    """Share of the step for which the GPU is busy: unprofiled where known, else as profiled."""
    busy, step = head.steps["busy_ns"].median, head.rate.unprofiled_step_ns
    if head.rate.source == GIVEN_BY_HAND and busy is not None and step:
        return min(busy / step, 1.0)
    idle = head.rate.unprofiled_idle_share
    idle = head.idle_share if idle is None or idle < 0 else idle
    return None if idle is None else 1 - idle


def much_silence(head: Headline, dispatch: float | None) -> float | None:
    """Silence that counted as waiting, where it is over 10 % of the host window."""
    times = [ns for ns in head.host_time_ns.values() if ns]
    window = sum(times) * (head.tokens_per_step or 1)
    silence = head.silence_ns
    if not dispatch or not silence or silence <= MUCH_SILENCE * window:
        return None
    return silence


def ceilings(
    *,
    tokens: float,
    host_dispatch_ns: float | None,
    host_dispatch_source: str,
    measured_tokens_per_s: float | None,
    moved: StepBytes,
    peak_bandwidth: float | None,
    peak_source: str | None,
    busy_share: float | None = None,
    busy_ns: float | None = None,
    silence_ns: float | None = None,
    bus: Bus = Bus(),
) -> Ceilings:
    """The ceilings of a step that makes `tokens` tokens, the crossover, and what paces it.

    The smaller ceiling binds; it can be the lower one and yet not be what the step waits for (see
    `pacing`). distance: measured rate over it. What rests on an unknown ingredient is None.
    silence_ns: what was taken for waiting, and left out of the dispatch time, on no other evidence
    than silence; None where the dispatch time does not rest on it or it is no large part.
    """
    launch = tokens * NS / host_dispatch_ns if host_dispatch_ns else None
    total = moved.weight_bytes + (moved.kv_bytes or 0) if moved.weight_bytes else None
    bandwidth = tokens * peak_bandwidth / total if total and peak_bandwidth else None
    launch_range = None
    if host_dispatch_ns and launch is not None and silence_ns:
        launch_range = (tokens * NS / (host_dispatch_ns + silence_ns), launch)
    over_bus = tokens * bus.bandwidth / bus.nbytes if bus.bandwidth and bus.nbytes else None
    if not bus.bound or (over_bus and (measured_tokens_per_s or 0) > over_bus):
        over_bus = None  # a ceiling that the step breaks is none
    ends = {
        "launch" if end < bandwidth else "bandwidth"
        for end in launch_range or (launch,)
        if end is not None and bandwidth is not None
    }
    binding = "bus" if bus.bound else ends.pop() if len(ends) == 1 else None
    lowest = min((c for c in (launch, bandwidth, over_bus) if c is not None), default=None)
    if (launch_range and not binding) or (bus.bound and over_bus is None):
        lowest = None
    handover = None
    if launch_range is None and host_dispatch_ns and peak_bandwidth and moved.weights:
        room = host_dispatch_ns / NS * peak_bandwidth - (moved.kv_bytes or 0)
        handover = max(room, 0.0) * 8 / moved.weights
    bits = moved.weight_bytes * 8 / moved.weights if moved.weight_bytes and moved.weights else None
    return Ceilings(
        launch_tokens_per_s=launch,
        bandwidth_tokens_per_s=bandwidth,
        binding=binding,
        distance=measured_tokens_per_s / lowest if measured_tokens_per_s and lowest else None,
        handover_bits_per_weight=handover,
        bits_per_weight=bits,
        host_dispatch_ns=host_dispatch_ns,
        host_dispatch_source=host_dispatch_source,
        host_dispatch_basis=basis_of(host_dispatch_source),
        host_dispatch_bound=AT_MOST if host_dispatch_source.endswith("upper bound") else EXACT,
        weight_bytes=moved.weight_bytes,
        weight_bytes_source=moved.weight_source,
        kv_bytes=moved.kv_bytes,
        kv_bytes_source=moved.kv_source,
        peak_bandwidth_bytes_per_s=peak_bandwidth,
        peak_bandwidth_source=peak_source,
        busy_share=busy_share,
        paced_by=pacing(busy_share, busy_ns, host_dispatch_ns),
        launch_tokens_per_s_range=launch_range,
        bus_tokens_per_s=over_bus,
        bus_bound=bus.bound,
        bus_bytes=bus.nbytes,
        bus_bandwidth_bytes_per_s=bus.bandwidth,
        bus_bandwidth_source=bus.source,
    )
