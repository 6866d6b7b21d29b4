"""The measured figures as plain data: the fields of `gaptrace.analysis/1` under stable names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from gaptrace.knowledge.kernel_names import classify
from gaptrace.measure.frames import gap_columns, gap_steps
from gaptrace.measure.gaps import CAUSES
from gaptrace.measure.gapwork import LaunchPaths, host_work
from gaptrace.measure.headline import GIVEN_BY_HAND, PROFILED, Headline, basis_of
from gaptrace.measure.hostparts import host_parts
from gaptrace.measure.result import Analysis
from gaptrace.measure.stats import Spread, share, spread
from gaptrace.quantity import TRACED
from gaptrace.results import analysis as r
from gaptrace.results.gaps import Gap, GapsResult
from gaptrace.results.prediction import Capture, Compile, SquareCell
from gaptrace.trace import Ints
from gaptrace.vocabulary import NOT_THE_HOSTS, STEP_METRICS

GAPS_KEPT = 10
# Parts of what the host did that a result keeps: of one gap, and over all of them.
WORK_KEPT, IDLE_WORK_KEPT = 3, 20


def record(
    analysis: Analysis,
    *,
    capture: Capture,
    compile: Compile,  # noqa: A002
    square: Mapping[str, SquareCell],
    findings: Sequence[r.Finding],
) -> r.AnalysisResult:
    """Every figure of a measured recording, with what was predicted and found beside it.

    Withheld figures are None, with the reason in `quality`. The sentence is left empty: words are
    made of the result.
    """
    head = analysis.headline
    return r.AnalysisResult(
        source=analysis.source,
        sentence="",
        quality=r.Quality(
            analysis.quality.verdict,
            tuple(
                r.Reason(reason.id, reason.level, reason.text, reason.count, reason.withheld)
                for reason in analysis.quality.reasons
            ),
        ),
        devices=tuple(device.figures for device in analysis.devices),
        steps=_steps(analysis),
        per_token=_per_token(head),
        idle_share=head.idle_share,
        kernels_per_graph_launch=head.kernels_per_graph_launch,
        captured_share=head.captured_share,
        rate=replace(
            head.rate,
            predicted_unprofiled_step_ns=analysis.predicted.step_ns,
            predicted_unprofiled_range_ns=analysis.predicted.range_ns,
            predicted=analysis.predicted,
        ),
        ceilings=analysis.ceilings,
        what_if=analysis.what_ifs,
        capture=capture,
        compile=compile,
        piecewise=analysis.piecewise,
        host=analysis.host,
        kernels=analysis.kernels,
        power=analysis.power,
        findings=tuple(findings),
        headline=first_line(head),
        phases=analysis.phases,
        square=dict(square),
        longest_gaps=_longest_gaps(analysis),
        idle_work=_idle_work(analysis),
        compilation=analysis.manifest.run.compile,
        host_parts=host_parts(analysis.part_times, analysis.step_table, analysis.quality),
    )


def _per_token(head: Headline) -> r.PerToken:
    if not head.has_tokens:
        unknown: dict[str, Any] = dict.fromkeys(STEP_METRICS)
        return r.PerToken(
            **unknown,
            host_time_ns=dict.fromkeys(head.host_time_ns),
            idle_by_cause_ns=dict.fromkeys(head.idle_by_cause_ns),
            busy_by_kind_ns=dict.fromkeys(head.busy_by_kind_ns),
        )
    own = {name: head.per_token[name].median for name in STEP_METRICS}
    period = own["period_ns"]
    return r.PerToken(
        **own,
        host_time_ns=dict(head.host_time_ns),
        idle_by_cause_ns=dict(head.idle_by_cause_ns),
        busy_by_kind_ns=dict(head.busy_by_kind_ns),
        busy_share=share(own["busy_ns"], period),
        idle_share_by_cause={k: share(v, period) for k, v in head.idle_by_cause_ns.items()},
        host_share={k: share(v, period) for k, v in head.host_time_ns.items()},
    )


def first_line(head: Headline) -> r.Headline:
    """The figures that every surface shows first, each by the one rule for it.

    Step time and rate are unprofiled where the run measured them, or given. So is the idle share,
    unless the GPU is busy for longer than that step takes: then it is as traced. The largest cause
    is as traced and held to the idle time shown: profiling stretches causes, but not the time
    between graph nodes, so the others get at most the idle less that between nodes.
    """
    rate, period = head.rate, head.steps["period_ns"].median
    traced_idle = head.steps["idle_ns"].median
    unprofiled = rate.source != PROFILED and rate.unprofiled_step_ns is not None
    basis = basis_of(rate.source) if unprofiled else TRACED
    step = rate.unprofiled_step_ns if unprofiled else period
    idle, whole, idle_basis = traced_idle, period, TRACED
    if unprofiled and rate.unprofiled_idle_ns is not None and rate.unprofiled_idle_ns >= 0:
        idle, whole, idle_basis = rate.unprofiled_idle_ns, step, basis
    elif basis == GIVEN_BY_HAND:
        idle, whole, idle_basis = None, step, basis
    causes = {name: ns for name, ns in head.idle_by_cause_ns.items() if ns}
    tokens = head.tokens_per_step or 1
    largest, largest_ns = None, None
    if causes and idle:
        per_token = idle / tokens
        late = head.unprofiled_late_per_token if idle_basis != TRACED else None
        rest = per_token if late is None else min(per_token, late)
        held = {k: min(v, per_token if k == "graph_node" else rest) for k, v in causes.items()}
        largest = max(causes, key=lambda name: (held[name], causes[name]))
        largest_ns = held[largest]
    return r.Headline(
        basis=basis,
        step_ns=step,
        tokens_per_s=rate.tokens_per_s,
        idle_ns=idle,
        idle_share=idle / whole if idle is not None and whole else None,
        idle_basis=idle_basis,
        largest_cause=largest,
        largest_cause_ns=largest_ns,
        recoverable=largest is not None and largest not in NOT_THE_HOSTS,
        token_ns=share(step, tokens),
        token_idle_ns=share(idle, tokens),
    )


def _spread(values: Mapping[str, Spread], attribute: str) -> r.StepFigures:
    return r.StepFigures(**{name: getattr(values[name], attribute) for name in STEP_METRICS})


def _steps(analysis: Analysis) -> r.Steps:
    head, steps = analysis.headline, analysis.step_table
    return r.Steps(
        rule=steps.rule if steps else None,
        device=analysis.device.device if analysis.device else None,
        kind=head.kind,
        kind_why=steps.kind.why if steps else None,
        phase=head.kind,
        phases=dict(Counter(steps.phase if steps else ())),
        count=head.count,
        complete=head.complete,
        excluded=dict(Counter(reason for reason in (steps.excluded if steps else ()) if reason)),
        tokens_per_step=head.tokens_per_step,
        tokens_source=head.tokens_source or None,
        median=_spread(head.steps, "median"),
        p5=_spread(head.steps, "p5"),
        p95=_spread(head.steps, "p95"),
        n=_spread(head.steps, "n"),
        batch=steps.population.batch if steps else None,
        checked=(steps.marks.check.text if steps else "") or None,
        outside=dict(Counter(reason for reason in (steps.closed if steps else ()) if reason)),
        devices=tuple(_shares(analysis)),
        busy_by_kind_ns=dict(head.busy_kind_ns),
    )


def _shares(analysis: Analysis) -> Iterator[r.DeviceShare]:
    """What each of several devices does in a step: medians over the counted steps."""
    steps, quality = analysis.step_table, analysis.quality
    if steps is None or analysis.headline.steps["period_ns"].median is None:
        return
    clean = steps.counted & ~steps.mixed
    for own in steps.shares:
        busy = None if quality.withholds("busy") else spread(own.busy_ns[clean]).median
        period = analysis.headline.steps["period_ns"].median
        yield r.DeviceShare(
            device=own.device,
            busy_ns=busy,
            busy_share=share(busy, period),
            kernels=spread(own.kernels[steps.counted]).median,
            launches=spread(own.launches[steps.counted]).median,
            copies=spread(own.copies[steps.counted]).median,
            memsets=spread(own.memsets[steps.counted]).median,
        )


def gaps_result(analysis: Analysis, longest: int | None = None) -> GapsResult:
    """Every gap of the device in time order; or the `longest` of the counted steps, longest first.

    Gaps outside counted steps are among the longest only where no step counts.
    """
    columns = {
        name: column.tolist() if hasattr(column, "tolist") else column
        for name, column in gap_columns(analysis).items()
    }
    count = len(columns["gap"]) if columns else 0
    paths = LaunchPaths(analysis.trace)
    chosen = range(count) if longest is None else _by_length(analysis)[:longest].tolist()
    rows = [
        Gap(
            **{name: column[i] for name, column in columns.items()},
            host=host_work(analysis.trace, analysis.gap_work.of(i), columns["dur_ns"][i]),
            launch_path=paths.of(columns["launch_row"][i]),
        )
        for i in chosen
    ]
    return GapsResult(
        source=analysis.trace.source.path,
        device=None if analysis.device is None else analysis.device.device,
        gaps=tuple(rows),
        withheld=next((q.text for q in analysis.quality.reasons if "causes" in q.withheld), None),
        frames=analysis.gap_work.frames,
    )


def _idle_work(analysis: Analysis) -> r.IdleWork | None:
    """What launching threads did while the GPU waited for them in the counted steps, per token."""
    device, steps = analysis.device, analysis.step_table
    if device is None or steps is None or analysis.quality.withholds("causes", "idle", "steps"):
        return None
    counted = steps.counted & ~steps.mixed
    step = gap_steps(analysis)
    chosen = (step >= 0) & counted[np.maximum(step, 0)] if len(steps) else step >= 0
    pieces = analysis.gap_work
    kept = chosen[pieces.gap]
    if not kept.any():
        return None
    work = pieces.only(kept)
    tokens = float(steps.tokens[counted].sum()) if analysis.headline.has_tokens else counted.sum()
    parts = host_work(
        analysis.trace, work, int(device.gaps.dur[chosen].sum()), float(tokens) or 1.0
    )
    return r.IdleWork(
        parts=parts[:IDLE_WORK_KEPT],
        late_ns=float(work.ns.sum()) / tokens,
        other_ns=float(sum(part.ns for part in parts[IDLE_WORK_KEPT:])),
        frames=pieces.frames,
    )


def _by_length(analysis: Analysis) -> Ints:
    """Gaps, the longest first; of the counted steps, where marks or a period found any."""
    device, steps = analysis.device, analysis.step_table
    if device is None:
        return np.empty(0, np.int64)
    step = gap_steps(analysis)
    order = np.lexsort((np.arange(len(device.gaps)), -device.gaps.dur))
    if steps is not None and steps.counted.any() and steps.rule != "whole trace":
        order = order[(step[order] >= 0) & steps.counted[np.maximum(step[order], 0)]]
    return order


def _longest_gaps(analysis: Analysis) -> tuple[r.GapRow, ...]:
    device, trace = analysis.device, analysis.trace
    if device is None or not len(device.gaps):
        return ()
    gaps, step = device.gaps, gap_steps(analysis)
    withheld = analysis.quality.withholds("causes")
    return tuple(
        r.GapRow(
            gap=int(i),
            step=int(step[i]) if step[i] >= 0 else None,
            start_ns=int(gaps.start[i]),
            dur_ns=int(gaps.dur[i]),
            cause_ns={}
            if withheld
            else {name: int(ns) for name, ns in zip(CAUSES, gaps.cause_ns[i], strict=True) if ns},
            before=classify(trace.name_of(int(gaps.before[i]))).short,
            after=classify(trace.name_of(int(gaps.after[i]))).short,
            host=()
            if withheld
            else host_work(trace, analysis.gap_work.of(int(i)), int(gaps.dur[i]))[:WORK_KEPT],
        )
        for i in _by_length(analysis)[:GAPS_KEPT]
    )
