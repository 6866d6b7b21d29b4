"""The figures everybody quotes: medians over the counted steps, per step and per token."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gaptrace.measure.busy import BUSY_KINDS
from gaptrace.measure.gaps import CAUSES
from gaptrace.measure.hosttime import HOST_CLASSES
from gaptrace.measure.kind import INFERENCE
from gaptrace.measure.labels import DECODE
from gaptrace.measure.populations import mixed_rate
from gaptrace.measure.quality import Quality
from gaptrace.measure.stats import Spread, share, spread
from gaptrace.measure.steps import Steps
from gaptrace.measure.tokens import ACCEPTED, GIVEN, MANIFEST
from gaptrace.quantity import TRACED, UNPROFILED
from gaptrace.reading.manifest import Manifest
from gaptrace.results.analysis import Rate
from gaptrace.vocabulary import STEP_METRICS

GIVEN_SOURCES = (GIVEN, MANIFEST, ACCEPTED)
# The sources of a rate: under the profiler alone, and from a step given by hand.
PROFILED, GIVEN_BY_HAND = "as profiled", "given"
# From this share of kernels inside replays on, the step counts as captured.
CAPTURED = 0.5
ABSENT = Spread(None, None, None, 0)


@dataclass(frozen=True)
class Headline:
    """Medians over complete steps of one population. Withheld and unknown figures are None.

    kind: what the steps are. has_tokens: figures per token are figures per token; else a step
    stands for a token in `per_token`, `host_time_ns` and `idle_by_cause_ns`. count: steps found of
    the headline's phase. complete: those with both windows complete that are counted.
    steps: spread of each per-step metric. per_token: the same over tokens, as medians of per-step
    ratios. host_time_ns, idle_by_cause_ns, busy_by_kind_ns: medians per token, by class, by cause
    and by what keeps the device; busy_kind_ns: the last per step. silence_ns: median per step of
    what of the host's waiting only its silence speaks for. bus_ns, bus_bytes: medians per step of
    the exposed copies between host and device, and of the bytes that cross.
    """

    rate: Rate
    kind: str = DECODE
    has_tokens: bool = True
    count: int = 0
    complete: int = 0
    tokens_per_step: float | None = None
    tokens_source: str = ""
    steps: dict[str, Spread] = field(default_factory=dict)
    per_token: dict[str, Spread] = field(default_factory=dict)
    host_time_ns: dict[str, float | None] = field(default_factory=dict)
    idle_by_cause_ns: dict[str, float | None] = field(default_factory=dict)
    busy_by_kind_ns: dict[str, float | None] = field(default_factory=dict)
    busy_kind_ns: dict[str, float | None] = field(default_factory=dict)
    silence_ns: float | None = None
    bus_ns: float | None = None
    bus_bytes: float | None = None
    kernels_per_graph_launch: float | None = None
    captured_share: float | None = None

    @property
    def idle_share(self) -> float | None:
        """Median idle over median period of a step, as profiled."""
        return share(self.steps["idle_ns"].median, self.steps["period_ns"].median)

    @property
    def captured(self) -> bool:
        """Whether most kernels of the steps come from graph replays."""
        return (self.captured_share or 0.0) > CAPTURED

    @property
    def step_ns(self) -> int | None:
        """Step time in ns: unprofiled where it was measured, else the median period."""
        if self.rate.unprofiled_step_ns is not None:
            return self.rate.unprofiled_step_ns
        median = self.steps["period_ns"].median
        return None if median is None else int(median)

    @property
    def unprofiled_idle_per_token(self) -> float | None:
        """Unprofiled idle per token in ns, at least 0."""
        idle = self.rate.unprofiled_idle_ns
        if idle is None and self.rate.source == GIVEN_BY_HAND:
            # As good as busy throughout: how long it idles is not known, but that it is no time.
            return None if self.steps["busy_ns"].median is None else 0.0
        return None if idle is None else max(idle / (self.tokens_per_step or 1), 0.0)

    @property
    def unprofiled_late_per_token(self) -> float | None:
        """The most unprofiled idle per token that a late host can have caused, in ns.

        Unprofiled idle less the idle between graph nodes as profiled, which profiling does not
        change; at least 0.
        """
        idle = self.unprofiled_idle_per_token
        return None if idle is None else max(idle - (self.idle_by_cause_ns["graph_node"] or 0), 0.0)


def headline(steps: Steps | None, quality: Quality, manifest: Manifest) -> Headline:
    """The headline of a device's steps; every figure that `quality` withholds is None."""
    if steps is None or not len(steps) or quality.withholds("steps"):
        empty = dict.fromkeys(STEP_METRICS, ABSENT)
        return Headline(
            kind=INFERENCE if steps is None else steps.kind.kind,
            count=0 if steps is None else _count(steps),
            steps=empty,
            per_token=dict(empty),
            host_time_ns=dict.fromkeys(HOST_CLASSES),
            idle_by_cause_ns=dict.fromkeys(CAUSES),
            busy_by_kind_ns=dict.fromkeys(BUSY_KINDS),
            busy_kind_ns=dict.fromkeys(BUSY_KINDS),
            rate=_rate(manifest, tokens=manifest.tokens or 1),
        )
    counted = steps.counted
    last_open = np.zeros(len(steps), np.bool_)
    last_open[steps.open_index] = steps.open_index >= 0
    clean = counted & ~steps.mixed
    closed = counted & ~last_open
    columns: dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], tuple[str, ...]]] = {
        "period_ns": (steps.period_ns, counted, ("period",)),
        "busy_ns": (steps.busy_ns, clean, ("busy",)),
        "idle_ns": (steps.idle_ns, clean, ("idle", "period")),
        "kernels": (steps.kernels, counted, ("kernels",)),
        "launches": (steps.launches, counted, ("launches",)),
        "copies": (steps.copies, counted, ("copies",)),
        "memsets": (steps.memsets, counted, ()),
        "host_dispatch_ns": (steps.host_dispatch_ns, closed, ("host_dispatch", "host")),
    }
    given = steps.tokens_source in GIVEN_SOURCES
    has_tokens = steps.known_tokens.known and (steps.kind.kind == DECODE or given)
    per_step, per_token = {}, {}
    for name, (values, chosen, names) in columns.items():
        hidden = quality.withholds(*names)
        per_step[name] = ABSENT if hidden else spread(values[chosen])
        hidden = hidden or quality.withholds("per_token")
        per_token[name] = ABSENT if hidden else spread(values[chosen] / steps.tokens[chosen])
    hide_host = quality.withholds("per_token", "host")
    hide_busy = quality.withholds("busy")
    hide_cause = quality.withholds("per_token", "causes", "idle")
    graphs, kernels = int(steps.graph_launches[counted].sum()), int(steps.kernels[counted].sum())
    inside = int(steps.kernels_in_graphs[counted].sum())
    busy, period = per_step["busy_ns"].median, per_step["period_ns"].median
    rate = None
    if has_tokens and not quality.withholds("rate", "per_token", "period"):
        # The inverse of the median time per token, so that rate and step time agree.
        rate = 1e9 / (per_token["period_ns"].median or np.inf)
        if steps.population.mixed:
            rate = mixed_rate(steps.tokens[counted], steps.period_ns[counted])
    bounds = None
    if not quality.withholds("period", "steps"):
        bounds = rate_range(steps, manifest.step_ns or period)
    return Headline(
        kind=steps.kind.kind,
        has_tokens=has_tokens,
        count=_count(steps),
        complete=int(closed.sum()),
        tokens_per_step=spread(steps.tokens[counted]).median if has_tokens else None,
        tokens_source=steps.tokens_source if steps.kind.kind == DECODE or given else "",
        steps=per_step,
        per_token=per_token,
        host_time_ns={
            name: None if hide_host else _ratio(steps.host_ns[:, i], steps.tokens, closed)
            for i, name in enumerate(HOST_CLASSES)
        },
        idle_by_cause_ns={
            name: None if hide_cause else _ratio(steps.cause_ns[:, i], steps.tokens, clean)
            for i, name in enumerate(CAUSES)
        },
        busy_by_kind_ns={
            name: None
            if hide_busy or quality.withholds("per_token")
            else _ratio(steps.busy_kind_ns[:, i], steps.tokens, clean)
            for i, name in enumerate(BUSY_KINDS)
        },
        busy_kind_ns={
            name: None if hide_busy else spread(steps.busy_kind_ns[clean, i]).median
            for i, name in enumerate(BUSY_KINDS)
        },
        silence_ns=None if hide_host else spread(steps.silence_ns[closed]).median,
        bus_ns=None if hide_busy else spread(steps.bus_ns[clean]).median,
        bus_bytes=spread(steps.bus_bytes[counted]).median,
        kernels_per_graph_launch=inside / graphs if graphs else None,
        captured_share=inside / kernels if kernels else None,
        rate=_rate(
            manifest,
            tokens=manifest.tokens or 1 if has_tokens else None,
            profiled=rate,
            period=period,
            busy=busy,
            bounds=bounds,
        ),
    )


