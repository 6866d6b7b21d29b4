"""Estimates from shapes: the arithmetic of the definitions, and how far off recorded models are."""

from __future__ import annotations

import pytest

from gaptrace.predict import PredictOptions, predict
from gaptrace.predict.nodes import step_nodes
from gaptrace.predict.shapes import fused_groups
from tests.builders import Event
from tests.measure.loops import ADD, GEMM, MUL, eager, loop
from tests.predict import recorded
from tests.predict.recorded import MODELS, TRUE

H200 = {"device": {"name": "NVIDIA H200"}, "step": {"tokens": 1, "batch": 1}}
LAYERS, HIDDEN, INNER = 32, 4096, 14336
SILU = "void at::native::vectorized_elementwise_kernel<4, at::native::silu_kernel>"
BF16 = "c10::BFloat16"


def linear(at: int, corr: int, n_in: int, n_out: int) -> list[Event]:
    return eager(at, corr, GEMM, dims=[[1, n_in], [n_in, n_out]], types=[BF16, BF16])


def pointwise(at: int, corr: int, name: str, kernel: str, width: int, operands: int) -> list[Event]:
    dims, types = [[1, 1, width]] * operands, [BF16] * operands
    return eager(at, corr, kernel, inside=name, dims=dims, types=types)


def llama_mlp(at: int, corr: int, step: int) -> list[Event]:
    """32 layers of gate, SiLU, up, multiply, down, in bf16 at batch 1."""
    events: list[Event] = []
    for layer in range(LAYERS):
        begin, first = at + 25_000 * layer, corr + 5 * layer
        events += [
            *linear(begin, first, HIDDEN, INNER),
            *pointwise(begin + 5_000, first + 1, "aten::silu", SILU, INNER, 1),
            *linear(begin + 10_000, first + 2, HIDDEN, INNER),
            *pointwise(begin + 15_000, first + 3, "aten::mul", MUL, INNER, 2),
            *linear(begin + 20_000, first + 4, INNER, HIDDEN),
        ]
    return events


def test_the_arithmetic_of_llama_3_8b() -> None:
    """28 KB of SiLU output a layer, 56 KB with its read, 1.8 MB a token, 470 MB at batch 256."""
    found = predict(loop(llama_mlp, period=1_000_000, manifest=H200)).savings
    assert found is not None
    written, read = (
        found.values["aten::silu"].bytes_written,
        found.values["aten::silu"].bytes_read,
    )
    assert written / LAYERS == 28_672
    assert (written + read) / LAYERS == 57_344
    assert found.bytes == written + read == 1_835_008
    assert found.at_batch["256"].bytes == 469_762_048
    assert found.at_batch["256"].bytes / 16e9 == pytest.approx(0.03, abs=0.001)
    (group,) = found.groups
    assert (group.chain, group.places, group.launches) == (("silu", "mul"), LAYERS, LAYERS)
    assert group.time_ns == round(1_835_008 / 4.8e12 * 1e9 + LAYERS * 850)
    assert found.source == "estimated from shapes"


def test_other_batches_may_be_asked_for() -> None:
    analysis = loop(llama_mlp, period=1_000_000, manifest={**H200, "step": {"batch": 4}})
    found = predict(analysis, PredictOptions((4, 8))).savings
    assert found is not None
    assert found.recorded_batch == 4
    assert found.at_batch["4"].bytes == found.bytes
    assert found.at_batch["8"].bytes == 2 * found.bytes


def test_one_kernel_a_layer_is_estimated() -> None:
    found = predict(loop(llama_mlp, period=1_000_000, manifest=H200)).compile
    step = found.predicted
    assert step is not None
    assert not found.exact
    assert (step.kernels, step.generated, step.extern) == (4 * LAYERS, LAYERS, 3 * LAYERS)
    assert found.eager_kernels == 5 * LAYERS
    assert found.source == "estimated from shapes"
    assert "Inductor" in str(found.note)


def quantized(at: int, corr: int, step: int) -> list[Event]:
    return [
        *linear(at, corr, HIDDEN, INNER),
        *pointwise(at + 5_000, corr + 1, "aten::gelu", SILU, INNER, 1),
        *pointwise(at + 10_000, corr + 2, "mylib::static_scaled_fp8_quant", ADD, INNER, 1),
        *linear(at + 15_000, corr + 3, INNER, HIDDEN),
    ]


def test_an_activation_and_its_quantization_are_one_chain() -> None:
    found = predict(loop(quantized, period=60_000, manifest=H200)).savings
    assert found is not None
    (chain,) = found.quantize_chains
    assert chain.chain == ("gelu", "static_scaled_fp8_quant")
    assert (chain.launches, chain.bytes) == (1, 2 * 28_672)


def test_a_result_that_the_next_product_reads_ends_its_group() -> None:
    """The norm before a projection is read by it, so it does not wait for the next norm."""

    def draw(at: int, corr: int, step: int) -> list[Event]:
        return [
            *linear(at, corr, INNER, HIDDEN),
            *pointwise(at + 5_000, corr + 1, "aten::add", ADD, HIDDEN, 2),
            *linear(at + 10_000, corr + 2, HIDDEN, HIDDEN),
            *pointwise(at + 15_000, corr + 3, "aten::add", ADD, HIDDEN, 2),
            *linear(at + 20_000, corr + 4, HIDDEN, HIDDEN),
        ]

    found = predict(loop(draw, period=60_000, manifest=H200)).compile.predicted
    assert found is not None
    assert found.generated == 2


def test_names_alone_widen_the_range() -> None:
    def bare(at: int, corr: int, step: int) -> list[Event]:
        return [
            *eager(at, corr),
            *eager(at + 5_000, corr + 1, ADD, inside="aten::add"),
            *eager(at + 10_000, corr + 2, MUL, inside="aten::mul"),
            *eager(at + 15_000, corr + 3),
        ]

    found = predict(loop(bare, period=60_000, manifest=H200))
    assert found.compile.predicted is not None
    assert "kernel names alone" in str(found.compile.note)
    assert found.compile.predicted.generated == 1
    assert found.savings is None


@pytest.mark.parametrize("model", MODELS)
def test_recorded_models_lie_in_the_printed_range(model: str) -> None:
    found, true = predict(recorded.eager(model)).compile.predicted, TRUE[model]
    assert found is not None
    assert abs(found.kernels / true["kernels"] - 1) < 0.10
    assert found.range.kernels is not None
    assert found.range.kernels[0] <= true["kernels"] <= found.range.kernels[1]
    for value, ends, key in (
        (found.busy_ns, found.range.busy_ns, "busy"),
        (found.captured_step_ns, found.range.captured_step_ns, "compiled-graph"),
    ):
        assert value is not None
        assert ends is not None
        assert ends[0] < true[key] < ends[1]
        assert abs(value / true[key] - 1) < 0.08


def test_every_fusible_kernel_is_in_one_group_at_most() -> None:
    analysis = recorded.eager("llama4")
    nodes = step_nodes(analysis)
    assert nodes is not None
    fusion = fused_groups(analysis, nodes)
    places = [piece.at for group in fusion.groups for piece in group.pieces]
    assert fusion.shaped
    assert len(places) == len(set(places))
    assert fusion.folded.isdisjoint(places)
    assert fusion.inside == fusion.folded | set(places)
