"""Document to a terminal: 80 columns, the answer first, plain when colour is off."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from gaptrace import units
from gaptrace.document import blocks
from gaptrace.document.blocks import Cell, Document, Inline, Section, Text
from gaptrace.quantity import Quantity
from gaptrace.render import formats
from gaptrace.render.elements import clean
from gaptrace.render.formats import Format, Style
from gaptrace.render.tables import TextTable, bridge, in_brackets, said_rows, text_table
from gaptrace.vocabulary import (
    BUSY,
    CAUSES,
    HOST_CLASSES,
    IDLE,
    MODES,
    OP_CLASSES,
    VERDICT_SIGNS,
    VERDICTS,
    Word,
)

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_VERDICT_COLORS = {"ok": "green", "better": "green", "limited": "yellow"}
LOOKS: Mapping[str, Mapping[str, Word]] = {
    "cause": {**CAUSES, "busy": BUSY, "idle": IDLE},
    "host": {**HOST_CLASSES, "busy": BUSY, "idle": IDLE},
    "class": {**OP_CLASSES, **CAUSES, "busy": BUSY, "idle": IDLE},
    "mode": MODES,
}
_LONGEST_NAME = 40
_LONGEST_CELL = 60
_SHORTEST = 12


class Ink:
    """Styles text, or leaves it alone where colour is off."""

    def __init__(self, style: Style) -> None:
        self.color = style.color
        self.width = style.width

    def strong(self, text: str) -> str:
        """Bold."""
        return click.style(text, bold=True) if self.color else text

    def faint(self, text: str) -> str:
        """Dim."""
        return click.style(text, dim=True) if self.color else text

    def verdict(self, key: str, text: str) -> str:
        """A verdict; its word says it, the colour repeats it."""
        return click.style(text, fg=_VERDICT_COLORS.get(key, "red")) if self.color else text

    def paint(self, text: str, rgb: str) -> str:
        """Text in a `#RRGGBB` colour; `none` leaves it as it is."""
        if not self.color or not rgb.startswith("#"):
            return text
        red, green, blue = (int(rgb[i : i + 2], 16) for i in (1, 3, 5))
        return click.style(text, fg=(red, green, blue))


def render(document: Document, style: Style) -> str:
    """The document as text; sections are apart by an empty line."""
    ink = Ink(style)
    return "\n\n".join(_parts(_cleaned(document), ink, inner=False))


def _cleaned(value: Any) -> Any:
    """The same with every text in one line and without what a terminal would obey."""
    if isinstance(value, str):
        return " ".join(clean(value).split("\n"))
    if isinstance(value, tuple):
        return tuple(map(_cleaned, value))
    if isinstance(value, Struct):
        fields = (name for name in value.__struct_fields__ if name not in ("result", "data"))
        return replace(value, **{name: _cleaned(getattr(value, name)) for name in fields})
    return value


def _parts(document: Document, ink: Ink, *, inner: bool) -> Iterator[str]:
    if inner:
        yield ink.strong(
            f"── {document.title} " + "─" * max(ink.width - len(document.title) - 4, 0)
        )
    yield draw(document.answer, ink)
    if document.identity:
        yield wrapped(" · ".join(document.identity), ink)
    yield from filter(None, (_section(section, ink) for section in document.sections))
    for part in document.parts:
        yield from _parts(part, ink, inner=True)


def _section(section: Section, ink: Ink) -> str:
    drawn = [(block, text) for block in section.blocks if (text := draw(block, ink))]
    lines: list[str] = []
    for i, (block, text) in enumerate(drawn):
        # Tables and findings have room around them; notes and sentences go together.
        apart = i and (
            isinstance(block, blocks.Table | blocks.Findings)
            or isinstance(drawn[i - 1][0], blocks.Table)
        )
        lines.append(("\n" if apart else "") + text)
    return "\n".join(lines)


def inline(parts: Sequence[Inline], ink: Ink) -> str:
    """Running text of inline parts."""
    return "".join(_inline(part, ink) for part in parts)


def _inline(part: Inline, ink: Ink) -> str:
    match part:
        case str():
            return part
        case Quantity():
            return units.text(part)
        case Text(role="verdict"):
            return ink.verdict(part.key, VERDICTS.get(part.text, part.text))
        case Text(role="strong"):
            return ink.strong(part.text)
        case Text():
            return part.text


def visible(text: str) -> int:
    """Printed length of text that may hold colour codes."""
    return len(_ANSI.sub("", text))


def wrapped(text: str, ink: Ink, indent: str = "", hang: str = "") -> str:
    """Text in lines of at most the width; further lines are indented by `hang` more."""
    # Codes have no width, so wrap the plain text and put the codes back where they were.
    plain = _ANSI.sub("", text)
    lines = textwrap.wrap(
        plain,
        ink.width,
        initial_indent=indent,
        subsequent_indent=indent + hang,
        break_on_hyphens=False,
    )
    return _recolored("\n".join(lines), text) if ink.color else "\n".join(lines)


def _recolored(body: str, colored: str) -> str:
    """`body` (the words of `colored`, wrapped) with the codes of `colored` before their words."""
    out, at = [], 0
    for piece in re.split(r"(\x1b\[[0-9;]*m)", colored):
        if _ANSI.fullmatch(piece):
            out.append(piece)
            continue
        for character in piece:
            if character.isspace():
                continue
            while at < len(body) and body[at].isspace():
                out.append(body[at])
                at += 1
            out.append(body[at])
            at += 1
    return "".join(out) + body[at:]


def draw(block: blocks.Block, ink: Ink) -> str:
    """One block as text."""
    found: str = DRAWS[type(block)](block, ink)
    return found


def sentence(block: blocks.Sentence, ink: Ink) -> str:
    """A line of prose; the answer is bold."""
    text = inline(block.parts, ink)
    return wrapped(ink.strong(text) if block.role == "answer" else text, ink)


def facts(block: blocks.Facts, ink: Ink) -> str:
    """Named values: in one line, or one a line with their names in a column."""
    pairs = [(fact.label.text, inline(fact.parts, ink)) for fact in block.facts]
    title = [block.title] if block.title else []
    if block.line:
        text = " · ".join(f"{label} {value}" if label else value for label, value in pairs)
        return wrapped(": ".join([*title, text]), ink, hang="  ")
    wide = max((len(label) for label, _ in pairs), default=0)
    lines = [
        wrapped(f"{label:<{wide}}  {value}", ink, "  ", " " * (wide + 2)) for label, value in pairs
    ]
    return "\n".join([*title, *lines])


def table(block: blocks.Table, ink: Ink) -> str:
    """A table in fixed columns: words to the left, numbers to the right."""
    if not block.rows:
        return ""
    text = text_table(block, block.shown)
    lines = _grid(block, text, ink)
    if text.hidden:
        lines.append(ink.faint(f"  … {units.count(text.hidden)} more in --json"))
    lines += [wrapped(note, ink, "  ", "  ") for note in block.notes]
    return "\n".join(lines)


def _grid(block: blocks.Table, text: TextTable, ink: Ink) -> list[str]:
    shared = text.basis
    header = [heading.short if shared else heading.words for heading in text.headings]
    title = f"{block.title}{in_brackets(shared)}".strip()
    if title and not header[0] and not shared:
        header[0], title = title, ""
    rows = said_rows(block, text, _cell)
    widths = [max(visible(line[i]) for line in (header, *rows)) for i in range(len(header))]
    numeric = [heading.numeric for heading in text.headings]
    # Headings that would make a wide table wider than the page go on two lines.
    lines = [_line(line, widths, numeric) for line in (header, *rows)]
    if max(visible(line) for line in lines) > ink.width:
        lines = _narrow(header, rows, numeric, ink)
    return [*([title] if title else []), ink.faint(lines[0]), *lines[1:]]


def _cell(source: Cell, text: str) -> str:
    name = isinstance(source, Text) and source.role == "name"
    return units.middle_elided(text, _LONGEST_NAME if name else _LONGEST_CELL)


def _line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    parts = []
    for cell, width, right in zip(cells, widths, numeric, strict=True):
        space = " " * (width - visible(cell))
        parts.append(space + cell if right else cell + space)
    return "  ".join(parts).rstrip()


def _narrow(
    header: list[str], rows: list[list[str]], numeric: Sequence[bool], ink: Ink
) -> list[str]:
    """A table that is too wide: headings over several lines, then words cut in the middle."""
    own = [max((visible(row[i]) for row in rows), default=0) for i in range(len(header))]
    longest_word = [max((len(w) for w in text.split()), default=0) for text in header]
    widths = [max(a, b) for a, b in zip(own, longest_word, strict=True)]
    over = sum(widths) + 2 * (len(widths) - 1) - ink.width
    # The first column says what a row is about: it gives way last.
    words = sorted((i for i, right in enumerate(numeric) if not right), key=lambda i: -widths[i])
    for i in sorted(words, key=lambda i: i == 0):
        cut = min(over, max(widths[i] - _SHORTEST, 0))
        if cut > 0:
            widths[i] -= cut
            over -= cut
    split = [textwrap.wrap(t, max(w, 1)) or [""] for t, w in zip(header, widths, strict=True)]
    high = max(map(len, split))
    heads = [[""] * (high - len(lines)) + lines for lines in split]
    top = [[heads[i][level] for i in range(len(header))] for level in range(high)]
    body = [line for row in rows for line in _folded(row, widths)]
    return [_line(line, widths, numeric) for line in (*top, *body)]


def _folded(row: list[str], widths: list[int]) -> list[list[str]]:
    """A row whose first cell goes on several lines where it is cut; others lose their middle."""
    first = textwrap.wrap(row[0], widths[0], break_on_hyphens=True) or [""]
    rest = [units.middle_elided(cell, w) for cell, w in zip(row[1:], widths[1:], strict=True)]
    blank = [""] * len(rest)
    return [[text, *(blank if i else rest)] for i, text in enumerate(first)]


def bars(block: blocks.Bars, ink: Ink) -> str:
    """Stacked bars with letters under them, or the signed parts of a bridge."""
    lines = _bridge(block, ink) if block.kind == "bridge" else _stacked(block, ink)
    return "\n".join([*lines, *(wrapped(note, ink, "  ", "  ") for note in block.notes)])


def _stacked(block: blocks.Bars, ink: Ink) -> list[str]:
    lines = []
    for bar in block.bars:
        segments = [s for s in bar.segments if s.amount.value]
        values = [float(s.amount.value or 0) for s in segments]
        if sum(values) <= 0:
            continue
        words = f"{bar.label}{in_brackets(segments[0].amount.basis)}"
        lines.append(words if bar.total is None else f"{words}: {units.text(bar.total)}")
        painted, letters, legend = "", "", []
        for i, (segment, size) in enumerate(zip(segments, _cells(values, ink.width), strict=True)):
            letter, colour = _look(segment, block.look)
            fill = "█" if segment.key == "busy" else ("▓", "▒")[i % 2]
            painted += ink.paint(fill * size, colour)
            letters += letter * size
            note = f" ({segment.note})" if segment.note else ""
            legend.append(f"{letter} {segment.label} {units.text(segment.amount)}{note}")
        lines += [painted, ink.faint(letters), *_columns(legend, ink.width)]
    return lines


def _look(segment: blocks.Segment, look: str) -> tuple[str, str]:
    """The letter and the colour of a part; those of its label where no vocabulary holds it."""
    word = LOOKS[look].get(segment.key)
    return (word.look.letter, word.look.dark) if word else (segment.label[:1], "none")


def _bridge(block: blocks.Bars, ink: Ink) -> list[str]:
    ends, parts = bridge(block)
    arrow = " → ".join(units.text(end) for end in ends)
    lines = [f"{block.title}: {arrow}{in_brackets(ends[0].basis)}" if ends else block.title]
    parts = [part for part in parts if part.segment.amount.value]
    wide = max((len(part.text) for part in parts), default=0)
    for part in parts:
        colour = _look(part.segment, block.look)[1]
        bar = "│".join(ink.paint(side, colour) for side in (part.before, part.after))
        lines.append(f"  {part.text:>{wide}}  {bar}  {part.segment.label}")
    return lines


def _cells(values: Sequence[float], width: int) -> list[int]:
    """Cells that sum to the width; every part that has any time gets at least one."""
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
    if any(len(item) > half - 3 for item in items):
        return [f"  {item}" for item in items]
    pairs = [items[i : i + 2] for i in range(0, len(items), 2)]
    return ["  " + "".join(f"{item:<{half}}" for item in pair).rstrip() for pair in pairs]


def chart(block: blocks.Chart, ink: Ink) -> str:
    """The chart's twin in words."""
    return table(block.table, ink)


