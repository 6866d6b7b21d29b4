"""Plain text building blocks: ink, wrapping, tables."""

from __future__ import annotations

import os
import re
import shlex
import textwrap
from collections.abc import Sequence

import click

_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def nearest(path: str) -> str:
    """The path as it is shortest from here, where it is absolute."""
    return min(os.path.relpath(path), path, key=len) if os.path.isabs(path) else path


class Ink:
    """Styles text, or leaves it alone where colour is off."""

    def __init__(self, color: bool) -> None:  # noqa: FBT001
        self.color = color

    def strong(self, text: str) -> str:
        """Bold."""
        return click.style(text, bold=True) if self.color else text

    def faint(self, text: str) -> str:
        """Dim."""
        return click.style(text, dim=True) if self.color else text

    def next(self, command: str, path: str) -> str:
        """What to call next, as it can be pasted."""
        return self.faint(f"next: gaptrace {command} {shlex.quote(path)}")

    def verdict(self, verdict: str) -> str:
        """A quality verdict; its word says it, the colour repeats it."""
        if not self.color:
            return verdict
        return click.style(verdict, fg={"ok": "green", "limited": "yellow"}.get(verdict, "red"))

    def paint(self, text: str, rgb: str) -> str:
        """Text in a `#RRGGBB` colour; `none` leaves it as it is."""
        if not self.color or not rgb.startswith("#"):
            return text
        red, green, blue = (int(rgb[i : i + 2], 16) for i in (1, 3, 5))
        return click.style(text, fg=(red, green, blue))


def visible(text: str) -> int:
    """Printed length of text that may hold colour codes."""
    return len(_ANSI.sub("", text))


def wrapped(text: str, width: int, indent: str = "") -> str:
    """Text broken into lines of at most `width`; further lines are indented a little more."""
    plain = _ANSI.sub("", text)
    lines = textwrap.wrap(
        plain,
        width,
        initial_indent=indent,
        subsequent_indent=indent + ("  " if 0 < len(indent) < 4 else ""),
    )
    body = "\n".join(lines)
    codes = _ANSI.findall(text)
    return codes[0] + body + codes[-1] if len(codes) >= 2 and text.startswith(codes[0]) else body


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, right: int = 0
) -> str:
    """A table in fixed columns: the first `left` and the last `right` to the left, rest right."""
    widths = [max(visible(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = []
    for row in (header, *rows):
        cells = []
        for i, cell in enumerate(row):
            space = " " * (widths[i] - visible(cell))
            is_left = i < left or i >= len(header) - right
            cells.append(cell + space if is_left else space + cell)
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