def _count(steps: Steps) -> int:
    return sum(phase == steps.kind.kind for phase in steps.phase)


def rate_range(steps: Steps, period: float | None) -> tuple[float | None, float | None] | None:
    """Tokens per second at the fewest and the most tokens of a step, where these are all known."""
    if steps.known_tokens.known or steps.kind.kind != DECODE or not period:
        return None
    known = steps.known_tokens
    low, high = (spread(bound[steps.counted]).median for bound in (known.low, known.high))
    return (
        float(low) * 1e9 / period if low else None,
        float(high) * 1e9 / period if high else None,
    )


def _ratio(
    values: npt.NDArray[np.int64],
    tokens: npt.NDArray[np.number[Any]],
    chosen: npt.NDArray[np.bool_],
) -> float | None:
    return spread(values[chosen] / tokens[chosen]).median


def _rate(
    manifest: Manifest,
    *,
    tokens: float | None,
    profiled: float | None = None,
    period: float | None = None,
    busy: float | None = None,
    bounds: tuple[float | None, float | None] | None = None,
) -> Rate:
    """The rate of steps of `tokens` tokens, by unprofiled times where the run has them.

    profiled: tokens per second as traced. tokens: None where the steps make none.
    """
    step = manifest.step_ns
    if step is None:
        steps_per_s, tokens_per_s, idle = 1e9 / period if period else None, profiled, None
    else:
        steps_per_s, tokens_per_s = 1e9 / step, None if tokens is None else tokens * 1e9 / step
        idle = None if busy is None else int(step - busy)
    return Rate(
        tokens_per_s=tokens_per_s,
        source=PROFILED if step is None else "unprofiled",
        profiled_tokens_per_s=profiled,
        dilation=share(period, step),
        unprofiled_step_ns=step,
        unprofiled_idle_ns=idle,
        unprofiled_idle_share=share(idle, step),
        issue_ns=None if step is None else manifest.issue_ns,
        tokens_per_s_range=bounds,
        steps_per_s=steps_per_s,
    )


def host_bound(rate: Rate, manifest: Manifest) -> tuple[int, str] | None:
    """The most that host dispatch can be, in ns, and what it is: the step or the host's period.

    Neither can be shorter than the step's dispatch: host speed differed between the measurements
    (or profiling slowed one), and the lower is the tighter.
    """
    known = (
        (rate.unprofiled_step_ns, f"{rate.source} step"),
        (manifest.host_period_ns, "unprofiled host period"),
    )
    return min(((ns, name) for ns, name in known if ns), key=lambda item: item[0], default=None)


def basis_of(source: str) -> str:
    """The basis of a figure by the source that is named with it."""
    return (
        TRACED
        if source == PROFILED
        else GIVEN_BY_HAND
        if source.startswith(GIVEN_BY_HAND)
        else UNPROFILED
    )
