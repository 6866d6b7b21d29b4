"""The predicted cells of a 2x2, for the reports' matrix."""

from __future__ import annotations

from gaptrace import units
from gaptrace.errors import GaptraceError
from gaptrace.measure.result import Analysis
from gaptrace.predict import Prediction, predict_run
from gaptrace.predict.result import PREDICTED
from gaptrace.report.matrix import MatrixCell
from gaptrace.runs.run import RunAnalysis


def predicted_cells(prediction: Prediction) -> dict[str, MatrixCell]:
    """Cells by mode that are predicted and not measured, as `matrix.run_cells` takes them."""
    return {
        mode: MatrixCell(
            cell.tokens_per_s, cell.step_ns, PREDICTED, cell.note or _counts(cell.kernels),
            cell.range_ns,
        )
        for mode, cell in prediction.square.items()
        if cell.known == PREDICTED and cell.step_ns is not None
    }  # fmt: skip


def run_predictions(run: RunAnalysis) -> dict[str, MatrixCell]:
    """The predicted cells of a run; none where no mode has a recording to predict from."""
    try:
        return predicted_cells(predict_run(run))
    except GaptraceError:
        return {}


def analysis_predictions(analysis: Analysis) -> dict[str, MatrixCell]:
    """The predicted cells around a lone recording; none where its step has no time."""
    if analysis.device is None or analysis.headline.steps["period_ns"].median is None:
        return {}
    return predicted_cells(analysis.prediction)


def _counts(kernels: float | None) -> str:
    return "" if kernels is None else f"{units.count(kernels)} kernels"
