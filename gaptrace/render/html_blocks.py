"""Blocks to elements: one function a block type, for the HTML page and the dashboard.

Tables, pictures and lists are complete without scripts; with scripts tables sort, filter and copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import msgspec

from gaptrace import units
from gaptrace.document.blocks import (
    Bars,
    Block,
    Cell,
    Chart,
    Facts,
    FindingItem,
    Findings,
    Inline,
    Note,
    Row,
    Sentence,
    Table,
    Text,
    Timeline,
)
from gaptrace.knowledge.glossary import Entry, entries
from gaptrace.quantity import Quantity
from gaptrace.render.drawing.bars import draw_bars
from gaptrace.render.drawing.charts import draw_chart
from gaptrace.render.drawing.lanes import draw_lanes, small_multiples
from gaptrace.render.drawing.looks import word
from gaptrace.render.drawing.picture import Picture, basis_note
from gaptrace.render.drawing.shapes import swatch
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
    part: the part of the document that is being drawn. heading: of the section. static: without
    data for the canvas.
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


def quantity(value: Quantity, shown: str | None = None) -> Element:
    """A number with its unit, never broken over two lines; else the reason why there is none."""
    if not value.known:
        return element("span", units.text(value), class_="withheld")
    return element(
        "span",
        units.text(value, shown),
        class_="q",
        title=basis_words(value.basis) or None,
        **number_data(value),
    )


def number_data(value: Quantity) -> dict[str, str | None]:
    """What a script or a test reads of a number: value, unit and basis."""
    exact = value.value if value.value is not None else value.low
    return {
        "data_v": None if exact is None else f"{exact:.10g}",
        "data_unit": value.unit,
        "data_basis": value.basis or None,
    }


def inline(part: Inline, page: Page) -> Node:
    """A part of a line: plain words, words with a role, or a number."""
    if isinstance(part, Quantity):
        return quantity(part)
    if isinstance(part, Text):
        return words(part, page)
    return element("span", prose(part)) if "`" in part else part


def words(part: Text, page: Page) -> Node:
    """Words by their role, leading to their definition or to a place on the page."""
    shown: Node = part.text
    if part.role == "verdict":
        shown = VERDICTS.get(part.text, part.text)
    if part.term:
        shown = page.link(part.term, str(shown))
    if part.role == "name":
        shown = element(
            "span",
            units.middle_elided(part.text, NAME_WIDTH),
            class_="mono",
            title=part.full or part.text,
        )
    elif part.role == "code":
        shown = element("code", part.text)
    elif part.role == "strong":
        shown = element("b", shown)
    elif part.role == "verdict":
        sign = VERDICT_SIGNS.get(part.key, "")
        sign = "" if not sign or part.text.startswith(sign) else f"{sign} "
        shown = element("b", sign, shown, class_=f"verdict {part.key}".strip())
    return _jump(part.target, shown, page) if part.target else shown


def _jump(target: str, shown: Node, page: Page) -> Node:
    """What is shown as a link to its target; as it is where the page does not hold that."""
    anchor = page.anchors.get(target)
    if anchor is None:
        return shown
    where, _, place = anchor.partition("|")
    if not place:
        return element("a", shown, href=f"#{where}")
    view, start, end = place.split("|")
    return element(
        "a", shown, href=f"#{where}", data_view=view, data_from=start or None, data_to=end or None
    )


def sentence(block: Sentence, page: Page) -> Element:
    """A paragraph; a lead says what follows."""
    css = {"answer": "lead", "lead": "said"}.get(block.role)
    return element("p", [inline(part, page) for part in block.parts], class_=css)


def note(block: Note, page: Page) -> Element:
    """Something to know: grave ones stand out, commands are set for copying."""
    sign = VERDICT_SIGNS.get(block.level, "")
    return element(
        "div",
        element(
            "p",
            element("b", f"{sign} ", class_=f"verdict {block.level}") if sign else None,
            [inline(part, page) for part in block.parts],
            ["; ", page.link("withheld", "withheld"), f": {', '.join(block.withheld)}"]
            if block.withheld
            else None,
        ),
        element("pre", "\n".join(block.commands)) if block.commands else None,
        class_=f"note {block.level}",
    )


def facts(block: Facts, page: Page) -> Element:
    """Named values: in one line, or as a list of pairs."""
    if block.line:
        line: list[Node] = []
        for fact in block.facts:
            line += [FACT_SEPARATOR] if line else []
            line += [words(fact.label, page), " "] if fact.label.text else []
            line += _values(fact.parts, page)
        named = [element("b", block.title), ": "] if block.title else None
        return element("p", named, line, class_="line")
    rows = [
        element("div", element("dt", words(f.label, page)), element("dd", _values(f.parts, page)))
        for f in block.facts
    ]
    return element("div", _title(block.title, page), element("dl", rows, class_="facts"))


def _values(parts: Sequence[Inline], page: Page) -> tuple[Node, ...]:
    """Parts one after another, each number with its basis."""
    shown: list[Node] = []
    for part in parts:
        shown.append(inline(part, page))
        if isinstance(part, Quantity) and part.known and part.basis:
            shown.append(element("span", f" ({basis_words(part.basis)})", class_="soft"))
    return tuple(shown)


def _title(text: str, page: Page) -> Element | None:
    """A heading over a block, but for one that only repeats its section's."""
    return element(f"h{page.level + 1}", text) if text and text != page.heading else None


