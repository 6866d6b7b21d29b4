"""A prediction as plain data: `gaptrace.prediction/1`, and the two fields of an analysis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gaptrace.measure.fusion_model import Estimate
from gaptrace.predict.result import Cell, CompiledStep, Group, Prediction, Savings, Score

SCHEMA = "gaptrace.prediction/1"
GROUPS_KEPT = 200


def summary(prediction: Prediction) -> dict[str, Any]:
    """Every figure under its name; times are ns per step."""
    return {
        "schema": SCHEMA,
        "subject": _plain(asdict(prediction.subject)),
        "capture": capture_field(prediction),
        "compile": compile_field(prediction),
        "savings": _savings(prediction.savings),
        "stacked_caches": [_plain(asdict(item)) for item in prediction.stacked],
        "square": {mode: _cell(cell) for mode, cell in prediction.square.items()},
        "realised": None if prediction.realised is None else _plain(asdict(prediction.realised)),
        "score": [_score(item) for item in prediction.score],
        "notes": list(prediction.notes),
    }


def capture_field(prediction: Prediction) -> dict[str, Any]:
    """The field `capture` of an analysis: readiness, and the predicted captured step."""
    ready, step = prediction.readiness, prediction.captured
    estimate = None if step is None else step.step
    tokens = prediction.subject.tokens_per_step
    return {
        "ready": ready.ready,
        "verdict": ready.verdict,
        "blockers": [_plain(asdict(item)) for item in ready.blockers],
        "unknown": list(ready.unknown),
        "tried": ready.tried or None,
        "pieces": [
            {
                "seams_at": item.seams_at,
                "seams": item.seams,
                "pieces": item.pieces,
                "predicted_step_ns": _ns(item.step.ns),
                "range_ns": _range(item.step),
                "cost_ns": _ns(item.cost_ns),
                "text": item.text,
            }
            for item in ready.pieces
        ],
        "measured_pieces": None
        if prediction.measured_pieces is None
        else _plain(asdict(prediction.measured_pieces)),
        "already": None if step is None else step.already,
        "predicted_step_ns": None if estimate is None else _ns(estimate.ns),
        "range_ns": _range(estimate),
        "parts_ns": None
        if estimate is None or step is None
        else {
            "busy": _ns(step.busy_ns),
            "gaps": _ns(step.gaps_ns),
            "replay": _ns(step.replay_ns),
            "memsets": _ns(step.memset_ns),
        },
        "gaps_by_pair": []
        if step is None
        else [{"pair": p.pair, "count": p.count, "ns": _ns(p.ns)} for p in step.pairs],
        "idle_ns": None if step is None or step.idle_ns is None else _ns(step.idle_ns),
        "launches": None if step is None else step.launches,
        "nodes": None if step is None else step.nodes,
        "per_token": None
        if step is None or estimate is None
        else {
            "step_ns": _rounded(estimate.ns / tokens),
            "idle_ns": _rounded((step.idle_ns or 0) / tokens),
            "launches": _rounded(step.launches / tokens),
        },
        "source": None if step is None else step.source,
        "note": None if step is None else step.note or None,
    }


def compile_field(prediction: Prediction) -> dict[str, Any]:
    """The field `compile` of an analysis: the predicted compiled step and where it is from."""
    step = prediction.compiled
    if step is None:
        return {"predicted": None, "source": None}
    if step.already or step.kernels is None:
        return {
            "predicted": None,
            "source": step.source,
            "already": step.already,
            "note": step.note,
        }
    return {
        "predicted": {
            "kernels": step.kernels,
            "generated": step.generated,
            "extern": step.extern,
            "launches": step.launches,
            "busy_ns": _value(step.busy),
            "busy_ns_by_class": None
            if step.by_class is None
            else {name: _ns(ns) for name, ns in step.by_class.items()},
            "step_ns": _value(step.launched),
            "captured_step_ns": _value(step.captured),
            "range": {
                "kernels": _pair(step.kernel_range),
                "generated": _pair(step.generated_range),
                "busy_ns": _range(step.busy),
                "step_ns": _range(step.launched),
                "captured_step_ns": _range(step.captured),
            },
        },
        "source": step.source,
        "exact": step.exact,
        "already": False,
        "note": step.note,
        "torch": dict(step.torch) if step.torch else None,
        "eager_kernels": step.eager_kernels,
        "doubts": [_plain(asdict(item)) for item in step.doubts],
        "losses": [_plain(asdict(item)) for item in step.losses],
        "what_ifs": [_variant(step, i) for i in range(len(step.what_ifs))],
    }


def _variant(step: CompiledStep, index: int) -> dict[str, Any]:
    item = step.what_ifs[index]
    return {
        "name": item.name,
        "text": item.text,
        "error": item.error or None,
        "kernels": item.kernels,
        "generated": item.generated,
        "busy_ns": _value(item.busy),
        "captured_step_ns": _value(item.captured),
        "range": {"busy_ns": _range(item.busy), "captured_step_ns": _range(item.captured)},
        "gain_ns": _maybe(item.gain_ns),
        "captured_gain_ns": _maybe(item.captured_gain_ns),
    }


def _savings(savings: Savings | None) -> dict[str, Any] | None:
    if savings is None:
        return None
    return {
        "source": savings.source,
        "launches": savings.launches,
        "bytes": round(savings.bytes),
        "bytes_written": round(savings.written),
        "bytes_read": round(savings.read),
        "time_ns": _ns(savings.time_ns),
        "recorded_batch": savings.recorded_batch,
        "peak_bandwidth_bytes_per_s": None if savings.peak == float("inf") else savings.peak,
        "at_batch": _at_batch(savings.batch),
        "values": {
            name: {"bytes_written": round(out), "bytes_read": round(back)}
            for name, (out, back) in savings.values.items()
        },
        "groups": [_group(group) for group in savings.groups[:GROUPS_KEPT]],
        "quantize_chains": [_group(group) for group in savings.quantize_chains],
    }


def _group(group: Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "chain": list(group.chain),
        "places": group.places,
        "launches": group.launches,
        "bytes": round(group.bytes),
        "time_ns": _ns(group.time_ns),
        "activation": group.activation,
        "quantize": group.quantize,
        "modules": list(group.modules),
        "at_batch": _at_batch(group.batch),
    }


def _at_batch(batch: Mapping[int, tuple[float, float]]) -> dict[str, dict[str, int]]:
    return {str(b): {"bytes": round(moved), "time_ns": _ns(ns)} for b, (moved, ns) in batch.items()}


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "known": cell.known,
        "step_ns": _maybe(cell.step_ns),
        "range_ns": None if cell.range_ns is None else [_ns(end) for end in cell.range_ns],
        "tokens_per_s": None if cell.tokens_per_s is None else _rounded(cell.tokens_per_s),
        "ns_per_token": _maybe(cell.ns_per_token),
        "busy_ns": _maybe(cell.busy_ns),
        "kernels": cell.kernels,
        "launches": cell.launches,
        "source": cell.source or None,
        "note": cell.note or None,
    }


def _score(item: Score) -> dict[str, Any]:
    return {
        "id": item.id,
        "title": item.title,
        "unit": item.unit,
        "predicted": _rounded(item.predicted),
        "realised": _rounded(item.realised),
        "error": None if item.error is None else float(f"{item.error:.4g}"),
        "range": None
        if item.low is None or item.high is None
        else [_rounded(item.low), _rounded(item.high)],
        "inside": item.inside,
        "note": item.note or None,
    }


def _ns(value: float) -> int:
    return round(value)


def _maybe(value: float | None) -> int | None:
    return None if value is None else round(value)


def _value(estimate: Estimate | None) -> int | None:
    return None if estimate is None else round(estimate.ns)


def _range(estimate: Estimate | None) -> list[int] | None:
    return None if estimate is None else [round(estimate.low_ns), round(estimate.high_ns)]


def _pair(pair: tuple[int, int] | None) -> list[int] | None:
    return None if pair is None else list(pair)


def _rounded(value: float) -> float | int:
    return int(value) if float(value).is_integer() else float(f"{value:.6g}")


def _plain(value: Any) -> Any:
    """Tuples as lists and long fractions cut, all the way down."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float):
        return _rounded(value) if value == value and abs(value) != float("inf") else None
    return value
