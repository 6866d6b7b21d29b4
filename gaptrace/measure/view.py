"""One analysis as the rules see it: the counted steps, their gaps, host work and GPU ops.

How ceilings are found. Take host work away and every later launch moves forward by at most the
time of that work, so a step gains no more than the work removed; and it gains no more than the
idle time in which the host was late, because busy time and the GPU's own waits stay. `View.gained`
is the smaller of the two. Work that is neither a wait nor compilation cannot end the idle time of
waits and compilation. Idle caused by the profiler is never counted: without it there is none.

Only counted steps whose busy and idle are known take part (`View.usable`). A per-token amount is
the median of the per-step ratios, as in every headline; where fewer than half of the steps have
any of it, it is the mean over all of them, and the text says so.

Where the run has unprofiled times, profiling made part of the traced idle. It slows the host, not
the GPU's own front end: the idle between nodes of a replay is as long without it. So late hosts
are left at most the unprofiled idle less that between nodes (`View.host_limit`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from gaptrace import intervals as iv
from gaptrace.knowledge.kernel_names import classify
from gaptrace.measure.amount import Amount
from gaptrace.measure.attribution import op_around, outermost_rows
from gaptrace.measure.frames import gap_steps
from gaptrace.measure.gaps import CAUSES
from gaptrace.measure.links import names_where, rows_named
from gaptrace.measure.marks import COMPILED_REGION
from gaptrace.measure.stats import spread
from gaptrace.quantity import GIVEN, TRACED, UNPROFILED, Quantity
from gaptrace.trace import Cat, Codes, Ints

if TYPE_CHECKING:
    from gaptrace.measure.devices import Device
    from gaptrace.measure.result import Analysis
    from gaptrace.measure.steps import Steps
    from gaptrace.trace import Trace

# Identical work differs by more than this between two recordings of one program, so a gain below
# this share of a token's time could not be seen even if it were all won.
NEGLIGIBLE = 0.01
# The same for gains that are an extrapolation rather than a measured time.
EXTRAPOLATED = 0.02
# Causes that end when the host launches faster, ...
LAUNCHING_CAUSES = ("launch", "dispatch", "python", "runtime", "alloc")
# ... and all for which the host was late: not those of the GPU's own doing, nor the profiler's.
LATE_CAUSES = tuple(
    name for name in CAUSES if name not in ("graph_node", "device_wait", "unattributed", "profiler")
)
NEVER = np.iinfo(np.int64).max

Bools = npt.NDArray[np.bool_]
Values = npt.NDArray[np.int64] | npt.NDArray[np.float64]


class Needs(IntEnum):
    """What must be known before a rule may look: each level includes the ones before it.

    STEPS: counted steps with per-token figures. CAUSES: also busy, idle and causes of idle, none
    of them withheld.
    """

    NOTHING = 0
    STEPS = 1
    CAUSES = 2


class Calls(NamedTuple):
    """Host calls of one kind in the usable steps: event row, step, start and own time in ns."""

    row: Ints
    step: Ints
    start: Ints
    ns: Ints


class View:
    """What rules ask of an analysis. What needs steps may be used only where there are some."""

    def __init__(self, analysis: Analysis, captured: Quantity | None = None) -> None:
        """`captured`: a token's time if the step were captured, where it was predicted."""
        self.analysis = analysis
        self.captured = captured
        self.trace: Trace = analysis.trace

    @cached_property
    def known(self) -> Needs:
        """How much may be used: withheld figures count as unknown."""
        quality, steps = self.analysis.quality, self.analysis.step_table
        if steps is None or not steps.counted.any() or self.period is None:
            return Needs.NOTHING
        if quality.withholds("steps", "per_token"):
            return Needs.NOTHING
        if quality.withholds("busy", "idle", "causes", "host") or not self.usable.any():
            return Needs.STEPS
        return Needs.CAUSES

    @property
    def steps(self) -> Steps:
        """The step table."""
        assert self.analysis.step_table is not None
        return self.analysis.step_table

    @property
    def device(self) -> Device:
        """The device that step figures are for."""
        assert self.analysis.device is not None
        return self.analysis.device

    @cached_property
    def usable(self) -> Bools:
        """Counted steps whose busy and idle are known."""
        return self.steps.counted & ~self.steps.mixed

    @cached_property
    def words(self) -> Mapping[str, str]:
        """What the steps are, and what figures are per: only decode steps have tokens."""
        head = self.analysis.headline
        return {"kind": head.kind, "unit": "token" if head.has_tokens else "step"}

    @cached_property
    def tokens(self) -> float:
        """Tokens of all usable steps."""
        return float(self.steps.tokens[self.usable].sum())

    def per_token(self, total: float, unit: str) -> Quantity:
        """What the usable steps have in all, per token; a mean."""
        return Quantity(float(total) / self.tokens, unit, TRACED)

    @property
    def period(self) -> float | None:
        """Median step period per token in ns."""
        return self._median("period_ns")

    @property
    def idle(self) -> float | None:
        """Median idle per token in ns, None where withheld."""
        return self._median("idle_ns")

    @property
    def busy(self) -> float | None:
        """Median busy time per token in ns, None where withheld."""
        return self._median("busy_ns")

    def _median(self, name: str) -> float | None:
        spread_of = self.analysis.headline.per_token.get(name)
        return None if spread_of is None or spread_of.median is None else float(spread_of.median)

    @cached_property
    def idle_limit(self) -> float:
        """The most that less idle can win per token: traced idle, or unprofiled where lower."""
        idle, unprofiled = self.idle or 0.0, self.analysis.headline.unprofiled_idle_per_token
        return idle if unprofiled is None else min(idle, unprofiled)

    @cached_property
    def host_limit(self) -> float:
        """The most that a faster host can win per token: `idle_limit` less idle between nodes.

        Without unprofiled times it is the traced idle.
        """
        unprofiled = self.analysis.headline.unprofiled_late_per_token
        return self.idle_limit if unprofiled is None else min(self.idle_limit, unprofiled)

    def amount(self, per_step: Values) -> Amount:
        """A per-step quantity per token over the usable steps."""
        values, tokens = per_step[self.usable], self.steps.tokens[self.usable]
        some = int((values > 0).sum())
        if values.size == 0 or some == 0:
            return Amount(0.0, 0, int(values.size), typical=True)
        median = float(spread(values / tokens).median or 0.0)
        if median > 0:
            return Amount(median, some, int(values.size), typical=True)
        return Amount(float(values.sum() / tokens.sum()), some, int(values.size), typical=False)

    def idle_amount(self, per_step: Values) -> Amount:
        """`amount` of idle time that a faster host could win, never more than `host_limit`."""
        amount = self.amount(per_step)
        traced = min(amount.ns, self.idle or 0.0)
        known = self.analysis.headline.rate.source
        basis = GIVEN if known == GIVEN else UNPROFILED
        return replace(amount, ns=min(traced, self.host_limit), traced=traced, basis=basis)

    def matters(self, ns: float, share: float = NEGLIGIBLE) -> bool:
        """Whether an amount per token is at least `share` of the token's time."""
        return self.period is not None and ns > 0 and ns >= share * self.period

    # --- gaps

    @cached_property
    def _any_step(self) -> Ints:
        return gap_steps(self.analysis)

    @cached_property
    def gap_step(self) -> Ints:
        """The usable step of each gap, -1 for gaps of other steps or none."""
        return self._if_usable(self._any_step)

    def _if_usable(self, step: Ints) -> Ints:
        return np.where(np.append(self.usable, False)[step], step, -1)

    @cached_property
    def late_ns(self) -> Ints:
        """For each gap of the device the part in which the host was late, in ns.

        Also where nothing tells what it did, as no CPU op of its thread was recorded.
        """
        return np.asarray(self.causes(*LATE_CAUSES) + self.device.gaps.unrecorded_ns)

    @cached_property
    def launching_ns(self) -> Ints:
        """For each gap of the device the part that launching took: late, but for no wait, in ns."""
        return np.asarray(self.causes(*LAUNCHING_CAUSES) + self.device.gaps.unrecorded_ns)

    def causes(self, *names: str) -> Ints:
        """For each gap of the device its nanoseconds of the given causes together."""
        columns = [CAUSES.index(name) for name in names]
        return np.asarray(self.device.gaps.cause_ns[:, columns].sum(axis=1))

    def cause(self, name: str) -> Ints:
        """For each gap of the device its nanoseconds of one cause."""
        return np.asarray(self.device.gaps.cause_ns[:, CAUSES.index(name)])

    def by_step(self, per_gap: Values) -> npt.NDArray[np.float64]:
        """Sum over the gaps of each usable step; 0 for the other steps."""
        # One bin before the first step takes what belongs to no usable one.
        bins = np.bincount(self.gap_step + 1, weights=per_gap, minlength=len(self.steps) + 1)
        return bins[1:].astype(np.float64)

    @cached_property
    def late(self) -> Amount:
        """Idle per token for which the host was late."""
        return self.idle_amount(self.by_step(self.late_ns))

    @cached_property
    def late_gaps(self) -> Bools:
        """Gaps of usable steps for which the host was late."""
        return (self.gap_step >= 0) & (self.late_ns > 0)

    def gained(
        self, work: Values, begin: Ints, *, idle: Ints | None = None, among: Bools | None = None
    ) -> npt.NDArray[np.float64]:
        """For each step the most it gains when `work` ns of host time go, from `begin` on.

        The smaller of the work itself and the idle time (`idle` ns of each gap; by default
        `launching_ns`) from `begin` to where the next step with such work begins, since the host's
        lead may carry over; to the end of the last step of an unbroken run of steps. `begin`
        holds the start of the first such work of each step.
        """
        chosen = self.usable if among is None else among
        counted = np.append(chosen, False)[self._any_step]
        per_gap = np.where(counted, self.launching_ns if idle is None else idle, 0)
        before = np.concatenate(([0], np.cumsum(per_gap)))
        idle_until = before[np.searchsorted(self.device.gaps.end, self.steps.gpu_end, side="right")]
        idle_at = before[np.searchsorted(self.device.gaps.end, begin, side="right")]
        result = np.zeros(len(self.steps), np.float64)
        limit: int | None = None
        for step in range(len(self.steps) - 1, -1, -1):
            if not chosen[step]:
                limit = None
                continue
            if limit is None:
                limit = int(idle_until[step])
            if work[step] > 0:
                result[step] = min(float(work[step]), float(max(limit - idle_at[step], 0)))
                limit = int(idle_at[step])
        return result

    # --- the host

    def host_step(self, at: Ints) -> Ints:
        """The usable step whose host window holds each instant, -1 where none does."""
        return self._if_usable(self.steps.host_step(at))

    def on_launching_thread(self, rows: Ints) -> tuple[Ints, Ints]:
        """Those rows that start in a usable step on its launching thread, and their steps."""
        step = self.host_step(self.trace.start[rows])
        keep = (step >= 0) & (self.steps.lane[np.maximum(step, 0)] == self.trace.lane[rows])
        return rows[keep], step[keep]

    def calls(self, kind: str) -> Calls:
        """Calls of an activity (`sync`, `alloc`) on the launching threads, with their own time."""
        parts = []
        for lane in np.unique(self.steps.lane[self.usable]):
            activity = self.analysis.threads.get(int(lane))
            if activity is None or activity.sets()[kind].start.size == 0:
                continue
            pieces = activity.sets()[kind]
            owner = activity.calls.owner[np.searchsorted(activity.calls.start, pieces.start)]
            parts.append((owner, pieces.end - pieces.start))
        if not parts:
            none = np.empty(0, np.int64)
            return Calls(none, none, none, none)
        owner = np.concatenate([part[0] for part in parts])
        rows, inverse = np.unique(owner, return_inverse=True)
        ns = np.bincount(
            inverse, weights=np.concatenate([part[1] for part in parts]), minlength=rows.size
        ).astype(np.int64)
        kept, step = self.on_launching_thread(rows)
        return Calls(kept, step, self.trace.start[kept], ns[np.searchsorted(rows, kept)])

    def per_step(self, step: Ints, ns: Values, start: Ints) -> tuple[Ints, Ints]:
        """Work of each step in ns and where its first piece starts (`NEVER` without any)."""
        count = len(self.steps)
        work = np.bincount(step, weights=ns, minlength=count).astype(np.int64)
        begin = np.full(count, NEVER)
        np.minimum.at(begin, step, start)
        return work, begin

    def op_around(self, rows: Ints) -> Ints:
        """For each host event the innermost CPU op it starts in, -1 where there is none.

        Entries of -1 among `rows` stand for no event.
        """
        return op_around(self.trace, self.analysis.threads, rows)

    @cached_property
    def launching_op(self) -> Ints:
        """For each GPU op of the device the innermost CPU op around its launch call.

        -1 for ops of replays, for orphans, and where no op was recorded.
        """
        links = self.device.links
        return self.op_around(np.where(links.launched & ~links.replayed, links.launch, -1))

    def op_rows(self, *names: str) -> Ints:
        """Outermost CPU ops of the given names."""
        rows = rows_named(self.trace, frozenset(names).__contains__, Cat.CPU_OP)
        return outermost_rows(self.trace, rows)

    def self_time(self, name: str) -> tuple[Ints, Ints, Ints]:
        """Ops of a name on launching threads: event rows, steps, and ns of dispatch of their own.

        Time in nested ops, runtime calls and compile work is not an op's own.
        """
        trace = self.trace
        self_ns = np.zeros(len(trace), np.int64)
        for lane in np.unique(self.steps.lane[self.usable]):
            activity = self.analysis.threads.get(int(lane))
            if activity is None or activity.ops.start.size == 0:
                continue
            segments = activity.ops
            mine = names_where(trace, trace.name[segments.owner], lambda text: text == name)
            ns = iv.overlap_with(activity.dispatch, segments.start[mine], segments.end[mine])
            np.add.at(self_ns, segments.owner[mine], ns)
        wanted = rows_named(trace, lambda text: text == name, Cat.CPU_OP)
        rows, step = self.on_launching_thread(wanted)
        return rows, step, self_ns[rows]

    @cached_property
    def regions(self) -> tuple[Ints, Ints]:
        """Outermost compiled regions of usable steps on their launching threads, and the steps."""
        rows = rows_named(self.trace, COMPILED_REGION.match, Cat.CPU_OP, Cat.ANNOTATION)
        return self.on_launching_thread(outermost_rows(self.trace, rows))

    # --- GPU ops

    @cached_property
    def op_step(self) -> Ints:
        """The usable step of each GPU op of the device, -1 for others."""
        return self._if_usable(self.steps.op_step)

    @cached_property
    def op_name(self) -> Codes:
        """Name code of each GPU op of the device."""
        return self.trace.name[self.device.links.row]

    def of_class(self, *classes: str) -> Bools:
        """GPU ops of the device of these op classes; copies and memsets are `copy`."""
        kernel = self.device.links.cat == Cat.KERNEL
        named = names_where(
            self.trace, self.op_name, lambda name: classify(name).op_class in classes
        )
        return np.where(kernel, named, "copy" in classes)

    def op_at(self, rows: Ints) -> Ints:
        """Positions in the device's links of GPU ops given as event rows."""
        return np.searchsorted(self.device.links.row, rows)

    # --- claims

    def late_in(self, steps_with: Bools) -> Bools:
        """Late gaps of the given steps: what a claim of freed host time counts."""
        step = np.maximum(self.gap_step, 0)
        return self.late_gaps & steps_with[step]
