"""What the user may say about a trace that the trace itself cannot."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gaptrace.results.manifest import EventCosts


@dataclass(frozen=True)
class GivenStep:
    """What somebody measured of a step without the profiler: its time in ns, tokens per second."""

    step_ns: int | None = None
    tokens_per_s: float | None = None

    def __bool__(self) -> bool:
        return self != NOT_GIVEN


NOT_GIVEN = GivenStep()


@dataclass(frozen=True)
class Options:
    """Choices for one analysis; every default means "find it in the trace".

    step: regular expression for the step marks. tokens_per_step: generated tokens per step.
    accepted: draft tokens that the target model accepts per sequence and iteration, on average.
    device: the trace's own device id, for step figures. weight_bytes, kv_bytes: bytes one step
    must read. peak_bandwidth: of the device's memory, bus_bandwidth: of the link between host and
    device in one direction, bytes per second. costs: what recording an event costs on the host of
    the trace, in place of the prior. given: a step measured without the profiler; given_of_modes:
    the same of single modes of a run folder, each with the mode's name.
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
    given: GivenStep = NOT_GIVEN
    given_of_modes: tuple[tuple[str, GivenStep], ...] = ()

    def of_mode(self, mode: str) -> Options:
        """The same choices for one mode of a run folder."""
        return replace(self, given=dict(self.given_of_modes).get(mode, self.given))
