"""The result of a comparison: everything a renderer needs, and nothing it has to compute.

A `Comparison` is a list of `Pair`s, each one baseline against one candidate; where the four modes
of a run are there it also holds the 2x2 form of them. Times are nanoseconds, per step in a bridge
and per token everywhere else unless a field says otherwise. `None` stands for what is unknown or
withheld; the reason is in the `note` beside it or in the pair's `notes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gaptrace.measure.result import Analysis

# What can be said of a change.
BETTER, WORSE, WITHIN_NOISE = "better", "worse", "within noise"
TOO_FEW, WITHHELD = "too few steps to judge", "withheld"
VERDICTS = (BETTER, WORSE, WITHIN_NOISE, TOO_FEW, WITHHELD)

# What a verdict stands on.
RUNS, STEPS, EXACT, NONE = "runs and steps", "steps", "exact", "none"
ONE_RUN = "beyond step noise; run-to-run not measured"


@dataclass(frozen=True, eq=False)
class SideView:
    """One side of a comparison as it is shown.

    label: what to call it, unique within the comparison (`main/eager`, `trace.json.gz`). path:
    what was named on the command line. mode: `eager`, `compiled`, ...; None for a bare trace.
    runs: recordings (repeats). steps: complete decode steps in all of them. facts: what likeness
    is judged by and what provenance shows (`gpu`, `model`, `dtype`, `batch`, `tokens_per_step`,
    `torch`, `engine`, `shapes`, `stacks`, ...), None where unknown. verdict, reasons: quality of
    the weakest recording. saved: read from a saved baseline, so there is no trace behind it.
    analysis: the recording whose step time is the median of the side, for timelines; None when
    saved. step: row of `analysis.steps` that the bridge is built on, -1 where it is not one step.
    """

    label: str
    path: str
    mode: str | None
    runs: int
    steps: int
    facts: Mapping[str, str | None]
    verdict: str
    reasons: tuple[str, ...]
    saved: bool
    analysis: Analysis | None = None
    step: int = -1


@dataclass(frozen=True)
class Figure:
    """One metric of one side: the median over runs of each run's median.

    p5, p95: nearest rank over all steps of all runs, None for figures that a run has only one of.
    n: steps (or unprofiled samples) behind it. runs: the figure of each run, in order.
    """

    value: float | None
    p5: float | None = None
    p95: float | None = None
    n: int = 0
    runs: tuple[float, ...] = ()


@dataclass(frozen=True)
class MetricRow:
    """One metric on both sides, and what can be said of the difference.

    id: stable name (`idle`, `tokens_per_s`; see `metrics.METRICS`). title: words for a table.
    unit: `ns`, `count`, `tok/s`, `share` or `bytes`. better: `lower` or `higher`. per_token: the
    figure is per token. gate: `--fail-on` knows it. source: `unprofiled`, `as profiled`, or empty
    where the profiler does not matter. change: candidate less baseline. ratio: change over the
    baseline, None where that is 0. interval: of the change, at 95 %. p: Holm-corrected
    probability of a difference this large by chance, None where nothing was resampled. verdict:
    one of `VERDICTS`. basis: `runs and steps`, `steps`, `exact` or `none`. note: what to add to
    the verdict, empty where nothing. as_profiled: baseline and candidate as traced, where `source`
    is `unprofiled`.
    """

    id: str
    title: str
    unit: str
    better: str
    per_token: bool
    gate: bool
    source: str
    baseline: Figure
    candidate: Figure
    change: float | None
    ratio: float | None
    interval: tuple[float, float] | None
    p: float | None
    verdict: str
    basis: str
    note: str = ""
    as_profiled: tuple[float | None, float | None] | None = None

    @property
    def direction(self) -> str:
        """`up`, `down` or `equal`: where the figure went, whatever that means."""
        if not self.change:
            return "equal"
        return "up" if self.change > 0 else "down"

    @property
    def arrow(self) -> str:
        """▲ or ▼ where the change is beyond noise, = where it is not, empty where unknown."""
        if self.verdict in (BETTER, WORSE):
            return "▲" if self.direction == "up" else "▼"
        return "=" if self.verdict == WITHIN_NOISE else ""

    @property
    def words(self) -> str:
        """The verdict in words: `better`, `worse`, `within noise`, `equal`, `too few steps ...`."""
        if self.verdict == WITHIN_NOISE and self.basis == EXACT:
            return "equal"
        return self.verdict


@dataclass(frozen=True)
class BridgePart:
    """One signed part of the way from the baseline's step to the candidate's, in ns per step.

    kind: `idle`, `busy`, `profiling`, or `time` where busy and idle cannot be told apart. key: the
    cause for idle (`sync`, ...; `withheld` where a side's causes are), the op class for busy,
    `profiling` for profiling. title: words for it (`idle: op dispatch`). baseline_ns, candidate_ns:
    the time spent so in each step, integers; of `profiling` what tracing adds to each step
    (negative where the traced step is the shorter one).
    """

    kind: str
    key: str
    title: str
    baseline_ns: int
    candidate_ns: int

    @property
    def delta_ns(self) -> int:
        """Candidate less baseline; for `profiling` the sign is that of the step: see `Bridge`."""
        change = self.candidate_ns - self.baseline_ns
        return -change if self.kind == "profiling" else change


@dataclass(frozen=True)
class Bridge:
    """The way from the baseline's step time to the candidate's in exact integer parts.

    Over traced periods: `baseline_ns + sum(delta of the idle and busy parts) == candidate_ns`.
    Where both sides have unprofiled times there is one more part, `profiling`, and
    `unprofiled_baseline_ns + sum(delta of all parts) == unprofiled_candidate_ns`.
    Parts that are 0 on both sides are left out; the order is that of the causes, then of the op
    classes, then `profiling`. basis: `median step` (the step whose traced period is the median of
    the run whose median is the median of the side), `open step` or `whole recording`.
    baseline_step, candidate_step: which, in words. split: whether the busy and the idle parts can
    be told apart (False where a side's busy and idle are withheld; the parts sum all the same).
    """

    baseline_ns: int
    candidate_ns: int
    parts: tuple[BridgePart, ...]
    unprofiled_baseline_ns: int | None
    unprofiled_candidate_ns: int | None
    basis: str
    baseline_step: str
    candidate_step: str
    split: bool = True
    notes: tuple[str, ...] = ()

    @property
    def ends(self) -> tuple[int, int]:
        """The two ends to draw: unprofiled where both sides have it, else the traced periods."""
        if self.unprofiled_baseline_ns is not None and self.unprofiled_candidate_ns is not None:
            return self.unprofiled_baseline_ns, self.unprofiled_candidate_ns
        return self.baseline_ns, self.candidate_ns

    @property
    def traced_parts(self) -> tuple[BridgePart, ...]:
        """The idle and busy parts, which sum to the difference of the traced periods."""
        return tuple(part for part in self.parts if part.kind != "profiling")

    @property
    def waterfall(self) -> tuple[BridgePart, ...]:
        """The parts to draw, largest gain first, largest loss last; zero deltas left out."""
        moved = [part for part in self.parts if part.delta_ns]
        return tuple(sorted(moved, key=lambda part: (part.delta_ns, part.kind, part.key)))


@dataclass(frozen=True)
class KernelUse:
    """How much one GPU op name was used on one side: executions and ns per token, median ns."""

    per_token: float
    ns_per_token: float
    median_ns: int


@dataclass(frozen=True)
class KernelChange:
    """One GPU op name on both sides.

    status: `same`, `changed` (count, or time by more than a hundredth of the row), `removed` or
    `added`. group: id of the `KernelGroup` it is part of, empty where matched by name alone.
    fuses: the ATen ops that a compiled kernel fuses.
    """

    name: str
    short: str
    op_class: str
    status: str
    baseline: KernelUse | None
    candidate: KernelUse | None
    op: str = ""
    group: str = ""
    fuses: tuple[str, ...] = ()

    @property
    def delta_ns(self) -> float:
        """Change of summed time per token in ns."""
        base = self.baseline.ns_per_token if self.baseline else 0.0
        cand = self.candidate.ns_per_token if self.candidate else 0.0
        return cand - base

    @property
    def delta_count(self) -> float:
        """Change of executions per token."""
        base = self.baseline.per_token if self.baseline else 0.0
        cand = self.candidate.per_token if self.candidate else 0.0
        return cand - base


@dataclass(frozen=True)
class Member:
    """A GPU op name in a group: executions and ns per token of it that belong to the group."""

    name: str
    short: str
    op: str
    per_token: float
    ns_per_token: float


@dataclass(frozen=True)
class KernelGroup:
    """Kernels of the candidate beside the kernels of the baseline that they stand for.

    by: `fusion` (one compiled kernel and what it replaced, by the ops it fuses; where several
    compiled kernels fuse the same op, what was removed is shared out by how often each runs),
    `op` (the same op, other kernels) or `class` (the same op class, no op known). A group counts
    removed and added kernels only. title: `fused: add, mul, rsqrt` or `aten::mm`.
    """

    id: str
    by: str
    title: str
    op_class: str
    baseline: tuple[Member, ...]
    candidate: tuple[Member, ...]

    @property
    def delta_ns(self) -> float:
        """Change of summed time per token in ns."""
        return _ns(self.candidate) - _ns(self.baseline)

    @property
    def delta_count(self) -> float:
        """Change of executions per token."""
        return _count(self.candidate) - _count(self.baseline)


def _ns(members: tuple[Member, ...]) -> float:
    return sum(member.ns_per_token for member in members)


def _count(members: tuple[Member, ...]) -> float:
    return sum(member.per_token for member in members)


@dataclass(frozen=True)
class KernelComparison:
    """All GPU ops of both sides: by name, and what replaced what.

    rows: every name once, largest absolute change of time first. groups: likewise. by_class: per
    op class the summed ns per token on both sides (overlapping streams counted twice, so these
    need not equal the busy parts of the bridge).
    """

    rows: tuple[KernelChange, ...] = ()
    groups: tuple[KernelGroup, ...] = ()
    by_class: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def of(self, status: str) -> tuple[KernelChange, ...]:
        """Rows of one status: `same`, `changed`, `removed` or `added`."""
        return tuple(row for row in self.rows if row.status == status)


@dataclass(frozen=True, eq=False)
class Pair:
    """One candidate against one baseline.

    sentence: the answer. kernel_sentence: what happened to the kernels and, apart from it, to busy
    time, with the op classes and kernels behind it; empty where unknown. verdict: of the step
    time. banner: how the sides differ in what must be alike (GPU, model, dtype, batch); not empty
    only when forced, and then shown before anything else. notes: what else to know (other profiler
    settings, facts unknown on a side, ...). step_ns: step time of both sides in ns, unprofiled
    where both have it. bridge: None where a side has no GPU work.
    """

    baseline: SideView
    candidate: SideView
    sentence: str
    kernel_sentence: str
    verdict: str
    banner: tuple[str, ...]
    notes: tuple[str, ...]
    step_ns: tuple[float | None, float | None]
    metrics: tuple[MetricRow, ...]
    bridge: Bridge | None
    kernels: KernelComparison

    @property
    def label(self) -> str:
        """`base → cand`."""
        return f"{self.baseline.label} → {self.candidate.label}"

    def metric(self, name: str) -> MetricRow:
        """The row of a metric by its id."""
        return next(row for row in self.metrics if row.id == name)


@dataclass(frozen=True)
class Corner:
    """One of the four cells of a 2x2, all per token except the step: None where unknown.

    step_ns: unprofiled where all four cells have it, else as profiled. busy_by_class_ns: busy time
    of the median step by op class, in ns per token, each busy nanosecond counted once.
    """

    label: str
    mode: str
    step_ns: float | None
    tokens_per_s: float | None
    busy_ns: float | None
    idle_ns: float | None
    host_dispatch_ns: float | None
    kernels: float | None
    launches: float | None
    busy_by_class_ns: Mapping[str, float]


@dataclass(frozen=True)
class Effect:
    """What one change of mode did, per token: signed differences in ns and counts, and in words.

    busy_by_class_ns: change of busy time by op class. idle_ns: change of idle. kernels: names that
    moved busy time most, largest first (negative: gained). words: one sentence.
    """

    step_ns: float | None
    busy_ns: float | None
    idle_ns: float | None
    host_dispatch_ns: float | None
    kernels: float | None
    launches: float | None
    busy_by_class_ns: Mapping[str, float]
    largest: tuple[KernelChange, ...]
    words: str


@dataclass(frozen=True)
class TwoByTwo:
    """{eager, compiled} x {launched, captured}: what compiling and capture did, each on its own.

    compiled_launched: eager to compiled with plain launches. compiled_captured: the same with both
    captured. captured_eager: launched to captured, eager. captured_compiled: what capture saved on
    top of compiling. sentence: the story in words. best: label of the fastest cell. source:
    `unprofiled` or `as profiled`.
    """

    eager: Corner
    compiled: Corner
    graph: Corner
    compiled_graph: Corner
    compiled_launched: Effect
    compiled_captured: Effect
    captured_eager: Effect
    captured_compiled: Effect
    sentence: str
    best: str
    source: str

    @property
    def corners(self) -> tuple[tuple[Corner, Corner], tuple[Corner, Corner]]:
        """Rows eager and compiled, columns launched and captured."""
        return (self.eager, self.graph), (self.compiled, self.compiled_graph)


@dataclass(frozen=True)
class GateResult:
    """What became of one gate on one pair (or one run, where `pair` is its label).

    status: `held`, `tripped` or `not judged`. text: one line that names the gate, the figures and
    by how much; never empty.
    """

    gate: str
    metric: str
    pair: str
    status: str
    text: str


@dataclass(frozen=True, eq=False)
class Comparison:
    """All pairs of one comparison, in the order asked for.

    sentence: the first pair's, or the 2x2's where there is one. forced: unlike runs were compared.
    seed, resamples: of the noise estimate. gates: filled in by `gates.judge`. notes: about the
    comparison as a whole (a mode that could not be recorded).
    """

    pairs: tuple[Pair, ...]
    two_by_two: TwoByTwo | None
    sentence: str
    forced: bool
    seed: int
    resamples: int
    gates: tuple[GateResult, ...] = ()
    notes: tuple[str, ...] = ()

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The comparison as plain data, schema `gaptrace.comparison/1`."""
        from gaptrace.compare.summary import summary

        return summary(self)
