"""One event that is not JSON: read it all the same, or say that it cannot be.

Kineto wrote names unescaped for years (pytorch #98432, #113001, #146900; kineto #105, #336, #1459)
and other processes write their log lines into the file (kineto #1336). Each repair is tried in
turn, on top of those before it, and named where it helped.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from gaptrace.reading.events import NumberText

if TYPE_CHECKING:
    from collections.abc import Callable

# Longer damage than this is dropped, not repaired.
REPAIR_LIMIT = 1 << 20

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')
_C_NUMBER = re.compile(
    r"([:\[,]\s{0,64})[-+]?(?:inf|nan|INF|NAN|Inf)(?:\(ind\))?(?=\s{0,64}[,}\]])"
)
_LOG_LINE = re.compile(
    r"^[ \t]{0,64}(?:\[?[IWEFD]\d{4}|\[?(?:INFO|WARNING|WARN|ERROR|DEBUG|TRACE|CRITICAL)\b|\[rank\d"
    r"|\[?\d{4}-\d\d-\d\d[ T]|[A-Z][a-z]{2} \d\d \d\d:\d\d|STAGE:|Traceback ).*$\n?",
    re.MULTILINE,
)
_STRAY_COMMA = re.compile(r",(?=\s{0,64}[}\]])")
_ENDS_KEY = re.compile(r"\s{0,64}:")
_ENDS_VALUE = re.compile(r'\s{0,64}(?:,\s{0,64}"[^"\n]{0,200}"\s{0,64}:|\}|\Z)')
_ENDS_ITEM = re.compile(r'\s{0,64}(?:,\s{0,64}(?:["\[{\-\d]|true|false|null)|\]|\Z)')
_STRING_PIECE = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)


class Reading:
    """What reading one event took: problems by name, each as often as it occurred.

    number: what a number with a fraction becomes.
    """

    def __init__(self, number: Callable[[str], object] = NumberText) -> None:
        self.problems: dict[str, int] = {}
        self.number = number

    def note(self, problem: str, count: int = 1) -> None:
        if count:
            self.problems[problem] = self.problems.get(problem, 0) + count


def read_event(text: bytes, reading: Reading) -> Any:
    """The value of a text that is JSON but for bad UTF-8, control characters and NaN.

    Raises:
        ValueError, RecursionError: it is not, or it is nested too deeply.
    """
    content = _decoded(text, reading)
    constants: list[str] = []

    def constant(name: str) -> float:
        constants.append(name)
        return float(name.replace("Infinity", "inf"))

    try:
        value = json.loads(content, parse_float=reading.number, parse_constant=constant)
    except json.JSONDecodeError:
        constants.clear()
        value = json.loads(
            content, parse_float=reading.number, parse_constant=constant, strict=False
        )
        reading.note("control_characters")
    reading.note("nan_values", len(constants))
    return _without_surrogates(value, content, reading)


def repair_event(text: bytes, reading: Reading) -> dict[str, Any] | None:
    """The event that a broken text was meant to be, or None where that cannot be told."""
    if len(text) > REPAIR_LIMIT:
        return None
    content = _decoded(text, reading)
    for problem, mend in _REPAIRS:
        mended, count = mend(content)
        if not count:
            continue
        content = mended
        reading.note(problem, count)
        inner = Reading(reading.number)
        try:
            value = read_event(content.encode(), inner)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and "ph" in value:
            for name, times in inner.problems.items():
                reading.problems[name] = max(times, reading.problems.get(name, 0))
            return value
    return None


def mend_document(text: bytes, reading: Reading) -> Any:
    """The value of a small document, repaired where need be; None where that does not help."""
    content = _decoded(text, reading)
    for problem, mend in (("", None), *_REPAIRS):
        if mend is not None:
            if len(content) > REPAIR_LIMIT:
                return None
            content, count = mend(content)
            if not count:
                continue
            reading.note(problem, count)
        for strict in (True, False):
            try:
                value = json.loads(content, strict=strict)
                value = _without_surrogates(value, content, reading)
            except (ValueError, RecursionError):
                continue
            if not strict:
                reading.note("control_characters")
            return value
    return None


def _decoded(text: bytes, reading: Reading) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        content = text.decode(errors="replace")
        reading.note("bad_utf8")
        return content


def _without_surrogates(value: Any, content: str, reading: Reading) -> Any:
    """Escapes of half a character pair cannot be written to any file; they become U+FFFD."""
    if _SURROGATE.search(content) is None:
        return value
    clean = _cleaned(value)
    if clean != value:
        reading.note("bad_utf8")
    return clean


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        kind = type(value)
        return kind(value.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    return value


def _mend_constants(text: str) -> tuple[str, int]:
    return _C_NUMBER.subn(r"\1NaN", text)


def _mend_backslashes(text: str) -> tuple[str, int]:
    count = 0

    def double(match: re.Match[str]) -> str:
        nonlocal count
        if len(match[0]) > 1:
            return match[0]
        count += 1
        return "\\\\"

    return _ESCAPE.sub(double, text), count


def _mend_log_lines(text: str) -> tuple[str, int]:
    return _LOG_LINE.subn("", text)


def _mend_commas(text: str) -> tuple[str, int]:
    return _STRAY_COMMA.subn("", text)


def _mend_quotes(text: str) -> tuple[str, int]:
    """Escape the quotes that, by what follows them, cannot end the string they stand in."""
    parts: list[str] = []
    open_brackets: list[str] = []
    at = count = 0
    before = ""
    while (opening := text.find('"', at)) >= 0:
        between = text[at:opening]
        for mark in between:
            if mark in "{[":
                open_brackets.append(mark)
            elif mark in "}]" and open_brackets:
                open_brackets.pop()
        before = between.strip()[-1:]
        in_list = open_brackets[-1:] == ["["]
        closes = _ENDS_ITEM if in_list else _ENDS_VALUE if before == ":" else _ENDS_KEY
        parts.append(between + '"')
        at = opening + 1
        while True:
            piece = _STRING_PIECE.match(text, at)
            end = piece.end() if piece else at
            parts.append(text[at:end])
            if end >= len(text) or text[end] != '"':
                return text, 0
            at = end + 1
            if closes.match(text, at):
                parts.append('"')
                break
            parts.append('\\"')
            count += 1
    parts.append(text[at:])
    return "".join(parts), count


def _mend_last_backslash(text: str) -> tuple[str, int]:
    """A backslash that ends a string (`"C:\\dir\\"`) hides the quote behind it."""
    return re.subn(
        r'(?<!\\)\\(?="(?:\s{0,64},\s{0,64}"[^"\n]{1,200}"\s{0,64}:|\s{0,64}\}))', r"\\\\", text
    )


_REPAIRS: tuple[tuple[str, Callable[[str], tuple[str, int]]], ...] = (
    ("nan_values", _mend_constants),
    ("bad_backslash", _mend_backslashes),
    ("log_lines", _mend_log_lines),
    ("trailing_comma", _mend_commas),
    ("bad_backslash", _mend_last_backslash),
    ("bad_quotes", _mend_quotes),
)
