"""The whole way from a source to a Trace."""

from __future__ import annotations

import codecs
import dataclasses
import gc
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from gaptrace.errors import BrokenTraceError
from gaptrace.reading.assemble import Merged, merge
from gaptrace.reading.cache import load_cached, store
from gaptrace.reading.columns import Tally
from gaptrace.reading.duplicates import drop_duplicates
from gaptrace.reading.head import Document, Head, find_events, read_document
from gaptrace.reading.identity import separate
from gaptrace.reading.inputs import FileInput, Input, MemoryInput, Stream, open_input
from gaptrace.reading.layout import Layout
from gaptrace.reading.problems import problems_of
from gaptrace.reading.reader import EventList, Progress, Text, read_here, read_in_workers
from gaptrace.reading.reread import EventReader, offset_of
from gaptrace.reading.settings import Settings
from gaptrace.reading.sniff import check_magic, foreign, no_complete_event, not_a_trace
from gaptrace.trace import Cat, Problem, Source, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# How much smaller a trace is as .gz: 13 to 17 times. For files of several members, or over 4 GB.
_GZIP_RATIO = 14
_FAULTS = {"truncated": "truncated_gzip", "corrupt": "corrupt_gzip"}
# Why a file may hold no event although it was a trace once.
_FATAL = {
    "truncated", "truncated_gzip", "corrupt_gzip", "log_lines", "dropped_events", "given_up",
    "unreadable_time",
}  # fmt: skip


@dataclass(frozen=True)
class Request:
    """What the caller asked for beside the source."""

    processes: int | None = None
    progress: Progress | None = None
    cache: Path | None = None
    settings: Settings = field(default_factory=Settings)


def load(
    source: str | os.PathLike[str] | bytes | BinaryIO,
    *,
    processes: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    cache: Path | None = None,
) -> Trace:
    """The trace in a file, in bytes, in an open file, or on standard input (`-`).

    Reads `.json` and `.json.gz` by content, not by name; a top-level object or list; the schemas
    of 2020 to 2026. Rows are complete events in file order. Times are exact integer nanoseconds
    from the smallest start; what the decimal text says is never rounded. Whatever was wrong with
    the file and could be repaired or had to be left out is in `Trace.problems`.

    Args:
        source: a path, `-`, bytes, or a file opened for reading in binary mode.
        processes: how many processes may read a large file, this one among them; by default as
            many as there are cores and work for them.
        progress: called from time to time with the bytes of the input read so far and in all;
            the total is 0 where it is unknown.
        cache: a folder in which the columns of this file are kept for the next time.

    Raises:
        NotATraceError: the input is something else; the message says what it looks like.
        BrokenTraceError: nothing usable is left of the trace.
        GaptraceError: the input cannot be read.
    """
    request = Request(processes=processes, progress=progress, cache=cache)
    return read_trace(source, request)


def read_trace(source: str | os.PathLike[str] | bytes | BinaryIO, request: Request) -> Trace:
    """The trace in the source. Everything `load` does."""
    opened = open_input(source)
    if request.cache is not None and isinstance(opened, FileInput):
        cached = load_cached(request.cache, opened, request.settings)
        if cached is not None:
            return cached
    with _no_collection():
        trace = _read(opened, request)
    if request.cache is not None and isinstance(opened, FileInput):
        store(request.cache, opened, trace)
    return trace