# ---------------------------------------------------------------- tables


def table(block: Table, page: Page) -> Element:
    """A table inside its own frame; only the first 200 rows, and how many more there are."""
    text = text_table(block, ROWS_SHOWN)
    head = [
        element(
            "th",
            page.link(column.term, column.label),
            heading.words.removeprefix(column.label),
            scope="col",
            class_="n" if heading.numeric else None,
        )
        for column, heading in zip(block.columns, text.headings, strict=True)
    ]
    body = [
        _row(row, block, cells, unit, page)
        for row, cells, unit in zip(block.rows, text.rows, text.units, strict=False)
    ]
    frame = element(
        "div",
        element(
            "table",
            element("caption", block.title, class_="hide") if block.title else None,
            element("thead", element("tr", head)),
            element("tbody", body),
            class_="data",
        ),
        class_="frame",
        tabindex="0",
        role="region",
        aria_label=block.title or page.heading or "table",
    )
    below = [element("p", prose(note), class_="soft") for note in block.notes]
    if text.hidden:
        more = f"{units.counted(text.hidden, 'more row')} in --json."
        below.append(element("p", more, class_="soft"))
    anchor = page.claim(block.id)
    if block.folded:
        title = element("summary", block.title or "data")
        return element("details", title, frame, below, class_="twin", id=anchor)
    return element("div", _title(block.title, page), frame, below, class_="tablebox", id=anchor)


def _row(row: Row, block: Table, cells: Sequence[str], unit: str, page: Page) -> Element:
    if row.heading:
        first = _cell_words(row.cells[0], "", page)
        span = len(block.columns)
        return element("tr", element("th", first, scope="rowgroup", colspan=span), class_="group")
    shown = []
    for i, (cell, column, text) in enumerate(zip(row.cells, block.columns, cells, strict=True)):
        numeric = column.numeric or column.unit is not None
        if isinstance(cell, Quantity):
            node: Node = text
            css = "n" if cell.known else "n withheld"
            data = number_data(cell)
        else:
            node = _cell_words(cell, column.look, page)
            css = "n" if numeric else "mono" if _is_name(cell) else ""
            data = {"data_v": text} if numeric and text.isdecimal() else {}
        if i == 0 and row.key and (isinstance(cell, Quantity) or isinstance(node, str)):
            node = _jump(row.key, node, page)
        if i == 0 and row.unit is not None:
            node = element("span", node, row_label(row, unit, ""))
        shown.append(element("td", node, class_=css or None, **data))
    return element("tr", shown, class_="weak" if row.weak else None)


def _is_name(cell: Cell) -> bool:
    return isinstance(cell, Text) and cell.role == "name"


