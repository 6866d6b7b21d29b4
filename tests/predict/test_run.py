"""Run folders: saved answers, the 2x2, the realised side and the score."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from gaptrace.document.blocks import Chart, Detail, blocks_of
from gaptrace.document.build import document
from gaptrace.document.sections import Context
from gaptrace.errors import GaptraceError
from gaptrace.measure.options import Options
from gaptrace.predict import PredictOptions, Shapes, predict, predict_run
from gaptrace.reading.loading import load
from gaptrace.render import formats
from gaptrace.render.formats import Style
from gaptrace.runs.read import read_run
from gaptrace.units import time
from tests.compare.runs import write_run
from tests.predict import recorded
from tests.predict.recorded import MODELS, TRUE
from tests.sweep_folders import make_sweep, step_of

if TYPE_CHECKING:
    from pathlib import Path

    from gaptrace.results.prediction import PredictionResult, Score


def of_run(folder: Path) -> PredictionResult:
    return predict_run(read_run(str(folder), Options(), use_cache=False))


def report(found: PredictionResult, detail: Detail = Detail.FULL) -> str:
    return formats.get("terminal").render(document(found, Context(detail)), Style())


def row(found: PredictionResult, name: str) -> Score:
    (item,) = [item for item in found.score if item.id == name]
    return item


@pytest.mark.parametrize("model", MODELS)
def test_a_saved_answer_is_used_and_host_times_are_unprofiled(model: str, tmp_path: Path) -> None:
    run = recorded.eager_run(tmp_path, model)
    (run / "eager/1/prediction.json").write_text(json.dumps(recorded.answer(model)))
    found = of_run(run)
    assert found.compile.exact
    assert found.compile.predicted is not None
    assert found.subject.step_source == "unprofiled"
    # Launches of the compiled step at the host time per launch of the eager one.
    launches = {"llama4": (226, 80), "gpt2_4": (120, 55)}[model]
    per_launch = TRUE[model]["eager"] / launches[0]
    assert found.compile.predicted.step_ns == pytest.approx(launches[1] * per_launch, rel=0.25)
    assert found.square["eager"].step_ns == TRUE[model]["eager"]
    assert found.square["compiled-graph"].known == "predicted"


def test_without_an_answer_the_estimate_says_what_it_is(tmp_path: Path) -> None:
    run = recorded.eager_run(tmp_path, "llama4")
    (run / "eager/1/execution_trace.json.gz").unlink()
    found = of_run(run)
    assert found.compile.source == "estimated from shapes"
    assert (found.square["compiled"].note or "").startswith("estimated from shapes")


def test_beside_an_execution_trace_nothing_is_estimated_from_shapes(tmp_path: Path) -> None:
    """Inductor would know: its answer or none, and the way to get it."""
    run = recorded.eager_run(tmp_path, "llama4")
    found = of_run(run)
    assert found.compile.predicted is None
    assert found.savings is None
    assert "`gaptrace predict` on the run asks once" in str(found.compile.note)
    assert found.square["compiled"].step_ns is None
    assert "asks Inductor" in (found.square["compiled-graph"].note or "")
    assert found.square["graph"].known == "predicted"
    assert "Inductor was not asked" in report(found)
    whole = read_run(str(run), Options(), use_cache=False)
    asked = predict_run(whole, PredictOptions(shapes=Shapes.ALWAYS))
    assert asked.compile.source == "estimated from shapes"


def test_an_answer_beside_another_repeat_serves_all(tmp_path: Path) -> None:
    run = recorded.eager_run(tmp_path, "llama4")
    shutil.copytree(run / "eager/1", run / "eager/2")
    (run / "eager/2/prediction.json").write_text(json.dumps(recorded.answer("llama4")))
    whole = read_run(str(run), Options(), use_cache=False)
    both = [predict(found).compile for found in whole.repeats("eager")]
    assert [found.exact for found in both] == [True, True]
    assert predict_run(whole).compile.exact


def test_a_broken_answer_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    run = recorded.eager_run(tmp_path, "gpt2_4")
    (run / "eager/1/prediction.json").write_text("{")
    with pytest.raises(GaptraceError) as error:
        of_run(run)
    assert "--refresh" in error.value.hint


def test_why_a_captured_mode_failed_is_evidence(tmp_path: Path) -> None:
    run = recorded.eager_run(tmp_path, "gpt2_4")
    evidence = [{"what": "aten::item", "where": "model.py:12", "detail": "waits"}]
    failure = {"kind": "sync", "reason": "the step waits for the GPU", "evidence": evidence}
    recorded.failed_mode(run, "gpt2_4", "graph", failure)
    found = of_run(run)
    assert found.capture.verdict == "capturable after these changes"
    (item,) = [item for item in found.capture.blockers if item.id == "sync"]
    assert item.places[0].stack == ("model.py:12",)
    assert "failed in this run" in (found.capture.tried or "")
    assert found.square["graph"].known == "predicted"
    assert "could not run: the step waits" in (found.square["graph"].note or "")


@pytest.mark.parametrize("status", ["close", "different"])
def test_a_captured_run_beside_it_is_the_truth(status: str, tmp_path: Path) -> None:
    """An input moved and copies were seen, and capture worked: then they were in nobody's way."""
    run = write_run(tmp_path / "run", repeats=1, modes=("eager", "graph"))
    for mode, more in (
        ("eager", {"steadiness": {"moved": ["cache"], "inputs": [{"name": "cache"}]}}),
        ("graph", {"outputs": {"status": status}}),
    ):
        path = run / mode / "1/run.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **more}))
    found = of_run(run).capture
    (item,) = [item for item in found.blockers if item.id == "moving_inputs"]
    worked = status == "close"
    assert found.ready is worked
    assert item.blocks is not worked
    assert "graph: captured in this run, 21.0 µs a step" in (found.tried or "")
    if worked:
        assert found.verdict == "captured in this run"
        assert "captured all the same" in item.text
    else:
        assert found.verdict == "capturable after these changes"
        assert "its outputs differ" in (found.tried or "")


