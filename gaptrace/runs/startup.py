"""What autotuning pays and what seams cost: modes of a run against each other, unprofiled."""

from __future__ import annotations

from gaptrace.measure.startup import mode_start
from gaptrace.measure.stats import spread
from gaptrace.predict.predict import RecordedRun
from gaptrace.quantity import UNPROFILED
from gaptrace.results.run import SeamPrice, TuningGain

AUTOTUNED = "max-autotune"
# What a tuned step is measured against: the same step compiled and captured, but not tuned.
UNTUNED = ("compiled-graph", "reduce-overhead")


def tuning_gain(run: RecordedRun) -> TuningGain | None:
    """What autotuning pays in a run, None where it was not recorded beside an untuned mode."""
    against = next((mode for mode in UNTUNED if _step_times(run, mode)), None)
    tuned = _step_times(run, AUTOTUNED)
    if against is None or not tuned:
        return None
    plain = _step_times(run, against)
    cost, source = _tuning_cost(run, against)
    head = next(iter(run.repeats(AUTOTUNED))).headline
    tokens = head.tokens_per_step or 1
    saved = ((spread(plain).median or 0) - (spread(tuned).median or 0)) / tokens
    reason = ""
    if saved <= 0:
        reason = f"the tuned step is not shorter than the one of {against}"
    elif max(tuned) >= min(plain):
        reason = f"the difference to {against} is within the spread of the repeats"
    elif cost is None:
        reason = "the seconds of tuning were not recorded"
    elif cost == 0:
        reason = "nothing was tuned here: the choices came from the cache"
    pays = not reason and cost is not None
    return TuningGain(
        against=against,
        cost_ns=cost,
        source=source,
        saved_ns_per_token=saved,
        break_even_tokens=cost / saved if pays and cost is not None else None,
        reason=reason,
    )


def _step_times(run: RecordedRun, mode: str) -> list[int]:
    """What the recorder timed; a step given by hand has no repeats to tell its spread from."""
    rates = (analysis.headline.rate for analysis in run.repeats(mode))
    return [
        rate.unprofiled_step_ns
        for rate in rates
        if rate.source == UNPROFILED and rate.unprofiled_step_ns is not None
    ]


def _tuning_cost(run: RecordedRun, against: str) -> tuple[float | None, str]:
    """Seconds of tuning in the repeat that tuned most, else how much later a cold start is ready.

    A repeat that found its choices in the cache says nothing about what finding them takes.
    """
    own = [cell.manifest for cell in run.cells if cell.mode == AUTOTUNED]
    times = [
        seconds * 1e9
        for manifest in own
        for seconds in (manifest.autotune.seconds, manifest.startup.autotune_seconds)
        if seconds is not None
    ]
    if times:
        return max(times), "autotuning"
    tuned = mode_start(own)
    plain = mode_start(cell.manifest for cell in run.cells if cell.mode == against)
    if tuned and plain and tuned.cold_ns is not None and plain.cold_ns is not None:
        return max(tuned.cold_ns - plain.cold_ns, 0.0), f"cold start less that of {against}"
    return None, "not recorded"


def seam_prices(run: RecordedRun) -> tuple[SeamPrice, ...]:
    """Modes of a run that were captured in pieces, each against `compiled-graph`.

    Only modes with the same compiled kernels: tuning changes more than the seams.
    """
    whole = _step_times(run, "compiled-graph")
    found = []
    for mode in ("piecewise", "reduce-overhead"):
        own = _step_times(run, mode)
        analysis = run.representative(mode) if mode in run.modes else None
        parts = analysis.piecewise if analysis is not None else None
        if not own or not whole or parts is None or not parts.seams:
            continue
        apart = min(own) > max(whole) or max(own) < min(whole)
        step, whole_step = spread(own).median or 0, spread(whole).median or 0
        found.append(
            SeamPrice(
                mode=mode,
                whole="compiled-graph",
                step_ns=step,
                whole_ns=whole_step,
                seams=parts.seams,
                beyond=apart,
                per_seam_ns=(step - whole_step) / parts.seams,
                change_ns=step - whole_step,
            )
        )
    return tuple(found)
