"""Gates: limits that make a run fail, on one run (absolute) or on a comparison (beyond noise).

A gate reads `METRIC:LIMIT`. On a comparison `LIMIT %` is how much worse the candidate may be than
the baseline (of `idle_share`, in percentage points), and it trips only where the change is beyond
noise; a plain LIMIT is a bound of the candidate's own figure. On one run every LIMIT is a bound.
Which way is worse is the metric's business.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec.structs import replace

from gaptrace.compare.figures import Sampler, run_figure, shown_run, side_figure, sources
from gaptrace.compare.metrics import HIGHER, Metric, gate_metric
from gaptrace.compare.recording import Recording
from gaptrace.errors import OptionError
from gaptrace.quantity import SHARE
from gaptrace.results.comparison import (
    BEYOND,
    HELD,
    NOT_COMPARABLE,
    NOT_JUDGED,
    RANGES,
    RUNS,
    STEPS,
    TRIPPED,
    UNJUDGED,
    WITHIN_NOISE,
    WORSE,
    ComparisonResult,
    GateResult,
    MetricRow,
    Pair,
)

_NUMBER = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*(\S*)\s*")
_TIMES = {"ns": 1.0, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9}
_SIZES = {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12}
_SIZES |= {"kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40}


@dataclass(frozen=True)
class Gate:
    """One limit: `text` as it was given, its metric, and the limit.

    percent: the limit is a share (0.05 for `5%`). limit: in the metric's own unit (ns, counts,
    tokens per second, bytes, a share of 1) unless percent.
    """

    text: str
    metric: Metric
    limit: float
    percent: bool


def parse_gate(text: str) -> Gate:
    """The gate written as `METRIC:LIMIT`: `idle:5%`, `kernels:600`, `busy:1.7ms`.

    Raises:
        OptionError: no such metric, or a limit that has no meaning for it.
    """
    name, colon, rest = text.partition(":")
    metric = gate_metric(name.strip())
    if not colon or not rest.strip():
        raise OptionError(
            f"gate {text!r} has no limit", f"write {metric.id}:5% or {metric.id}:{_example(metric)}"
        )
    found = _NUMBER.fullmatch(rest)
    if found is None:
        raise _meaningless(text, metric)
    value, unit = float(found[1]), found[2]
    if unit == "%":
        return Gate(text, metric, value / 100, percent=True)
    scale = _scale(metric, unit)
    if scale is None:
        raise _meaningless(text, metric)
    return Gate(text, metric, value * scale, percent=False)


def _scale(metric: Metric, unit: str) -> float | None:
    if metric.unit == "ns":
        # A bare number could be any unit, and the wrong one would never trip.
        return _TIMES.get(unit)
    if metric.unit == "bytes":
        return _SIZES.get(unit.lower() or "b")
    if metric.unit == "tok/s":
        return 1.0 if unit in ("", "tok/s") else None
    return 1.0 if unit == "" else None


def _example(metric: Metric) -> str:
    return {"ns": "2ms", "bytes": "20GB", "share": "0.4", "tok/s": "300"}.get(metric.unit, "600")


def _meaningless(text: str, metric: Metric) -> OptionError:
    return OptionError(
        f"gate {text!r} has a limit that means nothing for {metric.id}",
        f"write {metric.id}:5% or {metric.id}:{_example(metric)}",
    )


def gates_from(flags: Sequence[str], settings: Mapping[str, object] | None) -> tuple[Gate, ...]:
    """The gates of the command line over those of the `fail-on` table or list of the settings.

    A metric named on the command line replaces all limits of that metric from the settings.

    Raises:
        OptionError: a gate cannot be read.
    """
    given = [parse_gate(flag) for flag in flags]
    named = {gate.metric.id for gate in given}
    found = (settings or {}).get("fail-on", (settings or {}).get("fail_on", []))
    texts: list[str] = []
    if isinstance(found, Mapping):
        for name, limit in found.items():
            texts += [f"{name}:{one}" for one in (limit if isinstance(limit, list) else [limit])]
    elif isinstance(found, list):
        texts = [str(text) for text in found]
    else:
        raise OptionError(
            "fail-on in [tool.gaptrace] is neither a list nor a table",
            'write fail-on = ["idle:5%"], or a [tool.gaptrace.fail-on] table',
        )
    kept = [gate for gate in map(parse_gate, texts) if gate.metric.id not in named]
    return (*given, *kept)


def judge(comparison: ComparisonResult, gates: Sequence[Gate]) -> ComparisonResult:
    """The comparison with the results of every gate on every pair."""
    results = [
        _relative(gate, pair) if gate.percent else _bound(gate, pair)
        for pair in comparison.pairs
        for gate in gates
    ]
    return replace(comparison, gates=tuple(results))


def _result(gate: Gate, label: str, status: str, **rest: Any) -> GateResult:
    metric = gate.metric
    return GateResult(
        gate=gate.text,
        metric=metric.id,
        pair=label,
        status=status,
        unit=metric.unit,
        better=metric.better,
        limit=gate.limit,
        relative=gate.percent,
        **rest,
    )


def _relative(gate: Gate, pair: Pair) -> GateResult:
    row = pair.metric(gate.metric.id)
    before, after = row.baseline.value, row.candidate.value
    if row.change is None or before is None:
        return _result(gate, pair.label, NOT_JUDGED, reason=_why(row))
    if row.verdict in UNJUDGED:
        return _result(gate, pair.label, NOT_JUDGED, reason=_why(row))
    size = row.change if row.unit == SHARE else row.ratio
    if size is None:
        # From nothing to something is worse than any percentage.
        size = float("inf") if row.change else 0.0
    status, reason, over = HELD, "", None
    worse = -size if row.better == HIGHER else size
    if worse > gate.limit:
        reason, over = WITHIN_NOISE, worse - gate.limit if worse != float("inf") else None
        if row.verdict == WORSE:
            status, reason = TRIPPED, row.note or BEYOND.get(row.basis, "")
    return _result(
        gate, pair.label, status, baseline=before, candidate=after, change=row.change,
        ratio=row.ratio, over=over, reason=reason,
    )  # fmt: skip


def _why(row: MetricRow) -> str:
    """Why nothing can be said of a metric."""
    if row.verdict == NOT_COMPARABLE:
        return f"{row.verdict}, {row.note}"
    return row.note or row.verdict


def _bound(gate: Gate, pair: Pair) -> GateResult:
    """A bound of the candidate's own figure; noise is that of the change, put around the figure."""
    row = pair.metric(gate.metric.id)
    value = row.candidate.value
    if value is None:
        return _result(gate, pair.label, NOT_JUDGED, reason=_why(row))
    found = _against(gate, value, pair.label)
    if row.verdict == NOT_COMPARABLE and found.status == TRIPPED:
        # The profiler slows the host, so within the limit is within it without the profiler, too.
        return _result(gate, pair.label, NOT_JUDGED, reason=_why(row))
    if row.basis == RANGES and (row.candidate.low or 0) <= gate.limit <= (row.candidate.high or 0):
        return _result(gate, pair.label, NOT_JUDGED, reason="the limit lies in the predicted range")
    room = 0.0
    if row.basis in (RUNS, STEPS) and row.interval is not None and None not in row.interval:
        room = ((row.interval[1] or 0) - (row.interval[0] or 0)) / 2
    if found.status == TRIPPED and abs(value - gate.limit) <= room:
        return replace(found, status=HELD, reason=WITHIN_NOISE)
    return found


