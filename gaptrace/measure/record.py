"""The measured figures as plain data: the fields of `gaptrace.analysis/1` under stable names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from gaptrace.knowledge.kernel_names import classify
from gaptrace.measure.ceilings import WhatIf
from gaptrace.measure.devices import Device
from gaptrace.measure.frames import gap_columns, gap_steps
from gaptrace.measure.gaps import CAUSES
from gaptrace.measure.headline import PROFILED, Headline
from gaptrace.measure.hostparts import host_parts
from gaptrace.measure.kernels import KernelTable
from gaptrace.measure.ops import HostDetail, SpanRow
from gaptrace.measure.phases import PhaseFigures
from gaptrace.measure.result import Analysis
from gaptrace.measure.stats import Spread, spread
from gaptrace.quantity import AT_MOST, EXACT, GIVEN, TRACED, UNPROFILED
from gaptrace.reading.manifest import Manifest
from gaptrace.results import analysis as r
from gaptrace.results.gaps import Gap, GapsResult
from gaptrace.results.manifest import Compile as Compilation
from gaptrace.results.prediction import Capture, Compile, SquareCell
from gaptrace.trace import Ints
from gaptrace.vocabulary import NOT_THE_HOSTS, STEP_METRICS

GAPS_KEPT = 10


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
    head, host, limits, table = (
        analysis.headline,
        analysis.host,
        analysis.ceilings,
        analysis.kernels,
    )
    moved = limits.step_bytes
    source = limits.host_dispatch_source
    return r.AnalysisResult(
        source=_source(analysis),
        sentence="",
        quality=r.Quality(
            analysis.quality.verdict,
            tuple(
                r.Reason(reason.id, reason.level, reason.text, reason.count, reason.withheld)
                for reason in analysis.quality.reasons
            ),
        ),
        devices=tuple(_device(device) for device in analysis.devices),
        steps=_steps(analysis),
        per_token=_per_token(head),
        idle_share=head.idle_share,
        kernels_per_graph_launch=head.kernels_per_graph_launch,
        captured_share=head.captured_share,
        rate=r.Rate(**asdict(head.rate), unprofiled_idle_share=head.unprofiled_idle_share),
        ceilings=r.Ceilings(
            launch_tokens_per_s=limits.launch_tokens_per_s,
            bandwidth_tokens_per_s=limits.bandwidth_tokens_per_s,
            binding=limits.binding,
            paced_by=limits.paced_by,
            distance=limits.distance,
            handover_bits_per_weight=limits.handover_bits,
            bits_per_weight=limits.bits,
            host_dispatch_ns=limits.host_dispatch_ns,
            host_dispatch_source=limits.host_dispatch_source,
            weight_bytes=moved.weight_bytes,
            weight_bytes_source=moved.weight_source,
            kv_bytes=moved.kv_bytes,
            kv_bytes_source=moved.kv_source,
            peak_bandwidth_bytes_per_s=limits.peak_bandwidth,
            peak_bandwidth_source=limits.peak_source,
            busy_share=limits.busy_share,
            host_dispatch_basis=basis_of(source),
            host_dispatch_bound=AT_MOST if source.endswith("upper bound") else EXACT,
            launch_tokens_per_s_range=limits.launch_range,
            bus_tokens_per_s=limits.bus_tokens_per_s,
            bus_bound=limits.bus.bound,
            bus_bytes=limits.bus.nbytes,
            bus_bandwidth_bytes_per_s=limits.bus.bandwidth,
            bus_bandwidth_source=limits.bus.source,
        ),
        what_if=tuple(_what_if(item, analysis) for item in analysis.what_ifs),
        capture=capture,
        compile=compile,
        piecewise=analysis.piecewise,
        host=_host(host),
        kernels=_kernels(table),
        power=None
        if analysis.power is None
        else r.Power(**asdict(analysis.power), limit_share=analysis.power.share),
        findings=tuple(findings),
        headline=first_line(head),
        phases=tuple(_phase(one) for one in analysis.phases),
        square=dict(square),
        longest_gaps=_longest_gaps(analysis),
        compilation=_compilation(analysis.manifest),
        host_parts=host_parts(analysis.part_times, analysis.step_table, analysis.quality),
    )


def _source(analysis: Analysis) -> r.Source:
    manifest, trace = analysis.manifest, analysis.trace
    return r.Source(
        **asdict(analysis.source),
        batch=manifest.step.batch,
        folder=None if trace.run is None else trace.run.path,
        name=manifest.run.name,
        json_bytes=trace.source.bytes or None,
        provenance=_provenance(manifest),
    )


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


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
        busy_share=_share(own["busy_ns"], period),
        idle_share_by_cause={k: _share(v, period) for k, v in head.idle_by_cause_ns.items()},
        host_share={k: _share(v, period) for k, v in head.host_time_ns.items()},
    )


def _phase(one: PhaseFigures) -> r.Phase:
    return r.Phase(**asdict(one), idle_share=_share(one.idle_ns, one.period_ns))


def _host(host: HostDetail) -> r.Host:
    calls = sum(op.calls for op in host.ops)
    total = sum(op.self_ns for op in host.ops)

    def functions(rows: Sequence[SpanRow]) -> tuple[r.FunctionRow, ...]:
        whole = sum(row.self_ns for row in rows)
        return tuple(r.FunctionRow(f.name, f.self_ns, _share(f.self_ns, whole)) for f in rows)

    return r.Host(
        launch_call_ns=host.launch_call_ns,
        cost_per_launch_ns=host.cost_per_launch_ns,
        launch_to_start_ns=host.launch_to_start_ns,
        ops=tuple(
            r.OpRow(
                o.name,
                o.calls,
                o.self_ns,
                o.launches,
                _share(o.self_ns, total),
                _share(o.self_ns, o.calls),
            )
            for o in host.ops
        ),
        python=functions(host.python),
        modules=functions(host.modules),
        op_calls=calls if host.ops else None,
        op_ns=total if host.ops else None,
    )


def _kernels(table: KernelTable) -> r.Kernels:
    whole = sum(table.busy_ns_by_class.values())
    return r.Kernels(
        time_ns_by_class=dict(table.busy_ns_by_class),
        overlap_ns=table.overlap_ns,
        by_op=tuple(
            r.OriginRow(o.name, o.per_token, o.total_ns_per_token, o.share) for o in table.by_op
        ),
        rows=tuple(
            r.KernelRow(
                name=row.name,
                short=row.short,
                op_class=row.op_class,
                backend=row.backend,
                per_token=row.per_token,
                total_ns_per_token=row.total_ns_per_token,
                median_ns=row.median_ns,
                share=row.share,
                op=row.op,
                module=row.module,
                captured=row.captured,
                bandwidth_bytes_per_s=row.bandwidth,
                roofline_share=row.roofline_share,
                roofline_note=row.roofline_note or None,
                sub_class=row.sub_class,
            )
            for row in table.rows
        ),
        share_by_class={k: _share(v, whole) for k, v in table.busy_ns_by_class.items()},
    )


def basis_of(source: str) -> str:
    """The basis of a figure by the source that is named with it."""
    return TRACED if source == PROFILED else GIVEN if source.startswith(GIVEN) else UNPROFILED


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
    elif basis == GIVEN:
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
        token_ns=_share(step, tokens),
        token_idle_ns=_share(idle, tokens),
    )


def _device(device: Device) -> r.DeviceFigures:
    return r.DeviceFigures(
        device=device.device,
        gpu_ops=device.gpu_ops,
        kernels=device.kernels,
        span_ns=device.span_ns,
        busy_ns=device.busy_ns,
        idle_ns=device.idle_ns,
        gaps=len(device.gaps),
        launch_calls=device.launch_calls,
        kernel_launch_calls=device.kernel_launch_calls,
        graph_launches=device.graph_launches,
        ops_in_graphs=device.ops_in_graphs,
        kernels_in_graphs=device.kernels_in_graphs,
        orphans=device.orphans,
        starts_before_launch=device.starts_before_launch,
        largest_skew_ns=device.largest_skew_ns,
        blocking_calls=device.clock.blocking,
        ends_before_work=device.clock.late,
        clock_skew_ns=device.clock.skew_ns,
        clock_offset_range_ns=device.clock.offset_ns if device.clock.constant else None,
        kernel_dur_sum_ns=device.kernel_dur_sum_ns,
        idle_by_cause_ns=dict(device.idle_by_cause_ns),
        idle_share=_share(device.idle_ns, device.span_ns),
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
    for share in steps.shares:
        busy = None if quality.withholds("busy") else spread(share.busy_ns[clean]).median
        period = analysis.headline.steps["period_ns"].median
        yield r.DeviceShare(
            device=share.device,
            busy_ns=busy,
            busy_share=_share(busy, period),
            kernels=spread(share.kernels[steps.counted]).median,
            launches=spread(share.launches[steps.counted]).median,
            copies=spread(share.copies[steps.counted]).median,
            memsets=spread(share.memsets[steps.counted]).median,
        )


def _what_if(item: WhatIf, analysis: Analysis) -> r.WhatIf:
    model = analysis.step_model
    assert model is not None
    return r.WhatIf(
        item.id,
        item.title,
        item.step_ns,
        item.tokens_per_s,
        item.binding,
        item.paced_by,
        changes=item.changes,
        times_now=_share(model.step_ns, item.step_ns),
    )


def _provenance(manifest: Manifest) -> r.Provenance | None:
    if not manifest:
        return None
    run = manifest.run
    return r.Provenance(run.script, run.host, run.env, bool((run.options or {}).get("redact")))


def _compilation(manifest: Manifest) -> Compilation | None:
    return manifest.run.compile


def gaps_result(analysis: Analysis, longest: int | None = None) -> GapsResult:
    """Every gap of the device in time order; or the `longest` of the counted steps, longest first.

    Gaps outside counted steps are among the longest only where no step counts.
    """
    columns = {
        name: column.tolist() if hasattr(column, "tolist") else column
        for name, column in gap_columns(analysis).items()
    }
    rows = [
        Gap(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)
    ]
    if longest is not None:
        rows = [rows[i] for i in _by_length(analysis)[:longest].tolist()]
    return GapsResult(
        source=analysis.trace.source.path,
        device=None if analysis.device is None else analysis.device.device,
        gaps=tuple(rows),
        withheld=next((q.text for q in analysis.quality.reasons if "causes" in q.withheld), None),
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
        )
        for i in _by_length(analysis)[:GAPS_KEPT]
    )
