"""Run folders: saved answers, the 2x2, the realised side and the score."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from gaptrace.errors import GaptraceError
from gaptrace.measure.options import Options
from gaptrace.predict import predict, predict_run
from gaptrace.report.predict_cells import predicted_cells
from gaptrace.report.predict_text import help_section, predict_report
from gaptrace.runs.read import read_run
from gaptrace.units import time
from tests.compare.runs import write_run
from tests.predict import recorded
from tests.predict.recorded import MODELS, TRUE
from tests.sweep_folders import make_sweep, step_of

if TYPE_CHECKING:
    from pathlib import Path

    from gaptrace.predict import Prediction
    from gaptrace.results.prediction import Score


def of_run(folder: Path) -> Prediction:
    return predict_run(read_run(str(folder), Options(), use_cache=False))


def row(found: Prediction, name: str) -> Score:
    (item,) = [item for item in found.score if item.id == name]
    return item


@pytest.mark.parametrize("model", MODELS)
def test_a_saved_answer_is_used_and_host_times_are_unprofiled(model: str, tmp_path: Path) -> None:
    run = recorded.eager_run(tmp_path, model)
    (run / "eager/1/prediction.json").write_text(json.dumps(recorded.answer(model)))
    found = of_run(run)
    assert found.compiled is not None
    assert found.compiled.exact
    assert not found.compiled.profiled
    assert found.subject.step_source == "unprofiled"
    # Launches of the compiled step at the host time per launch of the eager one.
    assert found.compiled.launched is not None
    launches = {"llama4": (226, 80), "gpt2_4": (120, 55)}[model]
    per_launch = TRUE[model]["eager"] / launches[0]
    assert found.compiled.launched.ns == pytest.approx(launches[1] * per_launch, rel=0.25)
    assert found.square["eager"].step_ns == TRUE[model]["eager"]
    assert found.square["compiled-graph"].known == "predicted"


def test_without_an_answer_the_estimate_says_what_it_is(tmp_path: Path) -> None:
    found = of_run(recorded.eager_run(tmp_path, "llama4"))
    assert found.compiled is not None
    assert found.compiled.source == "estimated from shapes"
    assert found.square["compiled"].note.startswith("estimated from shapes")


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
    assert found.readiness.verdict == "capturable after these changes"
    (item,) = [item for item in found.readiness.blockers if item.id == "sync"]
    assert item.places[0].stack == ("model.py:12",)
    assert "failed in this run" in found.readiness.tried
    assert found.square["graph"].known == "predicted"
    assert "could not run: the step waits" in found.square["graph"].note


def test_captured_modes_are_scored(tmp_path: Path) -> None:
    """Drawn modes; steps of 60, 45, 21 and 27 us."""
    found = of_run(write_run(tmp_path / "run", repeats=1))
    assert {cell.known for cell in found.square.values()} == {"measured"}
    assert found.square["graph"].step_ns == 21_007
    assert row(found, "graph_step").realised == 21_007
    assert row(found, "compiled_graph_step_from_compiled").realised == 27_007
    for item in found.score:
        assert item.error == pytest.approx(item.predicted / item.realised - 1)
        assert item.low is not None
        assert item.high is not None
        assert item.inside == (item.low <= item.realised <= item.high)


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
    assert found.captured is not None
    assert found.captured.source.startswith("table: ")
    both = of_run(write_run(tmp_path / "both", repeats=1))
    assert both.captured is not None
    assert both.captured.source == "replays of this run (compiled-graph)"


def test_a_compiled_recording_predicts_only_its_capture(tmp_path: Path) -> None:
    found = of_run(write_run(tmp_path / "run", repeats=1, modes=("compiled",)))
    assert found.compiled is not None
    assert found.compiled.already
    assert found.square["compiled-graph"].known == "predicted"
    assert found.square["graph"].known == "not recorded"


def test_a_captured_recording_predicts_nothing_more_of_capture(tmp_path: Path) -> None:
    found = of_run(write_run(tmp_path / "run", repeats=1, modes=("compiled-graph",)))
    assert [mode for mode, cell in found.square.items() if cell.known != "not recorded"] == [
        "compiled-graph"
    ]
    assert help_section(found, color=False) == ""
    assert "already captured" in predict_report(found, color=False)
    assert "already compiled" in predict_report(found, color=False)


def test_the_same_from_bare_traces(tmp_path: Path) -> None:
    """`others` are told apart by their kernels."""
    from gaptrace.analysis import analyze
    from gaptrace.reading.loading import load

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
    parts = found.measured_pieces
    assert parts is not None
    assert (parts.pieces, parts.seams, parts.source) == (5, 4, "unprofiled")
    assert (parts.step_ns, parts.whole_ns) == (
        step_of("piecewise", 1),
        step_of("compiled-graph", 1),
    )
    assert found.summary["capture"]["measured_pieces"]["step_ns"] == step_of("piecewise", 1)
    text = " ".join(predict_report(found, color=False).split())
    assert "measured in pieces: the eager step, 5 pieces with 4 seams; step 586 µs" in text
    assert "80.8 µs more than one graph of it, measured too" in text
    plan = found.readiness.pieces[0]
    assert f"at least {time(plan.cost_ns)} more than one graph" in text
    price = f"{time(plan.seams * 12_500)} to {time(plan.seams * 21_800)}"
    assert f"{plan.seams} seams at the 12.5 to 21.8 µs measured on an H200: {price}" in text


def test_a_run_without_pieces_has_none_measured(tmp_path: Path) -> None:
    found = of_run(recorded.eager_run(tmp_path, "gpt2_4"))
    assert found.measured_pieces is None
    assert found.summary["capture"]["measured_pieces"] is None
    assert "measured in pieces" not in predict_report(found, color=False)


def test_cells_for_the_report_are_the_predicted_ones(tmp_path: Path) -> None:
    run = recorded.eager_run(tmp_path, "llama4")
    (run / "eager/1/prediction.json").write_text(json.dumps(recorded.answer("llama4")))
    found = of_run(run)
    cells = predicted_cells(found)
    assert set(cells) == {"graph", "compiled", "compiled-graph"}
    assert cells["graph"].known == "predicted"
    assert cells["graph"].range_ns is not None
    assert cells["graph"].step_ns == found.square["graph"].step_ns


def test_the_report_has_every_part(tmp_path: Path) -> None:
    run = recorded.eager_run(tmp_path, "llama4")
    (run / "eager/1/prediction.json").write_text(json.dumps(recorded.answer("llama4")))
    text = predict_report(of_run(run), color=False)
    for part in (
        "What would help",
        "capture: capturable as it is",
        "in pieces: 5 pieces",
        "compiled step: 79 kernels of 225 eager",
        "whose compiler may count differently",
        "fused groups",
        "constants: table: measured on H200",
    ):
        assert part in text.replace("\n    ", " ").replace("\n", " "), part
    assert max(map(len, text.splitlines())) <= 88
