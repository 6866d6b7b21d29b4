"""The predicted cells of a 2x2, for the HTML report's matrix."""

from __future__ import annotations

from gaptrace.analysis.predict.result import PREDICTED, Prediction
from gaptrace.report.matrix import MatrixCell


def predicted_cells(prediction: Prediction) -> dict[str, MatrixCell]:
    """Cells by mode that are predicted and not measured, as `matrix.run_cells` takes them."""
    return {
        mode: MatrixCell(
            cell.tokens_per_s, cell.step_ns, PREDICTED, cell.note or _counts(cell.kernels),
            cell.range_ns,
        )
        for mode, cell in prediction.square.items()
        if cell.known == PREDICTED
    }  # fmt: skip


def _counts(kernels: float | None) -> str:
    from gaptrace import units

    return "" if kernels is None else f"{units.count(kernels)} kernels"
