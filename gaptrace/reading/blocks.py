"""A block of text to a Part: slices as fast as they go, element by element where they do not."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from gaptrace.reading.columns import Columns, Part
from gaptrace.reading.events import (
    DECODE_ERRORS,
    EXACT_SLICE_DECODER,
    PHASE_OF,
    SLICE_DECODER,
    AnyComplete,
    Complete,
    ExactComplete,
    Metadata,
)
from gaptrace.reading.times import NeedsTextError
from gaptrace.reading.walk import Walk

if TYPE_CHECKING:
    from gaptrace.reading.layout import Layout
    from gaptrace.reading.settings import Settings

# A fraction behind 8.8e12 us or more, just above times.EXACT_BELOW: an absolute epoch time.
# Kineto's own times, counted from a base a few months back, have 13 digits too and stay below.
_EPOCH_WITH_FRACTION = re.compile(rb'"ts"\s{0,8}:\s{0,8}(?:\d{14,}|9\d{12}|8[89]\d{11})\.')
_ERROR_AT = re.compile(r"byte (\d+)")
_CONSTANT = rb"[-+]?(?:NaN|Infinity|nan|inf)\b"
_CONSTANT_THERE = re.compile(rb"[-+:,\[ ]{0,2}" + _CONSTANT)
_STRING_OR_CONSTANT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|(' + _CONSTANT + rb")", re.DOTALL)
WALK_AT_MOST = 1 << 14


class BlockReader:
    """Reads blocks of one file. It remembers how its times are written, and the damage so far."""

    def __init__(self, layout: Layout, settings: Settings) -> None:
        self._layout = layout
        self._settings = settings
        self._exact = False
        self._damage = (0, 0)

    def read(self, data: bytes, base: int, *, start: int = 0, stop: int, final: bool) -> Part:
        """The events in `data[start:stop]`, which begins with an element.

        A block that is not the final one stops behind the comma of its last element. `base` is
        where the data stands in the whole text.
        """
        part = Part(base + start)
        columns = Columns(part)
        if not self._exact and _EPOCH_WITH_FRACTION.search(data, start, start + (1 << 16)):
            self._exact = True
        ascii_only = data.isascii()
        at, size = start, self._settings.slice
        while at < stop and not (part.ended or part.wants or part.spent):
            end, after = self._next_slice(data, at, stop, size, final=final)
            if end > at and self._slice(part, columns, data, base, at, end, ascii_only=ascii_only):
                size = min(2 * size, self._settings.slice)
            elif end - at > WALK_AT_MOST and size > WALK_AT_MOST:
                # Close in on the damage: walking is ten times slower than decoding.
                size //= 4
                continue
            else:
                after = self._walk(part, columns, data, base, at, after, stop, final=final)
            at = after
        if at >= stop and final and not part.ended:
            part.note("truncated", base + stop)
        part.stop = base + at
        if final:
            part.size = base + stop
            part.tail = data[at : min(stop, at + self._settings.tail)]
        columns.close()
        return part

    def _next_slice(
        self, data: bytes, at: int, stop: int, size: int, *, final: bool
    ) -> tuple[int, int]:
        """End of the next slice and start of the one after; the end is `at` where none is known."""
        target = at + size
        cut = self._layout.first_cut(data, target, stop) if target < stop else None
        if cut is not None:
            return cut.end, cut.next
        if not final:
            last = data.rfind(b",", max(at, stop - 64), stop)
            return max(last, at), stop
        cut = self._layout.last_cut(data, at, stop)
        return (at, stop) if cut is None else (cut.end, cut.next)

    def _slice(
        self,
        part: Part,
        columns: Columns,
        data: bytes,
        base: int,
        at: int,
        end: int,
        *,
        ascii_only: bool,
    ) -> bool:
        """Append a slice's events; False, and nothing appended, where it does not decode."""
        text = b"".join((b"[", memoryview(data)[at:end], b"]"))
        decoder = EXACT_SLICE_DECODER if self._exact else SLICE_DECODER
        try:
            if not ascii_only:
                text.decode()
            events = decoder.decode(text)
        except DECODE_ERRORS as error:
            mended, constants, first = without_constants(text, error)
            try:
                events = decoder.decode(mended) if constants else None
            except DECODE_ERRORS:
                events = None
            if events is None:
                return False
            part.note("nan_values", base + at + first - 1, constants)
        kind = ExactComplete if self._exact else Complete
        complete = [event for event in events if type(event) is kind]
        try:
            columns.add(complete, base + at, end - at)
        except NeedsTextError:
            self._exact = True
            return self._slice(part, columns, data, base, at, end, ascii_only=ascii_only)
        part.events += len(events)
        if len(complete) < len(events):
            _count_others(part, events)
        return True

    def _walk(
        self,
        part: Part,
        columns: Columns,
        data: bytes,
        base: int,
        at: int,
        until: int,
        stop: int,
        *,
        final: bool,
    ) -> int:
        walk = Walk(
            data,
            at,
            until,
            stop=stop,
            final=final,
            settings=self._settings,
            damage=self._damage,
        )
        complete: list[AnyComplete] = []
        first = at
        for element in walk:
            for problem, count in element.reading.problems.items():
                part.note(problem, base + element.start, count)
            event = element.event
            if event is None:
                if "not_an_event" in element.reading.problems:
                    part.events += 1
                    part.ignored[""] = part.ignored.get("", 0) + 1
                continue
            part.events += 1
            if isinstance(event, Complete | ExactComplete):
                if not complete:
                    first = element.start
                complete.append(event)
            else:
                phase = event if isinstance(event, str) else PHASE_OF[type(event)]
                part.ignored[phase] = part.ignored.get(phase, 0) + 1
                _keep_metadata(part, event)
        if complete:
            columns.add(complete, base + first, walk.at - first)
        for problem, place in walk.loose:
            part.note(problem, base + place)
        self._damage = walk.failures, walk.wasted
        part.damage = self._damage
        part.ended, part.wants, part.spent = walk.ended, walk.wants, walk.spent
        return walk.at


def without_constants(text: bytes, error: Exception) -> tuple[bytes, int, int]:
    """The text with NaN and infinities as null, how many there were, and where the first was.

    Unchanged where the decoder did not stumble over one: such files have thousands (kineto #105),
    and walking through all of their events would take ten times as long.
    """
    found = _ERROR_AT.search(str(error))
    if found is None or _CONSTANT_THERE.search(text, *_around(int(found[1]))) is None:
        return text, 0, 0
    places: list[int] = []

    def null(match: re.Match[bytes]) -> bytes:
        if match[1] is None:
            return match[0]
        places.append(match.start())
        return b"null"

    mended = _STRING_OR_CONSTANT.sub(null, text)
    return mended, len(places), places[0] if places else 0


def _around(place: int) -> tuple[int, int]:
    return max(0, place - 3), place + 12


def _count_others(part: Part, events: list[object]) -> None:
    for kind, count in Counter(map(type, events)).items():
        phase = PHASE_OF.get(kind)
        if phase is not None:
            part.ignored[phase] = part.ignored.get(phase, 0) + count
            if kind is Metadata:
                for event in events:
                    _keep_metadata(part, event)


def _keep_metadata(part: Part, event: object) -> None:
    if isinstance(event, Metadata):
        part.metadata_events.append((event.name, event.pid, event.tid, event.args))
