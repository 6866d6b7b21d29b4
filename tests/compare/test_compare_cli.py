"""`compare`, `save` and `metrics` as they are typed: output, exit codes, files, GitHub."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from gaptrace.cli.compare import compare
from gaptrace.cli.gating import annotation, settings, tell_github
from gaptrace.cli.metrics import metrics
from gaptrace.cli.save import save
from gaptrace.errors import GaptraceError, OptionError
from gaptrace.results.codec import from_data, to_data
from gaptrace.results.comparison import COMPARISON, ComparisonResult
from tests.compare.runs import write_run

if TYPE_CHECKING:
    from pathlib import Path

    import click

EAGER, COMPILED, GRAPH = (
    f"sample_traces/small_decoder_{mode}.json.gz" for mode in ("eager", "compiled", "graph")
)


def run(command: click.Command, *args: object) -> Result:
    result = CliRunner().invoke(command, [str(arg) for arg in args], standalone_mode=False)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def data(*args: object) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(run(compare, "--json", *args).stdout)
    return body


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs of four modes and three repeats; the second has slower launches."""
    folder = tmp_path_factory.mktemp("runs")
    return write_run(folder / "base"), write_run(folder / "slow", slower_ns=3_000)


def test_the_report_of_two_traces() -> None:
    result = run(compare, EAGER, COMPILED)
    assert result.return_value == 0
    text = result.stdout
    # The eager one was recorded with tensor shapes, which slow its host by nobody knows how much.
    assert text.startswith("Not comparable as profiled: 4.74 ms → 2.09 ms per step; GPU busy time")
    for words in (
        "step time, ms (as profiled)",
        "recorded with shapes on the baseline",
        "in all, exactly",
        "* beyond step noise; run-to-run not measured",
        "next: gaptrace analyze",
    ):
        assert words in text
    assert re.search(r"^kernels per token +125 +62 +−50 +▼ better$", text, re.MULTILINE)
    told = [line for line in text.splitlines() if not line.startswith("next:")]
    assert max(len(line) for line in told) <= 80
    full = run(compare, EAGER, COMPILED, "--full").stdout
    assert "Compiling removed 50 % of the kernels (125 → 62), and GPU busy time" in full
    assert "By name: 13 removed, 14 added" in full
    assert "\x1b[" not in text


def test_the_same_thing_is_within_noise() -> None:
    found = data(COMPILED, COMPILED)
    assert {row["verdict"] for row in found["pairs"][0]["metrics"]} == {"within noise", "withheld"}
    assert found["pairs"][0]["verdict"] == "within noise"
    assert "the same" in found["sentence"]


def test_a_run_alone_is_the_2x2_of_its_modes(runs: tuple[Path, Path]) -> None:
    found = data(runs[0])
    one, two = (runs[0] / "eager" / repeat for repeat in "12")
    assert data(one, two)["pairs"][0]["candidate"]["label"] == "eager/2"
    assert [pair["candidate"]["label"] for pair in found["pairs"]] == [
        "compiled",
        "graph",
        "compiled-graph",
    ]
    square = found["two_by_two"]
    assert square["source"] == "unprofiled"
    assert square["eager"]["step_ns"] == 60_014
    assert (
        "yet GPU busy time grew by 5.50 µs per token, on copy (+9.00 µs: triton_poi copy_ ×1)"
        in (square["compiled_launched"]["words"])
    )
    assert found["sentence"] == square["sentence"]
    text = run(compare, runs[0]).stdout
    assert text.startswith("Better: graph is the fastest of four modes, 21.0 µs per step, 2.86x")
    assert re.search(r"compiled, captured +measured", text)
    full = " ".join(run(compare, runs[0], "--full").stdout.split())
    assert "Compiling removed 25 % of the kernels (4 → 3), yet" in full


