"""Events to narrow columns: one Part for each block of text.

Codes are local to a part and given in order of first appearance, so parts put together in file
order give the same tables whoever decoded them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from gaptrace.reading.events import NO_ARGS, AnyComplete, Args
from gaptrace.reading.times import DURATION_LIMIT, UNREADABLE, nanoseconds
from gaptrace.trace import CATEGORIES, Cat

Array = npt.NDArray[Any]

_get = {
    name: attrgetter(name)
    for name in [
        "ts",
        "dur",
        "args",
        "ext",
        "corr",
        "device",
        "stream",
        "graph_id",
        "graph_node",
        "bytes",
        "python_id",
        "python_parent",
        "record_function_id",
        "old_ext",
    ]
}
_kind = attrgetter("cat", "name", "pid", "tid")
_shape = attrgetter("dims", "types", "concrete")
_same = itemgetter(slice(None))

# Columns of every event, and of the three groups that only some events have facts for.
EVENT = ("start", "dur", "name", "cat", "lane", "corr", "ext")
GPU = ("gpu_row", "device", "stream", "graph_id", "graph_node", "bytes")
PY = ("py_row", "python_id", "python_parent")
OP = ("op_row", "record_function_id", "shape")
COLUMNS = EVENT + GPU + PY + OP


Key = TypeVar("Key")
Pair = tuple[object, object]


class Codes(dict[Key, int]):
    """Gives each new key the next number."""

    def __missing__(self, key: Key) -> int:
        code = self[key] = len(self)
        return code


class _Categories(dict[object, int]):
    def __missing__(self, key: object) -> int:
        found = CATEGORIES.get(key.lower(), Cat.OTHER) if isinstance(key, str) else Cat.OTHER
        code = self[key] = int(found)
        return code


class _Kinds(dict[tuple[Hashable, Hashable, object, object], int]):
    """Codes of what many events share, category, name, process and thread: one look-up for all.

    names, lanes: the tables of both. cat, name, lane: for each code its category, and its codes in
    the two tables.
    """

    def __init__(self) -> None:
        self.names: Codes[Hashable] = Codes()
        self.lanes: Codes[Pair] = Codes()
        self.cat: list[int] = []
        self.unread: list[str] = []
        self.name: list[int] = []
        self.lane: list[int] = []
        self._categories = _Categories()

    def __missing__(self, key: tuple[Hashable, Hashable, object, object]) -> int:
        code = self[key] = len(self)
        cat, name, pid, tid = key
        self.cat.append(self._categories[cat])
        self.unread.append(f"process {pid}" if cat is None else str(cat))
        self.name.append(self.names[name])
        self.lane.append(self.lanes[pid, tid])
        return code


@dataclass
class Tally:
    """How often something was wrong and where it was first seen.

    offset: in bytes from the text's start. within: where only the piece of text is known, its
    length and which of its complete events it is, counted from 0.
    """

    count: int = 0
    offset: int = -1
    within: tuple[int, int] | None = None

    def add(self, count: int, offset: int, within: tuple[int, int] | None = None) -> None:
        """Count more of the same."""
        self.count += count
        if self.offset < 0 or 0 <= offset < self.offset:
            self.offset, self.within = offset, within


@dataclass
class Part:
    """What one block of text gave: columns, the tables their codes refer to, and the rest.

    base, stop: where the block began and how far it was read, in the whole text. ended: the list
    of events ends at `stop`. wants: the event at `stop` is not complete in this block. spent: the
    file was so damaged that reading it was given up. damage: broken events so far, and bytes read
    in vain. marks: rows, offset, length of each slice. size, tail: of the final block, where the
    whole text ends, and what follows the list.
    """

    base: int
    stop: int = 0
    rows: int = 0
    ended: bool = False
    wants: bool = False
    spent: bool = False
    damage: tuple[int, int] = (0, 0)
    size: int = 0
    tail: bytes = b""
    columns: dict[str, Array] = field(default_factory=dict)
    names: list[object] = field(default_factory=list)
    lanes: list[Pair] = field(default_factory=list)
    devices: list[Pair] = field(default_factory=list)
    shapes: list[bytes] = field(default_factory=list)
    events: int = 0
    ignored: dict[str, int] = field(default_factory=dict)
    unread: dict[str, int] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)
    metadata_events: list[tuple[object, object, object, object]] = field(default_factory=list)
    marks: list[tuple[int, int, int]] = field(default_factory=list)

    def note(self, problem: str, offset: int, count: int = 1) -> None:
        """Count something that was wrong."""
        self.tallies.setdefault(problem, Tally()).add(count, offset)


def narrow(values: Array) -> Array:
    """The same integers in 32 bits where they fit: they travel between processes."""
    if values.dtype != np.int64 or not values.size:
        return values
    low, high = values.min(), values.max()
    return values.astype(np.int32) if low >= -(2**31) and high < 2**31 else values


def _whole(value: object, default: int) -> int | None:
    """An integer out of what some writer put in its place, or None."""
    if value is None:
        return default
    try:
        number = int(value, 0) if isinstance(value, str) else int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        try:
            number = int(float(value))  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            return None
    return number if -(2**63) <= number < 2**63 else None


class Columns:
    """Collects the columns of one part."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._lists: dict[str, list[Array]] = {name: [] for name in COLUMNS}
        self._kinds = _Kinds()
        self._devices: Codes[Pair] = Codes()
        self._shapes: Codes[bytes] = Codes()
        self._shapes_known = 0
        # Codes of what has no dimensions under the new name: the old spelling, or no shapes at all.
        self._dimless: list[int] = []
        # The piece of text at hand, and which of its events are kept, where not all are.
        self._piece = (0, 0)
        self._kept: Array | None = None

    def add(self, events: Sequence[AnyComplete], offset: int, length: int) -> None:
        """Append complete events that stand at `offset` in the text.

        Raises:
            NeedsTextError: the events' times must be decoded as text.
        """
        part = self._part
        start = nanoseconds(events, _get["ts"])
        dur = nanoseconds(events, _get["dur"])
        self._piece, self._kept = (offset, length), None
        bad = start == UNREADABLE
        if bad.any():
            self._note("unreadable_time", bad)
            self._kept = np.flatnonzero(~bad)
            part.ignored["X"] = part.ignored.get("X", 0) + int(bad.sum())
            events = [event for event, wrong in zip(events, bad.tolist(), strict=True) if not wrong]
            start, dur = start[~bad], dur[~bad]
        if not events:
            return
        self._fix_durations(dur)
        count = len(events)
        args: list[Args] = [a or NO_ARGS for a in map(_get["args"], events)]
        kind = self._code(self._kinds, _kind, events)
        cat = np.array(self._kinds.cat, np.int8)[kind]
        for code, number in enumerate(np.bincount(kind[cat == Cat.OTHER]).tolist()):
            if number:
                text = self._kinds.unread[code]
                part.unread[text] = part.unread.get(text, 0) + number
        self._put("start", start)
        self._put("dur", dur)
        self._put("cat", cat)
        self._put("name", np.array(self._kinds.name, np.int32)[kind])
        self._put("lane", np.array(self._kinds.lane, np.int32)[kind])
        self._put("corr", self._ints("corr", args, 0))
        self._put("ext", self._external(args))
        self._gpu(events, args, cat)
        self._python(args, cat)
        self._ops(args, cat)
        part.rows += count
        part.marks.append((count, offset, length))

    def close(self) -> None:
        """Move everything collected into the part."""
        part = self._part
        for name, pieces in self._lists.items():
            joined = np.concatenate(pieces) if pieces else np.empty(0, np.int64)
            part.columns[name] = narrow(joined)
        part.names = list(self._kinds.names)
        part.lanes = list(self._kinds.lanes)
        part.devices = list(self._devices)
        part.shapes = list(self._shapes)

    def _put(self, name: str, values: Array) -> None:
        self._lists[name].append(values)

    def _fix_durations(self, dur: npt.NDArray[np.int64]) -> None:
        missing = (dur == UNREADABLE) | (dur > DURATION_LIMIT)
        if missing.any():
            dur[missing] = 0
            self._note("unfinished", missing)
        negative = dur < 0
        if negative.any():
            dur[negative] = 0
            self._note("negative_duration", negative)

    def _code(
        self, codes: dict[Any, int], get: Callable[[Any], Any], items: Sequence[Any]
    ) -> Array:
        try:
            return np.fromiter(map(codes.__getitem__, map(get, items)), np.int32, len(items))
        except TypeError:  # a list or an object where a text belongs
            keys = (codes[_hashable(get(item))] for item in items)
            return np.fromiter(keys, np.int32, len(items))

    def _ints(
        self, name: str, args: Sequence[Args], default: int, rows: Array | None = None
    ) -> Array:
        """One id of each; `rows` says which events the args belong to, where not to all."""
        get: Callable[[Args], Any] = _get[name]
        try:
            return np.fromiter(map(get, args), np.int64, len(args))
        except (TypeError, ValueError, OverflowError):
            values = [_whole(get(item), default) for item in args]
        odd = np.array([value is None for value in values])
        if odd.any():
            self._note("unreadable_value", odd, rows)
        return np.array([default if value is None else value for value in values], np.int64)

    def _note(self, problem: str, wrong: Array, rows: Array | None = None) -> None:
        """Count what is wrong with some of the events, and remember which is the first."""
        first = int(wrong.argmax())
        for index in (rows, self._kept):
            if index is not None:
                first = int(index[first])
        offset, length = self._piece
        tally = self._part.tallies.setdefault(problem, Tally())
        tally.add(int(wrong.sum()), offset, (length, first))

    def _external(self, args: list[Args]) -> Array:
        ext = self._ints("ext", args, 0)
        none = np.flatnonzero(ext == 0)
        if none.size:
            ext[none] = self._ints("old_ext", [args[row] for row in none.tolist()], 0, none)
        return ext

    def _gpu(self, events: Sequence[AnyComplete], args: list[Args], cat: Array) -> None:
        rows = np.flatnonzero(cat <= Cat.MEMSET)
        if not rows.size:
            return
        where = rows.tolist()
        mine = [args[row] for row in where]
        devices = [(events[row].pid, item.device) for row, item in zip(where, mine, strict=True)]
        self._put("gpu_row", rows + self._part.rows)
        self._put("device", self._code(self._devices, _same, devices))
        self._put("stream", self._ints("stream", mine, -1, rows))
        self._put("graph_id", self._ints("graph_id", mine, 0, rows))
        self._put("graph_node", self._ints("graph_node", mine, 0, rows))
        moved = self._ints("bytes", mine, 0, rows)
        self._put("bytes", np.where(cat[rows] == Cat.KERNEL, 0, moved))

    def _python(self, args: list[Args], cat: Array) -> None:
        rows = np.flatnonzero(cat == Cat.PYTHON)
        if not rows.size:
            return
        mine = [args[row] for row in rows.tolist()]
        self._put("py_row", rows + self._part.rows)
        self._put("python_id", self._ints("python_id", mine, 0, rows))
        self._put("python_parent", self._ints("python_parent", mine, 0, rows))

    def _ops(self, args: list[Args], cat: Array) -> None:
        rows = np.flatnonzero(cat == Cat.CPU_OP)
        if not rows.size:
            return
        mine = [args[row] for row in rows.tolist()]
        self._put("op_row", rows + self._part.rows)
        self._put("record_function_id", self._ints("record_function_id", mine, 0, rows))
        codes = self._shapes
        keys = map(b"\0".join, map(_shape, mine))
        shape = np.fromiter(map(codes.__getitem__, keys), np.int32, len(mine))
        for key in islice(reversed(codes), len(codes) - self._shapes_known):
            if key.startswith(b"\0"):
                self._dimless.append(codes[key])
        for row in np.flatnonzero(np.isin(shape, self._dimless)).tolist():
            item = mine[row]
            if len(item.old_dims):
                shape[row] = codes[b"\0".join((item.old_dims, item.types, item.concrete))]
        self._shapes_known = len(codes)
        self._put("shape", shape)


def _hashable(key: object) -> Hashable:
    try:
        if isinstance(key, tuple):
            return tuple(_hashable(item) for item in key)
        return key if isinstance(key, Hashable) else repr(key)
    except RecursionError:
        return "nested too deep"
