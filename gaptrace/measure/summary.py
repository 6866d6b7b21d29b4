"""The analysis as plain data: the versioned object of `gaptrace analyze --json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gaptrace.measure.stats import Spread

if TYPE_CHECKING:
    from gaptrace.measure.devices import Device
    from gaptrace.measure.result import Analysis

SCHEMA = "gaptrace.measure/1"
_STEP_NAMES = (
    "period_ns",
    "busy_ns",
    "idle_ns",
    "kernels",
    "launches",
    "copies",
    "memsets",
    "host_dispatch_ns",
)


def summary(analysis: Analysis) -> dict[str, Any]:
    """Every figure under its stable name; withheld ones are None with the reason in `quality`."""
    from gaptrace.results.codec import to_data

    head = analysis.headline
    return {
        "schema": SCHEMA,
        "source": asdict(analysis.source),
        "sentence": analysis.sentence,
        "quality": {
            "verdict": analysis.quality.verdict,
            "reasons": [
                {
                    "id": reason.id,
                    "level": reason.level,
                    "text": reason.text,
                    "count": reason.count,
                    "withheld": list(reason.withheld),
                }
                for reason in analysis.quality.reasons
            ],
        },
        "devices": [_device(device) for device in analysis.devices],
        "steps": _steps(analysis),
        "per_token": {
            **{
                name: _number(head.per_token[name].median)
                for name in ("kernels", "launches", "copies", "memsets")
            },
            **{
                name: _number(head.per_token[name].median)
                for name in ("host_dispatch_ns", "idle_ns", "busy_ns")
            },
            "host_time_ns": {k: _number(v) for k, v in head.host_time_ns.items()},
            "idle_by_cause_ns": {k: _number(v) for k, v in head.idle_by_cause_ns.items()},
        },
        "idle_share": _number(head.idle_share),
        "kernels_per_graph_launch": _number(head.kernels_per_graph_launch),
        "captured_share": _number(head.captured_share),
        "rate": {
            "tokens_per_s": _number(head.rate.tokens_per_s),
            "source": head.rate.source,
            "profiled_tokens_per_s": _number(head.rate.profiled_tokens_per_s),
            "dilation": _number(head.rate.dilation),
            "unprofiled_step_ns": head.rate.unprofiled_step_ns,
            "unprofiled_idle_ns": head.rate.unprofiled_idle_ns,
            "unprofiled_idle_share": _number(head.unprofiled_idle_share),
            "issue_ns": head.rate.issue_ns,
        },
        "ceilings": _ceilings(analysis),
        "what_if": [
            {
                "id": item.id,
                "title": item.title,
                "step_ns": _number(item.step_ns),
                "tokens_per_s": _number(item.tokens_per_s),
                "binding": item.binding,
                "paced_by": item.paced_by,
            }
            for item in analysis.what_ifs
        ],
        "capture": to_data(analysis.prediction.capture),
        "compile": to_data(analysis.prediction.compile),
        "piecewise": _piecewise(analysis),
        "host": _host(analysis),
        "kernels": _kernels(analysis),
        "power": None if analysis.power is None else asdict(analysis.power),
        "findings": [finding.as_dict() for finding in analysis.findings],
    }


def _number(value: float | None) -> float | int | None:
    """Whole numbers as int, others rounded to a tenth of a billionth of their size: stable text."""
    if value is None:
        return None
    if float(value).is_integer():
        return int(value)
    return float(f"{value:.10g}")


def _device(device: Device) -> dict[str, Any]:
    return {
        "device": device.device,
        "gpu_ops": device.gpu_ops,
        "kernels": device.kernels,
        "span_ns": device.span_ns,
        "busy_ns": device.busy_ns,
        "idle_ns": device.idle_ns,
        "gaps": len(device.gaps),
        "launch_calls": device.launch_calls,
        "kernel_launch_calls": device.kernel_launch_calls,
        "graph_launches": device.graph_launches,
        "ops_in_graphs": device.ops_in_graphs,
        "kernels_in_graphs": device.kernels_in_graphs,
        "orphans": device.orphans,
        "starts_before_launch": device.starts_before_launch,
        "largest_skew_ns": device.largest_skew_ns,
        "kernel_dur_sum_ns": device.kernel_dur_sum_ns,
        "idle_by_cause_ns": device.idle_by_cause_ns,
    }


def _spread(values: dict[str, Spread], attribute: str) -> dict[str, Any]:
    return {name: _number(getattr(values[name], attribute)) for name in _STEP_NAMES}


def _steps(analysis: Analysis) -> dict[str, Any]:
    head, steps = analysis.headline, analysis.step_table
    phases: dict[str, int] = {}
    excluded: dict[str, int] = {}
    for phase in steps.phase if steps else ():
        phases[phase] = phases.get(phase, 0) + 1
    for reason in steps.excluded if steps else ():
        if reason:
            excluded[reason] = excluded.get(reason, 0) + 1
    return {
        "rule": steps.rule if steps else None,
        "device": analysis.device.device if analysis.device else None,
        "phase": "decode",
        "phases": phases,
        "count": head.count,
        "complete": head.complete,
        "excluded": excluded,
        "tokens_per_step": _number(head.tokens_per_step),
        "tokens_source": head.tokens_source or None,
        "median": _spread(head.steps, "median"),
        "p5": _spread(head.steps, "p5"),
        "p95": _spread(head.steps, "p95"),
        "n": {name: head.steps[name].n for name in _STEP_NAMES},
    }


def _ceilings(analysis: Analysis) -> dict[str, Any]:
    c = analysis.ceilings
    return {
        "launch_tokens_per_s": _number(c.launch_tokens_per_s),
        "bandwidth_tokens_per_s": _number(c.bandwidth_tokens_per_s),
        "binding": c.binding,
        "paced_by": c.paced_by,
        "distance": _number(c.distance),
        "handover_bits_per_weight": _number(c.handover_bits),
        "bits_per_weight": _number(c.bits),
        "host_dispatch_ns": _number(c.host_dispatch_ns),
        "host_dispatch_source": c.host_dispatch_source,
        "weight_bytes": c.step_bytes.weight_bytes,
        "weight_bytes_source": c.step_bytes.weight_source,
        "kv_bytes": c.step_bytes.kv_bytes,
        "kv_bytes_source": c.step_bytes.kv_source,
        "peak_bandwidth_bytes_per_s": _number(c.peak_bandwidth),
        "peak_bandwidth_source": c.peak_source,
    }


def _piecewise(analysis: Analysis) -> dict[str, Any] | None:
    found = analysis.piecewise
    if found is None:
        return None
    return {
        "steps": found.steps,
        "of": found.of,
        **{
            name: _number(getattr(found, name))
            for name in (
                "replays", "pieces", "seams", "with_work", "kernels", "launches", "idle_ns",
                "busy_ns", "host_ns", "share", "idle_per_seam_ns",
            )
        },
        "kinds": [
            {
                "work": list(kind.work),
                **{
                    name: _number(getattr(kind, name))
                    for name in (
                        "per_step", "kernels", "idle_ns", "busy_ns", "host_ns", "idle_per_step_ns",
                    )
                },
            }
            for kind in found.kinds
        ],
    }  # fmt: skip


def _host(analysis: Analysis) -> dict[str, Any]:
    host = analysis.host
    return {
        "launch_call_ns": host.launch_call_ns,
        "cost_per_launch_ns": _number(host.cost_per_launch_ns),
        "launch_to_start_ns": host.launch_to_start_ns,
        "ops": [
            {
                "name": row.name,
                "calls": _number(row.calls),
                "self_ns": _number(row.self_ns),
                "launches": _number(row.launches),
            }
            for row in host.ops
        ],
        "python": [{"name": r.name, "self_ns": _number(r.self_ns)} for r in host.python],
        "modules": [{"name": r.name, "self_ns": _number(r.self_ns)} for r in host.modules],
    }


def _kernels(analysis: Analysis) -> dict[str, Any]:
    table = analysis.kernels
    return {
        "time_ns_by_class": {k: _number(v) for k, v in table.busy_ns_by_class.items()},
        "overlap_ns": _number(table.overlap_ns),
        "by_op": [
            {
                "name": row.name,
                "per_token": _number(row.per_token),
                "total_ns_per_token": _number(row.total_ns_per_token),
                "share": _number(row.share),
            }
            for row in table.by_op
        ],
        "rows": [
            {
                "name": row.name,
                "short": row.short,
                "class": row.op_class,
                "backend": row.backend,
                "per_token": _number(row.per_token),
                "total_ns_per_token": _number(row.total_ns_per_token),
                "median_ns": row.median_ns,
                "share": _number(row.share),
                "op": row.op,
                "module": row.module,
                "captured": _number(row.captured),
                "bandwidth_bytes_per_s": _number(row.bandwidth),
                "roofline_share": _number(row.roofline_share),
                "roofline_note": row.roofline_note or None,
            }
            for row in table.rows
        ],
    }
