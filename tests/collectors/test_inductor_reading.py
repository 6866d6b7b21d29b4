"""The execution trace and the Kineto trace beside it, read without torch."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gaptrace_inductor import eager, execution_trace

from .et_builder import Recording
from .inductor_runs import eager_of

DATA = Path(__file__).parents[1] / "data"
SILU = "aten::silu(Tensor self) -> Tensor"
MM = "aten::mm(Tensor self, Tensor mat2) -> Tensor"
VIEW = "aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)"


def two_steps() -> Recording:
    recording = Recording()
    for n in range(2):
        span = recording.span(f"decode_step#{n}")
        x = span.tensor(4, 8)
        outer = span.inside("aten::linear(Tensor a, Tensor b) -> Tensor", [x, x], span.tensor(4, 4))
        outer.op(MM, [x, x], outer.tensor(4, 4))
        span.op(SILU, [x], span.tensor(4, 8))
    return recording


def test_ops_nest_and_the_step_with_a_successor_is_taken(tmp_path: Path) -> None:
    path = two_steps().write(tmp_path / "a.json.gz")
    step = execution_trace.pick_step(execution_trace.read(path))
    assert (step.name, step.index, step.count) == ("decode_step#0", 0, 2)
    assert [op.name for op in step.ops] == ["aten::linear", "aten::silu"]
    assert [op.name for op in step.ops[0].walk()] == ["aten::linear", "aten::mm"]
    assert [op.name for op in step.following] == ["aten::linear", "aten::silu"]
    assert step.ops[1].inputs[0].shape == (4, 8)
    assert step.ops[1].inputs[0].strides == (8, 1)


def test_a_pattern_chooses_the_span(tmp_path: Path) -> None:
    trace = execution_trace.read(two_steps().write(tmp_path / "a.json"))
    assert execution_trace.pick_step(trace, r"step#1$").name == "decode_step#1"
    with pytest.raises(execution_trace.TraceError, match="no span matches"):
        execution_trace.pick_step(trace, "prefill")


def test_without_spans_the_thread_is_the_step(tmp_path: Path) -> None:
    recording = Recording()
    recording.op(SILU, [recording.tensor(2)], recording.tensor(2))
    step = execution_trace.pick_step(execution_trace.read(recording.write(tmp_path / "a.json")))
    assert step.rule == "no spans: the whole thread"
    assert len(step.ops) == 1


def test_spans_inside_the_step_are_its_scope(tmp_path: Path) -> None:
    recording = Recording()
    inner = recording.span("step").span("attention")
    inner.op(SILU, [inner.tensor(2)], inner.tensor(2))
    step = execution_trace.pick_step(execution_trace.read(recording.write(tmp_path / "a.json")))
    assert step.ops[0].scope == ("attention",)


def test_lists_none_and_undefined_tensors(tmp_path: Path) -> None:
    recording = Recording()
    x = recording.tensor(2, 2)
    recording.op("aten::cat(Tensor[] tensors, int dim=0) -> Tensor", [[x, x], 1], x)
    document = recording.document()
    document["nodes"][1]["inputs"]["values"].append([0, 0, 0, 0, 0, ""])
    undefined = "Tensor(nullptr (uninitialized))"
    for name, value in (("types", undefined), ("shapes", []), ("strides", [])):
        document["nodes"][1]["inputs"][name].append(value)
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document))
    op = execution_trace.pick_step(execution_trace.read(path)).ops[0]
    assert [ref.tensor_id for ref in op.inputs[0]] == [x.id, x.id]
    assert op.inputs[1:] == (1, None)


def as_flat(document: dict[str, Any]) -> dict[str, Any]:
    """The layout of torch 2.0: columns and attributes at the top of each node."""
    nodes = []
    for node in document["nodes"]:
        attrs = {a["name"]: a["value"] for a in node["attrs"]}
        nodes.append(
            {
                "id": node["id"],
                "name": node["name"],
                "parent": node["ctrl_deps"],
                "inputs": node["inputs"]["values"],
                "input_shapes": node["inputs"]["shapes"],
                "input_types": node["inputs"]["types"],
                "outputs": node["outputs"]["values"],
                "output_shapes": node["outputs"]["shapes"],
                "output_types": node["outputs"]["types"],
                **attrs,
            }
        )
    return {"schema": "1.0.1", "nodes": nodes}


def without_strides(document: dict[str, Any]) -> dict[str, Any]:
    """The layout of torch 2.3."""
    for node in document["nodes"]:
        del node["inputs"]["strides"], node["outputs"]["strides"]
    return {**document, "schema": "1.0.2-chakra.0.0.4"}


@pytest.mark.parametrize("layout", [as_flat, without_strides])
def test_older_schemas(layout: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(layout(two_steps().document())))
    trace = execution_trace.read(path)
    step = execution_trace.pick_step(trace)
    assert not trace.has_strides
    assert [op.name for op in step.ops] == ["aten::linear", "aten::silu"]
    assert step.ops[1].schema == SILU
    assert step.ops[1].inputs[0].strides is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b'{"traceEvents": []}', "a Kineto trace"),
        (b"[]", "a Kineto trace"),
        (b'{"a": 1}', "no execution trace"),
        (b'{"nodes": [', "not whole JSON"),
        (gzip.compress(b'{"nodes": []}', mtime=0)[:-9], "damaged gzip"),
        (b'{"schema": "1", "nodes": []}', "no operator calls"),
    ],
)
def test_what_is_no_execution_trace_says_what_it_is(text: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(text)
    with pytest.raises(execution_trace.TraceError, match=says):
        execution_trace.read(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(execution_trace.TraceError, match="cannot read"):
        execution_trace.read(tmp_path / "none.json")


def test_compiled_code_in_the_step_is_noticed(tmp_path: Path) -> None:
    recording = Recording()
    step = recording.span("decode_step#0")
    step.op(SILU, [step.tensor(2)], step.tensor(2))
    step.span("## Call CompiledFxGraph abc ##")
    trace = execution_trace.read(recording.write(tmp_path / "a.json"))
    assert execution_trace.pick_step(trace).compiled


def event(cat: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    named = {key.replace("_", " "): value for key, value in args.items()}
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": 1} | {
        "args": named
    }


def kineto_of(rf: dict[str, int]) -> dict[str, Any]:
    """One step of `two_steps`: linear > mm, then silu; one kernel by each, one by nobody."""

    def op(name: str, ts: float, dur: float, ext: int) -> dict[str, Any]:
        return event(
            "cpu_op", f"aten::{name}", ts, dur, External_id=ext, Record_function_id=rf.get(name, 0)
        )

    return {
        "deviceProperties": [{"name": "NVIDIA H200", "numSms": 132}],
        "traceEvents": [
            event("python_function", "nn.Module: MLP_0", 0, 100),
            op("linear", 10, 20, 1),
            op("mm", 15, 10, 2),
            op("silu", 40, 10, 3),
            event("cuda_runtime", "cudaLaunchKernel", 16, 1, correlation=7),
            event("cuda_runtime", "cudaLaunchKernel", 42, 1, correlation=8),
            event("cuda_runtime", "cudaLaunchKernel", 49.5, 1, correlation=9),
            event("kernel", "gemm<f>(int)", 60, 5, External_id=2, correlation=7),
            event("kernel", "silu_kernel", 70, 2.5, correlation=8),
            event("kernel", "mine", 80, 1, correlation=9),
            event("gpu_memset", "Memset", 59, 1, External_id=2),
        ],
    }


@pytest.mark.parametrize(
    ("rf", "how"),
    [
        ({"linear": 2, "mm": 3, "silu": 4}, "Record function id"),
        ({"linear": 70, "mm": 71, "silu": 72}, "order of ops"),
    ],
)
def test_kernels_find_their_ops(rf: dict[str, int], how: str, tmp_path: Path) -> None:
    step = execution_trace.pick_step(execution_trace.read(two_steps().write(tmp_path / "a.json")))
    path = tmp_path / "k.json"
    document = kineto_of(rf)
    document["traceEvents"][6]["ts"] = 51  # after the last op: launched by no op
    path.write_text(json.dumps(document))
    recording = eager_of(path)
    links = eager.link(recording, step)
    assert links.how == how
    taken: set[int] = set()
    linear, silu = step.ops
    assert [k.name for k in links.take(linear, ["aten::mm"], taken)] == ["Memset", "gemm<f>(int)"]
    assert links.take(linear, (), taken) == []
    assert [(k.name, k.dur_ns) for k in links.take(silu, (), taken)] == [("silu_kernel", 2500)]
    assert set(links.modules.values()) == {"MLP_0"}
    assert recording.device == {"name": "NVIDIA H200", "numSms": 132}
    assert [k.name for _, k in recording.others] == ["mine"]


def test_a_kernel_between_the_ops_of_the_step_is_kept_apart(tmp_path: Path) -> None:
    step = execution_trace.pick_step(execution_trace.read(two_steps().write(tmp_path / "a.json")))
    document = kineto_of({"linear": 2, "mm": 3, "silu": 4})
    document["traceEvents"][6]["ts"] = 35
    path = tmp_path / "k.json"
    path.write_text(json.dumps(document))
    assert [k.name for k in eager.link(eager_of(path), step).unlinked] == ["mine"]


def test_a_wrong_external_id_does_not_move_a_kernel(tmp_path: Path) -> None:
    step = execution_trace.pick_step(execution_trace.read(two_steps().write(tmp_path / "a.json")))
    document = kineto_of({"linear": 2, "mm": 3, "silu": 4})
    document["traceEvents"][8]["args"]["External id"] = 2
    path = tmp_path / "k.json"
    path.write_text(json.dumps(document))
    links = eager.link(eager_of(path), step)
    assert [k.name for k in links.take(step.ops[1], (), set())] == ["silu_kernel", "mine"]


def test_another_program_is_not_linked(tmp_path: Path) -> None:
    step = execution_trace.pick_step(execution_trace.read(two_steps().write(tmp_path / "a.json")))
    path = tmp_path / "k.json"
    path.write_text(json.dumps({"traceEvents": [event("cpu_op", "aten::add", 1, 1)]}))
    assert eager.link(eager_of(path), step) is eager.NO_LINKS


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void at::native::reduce_kernel<512, 1, at::R<float>>(at::R<int>)", "reduce_kernel"),
        ("nvjet_sm90_tst_64x8", "nvjet_sm90_tst_64x8"),
        ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD"),
    ],
)
def test_short_kernel_names(name: str, short: str) -> None:
    assert eager.shorten(name) == short


@pytest.mark.parametrize(
    ("model", "kernels", "busy_ns"), [("llama4", 226, 584_505), ("gpt2_4", 120, 336_536)]
)
def test_every_kernel_of_the_recorded_steps_is_mapped(
    model: str, kernels: int, busy_ns: int
) -> None:
    step = execution_trace.pick_step(execution_trace.read(DATA / f"{model}_eager.et.json.gz"))
    links = eager.link(eager_of(DATA / f"{model}_eager.json.gz"), step)
    found = [kernel for group in links.kernels.values() for kernel in group]
    assert (len(found), sum(k.dur_ns for k in found)) == (kernels, busy_ns)
    assert links.unlinked == ()
