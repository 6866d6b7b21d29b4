"""Parts in file order to one Trace."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gaptrace.reading.columns import Array, Part, Tally
from gaptrace.trace import GpuColumns, Ints, Lane, OpColumns, OpShape, PyColumns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LABEL = re.compile(r"(\[[^\[\]]+\])\s*(.*)", re.DOTALL)


@dataclass
class Merged:
    """All that the parts hold, in one piece."""

    start: Ints
    dur: Ints
    name: npt.NDArray[np.int32]
    cat: npt.NDArray[np.int8]
    lane: npt.NDArray[np.int32]
    corr: Ints
    ext: Ints
    gpu: GpuColumns
    py: PyColumns
    op: OpColumns
    names: tuple[str, ...]
    lanes: tuple[Lane, ...]
    devices: tuple[str, ...]
    shapes: tuple[OpShape, ...]
    origin_ns: int
    events: int
    ignored: dict[str, int]
    unread: dict[str, int]
    tallies: dict[str, Tally]
    process_names: dict[str, str]
    thread_names: dict[tuple[str, str], str]
    marks: npt.NDArray[np.int64]


@dataclass
class _Table:
    """Merges local tables: equal values get one code, in order of first appearance."""

    codes: dict[Any, int] = field(default_factory=dict)
    values: list[Any] = field(default_factory=list)

    def code(self, key: Any, value: Any) -> int:
        found = self.codes.get(key)
        if found is None:
            found = self.codes[key] = len(self.values)
            self.values.append(value)
        return found


def merge(parts: Sequence[Part]) -> Merged:
    """One set of columns; the parts' own are given up on the way, to hold nothing twice.

    Times are relative to the smallest start of any event.
    """
    names, lanes, devices, shapes = _Table(), _Table(), _Table(), _Table()
    texts: dict[bytes, int] = {}
    several = len({_label(pid)[0] for part in parts for pid, _ in part.lanes} - {""}) > 1
    sizes = [part.rows for part in parts]
    first_rows = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    for part, first in zip(parts, first_rows.tolist(), strict=False):
        columns = part.columns
        _recode(columns, "name", [names.code(t, t) for t in map(text_of, part.names)])
        _recode(columns, "lane", [lanes.code(one, one) for one in map(_lane, part.lanes)])
        device_texts = [_device(pid, device, several=several) for pid, device in part.devices]
        _recode(columns, "device", [devices.code(text, text) for text in device_texts])
        _recode(columns, "shape", [_shape_code(raw, texts, shapes) for raw in part.shapes])
        for rows in ("gpu_row", "py_row", "op_row"):
            columns[rows] = columns[rows].astype(np.int64) + first
    join = _Joiner(parts)
    start = join("start")
    origin = int(start.min()) if start.size else 0
    start -= origin
    processes, threads = _names(parts)
    return Merged(
        start=start,
        dur=join("dur"),
        name=join("name", np.int32),
        cat=join("cat", np.int8),
        lane=join("lane", np.int32),
        corr=join("corr"),
        ext=join("ext"),
        gpu=GpuColumns(
            rows=join("gpu_row"),
            device=join("device", np.int32),
            stream=join("stream"),
            graph_id=join("graph_id"),
            graph_node=join("graph_node"),
            bytes=join("bytes"),
        ),
        py=PyColumns(rows=join("py_row"), id=join("python_id"), parent=join("python_parent")),
        op=OpColumns(
            rows=join("op_row"),
            record_function_id=join("record_function_id"),
            shape=join("shape", np.int32),
        ),
        names=tuple(names.values),
        lanes=tuple(lanes.values),
        devices=tuple(devices.values),
        shapes=tuple(shapes.values),
        origin_ns=origin,
        events=sum(part.events for part in parts),
        ignored=_sum(part.ignored for part in parts),
        unread=_sum(part.unread for part in parts),
        tallies=_tallies(parts),
        process_names=processes,
        thread_names=threads,
        marks=_marks(parts),
    )


@dataclass
class _Joiner:
    parts: Sequence[Part]

    def __call__(self, name: str, dtype: Any = np.int64) -> Any:
        pieces: list[Array] = [part.columns.pop(name) for part in self.parts]
        whole = np.empty(sum(piece.size for piece in pieces), dtype)
        at = 0
        for piece in pieces:
            whole[at : at + piece.size] = piece
            at += piece.size
        return whole


def _recode(columns: dict[str, Array], name: str, codes: list[int]) -> None:
    # The extra last code keeps -1 (none) what it is.
    table = np.array([*codes, -1], np.int32)
    columns[name] = table[columns[name]]


def text_of(value: object) -> str:
    """A name or id as text, whatever its type in the file."""
    if isinstance(value, str):
        return value
    return "" if value is None else str(value)


def _label(pid: object) -> tuple[str, str]:
    """The rank label of a merged file's pid, and the pid without it."""
    text = text_of(pid)
    match = _LABEL.fullmatch(text) if isinstance(pid, str) else None
    return (match[1], match[2]) if match else ("", text)


def _lane(key: tuple[object, object]) -> Lane:
    pid, tid = key
    return Lane(rank=_label(pid)[0], pid=text_of(pid), tid=text_of(tid))


def _device(pid: object, device: object, *, several: bool) -> str:
    label, own = _label(pid)
    text = own if device is None else text_of(device)
    return f"{label} {text}" if several and label else text


def _shape_code(raw: bytes, texts: dict[bytes, int], shapes: _Table) -> int:
    if raw.startswith(b"\0"):  # no dimensions: no shapes were recorded
        return -1
    found = texts.get(raw)
    if found is None:
        shape = _shape(raw)
        found = texts[raw] = shapes.code(repr(shape), shape)
    return found


def _shape(raw: bytes) -> OpShape:
    dims, types, concrete = (_json_list(text) for text in raw.split(b"\0"))
    return OpShape(
        dims=tuple(dims),
        types=tuple(map(text_of, types)),
        concrete=tuple(map(text_of, concrete)),
    )


def _json_list(text: bytes) -> list[Any]:
    try:
        value = json.loads(text.decode("utf-8", "replace"), strict=False) if text else []
    except (ValueError, RecursionError):
        return []
    return value if isinstance(value, list) else []


def _sum(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for count in counts:
        for key, number in count.items():
            total[key] = total.get(key, 0) + number
    return total


def _tallies(parts: Sequence[Part]) -> dict[str, Tally]:
    total: dict[str, Tally] = {}
    for part in parts:
        for name, tally in part.tallies.items():
            total.setdefault(name, Tally()).add(tally.count, tally.offset, tally.within)
    return total


def _names(parts: Sequence[Part]) -> tuple[dict[str, str], dict[tuple[str, str], str]]:
    processes: dict[str, str] = {}
    threads: dict[tuple[str, str], str] = {}
    for part in parts:
        for kind, pid, tid, args in part.metadata_events:
            name = args.get("name") if isinstance(args, dict) else None
            if not isinstance(name, str):
                continue
            if kind == "process_name":
                processes[text_of(pid)] = name
            elif kind == "thread_name":
                threads[text_of(pid), text_of(tid)] = name
    return processes, threads


def _marks(parts: Sequence[Part]) -> npt.NDArray[np.int64]:
    """First row, offset and length of each piece of text that rows came from."""
    marks = np.array([mark for part in parts for mark in part.marks], np.int64).reshape(-1, 3)
    rows = marks[:, 0].copy()
    marks[:, 0] = np.cumsum(rows) - rows
    return marks