def findings(block: blocks.Findings, ink: Ink) -> str:
    """Findings with the most they can win; contained ones under the one that holds them."""
    if not block.items:
        return ""
    lines = ["findings"]
    for item in block.items:
        lines += _finding(item, ink, "  ")
    if block.left:
        lines.append(ink.faint(f"  … {units.count(block.left)} more with --full"))
    return "\n".join(lines)


def _finding(item: blocks.FindingItem, ink: Ink, indent: str) -> list[str]:
    gain = f"  {units.text(item.gain)}" if item.gain.value else ""
    lines = [f"{indent}{ink.strong(item.id)}  {item.title}{gain}"]
    if item.text:
        lines.append(wrapped(item.text, ink, indent + "       "))
    if item.evidence is not None and item.evidence.rows:
        narrow = Ink(Style(color=ink.color, width=ink.width - len(indent) - 7))
        drawn = table(item.evidence, narrow)
        lines.append(textwrap.indent(drawn, indent + "       "))
    for part in item.parts:
        lines += _finding(part, ink, indent + "  ")
    return lines


def timeline(block: blocks.Timeline, ink: Ink) -> str:
    """The longest gaps: a terminal draws no timeline."""
    return "" if block.table is None else table(block.table, ink)


def note(block: blocks.Note, ink: Ink) -> str:
    """Something to know, with what it withholds; or the commands to type next."""
    if block.commands:
        return "\n".join(ink.faint(f"next: {command}") for command in block.commands)
    gone = f"; withheld: {', '.join(block.withheld)}" if block.withheld else ""
    sign = VERDICT_SIGNS.get(block.level, "!")
    return wrapped(f"{sign} {inline(block.parts, ink)}{gone}", ink, "  ", "  ")


DRAWS = formats.by_type(sentence, facts, table, bars, chart, findings, timeline, note)
FORMAT = Format("terminal", (".txt",), render, DRAWS)