def test_repeats_tell_runs_from_steps(runs: tuple[Path, Path]) -> None:
    pair = data(runs[0] / "eager", runs[1] / "eager")["pairs"][0]
    step = next(row for row in pair["metrics"] if row["id"] == "step_time")
    assert (step["verdict"], step["basis"], step["source"]) == (
        "worse",
        "runs and steps",
        "unprofiled",
    )
    assert step["baseline"]["runs"] == [60_007, 60_014, 60_021]
    # The eight periods before profiling; those after it are slower and not counted.
    assert step["baseline"]["n"] == 3 * 8
    assert step["as_profiled"] == [66_000, 78_000]
    assert pair["baseline"]["runs"] == 3
    bridge = pair["bridge"]
    total = sum(part["delta_ns"] for part in bridge["parts"])
    assert bridge["source"] == "unprofiled"
    assert bridge["unprofiled_baseline_ns"] + total == bridge["unprofiled_candidate_ns"]
    assert {part["kind"] for part in bridge["parts"] if part["estimated"]} == {"idle"}
    assert {part["kind"] for part in bridge["parts"] if not part["estimated"]} == {"busy"}


def test_two_runs_meet_mode_by_mode(runs: tuple[Path, Path]) -> None:
    found = data(*runs)
    assert [(p["baseline"]["label"], p["candidate"]["label"]) for p in found["pairs"]] == [
        (f"base/{mode}", f"slow/{mode}")
        for mode in ("eager", "compiled", "graph", "compiled-graph")
    ]
    verdicts = {pair["candidate"]["mode"]: pair["verdict"] for pair in found["pairs"]}
    assert verdicts == {
        "eager": "worse",
        "compiled": "worse",
        "graph": "within noise",
        "compiled-graph": "within noise",
    }


def test_the_json_is_the_result_and_nothing_else(runs: tuple[Path, Path]) -> None:
    found = data(runs[0], "--fail-on", "kernels:1")
    assert found["schema"] == COMPARISON
    result = from_data(found, ComparisonResult, "stdout")
    assert to_data(result) == found
    assert all(pair.sentence and pair.kernel_sentence for pair in result.pairs)
    assert all(gate.text for gate in result.gates)


def test_gates_name_themselves_and_exit_with_1(runs: tuple[Path, Path]) -> None:
    slow = [runs[0] / "eager", runs[1] / "eager"]
    result = run(compare, *slow, "--fail-on", "idle:5%", "--fail-on", "kernels:600")
    assert result.return_value == 1
    assert "gaptrace: gate idle:5% tripped" in result.stderr
    assert "idle rose by 12.0 µs" in result.stderr
    assert "1 gate held" in result.stdout
    assert "✕ tripped" in result.stdout
    full = run(compare, *slow, "--fail-on", "kernels:600", "--full").stdout
    assert re.search(r"✓ held +kernels:600 +base/eager → slow/eager", full)
    assert run(compare, *slow, "--fail-on", "idle:50%").return_value == 0
    assert run(compare, *slow, "--fail-on", "kernels:3").return_value == 1
    graph = [runs[0] / "graph", runs[1] / "graph"]
    assert run(compare, *graph, "--fail-on", "idle:0.0001%").return_value == 0


def test_a_wrong_metric_is_said_with_the_right_one(runs: tuple[Path, Path]) -> None:
    with pytest.raises(OptionError) as refused:
        run(compare, *runs, "--fail-on", "tokens_per_second:2%")
    assert "did you mean tokens_per_s?" in refused.value.hint


