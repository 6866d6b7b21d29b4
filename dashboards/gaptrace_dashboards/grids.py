"""Tables in AG Grid: numbers sort as numbers and read as text, long names open on focus."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dash_ag_grid as dag

from gaptrace.document.blocks import Table, Text
from gaptrace.quantity import Quantity
from gaptrace.render.html_blocks import glossary
from gaptrace.render.tables import text_table

ROW_HEIGHT = 30
# Pixels: of a letter, of a cell's padding and the sort sign, least and most of a column.
LETTER, PADDING, NARROWEST, WIDEST = 7, 34, 80, 320
PICKS = {
    "rowSelection": {"mode": "multiRow", "enableClickSelection": False, "headerCheckbox": False},
    "selectionColumnDef": {"pinned": "left", "width": 46, "suppressHeaderMenuButton": True},
}


@dataclass(frozen=True)
class Column:
    """One column. kind: `text`, `number` (with its text beside it), `name`, `link` or `spark`.

    term: glossary entry, whose answer is the heading's tip.
    """

    field: str
    title: str
    kind: str = "text"
    width: int = 110
    grow: int = 0
    term: str = ""
    pinned: bool = False


def of_table(block: Table) -> tuple[list[Column], list[dict[str, Any]]]:
    """A document's table: its columns and rows, each number with its text, each name whole."""
    texts = text_table(block)
    columns: list[Column] = []
    for i, (column, heading) in enumerate(zip(block.columns, texts.headings, strict=True)):
        named = any(isinstance(c := r.cells[i], Text) and c.role == "name" for r in block.rows)
        longest = max(len(heading.words), *(len(row[i]) for row in texts.rows))
        width = min(max(LETTER * longest + PADDING, NARROWEST), WIDEST)
        kind = "number" if heading.numeric else "name" if named else "text"
        field = _slug(column.label)
        if any(field == other.field for other in columns):
            field = _slug(f"{column.label} {column.basis}")
        grow = int(not heading.numeric)
        columns.append(Column(field, heading.words, kind, width, grow, column.term))
    rows = []
    for place, (row, said) in enumerate(zip(block.rows, texts.rows, strict=True)):
        found: dict[str, Any] = {"id": str(place)}
        for column_, cell, text in zip(columns, row.cells, said, strict=True):
            value = cell.value if isinstance(cell, Quantity) else None
            found[column_.field] = (value, text) if column_.kind == "number" else text
            if isinstance(cell, Text) and column_.kind == "name":
                found[f"{column_.field}_full"] = cell.full or cell.text
        rows.append(found)
    return columns, rows


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_") or "column"


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
        rowData=flat(rows),
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


def flat(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows with a number's text in `FIELD_text` beside its value."""
    result: list[dict[str, Any]] = []
    for row in rows:
        pairs = {field: cell for field, cell in row.items() if isinstance(cell, tuple)}
        values = {field: value for field, (value, _) in pairs.items()}
        result.append({**row, **values, **{f"{f}_text": text for f, (_, text) in pairs.items()}})
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
    if column.term in glossary():
        found["headerTooltip"] = glossary()[column.term].answer
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
