"""One event in full: the piece of the file that holds a row is read again."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gaptrace.reading.columns import Tally
from gaptrace.reading.events import Complete, ExactComplete
from gaptrace.reading.inputs import Input, Stream
from gaptrace.reading.repair import Reading, read_event, repair_event
from gaptrace.reading.times import exact_ns
from gaptrace.reading.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gaptrace.reading.settings import Settings


@dataclass
class EventReader:
    """Gives the whole event of a row, as `Trace.read_event`.

    marks: first row, offset and length of each piece of text. The last piece read is kept, since
    rows are often asked for in order.
    """

    source: Input
    marks: npt.NDArray[np.int64]
    rows: int
    settings: Settings
    _last: tuple[int, list[Mapping[str, Any]]] = field(default=(-1, []), repr=False)

    def __call__(self, row: int) -> Mapping[str, Any]:
        if row < 0:
            row += self.rows
        if not 0 <= row < self.rows:
            raise IndexError(f"row {row} of {self.rows}")
        index = int(np.searchsorted(self.marks[:, 0], row, side="right")) - 1
        first, offset, length = self.marks[index].tolist()
        if self._last[0] != index:
            self._last = (index, self._piece(offset, length))
        event: Mapping[str, Any] = self._last[1][row - first]
        return event

    def _piece(self, offset: int, length: int) -> list[Mapping[str, Any]]:
        data = Stream(self.source, offset).read(length)
        try:
            values = json.loads(b"[" + data + b"]")
        except (ValueError, RecursionError):
            values = list(self._walked(data))
        return [value for value in values if _is_row(value)]

    def _walked(self, data: bytes) -> list[Any]:
        values: list[Any] = []
        for element in Walk(data, 0, len(data), stop=len(data), final=True, settings=self.settings):
            if element.event is None:
                continue
            text = data[element.start : element.end]
            try:
                values.append(read_event(text, Reading(float)))
            except (ValueError, RecursionError):
                values.append(repair_event(text.rstrip(b" \t\r\n,"), Reading(float)))
        return values


def offset_of(source: Input, tally: Tally, settings: Settings) -> int:
    """Where the event stands that a tally saw first."""
    if tally.within is None:
        return max(tally.offset, 0)
    length, index = tally.within
    data = Stream(source, tally.offset).read(length)
    for element in Walk(data, 0, len(data), stop=len(data), final=True, settings=settings):
        if isinstance(element.event, Complete | ExactComplete):
            if index == 0:
                return tally.offset + element.start
            index -= 1
    return tally.offset


def _is_row(value: object) -> bool:
    return isinstance(value, dict) and value.get("ph") == "X" and _has_time(value.get("ts"))


def _has_time(value: object) -> bool:
    return exact_ns(str(value) if isinstance(value, float) else value) is not None
