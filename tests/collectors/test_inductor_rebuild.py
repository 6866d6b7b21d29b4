"""From recorded ops to FX graphs: calls, values, breaks, views of stacked memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

import torch

from gaptrace_inductor import calls, execution_trace, graphs, rebuild

from .et_builder import Recording

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

ADD = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
MUL = "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor"
SILU = "aten::silu(Tensor self) -> Tensor"
MM = "aten::mm(Tensor self, Tensor mat2) -> Tensor"
SELECT = "aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)"
COPY = "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)"
ITEM = "aten::item(Tensor self) -> Scalar"
LOCAL = "aten::_local_scalar_dense(Tensor self) -> Scalar"


def rebuilt(recording: Recording, tmp_path: Path, region: str = "all") -> Any:
    trace = execution_trace.read(recording.write(tmp_path / "a.json"))
    step = execution_trace.pick_step(trace)
    return rebuild.rebuild(step, rebuild.Region(region), graphs.fake_mode())


def targets(segment: Any) -> list[str]:
    return [str(node.target) for node in segment.graph.nodes if node.op == "call_function"]


def test_schema_arguments() -> None:
    text = "ns::f.x(Tensor(a!)[] self, SymInt[2] size=[0, 1], *, ScalarType? dtype=None) -> Tensor"
    found = calls.arguments(text)
    assert [(a.kind, a.name, a.keyword_only, a.written) for a in found] == [
        ("Tensor[]", "self", False, True),
        ("SymInt[2]", "size", False, False),
        ("ScalarType?", "dtype", True, False),
    ]


def test_recorded_numbers_become_what_the_schema_means(tmp_path: Path) -> None:
    recording = Recording()
    schema = (
        "aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, "
        "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"
    )
    out = recording.tensor(2, 3)
    recording.op(schema, [[2, 3], 1, 15, 0, "cuda:0", None], out)
    node = next(n for n in rebuilt(recording, tmp_path).segments[0].graph.nodes)
    assert node.args == ([2, 3], 1)
    assert node.kwargs == {
        "dtype": torch.bfloat16,
        "layout": torch.strided,
        "device": torch.device("cuda:0"),
    }


@pytest.mark.parametrize(("name", "dtype"), list(calls.CPP_DTYPES.items()))
def test_every_listed_dtype_exists_or_says_so(name: str, dtype: str) -> None:
    if hasattr(torch, dtype):
        assert calls.dtype_of(name) is getattr(torch, dtype)
    else:
        with pytest.raises(calls.UnknownOpError):
            calls.dtype_of(name)


def test_values_flow_by_id_and_the_rest_are_inputs(tmp_path: Path) -> None:
    recording = Recording()
    x, w, y = recording.tensor(1, 8), recording.tensor(8, 8), recording.tensor(1, 8)
    z = recording.tensor(1, 8)
    recording.op(MM, [x, w], y)
    recording.op(ADD, [y, recording.number(), 1], z)
    segment = rebuilt(recording, tmp_path).segments[0]
    assert [item.ref.tensor_id for item in segment.inputs] == [x.id, w.id]
    assert [item.role for item in segment.inputs] == ["parameter", "parameter"]
    last = list(segment.graph.nodes)[-1]
    assert last.args[1] == 0.7
    assert segment.outputs == [last]


def test_an_id_that_comes_back_is_the_newest_value(tmp_path: Path) -> None:
    recording = Recording()
    x, y = recording.tensor(4), recording.tensor(4)
    recording.op(SILU, [x], y)
    recording.op(MUL, [x, x], y)  # y died and its address was given out again
    out = recording.op(SILU, [y], recording.tensor(4))
    nodes = list(rebuilt(recording, tmp_path).segments[0].graph.nodes)
    assert nodes[-1].args[0] is nodes[-2]
    assert out.shape == (4,)


def test_the_last_gemm_ends_the_region_and_what_follows_reads_an_output(tmp_path: Path) -> None:
    recording = Recording()
    x, w, y = recording.tensor(1, 8), recording.tensor(8, 8), recording.tensor(1, 8)
    recording.op(MM, [x, w], y)
    recording.op("aten::argmax(Tensor self) -> Tensor", [y], recording.tensor(dtype="long int"))
    found = rebuilt(recording, tmp_path, "last-gemm")
    assert found.segments[0].ops == [0]
    assert found.outside == [1]
    assert targets(found.segments[0]) == ["aten.mm.default"]
    assert len(found.segments[0].outputs) == 1


def test_the_span_of_the_recorder_is_the_region_where_there_is_one(tmp_path: Path) -> None:
    """A soft cap behind the last product is compiled with the model, what picks a token is not."""
    recording = Recording()
    step = recording.span("gaptrace.step#5")
    model = step.span("gaptrace.region")
    y = model.op(MM, [model.tensor(1, 8), model.tensor(8, 8)], model.tensor(1, 8))
    z = model.op(SILU, [y], model.tensor(1, 8))
    step.op("aten::argmax(Tensor self) -> Tensor", [z], step.tensor(dtype="long int"))
    found = rebuilt(recording, tmp_path, "recorded")
    assert found.segments[0].ops == [0, 1]
    assert found.outside == [2]
    assert rebuild.Region().resolved(found.ops).rule == "gaptrace.region"
    assert rebuild.Region().resolved(()).rule == "last-gemm"
    assert rebuild.Region("all").resolved(found.ops).rule == "all"


def test_a_span_can_be_the_region(tmp_path: Path) -> None:
    recording = Recording()
    step = recording.span("step")
    x = step.tensor(4)
    y = step.op(SILU, [x], step.tensor(4))
    z = step.span("model").op(SILU, [y], step.tensor(4))
    step.op(SILU, [z], step.tensor(4))
    found = rebuilt(recording, tmp_path, "^model$")
    assert found.segments[0].ops == [1]
    assert found.outside == [0, 2]
    assert found.segments[0].inputs[0].role == "carried"
    with pytest.raises(rebuild.RebuildError, match="no op lies in a span"):
        rebuilt(recording, tmp_path, "^layers$")


def test_reading_a_value_on_the_host_breaks_the_graph(tmp_path: Path) -> None:
    recording = Recording()
    x, n = recording.tensor(4), recording.tensor(1, dtype="long int")
    y = recording.op(SILU, [x], recording.tensor(4))
    recording.inside(ITEM, [n], 3).op(LOCAL, [n], 3)
    recording.op(SILU, [y], recording.tensor(4))
    found = rebuilt(recording, tmp_path)
    assert [segment.ops for segment in found.segments] == [[0], [2]]
    assert found.breaks == [1]
    assert len(found.segments[0].outputs) == 1
    assert found.segments[1].inputs[0].role == "carried"


def test_what_a_kernel_calls_inside_is_no_break(tmp_path: Path) -> None:
    """A fallback kernel may read on the host; a tracer sees only the op."""
    recording = Recording()
    x, w, y = recording.tensor(1, 8), recording.tensor(8, 8), recording.tensor(1, 8)
    recording.inside(MM, [x, w], y).op(LOCAL, [x], 3)
    found = rebuilt(recording, tmp_path)
    assert found.breaks == []
    assert targets(found.segments[0]) == ["aten.mm.default"]


def test_attention_is_taken_by_its_children(tmp_path: Path) -> None:
    recording = Recording()
    x, y = recording.tensor(1, 2, 1, 8), recording.tensor(1, 2, 1, 8)
    schema = "aten::scaled_dot_product_attention(Tensor q, Tensor k, Tensor v) -> Tensor"
    recording.inside(schema, [x, x, x], y).op(SILU, [x], y)
    found = rebuilt(recording, tmp_path)
    assert targets(found.segments[0]) == ["aten.silu.default"]
    assert found.ops[0].scope == ("aten::scaled_dot_product_attention",)


def test_an_op_that_comes_out_different_is_taken_by_its_children(tmp_path: Path) -> None:
    """Under autocast linear takes float and gives bfloat16; its children show the casts."""
    recording = Recording()
    x, w = recording.tensor(1, 8, dtype="float"), recording.tensor(4, 8)
    low, out = recording.tensor(1, 8), recording.tensor(1, 4)
    schema = "aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"
    inner = recording.inside(schema, [x, w, None], out)
    to = "aten::to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False) -> Tensor(a)"
    inner.op(to, [x, 15, False], low)
    inner.op(schema, [low, w, None], out)
    found = rebuilt(recording, tmp_path)
    assert targets(found.segments[0]) == ["aten.to.dtype", "aten.linear.default"]
    assert found.mismatched == []


def test_an_unknown_operator_is_opaque(tmp_path: Path) -> None:
    recording = Recording()
    x, y = recording.tensor(4, 8), recording.tensor(4, 2)
    recording.op("nobody::fused_thing(Tensor x, int n, *, float eps=1.) -> Tensor", [x, 3, 0.5], y)
    recording.op(SILU, [y], recording.tensor(4, 2))
    found = rebuilt(recording, tmp_path)
    assert found.opaque == [0]
    assert "gaptrace_opaque" in targets(found.segments[0])[0]
    assert targets(found.segments[0])[1] == "aten.silu.default"


def test_an_impossible_op_is_named(tmp_path: Path) -> None:
    recording = Recording()
    recording.op("aten::no_such_op(Tensor x) -> Tensor", [recording.tensor(4)], recording.tensor(4))
    with pytest.raises(rebuild.RebuildError, match="aten::no_such_op"):
        rebuilt(recording, tmp_path)


def stacked(recording: Recording, layers: int) -> Any:
    """One buffer of `layers` rows, each written through its own view."""
    cache, x = recording.tensor(layers, 16), recording.tensor(16)
    for i in range(layers):
        row = recording.view(cache, 16, offset=16 * i)
        recording.op(SELECT, [cache, 0, i], row)
        recording.op(COPY, [row, x, False], row)
    return cache


def test_writes_through_views_of_one_memory_are_kept(tmp_path: Path) -> None:
    recording = Recording()
    cache = stacked(recording, 3)
    found = rebuilt(recording, tmp_path)
    assert [(w.view_elements, w.base_elements) for w in found.writes] == [(16, 48)] * 3
    roles = {i.ref.tensor_id: i.role for i in found.segments[0].inputs}
    assert roles[cache.id] == "mutated"


def test_views_made_before_the_step_share_their_memory(tmp_path: Path) -> None:
    recording = Recording()
    base = recording.tensor(2, 16)
    rows = [recording.view(base, 16, offset=16 * i) for i in range(2)]
    recording.op(COPY, [rows[0], rows[1], False], rows[0])
    found = rebuilt(recording, tmp_path)
    mode = graphs.fake_mode()
    fakes = graphs.make_inputs(found.segments[0], mode)
    assert fakes[0].untyped_storage() is not None
    assert fakes[0]._base is fakes[1]._base
    assert [fake.storage_offset() for fake in fakes] == [0, 16]


def test_a_state_for_the_next_step_is_an_output(tmp_path: Path) -> None:
    recording = Recording()
    state = recording.tensor(16)
    for n in range(2):
        step = recording.span(f"step#{n}")
        state = step.op(SILU, [state], step.tensor(16))
        step.op(SILU, [step.tensor(4)], step.tensor(4))
    segment = rebuilt(recording, tmp_path).segments[0]
    assert [str(node.target) for node in segment.outputs] == ["aten.silu.default"] * 2


def test_an_unused_result_shaped_like_an_input_is_kept(tmp_path: Path) -> None:
    recording = Recording()
    recording.op(SILU, [recording.tensor(128)], recording.tensor(128))
    recording.op(SILU, [recording.tensor(4)], recording.tensor(4))
    assert len(rebuilt(recording, tmp_path).segments[0].outputs) == 2


def test_dataflow_counts_what_eager_writes_and_reads(tmp_path: Path) -> None:
    recording = Recording()
    x, y = recording.tensor(8), recording.tensor(8)
    recording.op(SILU, [x], y)
    flat = recording.view(y, 2, 4)
    recording.op("aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)", [y, [2, 4]], flat)
    recording.op(MUL, [flat, flat], recording.tensor(2, 4))
    found = rebuilt(recording, tmp_path)
    assert [(made.op, made.bytes) for made in found.made] == [(0, 16)]
    assert [(read.op, read.made, read.bytes) for read in found.reads] == [(2, 0, 16)]