@contextmanager
def _no_collection() -> Iterator[None]:
    """The cyclic collector looks through millions of objects that form no cycles."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _read(source: Input, request: Request) -> Trace:
    settings = request.settings
    notes: dict[str, Tally] = {}
    stream = Stream(source)
    data = stream.read(1 << 16)
    check_magic(source.name, data)
    if data.startswith(_UTF16):
        source = _converted(source, data + _rest(stream))
        notes["utf16"] = Tally(1, 0)
        stream = Stream(source)
        data = stream.read(1 << 16)
    best: tuple[EventList, Head, Document] | None = None
    for skip in range(settings.lists):
        head, data = _find(stream, data, skip, settings)
        if head is None:
            break
        text = Text(
            source,
            stream,
            data[head.start :],
            head.start,
            Layout.of(data[head.start : head.start + (1 << 20)]),
            settings,
            request.progress,
        )
        events = _events(text, request)
        document = read_document(head, events.tail)
        if best is None or document.sound:
            best = events, head, document
            if skip:
                notes["repeated_key"] = Tally(1, head.start)
        if document.sound or head.container == "list":
            break
        # That list was not the document's own: look for the next.
        stream = Stream(source)
        data = stream.read(1 << 16)
    if best is None:
        raise not_a_trace(source.name, data)
    events, head, document = best
    merged = merge(events.parts)
    tallies = merged.tallies
    if twice := drop_duplicates(merged):
        notes["written_twice"] = Tally(twice, 0)
    notes.update({name: Tally(count, 0) for name, count in separate(merged).items()})
    for name, tally in (*_around(events, head, document).items(), *notes.items()):
        tallies.setdefault(name, Tally()).add(tally.count, tally.offset)
    if pairs := merged.ignored.get("B", 0) + merged.ignored.get("E", 0):
        tallies["begin_end_pairs"] = Tally(pairs, 0)
    places = {name: offset_of(source, tally, settings) for name, tally in tallies.items()}
    problems = problems_of({name: (tallies[name].count, at) for name, at in places.items()})
    _check(source, merged, problems)
    return _trace(source, settings, merged, events, head, document, problems)


def _rest(stream: Stream) -> bytes:
    parts = []
    while part := stream.read(1 << 24):
        parts.append(part)
    return b"".join(parts)


def _converted(source: Input, data: bytes) -> MemoryInput:
    return MemoryInput(source.name, data.decode("utf-16", "replace").encode())


def _find(stream: Stream, data: bytes, skip: int, settings: Settings) -> tuple[Head | None, bytes]:
    """The head, and all that was read to find it."""
    while True:
        head = find_events(data, skip=skip)
        if head is not None or len(data) >= settings.head:
            return head, data
        more = stream.read(max(len(data), 1 << 20))
        if not more:
            return None, data
        data += more


def _events(text: Text, request: Request) -> EventList:
    size = _text_size(text.source) if text.stream.compressed else text.source.size
    workers = _workers(size, request)
    if workers > 1:
        events = read_in_workers(text, workers)
        if events is not None:
            return events
        text.stream = Stream(text.source, text.start)
        text.ahead = b""
    return read_here(text)


def _text_size(source: Input) -> int:
    """How much JSON a gzip file holds, by its last four bytes; only a hint to who reads it."""
    said = int.from_bytes(source.read(source.size - 4, 4), "little")
    return said if said > source.size else source.size * _GZIP_RATIO


def _workers(size: int, request: Request) -> int:
    if size < request.settings.parallel_from:
        return 1
    if not sys.executable or getattr(sys, "frozen", False):
        return 1  # no interpreter to start: embedded, or frozen into a program
    if request.processes is not None:
        return max(1, request.processes)
    settings = request.settings
    return max(1, min(_cores(), settings.most_workers, size // settings.per_worker))


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _around(events: EventList, head: Head, document: Document) -> dict[str, Tally]:
    """What was wrong with the text around the events."""
    found = {problem: Tally(count) for problem, count in document.mended.items()}
    if head.junk:
        found["log_lines"] = Tally(1, 0)
    if head.container == "list" and events.tail[1:].strip():
        found["text_after_end"] = Tally(1, events.size - len(events.tail))
    elif head.container == "object" and not document.sound:
        found["broken_metadata"] = Tally(1, 0)
    if events.fault is not None:
        found[_FAULTS[events.fault]] = Tally(1, 0)
    return found


def _check(source: Input, merged: Merged, problems: tuple[Problem, ...]) -> None:
    """Refuse what has no event left, or has only those of a tool that is known.

    Raises:
        BrokenTraceError, NotATraceError: with what it looks like.
    """
    if not merged.start.size:
        fatal = [problem for problem in problems if problem.id in _FATAL]
        if fatal:
            raise BrokenTraceError(
                f"nothing usable is left in {source.name}: {fatal[0].text}",
                "Record or download it again.",
            )
        raise no_complete_event(source.name, merged.ignored)
    if not (merged.cat != Cat.OTHER).any():
        error = foreign(source.name, Stream(source).read(1 << 16))
        if error is not None:
            raise error


def _trace(
    source: Input,
    settings: Settings,
    merged: Merged,
    events: EventList,
    head: Head,
    document: Document,
    problems: tuple[Problem, ...],
) -> Trace:
    known = {field.name for field in dataclasses.fields(Trace)}
    return Trace(
        **{name: value for name, value in vars(merged).items() if name in known},
        source=Source(
            path=source.name,
            container=head.container,
            compressed=Stream(source).compressed,
            bytes=events.size,
            events=merged.events,
            ignored=merged.ignored,
            unread=merged.unread,
        ),
        metadata=document.keys,
        problems=problems,
        read_event=EventReader(source, merged.marks, int(merged.start.size), settings),
    )
