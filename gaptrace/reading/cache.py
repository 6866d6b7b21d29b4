"""A second load in milliseconds: the columns of a file as .npy files that are mapped, not read.

An entry is a folder named by what identifies the file and this format. It is written beside and
renamed, so that a half-written entry is never seen, and whatever is wrong with one only means that
the trace is read again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gaptrace.errors import GaptraceError
from gaptrace.reading.reread import EventReader
from gaptrace.trace import (
    GpuColumns,
    Lane,
    OpColumns,
    OpShape,
    Problem,
    PyColumns,
    Source,
    Trace,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gaptrace.reading.inputs import FileInput
    from gaptrace.reading.settings import Settings

FORMAT = 2
_SAMPLE = 1 << 16
_GROUPS = {"gpu": GpuColumns, "py": PyColumns, "op": OpColumns}
_EVENT = ("start", "dur", "name", "cat", "lane", "corr", "ext")
_WRONG = (OSError, ValueError, KeyError, TypeError, EOFError, GaptraceError)


def entry_of(folder: Path, source: FileInput) -> Path:
    """The folder that holds, or would hold, the columns of this very file."""
    ends = source.read(0, _SAMPLE) + source.read(max(0, source.size - _SAMPLE), _SAMPLE)
    identity = (FORMAT, source.size, source.mtime_ns, source.inode)
    key = hashlib.sha256(repr(identity).encode() + ends).hexdigest()[:32]
    return Path(folder) / f"trace-{key}"


def store(folder: Path, source: FileInput, trace: Trace) -> None:
    """Keep a trace's columns. Where that fails nothing is kept, and nothing is lost."""
    entry = entry_of(folder, source)
    temporary: str | None = None
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        temporary = tempfile.mkdtemp(prefix=".trace-", dir=folder)
        arrays = _arrays(trace)
        for name, array in arrays.items():
            np.save(Path(temporary) / f"{name}.npy", array, allow_pickle=False)
        with open(Path(temporary) / "tables.json", "w", encoding="ascii") as file:
            json.dump(_tables(trace, arrays), file)
        os.rename(temporary, entry)
        temporary = None
    except (OSError, ValueError, TypeError, RecursionError):
        # A full or read-only disk, or an entry that another process wrote meanwhile.
        pass
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def load_cached(folder: Path, source: FileInput, settings: Settings) -> Trace | None:
    """The trace as it was stored, or None; an entry that does not hold together is removed."""
    entry = entry_of(folder, source)
    if not entry.is_dir():
        return None
    try:
        return _restored(entry, source, settings)
    except _WRONG:
        with contextlib.suppress(OSError):
            shutil.rmtree(entry)
        return None


def _arrays(trace: Trace) -> dict[str, np.ndarray[Any, Any]]:
    arrays = {name: getattr(trace, name) for name in _EVENT}
    for group in _GROUPS:
        part = getattr(trace, group)
        for item in dataclasses.fields(part):
            arrays[f"{group}.{item.name}"] = getattr(part, item.name)
    assert isinstance(trace.read_event, EventReader)
    arrays["marks"] = trace.read_event.marks
    return arrays


def _tables(trace: Trace, arrays: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "arrays": {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()},
        "names": trace.names,
        "lanes": [[lane.rank, lane.pid, lane.tid] for lane in trace.lanes],
        "devices": trace.devices,
        "shapes": [[shape.dims, shape.types, shape.concrete] for shape in trace.shapes],
        "source": {**dataclasses.asdict(trace.source), "path": ""},
        "origin_ns": trace.origin_ns,
        "metadata": trace.metadata,
        "process_names": trace.process_names,
        "thread_names": [[*key, name] for key, name in trace.thread_names.items()],
        "problems": [[problem.id, problem.text, problem.count] for problem in trace.problems],
    }


def _restored(entry: Path, source: FileInput, settings: Settings) -> Trace:
    with open(entry / "tables.json", encoding="ascii") as file:
        tables = json.load(file)
    if tables["format"] != FORMAT:
        raise ValueError("another format")
    arrays: dict[str, Any] = {}
    for name, (dtype, shape) in tables["arrays"].items():
        # An empty file cannot be mapped.
        path = entry / f"{name}.npy"
        array = np.load(path, mmap_mode=None if 0 in shape else "r", allow_pickle=False)
        if array.dtype.str != dtype or list(array.shape) != shape:
            raise ValueError(f"{name} is not what was stored")
        arrays[name] = array.view(np.ndarray)
    groups = {
        name: kind(
            **{item.name: arrays[f"{name}.{item.name}"] for item in dataclasses.fields(kind)}
        )
        for name, kind in _GROUPS.items()
    }
    rows = int(arrays["start"].size)
    trace = Trace(
        **{name: arrays[name] for name in _EVENT},
        **groups,
        names=tuple(tables["names"]),
        lanes=tuple(Lane(*lane) for lane in tables["lanes"]),
        devices=tuple(tables["devices"]),
        shapes=tuple(
            OpShape(tuple(dims), tuple(types), tuple(concrete))
            for dims, types, concrete in tables["shapes"]
        ),
        source=dataclasses.replace(Source(**tables["source"]), path=source.name),
        origin_ns=int(tables["origin_ns"]),
        metadata=tables["metadata"],
        process_names=tables["process_names"],
        thread_names={(pid, tid): name for pid, tid, name in tables["thread_names"]},
        problems=tuple(Problem(*problem) for problem in tables["problems"]),
        read_event=EventReader(source, arrays["marks"], rows, settings),
    )
    _check(trace)
    return trace


def _check(trace: Trace) -> None:
    """Codes and rows must point into the tables, or an analysis would fail far from here.

    Raises:
        ValueError: they do not.
    """
    rows = len(trace)
    bounds = (
        (trace.name, len(trace.names), rows, 0),
        (trace.cat, 127, rows, 0),
        (trace.lane, len(trace.lanes), rows, 0),
        (trace.gpu.device, len(trace.devices), trace.gpu.rows.size, 0),
        (trace.gpu.rows, rows, trace.gpu.rows.size, 0),
        (trace.py.rows, rows, trace.py.rows.size, 0),
        (trace.op.rows, rows, trace.op.rows.size, 0),
        (trace.op.shape, len(trace.shapes), trace.op.rows.size, -1),
    )
    for values, limit, size, least in bounds:
        if values.size != size:
            raise ValueError("columns differ in length")
        if size and not (least <= int(values.min()) and int(values.max()) < limit):
            raise ValueError("a code is out of range")
    per_event = {values.size for values in (trace.start, trace.dur, trace.corr, trace.ext)}
    if per_event != {rows}:
        raise ValueError("columns differ in length")
