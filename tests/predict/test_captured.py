"""Captured steps from drawings: every part of the prediction counted by hand."""

from __future__ import annotations

import pytest

from gaptrace.predict import predict
from gaptrace.predict.constants import Replayed, graph_model
from gaptrace.results.prediction import ALREADY
from tests.builders import Event, graph_launch, kernel, launch, memset
from tests.measure.loops import ADD, GEMM, eager, eagers, loop
from tests.predict import recorded
from tests.predict.recorded import MODELS, TRUE

H200 = {"device": {"name": "NVIDIA H200"}}
COMMON = 307 / 420  # a median gap of profiled replays, scaled to the fit to unprofiled steps


def two_gemms(at: int, corr: int, step: int) -> list[Event]:
    return [
        *eagers(at, corr, GEMM, GEMM),
        *eager(at + 10_000, corr + 2, ADD, inside="aten::add"),
    ]


def test_busy_gaps_by_pair_and_one_replay() -> None:
    step = predict(loop(two_gemms, period=20_000, manifest=H200)).capture
    assert step.parts_ns is not None
    assert step.range_ns is not None
    # Before the first node and between equal ones 307; 290 between GEMM and pointwise is scaled.
    gaps = 307 + 420 * COMMON + 290 * COMMON
    assert (step.parts_ns.busy, step.parts_ns.replay) == (3 * 1_500, 13_000)
    assert step.parts_ns.gaps == round(gaps)
    assert step.predicted_step_ns == round(4_500 + gaps + 13_000)
    assert step.idle_ns == round(gaps + 13_000)
    assert step.range_ns[0] < step.predicted_step_ns < step.range_ns[1]
    pairs = {(p.pair, p.count) for p in step.gaps_by_pair}
    assert pairs == {("gemm > gemm", 1), ("gemm > pointwise", 1)}
    assert (step.nodes, step.launches) == (3, 1)
    assert "H200" in (step.source or "")


def test_a_memset_takes_longer_as_a_node() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        return [
            *eager(at, corr),
            launch("cudaMemsetAsync", at=at + 6_000, dur=500, corr=corr + 1),
            memset(at=at + 7_000, dur=1_000, corr=corr + 1),
        ]

    step = predict(loop(draw, period=20_000, manifest=H200)).capture
    assert step.parts_ns is not None
    assert step.parts_ns.memsets == 7_000 - 1_000
    assert step.nodes == 2


def test_an_unknown_gpu_says_so_and_prints_a_wide_range() -> None:
    prediction = predict(loop(two_gemms, period=20_000, manifest={"device": {"name": "Abacus 1"}}))
    step = prediction.capture
    assert step.range_ns is not None
    assert (step.source or "").startswith("no constants for Abacus 1")
    known = predict(loop(two_gemms, period=20_000, manifest=H200)).capture
    assert known.range_ns is not None
    assert step.range_ns[0] < known.range_ns[0]
    assert step.range_ns[1] > known.range_ns[1] + 30_000


def test_the_period_of_an_empty_node_bounds_the_gap() -> None:
    wide = graph_model("Abacus 1")
    bounded = graph_model("Abacus 1", empty_node_ns=900)
    assert wide.node_range == (100.0, 1_500.0)
    assert bounded.node_range == (100.0, 900.0)
    assert not wide.known
    assert graph_model("NVIDIA H200").known


def replays(count: int, *, gap: int, pieces: int = 1) -> object:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        events: list[Event] = []
        for piece in range(pieces):
            begin = at + 20_000 * piece
            events.append(graph_launch(at=begin, dur=1_000, corr=corr + piece))
            events += [
                kernel(GEMM, at=begin + 1_500 + k * (1_000 + gap), dur=1_000, corr=corr + piece)
                for k in range(count)
            ]
        return events

    return draw


def test_a_captured_recording_has_nothing_left() -> None:
    prediction = predict(loop(replays(4, gap=500), period=30_000, manifest=H200))  # type: ignore[arg-type]
    step = prediction.capture
    assert step.already
    assert "already captured" in (step.note or "")
    assert (step.verdict, step.ready) == (ALREADY, True)
    assert (step.predicted_step_ns, step.range_ns) == (None, None)


def test_pieces_of_a_captured_recording_become_one_replay() -> None:
    drawn = loop(replays(4, gap=500, pieces=3), period=90_000, manifest=H200)  # type: ignore[arg-type]
    step = predict(drawn).capture
    assert step.already
    assert step.predicted_step_ns == 12_000 + 12 * 307 + 13_000
    assert "3 replays per step" in (step.note or "")


def test_constants_come_from_replays_of_the_run() -> None:
    """Two captured modes of 10 and 30 nodes: 400 ns a node and 5 us a replay explain both."""
    seen = []
    for nodes in (10, 30):
        step = nodes * 1_000 + nodes * 400 + 5_000
        run = {**H200, "mode": "graph", "unprofiled": {"median_ns": step}}
        captured = loop(replays(nodes, gap=500), period=80_000, manifest=run)  # type: ignore[arg-type]
        seen.append(Replayed(captured, captured))
    model = graph_model("NVIDIA H200", seen)
    assert model.measured
    assert model.node_ns == pytest.approx(400)
    assert model.replay_ns == pytest.approx(5_000)
    assert model.gap("gemm", "gemm") == pytest.approx(400)
    assert model.source == "replays of this run (graph)"


def test_one_captured_mode_gives_the_node_and_the_table_the_replay() -> None:
    run = {**H200, "unprofiled": {"median_ns": 20_000 + 13_000 + 20 * 350}}
    captured = loop(replays(20, gap=500), period=80_000, manifest=run)  # type: ignore[arg-type]
    model = graph_model("NVIDIA H200", [Replayed(captured, captured)])
    assert (model.node_ns, model.replay_ns) == pytest.approx((350, 13_000))
    # Without plain launches of the same code the table is the better source.
    assert not graph_model("NVIDIA H200", [Replayed(captured)]).measured
    assert graph_model("Abacus 1", [Replayed(captured)]).measured


@pytest.mark.parametrize("model", MODELS)
def test_recorded_eager_steps_within_two_percent(model: str) -> None:
    step = predict(recorded.eager(model)).capture
    assert step.predicted_step_ns is not None
    assert step.range_ns is not None
    assert step.parts_ns is not None
    assert abs(step.predicted_step_ns / TRUE[model]["graph"] - 1) < 0.02
    assert step.range_ns[0] < TRUE[model]["graph"] < step.range_ns[1]
    parts = step.parts_ns
    assert parts.busy + parts.gaps + parts.replay + parts.memsets == pytest.approx(
        step.predicted_step_ns, abs=3
    )
