"""A comparison as plain data: the versioned object of `gaptrace compare --json`.

Schema `gaptrace.comparison/1`; names are stable, more may be added. Times are ns, `_per_token`
where they are per token; a bridge is per step and its integers sum exactly:

    {"schema", "sentence", "forced", "seed", "resamples", "notes": [...],
     "pairs": [{
        "baseline": {"label", "path", "mode", "runs", "steps", "verdict", "reasons", "saved",
                     "facts": {"gpu", "model", "dtype", "batch", "tokens_per_step", ...}},
        "candidate": {as baseline},
        "sentence", "kernel_sentence", "verdict", "banner": [...], "notes": [...],
        "step_ns": [baseline, candidate],
        "metrics": [{"id", "title", "unit", "better", "per_token", "gate", "source",
                     "baseline": {"value", "p5", "p95", "n", "runs": [...]}, "candidate": {...},
                     "change", "ratio", "interval": [low, high], "p", "verdict", "basis", "note",
                     "as_profiled": [baseline, candidate]}],
        "bridge": {"basis", "baseline_step", "candidate_step", "baseline_ns", "candidate_ns",
                   "unprofiled_baseline_ns", "unprofiled_candidate_ns", "split", "notes",
                   "parts": [{"kind", "key", "title", "baseline_ns", "candidate_ns", "delta_ns"}]},
        "kernels": {"by_class_ns": {class: [baseline, candidate]},
                    "rows": [{"name", "short", "class", "op", "status", "fuses", "group",
                              "baseline": {"per_token", "ns_per_token", "median_ns"},
                              "candidate": {...}, "delta_count", "delta_ns"}],
                    "groups": [{"id", "by", "title", "class", "delta_count", "delta_ns",
                                "baseline": [{"name", "short", "op", "per_token", "ns_per_token"}],
                                "candidate": [...]}]}}],
     "two_by_two": null or {"source", "sentence", "best",
        "eager" | "compiled" | "graph" | "compiled_graph": {"label", "mode", "step_ns",
            "tokens_per_s", "busy_ns", "idle_ns", "host_dispatch_ns", "kernels", "launches",
            "busy_by_class_ns"},
        "compiled_launched" | "compiled_captured" | "captured_eager" | "captured_compiled":
            {"step_ns", "busy_ns", "idle_ns", "host_dispatch_ns", "kernels", "launches",
             "busy_by_class_ns", "words"}},
     "gates": [{"gate", "metric", "pair", "status", "text"}]}

`verdict` is `better`, `worse`, `within noise`, `too few steps to judge` or `withheld`; `basis` is
`runs and steps`, `steps`, `exact` or `none`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gaptrace.compare.result import (
    Bridge,
    Comparison,
    Corner,
    Effect,
    Figure,
    KernelComparison,
    KernelUse,
    Member,
    MetricRow,
    Pair,
    SideView,
    TwoByTwo,
)

SCHEMA = "gaptrace.comparison/1"


def summary(comparison: Comparison) -> dict[str, Any]:
    """Every figure of a comparison under its stable name."""
    square = comparison.two_by_two
    return {
        "schema": SCHEMA,
        "sentence": comparison.sentence,
        "forced": comparison.forced,
        "seed": comparison.seed,
        "resamples": comparison.resamples,
        "notes": list(comparison.notes),
        "pairs": [_pair(pair) for pair in comparison.pairs],
        "two_by_two": None if square is None else _square(square),
        "gates": [asdict(gate) for gate in comparison.gates],
    }


def number(value: float | None) -> float | int | None:
    """Whole numbers as int, others to ten significant digits, so that text is stable."""
    if value is None:
        return None
    value = float(value)
    return int(value) if value.is_integer() else float(f"{value:.10g}")


def _pair(pair: Pair) -> dict[str, Any]:
    return {
        "baseline": _side(pair.baseline),
        "candidate": _side(pair.candidate),
        "sentence": pair.sentence,
        "kernel_sentence": pair.kernel_sentence,
        "verdict": pair.verdict,
        "banner": list(pair.banner),
        "notes": list(pair.notes),
        "step_ns": [number(value) for value in pair.step_ns],
        "metrics": [_metric(row) for row in pair.metrics],
        "bridge": None if pair.bridge is None else _bridge(pair.bridge),
        "kernels": _kernels(pair.kernels),
    }


def _side(side: SideView) -> dict[str, Any]:
    return {
        "label": side.label,
        "path": side.path,
        "mode": side.mode,
        "runs": side.runs,
        "steps": side.steps,
        "verdict": side.verdict,
        "reasons": list(side.reasons),
        "saved": side.saved,
        "facts": dict(side.facts),
    }


def _metric(row: MetricRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "title": row.title,
        "unit": row.unit,
        "better": row.better,
        "per_token": row.per_token,
        "gate": row.gate,
        "source": row.source or None,
        "baseline": _figure(row.baseline),
        "candidate": _figure(row.candidate),
        "change": number(row.change),
        "ratio": number(row.ratio),
        "interval": None if row.interval is None else [_finite(value) for value in row.interval],
        "p": number(row.p),
        "verdict": row.verdict,
        "basis": row.basis,
        "note": row.note,
        "as_profiled": None
        if row.as_profiled is None
        else [number(value) for value in row.as_profiled],
    }


def _finite(value: float) -> float | int | None:
    return number(value) if abs(value) != float("inf") else None


def _figure(figure: Figure) -> dict[str, Any]:
    return {
        "value": number(figure.value),
        "p5": number(figure.p5),
        "p95": number(figure.p95),
        "n": figure.n,
        "runs": [number(value) for value in figure.runs],
    }


def _bridge(bridge: Bridge) -> dict[str, Any]:
    return {
        "basis": bridge.basis,
        "baseline_step": bridge.baseline_step,
        "candidate_step": bridge.candidate_step,
        "baseline_ns": bridge.baseline_ns,
        "candidate_ns": bridge.candidate_ns,
        "unprofiled_baseline_ns": bridge.unprofiled_baseline_ns,
        "unprofiled_candidate_ns": bridge.unprofiled_candidate_ns,
        "split": bridge.split,
        "notes": list(bridge.notes),
        "parts": [{**asdict(part), "delta_ns": part.delta_ns} for part in bridge.parts],
    }


def _kernels(kernels: KernelComparison) -> dict[str, Any]:
    return {
        "by_class_ns": {
            kind: [number(before), number(after)]
            for kind, (before, after) in kernels.by_class.items()
        },
        "rows": [
            {
                "name": row.name,
                "short": row.short,
                "class": row.op_class,
                "op": row.op,
                "status": row.status,
                "fuses": list(row.fuses),
                "group": row.group,
                "baseline": _use(row.baseline),
                "candidate": _use(row.candidate),
                "delta_count": number(row.delta_count),
                "delta_ns": number(row.delta_ns),
            }
            for row in kernels.rows
        ],
        "groups": [
            {
                "id": group.id,
                "by": group.by,
                "title": group.title,
                "class": group.op_class,
                "delta_count": number(group.delta_count),
                "delta_ns": number(group.delta_ns),
                "baseline": [_member(member) for member in group.baseline],
                "candidate": [_member(member) for member in group.candidate],
            }
            for group in kernels.groups
        ],
    }


def _use(use: KernelUse | None) -> dict[str, Any] | None:
    if use is None:
        return None
    return {
        "per_token": number(use.per_token),
        "ns_per_token": number(use.ns_per_token),
        "median_ns": use.median_ns,
    }


def _member(member: Member) -> dict[str, Any]:
    return {
        "name": member.name,
        "short": member.short,
        "op": member.op,
        "per_token": number(member.per_token),
        "ns_per_token": number(member.ns_per_token),
    }


def _square(square: TwoByTwo) -> dict[str, Any]:
    return {
        "source": square.source,
        "sentence": square.sentence,
        "best": square.best,
        "eager": _corner(square.eager),
        "compiled": _corner(square.compiled),
        "graph": _corner(square.graph),
        "compiled_graph": _corner(square.compiled_graph),
        "compiled_launched": _effect(square.compiled_launched),
        "compiled_captured": _effect(square.compiled_captured),
        "captured_eager": _effect(square.captured_eager),
        "captured_compiled": _effect(square.captured_compiled),
    }


def _numbers(item: Corner | Effect, *names: str) -> dict[str, Any]:
    return {name: number(getattr(item, name)) for name in names}


def _classes(values: Mapping[str, float]) -> dict[str, Any]:
    return {kind: number(value) for kind, value in values.items()}


_SHARED = ("step_ns", "busy_ns", "idle_ns", "host_dispatch_ns", "kernels", "launches")


def _corner(corner: Corner) -> dict[str, Any]:
    return {
        "label": corner.label,
        "mode": corner.mode,
        **_numbers(corner, "tokens_per_s", *_SHARED),
        "busy_by_class_ns": _classes(corner.busy_by_class_ns),
    }


def _effect(effect: Effect) -> dict[str, Any]:
    return {
        **_numbers(effect, *_SHARED),
        "busy_by_class_ns": _classes(effect.busy_by_class_ns),
        "words": effect.words,
    }