def test_captured_modes_are_scored(tmp_path: Path) -> None:
    """Drawn modes; steps of 60, 45, 21 and 27 us."""
    found = of_run(write_run(tmp_path / "run", repeats=1))
    assert {cell.known for cell in found.square.values()} == {"measured"}
    assert found.square["graph"].step_ns == 21_007
    assert row(found, "graph_step").realised == 21_007
    assert row(found, "compiled_graph_step_from_compiled").realised == 27_007
    for item in found.score:
        error = item.predicted / item.realised - 1
        assert item.error == pytest.approx(error, rel=1e-3, abs=1e-5)
        assert item.range is not None
        assert item.inside == (item.range[0] <= item.realised <= item.range[1])
        assert item.source == "unprofiled"


def test_the_compiled_step_is_scored_figure_by_figure(tmp_path: Path) -> None:
    """The prediction for llama4 against a drawn compiled step of three kernels."""
    run = recorded.eager_run(tmp_path, "llama4")
    (run / "eager/1/prediction.json").write_text(json.dumps(recorded.answer("llama4")))
    write_run(run, repeats=1, modes=("compiled",))
    found = of_run(run)
    assert (row(found, "kernels").predicted, row(found, "kernels").realised) == (79, 3)
    assert row(found, "kernels").inside is False
    assert (row(found, "generated").predicted, row(found, "generated").realised) == (41, 2)
    assert (row(found, "launches").predicted, row(found, "launches").realised) == (80, 3)
    assert row(found, "kernels_removed").realised == 225 - 3
    assert row(found, "busy").realised == 13_500
    assert row(found, "busy_gemm").realised == 2_000
    assert row(found, "compiled_step").realised == 45_007
    assert "graph_step" not in {item.id for item in found.score}


def test_host_times_under_the_profiler_are_not_held_against_those_without(tmp_path: Path) -> None:
    run = recorded.eager_run(tmp_path, "llama4")
    write_run(run, repeats=1, modes=("compiled",), unprofiled=None)
    assert "compiled_step" not in {item.id for item in of_run(run).score}


def test_realised_keeps_busy_and_idle_apart_and_names_losses(tmp_path: Path) -> None:
    realised = of_run(write_run(tmp_path / "run", repeats=1)).realised
    assert realised is not None
    assert realised.kernels_removed == 1
    assert realised.launches_removed == 1
    assert realised.busy_change_ns == 13_500 - 8_000
    assert realised.busy_by_class["copy"] == 9_000
    assert sum(realised.busy_by_class.values()) == 13_500 - 8_000
    # 60,007 - 8,000 of idle before, 45,007 - 13,500 after.
    assert realised.idle_removed_ns == (60_007 - 8_000) - (45_007 - 13_500)
    assert realised.idle_source == "unprofiled"


def test_constants_of_the_scored_mode_are_never_used_for_it(tmp_path: Path) -> None:
    found = of_run(write_run(tmp_path / "run", repeats=1, modes=("eager", "graph")))
    assert (found.capture.source or "").startswith("table: ")
    both = of_run(write_run(tmp_path / "both", repeats=1))
    assert both.capture.source == "replays of this run (compiled-graph)"


def test_a_compiled_recording_predicts_only_its_capture(tmp_path: Path) -> None:
    found = of_run(write_run(tmp_path / "run", repeats=1, modes=("compiled",)))
    assert found.compile.already
    assert found.square["compiled-graph"].known == "predicted"
    assert found.square["graph"].known == "not recorded"


