"""Can the times be trusted? Lost, impossible or far apart; and the clocks of host and device."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gaptrace.measure.clocks import Clock
from gaptrace.measure.devices import Device
from gaptrace.measure.quality import LIMITED, NOTE, REFUSED, STEP_FIGURES, Reason
from gaptrace.quantity import COUNT, NS, SHARE, TRACED, Quantity
from gaptrace.trace import Cat, Trace

SKEW_SHARE, SKEW_LIMIT_NS = 0.01, 10_000
ZERO_TIME_SHARE = 0.10
IMPLAUSIBLE_SHARE, IMPLAUSIBLE_NS = 0.5, 1_000_000_000
FAR_AWAY_NS = 600 * 1_000_000_000


def of_times(trace: Trace, device: Device) -> Iterator[Reason]:
    """Times that were lost, cannot be or lie far apart, and clocks that differ."""
    links = device.links
    if len(trace) > 20:
        at_zero = int((trace.start == 0).sum())
        if at_zero > ZERO_TIME_SHARE * len(trace):
            yield Reason(
                "times_at_zero",
                (
                    Quantity(at_zero, COUNT),
                    " of ",
                    Quantity(len(trace), COUNT),
                    " events start at the same first instant: their times were lost",
                ),
                REFUSED,
                at_zero,
                STEP_FIGURES,
            )
    dur = links.end - links.start
    zero = int((dur == 0).sum())
    if zero:
        yield Reason("zero_length_ops", "GPU ops of zero length, kept as ops", count=zero)
    longest = int(dur.max(initial=0))
    if longest > max(IMPLAUSIBLE_NS, IMPLAUSIBLE_SHARE * device.figures.span_ns):
        yield Reason(
            "implausible_duration",
            (
                "one GPU op lasts ",
                Quantity(longest, NS, TRACED),
                ", ",
                Quantity(longest / device.figures.span_ns, SHARE, TRACED),
                " of the recording",
            ),
            LIMITED,
            int((dur > max(IMPLAUSIBLE_NS, IMPLAUSIBLE_SHARE * device.figures.span_ns)).sum()),
        )
    host = trace.rows_of(Cat.RUNTIME, Cat.CPU_OP)
    if host.size:
        lo = int(trace.start[host].min()) - FAR_AWAY_NS
        hi = int((trace.start[host] + trace.dur[host]).max()) + FAR_AWAY_NS
        far = int(((links.start > hi) | (links.end < lo)).sum())
        if far:
            yield Reason(
                "far_away",
                "GPU ops lie more than ten minutes from every host event: clocks differ",
                REFUSED if far > 0.5 * links.row.size else LIMITED,
                far,
                STEP_FIGURES if far > 0.5 * links.row.size else ("idle", "causes", "rate"),
            )
    overlaps = _stream_overlaps(trace, device)
    if overlaps:
        yield Reason(
            "stream_overlap",
            "GPU ops overlap an earlier one on their own stream (programmatic dependent launch, "
            "or times that run into the next op); busy time is their union",
            count=overlaps,
        )
    yield from _of_clock(device)


def _of_clock(device: Device) -> Iterator[Reason]:
    """Causality, both ways: ops before their launch call, blocking calls before their op's end."""
    clock = device.clock
    if clock.early:
        grave = (
            clock.early > SKEW_SHARE * device.figures.gpu_ops
            or clock.largest_early_ns > SKEW_LIMIT_NS
        )
        yield Reason(
            "starts_before_launch",
            (
                "GPU ops start before their launch call, by up to ",
                Quantity(clock.largest_early_ns, NS, TRACED),
                ": the clocks of host and device differ",
                *_offset(clock),
            ),
            LIMITED if grave else NOTE,
            clock.early,
            ("causes",) if grave else (),
        )
    if clock.late:
        grave = clock.late > SKEW_SHARE * clock.blocking or clock.largest_late_ns > SKEW_LIMIT_NS
        yield Reason(
            "clock_skew",
            (
                Quantity(clock.late, COUNT),
                " of ",
                Quantity(clock.blocking, COUNT),
                " blocking calls ended before the GPU work that they wait for, by up to ",
                Quantity(clock.largest_late_ns, NS, TRACED),
                ": the clocks of host and device differ",
                *_offset(clock),
            ),
            LIMITED if grave else NOTE,
            clock.late,
            ("causes",) if grave else (),
        )


def _offset(clock: Clock) -> tuple[str | Quantity, ...]:
    """Which constant offset explains all of the skew, if one does."""
    if not clock.constant:
        return (", and no constant offset explains it",)
    side = "late" if clock.skew_ns > 0 else "early"
    bounds = sorted(abs(bound) for bound in clock.offset_ns if bound is not None)
    low = Quantity(bounds[0], NS, TRACED)
    if len(bounds) > 1 and bounds[1] != bounds[0]:
        by: tuple[str | Quantity, ...] = (low, " to ", Quantity(bounds[1], NS, TRACED))
    else:
        by = ("at least ", low) if len(bounds) < 2 else (low,)
    return (
        f"; a GPU clock that is {side} by ",
        *by,
        " all the time explains all of it",
    )


def _stream_overlaps(trace: Trace, device: Device) -> int:
    index = np.searchsorted(trace.gpu.rows, device.links.row)
    # One number for each stream of each device.
    stream = np.unique(
        np.stack((trace.gpu.stream[index], device.links.device)), axis=1, return_inverse=True
    )[1]
    order = np.lexsort((device.links.start, stream))
    stream, start, end = stream[order], device.links.start[order], device.links.end[order]
    if start.size < 2:
        return 0
    return int(((stream[1:] == stream[:-1]) & (start[1:] < end[:-1])).sum())
