"""Runs and sweeps of several modes: one verdict that leads with the worst, in every format."""

from __future__ import annotations

import gzip
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from gaptrace.cli.compare import compare
from gaptrace.cli.save import save
from gaptrace.errors import GaptraceError, OptionError
from gaptrace.results.codec import from_data, to_data
from gaptrace.results.comparison import ComparisonResult
from tests.builders import anchor, events_json
from tests.compare.runs import manifest, step_events, write_run
from tests.compare.test_compare_cli import run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from click.testing import Result

MODES = ("eager", "compiled", "graph", "compiled-graph")
STEP_NS = {"eager": 60_000, "compiled": 48_000, "graph": 24_000, "compiled-graph": 28_000}
# `.json` aside, what people read.
TEXTS = (".txt", ".md", ".html")


def write(folder: Path, steps: Mapping[str, int], *, batch: int | None = None) -> Path:
    """A run folder of three repeats a mode with these unprofiled step times in ns."""
    for mode, step in steps.items():
        for repeat in (1, 2, 3):
            place = folder / mode / str(repeat)
            place.mkdir(parents=True)
            body = manifest(mode, repeat, step_ns=step + 7 * repeat)
            if batch is not None:
                body |= {
                    "point": {"batch": batch, "length": None},
                    "step": {"tokens": batch, "batch": batch},
                }
            with gzip.open(place / "trace.json.gz", "wb") as file:
                file.write(events_json(anchor(), *step_events(mode)))
            (place / "run.json").write_text(json.dumps(body), encoding="utf-8")
    return folder


def sweep(folder: Path, points: Mapping[int, Mapping[str, int]]) -> Path:
    """A sweep over batch sizes with these unprofiled step times."""
    for batch, steps in points.items():
        write(folder / f"batch-{batch}", steps, batch=batch)
    return folder


def every_format(folder: Path, *args: object) -> tuple[Result, dict[str, str]]:
    """A comparison as the terminal has it, and as each file does, by its ending."""
    files = {ending: folder / f"out{ending}" for ending in (*TEXTS, ".json")}
    asked = [word for file in files.values() for word in ("-o", file)]
    result = run(compare, *args, *asked, "--force")
    return result, {ending: file.read_text() for ending, file in files.items()}


def flat(text: str) -> str:
    """Text without line breaks, tags and escapes, so that a sentence can be looked for in it."""
    text = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>|\\", "", text).split())


