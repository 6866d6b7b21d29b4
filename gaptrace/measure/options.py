"""What the user may say about a trace that the trace itself cannot."""

from __future__ import annotations

from dataclasses import dataclass

from gaptrace.results.manifest import EventCosts


@dataclass(frozen=True)
class Options:
    """Choices for one analysis; every default means "find it in the trace".

    step: regular expression for the step marks. tokens_per_step: generated tokens per step.
    accepted: draft tokens that the target model accepts per sequence and iteration, on average.
    device: the trace's own device id, for step figures. weight_bytes, kv_bytes: bytes one step
    must read. peak_bandwidth: of the device's memory, bus_bandwidth: of the link between host and
    device in one direction, bytes per second. costs: what recording an event costs on the host of
    the trace, as calibrated there.
    """

    step: str | None = None
    tokens_per_step: float | None = None
    accepted: float | None = None
    device: str | None = None
    weight_bytes: int | None = None
    kv_bytes: int | None = None
    peak_bandwidth: float | None = None
    bus_bandwidth: float | None = None
    costs: EventCosts | None = None
