"""Times predicted from saved `gaptrace.inductor/1` objects, held against what was measured.

The objects in tests/data were written by torch 2.13.0 (CPU) from the eager recordings beside
them. True figures (H200, torch 2.11): busy and captured step of the compiled and the eager step.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gaptrace.measure import fusion_model as fm

DATA = Path(__file__).parents[1] / "data"
TRUE = {
    "llama4": {"compiled": 366_000, "compiled_captured": 404_000, "eager_captured": 667_000},
    "gpt2_4": {"compiled": 224_000, "compiled_captured": 255_000, "eager_captured": 392_000},
}
# Sum of durations and count of device ops (kernels and one copy) of the recorded eager step.
EAGER = {"llama4": (584_505, 226), "gpt2_4": (336_536, 120)}
MODELS = sorted(TRUE)


def prediction(model: str) -> dict[str, Any]:
    return json.loads(gzip.decompress((DATA / f"{model}.inductor.json.gz").read_bytes()))


def kernel(**over: Any) -> dict[str, Any]:
    """A generated kernel of 4 reads and 1000 bytes, changed as told."""
    plain = {
        "name": "triton_poi_fused_mul",
        "kind": "pointwise",
        "ops": [0, 1],
        "op_names": ["aten::silu", "aten::mul"],
        "aten": ["aten::silu", "aten::mul"],
        "modules": ["MLP_0"],
        "reads": [{}] * 4,
        "writes": [{"dtype": "bfloat16"}],
        "bytes": 1_750,
        "reductions": 0,
        "reduced": 1,
        "replaces": {"kernels": 2},
        "saves": {"written": 100, "read": 100, "grows_written": 80, "grows_read": 80, "values": []},
    }
    return plain | over


def extern(op: str, dur_ns: int | None, **over: Any) -> dict[str, Any]:
    counts = {"kernels": 1, "copies": 0, "memsets": 0}
    return {"op": op, "gemm": op == "aten::mm", "dur_ns": dur_ns, **counts} | over


@pytest.mark.parametrize("model", MODELS)
def test_busy_after_compiling_is_within_five_percent(model: str) -> None:
    found = prediction(model)
    busy = fm.compiled_busy(found["kernels"], found["doubts"])
    truth = TRUE[model]["compiled"]
    assert abs(busy.busy.ns / truth - 1) < 0.05
    assert busy.busy.low_ns < truth < busy.busy.high_ns
    assert busy.unmeasured == 0
    assert sum(busy.by_class.values()) == pytest.approx(busy.busy.ns)
    assert set(busy.by_class) == {"gemm", "attention", "pointwise", "copy"}


@pytest.mark.parametrize("model", MODELS)
def test_captured_steps_are_within_five_percent(model: str) -> None:
    found = prediction(model)
    busy = fm.compiled_busy(found["kernels"], found["doubts"])
    compiled = fm.captured_step(busy.busy.ns, busy.nodes)
    assert abs(compiled / TRUE[model]["compiled_captured"] - 1) < 0.05
    eager = fm.captured_step(*EAGER[model])
    assert abs(eager / TRUE[model]["eager_captured"] - 1) < 0.05


@pytest.mark.parametrize(
    ("moved", "ns"),
    [
        (0, 0),
        (1_750, 1),
        (8_000_000, 8_000_000 / 1750),
        (14_000_000, 8_000_000 / 1750),
        (35_000_000, 10_000),
        (300_000_000, 300_000_000 / 3500),
        (327_000_000, 300_000_000 / 3500 + 10_000),
    ],
)
def test_moved_bytes_cost(moved: float, ns: float) -> None:
    assert fm.moved_ns(moved) == pytest.approx(ns)


def test_more_bytes_never_take_less_time() -> None:
    times = [fm.moved_ns(moved) for moved in range(0, 400_000_000, 500_000)]
    assert times == sorted(times)


def test_the_floor_depends_on_the_kind() -> None:
    assert fm.generated_ns(kernel()) == 850 + 4 * 50 + 1
    assert fm.generated_ns(kernel(reductions=1, reduced=4096)) == 1200 + 1000 + 1
    norm = kernel(reductions=2, reduced=4096, op_names=["aten::native_layer_norm"])
    assert fm.generated_ns(norm) == 1200 + 1000 + 500 + 1


def test_a_captured_step_adds_gaps_a_constant_and_memsets() -> None:
    assert fm.captured_step(1_000, 10) == 1_000 + 3_070 + 13_000
    assert fm.captured_step(1_000, 10, replays=3, memsets=2) == 1_000 + 3_070 + 39_000 + 14_000


def test_library_calls_keep_their_durations_and_class() -> None:
    parts = {
        "generated": [kernel(), kernel(aten=["aten::select_scatter"])],
        "extern": [
            extern("aten::mm", 5_000, kernels=2, memsets=1),
            extern("aten::_scaled_dot_product_flash_attention", 7_000),
            extern("aten::all_reduce", 400),
            extern("aten::bmm", None),
        ],
        "eager": [extern("aten::copy_", 900, kernels=0, copies=1), extern("aten::argmax", 600)],
    }
    busy = fm.compiled_busy(parts)
    assert busy.extern_ns == 12_400
    assert busy.left_ns == 1_500
    assert busy.generated_ns == 2 * 1_051
    assert busy.unmeasured == 1
    assert (busy.kernels, busy.nodes, busy.memsets) == (8, 10, 1)
    assert busy.by_class == {
        "pointwise": 1_051 + 600,
        "copy": 1_051 + 900,
        "gemm": 5_000,
        "attention": 7_000,
        "communication": 400,
    }


def test_a_doubt_widens_the_range() -> None:
    parts = {"generated": [kernel()], "extern": [], "eager": []}
    sure = fm.compiled_busy(parts).busy
    unsure = fm.compiled_busy(parts, [{"id": "stacked_cache"}]).busy
    other = fm.compiled_busy(parts, [{"id": "growing_state"}]).busy
    assert unsure.ns == sure.ns
    assert (unsure.low_ns, unsure.high_ns) == (sure.ns / 2, sure.ns * 2)
    assert other == sure


def test_savings_are_launches_bytes_and_time() -> None:
    ops = [{"op": "aten::silu"}, {"op": "aten::mul"}]
    parts = {"generated": [kernel()]}
    (saved,) = fm.savings(parts, ops, bandwidth=1e9)
    assert saved.chain == ("aten::silu", "aten::mul")
    assert (saved.launches, saved.written, saved.read, saved.bytes) == (1, 100, 100, 200)
    assert saved.time_ns == 200 + 850
    assert not saved.quantize
    (grown,) = fm.savings(parts, ops, bandwidth=1e9, scale=256)
    # 20 of the 100 bytes do not follow the batch.
    assert grown.written == 20 + 80 * 256


def test_a_group_that_ends_in_a_narrow_cast_quantizes() -> None:
    parts = {"generated": [kernel(writes=[{"dtype": "float8_e4m3fn"}])]}
    (saved,) = fm.savings(parts, [{"op": "a"}, {"op": "b"}], bandwidth=1e9)
    assert saved.quantize


def test_groups_that_save_nothing_are_left_out() -> None:
    nothing = {"written": 0, "read": 0, "grows_written": 0, "grows_read": 0, "values": []}
    parts = {"generated": [kernel(replaces={"kernels": 1}, saves=nothing)]}
    assert fm.savings(parts, [{"op": "a"}, {"op": "b"}], bandwidth=1e9) == []


def test_the_silu_of_the_recorded_llama_is_saved_in_every_layer() -> None:
    """8192 bf16 values a layer, written once and read once, four layers."""
    found = prediction("llama4")
    saved = fm.value_savings(found["kernels"], found["ops"], "aten::silu")
    assert saved == (4 * 16_384, 4 * 16_384)
    at_256 = fm.value_savings(found["kernels"], found["ops"], "aten::silu", scale=256)
    assert at_256 == (4 * 16_384 * 256, 4 * 16_384 * 256)


@pytest.mark.parametrize("model", MODELS)
def test_savings_of_the_recorded_steps_count_every_replaced_kernel(model: str) -> None:
    found = prediction(model)
    saved = fm.savings(found["kernels"], found["ops"], bandwidth=4.8e12)
    replaced = sum(entry["replaces"]["kernels"] for entry in found["kernels"]["generated"])
    empty = sum(1 for entry in found["kernels"]["generated"] if not entry["replaces"]["kernels"])
    launches = sum(item.launches for item in saved)
    assert launches == replaced - len(found["kernels"]["generated"]) + empty
    assert [item.time_ns for item in saved] == sorted((i.time_ns for i in saved), reverse=True)
