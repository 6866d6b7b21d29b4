"""Hand-made traces say what was drawn: as JSON, and as the Trace that is loaded from it."""

from __future__ import annotations

import json
import re
from decimal import Decimal

import pytest

from gaptrace.trace import Cat
from tests.builders import (
    anchor,
    decode_events,
    events_json,
    frame,
    kernel,
    launch,
    memcpy,
    micros,
    op,
    runtime,
    trace_of,
)


@pytest.mark.parametrize(
    ("ns", "text"), [(0, "0.000"), (1, "0.001"), (1_234_567, "1234.567"), (-1_500, "-1.500")]
)
def test_micros_keep_every_nanosecond(ns: int, text: str) -> None:
    assert micros(ns) == text


def test_events_are_written_as_kineto_writes_them() -> None:
    data = events_json(
        kernel("k", at=1_001, dur=2_002, corr=7, device=1, graph_id=3, node=4, rank="TP01"),
        launch("cuLaunchKernel", at=5, dur=1, corr=7, tid="main"),
        traceName="drawn",
    ).decode()
    assert re.search(r'\n  \{\n    "ph": "X", .*"ts": 1\.001, "dur": 2\.002', data)
    document = json.loads(data, parse_float=Decimal)
    assert (document["schemaVersion"], document["traceName"]) == (1, "drawn")
    drawn, call = document["traceEvents"]
    assert (drawn["pid"], drawn["tid"], drawn["cat"]) == ("[TP01] 1", 7, "kernel")
    assert drawn["args"]["graph id"] == 3
    assert drawn["args"]["graph node id"] == 4
    assert (call["cat"], call["tid"], call["args"]["correlation"]) == ("cuda_driver", "main", 7)


def test_a_loaded_drawing_has_the_times_drawn() -> None:
    trace = trace_of(
        op("aten::mm", at=100, dur=50, dims=[[2, 3], [3, 4]], types=["float", "float"]),
        launch(at=110, dur=20, corr=1),
        kernel("gemm", at=150, dur=1_000, corr=1, stream=9),
        memcpy(at=1_200, dur=5, corr=2, device=1, nbytes=64),
        frame("f.py(1): g", at=90, dur=3, id=4, parent=2),
        runtime("cudaMalloc", at=95, dur=1),
    )
    assert trace.start.tolist() == [0, 100, 110, 150, 1_200, 90, 95]
    assert trace.dur.tolist() == [0, 50, 20, 1_000, 5, 3, 1]
    assert [Cat(int(code)) for code in trace.cat[1:]] == [
        Cat.CPU_OP,
        Cat.RUNTIME,
        Cat.KERNEL,
        Cat.MEMCPY,
        Cat.PYTHON,
        Cat.RUNTIME,
    ]
    assert [trace.devices[code] for code in trace.gpu.device.tolist()] == ["0", "1"]
    assert trace.gpu.stream.tolist() == [9, 7]
    assert trace.gpu.bytes.tolist() == [0, 64]
    assert (trace.py.id.tolist(), trace.py.parent.tolist()) == ([4], [2])
    assert trace.shapes[int(trace.op.shape[0])].dims == ([2, 3], [3, 4])


def test_decode_refuses_what_it_cannot_draw() -> None:
    with pytest.raises(ValueError, match="eager gap"):
        decode_events(gap_ns=10, launch_ns=8, op_ns=8)
    with pytest.raises(ValueError, match="synchronization"):
        decode_events(between_ns=10, sync_ns=11)


def test_the_anchor_is_row_zero_at_time_zero() -> None:
    trace = trace_of(kernel("k", at=40, dur=1))
    assert (int(trace.start[0]), trace.name_of(0)) == (0, anchor()["name"])
