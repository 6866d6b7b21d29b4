"""SVG: one picture file of a document, light and dark by the reader's system.

Pictures are drawn to the width of the file; what is words elsewhere is set in lines between them.
Of a document's parts the first is drawn and the others are named: one file holds one picture.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

from gaptrace import units
from gaptrace.document import blocks
from gaptrace.document.answers import plain as words_of
from gaptrace.document.blocks import Document, Inline
from gaptrace.quantity import Quantity
from gaptrace.render import formats
from gaptrace.render.drawing.bars import draw_bars
from gaptrace.render.drawing.charts import draw_chart
from gaptrace.render.drawing.lanes import draw_lanes
from gaptrace.render.drawing.looks import pattern_defs, standalone_style
from gaptrace.render.drawing.picture import CHARACTER, Entry, Picture, said
from gaptrace.render.drawing.shapes import inset, label
from gaptrace.render.elements import Element, element
from gaptrace.render.formats import Format, Style
from gaptrace.render.tables import said_rows, text_table
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

    def line(self, text: str, css: str = "") -> None:
        """A line of words; a long one goes on below, two lines at most."""
        letters, high = (140, LINE + 4) if css == "h" else (LETTERS, LINE)
        for part in units.two_lines(text, letters):
            self.y += high
            self.shapes.append(label(part, MARGIN, self.y, css))

    def soft(self, *lines: str) -> None:
        """Lines that say more about what stands above."""
        for text in lines:
            self.line(text, "soft")

    def pictures(self, *row: Picture) -> None:
        """Pictures side by side with their labels, one legend below all."""
        room = (FULL - 2 * GAP * (len(row) - 1)) / len(row)
        top = self.y + GAP
        for i, picture in enumerate(row):
            x, gutter = MARGIN + i * (room + 2 * GAP), 0
            high = {"height": picture.height}
            if picture.labels:
                gutter = picture.gutter + 8
                self.shapes.append(inset(x, top, picture.labels, width=picture.gutter, **high))
            drawn = (element("title", picture.said), picture.shapes)
            place = {"width": round(room - gutter, 1), **high, "overflow": "visible"}
            self.shapes.append(inset(round(x + gutter, 1), top, drawn, **place))
            self.y = max(self.y, top + picture.height)
        self._legend({entry.label: entry for picture in row for entry in picture.legend})

    def _legend(self, entries: dict[str, Entry]) -> None:
        """Samples with their words, as many on a line as fit."""
        x = float(WIDTH)
        for entry in entries.values():
            wide = float(dict(entry.sample.attributes)["width"])
            need = wide + 22 + CHARACTER * len(entry.label)
            if x + need > WIDTH - MARGIN:
                x, self.y = float(MARGIN), self.y + LINE + 2
            self.shapes.append(inset(x, self.y - 10, entry.sample, overflow="visible"))
            self.shapes.append(label(entry.label, x + wide + 6, self.y))
            x += need
        self.y += GAP if entries else 0


def render(document: Document, style: Style) -> str:
    """The document as one SVG file."""
    del style  # a picture follows its reader's system
    sheet = Sheet()
    answer = plain(document.answer.parts)
    sheet.line(answer, "h")
    sheet.soft(" · ".join((document.title, *document.identity)))
    _sections(document, sheet)
    for part in document.parts[:1]:
        sheet.y += GAP
        sheet.line(f"{part.title}: {plain(part.answer.parts)}", "strong")
        _sections(part, sheet)
    if rest := [part.title for part in document.parts[1:]]:
        sheet.soft(f"Not drawn here: {', '.join(rest)}.")
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
    return words_of(parts).replace("`", "")


def sentence(block: blocks.Sentence, sheet: Sheet) -> None:
    """A line of prose."""
    sheet.line(plain(block.parts))


def note(block: blocks.Note, sheet: Sheet) -> None:
    """Something to know, what it withholds, and commands in mono."""
    held = f"; withheld: {', '.join(block.withheld)}" if block.withheld else ""
    sheet.soft(plain(block.parts) + held)
    for command in block.commands:
        sheet.line(command, "mono")


def facts(block: blocks.Facts, sheet: Sheet) -> None:
    """Named values one after another."""
    words = [
        f"{fact.label.text} "
        + " ".join(said(p) if isinstance(p, Quantity) else plain((p,)).strip() for p in fact.parts)
        for fact in block.facts
    ]
    sheet.soft(*textwrap.wrap(" · ".join(words), LETTERS))


def table(block: blocks.Table, sheet: Sheet) -> None:
    """The first rows in columns; the others are counted."""
    text = text_table(block, min(block.shown, TABLE_ROWS))
    lines = [[heading.words for heading in text.headings]]
    lines += said_rows(block, text, lambda _, cell: units.middle_elided(cell, CELL_LETTERS))
    sheet.y += GAP / 2
    for n, line in enumerate(lines):
        sheet.y += LINE
        x = float(MARGIN)
        for i, (heading, words) in enumerate(zip(text.headings, line, strict=True)):
            room = CHARACTER * max(len(line[i]) for line in lines)
            place, end = (x + room, " end") if heading.numeric else (x, "")
            css = ("" if n else "soft") + end
            sheet.shapes.append(label(words, round(place, 1), sheet.y, css))
            x += room + 2 * GAP
    if text.hidden:
        sheet.soft(f"{units.counted(text.hidden, 'more row')}.")
    sheet.soft(*block.notes)


def findings(block: blocks.Findings, sheet: Sheet) -> None:
    """One line a finding: id, title and the most it can win."""
    for item in block.items:
        sheet.line(f"{item.id} {item.title}: {said(item.gain)}")
    if block.left:
        sheet.soft(f"{units.counted(block.left, 'more finding')}.")


def bars(block: blocks.Bars, sheet: Sheet) -> None:
    """Bars or a bridge, with what they stand for."""
    sheet.pictures(draw_bars(block))
    sheet.soft(*block.notes)


def chart(block: blocks.Chart, sheet: Sheet) -> None:
    """A chart; curves side by side, steps in order alone."""
    pictures = draw_chart(block)
    if not pictures:
        table(block.table, sheet)
    if block.kind == "steps":
        pictures = pictures[:1]
    for start in range(0, len(pictures), PANELS_A_ROW):
        sheet.pictures(*pictures[start : start + PANELS_A_ROW])


def timeline(block: blocks.Timeline, sheet: Sheet) -> None:
    """The first view of a timeline; its longest gaps where there is no trace behind it."""
    views: Views | None = block.data
    if views is not None and views.shown:
        picture = draw_lanes(views.shown[0].stretch)
        sheet.line(picture.said)
        sheet.pictures(picture)
    elif block.table is not None:
        table(block.table, sheet)


DRAWS = formats.by_type(sentence, facts, table, bars, chart, findings, timeline, note)
FORMAT = Format("svg", (".svg",), render, DRAWS)
