"""Blocks of a document as components: the report's own markup, sections and block types alike.

A component for every element would be far too slow: React takes 27 s to show a table of 3,200
cells so, and looks at each of them with every later change; as the markup of one component they
take 50 ms. So the blocks of a section are one `div` that holds their markup, which the page's
script puts in. Long tables are grids. Nothing is drawn or worded here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from dash import dcc, html

from gaptrace.analysis import Analysis
from gaptrace.document.blocks import Block, Section, Sentence, Table
from gaptrace.render.elements import Child, Element, Node, element, prose
from gaptrace.render.html_blocks import Page, drawn, inline
from gaptrace_dashboards.grids import Column, grid, of_table

# Shorter tables have nothing to sort or to filter.
GRID_ROWS = 8
GRID_HEIGHT = 560


class Places(Mapping[str, str]):
    """Where the targets of texts lie: a page shows any stretch of its recording.

    links: further targets with their addresses. A target that is an address is itself.
    """

    def __init__(self, analysis: Analysis | None = None, links: Mapping[str, str] = {}) -> None:
        self._device = None if analysis is None else analysis.device
        self._links = links

    def __getitem__(self, target: str) -> str:
        if target in self._links or target.startswith("/"):
            return self._links.get(target, target)
        kind, _, rest = target.partition(":")
        if kind == "step" and self._device is not None:
            return f"timeline|step{rest}||"
        if kind == "time" and self._device is not None:
            return f"timeline|any|{rest.replace('-', '|')}"
        if kind == "gap" and self._device is not None:
            gaps, number = self._device.gaps, int(rest)
            return f"timeline|any|{gaps.start[number]}|{gaps.end[number]}"
        raise KeyError(target)

    def __iter__(self) -> Iterator[str]:
        return iter(self._links)

    def __len__(self) -> int:
        return len(self._links)


def here(node: Node) -> Node:
    """The same element with its links leading to pages of the dashboard."""
    if not isinstance(node, Element):
        return node
    attributes = tuple(
        (name, _address(value) if name == "href" and isinstance(value, str) else value)
        for name, value in node.attributes
    )
    return Element(node.tag, attributes, tuple(here(child) for child in node.children))


def _address(link: str) -> str:
    if link.startswith("#def-"):
        return f"/glossary{link}"
    return link.removeprefix("#") if link.startswith("#/") else link


def markup(*content: Child) -> str:
    """Elements as the text that the page's script puts in; elements escape all that is data."""
    return str(here(element("div", *content)))


def component(*content: Child, **more: Any) -> html.Div:
    """Elements as a component: an empty `div` that the page's script fills."""
    return html.Div(**{"data-html": markup(*content)}, **more)


def answer(sentence: Sentence, page: Page) -> html.Div:
    """The first line of a page."""
    said = [inline(part, page) for part in sentence.parts]
    return component(element("h1", said, id="sentence", class_="answer"))


def header(
    about: Sequence[Any], actions: Sequence[Any], views: Iterable[tuple[str, str, bool]],
    id_: str, label: str,
) -> html.Div:  # fmt: skip
    """The first line of a page: what it is about, what to do with it, and its other views.

    views: name, address, and whether it is the one that is shown. id_ and label: of the views.
    """
    links = [
        html.A(name, href=href, className="button",
               **({"aria-current": "page"} if shown else {}))
        for name, href, shown in views
    ]  # fmt: skip
    return html.Div(
        [
            html.P(about, className="who"),
            html.Div(actions, className="actions"),
            html.Nav(links, id=id_, className="views", **{"aria-label": label}) if links else None,
        ],
        className="runhead",
    )


def sections(found: Sequence[Section], page: Page) -> list[html.Section]:
    """Sections one after another."""
    return [section(one, page) for one in found]


def section(found: Section, page: Page) -> html.Section:
    """A section: its heading, its blocks, long tables as grids."""
    page.ids |= {found.id, f"h-{found.id}"}
    parts: list[Any] = [html.H2(found.title, id=f"h-{found.id}")]
    for long, blocks in groupby(found.blocks, key=_is_long):
        if long:
            for block in blocks:
                assert isinstance(block, Table)
                parts += _grid(block, page)
        else:
            parts.append(component(drawn(tuple(blocks), page)))
    return html.Section(
        parts, id=found.id, className="part", **{"aria-labelledby": f"h-{found.id}"}
    )


def _is_long(block: Block) -> bool:
    """Whether a block is a table to sort and filter; rows that state their own unit are not."""
    return (
        isinstance(block, Table)
        and len(block.rows) >= GRID_ROWS
        and not any(row.heading or row.unit is not None for row in block.rows)
    )


def _grid(block: Table, page: Page) -> list[Any]:
    id_ = f"{block.id.removesuffix('-table')}-grid"
    columns, rows = of_table(block)
    parts: list[Any] = [
        filter_tools(id_, f"filter {block.title}", "filter"),
        grid(id_, columns, rows, height=min(54 + 30 * len(rows), GRID_HEIGHT)),
        component([element("p", prose(note), class_="soft") for note in block.notes],
                  meanings(columns, page)),
    ]  # fmt: skip
    if block.folded:
        return [html.Details([html.Summary(block.title), *parts], className="twin")]
    return [html.H3(block.title) if block.title else None, *parts]


def filter_tools(id_: str, label: str, hint: str, *more: Any) -> html.Div:
    """The filter of a grid, more to do with its rows, and the copy button, then at the right."""
    return html.Div(
        [
            html.Label(label, htmlFor=f"{id_}-filter", className="hide"),
            dcc.Input(id=f"{id_}-filter", type="search", placeholder=hint, className="filter"),
            *more,
            html.Button("Copy CSV", type="button", className="csv right" if more else "csv",
                        **{"data-grid": id_}),
        ],
        className="tools",
    )  # fmt: skip


def meanings(columns: Sequence[Column], page: Page) -> Element | None:
    """A line under a grid with its columns as links to their definitions in the glossary."""
    links: list[Node] = []
    for column in columns:
        link = page.link(column.term, column.title.partition(",")[0])
        if isinstance(link, Element):
            links += [" · ", link] if links else [link]
    return element("p", "What the columns mean: ", links, class_="soft meanings") if links else None


def state_page(title: str, *lines: Child, retry: bool = False) -> html.Div:
    """A designed page for what cannot be shown: what is the case, and what to do about it."""
    return component(
        element("h1", title),
        [element("p", line) for line in lines if line],
        element("p", element("a", "all runs", href="/"), class_="soft"),
        className="state waiting" if retry else "state",
    )


def absent(title: str, text: str) -> html.Div:
    """What a tab says that has nothing to show, and what would give it something."""
    return component(element("h2", title), element("p", prose(text)), className="state small")
