"""Figures of each phase and batch size: decode, prefill, mixed, draft, idle, capture."""

from __future__ import annotations

import numpy as np

from gaptrace.measure.busy import BUSY_KINDS
from gaptrace.measure.gaps import CAUSES
from gaptrace.measure.labels import DECODE
from gaptrace.measure.quality import Quality
from gaptrace.measure.stats import share, spread
from gaptrace.measure.steps import Steps
from gaptrace.results.analysis import Phase

# Why a step of a phase is no example of it.
_UNUSUAL = (
    "compile work",
    "profiler overhead",
    "unlike the others",
    "drains a prefill",
    "no GPU ops",
)


def phases(steps: Steps | None, quality: Quality) -> tuple[Phase, ...]:
    """One entry for each phase and batch size, those with most time first."""
    if steps is None or not len(steps) or (quality.withholds("steps") and not _other(quality)):
        return ()
    keys = [
        (phase, int(batch)) for phase, batch in zip(steps.phase, steps.batch.tolist(), strict=True)
    ]
    rows = [_figures(steps, quality, key, keys) for key in dict.fromkeys(keys)]
    return tuple(sorted(rows, key=lambda row: (-row.time_ns, row.phase, row.batch or 0)))


def _other(quality: Quality) -> bool:
    """Whether step figures are withheld only because no step decodes."""
    why = [reason for reason in quality.reasons if "steps" in reason.withheld]
    return all(reason.id == "no_decode_steps" for reason in why)


def _figures(
    steps: Steps, quality: Quality, key: tuple[str, int], keys: list[tuple[str, int]]
) -> Phase:
    members = np.array([own == key for own in keys], np.bool_)
    usual = np.array([reason not in _UNUSUAL for reason in steps.excluded], np.bool_)
    ended = np.array([not reason for reason in steps.closed], np.bool_) & steps.has_ops
    if steps.open_index >= 0:
        ended[steps.open_index] = False
    complete = members & usual & ended
    chosen = complete if complete.any() else members & steps.has_ops
    clean = chosen & ~steps.mixed

    def median(values: np.ndarray, among: np.ndarray, *names: str) -> float | None:
        hidden = quality.withholds(*names) if names else False
        return None if hidden else spread(values[among]).median

    tokens = None
    if key[0] == DECODE and steps.known_tokens.known:
        tokens = spread(steps.tokens[chosen]).median
    period, idle = median(steps.period_ns, chosen), median(steps.idle_ns, clean, "idle")
    return Phase(
        phase=key[0],
        batch=key[1] if key[1] >= 0 else None,
        steps=int(members.sum()),
        complete=int(complete.sum()),
        tokens_per_step=tokens,
        period_ns=period,
        busy_ns=median(steps.busy_ns, clean, "busy"),
        idle_ns=idle,
        kernels=median(steps.kernels, chosen, "kernels"),
        launches=median(steps.launches, chosen, "launches"),
        copies=median(steps.copies, chosen),
        memsets=median(steps.memsets, chosen),
        idle_by_cause_ns={
            name: median(steps.cause_ns[:, i], clean, "causes", "idle")
            for i, name in enumerate(CAUSES)
        },
        busy_by_kind_ns={
            name: median(steps.busy_kind_ns[:, i], clean, "busy")
            for i, name in enumerate(BUSY_KINDS)
        },
        time_ns=int(steps.period_ns[members].sum()),
        idle_share=share(idle, period),
    )
