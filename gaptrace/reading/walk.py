"""The slow, sure way through a list of events: one element after the other.

Used where a slice does not decode. Element boundaries come from a JSON scanner over the text as
Latin-1, in which positions are byte positions and structure is the same. What is not JSON is
repaired or left out, and counted with its place; reading goes on at the next start of an event.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gaptrace.reading.events import DECODE_ERRORS, EXACT_EVENT_DECODER, from_mapping
from gaptrace.reading.layout import EVENT_START, EVENTS_END, SPACE, skip_space
from gaptrace.reading.repair import Reading, read_event, repair_event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gaptrace.reading.settings import Settings

_scan = json.JSONDecoder(strict=False).raw_decode
WINDOW = 1 << 18


@dataclass
class Element:
    """One element of the list: where it stands, and the event, or None where it was left out."""

    start: int
    end: int
    event: object | None
    reading: Reading


class Walk:
    """Iterates over elements from `at` to the first that starts at or after `until`.

    Afterwards `at` is where reading stopped and one of these may be set. ended: the list ends at
    `at`. wants: the element at `at` is not complete before `stop`, and `stop` is not the end.
    spent: too much damage to go on. loose: problems that belong to no element, with their place.
    failures, wasted: what `damage` had before, and more.
    """

    def __init__(
        self,
        data: bytes,
        at: int,
        until: int,
        *,
        stop: int,
        final: bool,
        settings: Settings,
        damage: tuple[int, int] = (0, 0),
    ) -> None:
        self.data = data
        self.at = at
        self.until = until
        self.stop = stop
        self.final = final
        self.settings = settings
        self.ended = self.wants = self.spent = False
        self.loose: list[tuple[str, int]] = []
        self.failures, self.wasted = damage
        before = data[max(0, at - 256) : at].rstrip(SPACE)
        self._behind_comma = before[-1:] in (b"", b",")
        # The element just tried ran into the end of what there is.
        self._cut_short = False
        self._text = ""
        self._text_at = 0

    def __iter__(self) -> Iterator[Element]:
        data = self.data
        while self.at < self.until:
            here = skip_space(data, self.at, self.stop)
            if here >= self.stop:
                self.at = here
                return
            byte = data[here]
            if byte == 0x5D:
                if self._behind_comma:
                    self.loose.append(("trailing_comma", here))
                self.at = here
                self.ended = True
                return
            if byte == 0x2C:
                self.loose.append(("trailing_comma", here))
                self.at = here + 1
                continue
            if self.failures >= self.settings.failures or self.wasted > self.settings.wasted:
                self.at = here
                self.spent = True
                return
            end = self._end_of(here)
            if end > 0 and (byte == 0x7B or self._followed(end)):
                if not self.final and skip_space(data, end, self.stop) >= self.stop:
                    # Whether a comma follows cannot be seen: leave it to who sees more.
                    self.at = here
                    self.wants = True
                    return
                element = self._whole(here, end)
                self.at = self._after(end)
            else:
                if self.wants:
                    self.at = here
                    return
                element = self._broken(here)
            if element.event is None or element.event == "":
                self.failures += 1
            yield element

    def _end_of(self, here: int) -> int:
        """End of the JSON value at a position; 0 where there is none, or `wants` is set."""
        limit = min(self.stop, here + self.settings.longest_event)
        self._cut_short = False
        if not self._text_at <= here < self._text_at + len(self._text):
            self._see(here, min(here + WINDOW, limit))
        while True:
            reach = self._text_at + len(self._text)
            try:
                _, end = _scan(self._text, here - self._text_at)
            except RecursionError:
                return 0
            except ValueError as error:
                place = getattr(error, "pos", 0) + self._text_at
                cut_short = "Unterminated" in str(error) or place >= reach - 16
                self.wasted += (reach if cut_short else place) - here
                if not cut_short:
                    return 0
            else:
                end += self._text_at
                # A number may go on behind what is seen; anything that closes may not.
                if end < reach or self.data[end - 1] in b'}]"':
                    return end
            if reach >= limit:
                self._cut_short = True
                self.wants = not self.final and limit == self.stop
                return 0
            self._see(here, min(here + max(WINDOW, (reach - here) * 4), limit))

    def _see(self, start: int, stop: int) -> None:
        self._text = self.data[start:stop].decode("latin-1")
        self._text_at = start

    def _whole(self, here: int, end: int) -> Element:
        reading = Reading()
        text = self.data[here:end]
        try:
            event = EXACT_EVENT_DECODER.decode(text)
            if not text.isascii():
                text.decode()
        except DECODE_ERRORS:
            try:
                value = read_event(text, reading)
            except (ValueError, RecursionError):
                reading.note("dropped_events")
                return Element(here, end, None, reading)
            if not isinstance(value, dict):
                reading.note("not_an_event")
                return Element(here, end, None, reading)
            event = from_mapping(value)
        return Element(here, end, event, reading)

    def _after(self, end: int) -> int:
        """Where the next element may start: behind the comma, where there is one."""
        here = skip_space(self.data, end, self.stop)
        self._behind_comma = False
        if here >= self.stop:
            return here
        if self.data[here] == 0x2C:
            self._behind_comma = True
            return here + 1
        if self.data[here] == 0x7B:
            self.loose.append(("missing_comma", here))
        return here

    def _followed(self, end: int) -> bool:
        here = skip_space(self.data, end, self.stop)
        return here >= self.stop or self.data[here] in b",]"

    def _broken(self, here: int) -> Element:
        """Repair what stands between here and the next start of an event, or leave it out."""
        data = self.data
        start = EVENT_START.search(data, here + 1, self.stop)
        stop = start.end() if start else self.stop
        torn = False
        if start is None and self.final:
            last = None if self._cut_short else EVENTS_END.search(data, here, self.stop)
            torn = last is None
            stop = self.stop if last is None else last.end()
        text = data[here:stop].rstrip(SPACE).rstrip(b",").rstrip(SPACE)
        reading = Reading()
        event: object | None = None
        if data[here] != 0x7B:
            reading.note("dropped_events" if b'"ph"' in text else "log_lines")
        else:
            value = repair_event(text, reading)
            if value is not None:
                event = from_mapping(value)
            else:
                reading.problems.clear()
                if not torn:  # the end of the file is a problem of its own
                    reading.note("dropped_events")
        self.at = stop
        self._behind_comma = False
        return Element(here, stop, event, reading)
