"""`gaptrace.analysis/1`: everything that one recording says, as plain data.

Times are integer nanoseconds or, where they are medians of ratios, fractions of them. None stands
for what is withheld or unknown; the reason is in `quality`.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from gaptrace.quantity import Bound, Maybe, Number, Quantity
from gaptrace.results.gaps import HostWork
from gaptrace.results.manifest import Compile as Compilation
from gaptrace.results.manifest import Host as HostNames
from gaptrace.results.manifest import Script
from gaptrace.results.prediction import Capture, Compile, SquareCell

ANALYSIS = "gaptrace.analysis/1"
# What `tokens_source` says where nothing recorded tells the tokens of a step.
TOKENS_ASSUMED = "assumed 1"


class Provenance(Struct, frozen=True):
    """Who and what made a recording, as the recorder noted it. redacted: that was left out."""

    script: Script | None = None
    host: HostNames | None = None
    env: dict[str, Any] | None = None
    redacted: bool = False


class Source(Struct, frozen=True):
    """Where the numbers come from: file, GPU, engine, rank, mode, model, torch, batch.

    name: of the run, where its manifest has one. json_bytes: of the trace, unpacked.
    """

    path: str
    format: str
    events: int
    gpu: str | None
    engine: str | None
    rank: int
    rank_source: str
    mode: str | None
    model: str | None
    torch: str | None
    batch: int | None = None
    folder: str | None = None
    name: str | None = None
    json_bytes: int | None = None
    provenance: Provenance | None = None


class Reason(Struct, frozen=True):
    """One thing to know about a trace: a stable id, its gravity, a sentence, what it withholds."""

    id: str
    level: str
    text: str
    count: int = 1
    withheld: tuple[str, ...] = ()


class Quality(Struct, frozen=True):
    """The verdict `ok`, `limited` or `refused`, and every reason, the gravest first."""

    verdict: str
    reasons: tuple[Reason, ...] = ()

    def withholds(self, *names: str) -> bool:
        """Whether any of the figures named is withheld."""
        return any(name in reason.withheld for reason in self.reasons for name in names)

    def why(self, *names: str) -> str:
        """Why any of the figures named is withheld; empty where none is."""
        return next((r.text for r in self.reasons if set(names) & set(r.withheld)), "")


class DeviceFigures(Struct, frozen=True):
    """Raw figures of one device over the whole recording: never clipped, excluded or nulled.

    idle_share: idle_ns over span_ns. blocking_calls: calls that wait for a known op of the device;
    ends_before_work: those that end before it does. clock_skew_ns: by how much at least the
    device's clock is late, negative where it is early. clock_offset_range_ns: the constant offsets
    that explain every event, None where none does; a bound that is not known is None.
    """

    device: str
    gpu_ops: int
    kernels: int
    span_ns: int
    busy_ns: int
    idle_ns: int
    gaps: int
    launch_calls: int
    kernel_launch_calls: int
    graph_launches: int
    ops_in_graphs: int
    kernels_in_graphs: int
    orphans: int
    starts_before_launch: int
    largest_skew_ns: int
    kernel_dur_sum_ns: int
    idle_by_cause_ns: dict[str, int]
    idle_share: Maybe = None
    blocking_calls: int = 0
    ends_before_work: int = 0
    clock_skew_ns: int = 0
    clock_offset_range_ns: tuple[int | None, int | None] | None = None


class StepFigures(Struct, frozen=True):
    """One value for each figure of a step."""

    period_ns: Maybe = None
    busy_ns: Maybe = None
    idle_ns: Maybe = None
    kernels: Maybe = None
    launches: Maybe = None
    copies: Maybe = None
    memsets: Maybe = None
    host_dispatch_ns: Maybe = None


class DeviceShare(Struct, frozen=True):
    """What one of several devices of a process does in a step: medians over the counted steps."""

    device: str
    busy_ns: Maybe
    busy_share: Maybe
    kernels: Maybe
    launches: Maybe
    copies: Maybe
    memsets: Maybe


class Steps(Struct, frozen=True):
    """The steps found and the spread of their figures over those that count.

    rule: what found them. kind: `decode`, `inference` or `training`, and kind_why: the evidence.
    phase: what the figures are of. count: steps of that phase. complete: those that count and are
    complete. excluded: how many were left out, by reason. n: how many values are behind each
    figure. batch: sequences per step of the population that the figures are of, None where unknown
    or mixed. checked: what the launch sequence says about the marks. outside: how many steps are
    followed by a stretch that belongs to none, by reason. devices: each of several devices.
    busy_by_kind_ns: medians of busy time by what keeps the device: `compute`,
    `exposed_communication` and `exposed_copies` partition it, `hidden_communication` and
    `hidden_copies` ran beside them.
    """

    rule: str | None
    device: str | None
    phase: str
    phases: dict[str, int]
    count: int
    complete: int
    excluded: dict[str, int]
    tokens_per_step: Maybe
    tokens_source: str | None
    median: StepFigures
    p5: StepFigures
    p95: StepFigures
    n: StepFigures
    kind: str = "decode"
    kind_why: str | None = None
    batch: int | None = None
    checked: str | None = None
    outside: dict[str, int] = {}
    devices: tuple[DeviceShare, ...] = ()
    busy_by_kind_ns: dict[str, Maybe] = {}


class Phase(Struct, frozen=True):
    """Medians over the complete steps of one phase and batch size; of its open ones with none.

    time_ns: of all its steps. busy_by_kind_ns: see `Steps`. tokens_per_step: None where not known
    or where steps make no tokens.
    """

    phase: str
    batch: int | None
    steps: int
    complete: int
    tokens_per_step: Maybe
    period_ns: Maybe
    busy_ns: Maybe
    idle_ns: Maybe
    kernels: Maybe
    launches: Maybe
    copies: Maybe
    memsets: Maybe
    idle_by_cause_ns: dict[str, Maybe]
    time_ns: int
    idle_share: Maybe = None
    busy_by_kind_ns: dict[str, Maybe] = {}


class PerToken(Struct, frozen=True):
    """Medians of the per-step ratios to tokens.

    busy_share, idle_share_by_cause, host_share: the times of those names over `period_ns`.
    busy_by_kind_ns: see `Steps`.
    """

    kernels: Maybe
    launches: Maybe
    copies: Maybe
    memsets: Maybe
    host_dispatch_ns: Maybe
    idle_ns: Maybe
    busy_ns: Maybe
    host_time_ns: dict[str, Maybe]
    idle_by_cause_ns: dict[str, Maybe]
    period_ns: Maybe = None
    busy_share: Maybe = None
    idle_share_by_cause: dict[str, Maybe] = {}
    host_share: dict[str, Maybe] = {}
    busy_by_kind_ns: dict[str, Maybe] = {}


class PredictedStep(Struct, frozen=True):
    """The step without the profiler, predicted from the profiled one; nothing here was measured.

    step_ns with range_ns: the period. idle_ns with idle_range_ns: the period less the traced busy
    time. idle_share: idle_ns over step_ns. tokens_per_s with its range: at the tokens per step of
    the headline. removed_ns: what the recorded events of a step cost its host. source: where the
    cost of an event is from. why: the reason, where there is no prediction.
    """

    step_ns: int | None = None
    range_ns: tuple[int, int] | None = None
    idle_ns: int | None = None
    idle_range_ns: tuple[int, int] | None = None
    idle_share: Maybe = None
    tokens_per_s: Maybe = None
    tokens_per_s_range: tuple[Number, Number] | None = None
    removed_ns: int | None = None
    source: str | None = None
    why: str = ""


class Rate(Struct, frozen=True):
    """Tokens per second, and the unprofiled truth where the run recorded it or somebody gave it.

    tokens_per_s_range: at the fewest and the most tokens of a step, under speculation; None for no
    bound. steps_per_s: of steps of any kind. source: `unprofiled`, `given` or `as profiled`.
    dilation: profiled over unprofiled step time. predicted_unprofiled_step_ns with its range: as
    predicted from the trace alone, whether or not it was measured; None where it cannot be.
    """

    tokens_per_s: Maybe
    source: str
    profiled_tokens_per_s: Maybe
    dilation: Maybe
    unprofiled_step_ns: int | None
    unprofiled_idle_ns: int | None
    unprofiled_idle_share: Maybe
    issue_ns: int | None
    tokens_per_s_range: tuple[Maybe, Maybe] | None = None
    steps_per_s: Maybe = None
    predicted_unprofiled_step_ns: int | None = None
    predicted_unprofiled_range_ns: tuple[int, int] | None = None
    predicted: PredictedStep | None = None


class Headline(Struct, frozen=True):
    """The figures that a first line, a row of a run and a chip of the dashboard all show.

    basis: of the step, rate and idle share: `given` where the step was given by hand, `unprofiled`
    where the run measured them, else `traced`. step_ns, idle_ns: per step. tokens_per_s: tokens per
    step over step_ns. idle_share: idle_ns over step_ns. idle_basis: differs from `basis` only where
    busy time exceeds an unprofiled step, so that the idle time is as traced. largest_cause,
    largest_cause_ns: of a token's idle time, held to what an unprofiled step has. recoverable: a
    faster host would win it. token_ns, token_idle_ns: step_ns and idle_ns over tokens per step.
    """

    basis: str
    step_ns: Maybe
    tokens_per_s: Maybe
    idle_ns: Maybe
    idle_share: Maybe
    idle_basis: str
    largest_cause: str | None = None
    largest_cause_ns: Maybe = None
    recoverable: bool = False
    token_ns: Maybe = None
    token_idle_ns: Maybe = None


class Ceilings(Struct, frozen=True):
    """The launch, bandwidth and bus ceilings, and which of them limits the step.

    launch_tokens_per_s_range: without and with the silence that counted as waiting, where that is
    over 10 % of the host window; `binding` is then None unless both ends agree. bus_tokens_per_s:
    where exposed copies between host and device take over half of the step (`bus_bound`), which is
    then what limits it. bus_bytes: that a step moves, in the direction that moves more.

    host_dispatch_basis, host_dispatch_bound: how the host dispatch time is known (`traced`,
    `unprofiled` or `given`) and whether it is `exact` or `at_most`.
    """

    launch_tokens_per_s: Maybe
    bandwidth_tokens_per_s: Maybe
    binding: str | None
    paced_by: str | None
    distance: Maybe
    handover_bits_per_weight: Maybe
    bits_per_weight: Maybe
    host_dispatch_ns: Maybe
    host_dispatch_source: str
    weight_bytes: int | None
    weight_bytes_source: str | None
    kv_bytes: int | None
    kv_bytes_source: str
    peak_bandwidth_bytes_per_s: Maybe
    peak_bandwidth_source: str | None
    busy_share: Maybe = None
    host_dispatch_basis: str = ""
    host_dispatch_bound: Bound = "exact"
    launch_tokens_per_s_range: tuple[Number, Number] | None = None
    bus_tokens_per_s: Maybe = None
    bus_bound: bool = False
    bus_bytes: Maybe = None
    bus_bandwidth_bytes_per_s: Maybe = None
    bus_bandwidth_source: str | None = None


class WhatIf(Struct, frozen=True):
    """The step under one change, modelled: its time, its rate and what would limit it.

    changes: the step becomes shorter or longer by 1 % or more. times_now: its rate over today's.
    """

    id: str
    title: str
    step_ns: Maybe
    tokens_per_s: Maybe
    binding: str | None
    paced_by: str | None
    changes: bool = True
    times_now: Maybe = None


class SeamKind(Struct, frozen=True):
    """Gaps between graph pieces with the same ops in them (`work`, in the order of launch calls).

    per_step: how many of them a step has. kernels, idle_ns, busy_ns, host_ns: medians of one.
    idle_per_step_ns: of all of them together, median of the steps. idle_mean_ns: of one, the mean.
    """

    work: tuple[str, ...]
    per_step: Number
    kernels: Number
    idle_ns: Maybe
    busy_ns: Maybe
    host_ns: Maybe
    idle_per_step_ns: Maybe
    idle_mean_ns: Maybe = None


class Piecewise(Struct, frozen=True):
    """A step that replays several graphs: its pieces and the gaps between them (seams).

    Medians over the steps it was read from: how many (`steps`) and which (`of`: `decode steps`, or
    what there was instead). replays: graph replays. pieces: distinct graphs, None where the trace
    has no graph ids. with_work: seams in which something is launched. kernels, launches, idle_ns,
    busy_ns, host_ns: in all seams of a step together. share: seam idle over the step's period.
    """

    steps: int
    of: str
    replays: Number
    pieces: Maybe
    seams: Number
    with_work: Number
    kernels: Number
    launches: Number
    idle_ns: Maybe
    busy_ns: Maybe
    host_ns: Maybe
    share: Maybe
    idle_per_seam_ns: Maybe
    kinds: tuple[SeamKind, ...]


class OpRow(Struct, frozen=True):
    """One CPU op: calls, own host time and launch calls per token.

    share: of the time of all ops. ns_per_call: self_ns over calls.
    """

    name: str
    calls: Number
    self_ns: Number
    launches: Number
    share: Maybe = None
    ns_per_call: Maybe = None


class FunctionRow(Struct, frozen=True):
    """One Python function or module: its own host time per token, and its share of all such."""

    name: str
    self_ns: Number
    share: Maybe = None


class Host(Struct, frozen=True):
    """What the launching thread did, per token. op_calls, op_ns: of all ops together."""

    launch_call_ns: int | None
    cost_per_launch_ns: Maybe
    launch_to_start_ns: int | None
    ops: tuple[OpRow, ...]
    python: tuple[FunctionRow, ...]
    modules: tuple[FunctionRow, ...]
    op_calls: Maybe = None
    op_ns: Maybe = None


class HostPart(Struct, frozen=True):
    """Host time in one part of a step; `part` is an id of knowledge/engines.toml."""

    part: str
    median_ns: Maybe
    total_ns: int


class HostParts(Struct, frozen=True):
    """Host time per step by what the engine does, in the order of tables.

    source: `labels`, `Python frames`, both joined by `and`; None, and no parts, where neither shows
    any. steps: those that count. host_window_ns: of all of them; the totals of the parts sum to it.
    idle_between_steps_ns: median GPU idle time from a step's last op to the next step's first.
    """

    engine: str | None
    source: str | None
    steps: int
    host_window_ns: int
    parts: tuple[HostPart, ...]
    idle_between_steps_ns: Maybe


class OriginRow(Struct, frozen=True):
    """GPU work by the CPU op that launched it, per token."""

    name: str
    per_token: Number
    total_ns_per_token: Number
    share: Number


class KernelRow(Struct, frozen=True):
    """One GPU op name over the counted steps: how often, how long, how near the roofline."""

    name: str
    short: str
    op_class: str = field(name="class")
    backend: str
    per_token: Number
    total_ns_per_token: Number
    median_ns: int
    share: Number
    op: str
    module: str
    captured: Number
    bandwidth_bytes_per_s: Maybe
    roofline_share: Maybe
    roofline_note: str | None = None
    sub_class: str = ""


class Kernels(Struct, frozen=True):
    """Kernels of the counted steps, longest total first; the same time by class and by op.

    time_ns_by_class: summed durations per token; where streams overlap their sum exceeds busy
    time, and overlap_ns per token says by how much. share_by_class: of the sum of all.
    """

    time_ns_by_class: dict[str, Number]
    overlap_ns: Number
    by_op: tuple[OriginRow, ...]
    rows: tuple[KernelRow, ...]
    share_by_class: dict[str, Maybe] = {}


class Power(Struct, frozen=True):
    """Board power, clocks and temperature while unprofiled steps ran: W, MHz, degrees Celsius.

    limit_share: mean power over the limit.
    """

    mean_w: Number
    limit_w: Maybe
    sm_mhz: Maybe
    sm_mhz_max: Maybe
    temperature_c: Maybe
    joules_per_token: Maybe
    samples: int
    limit_share: Maybe = None


class Evidence(Struct, frozen=True):
    """One place in the trace that a finding points at.

    step: index into the step table, None outside steps. what: the gap, op or call in words.
    before, after: the GPU ops around it. call: the host call that overlapped it. row: event row to
    jump to, None where the evidence is not one event. host: of a gap, what the launching thread did
    for most of the time in which the GPU waited for it; empty for other places.
    """

    step: int | None
    start_ns: int
    end_ns: int
    what: str
    before: str = ""
    after: str = ""
    call: str = ""
    row: int | None = None
    host: tuple[HostWork, ...] = ()

    @property
    def dur_ns(self) -> int:
        """How long it lasted."""
        return self.end_ns - self.start_ns

    @property
    def target(self) -> str:
        """What a link to it names."""
        return f"time:{self.start_ns}-{self.end_ns}"


class Finding(Struct, frozen=True):
    """Something that costs time, with the most it can win.

    ceiling_ns_per_token: upper bound of the gain; 0 where the finding is about trust or about
    there being nothing to win. confidence: `measured`, `likely` or `hint`. places: how often it was
    seen in the counted steps. overlaps: ids of findings that count some of the same time. part_of:
    the finding that contains it. quantities: the numbers of `text`, by name.
    """

    id: str
    title: str
    ceiling_ns_per_token: Number
    confidence: str
    text: str
    places: int
    overlaps: tuple[str, ...]
    how_we_know: str
    what_to_try: str
    how_to_check: str
    evidence: tuple[Evidence, ...]
    part_of: str | None = None
    quantities: dict[str, Quantity] = {}


class GapRow(Struct, frozen=True):
    """One gap: when, in which step, how long, why, and the GPU ops on both sides (short names).

    host: what the launching thread did in it until it launched, the largest parts.
    """

    gap: int
    step: int | None
    start_ns: int
    dur_ns: int
    cause_ns: dict[str, int]
    before: str
    after: str
    host: tuple[HostWork, ...] = ()


class IdleWork(Struct, frozen=True):
    """What launching threads did while the GPU waited for them, over the counted steps.

    parts: mean ns per token (per step where steps make none), the largest first; share: of all of
    the GPU's idle time. late_ns: all of it; other_ns: what of it is in parts that are not listed.
    frames: whether Python frames were recorded.
    """

    parts: tuple[HostWork, ...]
    late_ns: float
    other_ns: float
    frames: bool


class AnalysisResult(Struct, frozen=True):
    """One analysed recording.

    compilation: what the recorder saw of torch.compile; None where it was not asked for.
    headline: the figures that every surface shows first. longest_gaps: of the counted steps where
    there are any. withheld names in `quality.reasons` say which figures are None, and why.
    """

    source: Source
    sentence: str
    quality: Quality
    devices: tuple[DeviceFigures, ...]
    steps: Steps
    per_token: PerToken
    idle_share: Maybe
    kernels_per_graph_launch: Maybe
    captured_share: Maybe
    rate: Rate
    ceilings: Ceilings
    what_if: tuple[WhatIf, ...]
    capture: Capture
    compile: Compile
    piecewise: Piecewise | None
    host: Host
    kernels: Kernels
    power: Power | None
    findings: tuple[Finding, ...]
    headline: Headline
    square: dict[str, SquareCell] = {}
    longest_gaps: tuple[GapRow, ...] = ()
    idle_work: IdleWork | None = None
    compilation: Compilation | None = None
    host_parts: HostParts | None = None
    phases: tuple[Phase, ...] = ()
    schema: str = field(default=ANALYSIS)
