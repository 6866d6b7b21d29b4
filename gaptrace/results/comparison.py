"""`gaptrace.comparison/1`: what changed between recordings, pair by pair, as plain data.

Times are nanoseconds, per step in a bridge and per token everywhere else unless a field says
otherwise. None stands for what is unknown or withheld; the reason is in the `note` beside it or in
the pair's `notes`. Sentences are filled in by `gaptrace.runs.compared`.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct, field

Number: TypeAlias = int | float
Maybe: TypeAlias = int | float | None
COMPARISON = "gaptrace.comparison/1"

# What can be said of a change.
BETTER, WORSE, WITHIN_NOISE = "better", "worse", "within noise"
TOO_FEW, WITHHELD = "too few steps to judge", "withheld"
# The profiler slowed the host of a side; what is predicted of both sides may be the same.
NOT_COMPARABLE, OVERLAP = "not comparable as profiled", "predicted ranges overlap"
VERDICTS = (BETTER, WORSE, WITHIN_NOISE, TOO_FEW, WITHHELD, NOT_COMPARABLE, OVERLAP)
UNJUDGED = (TOO_FEW, WITHHELD, NOT_COMPARABLE, OVERLAP)
# What a verdict stands on.
RUNS, STEPS, EXACT, RANGES, NONE = "runs and steps", "steps", "exact", "predicted ranges", "none"
VARIES = "varies from step to step by as much"
ONE_RUN = "beyond step noise; run-to-run not measured"
# What a change that is a real one is beyond, by what the verdict stands on.
BEYOND = {RUNS: "beyond noise", RANGES: "predicted ranges are apart"}
# What became of a gate.
HELD, TRIPPED, NOT_JUDGED = "held", "tripped", "not judged"
# How a figure is known.
UNPROFILED, GIVEN, PREDICTED, PROFILED = "unprofiled", "given", "predicted", "as profiled"


class ComparedSide(Struct, frozen=True):
    """One side of a comparison.

    label: what to call it, unique within the comparison (`main/eager`). path: what was named. mode:
    None for a bare trace. runs: recordings (repeats). steps: complete decode steps in all of them.
    verdict, reasons: quality of the weakest recording. saved: read from a saved baseline. facts:
    what likeness is judged by (`gpu`, `model`, `dtype`, `batch`, ...), None where unknown.
    recording: path of the one that the bridge stands on, empty where no trace is behind it; step:
    row of its step table, -1 where the bridge does not stand on one step. batch, length: of the
    point of a sweep that it is, None where that was not varied.
    """

    label: str
    path: str
    mode: str | None
    runs: int
    steps: int
    verdict: str
    reasons: tuple[str, ...]
    saved: bool
    facts: dict[str, str | None]
    recording: str = ""
    step: int = -1
    batch: int | None = None
    length: int | None = None


class Figure(Struct, frozen=True):
    """One metric of one side.

    value: of the run whose step time is the median of the side, or the median over runs where it
    is no part of a step. p5, p95: nearest rank over all steps of all runs. n: steps (or unprofiled
    samples) behind it. runs: the figure of each run, in order. low, high: what a predicted figure
    may be at least and at most.
    """

    value: Maybe
    p5: Maybe = None
    p95: Maybe = None
    n: int = 0
    runs: tuple[Number, ...] = ()
    low: Maybe = None
    high: Maybe = None


class MetricRow(Struct, frozen=True):
    """One metric on both sides, and what can be said of the difference.

    unit: `ns`, `count`, `tok/s`, `share` or `bytes`. better: `lower` or `higher`. gate: `--fail-on`
    knows it. source: `unprofiled`, `given` (on a side at least), `predicted` (likewise), `as
    profiled`, or None where the profiler does not matter. change: candidate less baseline; None
    where the two cannot be compared. ratio: change over the baseline, None where that is 0.
    interval: of the change, at 95 % or over predicted ranges, None for a count; interval_ratio: the
    same over the baseline. p: Holm-corrected probability of a difference this large by chance.
    basis: `runs and steps`, `steps`, `exact`, `predicted ranges` or `none`. note: what to add to
    the verdict. as_profiled: both sides as traced, where `source` is another.
    """

    id: str
    title: str
    unit: str
    better: str
    per_token: bool
    gate: bool
    source: str | None
    baseline: Figure
    candidate: Figure
    change: Maybe = None
    ratio: Maybe = None
    interval: tuple[Maybe, Maybe] | None = None
    p: Maybe = None
    verdict: str = WITHHELD
    basis: str = NONE
    note: str = ""
    as_profiled: tuple[Maybe, Maybe] | None = None
    interval_ratio: tuple[Maybe, Maybe] | None = None

    @property
    def known(self) -> bool:
        """Whether a side has the figure."""
        return self.baseline.value is not None or self.candidate.value is not None


class BridgePart(Struct, frozen=True):
    """One part of both steps, in ns per step.

    kind: `idle`, `busy`, or `time` where the two cannot be told apart. key: the cause for idle
    (`withheld` where a side's causes are, or idle cannot be compared), the op class for busy.
    share: what it changed by, of the longer step. estimated: unprofiled idle, split by the shares
    that causes have of the traced idle.
    """

    kind: str
    key: str
    title: str
    baseline_ns: int
    candidate_ns: int
    delta_ns: int
    share: Number = 0
    estimated: bool = False


class Bridge(Struct, frozen=True):
    """The way from the baseline's step time to the candidate's in exact integer parts.

    On each side the parts sum to that end: the unprofiled step where both sides have one (`source`
    is `unprofiled`, `given` or `predicted`; `unprofiled_baseline_ns`, `unprofiled_candidate_ns`),
    else the traced period (`baseline_ns`, `candidate_ns`). Parts that are 0 on both sides are left
    out. comparable: whether the idle time of the two steps is; false as profiled where the profiler
    slowed a host. basis: `median step` (whose traced period is the median of the run
    whose median is the median of the side), `open step` or `whole recording`. baseline_step,
    candidate_step: which, in words. split: whether busy and idle can be told apart. idle_causes:
    the one or two parts that most of the change of idle is made of; none where no two are.
    """

    basis: str
    source: str
    baseline_step: str
    candidate_step: str
    baseline_ns: int
    candidate_ns: int
    unprofiled_baseline_ns: int | None
    unprofiled_candidate_ns: int | None
    split: bool
    notes: tuple[str, ...]
    parts: tuple[BridgePart, ...]
    idle_causes: tuple[str, ...] = ()
    comparable: bool = True

    @property
    def ends(self) -> tuple[int, int]:
        """What the parts sum to on each side."""
        before, after = self.unprofiled_baseline_ns, self.unprofiled_candidate_ns
        if self.source != PROFILED and before is not None and after is not None:
            return before, after
        return self.baseline_ns, self.candidate_ns


class KernelUse(Struct, frozen=True):
    """How much one GPU op name was used on one side: executions and ns per token, median ns."""

    per_token: Number
    ns_per_token: Number
    median_ns: int


class KernelChange(Struct, frozen=True):
    """One GPU op name on both sides.

    status: `same`, `changed`, `removed` or `added`. fuses: the ATen ops that a compiled kernel
    fuses. group: id of the `KernelGroup` that it is in. Changes are per token.
    """

    name: str
    short: str
    op_class: str = field(name="class")
    op: str
    status: str
    fuses: tuple[str, ...]
    group: str
    baseline: KernelUse | None
    candidate: KernelUse | None
    delta_count: Number
    delta_ns: Number


class Member(Struct, frozen=True):
    """A GPU op name in a group: executions and ns per token of it that belong to the group."""

    name: str
    short: str
    op: str
    per_token: Number
    ns_per_token: Number


class KernelGroup(Struct, frozen=True):
    """Removed kernels beside the added ones that stand for them.

    by: `fusion` (one compiled kernel and what it replaced, by the ops it fuses; where several
    compiled kernels fuse the same op, what was removed is shared out by how often each runs),
    `op` (the same op, other kernels) or `class` (the same op class, no op known).
    """

    id: str
    by: str
    title: str
    op_class: str = field(name="class")
    delta_count: Number
    delta_ns: Number
    baseline: tuple[Member, ...]
    candidate: tuple[Member, ...]


class KernelComparison(Struct, frozen=True):
    """All GPU ops of both sides: by name, and what replaced what; largest change of time first.

    by_class_ns: summed ns per token on both sides (overlapping streams counted twice, so these
    need not equal the busy parts of the bridge).
    """

    by_class_ns: dict[str, tuple[Number, Number]] = {}
    rows: tuple[KernelChange, ...] = ()
    groups: tuple[KernelGroup, ...] = ()

    def of(self, status: str) -> tuple[KernelChange, ...]:
        """Rows of one status: `same`, `changed`, `removed` or `added`."""
        return tuple(row for row in self.rows if row.status == status)


class NamedKernel(Struct, frozen=True):
    """A kernel that is named for a gain or a loss, and how often it runs per token."""

    short: str
    per_token: Number


class ClassChange(Struct, frozen=True):
    """An op class that makes up a gain or loss of busy time per token, and the kernels behind."""

    op_class: str = field(name="class")
    delta_ns: Number
    kernels: tuple[NamedKernel, ...]


class Work(Struct, frozen=True):
    """What became of the kernels and, apart from it, of busy time: one can fall, the other rise.

    subject: what was done (`compiling`, `the candidate`). kernels: both sides, per token;
    kernels_ratio: their change over the baseline. busy_ns: change per token. classes: op classes
    that busy time was won or lost on.
    """

    subject: str
    kernels: tuple[Maybe, Maybe]
    kernels_ratio: Maybe
    busy_ns: Maybe
    busy_ratio: Maybe
    busy_verdict: str
    classes: tuple[ClassChange, ...]


class Pair(Struct, frozen=True):
    """One candidate against one baseline.

    verdict: of the step time. banner: how the sides differ in what must be alike; not empty only
    when forced. step_ns: step time of both sides, unprofiled where both have it.
    factor: the longer of them over the shorter.
    """

    baseline: ComparedSide
    candidate: ComparedSide
    verdict: str
    banner: tuple[str, ...]
    notes: tuple[str, ...]
    step_ns: tuple[Maybe, Maybe]
    metrics: tuple[MetricRow, ...]
    bridge: Bridge | None
    kernels: KernelComparison
    work: Work
    factor: Maybe = None
    sentence: str = ""
    kernel_sentence: str = ""

    @property
    def label(self) -> str:
        """`base → cand`."""
        return f"{self.baseline.label} → {self.candidate.label}"

    def metric(self, name: str) -> MetricRow:
        """The row of a metric by its id."""
        return next(row for row in self.metrics if row.id == name)


class Corner(Struct, frozen=True):
    """One of the four cells of a 2x2, all per token except the step.

    busy_by_class_ns: of the median step, each busy nanosecond counted once.
    """

    label: str
    mode: str
    step_ns: Maybe
    tokens_per_s: Maybe
    busy_ns: Maybe
    idle_ns: Maybe
    host_dispatch_ns: Maybe
    kernels: Maybe
    launches: Maybe
    busy_by_class_ns: dict[str, Number]


class Effect(Struct, frozen=True):
    """What one change of mode did, per token: signed differences in ns and counts."""

    step_ns: Maybe
    busy_ns: Maybe
    idle_ns: Maybe
    host_dispatch_ns: Maybe
    kernels: Maybe
    launches: Maybe
    busy_by_class_ns: dict[str, Number]
    work: Work
    words: str = ""


class TwoByTwo(Struct, frozen=True):
    """{eager, compiled} x {launched, captured}: what compiling and capture did, each on its own.

    best: label of the fastest cell; times_eager: the eager step over its step.
    source: of the step times of all four cells, as in a `MetricRow`. Where the profiler slowed a
    host, `best` is empty as profiled, and what cannot be compared is None.
    """

    source: str
    best: str
    eager: Corner
    compiled: Corner
    graph: Corner
    compiled_graph: Corner
    compiled_launched: Effect
    compiled_captured: Effect
    captured_eager: Effect
    captured_compiled: Effect
    times_eager: Maybe = None
    sentence: str = ""

    @property
    def corners(self) -> dict[str, Corner]:
        """The four cells by mode."""
        found = (self.eager, self.graph, self.compiled, self.compiled_graph)
        return dict(zip(("eager", "graph", "compiled", "compiled-graph"), found, strict=True))


class ComparedCell(Struct, frozen=True):
    """One mode at one point of two sweeps: which pair it is, or which sweep alone has it.

    pair: place in `ComparisonResult.pairs`, None where one sweep alone has the cell. only: which,
    `baseline` or `candidate`. batch, length: None where that was not varied.
    """

    batch: int | None
    length: int | None
    mode: str
    pair: int | None
    only: str = ""


class GateResult(Struct, frozen=True):
    """What became of one gate on one pair (or one run, where `pair` is its label).

    status: `held`, `tripped` or `not judged`. limit: in `unit`; where `relative`, how much worse
    the candidate may be, as a share of the baseline (of a share: in points of 1). baseline: None
    for a bound. change, ratio: of a relative gate. over: by how much the limit is exceeded, as the
    limit is written; None within it, and from nothing to something. reason: why it is not judged,
    why it held beyond its limit, or what a tripped one stands on. text: one line that says it all.
    """

    gate: str
    metric: str
    pair: str
    status: str
    unit: str
    better: str
    limit: Number
    relative: bool
    baseline: Maybe = None
    candidate: Maybe = None
    change: Maybe = None
    ratio: Maybe = None
    over: Maybe = None
    reason: str = ""
    text: str = ""


class ComparisonResult(Struct, frozen=True):
    """All pairs of one comparison, in the order asked for.

    forced: unlike runs were compared. seed, resamples: of the noise. notes: about the comparison
    as a whole (a mode that could not be recorded). two_by_two: where all four modes are there.
    cells: every mode at every point, where two sweeps are compared.
    """

    forced: bool
    seed: int
    resamples: int
    notes: tuple[str, ...]
    pairs: tuple[Pair, ...]
    two_by_two: TwoByTwo | None
    gates: tuple[GateResult, ...] = ()
    sentence: str = ""
    cells: tuple[ComparedCell, ...] = ()
    schema: str = field(default=COMPARISON)
