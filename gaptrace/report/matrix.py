"""The 2x2 box: {eager, compiled} x {launched, captured}, measured solid, predicted hatched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gaptrace import units
from gaptrace.compare.result import TwoByTwo
from gaptrace.measure.result import Analysis
from gaptrace.report.markup import Markup, element, markup, number
from gaptrace.runs.run import RunAnalysis, step_ns

MEASURED, PREDICTED, UNKNOWN = "measured", "predicted", "not recorded"
# What the box says of itself.
SAID = "Tokens per second by mode; solid is measured, hatched is predicted, the line its range."
ROWS = ("eager", "compiled")
COLUMNS = ("launched", "captured")
MODES = {
    ("eager", "launched"): "eager",
    ("eager", "captured"): "graph",
    ("compiled", "launched"): "compiled",
    ("compiled", "captured"): "compiled-graph",
}


@dataclass(frozen=True)
class MatrixCell:
    """One mode: its rate and step time, how they are known, and what to add.

    known: `measured`, `predicted` or `not recorded`. range_ns: of a predicted step time, drawn as
    a whisker. note: the kernels and launches behind it, or why there is nothing.
    """

    tokens_per_s: float | None = None
    step_ns: float | None = None
    known: str = UNKNOWN
    note: str = ""
    range_ns: tuple[float, float] | None = None


def run_cells(
    run: RunAnalysis, predicted: Mapping[str, MatrixCell] | None = None
) -> dict[str, MatrixCell] | None:
    """The cells of a run by mode; a mode that was not recorded takes its prediction if given.

    None where the run has only one of the four modes and nothing was predicted.
    """
    predicted = predicted or {}
    cells = {}
    for mode in MODES.values():
        analysis = run.representative(mode) if mode in run.modes else None
        failed = [cell.reason for cell in run.cells if cell.mode == mode and cell.reason]
        if analysis is not None and step_ns(analysis) is not None:
            cells[mode] = _measured(analysis)
        elif mode in predicted:
            cells[mode] = predicted[mode]
        else:
            cells[mode] = MatrixCell(note=failed[0] if failed else "")
    known = sum(cell.known != UNKNOWN for cell in cells.values())
    return cells if known > 1 else None


def analysis_cells(
    analysis: Analysis, predicted: Mapping[str, MatrixCell]
) -> dict[str, MatrixCell]:
    """The cells around one recording, which counts as eager where it does not say its mode."""
    own = analysis.source.mode or "eager"
    known = {own: _measured(analysis)} if step_ns(analysis) is not None else {}
    return {mode: known.get(mode) or predicted.get(mode) or MatrixCell() for mode in MODES.values()}


def _measured(analysis: Analysis) -> MatrixCell:
    head = analysis.headline
    return MatrixCell(
        head.rate.tokens_per_s,
        step_ns(analysis),
        MEASURED,
        _counts(head.steps["kernels"].median, head.steps["launches"].median),
    )


def square_cells(square: TwoByTwo) -> dict[str, MatrixCell]:
    """The cells of a comparison's 2x2."""
    corners = {
        "eager": square.eager,
        "compiled": square.compiled,
        "graph": square.graph,
        "compiled-graph": square.compiled_graph,
    }
    return {
        mode: MatrixCell(
            corner.tokens_per_s, corner.step_ns, MEASURED, _counts(corner.kernels, corner.launches)
        )
        for mode, corner in corners.items()
    }


def _counts(kernels: float | None, launches: float | None) -> str:
    return f"{units.count(kernels)} kernels, {units.count(launches)} launch calls"


def matrix(cells: Mapping[str, MatrixCell]) -> Markup:
    """The box as a table, each cell with its rate drawn to one scale."""
    rates = [cell.tokens_per_s for cell in cells.values() if cell.tokens_per_s]
    largest = max(rates, default=0)
    whole = max([end for cell in cells.values() for end in _ends(cell)], default=largest)
    whole = max(whole, largest)
    head = element(
        "tr",
        element("td"),
        *[element("th", column, scope="col") for column in COLUMNS],
    )
    rows = [
        element(
            "tr",
            element("th", row, scope="row"),
            *[_cell(cells[MODES[row, column]], largest, whole) for column in COLUMNS],
        )
        for row in ROWS
    ]
    return element(
        "table",
        element("caption", "tokens per second by mode", class_="hide"),
        element("thead", head),
        element("tbody", *rows),
        class_="matrix",
    )


def spread(cell: MatrixCell) -> str:
    """Half the width of a predicted step time's range, ` ±5 %`; empty where there is none."""
    if cell.range_ns is None or not cell.step_ns:
        return ""
    percent = 50 * (cell.range_ns[1] - cell.range_ns[0]) / cell.step_ns
    return f" ±{units.digits(percent, 1)} %"


def _ends(cell: MatrixCell) -> tuple[float, ...]:
    """The lowest and the highest rate of a predicted range; nothing where there is none."""
    if cell.range_ns is None or not cell.step_ns or cell.tokens_per_s is None:
        return ()
    return tuple(cell.tokens_per_s * cell.step_ns / end for end in reversed(cell.range_ns))


def _cell(cell: MatrixCell, largest: float, whole: float) -> Markup:
    if cell.known == UNKNOWN or cell.tokens_per_s is None:
        return element(
            "td", element("span", UNKNOWN, class_="soft"),
            element("p", cell.note, class_="soft") if cell.note else None,
        )  # fmt: skip
    share = 100 * cell.tokens_per_s / whole if whole else 0
    best = cell.tokens_per_s == largest
    ends = [f"{number(100 * end / whole)}%" for end in _ends(cell)]
    whisker = element("line", x1=ends[0], x2=ends[1], y1=5, y2=5, class_="range") if ends else None
    css = "k-busy" if cell.known == MEASURED else "predicted"
    return element(
        "td",
        element("span", units.digits(cell.tokens_per_s), class_="big"),
        " tok/s ",
        element("b", "fastest", class_="fastest") if best else None,
        element(
            "svg", element("rect", width=f"{number(share)}%", height=10, class_=css), whisker,
            width="100%", height=10, aria_hidden="true",
        ),
        element(
            "p",
            markup(f"{units.time(cell.step_ns)} a step, {cell.known}{spread(cell)}"),
            element("br"),
            cell.note,
            class_="soft",
        ),
        class_="best" if best else None,
    )  # fmt: skip
