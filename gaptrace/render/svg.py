"""SVG: one picture file of a document, light and dark by the reader's system.

Pictures are drawn to the width of the file; what is words elsewhere is set in lines between them.
Of a document's parts the first is drawn and the others are named: one file holds one picture.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gaptrace import units
from gaptrace.document.blocks import (
    Bars,
    Block,
    Chart,
    Document,
    Facts,
    Findings,
    Inline,
    Note,
    Sentence,
    Table,
    Text,
    Timeline,
)
from gaptrace.quantity import Quantity
from gaptrace.render.drawing.bars import draw_bars
from gaptrace.render.drawing.charts import draw_chart
from gaptrace.render.drawing.lanes import draw_lanes
from gaptrace.render.drawing.looks import pattern_defs, standalone_style
from gaptrace.render.drawing.picture import CHARACTER, Picture, said
from gaptrace.render.elements import Element, element
from gaptrace.render.formats import Format, Style
from gaptrace.render.tables import row_label, text_table
from gaptrace.timeline.views import Views

WIDTH, MARGIN, LINE, GAP = 1_340, 8, 18, 12
FULL = WIDTH - 2 * MARGIN
LETTERS = 200
CELL_LETTERS, TABLE_ROWS, PANELS_A_ROW = 44, 8, 3


@dataclass
class Sheet:
    """What has been drawn so far, from the top down."""

    y: float = MARGIN
    shapes: list[Element] = field(default_factory=list)

    def line(self, text: str, css: str | None = None, x: float = MARGIN) -> None:
        """A line of words; a long one goes on below, two lines at most."""
        for part in units.two_lines(text, LETTERS if css != "h" else 140):
            self.y += LINE if css != "h" else LINE + 4
            self.shapes.append(element("text", part, x=x, y=self.y, class_=css))

    def picture(
        self, picture: Picture, x: float = MARGIN, width: float = WIDTH - 2 * MARGIN
    ) -> float:
        """A picture with its labels at a place; says how far down it reaches."""
        top, gutter = self.y + GAP, picture.gutter + 8 if picture.labels else 0
        if picture.labels:
            self.shapes.append(
                element("svg", picture.labels, x=x, y=top, width=picture.gutter,
                        height=picture.height)
            )  # fmt: skip
        self.shapes.append(
            element("svg", element("title", picture.said), picture.shapes,
                    x=round(x + gutter, 1), y=top, width=round(width - gutter, 1),
                    height=picture.height, overflow="visible")
        )  # fmt: skip
        return top + picture.height

    def legend(self, picture: Picture) -> None:
        """Samples with their words, as many on a line as fit."""
        x = float(MARGIN)
        for i, entry in enumerate(picture.legend):
            wide = dict(entry.sample.attributes).get("width", "16")
            need = float(wide) + 22 + CHARACTER * len(entry.label)
            if i == 0 or x + need > WIDTH - MARGIN:
                x, self.y = float(MARGIN), self.y + LINE + 2
            self.shapes.append(element("svg", entry.sample, x=x, y=self.y - 10, overflow="visible"))
            self.shapes.append(element("text", entry.label, x=x + float(wide) + 6, y=self.y))
            x += need
        self.y += GAP if picture.legend else 0


def render(document: Document, style: Style) -> str:
    """The document as one SVG file."""
    del style  # a picture follows its reader's system
    sheet = Sheet()
    answer = plain(document.answer.parts)
    sheet.line(answer, "h")
    sheet.line(" · ".join((document.title, *document.identity)), "soft")
    _sections(document, sheet)
    for i, part in enumerate(document.parts):
        if i:
            rest = ", ".join(other.title for other in document.parts[1:])
            sheet.line(f"Not drawn here: {rest}.", "soft")
            break
        sheet.y += GAP
        sheet.line(f"{part.title}: {plain(part.answer.parts)}", "strong")
        _sections(part, sheet)
    height = round(sheet.y + 2 * MARGIN)
    file = element(
        "svg",
        element("title", answer),
        standalone_style(),
        pattern_defs(),
        element("rect", width=WIDTH, height=height, class_="page"),
        sheet.shapes,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height}",
        width=WIDTH,
        height=height,
        role="img",
        aria_label=answer,
    )
    return f"{file}\n"


def _sections(document: Document, sheet: Sheet) -> None:
    for section in document.sections:
        sheet.y += 2 * GAP
        sheet.line(section.title, "strong")
        for block in section.blocks:
            DRAWS[type(block)](block, sheet)


def plain(parts: Sequence[Inline]) -> str:
    """Parts of a line as words."""
    return "".join(
        units.text(p) if isinstance(p, Quantity) else p.text if isinstance(p, Text) else p
        for p in parts
    ).replace("`", "")


def sentence(block: Sentence, sheet: Sheet) -> None:
    """A line of prose."""
    sheet.line(plain(block.parts))


def note(block: Note, sheet: Sheet) -> None:
    """Something to know, what it withholds, and commands in mono."""
    held = f"; withheld: {', '.join(block.withheld)}" if block.withheld else ""
    sheet.line(plain(block.parts) + held, "soft")
    for command in block.commands:
        sheet.line(command, "mono")


def facts(block: Facts, sheet: Sheet) -> None:
    """Named values one after another."""
    words = [
        f"{fact.label.text} "
        + " ".join(said(p) if isinstance(p, Quantity) else plain((p,)).strip() for p in fact.parts)
        for fact in block.facts
    ]
    for line in textwrap.wrap(" · ".join(words), LETTERS):
        sheet.line(line, "soft")


def table(block: Table, sheet: Sheet) -> None:
    """The first rows in columns; the others are counted."""
    text = text_table(block, min(block.shown, TABLE_ROWS))
    lines = [[heading.words for heading in text.headings]]
    for row, cells, unit in zip(block.rows, text.rows, text.units, strict=False):
        line = [units.middle_elided(cell, CELL_LETTERS) for cell in cells]
        if row.unit is not None:
            line[0] = row_label(row, unit, line[0])
        lines.append(line)
    wide = [max(len(line[i]) for line in lines) for i in range(len(block.columns))]
    sheet.y += GAP / 2
    for n, line in enumerate(lines):
        sheet.y += LINE
        x = float(MARGIN)
        for heading, words, letters in zip(text.headings, line, wide, strict=True):
            room = letters * CHARACTER
            place = x + room if heading.numeric else x
            css = f"{'soft ' if n == 0 else ''}{'end' if heading.numeric else ''}".strip() or None
            sheet.shapes.append(element("text", words, x=round(place, 1), y=sheet.y, class_=css))
            x += room + 2 * GAP
    if text.hidden:
        sheet.line(f"{units.counted(text.hidden, 'more row')}.", "soft")
    for note_ in block.notes:
        sheet.line(note_, "soft")


def findings(block: Findings, sheet: Sheet) -> None:
    """One line a finding: id, title and the most it can win."""
    for item in block.items:
        sheet.line(f"{item.id} {item.title}: {said(item.gain)}")
    if block.left:
        sheet.line(f"{units.counted(block.left, 'more finding')}.", "soft")


def bars(block: Bars, sheet: Sheet) -> None:
    """Bars or a bridge, with what they stand for."""
    picture = draw_bars(block)
    sheet.y = sheet.picture(picture)
    sheet.legend(picture)
    for text in block.notes:
        sheet.line(text, "soft")


def chart(block: Chart, sheet: Sheet) -> None:
    """A chart; curves side by side, steps in order alone."""
    pictures = draw_chart(block)
    if block.kind == "steps":
        pictures = pictures[:1]
    if not pictures:
        table(block.table, sheet)
    for start in range(0, len(pictures), PANELS_A_ROW):
        row = pictures[start : start + PANELS_A_ROW]
        own = (WIDTH - 2 * MARGIN - 2 * GAP * (len(row) - 1)) / len(row)
        sheet.y = max(
            sheet.picture(picture, MARGIN + i * (own + 2 * GAP), own)
            for i, picture in enumerate(row)
        )
        entries = {entry.label: entry for picture in row for entry in picture.legend}
        sheet.legend(Picture((), 0, "", tuple(entries.values())))


def timeline(block: Timeline, sheet: Sheet) -> None:
    """The first view of a timeline; its longest gaps where there is no trace behind it."""
    views: Views | None = block.data
    if views is None or not views.shown:
        if block.table is not None:
            table(block.table, sheet)
        return
    picture = draw_lanes(views.shown[0].stretch)
    sheet.line(picture.said)
    sheet.y = sheet.picture(picture)
    sheet.legend(picture)


DRAWS: Mapping[type[Block], Callable[..., None]] = {
    Sentence: sentence,
    Facts: facts,
    Table: table,
    Bars: bars,
    Chart: chart,
    Findings: findings,
    Timeline: timeline,
    Note: note,
}
FORMAT = Format("svg", (".svg",), render, DRAWS)
