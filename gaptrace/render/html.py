"""HTML: one file that needs nothing else, closed by a policy, complete without scripts."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

from gaptrace import units
from gaptrace.document.blocks import Document, Section, Sentence, Timeline
from gaptrace.document.sections import COMPARISON
from gaptrace.render.drawing.looks import canvas_looks, colour_rules, pattern_defs, variables
from gaptrace.render.elements import (
    LONGEST,
    Element,
    Node,
    asset,
    clean,
    element,
    packed_block,
    shortened,
)
from gaptrace.render.formats import Format, Style
from gaptrace.render.html_blocks import (
    DRAWS,
    Page,
    definitions,
    drawn,
    glossary,
    inline,
    keys_dialog,
)
from gaptrace.results.codec import to_data
from gaptrace.timeline.columns import as_data
from gaptrace.timeline.views import Views

# A page larger than this is made again with less: see `_SMALLER`.
HARD_CAP = 8_000_000
# What is left out to stay under the cap, each in addition to the ones before, and its notice.
_SMALLER = (
    "",
    "Timelines hold one step each",
    "Timelines cannot be zoomed",
    "Timelines cannot be zoomed and the result is not embedded (--json writes it)",
)
KEYS = (
    ("j k", "next and previous finding"),
    ("n p", "next and previous step shown"),
    ("[ ]", "previous and next gap"),
    ("w s", "zoom the timeline in and out"),
    ("a d", "move the timeline"),
    ("← → ↑ ↓", "blocks and lanes of the timeline"),
    ("0", "fit the timeline"),
    ("/", "search the timeline"),
    ("t", "light or dark"),
    ("?", "this list"),
)
# The tabs of a document's parts work by CSS alone, for as many parts as there are rules.
MOST_TABS = 16
# Where a line of a large sentence must not end: within a number and its unit.
_UNIT = re.compile(r"(?<=\d) (?=(?:[µmn]?s|%|tok/s|[kMGT]?B)(?![\w/]))")


def render(document: Document, style: Style) -> str:
    """The document as a page; the finest one that stays under the hard cap of 8 MB."""
    del style  # a page follows its reader's system
    text = ""
    for smaller in range(len(_SMALLER)):
        text = _page(document, smaller)
        if len(text) <= HARD_CAP:
            break
    return text


def _page(document: Document, smaller: int) -> str:
    page = Page(static=smaller >= 2)
    page.ids |= {"main", "keys", "glossary", "timelines", "result"}
    parts = [(part, _prefix(part, i)) for i, part in enumerate(document.parts, start=1)]
    outside = _anchors(document)
    for part, prefix in parts:
        path = getattr(getattr(part.result, "source", None), "path", None)
        outside |= dict.fromkeys((part.title, f"run:{path}"), prefix.removesuffix("-"))
    main = page.within("", 2, outside)
    sections = [_section(section, main) for section in document.sections]
    body = [_part(part, prefix, page, outside) for part, prefix in parts]
    notice = element(
        "p",
        f"{_SMALLER[smaller]}, to keep this file under {units.size(HARD_CAP)}.",
        class_="note limited",
    )
    navigation = [(section.id, section.title) for section in document.sections]
    navigation += [(prefix.removesuffix("-"), part.title) for part, prefix in parts]
    content = [
        element("h1", _large(document.answer, main), class_="answer"),
        notice if smaller else None,
        _navigation([*navigation, ("glossary", "Glossary")], "parts of this report", "parts"),
        sections,
        _tabs(parts, body) if _tabbed(document) else body,
        _glossary(page),
    ]
    return _shell(document, content, [
        _timelines(page.timelines, smaller) if page.timelines else None,
        packed_block("result", _bounded(to_data(document.result)))
        if document.result is not None and smaller < 3
        else None,
    ])  # fmt: skip


def _prefix(part: Document, number: int) -> str:
    word = re.sub(r"[^a-z0-9]+", "-", part.title.lower()).strip("-")
    return f"part{number}-{word[:40]}-" if word else f"part{number}-"


def _anchors(document: Document) -> dict[str, str]:
    """Where each target of a document's texts lies: sections, steps, gaps and rows of timelines."""
    found = {section.id: section.id for section in document.sections}
    for section in document.sections:
        for block in section.blocks:
            if isinstance(block, Timeline) and isinstance(block.data, Views):
                for target, place in block.data.places().items():
                    found[target] = f"{block.id}|{block.id}/{place}"
    return found


def _section(section: Section, page: Page) -> Element:
    anchor = page.claim(section.id)
    inner = replace(page, heading=section.title)
    return element(
        "section",
        element(f"h{page.level}", section.title, id=anchor and page.claim(f"h-{anchor}")),
        drawn(section.blocks, inner),
        id=anchor,
        aria_labelledby=f"h-{anchor}" if anchor else None,
        class_="part",
    )


# ---------------------------------------------------------------- parts of a document


def _part(part: Document, prefix: str, page: Page, outside: Mapping[str, str]) -> Element:
    """A part of the document: a mode of a run, a pair of a comparison, with all of its sections."""
    anchor = prefix.removesuffix("-")
    own = page.within(prefix, 3, {**outside, **_anchors(part)})
    page.ids |= {anchor, f"h-{anchor}"}
    nested = [
        _part(inner, f"{prefix}{_prefix(inner, i)}", page, outside)
        for i, inner in enumerate(part.parts, start=1)
    ]
    return element(
        "article",
        element("h2", part.title, class_="mode", id=f"h-{anchor}"),
        element("p", " · ".join(part.identity), class_="soft") if part.identity else None,
        element("p", _large(part.answer, own), class_="lead"),
        _navigation([(s.id, s.title) for s in part.sections], f"parts of {part.title}", "inner"),
        [_section(section, own) for section in part.sections],
        nested,
        id=anchor,
        aria_labelledby=f"h-{anchor}",
        class_="tab",
    )


