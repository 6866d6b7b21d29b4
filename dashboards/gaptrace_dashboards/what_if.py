"""The what-if model with the reader's own numbers: bits, bandwidth, host speed, captured."""

from __future__ import annotations

from dataclasses import dataclass

from gaptrace import units
from gaptrace.measure.ceilings import NS, StepModel


@dataclass(frozen=True)
class Change:
    """What is asked: bits per weight (None as it is), GPU and host speed as factors, capture."""

    bits: float | None = None
    bandwidth: float = 1.0
    host: float = 1.0
    captured: bool = False


@dataclass(frozen=True)
class Modelled:
    """A step under a change: host and GPU side, the step, tokens per second; all ns per step."""

    host_ns: float
    busy_ns: float
    step_ns: float
    tokens_per_s: float

    @property
    def binding(self) -> str:
        """The slower side."""
        return "host" if self.host_ns > self.busy_ns else "GPU"


def model(step: StepModel, change: Change) -> Modelled:
    """The step under a change: the slower of host and GPU, plus the rest that neither explains.

    Fewer bits shrink the GEMM time in proportion; bandwidth scales all GPU time; capture replaces
    the host's work by one replay and adds the front end's time to every kernel.
    """
    busy = step.busy_ns
    if change.bits is not None and step.bits:
        busy -= step.gemm_ns * (1 - min(change.bits / step.bits, 1.0))
    busy /= change.bandwidth
    host, rest = step.host_ns / change.host, step.rest_ns
    if change.captured and step.replay_ns is not None and step.node_ns is not None:
        host = step.replay_ns / change.host
        busy += step.kernels * step.node_ns
        rest = host
    total = max(host, busy) + rest
    return Modelled(host, busy, total, step.tokens * NS / total if total else 0.0)


def sentence(step: StepModel, now: float | None, result: Modelled) -> str:
    """The answer of the sliders in words."""
    text = (
        f"{units.rate(result.tokens_per_s)}, {units.time(result.step_ns)} per step: host "
        f"{units.time(result.host_ns)}, GPU {units.time(result.busy_ns)}; "
        f"the {result.binding} is the slower side."
    )
    if now:
        text = f"{text[:-1]}, {units.digits(result.tokens_per_s / now)}× the rate now."
    return text


def asked_words(change: Change, step: StepModel) -> str:
    """What is asked, in front of the answer; empty where nothing is changed."""
    parts = []
    if change.bits is not None and step.bits and change.bits < step.bits:
        parts.append(f"{units.digits(change.bits, 2)}-bit weights")
    if change.bandwidth != 1:
        parts.append(f"{units.digits(change.bandwidth, 2)}× the bandwidth")
    if change.host != 1:
        parts.append(f"a host {units.digits(change.host, 2)}× as fast")
    if change.captured:
        parts.append("one graph")
    return f"With {', '.join(parts)}: " if parts else ""
