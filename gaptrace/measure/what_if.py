"""What would change the step: a model of it, and the step under one change at a time."""

from __future__ import annotations

from dataclasses import dataclass

from gaptrace.knowledge.devices import GraphConstants
from gaptrace.measure.busy import BUS_BOUND
from gaptrace.measure.ceilings import NS, much_silence
from gaptrace.measure.headline import Headline
from gaptrace.measure.stats import share
from gaptrace.results.analysis import Ceilings, WhatIf

# Identical work differs by more than this between two recordings.
SAME_STEP = 0.01


@dataclass(frozen=True)
class Changed:
    """A step under one change: its time and its two sides in ns, tokens per second, what limits it.

    binding: `launch`, `bandwidth` or `bus`, the smaller ceiling after the change; None where one of
    them is unknown. paced_by: `gpu` or `host`, the slower of the two in the model after the change.
    """

    host_ns: float
    busy_ns: float
    step_ns: float
    tokens_per_s: float
    binding: str | None
    paced_by: str


@dataclass(frozen=True)
class Change:
    """What is asked: bits per weight (None: as now), speed of GPU, bus and host, capture."""

    bits: float | None = None
    gpu: float = 1.0
    bus: float = 1.0
    host: float = 1.0
    captured: bool = False


@dataclass(frozen=True)
class StepModel:
    """The simplest model that says where a change lands: the slower of host and GPU, plus a rest.

    step = max(host, busy) + rest, with the rest taken from the measured step and kept: it is time
    in which neither hides the other (waits, launch latency). All ns per step; gemm_ns is the part
    of busy_ns that shrinks with the weights; bytes_ns is what reading the step's bytes takes at
    peak bandwidth, of which weights_ns for the weights. moving_ns is the part of busy_ns that is
    exposed copies and communication, which no faster GPU shortens, bus_ns that of copies between
    host and device. silence_ns is what host_ns leaves out on no other evidence than silence.
    late_ns is the idle time that a faster host could end, None where unknown.
    """

    step_ns: float
    host_ns: float
    busy_ns: float
    gemm_ns: float
    tokens: float
    kernels: float
    bits: float | None = None
    bytes_ns: float | None = None
    weights_ns: float | None = None
    replay_ns: float | None = None
    node_ns: float | None = None
    moving_ns: float = 0.0
    bus_ns: float = 0.0
    silence_ns: float = 0.0
    late_ns: float | None = None

    @property
    def bus_bound(self) -> bool:
        """Whether copies between host and device take over half of the step."""
        return self.bus_ns > BUS_BOUND * self.step_ns

    @property
    def rest_ns(self) -> float:
        """What the slower side does not explain."""
        return max(self.step_ns - max(self.host_ns, self.busy_ns), 0.0)

    def what_ifs(self) -> tuple[WhatIf, ...]:
        """The step with 8- and 4-bit weights, a faster GPU, bus and host, and captured.

        Each changes its own part alone. What crosses the bus may be weights or cache, so a step
        that is bound by it is not said to gain or not to gain by smaller weights.
        """
        asked = [
            (f"weights_{bits}", f"weights at {bits} bits", Change(bits=bits))
            for bits in (() if self.bus_bound else (8, 4))
            if self.bits is not None and self.bits > bits
        ]
        asked.append(("gpu_x2", "a GPU twice as fast", Change(gpu=2)))
        if self.bus_bound:
            asked.append(("bus_x2", "a link to the host twice as fast", Change(bus=2)))
        asked.append(("host_x2", "a host twice as fast", Change(host=2)))
        if self.node_ns is not None and self.replay_ns is not None:
            asked.append(("captured", "captured into one graph", Change(captured=True)))
        return tuple(
            self._what_if(name, title, self.changed(change)) for name, title, change in asked
        )

    def _what_if(self, name: str, title: str, changed: Changed) -> WhatIf:
        return WhatIf(
            name,
            title,
            changed.step_ns,
            changed.tokens_per_s,
            changed.binding,
            changed.paced_by,
            changes=abs(changed.step_ns - self.step_ns) >= SAME_STEP * self.step_ns,
            times_now=share(self.step_ns, changed.step_ns),
        )

    def _binding(self, host_ns: float, moved_ns: float | None) -> str | None:
        """The lower ceiling, None where silence makes the launch ceiling a range across both."""
        if moved_ns is None or host_ns <= moved_ns < host_ns + self.silence_ns:
            return None
        return "launch" if host_ns > moved_ns else "bandwidth"

    def changed(self, change: Change) -> Changed:
        """The step under a change.

        Fewer bits shrink the GEMM time and the weights' bytes in proportion; a faster GPU shrinks
        its computing, a faster bus what crosses it; capture replaces the host's work by one replay,
        after which nothing is left unexplained but the replay, and adds the front end's time to
        every kernel. A faster host ends only idle time for which the host was late.
        """
        host, moved, rest, bus = self.host_ns, self.bytes_ns, self.rest_ns, self.bus_ns
        computing = max(self.busy_ns - self.moving_ns, 0.0)
        moving = self.busy_ns - computing
        if change.bits is not None and self.bits:
            less = 1 - min(change.bits / self.bits, 1.0)
            computing -= min(self.gemm_ns, computing) * less
            if moved is not None and self.weights_ns is not None:
                moved -= self.weights_ns * less
        computing /= change.gpu
        moving -= bus - bus / change.bus
        bus /= change.bus
        busy = computing + moving
        if change.captured and self.replay_ns is not None and self.node_ns is not None:
            host = self.replay_ns
            busy += self.kernels * self.node_ns
            rest = host / change.host
        host /= change.host
        step = max(host, busy) + rest
        if busy == self.busy_ns and self.late_ns is not None:
            step = max(step, self.step_ns - self.late_ns)
        moved = None if moved is None else moved / change.gpu
        return Changed(
            host_ns=host,
            busy_ns=busy,
            step_ns=step,
            tokens_per_s=self.tokens * NS / step if step else 0.0,
            binding="bus" if bus > BUS_BOUND * step else self._binding(host, moved),
            paced_by="host" if host > busy else "gpu",
        )