def _cell_words(cell: Cell, look: str, page: Page) -> Node:
    if cell is None or isinstance(cell, Quantity):
        return ""
    if look:
        key = cell.key or cell.text if isinstance(cell, Text) else cell
        name, entry = word(key, look)
        if entry is not None and look != "mode":
            label = cell if isinstance(cell, str) else cell.text
            term = cell.term if isinstance(cell, Text) and cell.term else entry.term
            return element("span", swatch(name), page.link(term, label), class_="one")
    if not isinstance(cell, Text):
        return element("span", prose(cell)) if "`" in cell else cell
    full = cell.full or cell.text
    short = units.middle_elided(cell.text, NAME_WIDTH)
    if cell.role != "name" or short == full:
        return words(cell, page)
    whole = element(
        "details", element("summary", short), element("span", full, class_="whole"), class_="full"
    )
    return whole if not cell.target else element("span", words(cell, page))


# ---------------------------------------------------------------- findings


def findings(block: Findings, page: Page) -> Element:
    """The findings, the most important first; the first one is open."""
    largest = max((item.gain.value or 0 for item in block.items), default=0)
    left = (
        element("p", f"{units.counted(block.left, 'more finding')} in the full form.")
        if block.left
        else None
    )
    return element("div", _finding_list(block.items, largest, page, first_open=True), left)


def _finding_list(
    items: Sequence[FindingItem], largest: float, page: Page, *, first_open: bool
) -> Element:
    return element(
        "ol",
        [
            _finding(item, largest, page, opened=first_open and i == 0)
            for i, item in enumerate(items)
        ],
        class_="findings",
    )


def _finding(item: FindingItem, largest: float, page: Page, *, opened: bool) -> Element:
    share = 100 * (item.gain.value or 0) / largest if largest > 0 else 0
    bar = element(
        "svg",
        element("rect", width=percent(share), height=4, class_="gain"),
        width="100%",
        height=4,
        class_="gainbar",
        aria_hidden="true",
    )
    per_token = f" per token{basis_note(item.gain)}" if item.gain.known else None
    pairs: list[tuple[str | Node, str]] = [
        ("how we know", item.how_we_know),
        ("what to try", item.what_to_try),
        ("how to check", item.how_to_check),
        (
            page.link("finding", "confidence"),
            f"{item.confidence}; `gaptrace explain {item.id}` says more",
        ),
    ]
    body = element(
        "div",
        element("p", prose(item.text)),
        element(
            "dl",
            [
                element("div", element("dt", what), element("dd", prose(value)))
                for what, value in pairs
                if value
            ],
            class_="facts",
        ),
        table(item.evidence, page) if item.evidence is not None else None,
        _finding_list(item.parts, largest, page, first_open=False) if item.parts else None,
        class_="body",
    )
    summary = element(
        "summary",
        element("span", item.id, class_="id mono"),
        element("span", item.title, class_="title"),
        element("span", quantity(item.gain), per_token, bar, class_="ceil"),
        element(
            "span",
            units.counted(item.places, "place") if item.places else None,
            class_="places soft",
        ),
    )
    anchor = page.claim(f"{page.part}{item.id}")
    return element("li", element("details", summary, body, open=opened, id=anchor))


# ---------------------------------------------------------------- pictures


def figure(picture: Picture, page: Page, css: str = "chart") -> Element:
    """A picture that stretches with the page, its labels beside it, its legend below."""
    main = element(
        "svg",
        picture.shapes,
        width="100%",
        height=picture.height,
        role=picture.role,
        aria_label=picture.said,
        class_=css,
    )
    if picture.labels:
        labels = element(
            "svg", picture.labels, width=picture.gutter, height=picture.height, aria_hidden="true"
        )
        main = element("div", labels, element("div", main), class_=f"beside g{picture.gutter}")
    below = element("p", f"{'; '.join(picture.notes)}.", class_="soft") if picture.notes else None
    return element("figure", main, legend(picture, page), below)


def legend(picture: Picture, page: Page) -> Element | None:
    """What the picture draws, by colour, pattern and word."""
    if not picture.legend:
        return None
    return element(
        "ul",
        [element("li", item.sample, page.link(item.term, item.label)) for item in picture.legend],
        class_="legend",
    )


def bars(block: Bars, page: Page) -> Element:
    """Bars on one scale, or a bridge from one total to another."""
    return element(
        "div",
        _title(block.title, page),
        figure(draw_bars(block), page),
        [element("p", prose(text), class_="soft") for text in block.notes],
        id=page.claim(block.id),
    )


