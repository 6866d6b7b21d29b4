"""The text around the list of events: where the list begins, and the metadata on both sides."""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gaptrace.reading.layout import EVENTS_KEY, FIRST_EVENT, depth, skip_space
from gaptrace.reading.repair import Reading, mend_document

if TYPE_CHECKING:
    from collections.abc import Iterator

# Counting brackets in Python is slow; a longer head is checked by parsing it once all is read.
DEPTH_LIMIT = 4 << 20
_PLACEHOLDER = "\x00gaptrace events\x00"
_LIST = re.compile(rb"\[\s{0,64}[{\]]")
_KEY = re.compile(rb'[{,]\s{0,64}"([^"\\]{1,80})"\s{0,64}:')


@dataclass(frozen=True)
class Head:
    """What stands before the first event. `text` is the document's own, without its mark or junk.

    start: position of the first element in the whole text. container: `object` or `list`. junk:
    bytes before the document that belong to no JSON.
    """

    text: bytes
    start: int
    container: str
    junk: int = 0


def find_events(data: bytes, *, skip: int = 0) -> Head | None:
    """The head, where the list of events begins within the data; `skip` passes over candidates."""
    begin = 3 if data.startswith(codecs.BOM_UTF8) else 0
    begin = skip_space(data, begin, len(data))
    junk = 0
    if data[begin : begin + 1] != b"{" and _LIST.match(data, begin) is None:
        found = _after_junk(data, begin)
        if found is None:
            return None
        junk, begin = found - begin, found
    if data[begin : begin + 1] == b"[":
        return Head(b"[", begin + 1, "list", junk) if skip == 0 else None
    for match in _candidates(data, begin):
        if skip:
            skip -= 1
            continue
        return Head(data[begin : match.end()], match.end(), "object", junk)
    return None


def _after_junk(data: bytes, begin: int) -> int | None:
    """Where a trace starts behind log lines: at a line that opens an object or a list of events."""
    sample = data[: 1 << 20]
    if EVENTS_KEY.search(data) is None and FIRST_EVENT.search(sample) is None:
        return None
    match = re.compile(rb'(?:^|\n)\s{0,64}(?=\{\s{0,64}"|\[\s{0,64}\{\s{0,64}")').search(
        sample, begin
    )
    return None if match is None else match.end()


def _candidates(data: bytes, begin: int) -> Iterator[re.Match[bytes]]:
    """Places of the key at the document's own level; any place where no level can be told."""
    matches = EVENTS_KEY.finditer(data, begin)
    seen, level, doubtful = begin, 0, []
    for match in matches:
        if match.start() - begin > DEPTH_LIMIT:
            yield match
            continue
        level += depth(data[seen : match.start()])
        seen = match.start()
        if level == 1:
            yield match
        else:
            doubtful.append(match)
    yield from doubtful


@dataclass(frozen=True)
class Document:
    """The top-level keys but the events. `sound`: the text is one JSON document whose events are
    the ones read. `mended`: problems that had to be repaired to read it."""

    keys: dict[str, Any]
    sound: bool
    mended: dict[str, int]


def read_document(head: Head, tail: bytes) -> Document:
    """The metadata of a trace whose events have been taken out.

    `tail` begins with the bracket that closes the list; empty where the list never ends.
    """
    if head.container == "list":
        rest = tail[1:].strip()
        return Document({}, not rest, {})
    closing = tail if tail else b"]}"
    text = head.text + json.dumps(_PLACEHOLDER).encode() + closing
    reading = Reading()
    value = mend_document(text, reading)
    if isinstance(value, dict):
        sound = value.get("traceEvents") == [_PLACEHOLDER]
        value.pop("traceEvents", None)
        return Document(value, sound, reading.problems)
    # The tail is damaged: keep what stands before the events.
    value = mend_document(head.text + b"]}", Reading())
    keys = value if isinstance(value, dict) else {}
    keys.pop("traceEvents", None)
    return Document(keys, True, {"broken_metadata": 1})


def top_keys(data: bytes) -> list[str]:
    """The first keys that occur in a JSON object, as a hint to what it is."""
    keys = (match[1].decode("utf-8", "replace") for match in _KEY.finditer(data[: 1 << 16]))
    return list(dict.fromkeys(keys))[:50]
