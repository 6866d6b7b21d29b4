"""`gaptrace.prediction/1` and the fields `capture` and `compile` of an analysis.

Times are nanoseconds per step, rounded, unless a field says otherwise; a predicted one has its
range beside it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import UNSET, Struct, UnsetType, field

Maybe: TypeAlias = int | float | None
Range: TypeAlias = tuple[int, int] | None
PREDICTION = "gaptrace.prediction/1"
# How a cell of the 2x2 is known.
MEASURED, PREDICTED, UNKNOWN = "measured", "predicted", "not recorded"
# Verdicts on capture.
AS_IT_IS = "capturable as it is"
AFTER_CHANGES = "capturable after these changes"
IN_PIECES = "capturable in pieces"
ALREADY = "already captured"
NOT_KNOWN = "not known"


class BlockerPlace(Struct, frozen=True):
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


class Blocker(Struct, frozen=True):
    """Something that stands in the way of capture, or that capture leaves outside.

    blocks: it must go before the step can be captured whole; otherwise it stays outside the graph
    or only has to be known. seam: no small change takes it out, so that the step is captured in
    pieces around it. per_token: how often. ns_per_token: host time in it. change: what to do.
    """

    id: str
    title: str
    blocks: bool
    seam: bool
    per_token: int | float
    ns_per_token: int | float
    text: str
    change: str
    places: tuple[BlockerPlace, ...] = ()


class PredictedPieces(Struct, frozen=True):
    """The step captured in pieces: what lies between them, how many, and what they cost.

    cost_ns: at least this much more than one graph. price_each_ns, price_ns: what a gap between
    pieces took where such were measured (on an H200), and what these would take in all.
    """

    seams_at: str
    seams: int
    pieces: int
    predicted_step_ns: int
    range_ns: Range
    cost_ns: int
    text: str
    price_each_ns: Range = None
    price_ns: Range = None


class MeasuredPieces(Struct, frozen=True):
    """A step in pieces as this run recorded it, beside the same code in one graph.

    source: `unprofiled` or `as profiled`. whole_ns: None where that was not recorded. more_ns:
    step_ns less whole_ns.
    """

    compiled: bool
    pieces: int | float
    seams: int | float
    step_ns: int | float
    source: str
    whole_ns: Maybe
    more_ns: Maybe = None


class CapturedParts(Struct, frozen=True):
    """The parts of a predicted captured step, which sum to it."""

    busy: int
    gaps: int
    replay: int
    memsets: int


class PairCost(Struct, frozen=True):
    """Gaps between two kinds of nodes in one captured step: how many, and ns in all."""

    pair: str
    count: int
    ns: int


class CapturedPerToken(Struct, frozen=True):
    """A predicted captured step per token."""

    step_ns: int | float
    idle_ns: int | float
    launches: int | float


class Capture(Struct, frozen=True):
    """Whether the step can be captured, and the step captured: the field `capture`.

    already: the recording is captured; the step then is what is left to win. source: where the
    constants are from.
    """

    ready: bool | None
    verdict: str
    blockers: tuple[Blocker, ...]
    unknown: tuple[str, ...]
    tried: str | None
    pieces: tuple[PredictedPieces, ...]
    measured_pieces: MeasuredPieces | None
    already: bool | None = None
    predicted_step_ns: int | None = None
    range_ns: Range = None
    parts_ns: CapturedParts | None = None
    gaps_by_pair: tuple[PairCost, ...] = ()
    idle_ns: int | None = None
    launches: int | None = None
    nodes: int | None = None
    per_token: CapturedPerToken | None = None
    source: str | None = None
    note: str | None = None


class CompiledRanges(Struct, frozen=True):
    """The printed ranges of a predicted compiled step."""

    kernels: Range
    generated: Range
    busy_ns: Range
    step_ns: Range
    captured_step_ns: Range


class CompiledFigures(Struct, frozen=True):
    """A predicted compiled step: kernels (generated; library calls that stay), and times."""

    kernels: int
    generated: int | None
    extern: int | None
    launches: int | None
    busy_ns: int | None
    busy_ns_by_class: dict[str, int] | None
    step_ns: int | None
    captured_step_ns: int | None
    range: CompiledRanges


class Doubt(Struct, frozen=True):
    """A construct that makes a prediction doubtful: id, a sentence, and the ops it is about."""

    id: str
    text: str
    ops: tuple[str, ...] = ()


class Loss(Struct, frozen=True):
    """Generated kernels that take longer than what they replace, by what they do."""

    text: str
    kernels: int
    ns: int | float


class VariantRanges(Struct, frozen=True):
    """The printed ranges of a what-if."""

    busy_ns: Range
    captured_step_ns: Range


class Variant(Struct, frozen=True):
    """A what-if: the step changed mechanically, scheduled again. `error`: why it does not apply."""

    name: str
    text: str
    error: str | None = None
    kernels: int | None = None
    generated: int | None = None
    busy_ns: int | None = None
    captured_step_ns: int | None = None
    range: VariantRanges = VariantRanges(None, None)
    gain_ns: int | None = None
    captured_gain_ns: int | None = None


class Compile(Struct, frozen=True):
    """The step after torch.compile: the field `compile`.

    already: the recording is compiled, so nothing is predicted. exact: from the real scheduler,
    else estimated from shapes. note: what to know about the torch version.
    """

    predicted: CompiledFigures | None
    source: str | None
    exact: bool | UnsetType = UNSET
    already: bool | UnsetType = UNSET
    note: str | UnsetType = UNSET
    torch: dict[str, Any] | UnsetType | None = UNSET
    eager_kernels: int | UnsetType | None = UNSET
    doubts: tuple[Doubt, ...] | UnsetType = UNSET
    losses: tuple[Loss, ...] | UnsetType = UNSET
    what_ifs: tuple[Variant, ...] | UnsetType = UNSET


class Subject(Struct, frozen=True):
    """What was predicted from: path, GPU, mode, tokens per step and where the figures are from."""

    path: str
    gpu: str | None
    mode: str
    tokens_per_step: int | float
    step_ns: Maybe
    step_source: str
    busy_ns: Maybe
    kernels: Maybe
    launches: Maybe


class AtBatch(Struct, frozen=True):
    """Savings at another number of sequences: bytes and ns per step."""

    bytes: int
    time_ns: int


class ValueBytes(Struct, frozen=True):
    """Bytes per step of results that stay inside a kernel."""

    bytes_written: int
    bytes_read: int


class FusedGroup(Struct, frozen=True):
    """Fused groups that are alike: one generated kernel each, in `places` places of the step.

    chain: the eager ops that compute, in order. Launches, bytes and time are of all places.
    activation: an activation is in it. quantize: it ends in a cast to 8 or fewer bits.
    """

    name: str
    chain: tuple[str, ...]
    places: int
    launches: int
    bytes: int
    time_ns: int
    activation: bool
    quantize: bool
    modules: tuple[str, ...]
    at_batch: dict[str, AtBatch]


class FusionSavings(Struct, frozen=True):
    """What fusion saves per step. source: `exact dataflow` or `estimated from shapes`."""

    source: str
    launches: int
    bytes: int
    bytes_written: int
    bytes_read: int
    time_ns: int
    recorded_batch: int
    peak_bandwidth_bytes_per_s: Maybe
    at_batch: dict[str, AtBatch]
    values: dict[str, ValueBytes]
    groups: tuple[FusedGroup, ...]
    quantize_chains: tuple[FusedGroup, ...]


class StackedCache(Struct, frozen=True):
    """In-place writes to views of a stacked buffer: what compiling would lose on them.

    copies: kernels that would copy a whole buffer; loss_ns: their time less what they replace.
    busy_change_ns: predicted compiled busy less eager busy. gain_ns: busy time won by one tensor
    per layer; None where that was not asked.
    """

    writes: int
    buffers: int
    base_bytes: int
    view_bytes: int
    copies: int
    loss_ns: int | float
    busy_change_ns: Maybe
    gain_ns: Maybe
    text: str


class SquareCell(Struct, frozen=True):
    """One cell of {eager, compiled} x {launched, captured}.

    known: `measured`, `predicted` or `not recorded`. source: of a measured time `unprofiled` or
    `as profiled`. note: what to add, or why there is nothing. rate_range: tokens per second at the
    ends of range_ns, the lower first.
    """

    known: str
    step_ns: int | None = None
    range_ns: Range = None
    tokens_per_s: Maybe = None
    ns_per_token: int | None = None
    busy_ns: int | None = None
    kernels: Maybe = None
    launches: Maybe = None
    source: str | None = None
    note: str | None = None
    rate_range: tuple[int | float, int | float] | None = None


class RealisedGroup(Struct, frozen=True):
    """Kernels of the compiled step beside the eager ones they stand for, per token."""

    title: str
    op_class: str
    eager_kernels: int | float
    eager_ns: int | float
    compiled_kernels: int | float
    compiled_ns: int | float
    predicted: tuple[int | float, int | float] | None = None


class Realised(Struct, frozen=True):
    """What compiling did, per step, from a measured pair; busy and idle apart.

    Removed counts and times are eager less compiled. busy_by_class: change of busy time by op
    class (negative: gained). losses: groups that got slower, largest first; groups: all of them.
    """

    kernels_removed: int | float
    launches_removed: int | float
    idle_removed_ns: int | float
    idle_source: str
    busy_change_ns: int | float
    busy_by_class: dict[str, int | float]
    groups: tuple[RealisedGroup, ...]
    losses: tuple[RealisedGroup, ...]


class Score(Struct, frozen=True):
    """One figure, predicted and measured. error: predicted / measured - 1."""

    id: str
    title: str
    unit: str
    predicted: int | float
    realised: int | float
    error: Maybe
    range: tuple[int | float, int | float] | None
    inside: bool | None
    note: str | None


class PredictionResult(Struct, frozen=True):
    """What compiling and capturing would buy, and how right that was where they were done."""

    subject: Subject
    capture: Capture
    compile: Compile
    savings: FusionSavings | None
    stacked_caches: tuple[StackedCache, ...]
    square: dict[str, SquareCell]
    realised: Realised | None
    score: tuple[Score, ...]
    notes: tuple[str, ...]
    schema: str = field(default=PREDICTION)
