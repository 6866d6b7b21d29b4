"""The first sentence of a run: faster is said only where the repeats say so."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from gaptrace.measure.options import Options
from gaptrace.report.run_text import run_report
from gaptrace.runs.read import read_run
from gaptrace.runs.run import RunAnalysis
from tests.compare.runs import write_run


def with_steps(run: RunAnalysis, steps: dict[str, list[int]]) -> RunAnalysis:
    """The same run with these unprofiled step times of its modes' repeats."""
    cells = []
    for cell in run.cells:
        assert cell.analysis is not None
        head = cell.analysis.headline
        ns = steps[cell.mode][cell.repeat - 1]
        rate = dataclasses.replace(head.rate, unprofiled_step_ns=ns, tokens_per_s=1e9 / ns)
        head = dataclasses.replace(head, rate=rate)
        cells.append(
            dataclasses.replace(cell, analysis=dataclasses.replace(cell.analysis, headline=head))
        )
    return dataclasses.replace(run, cells=tuple(cells))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> RunAnalysis:
    """Eager and compiled, two repeats of each."""
    folder = write_run(
        tmp_path_factory.mktemp("two") / "run", modes=("eager", "compiled"), repeats=2
    )
    return read_run(str(folder), Options(), use_cache=False)


@pytest.mark.parametrize(
    ("eager", "compiled", "said"),
    [
        ([60_000, 62_000], [45_000, 46_000], "compiled is fastest"),
        ([60_000, 62_000], [45_000, 46_000], "1.3 times as fast as eager"),
        ([50_000, 62_000], [45_000, 51_000], "eager is as fast within the spread of the repeats"),
        ([45_000, 51_000], [50_000, 62_000], "compiled is as fast within the spread"),
        ([45_000, 46_000], [60_000, 62_000], "compiled is 1.3 times slower"),
    ],
)
def test_faster_is_beyond_the_spread(
    two: RunAnalysis, eager: list[int], compiled: list[int], said: str
) -> None:
    text = run_report(with_steps(two, {"eager": eager, "compiled": compiled}), color=False)
    assert said in " ".join(text.split("\n\n")[0].split())


def test_what_to_call_next_can_be_pasted(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "my run", modes=("eager",), repeats=2)
    text = run_report(read_run(str(folder), Options(), use_cache=False), color=False)
    assert f"next: gaptrace analyze '{folder}/eager/1'" in text