@pytest.fixture(scope="module")
def worse_by_a_quarter(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs of four modes; of the second the third mode is slower by 28 %."""
    folder = tmp_path_factory.mktemp("quarter")
    slower = {**STEP_NS, "graph": STEP_NS["graph"] * 128 // 100}
    return write(folder / "base", STEP_NS), write(folder / "new", slower)


ANSWER = "Worse in 1 of 4 modes; graph: 24.0 µs → 30.7 µs per step, +28 %"


def test_one_worse_mode_of_four_leads_in_every_format(
    worse_by_a_quarter: tuple[Path, Path], tmp_path: Path
) -> None:
    gate = ("--fail-on", "tokens_per_s:5%")
    result, texts = every_format(tmp_path, *worse_by_a_quarter, *gate)
    assert result.return_value == 1
    assert "gate tokens_per_s:5% tripped [base/graph → new/graph]" in result.stderr
    said = f"{ANSWER}; gate tokens_per_s:5% tripped."
    for text in (result.stdout, *(texts[ending] for ending in TEXTS)):
        assert said in flat(text)
        # Nothing is called the same before the change for the worse.
        assert "the same" not in flat(text).partition(ANSWER)[0]
    assert flat(result.stdout).startswith(said)
    assert f"### {said}" in texts[".md"]
    title = re.search(r"<title>(.*?)</title>", texts[".html"])
    assert title is not None
    assert title[1] == "base → new: gate tripped, worse in 1 of 4 modes · gaptrace"
    found = json.loads(texts[".json"])
    assert found["sentence"] == said
    verdicts = [pair["verdict"] for pair in found["pairs"]]
    assert verdicts == ["within noise", "within noise", "worse", "within noise"]
    assert [g["status"] for g in found["gates"]] == ["held", "held", "tripped", "held"]


def test_without_a_gate_it_is_said_and_exits_with_0(
    worse_by_a_quarter: tuple[Path, Path],
) -> None:
    result = run(compare, *worse_by_a_quarter)
    assert result.return_value == 0
    assert flat(result.stdout).startswith(f"{ANSWER}.")


def test_runs_that_are_alike_are_said_to_be(tmp_path: Path) -> None:
    runs = [write(tmp_path / name, STEP_NS) for name in ("base", "new")]
    result, texts = every_format(tmp_path, *runs, "--fail-on", "tokens_per_s:5%")
    assert result.return_value == 0
    assert flat(result.stdout).startswith("No change beyond noise in 4 of 4 modes.")
    assert json.loads(texts[".json"])["sentence"] == "No change beyond noise in 4 of 4 modes."


def test_a_gate_that_trips_on_another_figure_comes_before_the_step(tmp_path: Path) -> None:
    """One kernel more in one mode, and steps as long as before."""
    runs = [write(tmp_path / name, STEP_NS) for name in ("base", "new")]
    for repeat in "123":
        with gzip.open(runs[1] / "graph" / repeat / "trace.json.gz", "wb") as file:
            events = step_events("graph")
            last = [item for item in events if item["cat"] == "kernel"]
            for item in last[::4]:
                half = item["dur"] // 2
                events.append({**item, "ts": item["ts"] + half, "dur": item["dur"] - half})
                item["dur"] = half
            file.write(events_json(anchor(), *events))
    result = run(compare, *runs, "--fail-on", "kernels:0%")
    assert result.return_value == 1
    assert flat(result.stdout).startswith(
        "Gate kernels:0% tripped on graph; no change beyond noise in 4 of 4 modes."
    )


def test_the_modes_of_one_run_still_lead_with_the_fastest(
    worse_by_a_quarter: tuple[Path, Path],
) -> None:
    base = worse_by_a_quarter[0]
    assert run(compare, base).stdout.startswith("Better: graph is the fastest of four modes")
    gated = run(compare, base, "--fail-on", "busy:5%")
    assert gated.return_value == 1
    assert gated.stdout.startswith("2 gates tripped, busy:5% first on eager → compiled; better:")


POINTS = {1: STEP_NS, 8: STEP_NS}


@pytest.fixture(scope="module")
def sweeps(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two sweeps; of the second one cell is slower by a quarter, one is faster, and one more."""
    folder = tmp_path_factory.mktemp("sweeps")
    base = {1: STEP_NS, 8: STEP_NS}
    new: dict[int, dict[str, int]] = {
        1: {**STEP_NS, "compiled": 40_000},
        8: {**STEP_NS, "graph": 30_000},
        64: {"graph": 90_000},
    }
    del new[8]["eager"]
    return sweep(folder / "base", base), sweep(folder / "new", new)


def test_two_sweeps_are_compared_cell_by_cell(sweeps: tuple[Path, Path], tmp_path: Path) -> None:
    gate = ("--fail-on", "tokens_per_s:5%")
    result, texts = every_format(tmp_path, *sweeps, *gate)
    assert result.return_value == 1
    said = (
        "Worse in 1 of 7 cells; batch 8, graph: 24.0 µs → 30.0 µs per step, +25 %; "
        "gate tokens_per_s:5% tripped."
    )
    for text in (result.stdout, *(texts[ending] for ending in TEXTS)):
        assert said in flat(text)
        assert "+25 % worse" in flat(text)
        assert "only in the candidate, so not compared: batch 64, graph" in flat(text)
        assert "only in the baseline, so not compared: batch 8, eager" in flat(text)
    rows = [line.split() for line in result.stdout.splitlines()]
    start = rows.index(["batch", *MODES])
    cells = [" ".join(row) for row in rows[start + 1 : start + 4]]
    assert re.fullmatch(r"1 \S+ % noise −17 % better \S+ % noise \S+ % noise", cells[0])
    assert re.fullmatch(r"8 only in base \S+ % noise \+25 % worse \S+ % noise", cells[1])
    assert cells[2] == "64 only in cand"
    # The worst cell in full, the others in the matrix alone.
    assert [line for line in result.stdout.splitlines() if line.startswith("── ")] == [
        line for line in result.stdout.splitlines() if "batch 8, graph ──" in line
    ]
    assert max(map(len, result.stdout.split("next:")[0].splitlines())) <= 80
    assert f"gaptrace compare {sweeps[0]}/batch-8/graph {sweeps[1]}/batch-8/graph" in result.stdout
    found = json.loads(texts[".json"])
    assert to_data(from_data(found, ComparisonResult, "it")) == found
    assert len(found["gates"]) == len(found["pairs"]) == 7
    lone = [(c["batch"], c["mode"], c["only"]) for c in found["cells"] if c["pair"] is None]
    assert lone == [(8, "eager", "baseline"), (64, "graph", "candidate")]
    for cell in found["cells"]:
        if cell["pair"] is not None:
            pair = found["pairs"][cell["pair"]]
            for side in (pair["baseline"], pair["candidate"]):
                assert (side["batch"], side["mode"]) == (cell["batch"], cell["mode"])
                assert not side["saved"]


def test_the_same_sweep_twice_is_alike(sweeps: tuple[Path, Path]) -> None:
    result = run(compare, sweeps[0], sweeps[0], "--fail-on", "kernels:0%")
    assert result.return_value == 0
    assert flat(result.stdout).startswith("No change beyond noise in 8 of 8 cells.")
    assert run(compare, sweeps[0], sweeps[0], "--full").stdout.count("── batch") == 8


def test_a_sweep_meets_a_sweep_and_nothing_else(sweeps: tuple[Path, Path], tmp_path: Path) -> None:
    point = f"{sweeps[0]}/batch-1"
    for others in ((), (sweeps[0] / "batch-1",), (sweeps[1], sweeps[1])):
        with pytest.raises(OptionError, match="is compared with one other sweep") as refused:
            run(compare, sweeps[0], *others)
        assert point in refused.value.hint
    elsewhere = sweep(tmp_path / "elsewhere", {3: {"graph": 9_000}})
    with pytest.raises(OptionError, match="no mode at the same batch size and length"):
        run(compare, sweeps[0], elsewhere)
    with pytest.raises(GaptraceError, match="is a sweep of 2 points"):
        run(save, sweeps[0], "-o", tmp_path / "s.gaptrace.json")


def test_cells_that_failed_are_said(tmp_path: Path) -> None:
    base = sweep(tmp_path / "base", {1: {"eager": 9_000}, 8: {"eager": 9_000}})
    new = sweep(tmp_path / "new", {1: {"eager": 9_000}, 8: {"eager": 9_000}})
    body: dict[str, Any] = manifest("graph", 1, step_ns=9_000)
    failed = write_run(tmp_path / "failed", modes=(), repeats=1, failed=("graph",))
    (failed / "graph").rename(new / "batch-8" / "graph")
    run_json = new / "batch-8" / "graph" / "1" / "run.json"
    body |= json.loads(run_json.read_text()) | {"point": {"batch": 8, "length": None}}
    run_json.write_text(json.dumps(body))
    text = flat(run(compare, base, new).stdout)
    assert "mode new/batch-8/graph was not recorded: the step synchronizes" in text
