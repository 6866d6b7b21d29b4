"""Blocks to elements: one function a block type, for the HTML page and the dashboard.

Tables, pictures and lists are complete without scripts; with scripts tables sort, filter and copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import msgspec

from gaptrace import units
from gaptrace.document import blocks
from gaptrace.document.blocks import Cell, Inline, Row, Text
from gaptrace.knowledge.glossary import Entry, entries
from gaptrace.quantity import Quantity
from gaptrace.render import formats
from gaptrace.render.drawing.bars import draw_bars
from gaptrace.render.drawing.charts import draw_chart
from gaptrace.render.drawing.lanes import draw_lanes, small_multiples
from gaptrace.render.drawing.looks import word
from gaptrace.render.drawing.picture import Picture, basis_note
from gaptrace.render.elements import Child, Element, Node, element, percent, prose
from gaptrace.render.tables import basis_words, row_label, text_table
from gaptrace.timeline.views import Views
from gaptrace.vocabulary import VERDICT_SIGNS, VERDICTS

ROWS_SHOWN = 200
NAME_WIDTH = 44
FACT_SEPARATOR = " · "


@dataclass
class Page:
    """What blocks on one page share: terms they used, ids they took, timelines to embed.

    level: of the heading of a section; blocks of it are one lower. anchors: what a target leads to.
    part: of the document, being drawn. heading: of the section. static: no data for the canvas.
    """

    level: int = 2
    anchors: Mapping[str, str] = field(default_factory=dict)
    part: str = ""
    heading: str = ""
    static: bool = False
    terms: set[str] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)
    timelines: list[tuple[str, Views]] = field(default_factory=list)

    def within(self, part: str, level: int, anchors: Mapping[str, str]) -> Page:
        """The same page for a part of the document."""
        return replace(self, part=part, level=level, anchors={**self.anchors, **anchors})

    def claim(self, id: str) -> str | None:  # noqa: A002
        """`id` the first time that it is asked for, None for its twins: ids are unique."""
        if not id or id in self.ids:
            return None
        self.ids.add(id)
        return id

    def free(self, id: str) -> str:  # noqa: A002
        """`id`, or the first of `id-2`, `id-3` ... that nothing on the page has."""
        tries = (f"{id}-{n}" if n > 1 else id for n in count(1))
        return next(found for one in tries if (found := self.claim(one)))

    def link(self, term: str, label: str) -> Node:
        """A label as a link to what defines it; plain where the glossary lacks the term."""
        if not label or term not in glossary():
            return label
        self.terms.add(term)
        return element("a", label, href=f"#def-{term}", class_="def")


def glossary() -> Mapping[str, Entry]:
    """All entries of the glossary by id."""
    return {item.id: item for item in entries()}


# ---------------------------------------------------------------- words and numbers


def quantity(value: Quantity) -> Element:
    """A number with its unit, never broken over two lines; else the reason why there is none."""
    if not value.known:
        return element("span", units.text(value), class_="withheld")
    data = {"data_v": raw(value), **basis_data(value.unit, value.basis)}
    title = basis_words(value.basis) or None
    return element("span", units.text(value), class_="q", title=title, **data)


def raw(value: Quantity) -> str | None:
    """A number as a script or a test reads it."""
    exact = value.value if value.value is not None else value.low
    return None if exact is None else f"{exact:.10g}"


def basis_data(unit: str | None, basis: str) -> dict[str, str | None]:
    """What a script or a test reads of a number beside its value, or of all in a column or row."""
    return {"data_unit": unit, "data_basis": basis or None}


def inline(part: Inline, page: Page) -> Node:
    """A part of a line: plain words, words with a role, or a number."""
    if isinstance(part, Quantity):
        return quantity(part)
    if isinstance(part, Text):
        return words(part, page)
    return element("span", prose(part)) if "`" in part else part


def words(part: Text, page: Page) -> Node:
    """Words by their role, leading to their definition or to a place on the page."""
    text = VERDICTS.get(part.text, part.text) if part.role == "verdict" else part.text
    shown = page.link(part.term, text) if part.term else text
    if part.role == "name":
        short, full = units.middle_elided(part.text, NAME_WIDTH), part.full or part.text
        shown = element("span", short, class_="mono", title=full)
    elif part.role == "code":
        shown = element("code", part.text)
    elif part.role == "strong":
        shown = element("strong", shown)
    elif part.role == "verdict":
        sign = VERDICT_SIGNS.get(part.key, "")
        sign = "" if not sign or part.text.startswith(sign) else f"{sign} "
        shown = element("b", sign, shown, class_=f"verdict {part.key}".strip())
    return _jump(part.target, shown, page) if part.target else shown


def _jump(target: str, shown: Node, page: Page) -> Node:
    """What is shown as a link to its target; as it is where the page does not hold that."""
    if (anchor := page.anchors.get(target)) is None:
        return shown
    where, _, place = anchor.partition("|")
    view, start, end = place.split("|") if place else ("", "", "")
    data = {"data_view": view or None, "data_from": start or None, "data_to": end or None}
    return element("a", shown, href=f"#{where}", **data)


def sentence(block: blocks.Sentence, page: Page) -> Element:
    """A paragraph; a lead says what follows."""
    css = {"answer": "lead", "lead": "said"}.get(block.role)
    return element("p", [inline(part, page) for part in block.parts], class_=css)


def note(block: blocks.Note, page: Page) -> Element:
    """Something to know: grave ones stand out, commands are set for copying."""
    sign = VERDICT_SIGNS.get(block.level, "")
    mark = element("b", f"{sign} ", class_=f"verdict {block.level}") if sign else None
    said: list[Node] = [inline(part, page) for part in block.parts]
    if block.withheld:
        said += ["; ", page.link("withheld", "withheld"), f": {', '.join(block.withheld)}"]
    return element(
        "div",
        element("p", mark, said),
        element("pre", "\n".join(block.commands)) if block.commands else None,
        class_=f"note {block.level}",
    )


def facts(block: blocks.Facts, page: Page) -> Element:
    """Named values: in one line, or as a list of pairs."""
    if not block.line:
        rows = [(words(f.label, page), _values(f.parts, page)) for f in block.facts]
        return element("div", _title(block.title, page), _pairs(rows))
    line: list[Child] = [element("b", block.title), ": "] if block.title else []
    for i, fact in enumerate(block.facts):
        line += [FACT_SEPARATOR] if i else []
        line += [words(fact.label, page), " "] if fact.label.text else []
        line.append(_values(fact.parts, page))
    return element("p", line, class_="line")


def _values(parts: Sequence[Inline], page: Page) -> list[Child]:
    """Parts one after another, each number with its basis."""
    shown: list[Child] = []
    for part in parts:
        shown.append(inline(part, page))
        if isinstance(part, Quantity) and part.known and part.basis:
            shown.append(element("span", basis_note(part), class_="soft"))
    return shown


def _pairs(rows: Iterable[tuple[Child, Child]]) -> Element:
    """Names and what they stand for."""
    pairs = [element("div", element("dt", name), element("dd", what)) for name, what in rows]
    return element("dl", pairs, class_="facts")


def _title(text: str, page: Page) -> Element | None:
    """A heading over a block, but for one that only repeats its section's."""
    return element(f"h{page.level + 1}", text) if text and text != page.heading else None


