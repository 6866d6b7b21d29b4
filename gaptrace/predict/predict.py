"""Analysis in, Prediction out: the one place that knows the order of a prediction's parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec import convert
from msgspec.structs import replace

from gaptrace.errors import GaptraceError
from gaptrace.measure import fusion_model as fm
from gaptrace.measure.result import Analysis
from gaptrace.predict.captured import captured_step
from gaptrace.predict.compiled import Host, compiled_step
from gaptrace.predict.constants import GraphModel, Replayed, graph_model
from gaptrace.predict.nodes import Nodes, step_nodes
from gaptrace.predict.pieces import measured_pieces
from gaptrace.predict.readiness import readiness
from gaptrace.predict.realised import realised
from gaptrace.predict.saved import saved_answer
from gaptrace.predict.savings import exact_savings
from gaptrace.predict.score import score
from gaptrace.predict.shapes import estimated, estimated_savings
from gaptrace.predict.square import is_compiled, mode_of, square
from gaptrace.predict.stacked import stacked_caches
from gaptrace.predict.stacked_shapes import as_caches
from gaptrace.predict.steps import CapturedStep, CompiledStep
from gaptrace.reading.manifest import Manifest
from gaptrace.results.codec import to_data
from gaptrace.results.prediction import (
    Compile,
    FusionSavings,
    PredictionResult,
    Realised,
    SquareCell,
    StackedCache,
    Subject,
)

Answer = Mapping[str, Any]
# Busy below this share of the step: the host sets the pace, and the step takes what it takes.
LAUNCH_BOUND = 0.5
# Modes whose replays are cut into pieces or hold other kernels: no measure for one whole graph.
OTHERWISE_CAPTURED = frozenset({"piecewise", "reduce-overhead", "max-autotune"})


@dataclass(frozen=True)
class PredictOptions:
    """batches: numbers of sequences per step for which savings are given besides the recorded."""

    batches: tuple[int, ...] = (256,)


class RecordedCell(Protocol):
    """One mode and repeat of a run."""

    @property
    def mode(self) -> str:
        """Its mode."""

    @property
    def reason(self) -> str:
        """Why it could not be recorded; empty where it could."""

    @property
    def manifest(self) -> Manifest:
        """What the recorder wrote."""


class RecordedRun(Protocol):
    """What is asked of a run; runs are read and analysed above predictions."""

    @property
    def path(self) -> str:
        """Its folder."""

    @property
    def modes(self) -> tuple[str, ...]:
        """Its modes, failed ones included."""

    @property
    def cells(self) -> Sequence[RecordedCell]:
        """All modes and repeats."""

    def repeats(self, mode: str) -> tuple[Analysis, ...]:
        """The analyses of a mode."""

    def representative(self, mode: str) -> Analysis | None:
        """The analysis that stands for a mode."""


@dataclass(frozen=True, eq=False)
class _Peers:
    """Other recordings of the same program: by mode, why modes failed, captured manifests."""

    measured: Mapping[str, Analysis] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    captured: tuple[Manifest, ...] = ()


def predict(
    analysis: Analysis,
    options: PredictOptions | None = None,
    *,
    answer: Answer | None = None,
    others: Sequence[Analysis] = (),
) -> PredictionResult:
    """What compiling and capturing this recording's step would buy.

    answer: a `gaptrace.inductor/1` object for it; without one the answer saved beside the
    recording is used, else the compiled step is estimated from shapes. others: recordings of the
    same program in other modes, to score against.
    """
    measured = {mode_of(other): other for other in others}
    measured[mode_of(analysis)] = analysis
    answer = answer if answer is not None else saved_answer(analysis.manifest)
    return _predict(analysis, options or PredictOptions(), answer, _Peers(measured))


def predict_run(
    run: RecordedRun, options: PredictOptions | None = None, *, answer: Answer | None = None
) -> PredictionResult:
    """The prediction from a run's eager recording, scored against its other modes.

    Raises:
        GaptraceError: no mode of the run has a recording.
    """
    measured = {mode: a for mode in run.modes if (a := run.representative(mode)) is not None}
    base = next(
        (measured[m] for m in ("eager", "compiled", "as-is", *measured) if m in measured), None
    )
    if base is None:
        raise GaptraceError(f"{run.path} holds no recording", "record the run again")
    failed = {
        cell.mode: cell.reason for cell in run.cells if cell.reason and cell.mode not in measured
    }
    captured = tuple(c.manifest for c in run.cells if c.mode in ("graph", "compiled-graph"))
    if answer is None:
        saved = (saved_answer(a.manifest) for a in run.repeats("eager"))
        answer = next((found for found in saved if found is not None), None)
    measured.setdefault(mode_of(base), base)
    return _predict(base, options or PredictOptions(), answer, _Peers(measured, failed, captured))


def _predict(
    analysis: Analysis, options: PredictOptions, answer: Answer | None, peers: _Peers
) -> PredictionResult:
    nodes = step_nodes(analysis)
    mode = mode_of(analysis)
    notes = [f"trace {r.level}: {r.text}" for r in analysis.quality.reasons if r.level != "note"]
    withheld = analysis.quality.withholds("capture", "steps", "busy")
    model = _model(analysis, peers, "compiled-graph" if mode == "compiled" else "graph")
    compiled_model = _model(analysis, peers, "compiled-graph")
    captured = None if withheld else captured_step(analysis, nodes, model)
    compiled, savings, stacked = _compiled(analysis, nodes, options, answer, compiled_model, mode)
    doubts = compiled.doubts if compiled is not None else ()
    capture = readiness(analysis, nodes, model, peers.captured, doubts)
    pair = _pair(peers, answer)
    second = _captured_compiled(peers, compiled_model)
    cells = _square(analysis, peers, captured, compiled, second, mode)
    steps = {name: cell.step_ns for name, cell in cells.items() if cell.step_ns is not None}
    best = min(steps, key=lambda name: steps[name], default=None)
    now, least = steps.get(mode), steps.get(best or "")
    result = PredictionResult(
        subject=_subject(analysis, mode),
        capture=replace(
            capture,
            measured_pieces=measured_pieces(
                peers.measured.get("piecewise"), peers.measured.get("compiled-graph")
            ),
            **({} if captured is None else captured.fields(analysis.headline.tokens_per_step or 1)),
        ),
        compile=Compile(None, None) if compiled is None else compiled.field,
        savings=savings,
        stacked_caches=stacked,
        square=cells,
        best=best,
        times=now / least if now and least else None,
        realised=pair,
        score=score(peers.measured, captured if mode == "eager" else None, second, compiled, pair),
        notes=tuple(notes),
    )
    # No prediction knows more than six digits.
    return convert(to_data(result, digits=6), PredictionResult)


def _model(analysis: Analysis, peers: _Peers, target: str) -> GraphModel:
    """Graph costs for a target mode, never from the very mode that is to be predicted."""
    twins = {"graph": "eager", "compiled-graph": "compiled"}
    replays = [
        Replayed(a, peers.measured.get(twins.get(mode, "")))
        for mode, a in peers.measured.items()
        if mode != target and mode not in OTHERWISE_CAPTURED and a.headline.captured
    ]
    empty = analysis.manifest.device.empty_launch
    node_ns = None if empty is None or empty.graph_node_ns is None else int(empty.graph_node_ns)
    return graph_model(analysis.source.gpu, replays, node_ns)


def host_of(analysis: Analysis) -> Host:
    """Host time per launch of the recorded step: unprofiled issue time where the run has it."""
    launches = analysis.headline.steps["launches"].median
    rate = analysis.headline.rate
    if not launches or analysis.headline.captured:
        return Host(None, "")
    if rate.issue_ns is not None:
        return Host(rate.issue_ns / launches, "unprofiled issue time")
    dispatch = analysis.headline.steps["host_dispatch_ns"].median
    if dispatch is None:
        return _host_from_period(analysis, launches)
    if rate.dilation and rate.dilation > 1:
        return Host(dispatch / rate.dilation / launches, "host dispatch over the dilation")
    return Host(dispatch / launches, "host dispatch as profiled", profiled=True)


def _host_from_period(analysis: Analysis, launches: float) -> Host:
    """Where host dispatch is withheld: the step itself, if the GPU idles for most of it."""
    head = analysis.headline
    period, busy = head.step_ns, head.steps["busy_ns"].median
    if period is None or busy is None or busy > LAUNCH_BOUND * period:
        return Host(None, "")
    profiled = head.rate.unprofiled_step_ns is None
    return Host(period / launches, "step time of a step that waits for the host", profiled)


def _compiled(
    analysis: Analysis,
    nodes: Nodes | None,
    options: PredictOptions,
    answer: Answer | None,
    model: GraphModel,
    mode: str,
) -> tuple[CompiledStep | None, FusionSavings | None, tuple[StackedCache, ...]]:
    if mode.startswith("compiled") or is_compiled(analysis):
        done = CompiledStep(
            already=True, exact=True, source="the recording", note="already compiled"
        )
        return done, None, ()
    if analysis.quality.withholds("compile", "steps") or nodes is None:
        return None, None, ()
    host = host_of(analysis)
    peak = analysis.ceilings.peak_bandwidth_bytes_per_s or float("inf")
    batch = _batch(analysis)
    if answer is None:
        guess = estimated(analysis, nodes, host, model)
        if guess is None:
            return None, None, ()
        step, fusion, stacked = guess
        saved = None
        if fusion.shaped:
            saved = estimated_savings(fusion.groups, peak, batch, options.batches)
        return step, saved, as_caches(stacked)
    busy = analysis.headline.steps["busy_ns"].median
    step = compiled_step(answer, host, model)
    if step.already:
        return step, None, ()
    return (
        step,
        exact_savings(answer, peak, batch, options.batches),
        stacked_caches(answer, step, busy),
    )


def _batch(analysis: Analysis) -> int:
    batch = analysis.manifest.step.batch
    return max(batch or int(analysis.headline.tokens_per_step or 1), 1)


def _pair(peers: _Peers, answer: Answer | None) -> Realised | None:
    """The realised side: plain launches where both were recorded so, else both captured."""
    predicted = []
    if answer is not None:
        predicted = [(str(k["name"]), fm.generated_ns(k)) for k in answer["kernels"]["generated"]]
    for modes in (("eager", "compiled"), ("graph", "compiled-graph")):
        left, right = (peers.measured.get(mode) for mode in modes)
        if left is None or right is None or left.device is None or right.device is None:
            continue
        if (found := realised(left, right, predicted)) is not None:
            return found
    return None


def _captured_compiled(peers: _Peers, model: GraphModel) -> CapturedStep | None:
    compiled = peers.measured.get("compiled")
    if compiled is None or compiled.quality.withholds("capture", "busy"):
        return None
    return captured_step(compiled, step_nodes(compiled), model)


def _square(
    analysis: Analysis,
    peers: _Peers,
    captured: CapturedStep | None,
    compiled: CompiledStep | None,
    second: CapturedStep | None,
    mode: str,
) -> dict[str, SquareCell]:
    tokens = analysis.headline.tokens_per_step or 1
    cells = square(peers.measured, peers.failed, tokens, captured, compiled, mode)
    if second is not None and mode != "compiled":
        # The compiled step was recorded, so its captured step need not be guessed from eager.
        own = square(peers.measured, peers.failed, tokens, second, None, "compiled")
        cells["compiled-graph"] = own["compiled-graph"]
    return cells


def _subject(analysis: Analysis, mode: str) -> Subject:
    head = analysis.headline
    names = ("busy_ns", "kernels", "launches")
    return Subject(
        path=analysis.source.path,
        gpu=analysis.source.gpu,
        mode=mode,
        tokens_per_step=head.tokens_per_step or 1,
        step_ns=analysis.headline.step_ns,
        step_source=head.rate.source,
        **{name: head.steps[name].median if head.steps else None for name in names},
    )
