"""`gaptrace.runs/1` and `gaptrace.sweep/1`: several recordings read together, as plain data."""

from __future__ import annotations

from msgspec import Struct, field

from gaptrace.quantity import Bound, Maybe, Number
from gaptrace.results.analysis import AnalysisResult
from gaptrace.results.manifest import Autotune, Buckets, GraphTrees, Pieces
from gaptrace.results.prediction import SquareCell

RUN = "gaptrace.runs/1"
SWEEP = "gaptrace.sweep/1"


class ModeStart(Struct, frozen=True):
    """The starts of a mode's repeats: median ns until ready by the state of the compile cache.

    uncached_ns: of repeats that compile nothing. compile_ns, autotune_ns, capture_ns: of the
    first repeat, the one that had most to do. starts: how many repeats are behind it.
    """

    cold_ns: Maybe
    warm_ns: Maybe
    partly_ns: Maybe
    uncached_ns: Maybe
    compile_ns: Maybe
    autotune_ns: Maybe
    capture_ns: Maybe
    starts: int


class TuningGain(Struct, frozen=True):
    """What autotuning costs once and saves with every token.

    against: the mode without tuning. cost_ns: time of tuning, once; source: how known.
    saved_ns_per_token: untuned less tuned step time per token, unprofiled medians of the repeats.
    break_even_tokens: tokens after which the cost is earned back. reason: why there is no such
    number; empty where there is.
    """

    against: str
    cost_ns: Maybe
    source: str
    saved_ns_per_token: Maybe
    break_even_tokens: Maybe
    reason: str


class SeamPrice(Struct, frozen=True):
    """What capturing in pieces costs beside one graph of the same compiled step, unprofiled.

    step_ns, whole_ns: median step of either. seams: gaps between pieces per step. beyond: the
    difference is beyond the spread of the repeats. per_seam_ns: the difference over the seams.
    change_ns: step_ns less whole_ns.
    """

    mode: str
    whole: str
    step_ns: Number
    whole_ns: Number
    seams: Number
    beyond: bool
    per_seam_ns: Number
    change_ns: Maybe = None


class Tuned(Struct, frozen=True):
    """Counts of what autotuning did: products by kind of kernel, template kernels.

    prologues, epilogues: template kernels that have one.
    """

    products: int
    by_kind: dict[str, int]
    templates: int = 0
    prologues: int = 0
    epilogues: int = 0


class Recorded(Struct, frozen=True):
    """What the recorder saw of a mode beside its steps, each from the first repeat that has it.

    tuned: the counts of `autotune`.
    """

    piecewise: Pieces | None = None
    buckets: Buckets | None = None
    autotune: Autotune | None = None
    cudagraph_trees: GraphTrees | None = None
    tuned: Tuned | None = None


class ModeRow(Struct, frozen=True):
    """One mode of a run, by the repeat whose step time is the median of its repeats.

    basis: of step, rate and idle share: see `Headline`. spread: half the range of the repeats' step
    times over the least; None with one repeat. kernels, launches: per step. host_dispatch_ns:
    `host_bound` says whether it is exact or only an upper bound, `host_basis` how it is known.
    times_eager: rate over eager's. times_slower: step time over the fastest mode's.
    as_fast_as_best: within the spread of the repeats. status: `ok`, `mode_failed` or
    `script_failed`; reason: why. finding: id of the largest one. notes: what to know.
    """

    mode: str
    status: str
    reason: str
    repeats: int
    basis: str
    step_ns: Maybe
    tokens_per_s: Maybe
    spread: Maybe
    idle_share: Maybe
    idle_basis: str
    kernels: Maybe
    launches: Maybe
    host_dispatch_ns: Maybe
    host_bound: Bound
    host_basis: str
    binding: str | None
    paced_by: str | None
    verdict: str | None
    finding: str | None
    times_eager: Maybe = None
    fastest: bool = False
    as_fast_as_best: bool = False
    path: str | None = None
    notes: tuple[str, ...] = ()
    times_slower: Maybe = None


