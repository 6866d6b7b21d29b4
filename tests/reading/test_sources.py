"""Where a trace can come from, and what can be asked of it afterwards."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gaptrace.errors import GaptraceError
from gaptrace.reading.loading import load
from gaptrace.trace import Cat, Lane
from tests.reading.tables import STRESS, document, load_with, same
from tests.reading.test_layouts import PLAIN, kineto

if TYPE_CHECKING:
    from gaptrace.trace import Trace

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "sample_traces" / "small_decoder_eager.json.gz"
TEXT = kineto({"schemaVersion": 1}, PLAIN, {"traceName": "x"}).encode()


def test_a_path_bytes_and_open_files_give_the_same(tmp_path: Path) -> None:
    path = tmp_path / "no-known-suffix"
    path.write_bytes(TEXT)
    one = load(path)
    assert one.source.path == str(path)
    assert (one.source.container, one.source.compressed) == ("object", False)
    assert one.source.bytes == len(TEXT)
    assert one.source.ignored == {"f": 120}
    for source in (str(path), TEXT, io.BytesIO(TEXT), gzip.compress(TEXT)):
        same(one, load(source))
    with path.open("rb") as file:
        other = load(file)
    same(one, other)
    assert other.source.path == str(path)
    assert other.event(3) == one.event(3)
    with path.open() as file:
        same(one, load(file))  # type: ignore[arg-type]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (TEXT, gzip.compress(TEXT)):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        trace = load("-")
        assert trace.source.path == "-"
        assert trace.source.compressed == (data != TEXT)
        assert len(trace) == 120
        assert trace.event(119)["args"]["correlation"] == 119


@pytest.mark.skipif(sys.platform == "win32", reason="no named pipes")
def test_a_named_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    code = f"import sys; open({str(pipe)!r}, 'wb').write(sys.stdin.buffer.read())"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as writer:
        assert writer.stdin is not None
        writer.stdin.write(TEXT)
        writer.stdin.close()
        assert len(load(pipe)) == 120


def test_every_event_can_be_read_again_in_full(tmp_path: Path) -> None:
    text = gzip.decompress(SAMPLE.read_bytes())
    plain = tmp_path / "plain.json"
    plain.write_bytes(text)
    events = [item for item in json.loads(text)["traceEvents"] if item["ph"] == "X"]
    rows = [0, 1, 2, len(events) // 2, len(events) - 2, len(events) - 1]
    for source in (plain, SAMPLE, text):
        for trace in (load(source), load_with(source), load_with(source, processes=2)):
            assert [trace.event(row) for row in rows] == [events[row] for row in rows]
    trace = load_with(text)
    assert [trace.event(row) for row in range(len(trace))] == events
    assert trace.event(-1) == events[-1]
    with pytest.raises(IndexError):
        trace.event(len(events))


def test_a_file_that_changed_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(TEXT)
    trace = load(path)
    path.write_bytes(TEXT + b"\n")
    with pytest.raises(GaptraceError, match="has changed since"):
        trace.event(0)
    path.unlink()
    with pytest.raises(GaptraceError, match="cannot read"):
        trace.event(0)


def test_a_trace_can_be_pickled() -> None:
    trace = load(TEXT)
    other: Trace = pickle.loads(pickle.dumps(trace))
    same(trace, other)
    assert other.event(5) == trace.event(5)


def loaded(*events: dict[str, Any], **top: Any) -> Trace:
    """A trace of these events."""
    return load(json.dumps({**top, "traceEvents": list(events)}).encode())


def complete(cat: str, **changes: Any) -> dict[str, Any]:
    """A complete event of a category."""
    return {"ph": "X", "cat": cat, "name": "n", "pid": 1, "tid": 2, "ts": 1, "dur": 1, **changes}


@pytest.mark.parametrize(
    ("text", "cat"),
    [
        ("Kernel", Cat.KERNEL), ("Memcpy", Cat.MEMCPY), ("Memset", Cat.MEMSET),
        ("Runtime", Cat.RUNTIME), ("Operator", Cat.CPU_OP), ("hip_runtime", Cat.RUNTIME),
        ("xpu_runtime", Cat.RUNTIME), ("mtia_runtime", Cat.RUNTIME), ("cuda_driver", Cat.RUNTIME),
        ("Python function", Cat.PYTHON), ("a new one", Cat.OTHER), (None, Cat.OTHER),
        (3, Cat.OTHER),
    ],
)  # fmt: skip
def test_categories_of_all_years_and_vendors(text: Any, cat: Cat) -> None:
    assert loaded(complete(text)).cat.tolist() == [cat]


def test_old_schema() -> None:
    """2020: upper-case categories, string tids, `external id`, `Input dims`, epoch times."""
    trace = loaded(
        complete("Operator", tid="4093687616", ts=1606910596297023, dur=13,
                 args={"Input dims": [[1], []], "Input type": ["float"], "External id": 2}),
        complete("Runtime", ts=1606910596297030, args={"correlation": 9, "external id": 2}),
        complete("Kernel", ts=1606910596297040,
                 args={"correlation": 9, "external id": 2, "device": 0, "stream": 7}),
    )  # fmt: skip
    assert trace.origin_ns == 1606910596297023000
    assert trace.ext.tolist() == [2, 2, 2]
    assert trace.lanes[trace.lane[0]] == Lane("", "1", "4093687616")
    shape = trace.shapes[trace.op.shape[0]]
    assert (shape.dims, shape.types, shape.concrete) == (([1], []), ("float",), ())


def test_roots_of_python_frames_have_no_parent() -> None:
    trace = loaded(
        complete("python_function", args={"Python id": 1, "Python parent id": None}),
        complete("python_function", args={"Python id": 2, "Python parent id": 1}),
    )
    assert (trace.py.id.tolist(), trace.py.parent.tolist()) == ([1, 2], [0, 1])


def test_strings_where_integers_are_expected() -> None:
    """AMD and MTIA write them so."""
    trace = loaded(
        complete("kernel", args={"device": "3", "stream": "2", "correlation": "77"}),
        complete(
            "gpu_memcpy", args={"device": "3", "stream": 2, "correlation": 78, "bytes": "512"}
        ),
        complete("cpu_op", args={"External id": "5", "Record function id": "6"}),
    )
    assert trace.corr.tolist() == [77, 78, 0]
    assert trace.ext.tolist() == [0, 0, 5]
    assert trace.gpu.stream.tolist() == [2, 2]
    assert trace.gpu.bytes.tolist() == [0, 512]
    assert trace.op.record_function_id.tolist() == [6]
    assert trace.devices == ("3",)
    assert trace.problems == ()


def test_device_is_the_arg_or_else_the_pid() -> None:
    trace = loaded(
        complete("kernel", pid=4, args={"device": 1}), complete("kernel", pid=4), complete("cpu_op")
    )
    assert [trace.devices[code] for code in trace.gpu.device] == ["1", "4"]


def test_merged_ranks_keep_their_devices_apart() -> None:
    """SGLang's merged files: the same correlations and devices in every rank."""
    both = loaded(
        complete("kernel", pid="[TP00] 0", args={"device": 0, "correlation": 5}),
        complete("kernel", pid="[TP01] 0", args={"device": 0, "correlation": 5}),
        complete("kernel", pid="[TP01] 3", args={"correlation": 6}),
        complete("cuda_runtime", pid="[TP00] 123", args={"correlation": 5}),
    )
    assert both.devices == ("[TP00] 0", "[TP01] 0", "[TP01] 3")
    assert both.gpu.device.tolist() == [0, 1, 2]
    assert both.lanes[both.lane[3]] == Lane("[TP00]", "[TP00] 123", "2")
    one = loaded(complete("kernel", pid="[TP00] 0"), complete("kernel", pid="[TP00] 0"))
    assert one.devices == ("0",)
    assert one.lanes == (Lane("[TP00]", "[TP00] 0", "2"),)