def test_limits_from_pyproject(
    runs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = [runs[0] / "eager", runs[1] / "eager"]
    (tmp_path / "pyproject.toml").write_text(
        '[tool.gaptrace]\nfail-on = ["idle:5%"]\n[tool.gaptrace.analyze]\nfail-on = ["kernels:1"]\n'
    )
    below = tmp_path / "src"
    below.mkdir()
    monkeypatch.chdir(below)
    assert run(compare, *slow).return_value == 1
    assert run(compare, *slow, "--fail-on", "idle:50%").return_value == 0
    assert settings("analyze")["fail-on"] == ["kernels:1"]
    assert settings("compare")["fail-on"] == ["idle:5%"]
    (tmp_path / "pyproject.toml").write_text("[tool.gaptrace\n")
    with pytest.raises(OptionError, match="cannot be read"):
        settings("compare")


def test_strict_wants_every_gate_judged() -> None:
    gate = ("--fail-on", "peak_memory:5%")
    assert run(compare, EAGER, COMPILED, *gate).return_value == 0
    result = run(compare, EAGER, COMPILED, *gate, "--strict")
    assert result.return_value == 2
    assert "not judged" in result.stderr


def test_unlike_runs_are_refused_and_forced_under_a_banner(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    other = write_run(
        tmp_path / "other", modes=("eager",), device={"type": "cuda", "name": "NVIDIA A100"}
    )
    with pytest.raises(GaptraceError, match="GPU: NVIDIA H200 against NVIDIA A100"):
        run(compare, runs[0] / "eager", other)
    text = run(compare, runs[0] / "eager", other, "--force").stdout
    assert text.startswith("Runs are not comparable (--force).")
    assert "GPU: NVIDIA H200 against NVIDIA A100" in " ".join(text.split())


def test_failed_modes_are_said(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", modes=("eager", "compiled"), repeats=1, failed=("graph",))
    text = run(compare, folder).stdout
    assert "mode graph was not recorded: the step synchronizes" in text


def test_save_and_compare_with_it(runs: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "base.gaptrace.json"
    result = run(save, runs[0], "-o", out)
    assert f"Wrote {out}" in result.stderr
    assert out.stat().st_size < 100_000
    first = out.read_bytes()
    with pytest.raises(GaptraceError, match="exists"):
        run(save, runs[0], "-o", out)
    run(save, runs[0], "-o", out, "--force")
    assert out.read_bytes() == first
    saved, live = data(out, runs[1]), data(runs[0], runs[1])
    for one, two in zip(saved["pairs"], live["pairs"], strict=True):
        assert one["metrics"] == two["metrics"]
        assert one["bridge"] == two["bridge"]
        assert one["kernels"] == two["kernels"]
        assert one["baseline"]["saved"]
    alone, square = data(out)["two_by_two"], data(runs[0])["two_by_two"]
    assert alone["compiled_launched"] == square["compiled_launched"]
    assert alone["eager"] == {**square["eager"], "label": "drawn/eager"}
    with pytest.raises(OptionError, match=r"ends in \.gaptrace\.json"):
        run(save, runs[0], "-o", tmp_path / "base.json")


def test_files_by_their_ending(tmp_path: Path) -> None:
    out = tmp_path / "c.json"
    run(compare, EAGER, GRAPH, "-o", out, "-o", tmp_path / "c.txt")
    assert json.loads(out.read_text())["schema"] == "gaptrace.comparison/1"
    assert "in all, exactly" in (tmp_path / "c.txt").read_text()
    forms = [tmp_path / f"c{ending}" for ending in (".html", ".md", ".svg")]
    run(compare, EAGER, GRAPH, *(word for path in forms for word in ("-o", path)))
    assert all(path.stat().st_size > 1_000 for path in forms)
    with pytest.raises(OptionError, match="cannot write that kind"):
        run(compare, EAGER, GRAPH, "-o", tmp_path / "c.xlsx")


def test_github_gets_the_summary_and_the_annotations(
    runs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "summary.md"
    page.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    slow = [runs[0] / "eager", runs[1] / "eager"]
    result = run(compare, *slow, "--github", "--fail-on", "idle:5%")
    assert result.return_value == 1
    assert "::error title=gaptrace idle%3A5%25::base/eager → slow/eager: idle rose" in result.stderr
    assert page.read_text().startswith("before\n")
    assert "<!-- gaptrace:report -->" in page.read_text()


def test_the_summary_is_cut_before_github_drops_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    tell_github("ä line\n" * 200_000, ())
    text = page.read_text()
    assert len(text.encode()) <= 900_000
    assert text.rstrip().endswith("_Cut here: the whole report is 1,600,000 bytes._")
    assert annotation("warning", "a:b,c", "100 %\nnext") == (
        "::warning title=a%3Ab%2Cc::100 %25%0Anext"
    )


def test_metrics_are_listed() -> None:
    text = run(metrics).stdout
    assert "tokens_per_s  (tok/s, higher is better)" in text
    body = json.loads(run(metrics, "--json").stdout)
    assert body["schema"] == "gaptrace.metrics/1"
    assert [item["id"] for item in body["metrics"]] == [
        line.split()[0] for line in text.splitlines() if not line.startswith(" ")
    ]


def test_metric_names_complete_in_shells() -> None:
    complete = ShellComplete(compare, {}, "compare", "_COMPARE_COMPLETE")
    found = complete.get_completions(["--fail-on"], "idle")
    assert [item.value for item in found] == ["idle:", "idle_share:"]
