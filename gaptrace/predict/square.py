"""The 2x2 {eager, compiled} x {launched, captured}: measured where known, else predicted."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from gaptrace.measure.fusion_model import Estimate
from gaptrace.measure.result import Analysis
from gaptrace.predict.steps import CapturedStep, CompiledStep, range_of
from gaptrace.results.prediction import MEASURED, PREDICTED, UNKNOWN, SquareCell
from gaptrace.vocabulary import SQUARE, mode_order

# From this share of kernels by Inductor on, the step counts as compiled.
COMPILED = 0.1


def mode_of(analysis: Analysis) -> str:
    """The cell that a recording fills: its mode in the run, else what its kernels show."""
    if analysis.source.mode in SQUARE:
        return str(analysis.source.mode)
    if is_compiled(analysis):
        return "compiled-graph" if analysis.headline.captured else "compiled"
    return "graph" if analysis.headline.captured else "eager"


def is_compiled(analysis: Analysis) -> bool:
    """Whether a compiler generated a good part of the step's kernels."""
    rows = analysis.kernels.rows
    made = sum(row.per_token for row in rows if row.backend == "Inductor")
    return bool(rows) and made >= COMPILED * sum(row.per_token for row in rows)


def _cell(
    known: str, step: Estimate, tokens: float, busy: float | None, kernels: float | None,
    launches: float | None, source: str = "", note: str = "",
) -> SquareCell:  # fmt: skip
    return SquareCell(
        known=known,
        step_ns=round(step.ns),
        range_ns=range_of(step) if known == PREDICTED else None,
        tokens_per_s=tokens * 1e9 / step.ns if step.ns else None,
        ns_per_token=round(step.ns / tokens),
        busy_ns=None if busy is None else round(busy),
        kernels=kernels,
        launches=launches,
        source=source or None,
        note=note or None,
        rate_range=(tokens * 1e9 / step.high_ns, tokens * 1e9 / step.low_ns)
        if known == PREDICTED and step.low_ns > 0
        else None,
    )


def measured_cell(analysis: Analysis) -> SquareCell | None:
    """The cell of a recording; None where its step time is not known."""
    head = analysis.headline
    time = head.step_ns
    if time is None or analysis.quality.withholds("rate", "steps"):
        return None
    busy, kernels, launches = (
        head.steps[name].median for name in ("busy_ns", "kernels", "launches")
    )
    step = Estimate(time, time, time)
    tokens = head.tokens_per_step or 1
    return _cell(MEASURED, step, tokens, busy, kernels, launches, head.rate.source)


def square(
    measured: Mapping[str, Analysis],
    failed: Mapping[str, str],
    tokens: float,
    captured: CapturedStep | None,
    compiled: CompiledStep | None,
    base: str,
) -> dict[str, SquareCell]:
    """All four cells by mode. `failed`: reasons of modes that could not run.

    A mode that failed has no predicted time of its own: what it could be stands beside the reason.
    """
    guesses: dict[str, SquareCell] = {}
    if captured is not None and captured.step is not None and not captured.already:
        step = captured
        guesses["compiled-graph" if base == "compiled" else "graph"] = _cell(
            PREDICTED, captured.step, tokens, step.busy_ns, step.kernels, step.launches
        )
    if compiled is not None and not compiled.already and base in ("eager", "graph"):
        guesses |= _compiled(compiled, tokens)
    cells = {}
    for mode in sorted(SQUARE, key=mode_order):
        found = measured_cell(measured[mode]) if mode in measured else None
        if found is None:
            found = guesses.get(mode, SquareCell(UNKNOWN))
            if mode in failed:
                why = f"could not run: {failed[mode]}"
                found = replace(found, note=f"{found.note}; {why}" if found.note else why)
        cells[mode] = found
    return cells


def _compiled(step: CompiledStep, tokens: float) -> dict[str, SquareCell]:
    """Both cells of a predicted compiled step."""
    busy = None if step.busy is None else step.busy.ns
    source = [] if step.exact else [step.source]
    host = [f"host per launch from {step.host}"] if step.host else []
    cells = {}
    for mode, time, launches, notes in (
        ("compiled", step.launched, step.launches, source + host),
        ("compiled-graph", step.captured, 1, source),
    ):
        if time is not None:
            note = "; ".join(notes)
            cells[mode] = _cell(PREDICTED, time, tokens, busy, step.kernels, launches, note=note)
    return cells
