"""Document to Markdown as GitHub shows it: text that stays text, tables, bars of blocks, folds.

The brief form of a document is a pull-request comment; the full form adds folded parts as far as a
comment has room. The marker that lets a bot find its comment comes first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from gaptrace import units
from gaptrace.document import blocks
from gaptrace.document.blocks import Cell, Document, Inline, Text
from gaptrace.quantity import Quantity
from gaptrace.render import formats
from gaptrace.render.formats import Format, Style
from gaptrace.render.tables import Step, bridge, in_brackets, said_rows, text_table
from gaptrace.vocabulary import VERDICT_SIGNS, VERDICTS

# A comment may hold 65,536 characters; some room is left for what a bot adds.
COMMENT_LIMIT = 65_536
ROOM = 62_000
MARKER = "<!-- gaptrace:report -->"
_SPECIAL = re.compile(r"[\\`*\[\]<>|#~$!&]|(?<!\w)_|_(?!\w)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_BLOCKS = " ▏▎▍▌▋▊▉█"
_JOINER = "\u2060"
_BAR_WIDTH = 32


def render(document: Document, style: Style) -> str:
    """The document as GitHub-flavoured Markdown, cut to what a comment holds."""
    del style
    first, *rest = _part(document)
    always = [MARKER, f"### {first}"]
    if document.identity:
        always.append(" · ".join(plain(text) for text in document.identity))
    return _fitted(always, rest)


def _part(document: Document) -> Iterator[str]:
    """The answer, each section, each part folded."""
    yield inline(document.answer.parts)
    for section in document.sections:
        if body := "\n\n".join(text for block in section.blocks if (text := draw(block))):
            yield body
    for part in document.parts:
        yield folded(f"<b>{plain(part.title)}</b>", "\n\n".join(_part(part)))


def _fitted(always: Sequence[str], optional: Sequence[str]) -> str:
    text = "\n\n".join(always)
    kept = 0
    for part in optional:
        if len(text) + len(part) + 2 > ROOM:
            break
        text += f"\n\n{part}"
        kept += 1
    if left := len(optional) - kept:
        text += f"\n\n{units.counted(left, 'more part')} did not fit into a comment."
    return text[: COMMENT_LIMIT - 1] + "\n"


def plain(text: str, limit: int = 1_200) -> str:
    """`text` as GitHub must show it: nothing in it is markup, a mention, an issue or a link."""
    text = " ".join(_CONTROL.sub(" ", text[: limit + 1]).split())
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    text = _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", text)
    # A mention, a reference and an address are found in the shown text, after entities are read.
    text = text.replace("@", f"@{_JOINER}").replace("://", f":{_JOINER}//")
    return re.sub(r"(&#35;|GH-)(?=\d)", rf"\1{_JOINER}", text)


def prose(text: str) -> str:
    """Running text of gaptrace's own: as `plain`, with what stands between backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return plain(text)
    return "".join(code(part) if i % 2 else _spaced(part, plain) for i, part in enumerate(parts))


def _spaced(text: str, write: Callable[[str], str]) -> str:
    """A text as it is written, one space kept at either end."""
    if not text.strip():
        return " " if text else ""
    return f"{' ' * text[:1].isspace()}{write(text).strip()}{' ' * text[-1:].isspace()}"


def code(text: str, limit: int = 120) -> str:
    """`text` in a code span that nothing in it can close, short enough for a table."""
    text = " ".join(_CONTROL.sub(" ", text).split()).replace("`", "ˋ").replace("|", "¦")
    text = units.middle_elided(text, limit)
    return f"`{text}`" if text else ""


