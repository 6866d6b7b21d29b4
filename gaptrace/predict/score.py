"""Predicted against realised, figure by figure, wherever both exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gaptrace.measure.fusion_model import Estimate
from gaptrace.measure.result import Analysis
from gaptrace.predict.steps import CapturedStep, CompiledStep
from gaptrace.results.prediction import Realised, Score

# Classes below this share of the busy time say little in percent.
SMALL_CLASS = 0.05
TRACED = "as profiled"
PROFILED = "step times as profiled: the host is slower there"


def score(
    measured: Mapping[str, Analysis],
    captured: CapturedStep | None,
    captured_compiled: CapturedStep | None,
    compiled: CompiledStep | None,
    realised: Realised | None,
) -> tuple[Score, ...]:
    """All figures that were both predicted and measured.

    captured: the eager step captured. captured_compiled: the measured compiled step captured.
    """
    return (
        *_of_compiled(measured, compiled, realised),
        *_of_capture(measured.get("graph"), captured, "graph_step", "eager step, captured"),
        *_of_capture(
            measured.get("compiled-graph"),
            captured_compiled,
            "compiled_graph_step_from_compiled",
            "captured, from the compiled step",
        ),
    )


def _of_compiled(
    measured: Mapping[str, Analysis], compiled: CompiledStep | None, realised: Realised | None
) -> Iterator[Score]:
    if compiled is None or compiled.already or compiled.kernels is None:
        return
    note = "" if compiled.exact else compiled.source
    truth = measured.get("compiled") or measured.get("compiled-graph")
    if truth is not None:
        yield from _kernels(truth, compiled, note)
        yield from _busy(truth, compiled, note)
    if truth is not None and realised is not None and compiled.eager_kernels:
        removed = compiled.eager_kernels - compiled.kernels
        real = realised.kernels_removed
        yield _score("kernels_removed", "kernels removed", "count", removed, real, None, note)
    plain = measured.get("compiled")
    # Host times under the profiler say nothing about those without it.
    if plain is not None and (plain.headline.rate.source == TRACED) == compiled.profiled:
        yield from _step(plain, compiled.launched, "compiled_step", "compiled step, launched", note)
    replayed, title = measured.get("compiled-graph"), "compiled step, captured"
    yield from _step(replayed, compiled.captured, "compiled_graph_step", title, note)


def _kernels(truth: Analysis, compiled: CompiledStep, note: str) -> Iterator[Score]:
    assert compiled.kernels is not None
    real = truth.headline.steps["kernels"].median
    if real is not None:
        yield _score(
            "kernels", "kernels", "count", compiled.kernels, real, compiled.kernel_range, note
        )
    tokens = truth.headline.tokens_per_step or 1
    made = sum(row.per_token for row in truth.kernels.rows if row.backend == "Inductor") * tokens
    if compiled.generated is not None and truth.kernels.rows:
        bounds = compiled.generated_range
        yield _score(
            "generated", "generated kernels", "count", compiled.generated, made, bounds, note
        )
    launches = truth.headline.steps["launches"].median
    if compiled.launches is not None and launches is not None and not truth.headline.captured:
        yield _score("launches", "launch calls", "count", compiled.launches, launches, None, note)


def _busy(truth: Analysis, compiled: CompiledStep, note: str) -> Iterator[Score]:
    real = truth.headline.steps["busy_ns"].median
    if real is None or compiled.busy is None:
        return
    yield _timed("busy", "busy time", compiled.busy, real, note, TRACED)
    tokens = truth.headline.tokens_per_step or 1
    for name, ns in (compiled.by_class or {}).items():
        own = truth.kernels.time_ns_by_class.get(name, 0.0) * tokens
        if max(own, ns) >= SMALL_CLASS * real:
            yield _score(f"busy_{name}", f"busy: {name}", "ns", ns, own, None, note, TRACED)


def _of_capture(
    truth: Analysis | None, predicted: CapturedStep | None, name: str, title: str
) -> Iterator[Score]:
    if predicted is not None:
        yield from _step(truth, predicted.step, name, title, predicted.source)


def _step(
    truth: Analysis | None, predicted: Estimate | None, name: str, title: str, note: str
) -> Iterator[Score]:
    """The score of a step time, where it was both predicted and measured."""
    if truth is None or predicted is None or (real := truth.headline.step_ns) is None:
        return
    if truth.headline.rate.source == TRACED:
        note = f"{note}; {PROFILED}" if note else PROFILED
    yield _timed(name, title, predicted, float(real), note, truth.headline.rate.source)


def _timed(
    name: str, title: str, predicted: Estimate, real: float, note: str, source: str
) -> Score:
    bounds = (predicted.low_ns, predicted.high_ns)
    return _score(name, title, "ns", predicted.ns, real, bounds, note, source)


def _score(
    name: str, title: str, unit: str, predicted: float, real: float,
    bounds: tuple[float, float] | None, note: str, source: str | None = None,
) -> Score:  # fmt: skip
    """A figure with its error and whether the printed range holds the measured one."""
    return Score(
        id=name,
        title=title,
        unit=unit,
        predicted=predicted,
        realised=real,
        error=float(f"{predicted / real - 1:.4g}") if real else None,
        range=bounds,
        inside=None if bounds is None else bounds[0] <= real <= bounds[1],
        note=note or None,
        source=source,
    )
