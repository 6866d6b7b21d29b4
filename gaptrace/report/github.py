"""Markdown as GitHub shows it: text that stays text, tables, bars of blocks, folded parts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gaptrace.report.markup import clean

# A comment may hold 65,536 characters; some room is left for what a bot adds.
COMMENT_LIMIT = 65_536
ROOM = 62_000
MARKER = "<!-- gaptrace:report -->"
_SPECIAL = re.compile(r"[\\`*\[\]<>|#~$!&]|(?<!\w)_|_(?!\w)")
_BLOCKS = " ▏▎▍▌▋▊▉█"
_JOINER = "\u2060"


def plain(text: str, limit: int = 600) -> str:
    """`text` as GitHub must show it: nothing in it is markup, a mention, an issue or a link."""
    text = " ".join(clean(text[: limit + 1]).split())
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    text = _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", text)
    # A mention, a reference and an address are found in the shown text, after entities are read.
    text = text.replace("@", f"@{_JOINER}").replace("://", f":{_JOINER}//")
    return re.sub(r"(&#35;|GH-)(?=\d)", rf"\1{_JOINER}", text)


def prose(text: str, limit: int = 1_200) -> str:
    """Running text of gaptrace's own: as `plain`, with what stands between backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return plain(text, limit)
    return "".join(code(part) if i % 2 else _spaced(part, limit) for i, part in enumerate(parts))


def _spaced(text: str, limit: int) -> str:
    """`plain` that keeps one space at either end, so that code keeps its distance."""
    if not text.strip():
        return " " if text else ""
    before = " " if text[0].isspace() else ""
    after = " " if text[-1].isspace() else ""
    return f"{before}{plain(text, limit)}{after}"


def code(text: str, limit: int = 120) -> str:
    """`text` in a code span that nothing in it can close, short enough for a table."""
    text = " ".join(clean(text).split()).replace("`", "ˋ").replace("|", "¦")
    if len(text) > limit:
        half = (limit - 1) // 2
        text = f"{text[:half]}…{text[-half:]}"
    return f"`{text}`" if text else ""


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A table; the first `left` columns to the left, the others to the right."""
    rule = [":---" if i < left else "---:" for i in range(len(header))]
    lines = [header, rule, *rows]
    return "\n".join("| " + " | ".join(cell or " " for cell in line) + " |" for line in lines)


def bars(rows: Sequence[tuple[str, float, str]], width: int = 32) -> str:
    """A block of bars in eighths, each with its label before and its value behind it."""
    longest = max((value for _, value, _ in rows), default=0)
    if longest <= 0:
        return ""
    wide = max(len(label) for label, _, _ in rows)
    lines = []
    for label, value, text in rows:
        eighths = max(round(value / longest * width * 8), 1) if value > 0 else 0
        bar = "█" * (eighths // 8) + (_BLOCKS[eighths % 8] if eighths % 8 else "")
        lines.append(f"{clean(label):<{wide}}  {bar:<{width}}  {clean(text)}".rstrip())
    return "```text\n" + "\n".join(lines).replace("```", "ˋˋˋ") + "\n```"


def folded(summary: str, body: str) -> str:
    """A part that opens on a click; the summary is HTML-safe text already."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def fitted(parts: Sequence[str], optional: Sequence[str], room: int = ROOM) -> str:
    """All parts, and as many of the optional ones, in order, as a comment has room for.

    What had to go is said. The marker that lets a bot find its comment comes first.
    """
    text = "\n\n".join([MARKER, *[part for part in parts if part]])
    optional = [part for part in optional if part]
    kept = 0
    for part in optional:
        if len(text) + len(part) + 2 > room:
            break
        text += f"\n\n{part}"
        kept += 1
    if kept < len(optional):
        text += f"\n\n{len(optional) - kept} more parts did not fit into a comment."
    return text[: COMMENT_LIMIT - 1] + "\n"