def folded(summary: str, body: str) -> str:
    """A part that opens on a click; the summary is safe text already."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def inline(parts: Sequence[Inline]) -> str:
    """Running text of inline parts."""
    return "".join(_inline(part) for part in parts)


def _inline(part: Inline) -> str:
    match part:
        case str():
            return _spaced(part, prose)
        case Quantity():
            return plain(units.text(part))
        case Text(role="name" | "code"):
            return code(part.text)
        case Text(role="verdict"):
            return f"**{plain(VERDICTS.get(part.text, part.text))}**"
        case Text(role="strong"):
            return f"**{plain(part.text)}**"
        case Text():
            return plain(part.text)


def draw(block: blocks.Block) -> str:
    """One block as Markdown."""
    found: str = DRAWS[type(block)](block)
    return found


def sentence(block: blocks.Sentence) -> str:
    """A paragraph."""
    text = inline(block.parts)
    return f"**{text}**" if block.role == "answer" else text


def facts(block: blocks.Facts) -> str:
    """Named values in one line, or as a list."""
    pairs = [(plain(fact.label.text), inline(fact.parts)) for fact in block.facts]
    title = f"{plain(block.title)}: " if block.title else ""
    if block.line:
        return title + " · ".join(f"{label} {value}".strip() for label, value in pairs)
    lines = [f"- {label}: {value}" if label else f"- {value}" for label, value in pairs]
    return "\n".join([*([f"**{plain(block.title)}**\n"] if block.title else []), *lines])


def table(block: blocks.Table) -> str:
    """A table: words to the left, numbers to the right."""
    if not block.rows:
        return ""
    text = text_table(block, block.shown)
    header = [plain(heading.words) for heading in text.headings]
    rule = ["---:" if heading.numeric else ":---" for heading in text.headings]
    lines = [
        "| " + " | ".join(cell or " " for cell in line) + " |"
        for line in (header, rule, *said_rows(block, text, _cell))
    ]
    notes = [f"{units.count(text.hidden)} more rows are in `--json`."] if text.hidden else []
    body = "\n\n".join(["\n".join(lines), *notes, *map(prose, block.notes)])
    if block.folded:
        return folded(plain(block.title), body)
    return f"**{plain(block.title)}**\n\n{body}" if block.title else body


def _cell(source: Cell, text: str) -> str:
    match source:
        case Text(role="name" | "code"):
            return code(text)
        case Text(role="verdict"):
            return f"**{plain(text)}**"
        case _:
            return plain(text)


def bars(block: blocks.Bars) -> str:
    """Bars in eighths of a block, each with its label before and its value behind it."""
    parts = [plain(block.title)]
    if block.kind == "bridge":
        ends, steps = bridge(block)
        arrow = " → ".join(units.text(end) for end in ends)
        parts = [f"{plain(block.title)}: {plain(arrow)}" if ends else plain(block.title)]
        parts.append(_steps(steps))
    for bar in block.bars if block.kind != "bridge" else ():
        if bar.segments:
            basis = next((s.amount.basis for s in bar.segments if s.amount.basis), "")
            total = plain(f": {units.text(bar.total)}") if bar.total is not None else ""
            parts.append(f"{plain(bar.label)}{in_brackets(basis)}{total}")
            parts.append(_rows([(s, units.text(s.amount)) for s in bar.segments]))
    parts += map(prose, block.notes)
    return "\n\n".join(part for part in parts if part)


def _steps(steps: Sequence[Step]) -> str:
    """A line a part of a bridge: label, its bar on its side of the zero line, the amount."""
    if not steps:
        return ""
    labels = [_CONTROL.sub(" ", step.segment.label) for step in steps]
    wide = max(map(len, labels))
    return _fenced(
        f"{label:<{wide}}  {step.before}│{step.after}  {step.text}"
        for label, step in zip(labels, steps, strict=True)
    )


def _fenced(lines: Iterable[str]) -> str:
    return "```text\n" + "\n".join(lines).replace("```", "ˋˋˋ") + "\n```"


def _rows(rows: Sequence[tuple[blocks.Segment, str]]) -> str:
    """A line a part: label, a bar of blocks, the amount in words."""
    longest = max((abs(part.amount.value or 0) for part, _ in rows), default=0)
    if not longest:
        return ""
    wide = max(len(part.label) for part, _ in rows)
    lines = []
    for part, text in rows:
        size, label = abs(part.amount.value or 0), _CONTROL.sub(" ", part.label)
        eighths = max(round(size / longest * _BAR_WIDTH * 8), 1) if size else 0
        drawn = "█" * (eighths // 8) + (_BLOCKS[eighths % 8] if eighths % 8 else "")
        lines.append(f"{label:<{wide}}  {drawn:<{_BAR_WIDTH}}  {text}".rstrip())
    return _fenced(lines)


def chart(block: blocks.Chart) -> str:
    """The chart's twin in words."""
    return table(block.table)


def findings(block: blocks.Findings) -> str:
    """Findings, each folded with its evidence and what to do."""
    parts = [_finding(item) for item in block.items]
    if block.left:
        parts.append(f"{units.counted(block.left, 'more finding')} in the full report.")
    return "\n\n".join(parts)


def _finding(item: blocks.FindingItem) -> str:
    gain = f": {units.text(item.gain)}" if item.gain.value else ""
    summary = f"<b>{item.id}</b> {plain(item.title)}{plain(gain)}"
    body = [prose(item.text)]
    advice = {"What to try": item.what_to_try, "How to check": item.how_to_check}
    body += [f"**{name}:** {prose(text)}" for name, text in advice.items() if text]
    if item.evidence is not None and item.evidence.rows:
        body.append(table(item.evidence))
    body += [_finding(part) for part in item.parts]
    return folded(summary, "\n\n".join(body))


def timeline(block: blocks.Timeline) -> str:
    """The longest gaps: Markdown draws no timeline."""
    return "" if block.table is None else table(block.table)


def note(block: blocks.Note) -> str:
    """Something to know, or the commands that bring this result back."""
    if block.commands:
        return "```sh\n" + "\n".join(block.commands) + "\n```"
    gone = f"; withheld: {', '.join(block.withheld)}" if block.withheld else ""
    return f"- {VERDICT_SIGNS.get(block.level, '!')} {inline(block.parts)}{plain(gone)}"


DRAWS = formats.by_type(sentence, facts, table, bars, chart, findings, timeline, note)
FORMAT = Format("markdown", (".md",), render, DRAWS)
