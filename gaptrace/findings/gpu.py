"""Findings about the state of the GPU: power and clocks, where the run recorded them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gaptrace import units
from gaptrace.findings.rule import Claim, Finding, Needs, rule

if TYPE_CHECKING:
    from gaptrace.findings.view import View

# A GPU that works through decode draws most of its limit; an idle one a quarter.
LOW_POWER = 0.5
IDLE_SHARE = 0.3
# Clocks a little below the highest possible are normal under load.
LOW_CLOCK = 0.9
# NVML's reasons for lowered clocks (nvml.h, nvmlClocksEventReason*) that are limits and not idling.
LIMITS = {
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}


@rule("GT601", needs=Needs.STEPS)
def low_power(view: View) -> Iterator[Claim]:
    """Power far below the limit while the GPU idles. Ceiling 0: it is the idle time seen again."""
    power, head = view.analysis.power, view.analysis.headline
    share = head.unprofiled_idle_share
    if share is None:
        share = head.idle_share
    if power is None or power.share is None or share is None:
        return
    if power.share >= LOW_POWER or share < IDLE_SHARE:
        return
    text = (
        f"The board draws {units.digits(power.mean_w)} W of {units.digits(power.limit_w or 0)} W "
        f"({units.share(power.share, 1)}) while the GPU idles {units.share(share, 1)} of the step: "
        "the low power is the idle time seen from outside, not a fault of its own."
    )
    if power.joules_per_token is not None:
        text += f" A token costs {units.digits(power.joules_per_token)} J."
    yield Claim(Finding("GT601", "power far below the limit", 0.0, "measured", text))


@rule("GT602", needs=Needs.STEPS)
def low_clock(view: View) -> Iterator[Claim]:
    """Clocks below the highest possible. Ceiling: busy time times the missing share of the clock.

    That is the gain if all of the busy time followed the SM clock; time bound by memory does not.
    """
    power = view.analysis.power
    if power is None or not power.sm_mhz or not power.sm_mhz_max or view.busy is None:
        return
    share = power.sm_mhz / power.sm_mhz_max
    won = view.busy * (1 - share)
    if share >= LOW_CLOCK or not view.worth(won):
        return
    limits = _limits(view)
    text = (
        f"The SM clock ran at {units.digits(power.sm_mhz, 4)} of at most "
        f"{units.digits(power.sm_mhz_max, 4)} MHz while steps were timed. "
    )
    text += (
        f"The driver names a limit: {', '.join(limits)}."
        if limits
        else "The driver names no limit: clocks are set lower, or rest because the GPU idles."
    )
    if power.temperature_c is not None:
        text += f" Highest temperature: {units.digits(power.temperature_c)} °C."
    confidence = "likely" if limits else "hint"
    yield Claim(Finding("GT602", "clocks below what the GPU can do", won, confidence, text))


def _limits(view: View) -> list[str]:
    samples = view.analysis.manifest.get("power", "samples")
    bits = 0
    for sample in samples if isinstance(samples, list) else []:
        if isinstance(sample, Mapping) and isinstance(sample.get("throttle"), int):
            bits |= sample["throttle"]
    return [name for bit, name in LIMITS.items() if bits & bit]