def _tabbed(document: Document) -> bool:
    return document.kind != COMPARISON and 1 < len(document.parts) <= MOST_TABS


def _tabs(parts: Sequence[tuple[Document, str]], body: Sequence[Element]) -> Element:
    """The parts behind tabs: radio buttons that CSS alone obeys."""
    choice = [
        (
            element("input", type="radio", name="parts", id=f"pick-{prefix}", checked=i == 0),
            element("label", part.title, for_=f"pick-{prefix}"),
        )
        for i, (part, prefix) in enumerate(parts)
    ]
    return element("div", choice, body, class_="tabs")


@cache
def _tab_rules() -> str:
    shown = ",".join(
        f".tabs>input:nth-of-type({i}):checked~.tab:nth-of-type({i})"
        for i in range(1, MOST_TABS + 1)
    )
    return f"@media screen{{{shown}{{display:block}}}}"


# ---------------------------------------------------------------- the shell


@cache
def asset_text(name: str) -> str:
    """A file that ships beside this module, as text."""
    return (resources.files("gaptrace") / "render" / "assets" / name).read_text("utf-8")


@cache
def stylesheet() -> str:
    """The page's rules: variables of both schemes, then the colour rules, then the layout.

    Paper is always light.
    """
    light, dark = variables("light"), variables("dark")
    return (
        f":root{{{light}}}"
        f"@media(prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
        f":root[data-theme=dark]{{{dark}}}"
        f"@media print{{:root:root:root{{{light}color-scheme:light}}}}\n"
        f"{colour_rules()}\n{asset_text('report.css')}\n{_tab_rules()}"
    )


def policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """The content security policy: exactly these scripts and styles, and nothing from anywhere."""

    def sources(bodies: Sequence[str]) -> str:
        digests = [hashlib.sha256(body.encode()).digest() for body in bodies]
        return " ".join(f"'sha256-{base64.b64encode(d).decode()}'" for d in digests)

    return (
        f"default-src 'none'; script-src {sources(scripts)}; style-src {sources(styles)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _shell(document: Document, content: Sequence[Any], data: Sequence[Element | None]) -> str:
    first = asset_text("theme.js")
    last = [asset_text(name) for name in ("page.js", "timeline.js", "tables.js", "report.js")]
    allowed, title = policy([first, *last], [stylesheet()]), shortened(document.title, 120)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=allowed),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="generator", content="gaptrace"),
        element("title", f"{title} · gaptrace"),
        element("link", rel="icon", href="data:,"),
        asset("script", first),
        asset("style", stylesheet()),
    )
    who = [element("b", title), *(f" · {shortened(fact, 120)}" for fact in document.identity)]
    body = element(
        "body",
        element("a", "skip to the answer", href="#main", class_="skip"),
        element("svg", pattern_defs(), width=0, height=0, class_="defs", aria_hidden="true"),
        element("header", element("p", who, class_="who"), element("div", class_="actions"),
                class_="page"),
        element("main", content, id="main", tabindex="-1"),
        element(
            "footer",
            "Made by gaptrace from a torch.profiler trace. A cause is what the host did during "
            "a gap: evidence, not proof; figures that follow from it are ceilings.",
        ),
        keys_dialog(KEYS),
        data,
        [asset("script", text) for text in last],
    )  # fmt: skip
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _large(answer: Sentence, page: Page) -> list[Node]:
    """A sentence set large: no line ends between a number and its unit."""
    return [
        _UNIT.sub("\u202f", part) if isinstance(part, str) else inline(part, page)
        for part in answer.parts
    ]


def _navigation(items: Sequence[tuple[str, str]], label: str, css: str) -> Element | None:
    links = [element("li", element("a", text, href=f"#{id_}")) for id_, text in items]
    return element("nav", element("ul", links), class_=css, aria_label=label) if items else None


def _glossary(page: Page) -> Element:
    """The definitions of everything the page links to, in the order of the glossary."""
    used = [item for item in glossary().values() if item.id in page.terms]
    title = element("h2", "Glossary", id="h-glossary")
    return element("section", title, definitions(used), id="glossary",
                   aria_labelledby="h-glossary", class_="part")  # fmt: skip


def _timelines(found: Sequence[tuple[str, Views]], smaller: int) -> Element:
    """What the canvas draws: the looks once, and every view of every timeline."""
    analyses = [
        {
            "id": id_,
            "names": [clean(name) for name in views.names.texts],
            "views": [
                {
                    "id": f"{id_}/{view.id}",
                    "listed": view.listed,
                    "said": clean(view.stretch.said),
                    "data": as_data(view.stretch),
                }
                for view in views.shown[: 1 if smaller else None]
            ],
        }
        for id_, views in found
    ]
    return packed_block("timelines", {"looks": canvas_looks(), "analyses": analyses})


def _bounded(value: Any) -> Any:
    """Plain data with absurdly long texts cut; `--json` holds them whole."""
    if isinstance(value, str):
        return shortened(value, LONGEST)
    if isinstance(value, dict):
        return {key: _bounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_bounded(item) for item in value]
    return value


FORMAT = Format("html", (".html", ".htm"), render, DRAWS)
