"""Power and clocks next to busy share, where the run recorded them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gaptrace.measure.stats import spread
from gaptrace.reading.manifest import Manifest
from gaptrace.results.manifest import PowerLimits


@dataclass(frozen=True)
class Power:
    """Board power, clocks and temperature while unprofiled steps ran.

    mean_w, limit_w: watts. sm_mhz, sm_mhz_max: median and highest possible SM clock in MHz.
    temperature_c: highest seen, in °C. share: mean power over the limit. joules_per_token: mean
    power times the unprofiled step time over tokens. samples: how many readings.
    """

    mean_w: float
    limit_w: float | None
    sm_mhz: float | None
    sm_mhz_max: float | None
    temperature_c: float | None
    joules_per_token: float | None
    samples: int

    @property
    def share(self) -> float | None:
        """Mean power over the limit."""
        return self.mean_w / self.limit_w if self.limit_w else None


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
    step = manifest.step_ns
    return Power(
        mean_w=mean,
        limit_w=limits.power_mw / 1000 if limits.power_mw else None,
        sm_mhz=spread(_known(sample.sm_mhz for sample in timed)).median,
        sm_mhz_max=limits.sm_mhz_max,
        temperature_c=max(_known(sample.temperature_c for sample in timed), default=None),
        joules_per_token=mean * step / 1e9 / (manifest.tokens or 1) if step else None,
        samples=len(timed),
    )


def _known(values: Iterable[float | None]) -> list[float]:
    return [float(value) for value in values if value is not None]