def test_a_captured_recording_predicts_nothing_more_of_capture(tmp_path: Path) -> None:
    found = of_run(write_run(tmp_path / "run", repeats=1, modes=("compiled-graph",)))
    assert [mode for mode, cell in found.square.items() if cell.known != "not recorded"] == [
        "compiled-graph"
    ]
    assert not any(isinstance(block, Chart) for block in blocks_of(document(found)))
    assert "already captured" in report(found)
    assert "already compiled" in report(found)


def test_the_same_from_bare_traces(tmp_path: Path) -> None:
    """`others` are told apart by their kernels."""
    from gaptrace.analysis import analyze

    run = write_run(tmp_path / "run", repeats=1)
    paths = [run / mode / "1/trace.json.gz" for mode in ("compiled", "graph", "compiled-graph")]
    base = analyze(load(run / "eager/1/trace.json.gz"))
    found = predict(base, others=[analyze(load(path)) for path in paths])
    assert {cell.known for cell in found.square.values()} == {"measured"}
    assert {cell.source for cell in found.square.values()} == {"as profiled"}
    assert found.realised is not None
    assert found.realised.idle_source == "as profiled"


def test_a_run_without_recordings_is_refused(tmp_path: Path) -> None:
    run = recorded.eager_run(tmp_path, "gpt2_4")
    shutil.rmtree(run / "eager")
    recorded.failed_mode(run, "gpt2_4", "graph", {"kind": "sync", "reason": "waits"})
    with pytest.raises(GaptraceError, match="holds no recording"):
        of_run(run)


def test_a_measured_step_in_pieces_stands_beside_the_predicted_ones(tmp_path: Path) -> None:
    """Steps of 580,000 and 500,000 at batch 0, 1 % more at batch 1; five pieces."""
    modes = ("eager", "compiled-graph", "piecewise")
    run = make_sweep(tmp_path, batches=(1,), modes=modes, repeats=1) / "batch-1"
    found = of_run(run)
    parts = found.capture.measured_pieces
    assert parts is not None
    assert (parts.pieces, parts.seams, parts.source) == (5, 4, "unprofiled")
    assert (parts.step_ns, parts.whole_ns) == (
        step_of("piecewise", 1),
        step_of("compiled-graph", 1),
    )
    assert parts.more_ns == parts.step_ns - (parts.whole_ns or 0)
    text = " ".join(report(found).split())
    assert "Measured in pieces: the eager step, 5 pieces with 4 gaps between them; step" in text
    assert "+80.8 µs against one graph of it, measured too" in text
    plan = found.capture.pieces[0]
    assert f"≥ {time(plan.cost_ns)} more than one graph" in text
    assert plan.price_ns == (plan.seams * 12_500, plan.seams * 21_800)
    assert f"{plan.seams} gaps between pieces at the 12.5 to 21.8 µs measured on an H200:" in text


def test_a_run_without_pieces_has_none_measured(tmp_path: Path) -> None:
    found = of_run(recorded.eager_run(tmp_path, "gpt2_4"))
    assert found.capture.measured_pieces is None
    assert "Measured in pieces" not in report(found)


def test_the_cells_of_the_chart_are_hatched_where_predicted(tmp_path: Path) -> None:
    run = recorded.eager_run(tmp_path, "llama4")
    (run / "eager/1/prediction.json").write_text(json.dumps(recorded.answer("llama4")))
    found = of_run(run)
    assert found.best == "compiled-graph"
    assert found.times == pytest.approx(
        TRUE["llama4"]["eager"] / (found.square["compiled-graph"].step_ns or 1), rel=1e-5
    )
    (chart,) = [block for block in blocks_of(document(found)) if isinstance(block, Chart)]
    points = {point.key: point for point in chart.panels[0].series[0].points}
    assert {mode for mode, point in points.items() if point.hatched} == {
        "graph", "compiled", "compiled-graph",
    }  # fmt: skip
    graph = found.square["graph"]
    assert graph.rate_range is not None
    assert (points["graph"].y.low, points["graph"].y.high) == graph.rate_range


@pytest.mark.parametrize("detail", list(Detail))
def test_the_report_has_every_part(tmp_path: Path, detail: Detail) -> None:
    run = recorded.eager_run(tmp_path, "llama4")
    (run / "eager/1/prediction.json").write_text(json.dumps(recorded.answer("llama4")))
    text = " ".join(report(of_run(run), detail).split())
    assert text.startswith("Compiled, captured would be fastest: 2510 tok/s, 14.0x eager, launched")
    for part in (
        "Tokens per second by mode",
        "Capture: capturable as it is",
        "In pieces: 5 pieces",
        "Compiled step, predicted: 79 (71 to 87) kernels of 225 eager, 41 (37 to 45) of them",
        "whose compiler may count differently",
        "Fusion saves 152 launches",
        "table: measured on H200",
    ):
        assert part in text, part
    assert ("fused groups" in text) == (detail is Detail.FULL)