def _below(notes: Iterable[str]) -> list[Element]:
    """What applies to all of a block, under it."""
    return [element("p", prose(text), class_="soft") for text in notes]


# ---------------------------------------------------------------- tables


def table(block: blocks.Table, page: Page) -> Element:
    """A table inside its own frame; only the first 200 rows, and how many more there are.

    The unit and basis of numbers stand once, at the heading of their column or at their row.
    """
    text = text_table(block, ROWS_SHOWN)
    head = [
        element(
            "th", page.link(column.term, column.label), heading.words.removeprefix(column.label),
            scope="col", class_="n" if heading.numeric else None,
            **(basis_data(column.unit, column.basis) if column.unit is not None else {}),
        )
        for column, heading in zip(block.columns, text.headings, strict=True)
    ]  # fmt: skip
    zipped = zip(block.rows, text.rows, text.units, strict=False)
    rows = [_row(row, block, cells, unit, page) for row, cells, unit in zipped]
    data = element(
        "table",
        element("caption", block.title, class_="hide") if block.title else None,
        element("thead", element("tr", head)),
        element("tbody", rows),
        class_="data",
    )
    said = block.title or page.heading or "table"
    frame = element("div", data, class_="frame", tabindex="0", role="region", aria_label=said)
    more = [f"{units.counted(text.hidden, 'more row')} in --json."] if text.hidden else []
    shown, anchor = (frame, _below([*block.notes, *more])), page.claim(block.id)
    if block.folded:
        title = element("summary", block.title or "data")
        return element("details", title, shown, class_="twin", id=anchor)
    return element("div", _title(block.title, page), shown, class_="tablebox", id=anchor)


