"""The stacked cache, named from the shapes of the eager trace alone."""

from __future__ import annotations

import pytest

from gaptrace.document.build import document
from gaptrace.measure.result import Analysis
from gaptrace.predict import predict
from gaptrace.predict.nodes import step_nodes
from gaptrace.predict.stacked_shapes import StackedWrites, stacked_writes
from gaptrace.render import formats
from gaptrace.render.formats import Style
from tests.builders import Event, op
from tests.measure.loops import ADD, GEMM, eager, loop

BF16 = "c10::BFloat16"
LAYERS, ROWS, WIDTH = 4, 64, 128
H200 = {"device": {"name": "NVIDIA H200"}}


def cache_step(base: list[int], view: list[int], *, layer_of: int | None = None) -> Analysis:
    """Four layers, each a product and a write into `kc[layer]` and `vc[layer]`."""

    def draw(at: int, corr: int, step: int) -> list[Event]:
        events: list[Event] = []
        for layer in range(LAYERS):
            begin, first = at + 15_000 * layer, corr + 3 * layer
            dims, types = [[1, WIDTH], [WIDTH, WIDTH]], [BF16, BF16]
            events += eager(begin, first, GEMM, dims=dims, types=types)
            for place in (1, 2):
                where = begin + 5_000 * place
                chosen = layer if layer_of is None else layer_of
                events += [
                    op(
                        "aten::select", at=where - 500, dur=200, dims=[base, [], []],
                        types=[BF16, "Scalar", "Scalar"], concrete=["", "0", str(chosen)],
                    ),
                    *eager(
                        where, first + place, ADD, inside="aten::index_copy_",
                        dims=[view, [], [1], [1, 1, WIDTH]],
                        types=[BF16, "Scalar", "long int", BF16],
                    ),
                ]  # fmt: skip
        return [
            *events,
            *eager(at + 60_000, corr + 50, GEMM, dims=[[1, 8], [8, 8]], types=[BF16] * 2),
        ]

    return loop(draw, period=100_000, manifest=H200)


def found_in(analysis: Analysis) -> tuple[StackedWrites, ...]:
    nodes = step_nodes(analysis)
    assert nodes is not None
    return stacked_writes(analysis, nodes)


def test_writes_into_layers_of_stacks() -> None:
    analysis = cache_step([LAYERS, 1, ROWS, WIDTH], [1, ROWS, WIDTH])
    (item,) = found_in(analysis)
    assert (item.op, item.writes, item.buffers) == ("aten::index_copy_", 2 * LAYERS, 2)
    assert item.base_bytes == LAYERS * ROWS * WIDTH * 2
    assert item.view_bytes == ROWS * WIDTH * 2
    assert item.copies == 2
    # A copy reads and writes the whole buffer: 131,072 bytes at 1,750 bytes a ns, and the floor.
    assert item.loss.ns == pytest.approx(2 * (850 + 2 * item.base_bytes / 1_750))


def test_it_is_named_with_its_loss_and_gain() -> None:
    prediction = predict(cache_step([LAYERS, 1, ROWS, WIDTH], [1, ROWS, WIDTH]))
    (cache,) = prediction.stacked_caches
    assert cache.gain_ns == cache.loss_ns > 0
    step = prediction.compile.predicted
    assert step is not None
    assert isinstance(prediction.compile.doubts, tuple)
    assert [doubt.id for doubt in prediction.compile.doubts] == ["stacked_cache"]
    plain = predict(cache_step([1, ROWS, WIDTH, 1], [1, ROWS, WIDTH])).compile.predicted
    assert plain is not None
    assert plain.busy_ns is not None
    assert step.busy_ns == pytest.approx(plain.busy_ns + cache.loss_ns, abs=2)
    assert step.kernels == plain.kernels + 2
    text = formats.get("terminal").render(document(prediction), Style())
    assert text.count("Stacked cache:") == 1


@pytest.mark.parametrize(
    ("base", "view", "layer_of"),
    [
        # Not a layer of what was selected; a stack of one; the same layer every time.
        ([LAYERS, 2, ROWS, WIDTH], [1, ROWS, WIDTH], None),
        ([1, 1, ROWS, WIDTH], [1, ROWS, WIDTH], None),
        ([LAYERS, 1, ROWS, WIDTH], [1, ROWS, WIDTH], 0),
    ],
)
def test_what_is_no_stacked_cache(base: list[int], view: list[int], layer_of: int | None) -> None:
    assert found_in(cache_step(base, view, layer_of=layer_of)) == ()
