"""The 2x2 {eager, compiled} x {launched, captured}: measured where known, else predicted."""

from __future__ import annotations

from collections.abc import Mapping

from gaptrace.measure.fusion_model import Estimate
from gaptrace.measure.result import Analysis
from gaptrace.predict.captured import is_captured
from gaptrace.predict.result import (
    MEASURED,
    MODES,
    PREDICTED,
    UNKNOWN,
    CapturedStep,
    Cell,
    CompiledStep,
)
from gaptrace.runs.run import step_ns

# From this share of kernels by Inductor on, the step counts as compiled.
COMPILED = 0.1


def mode_of(analysis: Analysis) -> str:
    """The cell that a recording fills: its mode in the run, else what its kernels show."""
    if analysis.source.mode in MODES:
        return str(analysis.source.mode)
    if is_compiled(analysis):
        return "compiled-graph" if is_captured(analysis) else "compiled"
    return "graph" if is_captured(analysis) else "eager"


def is_compiled(analysis: Analysis) -> bool:
    """Whether a compiler generated a good part of the step's kernels."""
    rows = analysis.kernels.rows
    made = sum(row.per_token for row in rows if row.backend == "Inductor")
    return bool(rows) and made >= COMPILED * sum(row.per_token for row in rows)


def measured_cell(mode: str, analysis: Analysis) -> Cell | None:
    """The cell of a recording; None where its step time is not known."""
    time, head = step_ns(analysis), analysis.headline
    tokens = head.tokens_per_step or 1
    if time is None or analysis.quality.withholds("rate", "steps"):
        return None
    return Cell(
        mode=mode,
        known=MEASURED,
        step_ns=float(time),
        tokens_per_s=tokens * 1e9 / time if time else None,
        ns_per_token=time / tokens,
        busy_ns=head.steps["busy_ns"].median,
        kernels=head.steps["kernels"].median,
        launches=head.steps["launches"].median,
        source=head.rate.source,
    )


def square(
    measured: Mapping[str, Analysis],
    failed: Mapping[str, str],
    tokens: float,
    captured: CapturedStep | None,
    compiled: CompiledStep | None,
    base: str,
) -> dict[str, Cell]:
    """All four cells by mode. `failed`: reasons of modes that could not run.

    A mode that failed has no predicted time of its own: what it could be stands beside the reason.
    """
    guesses: dict[str, Cell] = {}
    if captured is not None and captured.step is not None and not captured.already:
        mode = "compiled-graph" if base == "compiled" else "graph"
        guesses[mode] = _predicted(
            mode, captured.step, tokens, captured.busy_ns, captured.kernels, captured.launches
        )
    if compiled is not None and not compiled.already and base in ("eager", "graph"):
        busy = None if compiled.busy is None else compiled.busy.ns
        for mode, step, launches in (
            ("compiled", compiled.launched, compiled.launches),
            ("compiled-graph", compiled.captured, 1),
        ):
            if step is not None:
                parts = [] if compiled.exact else [compiled.source]
                if mode == "compiled" and compiled.host:
                    parts.append(f"host per launch from {compiled.host}")
                note = "; ".join(parts)
                guesses[mode] = _predicted(
                    mode, step, tokens, busy, compiled.kernels, launches, note
                )
    cells = {}
    for mode in MODES:
        found = measured_cell(mode, measured[mode]) if mode in measured else None
        if found is None:
            found = guesses.get(mode, Cell(mode, UNKNOWN))
            if mode in failed:
                note = f"could not run: {failed[mode]}"
                found = Cell(
                    **{**vars(found), "note": f"{found.note}; {note}" if found.note else note}
                )
        cells[mode] = found
    return cells


def _predicted(
    mode: str,
    step: Estimate,
    tokens: float,
    busy: float | None,
    kernels: float | None,
    launches: float | None,
    note: str = "",
) -> Cell:
    return Cell(
        mode=mode,
        known=PREDICTED,
        step_ns=step.ns,
        range_ns=(step.low_ns, step.high_ns),
        tokens_per_s=tokens * 1e9 / step.ns if step.ns else None,
        ns_per_token=step.ns / tokens,
        busy_ns=busy,
        kernels=kernels,
        launches=launches,
        note=note,
    )
