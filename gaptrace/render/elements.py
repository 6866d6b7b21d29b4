"""Elements: what HTML and SVG are made of before they are text, so that nothing can get in raw.

An element is plain data: a tag, attributes and children. A text is data, too; it is cleaned and
escaped once, when the tree is written. Inline styles and event handlers are refused: the page's
security policy forbids them, and so nothing can depend on them.
"""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

_VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "col"})
# Tags that HTML ends by itself where the next one of their kind, or their parent's end, stands.
_OPEN = frozenset({"td", "th", "tr", "thead", "tbody", "li", "dt", "dd"})
_SHAPES = frozenset({"rect", "line", "path", "circle"})
_TAG = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")
_ATTRIBUTE = re.compile(r"[a-zA-Z][a-zA-Z0-9:-]*")
# C0 and C1 controls but tab and newline, surrogates and non-characters: nothing a page can show.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
# Marks that reorder the text around them: shown as what they are.
_REORDERING = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_LINE_SEPARATORS = str.maketrans({"\u2028": " ", "\u2029": " "})
LONGEST = 2_000


@dataclass(frozen=True)
class Raw:
    """Text that is written as it is: scripts, styles and data that ship with gaptrace."""

    text: str


@dataclass(frozen=True)
class Element:
    """One element. attributes: name and value in order, True for a bare one."""

    tag: str
    attributes: tuple[tuple[str, str | bool], ...]
    children: tuple[Element | Raw | str, ...]

    def __str__(self) -> str:
        return "".join(_written(self))


Node: TypeAlias = Element | Raw | str
Child: TypeAlias = Node | int | float | Iterable[Any] | None


def element(tag: str, *children: Child, **attributes: Any) -> Element:
    """One element; children that are lists are laid flat, None is left out.

    Attribute names: `class_` is `class`, `_` is `-`; True is bare, None and False are absent.

    Raises:
        ValueError: the tag or an attribute's name is not a plain name, or the attribute is an
            inline style or an event handler.
    """
    if not _TAG.fullmatch(tag):
        raise ValueError(f"not a tag: {tag!r}")
    kept: list[tuple[str, str | bool]] = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        name = name.rstrip("_").replace("_", "-")
        lower = name.lower()
        if not _ATTRIBUTE.fullmatch(name) or lower == "style" or lower.startswith("on"):
            raise ValueError(f"not an attribute for a report: {name!r}")
        kept.append((name, True if value is True else _text(value)))
    return Element(tag, tuple(kept), nodes(children))


def nodes(*children: Child) -> tuple[Node, ...]:
    """Children laid flat: numbers as text, None left out."""
    return tuple(_flat(children))


def _flat(children: Iterable[Child]) -> Iterator[Node]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, (Element, Raw, str)):
            yield child
        elif isinstance(child, (int, float)):
            yield _text(child)
        else:
            yield from _flat(child)


def prose(text: str) -> tuple[Node, ...]:
    """Running text, with what stands between backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return (text,)
    return nodes(element("code", part) if i % 2 else part for i, part in enumerate(parts) if part)


def asset(tag: str, body: str, **attributes: Any) -> Element:
    """A `<script>` or `<style>` with a body that is written verbatim.

    Raises:
        ValueError: the body would end its own element.
    """
    if tag not in ("script", "style") or f"</{tag}" in body.lower():
        raise ValueError(f"not an asset for <{tag}>")
    return element(tag, Raw(body), **attributes)


def packed_block(name: str, value: Any) -> Element:
    """Plain data for scripts in a third of its characters: JSON, deflated, in base64."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    packed = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    return asset("script", packed, type="application/zlib", id=name)


def clean(text: str) -> str:
    """`text` as it can be shown anywhere: no control characters, reordering marks made visible."""
    text = _UNPRINTABLE.sub("\ufffd", text).translate(_LINE_SEPARATORS)
    return _REORDERING.sub(lambda found: f"[U+{ord(found[0]):04X}]", text)


def shortened(text: str, limit: int = LONGEST) -> str:
    """`text`, cut in the middle with a word about it where it is absurdly long."""
    if len(text) <= limit:
        return text
    half = limit // 2
    left = len(text) - 2 * half
    return f"{text[:half]} […{left} characters left out…] {text[-half:]}"


def number(value: float) -> str:
    """A coordinate in as few characters as two decimals need: `12.5`, `0`, `-3`."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def percent(value: float) -> str:
    """A coordinate as a percentage."""
    return f"{number(value)}%"


def _text(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)


def _written(node: Node) -> Iterator[str]:
    if isinstance(node, Raw):
        yield node.text
    elif isinstance(node, str):
        yield html.escape(clean(shortened(node)), quote=False)
    else:
        yield f"<{node.tag}"
        for name, value in node.attributes:
            if value is True:
                yield f" {name}"
            else:
                yield f' {name}="{html.escape(clean(str(value)), quote=True)}"'
        if node.tag in _SHAPES and not node.children:
            yield "/>"
            return
        yield ">"
        if node.tag not in _VOID:
            for child in node.children:
                yield from _written(child)
            yield "" if node.tag in _OPEN else f"</{node.tag}>"
