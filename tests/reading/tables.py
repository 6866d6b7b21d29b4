"""What a load must give, worked out the plain way: json.loads, Decimal, one event at a time."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gaptrace.reading.loading import Request, read_trace
from gaptrace.reading.settings import Settings
from gaptrace.trace import CATEGORIES, GPU_CATS, Cat, Trace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Slices of 4 KB and blocks of 16 KB put a cut next to nearly everything.
STRESS = Settings(slice=1 << 12, block=1 << 14, parallel_from=0, per_worker=1)
ONE_BYTE = Settings(slice=1, block=1 << 12, parallel_from=0, per_worker=1)


def load_with(
    source: Any, *, settings: Settings = STRESS, processes: int = 1, cache: Path | None = None
) -> Trace:
    """A load with sizes of the test's choice."""
    return read_trace(source, Request(processes=processes, settings=settings, cache=cache))


def ns(value: Any) -> int:
    """Microseconds as decimal text, integer or Decimal, in exact nanoseconds."""
    return round(Decimal(str(value)) * 1000)


def document(text: bytes) -> Any:
    """The JSON with its decimals kept."""
    return json.loads(text, parse_float=Decimal)


def events_of(text: bytes) -> list[dict[str, Any]]:
    """The list of events, wherever it stands."""
    value = document(text)
    events: list[dict[str, Any]] = value if isinstance(value, list) else value["traceEvents"]
    return events


def expected_rows(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every complete event as the facts that the columns hold."""
    return [_row(event) for event in events if event.get("ph") == "X"]


def _row(event: Mapping[str, Any]) -> dict[str, Any]:
    args = event.get("args") or {}
    cat = CATEGORIES.get(str(event.get("cat")).lower(), Cat.OTHER)
    row = {
        "start": ns(event["ts"]),
        "dur": max(ns(event.get("dur", 0)), 0),
        "name": event.get("name", ""),
        "cat": cat,
        "lane": (_text(event.get("pid")), _text(event.get("tid"))),
        "corr": int(args.get("correlation", 0)),
        "ext": int(args.get("External id", 0)) or int(args.get("external id", 0)),
    }
    if cat in GPU_CATS:
        row["device"] = _text(args["device"] if "device" in args else event.get("pid"))
        row["stream"] = int(args.get("stream", -1))
        row["graph"] = (int(args.get("graph id", 0)), int(args.get("graph node id", 0)))
        row["bytes"] = 0 if cat is Cat.KERNEL else int(args.get("bytes", 0))
    if cat is Cat.PYTHON:
        row["python"] = (int(args.get("Python id", 0)), int(args.get("Python parent id") or 0))
    if cat is Cat.CPU_OP:
        row["record"] = int(args.get("Record function id", 0))
        dims = args.get("Input Dims", args.get("Input dims"))
        row["shape"] = None
        if dims is not None:
            row["shape"] = (
                list(dims),
                [_text(one) for one in args.get("Input type", [])],
                [_text(one) for one in args.get("Concrete Inputs", [])],
            )
    return row


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def loaded_rows(trace: Trace) -> list[dict[str, Any]]:
    """The same facts out of a Trace."""
    rows: list[dict[str, Any]] = [
        {
            "start": int(trace.start[row]) + trace.origin_ns,
            "dur": int(trace.dur[row]),
            "name": trace.name_of(row),
            "cat": Cat(int(trace.cat[row])),
            "lane": (trace.lanes[trace.lane[row]].pid, trace.lanes[trace.lane[row]].tid),
            "corr": int(trace.corr[row]),
            "ext": int(trace.ext[row]),
        }
        for row in range(len(trace))
    ]
    gpu = trace.gpu
    for i, row in enumerate(gpu.rows.tolist()):
        rows[row]["device"] = trace.devices[gpu.device[i]]
        rows[row]["stream"] = int(gpu.stream[i])
        rows[row]["graph"] = (int(gpu.graph_id[i]), int(gpu.graph_node[i]))
        rows[row]["bytes"] = int(gpu.bytes[i])
    for i, row in enumerate(trace.py.rows.tolist()):
        rows[row]["python"] = (int(trace.py.id[i]), int(trace.py.parent[i]))
    for i, row in enumerate(trace.op.rows.tolist()):
        rows[row]["record"] = int(trace.op.record_function_id[i])
        code = int(trace.op.shape[i])
        shape = trace.shapes[code] if code >= 0 else None
        rows[row]["shape"] = shape and (list(shape.dims), list(shape.types), list(shape.concrete))
    return rows


def assert_loads(trace: Trace, text: bytes) -> None:
    """The trace holds exactly what the text says, with nothing to complain about."""
    events = events_of(text)
    assert loaded_rows(trace) == expected_rows(events)
    assert trace.source.events == len(events)
    assert len(trace) + sum(trace.source.ignored.values()) == len(events)
    assert trace.problems == ()
    value = document(text)
    if isinstance(value, dict):
        del value["traceEvents"]
        assert trace.metadata == json.loads(json.dumps(value, default=float))


def same(one: Trace, other: Trace) -> None:
    """Two traces are equal in every column, code and table."""
    assert loaded_rows(one) == loaded_rows(other)
    for name in ("names", "lanes", "devices", "shapes", "origin_ns", "metadata", "problems"):
        assert getattr(one, name) == getattr(other, name), name
    for name in ("start", "dur", "name", "cat", "lane", "corr", "ext"):
        assert getattr(one, name).dtype == getattr(other, name).dtype
        assert (getattr(one, name) == getattr(other, name)).all(), name
    assert one.process_names == other.process_names
    assert one.thread_names == other.thread_names
    assert one.source.events == other.source.events
    assert one.source.ignored == other.source.ignored
    assert one.source.bytes == other.source.bytes


def problem_counts(trace: Trace) -> dict[str, int]:
    """Problems by id."""
    return {problem.id: problem.count for problem in trace.problems}
