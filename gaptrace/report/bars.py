"""One bar of blocks with letters under it: where a token's time goes, in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gaptrace import units
from gaptrace.report.palette import Look
from gaptrace.report.terminal import Ink

_EIGHTHS = " ▏▎▍▌▋▊▉█"


@dataclass(frozen=True)
class Part:
    """One part of a bar: how it looks, its length in ns, and its word."""

    look: Look
    value: float
    word: str


def bar(parts: Sequence[Part], width: int, ink: Ink) -> list[str]:
    """Lines: the bar, the letters under it, and the legend with times and shares.

    Cells are shared out so that they sum to the width and every part that has any time gets at
    least one.
    """
    total = sum(part.value for part in parts)
    parts = [part for part in parts if part.value > 0]
    if not parts or total <= 0:
        return []
    cells = _cells([part.value for part in parts], width)
    blocks, letters = [], []
    for i, (part, size) in enumerate(zip(parts, cells, strict=True)):
        fill = "█" if part.look.letter == "B" else ("▓", "▒")[i % 2]
        blocks.append(ink.paint(fill * size, part.look.dark))
        letters.append(part.look.letter * size)
    legend = [
        f"{part.look.letter} {part.word} {units.time(part.value)} "
        f"({units.share(part.value, total)})"
        for part in parts
    ]
    return ["".join(blocks), ink.faint("".join(letters)), *_columns(legend, width)]


def _cells(values: Sequence[float], width: int) -> list[int]:
    total = sum(values)
    exact = [value / total * width for value in values]
    cells = [max(1, int(part)) for part in exact]
    order = sorted(range(len(values)), key=lambda i: (cells[i] - exact[i], i))
    i = 0
    while sum(cells) < width:
        cells[order[i % len(order)]] += 1
        i += 1
    while sum(cells) > width:
        cells[max(range(len(cells)), key=lambda k: cells[k])] -= 1
    return cells


def _columns(items: Sequence[str], width: int) -> list[str]:
    """Items side by side in two columns where they fit, else one a line."""
    half = width // 2
    if any(len(item) > half - 1 for item in items):
        return [f"  {item}" for item in items]
    pairs = [items[i : i + 2] for i in range(0, len(items), 2)]
    return ["  " + "".join(f"{item:<{half}}" for item in pair).rstrip() for pair in pairs]