def _row(row: Row, block: blocks.Table, cells: Sequence[str], unit: str, page: Page) -> Element:
    if row.heading:
        first = _cell_words(row.cells[0], "", page)
        span = len(block.columns)
        return element("tr", element("th", first, scope="rowgroup", colspan=span), class_="group")
    shown = []
    for i, (cell, column, text) in enumerate(zip(row.cells, block.columns, cells, strict=True)):
        numeric = column.numeric or column.unit is not None
        if isinstance(cell, Quantity):
            node: Node = text
            value, css = raw(cell), "" if cell.known else "n withheld"
        else:
            node = _cell_words(cell, column.look, page)
            value = text if numeric and text.isdecimal() else None
            css = "mono" if isinstance(cell, Text) and cell.role == "name" else ""
            css = css if not numeric else "n" if value is None else ""
        if i == 0 and row.key and (isinstance(cell, Quantity) or isinstance(node, str)):
            node = _jump(row.key, node, page)
        if i == 0 and row.unit is not None:
            node = element("span", node, row_label(row, unit, ""))
        shown.append(element("td", node, class_=css or None, data_v=value))
    own = basis_data(row.unit, row.basis) if row.unit is not None else {}
    return element("tr", shown, class_="weak" if row.weak else None, **own)


def _cell_words(cell: Cell, look: str, page: Page) -> Node:
    """Words of a cell: an entry of a vocabulary with its look, a name that opens to its whole."""
    if cell is None or isinstance(cell, Quantity):
        return ""
    part = cell if isinstance(cell, Text) else Text(cell)
    name, entry = word(part.key or part.text, look) if look else ("", None)
    if entry is not None and look != "mode":
        sample = element("svg", element("rect", class_=name), class_="swatch", aria_hidden="true")
        label = page.link(part.term or entry.term, part.text)
        return element("span", sample, label, class_="one")
    if isinstance(cell, str) or part.role != "name":
        return inline(cell, page)
    short, full = units.middle_elided(part.text, NAME_WIDTH), part.full or part.text
    if part.target:
        return element("span", words(part, page))
    if short == full:
        return short
    return element(
        "details", element("summary", short), element("span", full, class_="whole"), class_="full"
    )


# ---------------------------------------------------------------- findings


def findings(block: blocks.Findings, page: Page) -> Element:
    """The findings, the most important first; the first one is open."""
    largest = max((item.gain.value or 0 for item in block.items), default=0)
    more = f"{units.counted(block.left, 'more finding')} in the full form."
    shown = _finding_list(block.items, largest, page, opened=1)
    return element("div", shown, element("p", more) if block.left else None)


def _finding_list(
    items: Sequence[blocks.FindingItem], largest: float, page: Page, opened: int
) -> Element:
    shown = [_finding(item, largest, page, opened=i < opened) for i, item in enumerate(items)]
    return element("ol", shown, class_="findings")


def _finding(item: blocks.FindingItem, largest: float, page: Page, *, opened: bool) -> Element:
    share = 100 * (item.gain.value or 0) / largest if largest > 0 else 0
    gain = element("rect", width=percent(share), height=4, class_="gain")
    bar = element("svg", gain, width="100%", height=4, class_="gainbar", aria_hidden="true")
    per_token = f" per token{basis_note(item.gain)}" if item.gain.known else None
    places = units.counted(item.places, "place") if item.places else None
    more = f"{item.confidence}; `gaptrace explain {item.id}` says more"
    pairs: list[tuple[Node, str]] = [
        ("how we know", item.how_we_know),
        ("what to try", item.what_to_try),
        ("how to check", item.how_to_check),
        (page.link("finding", "confidence"), more),
    ]
    summary = element(
        "summary",
        element("span", item.id, class_="id mono"),
        element("span", item.title, class_="title"),
        element("span", quantity(item.gain), per_token, bar, class_="ceil"),
        element("span", places, class_="places soft"),
    )
    body = element(
        "div",
        element("p", prose(item.text)),
        _pairs((what, prose(value)) for what, value in pairs if value),
        table(item.evidence, page) if item.evidence is not None else None,
        _finding_list(item.parts, largest, page, opened=0) if item.parts else None,
        class_="body",
    )
    anchor = page.claim(f"{page.part}{item.id}")
    return element("li", element("details", summary, body, open=opened, id=anchor))


# ---------------------------------------------------------------- pictures


def figure(picture: Picture, page: Page, css: str = "chart") -> Element:
    """A picture that stretches with the page, its labels beside it, its legend below."""
    main = element(
        "svg", picture.shapes, width="100%", height=picture.height, role=picture.role,
        aria_label=picture.said, class_=css,
    )  # fmt: skip
    if picture.labels:
        room = {"width": picture.gutter, "height": picture.height, "aria_hidden": "true"}
        labels = element("svg", picture.labels, **room)
        main = element("div", labels, element("div", main), class_=f"beside g{picture.gutter}")
    merged = [f"{'; '.join(picture.notes)}."] if picture.notes else []
    below = [element("p", text, class_="soft") for text in merged]
    return element("figure", main, legend(picture, page), below)


