"""Pieces and seams of one recording, and what the recorder adds to a run, as HTML sections."""

from __future__ import annotations

from gaptrace.measure.result import Analysis
from gaptrace.report.context import Context, Section, section
from gaptrace.report.markup import element, shortened
from gaptrace.report.run_parts import SEAMS, SEAMS_SAID, piece_words, run_parts, seam_rows
from gaptrace.report.tables import Cell, Number, data_table
from gaptrace.runs.run import RunAnalysis

_SIGNS = frozenset("–−+<≤")


def piece_section(analysis: Analysis, context: Context) -> Section | None:
    """The pieces of a step that replays several graphs, and its seams by the work in them."""
    found = analysis.piecewise
    if found is None:
        return None
    terms = context.terms
    header = [
        terms.link("seam", SEAMS[0]),
        *SEAMS[1:3],
        terms.link("seam-idle", f"{SEAMS[3]}, mean"),
        f"{SEAMS[4]}, median",
        f"{SEAMS[5]}, median",
    ]
    return section(
        context,
        "pieces",
        "Pieces",
        element("p", terms.link("piece", "Pieces"), f": {piece_words(found)}."),
        data_table("seams by the work in them", header, [_cells(row) for row in seam_rows(found)]),
        element("p", SEAMS_SAID, class_="soft"),
    )


def run_part_sections(run: RunAnalysis, context: Context) -> list[Section]:
    """Starts, pieces, buckets and autotuning of a run, each as a section."""
    found = []
    for number, part in enumerate(run_parts(run)):
        title = part.title[0].upper() + part.title[1:]
        what = title.partition(",")[0]
        children = []
        if part.rows:
            children.append(element("p", context.terms.link(part.term, what), " of each mode."))
            rows = [_cells(row) for row in part.rows]
            children.append(data_table(part.title, list(part.header), rows))
        if part.lines:
            lines = [
                element("li", shortened(context.privacy.text(line), 400)) for line in part.lines
            ]
            children.append(element("ul", *lines))
        found.append(section(context, f"run-{number}", title, *children))
    return found


def _cells(row: list[str]) -> list[Cell]:
    """A row of text as cells: what begins like a number goes to the right."""
    return [
        Number(None, cell) if cell[:1].isdigit() or cell[:1] in _SIGNS else shortened(cell, 200)
        for cell in row
    ]