class RunCell(Struct, frozen=True):
    """One mode and repeat: its analysis, or the reason why there is none."""

    mode: str
    repeat: int
    status: str
    reason: str | None
    analysis: AnalysisResult | None
    path: str = ""


class RankRow(Struct, frozen=True):
    """One rank of one mode and repeat: its unprofiled step, or why there is none."""

    mode: str
    repeat: int
    rank: int
    step_ns: Maybe
    reason: str | None
    path: str


class RunResult(Struct, frozen=True):
    """All cells of one run, in the order of the folder, and its modes side by side.

    missing: `MODE/REPEAT` that were to be recorded when the recording was stopped. ranks: of each
    mode and repeat, where a launcher started several; all other figures are those of the first.
    """

    name: str
    startup: dict[str, ModeStart]
    autotuning: TuningGain | None
    missing: tuple[str, ...]
    seam_prices: tuple[SeamPrice, ...]
    cells: tuple[RunCell, ...]
    path: str = ""
    sentence: str = ""
    facts: tuple[str, ...] = ()
    modes: tuple[ModeRow, ...] = ()
    fastest: str | None = None
    square: dict[str, SquareCell] = {}
    recorded: dict[str, Recorded] = {}
    notes: tuple[str, ...] = ()
    ranks: tuple[RankRow, ...] = ()
    schema: str = field(default=RUN)

    def analysis(self, mode: str) -> AnalysisResult | None:
        """The analysis that stands for a mode: of the repeat that `modes` is about."""
        row = next((row for row in self.modes if row.mode == mode), None)
        cells = [c for c in self.cells if c.mode == mode and c.analysis is not None]
        chosen = next((c for c in cells if row is not None and c.path == row.path), None)
        return (chosen or cells[0]).analysis if cells else None


class SweepPoint(Struct, frozen=True):
    """One point of a sweep: its name, batch size and length (None: not varied), and its path."""

    point: str
    batch: int | None
    length: int | None
    path: str


class SweepRow(Struct, frozen=True):
    """One mode at one point: medians of the repeat that stands for the mode, per step.

    launches counts a replay once, replays counts replays alone. choices: how many matrix products
    autotuning gave to which kind of kernel. verdicts: of every repeat. times_eager: rate over that
    of the eager mode at the same point.
    """

    point: str
    batch: int | None
    length: int | None
    mode: str
    status: str
    reason: str | None
    repeats: int
    tokens_per_s: Maybe = None
    rate_source: str | None = None
    step_ns: Maybe = None
    step_spread: Maybe = None
    idle_share: Maybe = None
    idle_source: str | None = None
    busy_ns: Maybe = None
    kernels: Maybe = None
    launches: Maybe = None
    replays: Maybe = None
    launch_tokens_per_s: Maybe = None
    bandwidth_tokens_per_s: Maybe = None
    binding: str | None = None
    distance: Maybe = None
    padding_share: Maybe = None
    verdicts: tuple[str, ...] = ()
    startup: ModeStart | None = None
    choices: dict[str, int] | None = None
    times_eager: Maybe = None


class SweepSaving(Struct, frozen=True):
    """What fusion saves per step at one point; ns of busy time, bytes of intermediates.

    predicted_ns, predicted_bytes: scaled from the eager recording of `predicted_from` (a point);
    own_ns: predicted from the point's own eager recording. realised_ns: busy time of the plain step
    less that of the compiled one, of the modes in `realised_from`.
    """

    point: str
    batch: int | None
    length: int | None
    predicted_ns: Maybe
    predicted_bytes: Maybe
    predicted_from: str | None
    source: str | None
    own_ns: Maybe
    realised_ns: Maybe
    realised_from: str | None


class SweepResult(Struct, frozen=True):
    """All points of one sweep. findings: id and title of what has a gain, at any point."""

    name: str
    sentence: str
    facts: tuple[str, ...]
    points: tuple[SweepPoint, ...]
    modes: tuple[str, ...]
    rows: tuple[SweepRow, ...]
    savings: tuple[SweepSaving, ...]
    notes: tuple[str, ...]
    path: str = ""
    findings: tuple[tuple[str, str], ...] = ()
    schema: str = field(default=SWEEP)
