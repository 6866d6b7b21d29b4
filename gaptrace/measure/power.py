"""Power and clocks next to busy share, where the run recorded them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gaptrace.measure.stats import spread
from gaptrace.reading.manifest import Manifest


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
    samples = manifest.get("power", "samples")
    if not isinstance(samples, list):
        return None
    timed = [s for s in samples if isinstance(s, Mapping) and _is_timed(s)]
    watts = _values(timed, "power_mw")
    mean = manifest.number("power", "mean_power_w")
    if mean is None and watts:
        mean = sum(watts) / len(watts) / 1000
    if mean is None:
        return None
    limit = manifest.number("power", "limits", "power_mw")
    step = manifest.step_ns
    return Power(
        mean_w=mean,
        limit_w=limit / 1000 if limit else None,
        sm_mhz=spread(_values(timed, "sm_mhz")).median,
        sm_mhz_max=manifest.number("power", "limits", "sm_mhz_max"),
        temperature_c=max(_values(timed, "temperature_c"), default=None),
        joules_per_token=mean * step / 1e9 / (manifest.tokens or 1) if step else None,
        samples=len(timed),
    )


def _is_timed(sample: Mapping[str, Any]) -> bool:
    phase = sample.get("phase")
    return phase is None or "timed" in str(phase)


def _values(samples: list[Mapping[str, Any]], key: str) -> list[float]:
    values = (sample.get(key) for sample in samples)
    return [float(v) for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
