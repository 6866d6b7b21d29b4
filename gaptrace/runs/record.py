"""A run as plain data: `gaptrace.runs/1`, its modes side by side, each figure computed once."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from gaptrace.analysis import Analysis, analyze
from gaptrace.document.answers import plain, run_answer
from gaptrace.findings.siblings import Sibling, with_siblings
from gaptrace.measure.options import GivenStep, Options
from gaptrace.measure.record import first_line
from gaptrace.predict.predict import predict_run
from gaptrace.quantity import EXACT, UNPROFILED
from gaptrace.results import run as r
from gaptrace.results.manifest import Autotune
from gaptrace.results.prediction import SquareCell
from gaptrace.runs.run import CellResult, RunAnalysis, host_dispatch, with_bytes_of
from gaptrace.runs.startup import seam_prices, tuning_gain

_SECTIONS = ("piecewise", "buckets", "autotune", "cudagraph_trees")


def finished(run: RunAnalysis) -> RunAnalysis:
    """The run with its Result: what was not recorded predicted, and the answer in words."""
    run = dataclasses.replace(run, cells=_beside_each_other(run))
    recorded = any(cell.analysis is not None for cell in run.cells)
    found = run_result(run, predict_run(run).square if recorded else {})
    found = msgspec.structs.replace(found, sentence=plain(run_answer(found)))
    return dataclasses.replace(run, result=found)


def _beside_each_other(run: RunAnalysis) -> tuple[CellResult, ...]:
    """The cells, each finding with what the other modes show of its advice."""
    siblings: dict[str, Sibling] = {}
    for row in _rows(run):
        timed = row.step_ns if row.basis == UNPROFILED else None
        if timed is not None or row.step_ns is None:
            siblings[row.mode] = Sibling(timed, "" if row.step_ns else row.reason or "")
    return tuple(_beside(cell, siblings) for cell in run.cells)


def _beside(cell: CellResult, siblings: Mapping[str, Sibling]) -> CellResult:
    analysis, own = cell.analysis, siblings.get(cell.mode)
    if analysis is None or own is None:
        return cell
    findings = tuple(
        with_siblings(finding, cell.mode, own.step_ns, siblings)
        for finding in analysis.result.findings
    )
    told = msgspec.structs.replace(analysis.result, findings=findings)
    return dataclasses.replace(cell, analysis=dataclasses.replace(analysis, result=told))


def with_given(run: RunAnalysis, mode: str, given: GivenStep) -> RunAnalysis:
    """The run with a step that was given by hand for one of its modes, analysed anew."""
    eager, options = run.representative("eager"), Options()
    if eager is not None and mode != "eager":
        options = with_bytes_of(eager, options)
    options = dataclasses.replace(options, given=given)
    cells = tuple(
        cell
        if cell.mode != mode or cell.analysis is None
        else dataclasses.replace(cell, analysis=analyze(cell.analysis.trace, options))
        for cell in run.cells
    )
    return finished(dataclasses.replace(run, cells=cells))


def run_result(run: RunAnalysis, square: Mapping[str, SquareCell]) -> r.RunResult:
    """All modes of a run side by side; square: the 2x2 with what was not recorded predicted."""
    rows = _rows(run)
    return r.RunResult(
        name=run.name,
        path=run.path,
        startup=run.starts,
        autotuning=tuning_gain(run),
        missing=run.missing,
        seam_prices=seam_prices(run),
        cells=tuple(
            r.RunCell(
                cell.mode,
                cell.repeat,
                cell.status,
                cell.reason or None,
                None if cell.analysis is None else cell.analysis.result,
                cell.path,
            )
            for cell in run.cells
        ),
        facts=run.facts,
        modes=rows,
        fastest=next((row.mode for row in rows if row.fastest), None),
        square=dict(square),
        recorded={mode: found for mode in run.modes if (found := _recorded(run, mode)) is not None},
        notes=_notes(run),
        ranks=run.ranks,
    )


def _rows(run: RunAnalysis) -> tuple[r.ModeRow, ...]:
    chosen = {mode: run.representative(mode) for mode in run.modes}
    times = {
        m: ns for m, a in chosen.items() if a is not None and (ns := a.headline.step_ns) is not None
    }
    # A mode that computes something else is no faster way to compute the same.
    wrong = _wrong(run)
    best = min((m for m in times if m not in wrong), key=lambda mode: times[mode], default=None)
    base = "eager" if "eager" in times else None
    ends = (times.get(base or ""), times.get(best or ""))
    return tuple(_row(run, mode, chosen[mode], best, ends) for mode in run.modes)


def _wrong(run: RunAnalysis) -> set[str]:
    """Modes of which a repeat was compared with another mode that computes something else.

    Being equal to such a mode is no better.
    """
    compared = [
        (cell.mode, (found.against or "").split("/")[0], found.status)
        for cell in run.cells
        if (found := cell.manifest.outputs).against
    ]
    wrong = {mode for mode, other, status in compared if status == "different" and mode != other}
    return wrong | {mode for mode, other, _ in compared if other in wrong}


def _row(
    run: RunAnalysis,
    mode: str,
    analysis: Analysis | None,
    best: str | None,
    ends: tuple[int | None, int | None],
) -> r.ModeRow:
    cells = [cell for cell in run.cells if cell.mode == mode]
    if analysis is None:
        cell = next((cell for cell in cells if cell.reason), cells[0])
        return _not_recorded(cell)
    head = first_line(analysis.headline)
    dispatch, bound, basis = host_dispatch(analysis)
    limits, steps = analysis.ceilings, analysis.headline.steps
    assert analysis.result is not None
    findings = analysis.result.findings
    step = analysis.headline.step_ns
    eager, shortest = ends
    return r.ModeRow(
        mode=mode,
        status=next((c.status for c in cells if c.analysis is analysis), "ok"),
        reason=next((c.reason for c in cells if c.reason), ""),
        repeats=len(run.step_times(mode)),
        basis=head.basis,
        step_ns=head.step_ns,
        tokens_per_s=head.tokens_per_s,
        spread=run.step_spread(mode),
        idle_share=head.idle_share,
        idle_basis=head.idle_basis,
        kernels=steps["kernels"].median,
        launches=steps["launches"].median,
        host_dispatch_ns=dispatch,
        host_bound=bound,
        host_basis=basis,
        binding=limits.binding,
        paced_by=limits.paced_by,
        verdict=analysis.quality.verdict,
        finding=findings[0].id if findings else None,
        times_eager=eager / step if eager and step else None,
        times_slower=step / shortest if shortest and step else None,
        fastest=mode == best,
        as_fast_as_best=best is not None and mode != best and _overlap(run, best, mode),
        path=analysis.path,
    )


def _not_recorded(cell: CellResult) -> r.ModeRow:
    return r.ModeRow(
        mode=cell.mode, status=cell.status, reason=cell.reason, repeats=0, basis="", step_ns=None,
        tokens_per_s=None, spread=None, idle_share=None, idle_basis="", kernels=None,
        launches=None, host_dispatch_ns=None, host_bound=EXACT, host_basis="", binding=None,
        paced_by=None, verdict=None, finding=None,
    )  # fmt: skip


def _overlap(run: RunAnalysis, one: str, other: str) -> bool:
    """Whether the repeats of two modes have step times in common: then none of them is faster."""
    both = [run.step_times(mode) for mode in (one, other)]
    return min(map(len, both)) > 1 and max(map(min, both)) <= min(map(max, both))


def _recorded(run: RunAnalysis, mode: str) -> r.Recorded | None:
    own = [cell.manifest.run for cell in run.cells if cell.mode == mode]
    found: dict[str, Any] = {
        name: next((s for m in own if (s := getattr(m, name)) is not None), None)
        for name in _SECTIONS
    }
    if not any(found.values()):
        return None
    tuned = None if found["autotune"] is None else _tuned(found["autotune"])
    return r.Recorded(**found, tuned=tuned)


def _tuned(autotune: Autotune) -> r.Tuned:
    choices, templates = autotune.choices or (), autotune.templates or ()
    counts = [template.count or 1 for template in templates]
    return r.Tuned(
        products=len(choices),
        by_kind=dict(Counter(c.kind or "unknown kind" for c in choices).most_common()),
        templates=sum(counts),
        prologues=sum(n for n, t in zip(counts, templates, strict=True) if t.prologue),
        epilogues=sum(n for n, t in zip(counts, templates, strict=True) if t.epilogue),
    )


def _notes(run: RunAnalysis) -> tuple[str, ...]:
    """What to know about single cells, each remark once with the cells it is about."""
    where: dict[str, list[str]] = {}
    for cell in run.cells:
        for text in cell.remarks("different", "not compared"):
            where.setdefault(text, []).append(f"{cell.mode}/{cell.repeat}")
    return tuple(f"{', '.join(cells)}: {text}" for text, cells in where.items())
