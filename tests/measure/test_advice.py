"""Findings against what the run folders themselves show: advice, causes, and what they may win."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from gaptrace import load
from gaptrace.analysis import analyze
from gaptrace.findings import claims_of
from gaptrace.findings.siblings import Sibling, sibling_of, with_siblings
from gaptrace.measure.gaps import CAUSES
from gaptrace.measure.options import Options
from gaptrace.measure.view import Needs
from gaptrace.predict import predict
from gaptrace.results.analysis import Finding
from gaptrace.runs.read import read_run
from gaptrace.runs.run import RunAnalysis
from gaptrace.vocabulary import NOT_THE_HOSTS

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_traces"
RUNS = sorted({path.parents[2] for path in SAMPLES.glob("**/run.json") if path.parent.name == "1"})
TRACES = sorted(p for p in SAMPLES.glob("**/*.json.gz") if "execution" not in p.name)
BEGIN, END = "<!-- advice: begin -->\n", "<!-- advice: end -->\n"


class Advice(NamedTuple):
    """One finding whose advice another mode of its run followed."""

    run: str
    mode: str
    finding: Finding
    other: str
    gained: float | None


def _read(folder: Path) -> RunAnalysis:
    return read_run(str(folder), Options(), use_cache=False)


def advice_of(folder: Path) -> list[Advice]:
    run = _read(folder)
    assert run.result is not None
    rows = {row.mode: row for row in run.result.modes}
    found = []
    for cell in run.cells:
        if cell.analysis is None or cell.repeat != 1:
            continue
        tokens = cell.analysis.headline.tokens_per_step or 1
        for finding in cell.analysis.result.findings:
            other = rows.get(sibling_of(finding.id, cell.mode))
            if other is None or finding.ceiling_ns_per_token <= 0:
                continue
            shown = finding.quantities.get("shown")
            assert (shown is None) == (other.step_ns is None), finding.text
            gained = None if shown is None or shown.value is None else shown.value / tokens
            name = str(folder.relative_to(SAMPLES))
            found.append(Advice(name, cell.mode, finding, other.mode, gained))
    return found


def _table(rows: list[Advice]) -> str:
    lines = [
        "| run | mode | finding | at most | the run shows | of it |",
        "| --- | --- | --- | ---: | ---: | ---: |",
    ]
    for run, mode, finding, other, gained in rows:
        most = finding.ceiling_ns_per_token / 1e6
        shown = f"`{other}` failed" if gained is None else f"`{other}` {gained / 1e6:+.3g} ms"
        share = "" if gained is None else f"{gained / finding.ceiling_ns_per_token:.0%}"
        title = f"{finding.id} {finding.title}"
        lines.append(f"| `{run}` | {mode} | {title} | {most:.3g} ms | {shown} | {share} |")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def advice() -> list[Advice]:
    return [row for folder in RUNS for row in advice_of(folder)]


def test_advice_wins_at_most_its_ceiling_where_the_run_shows_it(advice: list[Advice]) -> None:
    """Compiling changes what the GPU does, too: its findings count launches and gaps alone."""
    assert len(advice) >= 12
    for run, mode, finding, _, gained in advice:
        if gained is not None and finding.id in ("GT101", "GT402"):
            assert gained <= 1.03 * finding.ceiling_ns_per_token, (run, mode, finding.id)
            assert gained >= 0.8 * finding.ceiling_ns_per_token, (run, mode, finding.id)
        if finding.id == "GT302":
            assert gained is not None
            assert 0.9 * finding.ceiling_ns_per_token < gained < 1.03 * finding.ceiling_ns_per_token


def test_where_the_run_refutes_advice_the_finding_says_so(advice: list[Advice]) -> None:
    for _, _, finding, other, gained in advice:
        if gained is None:
            assert f"In this run {other} failed" in finding.text
        else:
            words = "no less than" if gained <= 0 else "less than the"
            assert f"In this run {other} took" in finding.text
            assert words in finding.text
    assert any(gained is not None and gained < 0 for *_, gained in advice)
    assert any(gained is None for *_, gained in advice)


def test_the_table_of_advice_is_what_the_runs_show(
    advice: list[Advice], request: pytest.FixtureRequest
) -> None:
    path = SAMPLES / "README.md"
    text = path.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    wanted = before + BEGIN + _table(advice) + END + after
    if request.config.getoption("--golden"):
        path.write_text(wanted, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == wanted


def test_a_mode_that_failed_is_told_with_its_reason() -> None:
    (finding,) = [
        f for f in analyze(load(SAMPLES / "small_decoder_eager.json.gz")).result.findings
        if f.id == "GT101"
    ]  # fmt: skip
    told = with_siblings(finding, "eager", 5e6, {"graph": Sibling(None, "a sync in the step")})
    assert told.text.endswith("In this run graph failed (a sync in the step).")
    assert with_siblings(finding, "eager", 5e6, {"compiled": Sibling(1e6)}) == finding
    assert with_siblings(finding, "eager", None, {"graph": Sibling(1e6)}) == finding


@pytest.mark.parametrize("path", TRACES, ids=lambda p: str(p)[-44:])
def test_the_first_finding_is_about_the_cause_that_the_headline_names(path: Path) -> None:
    analysis = analyze(load(path))
    result, head = analysis.result, analysis.result.headline
    if head.largest_cause is None or head.largest_cause in NOT_THE_HOSTS or not result.findings:
        return
    view, claims = claims_of(analysis, predict(analysis))
    first = claims[0]
    assert first.rule == result.findings[0].id
    if view.known < Needs.CAUSES or first.ceiling <= 0:
        return
    assert first.gaps is not None
    counted = view.gap_step >= 0
    cause = view.device.gaps.cause_ns[:, CAUSES.index(head.largest_cause)]
    inside = int(cause[first.gaps & counted].sum())
    assert inside >= 0.5 * int(cause[counted].sum()), (first.rule, head.largest_cause)


@pytest.mark.parametrize("path", TRACES, ids=lambda p: str(p)[-44:])
def test_no_gain_is_more_than_the_idle_time_it_is_won_from(path: Path) -> None:
    analysis = analyze(load(path))
    head = analysis.result.headline
    idle = head.token_idle_ns
    _, claims = claims_of(analysis, predict(analysis))
    for claim in claims:
        if claim.gaps is not None and claim.ops is None and idle is not None:
            assert claim.ceiling <= max(idle, 0) * (1 + 1e-9) or not np.isfinite(idle), claim.rule
