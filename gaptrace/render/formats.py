"""The formats that a document can be written in, by name and by file ending."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from gaptrace.document.blocks import BLOCKS, Document
from gaptrace.errors import OptionError


@dataclass(frozen=True)
class Style:
    """How to draw: colours on a terminal, how wide, for a page that is kept or one that is sent."""

    color: bool = False
    width: int = 80


Render = Callable[[Document, Style], str]


@dataclass(frozen=True)
class Format:
    """A format: its name, the endings of its files, its renderer, and what draws each block type.

    draws: block type to function; a test asks that no type is missing.
    """

    name: str
    endings: tuple[str, ...]
    render: Render
    draws: Mapping[type, Callable[..., Any]]


def by_type(*draws: Callable[..., Any]) -> Mapping[type, Callable[..., Any]]:
    """What draws each block type, given in the order of `BLOCKS`."""
    return dict(zip(BLOCKS, draws, strict=True))


# Found on first use: most commands need one of them.
_MODULES = {
    "terminal": "gaptrace.render.terminal",
    "markdown": "gaptrace.render.markdown",
    "html": "gaptrace.render.html",
    "svg": "gaptrace.render.svg",
}
_ENDINGS = {".txt": "terminal", ".md": "markdown", ".html": "html", ".htm": "html", ".svg": "svg"}
_OTHERS: dict[str, Format] = {}


def register(found: Format) -> None:
    """Add a format; it takes over the endings that it names."""
    _OTHERS[found.name] = found


def remove(name: str) -> None:
    """Take a registered format out again."""
    del _OTHERS[name]


def names() -> tuple[str, ...]:
    """All formats."""
    return (*_MODULES, *_OTHERS)


def get(name: str) -> Format:
    """A format by its name."""
    if name in _OTHERS:
        return _OTHERS[name]
    format_: Format = import_module(_MODULES[name]).FORMAT
    return format_


def endings() -> tuple[str, ...]:
    """The file endings that can be written, `.json` (the result itself) included."""
    others = (ending for format_ in _OTHERS.values() for ending in format_.endings)
    return (*_ENDINGS, ".json", *others)


def of_path(path: str) -> Format:
    """The format that a file's ending asks for.

    Raises:
        OptionError: no format has that ending.
    """
    lower = path.lower()
    for format_ in _OTHERS.values():
        if lower.endswith(format_.endings):
            return format_
    for ending, name in _ENDINGS.items():
        if lower.endswith(ending):
            return get(name)
    raise OptionError(f"-o {path}: cannot write that kind", f"end it in {', '.join(endings())}")
