"""The result of a prediction: plain data that renderers print and nothing they have to compute.

Times are nanoseconds per step unless a field says otherwise; a predicted one is an `Estimate`, with
the range that is printed beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gaptrace.measure.fusion_model import Estimate

MEASURED, PREDICTED, UNKNOWN = "measured", "predicted", "not recorded"
# Modes of a run as cells of the 2x2: {eager, compiled} x {launched, captured}.
MODES = ("eager", "compiled", "graph", "compiled-graph")

AS_IT_IS = "capturable as it is"
AFTER_CHANGES = "capturable after these changes"
IN_PIECES = "capturable in pieces"
ALREADY = "already captured"
NOT_KNOWN = "not known"


@dataclass(frozen=True)
class PairCost:
    """Gaps between two kinds of nodes in one captured step: how many, and ns in all."""

    pair: str
    count: int
    ns: float


@dataclass(frozen=True)
class CapturedStep:
    """A step replayed from one CUDA graph: busy + gaps between nodes + replay + memset nodes.

    already: the recording is captured; `step` then is what is left to win, None where nothing is.
    The four parts sum to `step.ns`. launches: launch calls per step that remain (the replay, and
    copies between host and device). source: where the constants are from.
    """

    already: bool
    step: Estimate | None
    busy_ns: float
    gaps_ns: float
    replay_ns: float
    memset_ns: float
    nodes: int
    kernels: int
    launches: int
    pairs: tuple[PairCost, ...]
    source: str
    note: str = ""

    @property
    def idle_ns(self) -> float | None:
        """Step less busy time."""
        return None if self.step is None else self.step.ns - self.busy_ns


@dataclass(frozen=True)
class Place:
    """One place of a blocker: the event in the trace and where in the program it is.

    op: the innermost op around it. call: the event itself. module, stack: innermost `nn.Module`
    and Python frames (innermost first), empty where no stacks were recorded. row: event row, None
    where the evidence is the recorder's and not in the trace.
    """

    step: int | None
    start_ns: int | None
    dur_ns: int | None
    op: str
    call: str
    what: str = ""
    module: str = ""
    stack: tuple[str, ...] = ()
    row: int | None = None


@dataclass(frozen=True)
class Blocker:
    """Something that stands in the way of capture, or that capture leaves outside.

    id: stable. blocks: it must go before the step can be captured whole; otherwise it stays
    outside the graph or only has to be known. seam: it cannot be taken out by a small change, so
    that the step is captured in pieces around it. per_token: how often. ns_per_token: host time in
    it. change: what to do about it.
    """

    id: str
    title: str
    blocks: bool
    seam: bool
    per_token: float
    ns_per_token: float
    text: str
    change: str
    places: tuple[Place, ...] = ()


@dataclass(frozen=True)
class Pieces:
    """The step captured in pieces: what is between them, how many there are, and what they cost.

    seams_at: `attention`, or names of ops. step: predicted step time. cost_ns: against one graph
    of the whole step.
    """

    seams_at: str
    seams: int
    pieces: int
    step: Estimate
    cost_ns: float
    text: str


@dataclass(frozen=True)
class MeasuredPieces:
    """A step in pieces as this run recorded it: pieces and seams per step, median step in ns.

    compiled: it is compiled code, so that not the predicted pieces of an eager step are its peers
    but `whole_ns`, the measured step of the same code in one graph (None where not recorded).
    source: `unprofiled` or `as profiled`.
    """

    compiled: bool
    pieces: float
    seams: float
    step_ns: float
    source: str
    whole_ns: float | None


@dataclass(frozen=True)
class Readiness:
    """Whether the step can be captured. verdict: one of the constants above.

    unknown: what this recording cannot tell. tried: what happened when the run captured it.
    """

    verdict: str
    blockers: tuple[Blocker, ...]
    pieces: tuple[Pieces, ...]
    unknown: tuple[str, ...]
    tried: str = ""

    @property
    def ready(self) -> bool | None:
        """Whether it can be captured as it is; None where that is not known."""
        return None if self.verdict == NOT_KNOWN else self.verdict in (AS_IT_IS, ALREADY)


@dataclass(frozen=True)
class Group:
    """Fused groups that are alike: one generated kernel each, in `places` places of the step.

    chain: the eager ops that compute, in order. Launches, bytes and time are of all places.
    batch: for a number of sequences the bytes and time there. activation: an activation is in it.
    quantize: it ends in a cast to 8 or fewer bits.
    """

    name: str
    chain: tuple[str, ...]
    places: int
    launches: int
    written: float
    read: float
    time_ns: float
    activation: bool
    quantize: bool
    modules: tuple[str, ...]
    batch: Mapping[int, tuple[float, float]]

    @property
    def bytes(self) -> float:
        """Bytes of intermediates no longer written and read."""
        return self.written + self.read


@dataclass(frozen=True)
class Savings:
    """What fusion saves per step. peak: bytes/s the times are computed with.

    values: bytes per step by op whose results stay in a kernel: written, read. source: `exact
    dataflow` or `estimated from shapes`.
    """

    groups: tuple[Group, ...]
    values: Mapping[str, tuple[float, float]]
    launches: int
    written: float
    read: float
    time_ns: float
    batch: Mapping[int, tuple[float, float]]
    recorded_batch: int
    peak: float
    source: str
    quantize_chains: tuple[Group, ...] = ()

    @property
    def bytes(self) -> float:
        """Bytes of intermediates no longer written and read per step."""
        return self.written + self.read


@dataclass(frozen=True)
class Doubt:
    """A construct that makes the prediction doubtful: id, a sentence, and the ops it is about."""

    id: str
    text: str
    ops: tuple[str, ...] = ()


@dataclass(frozen=True)
class Loss:
    """Generated kernels that take longer than what they replace, by what they do."""

    text: str
    kernels: int
    ns: float


@dataclass(frozen=True)
class StackedCache:
    """In-place writes to views of a stacked buffer: what compiling would lose on them.

    writes, buffers: how many. base_bytes, view_bytes: of one buffer and of one written view.
    copies: kernels that would copy a whole buffer; loss_ns: their time less what they replace.
    busy_change_ns: predicted compiled busy less eager busy (positive: compiling loses busy time).
    gain_ns: predicted busy time won by one tensor per layer; None where that was not asked.
    """

    writes: int
    buffers: int
    base_bytes: int
    view_bytes: int
    copies: int
    loss_ns: float
    busy_change_ns: float | None
    gain_ns: float | None
    text: str


@dataclass(frozen=True)
class Variant:
    """A what-if: the step changed mechanically, scheduled again. `error`: why it does not apply."""

    name: str
    text: str
    error: str
    kernels: int | None = None
    generated: int | None = None
    busy: Estimate | None = None
    captured: Estimate | None = None
    gain_ns: float | None = None
    captured_gain_ns: float | None = None


@dataclass(frozen=True)
class CompiledStep:
    """The step after torch.compile. already: the recording is compiled, so nothing is predicted.

    kernels: all kernels; generated: by Inductor; extern: library calls that stay. launches: launch
    calls. by_class: predicted busy ns by op class. launched, captured: step time. kernel_range,
    generated_range: the printed ranges. exact: from the real scheduler, else estimated from shapes.
    host: where the host time per launch is from; profiled: the profiler slowed it. source, note:
    where the prediction is from, and what to know about the torch version.
    """

    already: bool
    exact: bool
    source: str
    note: str
    kernels: int | None = None
    generated: int | None = None
    extern: int | None = None
    launches: int | None = None
    eager_kernels: int | None = None
    busy: Estimate | None = None
    by_class: Mapping[str, float] | None = None
    launched: Estimate | None = None
    captured: Estimate | None = None
    kernel_range: tuple[int, int] | None = None
    generated_range: tuple[int, int] | None = None
    doubts: tuple[Doubt, ...] = ()
    losses: tuple[Loss, ...] = ()
    what_ifs: tuple[Variant, ...] = ()
    host: str = ""
    profiled: bool = False
    torch: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Cell:
    """One cell of the 2x2. known: `measured`, `predicted` or `not recorded`.

    source: of a measured time `unprofiled` or `as profiled`. note: what to add, or why there is
    nothing.
    """

    mode: str
    known: str
    step_ns: float | None = None
    range_ns: tuple[float, float] | None = None
    tokens_per_s: float | None = None
    ns_per_token: float | None = None
    busy_ns: float | None = None
    kernels: float | None = None
    launches: float | None = None
    source: str = ""
    note: str = ""


@dataclass(frozen=True)
class RealisedGroup:
    """Kernels of the compiled step beside the eager ones they stand for, per token.

    predicted: count and ns of the predicted groups of the same ops, None where there are none.
    """

    title: str
    op_class: str
    eager_kernels: float
    eager_ns: float
    compiled_kernels: float
    compiled_ns: float
    predicted: tuple[float, float] | None = None

    @property
    def delta_ns(self) -> float:
        """Compiled less eager ns per token: positive is a loss."""
        return self.compiled_ns - self.eager_ns


@dataclass(frozen=True)
class Realised:
    """What compiling did, per step, from a measured pair; busy and idle apart.

    Removed counts and times are eager less compiled. idle_source: `unprofiled` or `as profiled`.
    busy_by_class: change of busy time by op class (negative: gained). losses: groups that got
    slower, largest first; groups: all of them.
    """

    kernels_removed: float
    launches_removed: float
    idle_removed_ns: float
    idle_source: str
    busy_change_ns: float
    busy_by_class: Mapping[str, float]
    groups: tuple[RealisedGroup, ...]
    losses: tuple[RealisedGroup, ...]


@dataclass(frozen=True)
class Score:
    """One figure, predicted and realised. error: predicted / realised - 1. note: about either."""

    id: str
    title: str
    unit: str
    predicted: float
    low: float | None
    high: float | None
    realised: float
    note: str = ""

    @property
    def error(self) -> float | None:
        """Signed relative error of the prediction; None where the realised figure is 0."""
        return None if not self.realised else self.predicted / self.realised - 1

    @property
    def inside(self) -> bool | None:
        """Whether the printed range holds the realised figure; None where no range was printed."""
        if self.low is None or self.high is None:
            return None
        return self.low <= self.realised <= self.high


@dataclass(frozen=True)
class Subject:
    """What was predicted from: path, GPU, mode, tokens per step and where the figures are from."""

    path: str
    gpu: str | None
    mode: str
    tokens_per_step: float
    step_ns: float | None
    step_source: str
    busy_ns: float | None
    kernels: float | None
    launches: float | None


@dataclass(frozen=True)
class Prediction:
    """What compiling and capturing would buy, and how right that was where they were done."""

    subject: Subject
    captured: CapturedStep | None
    readiness: Readiness
    compiled: CompiledStep | None
    savings: Savings | None
    stacked: tuple[StackedCache, ...]
    square: Mapping[str, Cell]
    realised: Realised | None
    score: tuple[Score, ...]
    notes: tuple[str, ...] = ()
    measured_pieces: MeasuredPieces | None = None

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The prediction as plain data, schema `gaptrace.prediction/1`."""
        from gaptrace.predict.summary import summary

        return summary(self)
