"""HTML and SVG built from elements, so that nothing unescaped can get in.

Text given to an element is data: it is cleaned and escaped. Only what elements returned (`Markup`)
is taken as it is. Inline styles and event handlers are refused: the page's security policy forbids
them, and so nothing can depend on them.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable
from typing import Any

_VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "col"})
_TAG = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")
_ATTRIBUTE = re.compile(r"[a-zA-Z][a-zA-Z0-9:-]*")
# C0 and C1 controls but tab and newline, surrogates and non-characters: nothing a page can show.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
# Marks that reorder the text around them: shown as what they are.
_REORDERING = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_LINE_SEPARATORS = str.maketrans({"\u2028": " ", "\u2029": " "})
LONGEST = 2_000


class Markup(str):
    """Text that is markup already; only the functions of this module make it."""

    __slots__ = ()


Child = str | int | float | None | Iterable[Any]


def clean(text: str) -> str:
    """`text` as it can be shown anywhere: no control characters, reordering marks made visible."""
    text = _UNPRINTABLE.sub("\ufffd", text).translate(_LINE_SEPARATORS)
    return _REORDERING.sub(lambda found: f"[U+{ord(found[0]):04X}]", text)


def shortened(text: str, limit: int = LONGEST) -> str:
    """`text` cleaned, and cut in the middle with a word about it where it is absurdly long."""
    if len(text) > limit:
        half = limit // 2
        left = len(text) - 2 * half
        text = f"{text[:half]} […{left} characters left out…] {text[-half:]}"
    return clean(text)


_UNITS = re.compile(r"(?<=[\d\u2009]) (?=(?:[µmn]?s|%|tok/s|[kMGT]?B)(?![\w/]))")


def headline(text: str) -> str:
    """A sentence set large: no line ends within a number or between it and its unit."""
    text = _UNITS.sub("\u00a0", shortened(text))
    return re.sub(r"(?<=\d)\u2009(?=\d)", "\u202f", text)


def markup(*children: Child) -> Markup:
    """The children one after another: text escaped, markup as it is, None left out."""
    return Markup("".join(_parts(children)))


def prose(text: str) -> Markup:
    """Running text, with what stands between backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return markup(text)
    return markup(
        *[element("code", part) if i % 2 else part for i, part in enumerate(parts) if part]
    )


def element(tag: str, *children: Child, **attributes: Any) -> Markup:
    """One element. Attribute names: `class_` is `class`, `_` is `-`; True is bare, None is absent.

    Raises:
        ValueError: the tag or an attribute's name is not a plain name, or the attribute is an
            inline style or an event handler.
    """
    if not _TAG.fullmatch(tag):
        raise ValueError(f"not a tag: {tag!r}")
    written = [f"<{tag}"]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        name = name.rstrip("_").replace("_", "-")
        lower = name.lower()
        if not _ATTRIBUTE.fullmatch(name) or lower == "style" or lower.startswith("on"):
            raise ValueError(f"not an attribute for a report: {name!r}")
        if value is True:
            written.append(f" {name}")
        else:
            written.append(f' {name}="{html.escape(clean(_text(value)), quote=True)}"')
    written.append(">")
    if tag in _VOID:
        return Markup("".join(written))
    return Markup("".join([*written, *_parts(children), f"</{tag}>"]))


def data_block(name: str, value: Any) -> Markup:
    """A `<script type="application/json">` that holds `value` and that no text in it can close."""
    return Markup(
        f'<script type="application/json" id="{html.escape(name, quote=True)}">'
        f"{json_text(value)}</script>"
    )


def json_text(value: Any) -> str:
    """Compact JSON of `value` in which `<` cannot occur, so that no tag can begin in it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def asset(tag: str, body: str) -> Markup:
    """A `<script>` or `<style>` with a body that ships with gaptrace, verbatim.

    Raises:
        ValueError: the body would end its own element.
    """
    if tag not in ("script", "style") or f"</{tag}" in body.lower():
        raise ValueError(f"not an asset for <{tag}>")
    return Markup(f"<{tag}>{body}</{tag}>")


def _text(value: Any) -> str:
    if isinstance(value, float):
        return number(value)
    return str(value)


def number(value: float) -> str:
    """A coordinate in as few characters as three decimals need: `12.5`, `0`, `-3`."""
    text = f"{value:.3f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def _parts(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, Markup):
            yield child
        elif isinstance(child, str):
            yield html.escape(clean(child), quote=False)
        elif isinstance(child, (int, float)):
            yield html.escape(_text(child), quote=False)
        else:
            yield from _parts(child)
