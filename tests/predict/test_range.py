"""The range of a captured step is what the recorded runs say, each left out in turn."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

import pytest

from gaptrace.analysis import measured
from gaptrace.measure.options import Options
from gaptrace.predict import predict, predict_run
from gaptrace.predict.constants import CAPTURED_RANGE, REST_SEEN
from gaptrace.reading.loading import load
from gaptrace.runs.read import read_run

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "gaptrace/predict/README.md"
CORPUS = os.environ.get("GAPTRACE_CORPUS")
# Student's t, 99 % both ways, by degrees of freedom.
T99 = {10: 3.169, 11: 3.106}
SCORES = {"eager": "graph_step", "compiled": "compiled_graph_step_from_compiled"}


@dataclass(frozen=True)
class Row:
    """A run of the page's table, times in ms."""

    run: str
    base: str
    predicted: float
    measured: float
    ratio: float
    left_out: tuple[float, float]
    inside: str


def rows() -> list[Row]:
    section = PAGE.read_text().partition("### How far captured steps were off")[2]
    section = section.partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][2:]
    found = []
    for line in lines:
        run, base, predicted, measured, ratio, left_out, inside = (
            cell.strip() for cell in line.strip("| ").split("|")
        )
        low, high = map(float, left_out.split(" to "))
        found.append(
            Row(run, base, float(predicted.split()[0]), float(measured.split()[0]), float(ratio),
                (low, high), inside.strip("*"))
        )  # fmt: skip
    return found


def interval(ratios: list[float]) -> tuple[float, float]:
    """Where one more ratio lies with 99 %, from the logarithms of these."""
    logs = [math.log(ratio) for ratio in ratios]
    half = T99[len(logs) - 1] * stdev(logs) * math.sqrt(1 + 1 / len(logs))
    return math.exp(mean(logs) - half), math.exp(mean(logs) + half)


def test_the_range_is_that_of_all_runs_and_holds_each() -> None:
    ratios = [row.ratio for row in rows()]
    low, high = interval(ratios)
    assert (round(low, 2), round(high, 2)) == CAPTURED_RANGE
    assert CAPTURED_RANGE[0] < min(ratios)
    assert max(ratios) < CAPTURED_RANGE[1]


def test_each_run_against_what_the_others_say() -> None:
    table = rows()
    for at, row in enumerate(table):
        assert row.ratio == pytest.approx(row.measured / row.predicted, abs=1e-3)
        others = [other.ratio for i, other in enumerate(table) if i != at]
        assert interval(others) == pytest.approx(row.left_out, abs=1e-3)
        held = row.left_out[0] <= row.ratio <= row.left_out[1]
        assert row.inside == ("yes" if held else "no")
    assert [row.run.split(",")[0] for row in table if row.inside == "no"] == ["plain"]


@pytest.mark.parametrize("name", ["dense_1b", "hybrid", "stacked_bf16", "stacked_int4"])
def test_the_table_is_what_the_samples_give(name: str) -> None:
    found = predict_run(
        read_run(str(ROOT / "sample_traces" / name), Options(), use_cache=False)
    ).score
    for row in (row for row in rows() if row.run == name):
        (item,) = [item for item in found if item.id == SCORES[row.base]]
        assert item.predicted / 1e6 == pytest.approx(row.predicted, rel=1e-3)
        assert item.realised / 1e6 == pytest.approx(row.measured, rel=1e-3)
        assert item.inside


@pytest.mark.parametrize(
    ("run", "base", "path"),
    [
        ("llama4", "eager", ROOT / "tests/data/llama4_eager.json.gz"),
        ("gpt2_4", "eager", ROOT / "tests/data/gpt2_4_eager.json.gz"),
        ("small_decoder", "eager", ROOT / "sample_traces/small_decoder_eager.json.gz"),
        *(
            (name.split("_")[0].replace("gpt2", "gpt2_4"), base, Path(CORPUS or "") / "h200" / name)
            for name, base in (
                ("llama4_compiled.json.gz", "compiled"),
                ("gpt2_4_compiled.json.gz", "compiled"),
                ("plain_eager.json.gz", "eager"),
            )
            if CORPUS
        ),
    ],
    ids=str,
)
def test_the_table_is_what_bare_traces_give(run: str, base: str, path: Path) -> None:
    (row,) = [row for row in rows() if row.run.split(",")[0] == run and row.base == base]
    found = predict(measured(load(path), Options())).capture
    assert found.predicted_step_ns is not None
    assert found.predicted_step_ns / 1e6 == pytest.approx(row.predicted, rel=1e-3)
    assert found.range_ns is not None
    assert found.range_ns[0] <= row.measured * 1e6 <= found.range_ns[1]
    assert found.parts_ns is not None
    assert 1 - found.parts_ns.busy / found.predicted_step_ns <= REST_SEEN + 0.001
