"""Findings about the state of the GPU: power and clocks, where the run recorded them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gaptrace import units
from gaptrace.findings.rule import Claim, rule
from gaptrace.findings.wording import quantity
from gaptrace.measure.view import Needs, View
from gaptrace.quantity import JOULE, MEGAHERTZ, SHARE, TRACED, UNPROFILED, WATT

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    unprofiled = head.rate.unprofiled_idle_share is not None
    idle = head.rate.unprofiled_idle_share if unprofiled else head.idle_share
    if power is None or power.limit_share is None or idle is None:
        return
    if power.limit_share >= LOW_POWER or idle < IDLE_SHARE:
        return
    yield Claim(
        "GT601",
        facts={
            "power": quantity(power.mean_w, WATT, UNPROFILED),
            "limit": quantity(power.limit_w or 0, WATT, UNPROFILED),
            "power_share": quantity(power.limit_share, SHARE, UNPROFILED),
            "idle_share": quantity(idle, SHARE, head.rate.source if unprofiled else TRACED),
            "joules": quantity(power.joules_per_token, JOULE, UNPROFILED),
        },
    )


@rule("GT602", needs=Needs.STEPS)
def low_clock(view: View) -> Iterator[Claim]:
    """Clocks below the highest possible. Ceiling: busy time times the missing share of the clock.

    That is the gain if all of the busy time followed the SM clock; time bound by memory does not.
    """
    power = view.analysis.power
    if power is None or not power.sm_mhz or not power.sm_mhz_max or view.busy is None:
        return
    share = power.sm_mhz / power.sm_mhz_max
    ceiling = view.busy * (1 - share)
    if share >= LOW_CLOCK or not view.matters(ceiling):
        return
    throttled = [int(s.throttle or 0) for s in view.analysis.manifest.power.samples or ()]
    limits = [name for bit, name in LIMITS.items() if any(bits & bit for bits in throttled)]
    yield Claim(
        "GT602",
        ceiling,
        {
            "clock": quantity(power.sm_mhz, MEGAHERTZ, UNPROFILED),
            "highest": quantity(power.sm_mhz_max, MEGAHERTZ, UNPROFILED),
            "limits": ", ".join(limits) or None,
            "not_limited": not limits,
            "temperature": None
            if power.temperature_c is None
            else f"{units.digits(power.temperature_c)} °C",
        },
        "likely" if limits else "hint",
    )
