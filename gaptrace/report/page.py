"""The shell of every HTML report: one file, closed by a policy, themed before first paint."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from gaptrace.report.context import Section
from gaptrace.report.markup import Markup, asset, data_block, element, markup
from gaptrace.report.patterns import canvas_looks, colour_rules, pattern_defs, variables

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


@cache
def asset_text(name: str) -> str:
    """A file that ships beside this module, as text."""
    return (resources.files("gaptrace") / "report" / "assets" / name).read_text("utf-8")


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
        f"{colour_rules()}\n{asset_text('report.css')}"
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


def page(
    *,
    title: str,
    who: Sequence[Markup | str],
    top: Sequence[Markup],
    navigation: Sequence[Section],
    body: Markup,
    timelines: Sequence[Mapping[str, Any]],
    summary: Any | None,
) -> str:
    """A whole HTML document.

    Everything is in it: no request of any kind is made, and without scripts it is complete.
    """
    style = stylesheet()
    first, last = asset_text("theme.js"), [asset_text("timeline.js"), asset_text("report.js")]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element(
            "meta",
            http_equiv="Content-Security-Policy",
            content=policy([first, *last], [style]),
        ),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="generator", content="gaptrace"),
        element("title", title),
        element("link", rel="icon", href="data:,"),
        asset("script", first),
        asset("style", style),
    )
    document = element(
        "html",
        head,
        element(
            "body",
            element("a", "skip to the answer", href="#main", class_="skip"),
            element("svg", pattern_defs(), width=0, height=0, class_="defs", aria_hidden="true"),
            element(
                "header",
                element("p", *who, class_="who"),
                element("div", class_="actions"),
                class_="page",
            ),
            element(
                "main",
                *top,
                element(
                    "nav",
                    element(
                        "ul",
                        *[
                            element("li", element("a", part.title, href=f"#{part.id}"))
                            for part in navigation
                        ],
                    ),
                    class_="parts",
                    aria_label="parts of this report",
                ),
                body,
                id="main",
                tabindex="-1",
            ),
            element(
                "footer",
                "Made by gaptrace from a torch.profiler trace. A cause is what the host did during "
                "a gap: evidence, not proof; figures that follow from it are ceilings.",
            ),
            _keys(),
            data_block("timelines", {"looks": canvas_looks(), "analyses": list(timelines)})
            if timelines
            else None,
            data_block("summary", summary) if summary is not None else None,
            *[asset("script", text) for text in last],
        ),
        lang="en",
    )
    return f"<!doctype html>\n{document}\n"


def _keys() -> Markup:
    return element(
        "dialog",
        element("h2", "Keys"),
        element(
            "dl",
            *[
                element(
                    "div",
                    element("dt", *[markup(element("kbd", key), " ") for key in keys.split()]),
                    element("dd", what),
                )
                for keys, what in KEYS
            ],
            class_="facts",
        ),
        id="keys",
        aria_label="keyboard map",
    )
