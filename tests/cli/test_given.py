"""`--unprofiled-step` and `--tokens-per-second` on the command line: each command, each slip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gaptrace.cli import main
from gaptrace.errors import OptionError
from gaptrace.measure.given import STEP, time_ns
from tests.dashboards.folders import make_run

SAMPLES = Path(__file__).parents[2] / "sample_traces"
EAGER = str(SAMPLES / "small_decoder_eager.json.gz")
GRAPH = str(SAMPLES / "small_decoder_graph.json.gz")

Out = pytest.CaptureFixture[str]


def told(capsys: Out, *words: str) -> dict[str, Any]:
    """The JSON that a command prints."""
    assert main([*words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refusal(capsys: Out, *words: str) -> str:
    """What a command says that exits with 2."""
    assert main([*words]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    return found.err


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("40.65ms", 40_650_000),
        ("0.04065s", 40_650_000),
        ("40650us", 40_650_000),
        ("40650 µs", 40_650_000),
        ("40650μs", 40_650_000),
        ("4.065e7ns", 40_650_000),
        (".5MS", 500_000),
    ],
)
def test_a_time_has_a_unit(text: str, ns: int) -> None:
    assert time_ns(STEP, text) == ns


@pytest.mark.parametrize("text", ["40.65", "", "ms", "-4ms", "0ms", "1e99s", "4 min", "1,5ms"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(OptionError) as error:
        time_ns(STEP, text)
    assert error.value.hint


def test_analyze_is_of_the_given_step(capsys: Out) -> None:
    found = told(capsys, "analyze", EAGER, "--unprofiled-step", "2.1ms")
    assert found["rate"]["source"] == "given"
    assert found["headline"]["basis"] == "given"
    assert found["rate"]["unprofiled_step_ns"] == 2_100_000
    assert main(["analyze", EAGER, "--unprofiled-step", "2.1ms"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Decode: 476 tok/s, 2.10 ms per step (given).")
    assert "times given by hand · profiler slowdown 2.26x" in out
    assert "GPU (given): 2.10 ms" in out
    assert main(["analyze", EAGER, "--tokens-per-second", "476"]) == 0
    assert capsys.readouterr().out.startswith("Decode: 476 tok/s, 2.10 ms per step (given).")


def test_a_contradiction_is_said_and_strict_fails(capsys: Out) -> None:
    assert main(["analyze", EAGER, "--unprofiled-step", "0.1ms"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith("Decode: 211 tok/s, 4.74 ms per step (as profiled).")
    assert "shorter than the GPU is busy in a step, 438 µs" in out
    assert "withheld: unprofiled step, unprofiled idle" in out
    assert main(["analyze", EAGER, "--unprofiled-step", "0.1ms", "--strict"]) == 2


def test_several_paths_take_one_value_each(capsys: Out) -> None:
    given = ["--unprofiled-step", "2.1ms", "--unprofiled-step", "-"]
    found = told(capsys, "analyze", EAGER, GRAPH, *given)["analyses"]
    assert [a["rate"]["source"] for a in found] == ["given", "as profiled"]
    assert "- for none" in refusal(capsys, "analyze", EAGER, GRAPH, *given[:2])
    assert "for several paths repeat it" in refusal(
        capsys, "analyze", EAGER, "--unprofiled-step", "2.1ms,1ms"
    )


def test_compare_takes_one_step_a_side(capsys: Out) -> None:
    given = ["--unprofiled-step", "2.1ms", "--unprofiled-step", "0.52ms"]
    pair = told(capsys, "compare", EAGER, GRAPH, *given)["pairs"][0]
    step = next(row for row in pair["metrics"] if row["id"] == "step_time")
    assert [step[side]["value"] for side in ("baseline", "candidate")] == [2_100_000, 520_000]
    rate = next(row for row in pair["metrics"] if row["id"] == "tokens_per_s")
    assert rate["baseline"]["value"] == pytest.approx(1e9 / 2_100_000)
    assert pair["bridge"]["unprofiled_baseline_ns"] == 2_100_000
    assert refusal(capsys, "compare", EAGER, GRAPH, *given[:2])


def test_predict_stands_on_the_given_step(capsys: Out) -> None:
    found = told(capsys, "predict", EAGER, "--shapes", "--unprofiled-step", "2.1ms")
    assert found["subject"]["step_ns"] == 2_100_000
    assert found["subject"]["step_source"] == "given"
    against = ["--against", GRAPH, "--unprofiled-step", "2.1ms", "--unprofiled-step", "0.5ms"]
    cells = told(capsys, "predict", EAGER, "--shapes", *against)["square"]
    assert (cells["graph"]["step_ns"], cells["graph"]["source"]) == (500_000, "given")


def test_a_run_takes_a_step_for_each_of_its_modes(tmp_path: Path, capsys: Out) -> None:
    run = str(make_run(tmp_path))
    rows = told(capsys, "analyze", run, "--unprofiled-step", "eager=2.1ms,graph=0.51ms")["modes"]
    assert [(row["mode"], row["basis"], row["step_ns"]) for row in rows] == [
        ("eager", "given", 2_100_000),
        ("compiled", "unprofiled", 1_501_000),
        ("graph", "given", 510_000),
    ]
    again = ["--unprofiled-step", "eager=2.1ms", "--unprofiled-step", "graph=0.51ms"]
    assert told(capsys, "analyze", run, *again)["modes"] == rows
    cells = told(capsys, "analyze", run, *again)["cells"]
    notes = [r["text"] for r in cells[0]["analysis"]["quality"]["reasons"]]
    assert any("stands in place of what the run itself measured, 3.00 ms" in t for t in notes)
    alone = told(capsys, "analyze", f"{run}/eager", "--unprofiled-step", "2.1ms")
    assert alone["rate"]["source"] == "given"
    assert "name it: eager=TIME" in refusal(capsys, "analyze", run, "--unprofiled-step", "2ms")
    assert "no mode 'eagre'" in refusal(capsys, "analyze", run, "--unprofiled-step", "eagre=2ms")
    assert "no run folder" in refusal(capsys, "analyze", EAGER, "--unprofiled-step", "eager=2ms")
    sides = [f"{run}/eager", f"{run}/graph"]
    given = ["--unprofiled-step", "2.1ms", "--unprofiled-step", "-"]
    pair = told(capsys, "compare", *sides, *given)["pairs"][0]
    step = next(row for row in pair["metrics"] if row["id"] == "step_time")
    assert [step[side]["value"] for side in ("baseline", "candidate")] == [2_100_000, 501_000]


def test_a_sweep_takes_none(capsys: Out) -> None:
    said = refusal(capsys, "analyze", str(SAMPLES / "sweep_1b"), "--unprofiled-step", "2ms")
    assert "each of its points has a step of its own" in said


def test_a_baseline_keeps_what_was_given_when_it_was_saved(tmp_path: Path, capsys: Out) -> None:
    base = str(tmp_path / "base.gaptrace.json")
    assert main(["save", EAGER, "-o", base, "--unprofiled-step", "2.1ms"]) == 0
    capsys.readouterr()
    kept = json.loads(Path(base).read_text())["recordings"][0]
    assert (kept["unprofiled_ns"], kept["given"]) == (2_100_000, True)
    given = ["--unprofiled-step", "-", "--unprofiled-step", "2.2ms"]
    pair = told(capsys, "compare", base, EAGER, *given)["pairs"][0]
    step = next(row for row in pair["metrics"] if row["id"] == "step_time")
    assert [step[side]["value"] for side in ("baseline", "candidate")] == [2_100_000, 2_200_000]
    said = refusal(capsys, "compare", base, EAGER, *given[2:], *given[2:])
    assert "holds its times already" in said
    assert "gaptrace save" in said