def test_graph_ids_and_copies() -> None:
    trace = loaded(
        complete("kernel", args={"graph id": 2, "graph node id": 2 << 32 | 7, "bytes": 9}),
        complete("gpu_memcpy", args={"bytes": 1 << 40}),
        complete("gpu_memset"),
    )
    assert trace.gpu.graph_id.tolist() == [2, 0, 0]
    assert trace.gpu.graph_node.tolist() == [8589934599, 0, 0]
    assert trace.gpu.bytes.tolist() == [0, 1 << 40, 0]
    assert trace.gpu.stream.tolist() == [-1, -1, -1]


def test_shapes_are_shared_and_told_apart() -> None:
    def op(*shape: Any) -> dict[str, Any]:
        keys = ("Input Dims", "Input type", "Concrete Inputs")
        return complete("cpu_op", args=dict(zip(keys, shape, strict=False)))

    trace = loaded(
        op([[2, 3], [[1], [2]]], ["float", "TensorList"], ["", "4"]),
        op([[2, 3], [[1], [2]]], ["float", "TensorList"], ["", "5"]),
        complete("cpu_op"),
        op([[2, 3], [[1], [2]]], ["float", "TensorList"], ["", "4"]),
        op([], [], []),
    )
    assert trace.op.shape.tolist() == [0, 1, -1, 0, 2]
    assert trace.shapes[0].dims == ([2, 3], [[1], [2]])
    assert trace.shapes[0].concrete == ("", "4")
    assert trace.shapes[2].dims == ()


def test_names_of_processes_and_threads() -> None:
    def named(kind: str, pid: Any, tid: Any, name: Any) -> dict[str, Any]:
        return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "ts": 0, "args": {"name": name}}

    trace = loaded(
        complete("cpu_op"),
        named("process_name", 7, 0, "python"),
        named("process_name", "[TP00] 7", 0, "worker"),
        named("thread_name", 7, -3, "thread -3 (python)"),
        named("process_labels", 7, 0, "CPU"),
        named("thread_name", 7, 4, None),
        {"ph": "M"},
    )
    assert trace.process_names == {"7": "python", "[TP00] 7": "worker"}
    assert trace.thread_names == {("7", "-3"): "thread -3 (python)"}
    assert trace.source.ignored == {"M": 6}


def test_columns_are_read_only_and_of_the_promised_types() -> None:
    trace = load_with(SAMPLE, settings=STRESS)
    for name, kind in {"start": "int64", "dur": "int64", "name": "int32", "cat": "int8"}.items():
        array = getattr(trace, name)
        assert array.dtype == kind
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    assert {trace.gpu.stream.dtype, trace.gpu.bytes.dtype, trace.py.id.dtype} == {trace.corr.dtype}
    assert (
        trace.metadata["schemaVersion"]
        == document(gzip.decompress(SAMPLE.read_bytes()))["schemaVersion"]
    )


def test_a_worker_needs_neither_pandas_nor_the_rest_of_the_package() -> None:
    code = (
        "import sys, gaptrace.reading.worker\n"
        "heavy = {'pandas', 'click', 'multiprocessing', 'gaptrace.measure', 'torch'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert result.stdout.strip() == "[]"


def test_load_stays_a_function_whatever_is_imported() -> None:
    """Importing the package that holds `load` does not change what `gaptrace.load` is."""
    code = (
        "import gaptrace\n"
        f"first = gaptrace.load({str(SAMPLE)!r})\n"
        "import gaptrace.reading.cache\n"
        f"print(len(first) == len(gaptrace.load({str(SAMPLE)!r}, processes=1)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert result.stdout.strip() == "True"
