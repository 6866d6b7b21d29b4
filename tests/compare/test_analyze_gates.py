"""Gates on one run: absolute bounds, from flags and from pyproject.toml."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gaptrace.analysis import analyze
from gaptrace.cli.gating import (
    analyze_gates,
    finish_analyze,
    groups_of,
    judge_analyses,
    say_gates,
    unjudged,
)
from gaptrace.errors import OptionError
from gaptrace.measure.options import Options
from tests.builders import decode_trace, op, trace_of
from tests.compare.runs import write_run

if TYPE_CHECKING:
    from pathlib import Path

    from gaptrace.results.comparison import GateResult

# 4 kernels of 2 us and 22 us of idle in 30 us.
TRACE = {"steps": 8, "kernels": 4, "kernel_ns": 2_000, "gap_ns": 3_000, "between_ns": 10_000}


def judged(*flags: str) -> tuple[GateResult, ...]:
    analysis = analyze(decode_trace(**TRACE))
    return judge_analyses([("run", [analysis])], analyze_gates({"fail_on": flags}))


def test_bounds_hold_or_trip(capsys: pytest.CaptureFixture[str]) -> None:
    results = judged("idle_share:40%", "kernels:4", "idle:22us", "idle:21.9us", "tokens_per_s:1e9")
    assert [result.status for result in results] == [
        "tripped",
        "held",
        "held",
        "tripped",
        "tripped",
    ]
    assert say_gates(results) == 1
    text = capsys.readouterr().err
    assert "gate idle_share:40% tripped [run]: idle_share is 73 %: 33.3 points over" in text
    assert "kernels" not in text


def test_nothing_tripped_is_0() -> None:
    assert say_gates(judged("kernels:4")) == 0
    assert judged() == ()


def test_a_trace_without_gpu_work_cannot_be_judged() -> None:
    empty = analyze(trace_of(op("aten::mm", at=0, dur=5)))
    results = judge_analyses([("run", [empty])], analyze_gates({"fail_on": ("kernels:4",)}))
    assert unjudged(results)
    assert say_gates(results) == 0


def test_percentages_need_something_to_be_relative_to() -> None:
    with pytest.raises(OptionError, match="nothing to be relative to"):
        judged("idle:5%")


def test_shared_settings_lend_their_bounds_but_not_their_percentages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "pyproject.toml"
    page.write_text('[tool.gaptrace]\nfail-on = ["idle:5%", "idle_share:1%", "kernels:3"]\n')
    assert [result.status for result in judged()] == ["tripped"]
    assert [result.gate for result in judged("kernels:9")] == ["kernels:9"]
    page.write_text(
        '[tool.gaptrace]\nfail-on = ["idle:5%"]\n'
        '[tool.gaptrace.analyze]\nfail-on = ["idle_share:40%"]\n'
    )
    assert [result.gate for result in judged()] == ["idle_share:40%"]


def test_the_end_of_analyze(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from gaptrace.runs.read import read_run

    folder = write_run(tmp_path / "r", modes=("eager", "graph"), repeats=2)
    run = read_run(str(folder), Options(), use_cache=False)
    lone = analyze(decode_trace(**TRACE))
    assert [label for label, _ in groups_of([run, lone])] == [
        "drawn/eager",
        "drawn/graph",
        "<bytes>",
    ]
    page = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    plain = {"redact": False, "strict": False}
    values = {"fail_on": ("launches:1",), "github": True, **plain}
    assert finish_analyze([run], analyze_gates(values), values) == 1
    text = capsys.readouterr().err
    assert "gate launches:1 tripped [drawn/eager]: launches is 4" in text
    assert "::error title=gaptrace launches%3A1::drawn/eager: launches is 4" in text
    assert page.read_text().startswith("<!-- gaptrace:report -->")
    calm = {"fail_on": ("launches:4",), "github": False, **plain}
    assert finish_analyze([run], analyze_gates(calm), calm) == 0


def test_settings_of_a_wrong_shape_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool]\ngaptrace = 5\n")
    with pytest.raises(OptionError, match="is not a table"):
        judged()
