"""What stands in the way of capture, drawn: each blocker with its place and what to change."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from gaptrace.analysis import analyze
from gaptrace.predict import predict
from gaptrace.results.prediction import AFTER_CHANGES, AS_IT_IS, IN_PIECES, Blocker, Capture
from gaptrace.trace import RunInfo
from tests.builders import (
    Event,
    frame,
    kernel,
    launch,
    mark,
    memcpy,
    memset,
    op,
    runtime,
    trace_of,
)
from tests.measure.loops import ADD, GEMM, eager, eagers, loop
from tests.predict import recorded

H200 = {"device": {"name": "NVIDIA H200"}}
ATTENTION = "void pytorch_flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128>>"
SHAPES = {"dims": [[1, 64], [64, 64]], "types": ["float", "float"]}
Draw = Callable[[int, int, int], list[Event]]


def ready(draw: Draw, **manifest: Any) -> Capture:
    return predict(loop(draw, period=60_000, manifest={**H200, **manifest})).capture


def the(found: Capture, name: str) -> Blocker:
    (item,) = [item for item in found.blockers if item.id == name]
    return item


def plain(at: int, corr: int, step: int) -> list[Event]:
    return eagers(at, corr, GEMM, GEMM, GEMM)


def waiting(inside: str, at_ns: int, call: str = "cudaStreamSynchronize", around: str = "") -> Draw:
    """Three GEMMs, and from `at_ns` on an op that waits for 2,000."""

    def draw(at: int, corr: int, step: int) -> list[Event]:
        begin = at + at_ns
        outer = [op(around, at=begin - 50, dur=2_600)] if around else []
        return [
            *plain(at, corr, step),
            *outer,
            op(inside, at=begin, dur=2_500),
            runtime(call, at=begin + 100, dur=2_000),
        ]

    return draw


def test_a_plain_step_is_capturable_as_it_is() -> None:
    found = ready(plain)
    assert found.verdict == AS_IT_IS
    assert found.ready is True
    assert found.blockers == ()
    assert any("inputs move" in text for text in found.unknown)


def test_an_item_between_matrix_products_must_go() -> None:
    found = ready(waiting("aten::_local_scalar_dense", 3_500))
    item = the(found, "item")
    assert found.verdict == AFTER_CHANGES
    assert found.ready is False
    assert item.blocks
    assert item.per_token == 1
    assert item.ns_per_token == 2_000
    assert item.places[0].op == "aten::_local_scalar_dense"
    assert item.places[0].call == "cudaStreamSynchronize"
    assert item.places[0].dur_ns == 2_000
    assert "tensor" in item.change


def test_an_item_behind_the_model_stays_outside() -> None:
    found = ready(waiting("aten::_local_scalar_dense", 16_000))
    assert found.verdict == AS_IT_IS
    assert not the(found, "item_outside").blocks


def test_a_branch_on_a_value_of_the_gpu() -> None:
    found = ready(waiting("aten::_local_scalar_dense", 3_500, around="aten::is_nonzero"))
    assert the(found, "control_flow").blocks
    assert "torch.where" in the(found, "control_flow").change


def test_a_data_dependent_size_makes_pieces() -> None:
    found = ready(waiting("aten::nonzero", 3_500))
    assert found.verdict == IN_PIECES
    assert the(found, "data_dependent_size").seam


def test_explicit_synchronization() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        return [
            *plain(at, corr, step),
            runtime("cudaDeviceSynchronize", at=at + 4_200, dur=500),
        ]

    assert the(ready(draw), "synchronize").blocks


def test_pageable_copies_that_wait_and_that_do_not() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        copy = at + 3_200
        return [
            *plain(at, corr, step),
            op("aten::copy_", at=copy, dur=1_500),
            launch("cudaMemcpyAsync", at=copy + 100, dur=300, corr=corr + 9),
            memcpy("HtoD (Pageable -> Device)", at=copy + 900, dur=200, corr=corr + 9),
        ]

    item = the(ready(draw), "pageable_copy")
    assert item.blocks
    assert item.per_token == 1
    assert item.places[0].op == "aten::copy_"


def test_freeing_memory_blocks_and_allocating_only_warns() -> None:
    def draw(call: str) -> Draw:
        def events(at: int, corr: int, step: int) -> list[Event]:
            return [*plain(at, corr, step), runtime(call, at=at + 3_200, dur=700)]

        return events

    assert the(ready(draw("cudaFree")), "allocator").blocks
    found = ready(draw("cudaMalloc"))
    assert not the(found, "allocator").blocks
    assert found.verdict == AS_IT_IS


@pytest.mark.parametrize(
    ("name", "call", "inside"),
    [
        ("item", "cudaStreamSynchronize", "aten::_local_scalar_dense"),
        ("data_dependent_size", "cudaStreamSynchronize", "aten::nonzero"),
        ("allocator", "cudaFree", "aten::empty"),
    ],
)
def test_what_one_odd_step_does_blocks_nothing(name: str, call: str, inside: str) -> None:
    """A request was admitted before step 2, one of five: the others are to be captured."""

    def draw(at: int, corr: int, step: int) -> list[Event]:
        odd = waiting(inside, 3_500, call)
        return (odd if step == 2 else plain)(at, corr, step)

    found = ready(draw)
    item = the(found, name)
    assert found.verdict == AS_IT_IS
    assert not item.blocks
    assert not item.seam
    assert "in 1 of 5 steps only" in item.text
    assert ready(waiting(inside, 3_500, call)).verdict != AS_IT_IS


@pytest.mark.parametrize(("counts", "blocks"), [((130, 127, 127, 127, 127), 0), ((9, 8, 9, 8), 1)])
def test_the_recorder_holds_steps_against_the_first_which_may_be_the_odd_one(
    counts: tuple[int, ...], blocks: int
) -> None:
    sequence = {"equal": False, "counts": counts, "first_difference": {"step": 1, "index": 0}}
    found = ready(plain, steadiness={"launch_sequence": sequence})
    assert sum(item.id == "launch_sequence" for item in found.blockers) == blocks


def test_another_sequence_of_launches() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        return eagers(at, corr, GEMM, ADD if step in (2, 3) else GEMM, GEMM)

    item = the(ready(draw), "launch_sequence")
    assert item.blocks
    assert "2 of 5 steps" in item.text
    assert item.places[0].step == 2
    assert item.places[0].what.startswith("GPU op 2: ")


def growing(name: str) -> Draw:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        long = {"dims": [[1, 64], [step + 1, 64]], "types": ["float", "float"]}
        return [
            *eager(at, corr, **SHAPES),
            *eager(at + 5_000, corr + 1, ATTENTION, inside=name, **long),
            *eager(at + 10_000, corr + 2, **SHAPES),
        ]

    return draw


def test_shapes_that_change_from_step_to_step() -> None:
    item = the(ready(growing("aten::cat")), "changing_shapes")
    assert item.blocks
    assert not item.seam
    assert "aten::cat [1, 64]x[1, 64] then [1, 64]x[2, 64]" in item.text


def test_shapes_that_change_in_attention_alone_make_pieces() -> None:
    found = ready(growing("aten::_flash_attention_forward"))
    assert found.verdict == IN_PIECES


def test_seams_at_attention_and_what_they_cost() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        return [
            *eager(at, corr),
            *eager(at + 5_000, corr + 1, ATTENTION, inside="aten::_flash_attention_forward"),
            *eager(at + 10_000, corr + 2),
            *eager(at + 15_000, corr + 3, ATTENTION, inside="aten::_flash_attention_forward"),
            *eager(at + 20_000, corr + 4),
        ]

    (plan,) = ready(draw).pieces
    assert (plan.seams_at, plan.seams, plan.pieces) == ("attention", 2, 3)
    # Two ops of 3,000 on the host and three replays of 13,000.
    assert plan.predicted_step_ns == 2 * 3_000 + 3 * 13_000
    assert plan.cost_ns > 0


@pytest.mark.parametrize("dur", [1_500, 14_000, 40_000])
def test_pieces_never_take_less_than_one_graph(dur: int) -> None:
    """Kernels of `dur` side by side with the host; a memset becomes a dear node of the graph."""

    def draw(at: int, corr: int, step: int) -> list[Event]:
        events: list[Event] = []
        for k, name in enumerate((GEMM, ATTENTION, GEMM, ATTENTION, GEMM)):
            inside = "aten::_flash_attention_forward" if name == ATTENTION else "aten::mm"
            begin = at + (dur + 3_500) * k
            events += eager(begin, corr + k, name, dur=dur, inside=inside)
        last = at + (dur + 3_500) * 5
        return [
            *events,
            op("aten::mm", at=last, dur=1_000),
            runtime("cudaMemsetAsync", at=last + 100, dur=500, corr=corr + 5),
            memset(at=last + 1_000, dur=500, corr=corr + 5),
        ]

    found = predict(loop(draw, period=400_000, manifest=H200))
    whole = found.capture
    (plan,) = whole.pieces
    assert whole.predicted_step_ns is not None
    assert whole.range_ns is not None
    assert whole.parts_ns is not None
    assert plan.range_ns is not None
    assert whole.parts_ns.memsets > 0
    assert plan.predicted_step_ns > whole.predicted_step_ns
    assert plan.range_ns[0] >= whole.range_ns[0]
    assert plan.range_ns[1] >= whole.range_ns[1]
    assert plan.cost_ns == pytest.approx(plan.predicted_step_ns - whole.predicted_step_ns, abs=1)
    if dur == 40_000:
        # The GPU sets the pace: all it needs more are the starts of two further pieces.
        node = whole.parts_ns.gaps / (whole.nodes or 1)
        assert 0 < plan.cost_ns < 4 * node


@pytest.mark.parametrize("model", recorded.MODELS)
def test_pieces_of_recorded_steps_take_no_less_than_one_graph(model: str) -> None:
    found = predict(recorded.eager(model))
    assert found.capture.predicted_step_ns is not None
    assert found.capture.pieces
    for plan in found.capture.pieces:
        assert plan.predicted_step_ns >= found.capture.predicted_step_ns


def test_the_module_and_the_python_frames_of_a_wait() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        base = 10 * step + 1
        return [
            frame("decode.py(9): generate", at=at, dur=50_000, id=base),
            frame("nn.Module: Router_0", at=at + 3_000, dur=4_000, id=base + 1, parent=base),
            frame("router.py(42): forward", at=at + 3_100, dur=3_800, id=base + 2, parent=base + 1),
            *waiting("aten::_local_scalar_dense", 3_500)(at, corr, step),
        ]

    place = the(ready(draw), "item").places[0]
    assert place.module == "Router_0"
    assert place.stack == ("router.py(42): forward", "decode.py(9): generate")


def test_what_the_collector_saw() -> None:
    seen = {
        "moved": ["past.0", "token"],
        "grew": ["past.0"],
        "inputs": [
            {"name": "past.0", "kind": "state", "shape_first": [1, 8], "shape_last": [1, 9]},
            {"name": "token", "kind": "direct", "moves": 3},
        ],
        "launch_sequence": {"equal": True},
    }
    found = ready(plain, steadiness=seen)
    assert found.verdict == AFTER_CHANGES
    assert the(found, "growing_inputs").places[0].what == "past.0: [1, 8] then [1, 9]"
    assert the(found, "moving_inputs").blocks
    assert found.unknown == ()


def test_arguments_that_move_do_not_block() -> None:
    seen = {"moved": ["token"], "inputs": [{"name": "token", "kind": "direct", "moves": 3}]}
    found = ready(plain, steadiness=seen)
    assert found.verdict == AS_IT_IS
    assert not the(found, "moving_inputs").blocks


def test_one_complete_step_cannot_show_differences() -> None:
    events: list[Event] = []
    for step in range(2):
        begin = 1_000 + 60_000 * step
        names = (GEMM, ADD) if step else (GEMM, GEMM)
        events += [
            mark(f"gaptrace.step#{step}", at=begin, dur=50_000),
            *eagers(begin, 1 + 100 * step, *names),
        ]
    trace = dataclasses.replace(trace_of(*events), run=RunInfo("run", H200))
    found = predict(analyze(trace)).capture
    assert found.verdict == AS_IT_IS
    assert any("one step is complete" in text for text in found.unknown)


def test_work_of_a_second_thread() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        return [
            *plain(at, corr, step),
            launch(at=at + 3_000, dur=200, corr=corr + 9, tid=77),
            kernel(ADD, at=at + 20_000, dur=100, corr=corr + 9),
        ]

    assert the(ready(draw), "threads").blocks


@pytest.mark.parametrize("kind", ["sync", "moved_input", "changing_shape"])
def test_every_blocker_says_what_to_change(kind: str) -> None:
    from gaptrace.predict.readiness import FAILED

    assert FAILED[kind]