# Causes of idle time that a faster host shortens.
FASTER_HOST = ("launch", "dispatch", "python", "runtime", "alloc", "compile", "unattributed")


def step_model(
    head: Headline, limits: Ceilings, gemm_ns_per_token: float, graph: GraphConstants | None
) -> StepModel | None:
    """The model of the step that a headline is of; None where a figure that it needs is withheld.

    graph: what a replay costs on this GPU, None where that is not known.
    """
    busy = head.steps["busy_ns"].median
    period, host = head.step_ns, limits.host_dispatch_ns
    if busy is None or period is None or host is None:
        return None
    tokens = head.tokens_per_step or 1
    replay = None if head.captured else graph
    size, peak = limits.weight_bytes, limits.peak_bandwidth_bytes_per_s
    weights_ns = size * NS / peak if size and peak else None
    kinds = head.busy_kind_ns
    return StepModel(
        step_ns=period,
        host_ns=host,
        busy_ns=busy,
        gemm_ns=gemm_ns_per_token * tokens,
        tokens=tokens,
        kernels=head.steps["kernels"].median or 0,
        bits=limits.bits_per_weight,
        bytes_ns=None
        if weights_ns is None
        else weights_ns + (limits.kv_bytes or 0) * NS / (peak or 1),
        weights_ns=weights_ns,
        replay_ns=replay.replay_ns if replay else None,
        node_ns=replay.kernel_ns if replay else None,
        moving_ns=(kinds["exposed_communication"] or 0) + (kinds["exposed_copies"] or 0),
        bus_ns=head.bus_ns or 0.0,
        silence_ns=much_silence(head, host) or 0.0 if limits.launch_tokens_per_s_range else 0.0,
        late_ns=_late(head),
    )


def _late(head: Headline) -> float | None:
    """Idle time per step that a faster host could end: late, but neither in a wait nor a sync."""
    parts = [head.idle_by_cause_ns[name] for name in FASTER_HOST]
    if any(ns is None for ns in parts):
        return None
    late, most = sum(ns or 0.0 for ns in parts), head.unprofiled_late_per_token
    return (late if most is None else min(late, most)) * (head.tokens_per_step or 1)