def _against(gate: Gate, value: float, label: str) -> GateResult:
    over = gate.limit - value if gate.metric.better == HIGHER else value - gate.limit
    # Of one run a share in percent is a bound, too.
    bound = dataclasses.replace(gate, percent=False)
    if over <= 0:
        return _result(bound, label, HELD, candidate=value)
    return _result(bound, label, TRIPPED, candidate=value, over=over)


def judge_run(
    recordings: Sequence[Recording], gates: Sequence[Gate], label: str
) -> tuple[GateResult, ...]:
    """Every gate as a bound on the figures of one run, with all its repeats.

    Raises:
        OptionError: a percentage for a metric that is not a share.
    """
    results = []
    chosen = sources([recordings])
    shown = shown_run(recordings, chosen["step_time"])
    sampler = Sampler(np.random.default_rng(0), 1)
    for gate in gates:
        if gate.percent and gate.metric.unit != SHARE:
            raise OptionError(
                f"gate {gate.text!r} is relative, and one run has nothing to be relative to",
                f"write {gate.metric.id}:{_example(gate.metric)}, or compare with a baseline",
            )
        source = chosen.get(gate.metric.id, "")
        runs = [run_figure(gate.metric.id, r, source, sampler) for r in recordings]
        value = side_figure(gate.metric, runs, shown).value
        if value is None:
            results.append(_result(gate, label, NOT_JUDGED, reason="unknown or withheld"))
        else:
            results.append(_against(gate, value, label))
    return tuple(results)


def not_judged(gates: Sequence[Gate], label: str, reason: str) -> tuple[GateResult, ...]:
    """Every gate on something that has no figures at all."""
    return tuple(_result(gate, label, NOT_JUDGED, reason=reason) for gate in gates)