def chart(block: Chart, page: Page) -> Element:
    """A chart, and the same numbers as a table behind a click."""
    pictures = [figure(picture, page) for picture in draw_chart(block)]
    drawn: Node | None = element("div", pictures, class_="panels") if pictures else None
    if block.kind == "steps" and block.bars is not None and pictures:
        drawn = _strip(block, pictures, page)
    return element("div", _title(block.title, page), drawn, _twin(block.table, page), class_="fig")


def _strip(block: Chart, pictures: Sequence[Element], page: Page) -> Element:
    """The steps in order or by duration: two drawings and a choice that needs no script."""
    name = page.free(f"{block.id}-order")
    page.ids |= {f"{name}-{key}" for key in ("by-time", "by-length")}
    choice = [
        (
            element("input", type="radio", name=name, id=f"{name}-{key}", class_=key,
                    checked=key == "by-time"),
            element("label", label, for_=f"{name}-{key}"),
        )
        for key, label in (("by-time", "in order"), ("by-length", "by duration"))
    ]  # fmt: skip
    return element(
        "div",
        element("fieldset", element("legend", "order", class_="hide"), choice, class_="choice"),
        element("div", pictures[0], class_="strip-time"),
        element("div", pictures[1], class_="strip-length"),
        pictures[2:],
        class_="strip",
    )


def _twin(block: Table, page: Page) -> Element | None:
    if not block.rows:
        return None
    title = f"data: {block.title}" if block.title else "data"
    return table(msgspec.structs.replace(block, title=title, folded=True), page)


def timeline(block: Timeline, page: Page) -> Element:
    """Steps drawn true to scale; with scripts a canvas to zoom takes the first drawing's place."""
    if block.data is None:
        return element(
            "div",
            _title(block.title, page),
            table(block.table, page) if block.table is not None else None,
        )
    views: Views = block.data
    first = views.shown[0].stretch
    id_ = page.free(block.id)
    if not page.static:
        page.timelines.append((id_, views))
    multiples = small_multiples(views)
    return element(
        "div",
        element("p", first.said, class_="said"),
        element("div", class_="canvas", data_timeline=id_, data_brush=views.brush or None)
        if not page.static
        else None,
        element("div", figure(draw_lanes(first), page, css="lanes"), class_="static"),
        figure(multiples, page) if multiples is not None else None,
        _twin(block.table, page) if block.table is not None else None,
        id=id_,
        class_="timeline",
    )


DRAWS: Mapping[type, Callable[..., Element]] = {
    Sentence: sentence,
    Facts: facts,
    Table: table,
    Bars: bars,
    Chart: chart,
    Findings: findings,
    Timeline: timeline,
    Note: note,
}


def draw(block: Block, page: Page) -> Element:
    """Any block."""
    return DRAWS[type(block)](block, page)


def drawn(blocks: Sequence[Block], page: Page) -> list[Any]:
    """Blocks one after another."""
    return [draw(block, page) for block in blocks]


# ---------------------------------------------------------------- definitions and keys


def definitions(items: Sequence[Entry]) -> Element:
    """Entries of the glossary, each with what else to look up among them."""
    known = {item.id: item for item in items}
    return element("dl", [_definition(item, known) for item in items], class_="glossary")


def _definition(item: Entry, known: Mapping[str, Entry]) -> Element:
    see: list[Node] = []
    for other in (known[id_] for id_ in item.see if id_ in known):
        see += [", " if see else " See ", element("a", other.title, href=f"#def-{other.id}")]
    return element(
        "div",
        element("dt", item.title, id=f"def-{item.id}", tabindex="-1"),
        element(
            "dd",
            element("b", item.answer),
            f" {item.definition}",
            element("span", f" Unit: {item.unit}.", class_="soft") if item.unit else None,
            element("span", f" JSON: {', '.join(item.json)}.", class_="soft mono")
            if item.json
            else None,
            element("span", see, ".", class_="soft") if see else None,
        ),
    )


def keys_dialog(keys: Sequence[tuple[str, str]], *more: Child) -> Element:
    """The keyboard map that `?` opens."""
    rows = [
        element(
            "div",
            element("dt", [(element("kbd", key), " ") for key in names.split()]),
            element("dd", what),
        )
        for names, what in keys
    ]
    return element(
        "dialog",
        element("h2", "Keys"),
        element("dl", rows, class_="facts"),
        more,
        id="keys",
        aria_label="keyboard map",
    )
