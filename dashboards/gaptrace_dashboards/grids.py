"""Tables in AG Grid: numbers sort as numbers and read as text, long names open on focus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dash_ag_grid as dag

from gaptrace import units

ROW_HEIGHT = 30
PICKS = {
    "rowSelection": {"mode": "multiRow", "enableClickSelection": False, "headerCheckbox": False},
    "selectionColumnDef": {"pinned": "left", "width": 46, "suppressHeaderMenuButton": True},
}


@dataclass(frozen=True)
class Column:
    """One column. kind: `text`, `number` (with its text beside it), `name`, `link` or `spark`."""

    field: str
    title: str
    kind: str = "text"
    width: int = 110
    grow: int = 0
    tip: str = ""
    pinned: bool = False


def number(value: float | None, text: str) -> tuple[float | None, str]:
    """A cell of a number column: what it sorts by and what it reads."""
    return value, text


def counted(value: float | None) -> tuple[float | None, str]:
    """A count as a cell."""
    return value, units.count(value)


def grid(
    id_: str,
    columns: Sequence[Column],
    rows: Sequence[dict[str, Any]],
    *,
    picks: bool = False,
    height: int | None = None,
) -> dag.AgGrid:
    """A table; a number's cell is a pair of value and text, kept in two fields."""
    return dag.AgGrid(
        id=id_,
        columnDefs=[_column(column) for column in columns],
        rowData=flat(columns, rows),
        columnSize=None,
        className="gt-grid",
        getRowId="params.data.id" if rows and "id" in rows[0] else None,
        style={"height": height, "width": "100%"} if height else {"width": "100%"},
        dashGridOptions={
            "domLayout": "normal" if height else "autoHeight",
            "rowHeight": ROW_HEIGHT,
            "headerHeight": 34,
            "animateRows": False,
            "suppressDragLeaveHidesColumns": True,
            "ensureDomOrder": True,
            "tooltipShowDelay": 300,
            "enableBrowserTooltips": True,
            "rowBuffer": 4,
            **(PICKS if picks else {}),
        },
        dangerously_allow_code=False,
        persistence=False,
    )


def flat(columns: Sequence[Column], rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with a number's text in `FIELD_text` beside its value."""
    pairs = [column.field for column in columns if column.kind == "number"]
    result = []
    for row in rows:
        plain = dict(row)
        for field in pairs:
            plain[field], plain[f"{field}_text"] = row[field]
        result.append(plain)
    return result


def _column(column: Column) -> dict[str, Any]:
    found: dict[str, Any] = {
        "field": column.field,
        "headerName": column.title,
        "width": column.width,
        "sortable": column.kind != "spark",
        "resizable": True,
        "suppressMovable": True,
        "suppressHeaderMenuButton": True,
        "cellDataType": False,
    }
    if column.grow:
        found |= {"flex": column.grow, "minWidth": column.width}
    if column.tip:
        found["headerTooltip"] = column.tip
    if column.pinned:
        found["pinned"] = "left"
    renderer = {"name": "GapName", "link": "GapLink", "spark": "GapSpark"}
    if column.kind in renderer:
        found["cellRenderer"] = renderer[column.kind]
    if column.kind == "number":
        found |= {
            "type": "rightAligned",
            # Read, not run: a path into the row. A component for every number would be slow.
            "valueFormatter": {"function": f"params.data.{column.field}_text"},
            "sortingOrder": ["desc", "asc", None],
        }
    return found


def filled(columns: Sequence[Column], rows: Sequence[dict[str, Any]]) -> list[Column]:
    """The columns that have something to say: those without any entry or figure are left out."""

    def says(value: Any) -> bool:
        return bool(value[0]) if isinstance(value, tuple) else bool(value)

    return [column for column in columns if any(says(row[column.field]) for row in rows)]