def legend(picture: Picture, page: Page) -> Element | None:
    """What the picture draws, by colour, pattern and word."""
    entries = [element("li", e.sample, page.link(e.term, e.label)) for e in picture.legend]
    return element("ul", entries, class_="legend") if entries else None


def bars(block: blocks.Bars, page: Page) -> Element:
    """Bars on one scale, or a bridge from one total to another."""
    shown = (_title(block.title, page), figure(draw_bars(block), page), _below(block.notes))
    return element("div", shown, id=page.claim(block.id))


def chart(block: blocks.Chart, page: Page) -> Element:
    """A chart, and the same numbers as a table behind a click."""
    pictures = [figure(picture, page) for picture in draw_chart(block)]
    shown = element("div", pictures, class_="panels") if pictures else None
    if block.kind == "steps" and pictures:
        shown = _strip(page.free(f"{block.id}-order"), pictures, page)
    return element("div", _title(block.title, page), shown, _twin(block.table, page), class_="fig")


def _strip(name: str, pictures: Sequence[Element], page: Page) -> Element:
    """The steps in order or by duration: two drawings and a choice that needs no script."""
    choice: list[Element] = []
    for key, label in (("by-time", "in order"), ("by-length", "by duration")):
        id_, checked = page.free(f"{name}-{key}"), key == "by-time"
        choice.append(element("input", type="radio", name=name, id=id_, class_=key,
                              checked=checked))  # fmt: skip
        choice.append(element("label", label, for_=id_))
    return element(
        "div",
        element("fieldset", element("legend", "order", class_="hide"), choice, class_="choice"),
        element("div", pictures[0], class_="strip-time"),
        element("div", pictures[1], class_="strip-length"),
        class_="strip",
    )


def _twin(block: blocks.Table | None, page: Page) -> Element | None:
    """The same numbers as a table behind a click; nothing where there are none."""
    if block is None or not block.rows:
        return None
    title = f"data: {block.title}" if block.title else "data"
    return table(msgspec.structs.replace(block, title=title, folded=True), page)


def timeline(block: blocks.Timeline, page: Page) -> Element:
    """Steps drawn true to scale; with scripts a canvas to zoom takes the first drawing's place."""
    views: Views | None = block.data
    if views is None:
        shown = table(block.table, page) if block.table is not None else None
        return element("div", _title(block.title, page), shown)
    first, id_ = views.shown[0].stretch, page.free(block.id)
    canvas = element("div", class_="canvas", data_timeline=id_, data_brush=views.brush or None)
    if not page.static:
        page.timelines.append((id_, views))
    multiples = small_multiples(views)
    return element(
        "div",
        element("p", first.said, class_="said"),
        None if page.static else canvas,
        element("div", figure(draw_lanes(first), page, css="lanes"), class_="static"),
        figure(multiples, page) if multiples is not None else None,
        _twin(block.table, page),
        id=id_,
        class_="timeline",
    )


DRAWS = formats.by_type(sentence, facts, table, bars, chart, findings, timeline, note)


def draw(block: blocks.Block, page: Page) -> Element:
    """Any block."""
    found: Element = DRAWS[type(block)](block, page)
    return found


def drawn(several: Iterable[blocks.Block], page: Page) -> list[Any]:
    """Blocks one after another."""
    return [draw(block, page) for block in several]


# ---------------------------------------------------------------- definitions and keys


def definitions(items: Sequence[Entry]) -> Element:
    """Entries of the glossary, each with what else to look up among them."""
    known = {item.id: item for item in items}
    return element("dl", [_definition(item, known) for item in items], class_="glossary")


def _definition(item: Entry, known: Mapping[str, Entry]) -> Element:
    others = [known[id_] for id_ in item.see if id_ in known]
    links = [element("a", other.title, href=f"#def-{other.id}") for other in others]
    see = [part for link in links for part in (", ", link)]
    more: list[Element | None] = [
        element("span", f" Unit: {item.unit}.", class_="soft") if item.unit else None,
        element("span", f" JSON: {', '.join(item.json)}.", class_="soft mono")
        if item.json
        else None,
        element("span", " See ", see[1:], ".", class_="soft") if see else None,
    ]
    title = element("dt", item.title, id=f"def-{item.id}", tabindex="-1")
    said = element("dd", element("b", item.answer), f" {item.definition}", more)
    return element("div", title, said)


def keys_dialog(keys: Sequence[tuple[str, str]], *more: Child) -> Element:
    """The keyboard map that `?` opens."""
    rows = [([(element("kbd", key), " ") for key in names.split()], what) for names, what in keys]
    shown = (element("h2", "Keys"), _pairs(rows), more)
    return element("dialog", shown, id="keys", aria_label="keyboard map")
