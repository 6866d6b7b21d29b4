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

import numpy as np

from gaptrace import units
from gaptrace.compare.figures import (
    Sampler,
    run_figure,
    shown_run,
    side_figure,
    sources,
)
from gaptrace.compare.metrics import (
    GATES,
    HIGHER,
    Metric,
    gate_metric,
)
from gaptrace.compare.recording import Recording
from gaptrace.compare.result import (
    EXACT,
    RUNS,
    WORSE,
    Comparison,
    GateResult,
    MetricRow,
    Pair,
)
from gaptrace.compare.words import change_text, value_text
from gaptrace.errors import OptionError

HELD, TRIPPED, NOT_JUDGED = "held", "tripped", "not judged"

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


def judge(comparison: Comparison, gates: Sequence[Gate]) -> Comparison:
    """The comparison with the results of every gate on every pair."""
    results = [_on_pair(gate, pair) for pair in comparison.pairs for gate in gates]
    return dataclasses.replace(comparison, gates=tuple(results))


def _on_pair(gate: Gate, pair: Pair) -> GateResult:
    row = pair.metric(gate.metric.id)
    status, text = _relative(gate, row) if gate.percent else _bound(gate, row)
    return GateResult(gate.text, gate.metric.id, pair.label, status, text)


def _relative(gate: Gate, row: MetricRow) -> tuple[str, str]:
    if row.change is None or row.baseline.value is None:
        return NOT_JUDGED, f"{row.id}: {row.note or row.verdict}"
    if row.p is None and row.basis != EXACT:
        return NOT_JUDGED, f"{row.id}: {row.verdict}"
    points = row.unit == "share"
    size = row.change if points else row.ratio
    if size is None:
        # From nothing to something is worse than any percentage.
        size = float("inf") if row.change else 0.0
    worse = -size if row.better == HIGHER else size
    limit = _percent(gate.limit, points=points)
    moved = (
        f"{row.id} {_moved(row)} {change_text(row.unit, abs(row.change)).removeprefix('+')}"
        f"{'' if points or row.ratio is None else f' ({_percent(abs(row.ratio), points=False)})'}, "
        f"{value_text(row.unit, row.baseline.value)} → {value_text(row.unit, row.candidate.value)}"
    )
    if worse <= gate.limit:
        return HELD, f"{moved}: within the limit of {limit}"
    if row.verdict != WORSE:
        return HELD, f"{moved}: over the limit of {limit}, but within noise"
    over = "" if worse == float("inf") else f", {_percent(worse - gate.limit, points=points)} over"
    how = f" ({row.note})" if row.note else " (beyond noise)" if row.basis == RUNS else ""
    return TRIPPED, f"{moved}: the limit is {limit} worse{over}{how}"


def _moved(row: MetricRow) -> str:
    return {"up": "rose by", "down": "fell by", "equal": "changed by"}[row.direction]


def _percent(value: float, *, points: bool) -> str:
    return f"{units.digits(value * 100)} {'points' if points else '%'}"


def _bound(gate: Gate, row: MetricRow) -> tuple[str, str]:
    """A bound of the candidate's own figure; noise is that of the change, put around the figure."""
    value = row.candidate.value
    if value is None:
        return NOT_JUDGED, f"{row.id}: {row.note or row.verdict}"
    status, text = _against(gate, value)
    room = (row.interval[1] - row.interval[0]) / 2 if row.interval is not None else 0.0
    if status == TRIPPED and abs(value - gate.limit) <= room:
        return HELD, f"{text}, but within noise"
    return status, text


def _against(gate: Gate, value: float) -> tuple[str, str]:
    metric = gate.metric
    higher = metric.better == HIGHER
    shown, limit = value_text(metric.unit, value), value_text(metric.unit, gate.limit)
    over = gate.limit - value if higher else value - gate.limit
    bound = "at least" if higher else "at most"
    if over <= 0:
        return HELD, f"{metric.id} is {shown}: {bound} {limit} asked for"
    by = change_text(metric.unit, over).removeprefix("+")
    side = "under" if higher else "over"
    return TRIPPED, f"{metric.id} is {shown}: {by} {side} the limit of {limit}"


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
        if gate.percent and gate.metric.unit != "share":
            raise OptionError(
                f"gate {gate.text!r} is relative, and one run has nothing to be relative to",
                f"write {gate.metric.id}:{_example(gate.metric)}, or compare with a baseline",
            )
        source = chosen.get(gate.metric.id, "")
        runs = [run_figure(gate.metric.id, r, source, sampler) for r in recordings]
        value = side_figure(gate.metric, runs, shown).value
        if value is None:
            status, text = NOT_JUDGED, f"{gate.metric.id}: unknown or withheld"
        else:
            status, text = _against(gate, value)
        results.append(GateResult(gate.text, gate.metric.id, label, status, text))
    return tuple(results)


def metric_names() -> tuple[str, ...]:
    """Names that a gate may start with."""
    return GATES
