"""Power and clocks next to busy share, where the run recorded them."""

from __future__ import annotations

from collections.abc import Iterable

from gaptrace.measure.stats import share, spread
from gaptrace.reading.manifest import Manifest
from gaptrace.results.analysis import Power
from gaptrace.results.manifest import PowerLimits


def power_of(manifest: Manifest) -> Power | None:
    """The power figures of a run, None where none were recorded."""
    power = manifest.power
    if power.samples is None:
        return None
    timed = [s for s in power.samples if s.phase is None or "timed" in s.phase]
    watts = _known(sample.power_mw for sample in timed)
    mean = power.mean_power_w
    if mean is None and watts:
        mean = sum(watts) / len(watts) / 1000
    if mean is None:
        return None
    limits = power.limits or PowerLimits()
    limit = limits.power_mw / 1000 if limits.power_mw else None
    step = manifest.step_ns
    return Power(
        mean_w=mean,
        limit_w=limit,
        sm_mhz=spread(_known(sample.sm_mhz for sample in timed)).median,
        sm_mhz_max=limits.sm_mhz_max,
        temperature_c=max(_known(sample.temperature_c for sample in timed), default=None),
        joules_per_token=mean * step / 1e9 / (manifest.tokens or 1) if step else None,
        samples=len(timed),
        limit_share=share(mean, limit),
    )


def _known(values: Iterable[float | None]) -> list[float]:
    return [float(value) for value in values if value is not None]
