"""What a step would take without the profiler, predicted from the trace of the profiled one.

The profiler slows the host, event by event, and leaves kernels as they are. So the host's time is
shortened by what its recorded events cost, and the GPU's work is laid out anew behind it: an op
starts once it was launched and the op before it has ended, and a synchronize lasts until the work
launched before it is done. What the GPU covers is then covered in the prediction, too.

What an event costs is read from the trace itself, in units that grow and shrink with the speed of
its host: the smallest spacing of nested CPU ops and the usual length of a launch call. How many of
these units an event takes is a property of the profiler: the prior is fitted on recordings whose
steps were timed as well. Scores: gaptrace/predict/README.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gaptrace.knowledge import runtime_calls
from gaptrace.measure.devices import Device
from gaptrace.measure.gaps import LAUNCH_MOST_NS
from gaptrace.measure.headline import Headline
from gaptrace.measure.hosttime import HostClock
from gaptrace.measure.links import names_where
from gaptrace.measure.quality import Quality
from gaptrace.measure.stats import nearest_rank, spread
from gaptrace.measure.steps import Steps
from gaptrace.measure.threads import SYNC, CallKinds
from gaptrace.results.analysis import PredictedStep
from gaptrace.results.manifest import EventCosts
from gaptrace.trace import Cat, Ints, Trace

# More steps say little more about the median, and each costs a pass over its ops.
STEPS_SIMULATED = 12
# Fewer nested pairs than this do not show the least spacing of two events.
FEWEST_PAIRS = 20
# Of host time between two launches at least this share is the program's own, whatever the events
# in it cost on average.
LEAST_OWN = 0.15

# Fitted on 74 launch-bound recordings of one kind of GPU server (H200, torch 2.11) in four
# sessions, on hosts up to three times slower than each other: median error 8 %, 84 % of the truths
# in range. Most of those outside were recorded while the host ran at half its speed.
PRIOR = EventCosts(1.30, 1.76, 2.13, 0.79, 140.0, 0.6, 1.4, 1.24, "prior")
# What the period itself varies by, whatever recording costs.
NOISE = 0.045
# Where less of a step than this is left, it is told by the errors in what was taken away.
LEAST_LEFT = 0.2
# What must not be withheld, with the reason told otherwise.
NEEDED = ("causes", "steps", "period", "busy", "host")


@dataclass(frozen=True)
class Units:
    """The trace's own units of cost in ns: see `EventCosts`; 0 where there are no such events."""

    call_ns: float
    op_ns: float


def predicted_step(
    trace: Trace,
    device: Device | None,
    steps: Steps | None,
    kinds: CallKinds,
    clock: HostClock,
    quality: Quality,
    head: Headline,
    costs: EventCosts,
) -> PredictedStep:
    """The step without the profiler, from the counted steps; or the reason why it cannot be told.

    Its range is that of the costs, and is never below the busy time. The predicted step is at most
    the profiled one, which the profiler only made longer.
    """
    if device is None or steps is None or not (steps.counted & steps.has_ops).any():
        return PredictedStep(why="no complete step")
    if gone := [name for name in NEEDED if quality.withholds(name)]:
        return PredictedStep(why=f"{gone[0]} of the trace are withheld, and it rests on them")
    if steps.shares:
        return PredictedStep(why="the steps run on several devices")
    chosen = np.flatnonzero(steps.counted & steps.has_ops)[:STEPS_SIMULATED]
    lanes = np.unique(steps.lane[chosen])
    if lanes.size != 1 or lanes[0] not in clock.sets:
        return PredictedStep(why="not one thread launches all steps")
    lane = int(lanes[0])
    if names_where(trace, trace.name[device.links.calls], _is_hip).any():
        return PredictedStep(why="what recording costs is known of CUDA only, not of HIP")
    play = _Play(trace, device, steps, _waits(trace, device, kinds, clock, lane), lane, chosen)
    cost = _costs(trace, lane, units_of(trace, device, lane), costs)
    busy, period = head.steps["busy_ns"].median, head.steps["period_ns"].median
    if busy is None or period is None:
        return PredictedStep(why="no complete step")
    step, least, most = (
        min(max(play.period(cost, costs.node_ns, factor), busy), period)
        for factor in (1.0, costs.high, costs.low)
    )
    low = max(min(least, step), step / costs.farthest) * (1 - NOISE)
    low, high = max(low, busy), min(max(most, step), step * costs.farthest) * (1 + NOISE)
    if step < LEAST_LEFT * period:
        return PredictedStep(
            why="what the profiler recorded cost most of the step's time (no stacks, no shapes: "
            "gaptrace collect records a step that can be told)"
        )
    tokens = head.tokens_per_step if head.has_tokens else None
    return PredictedStep(
        step_ns=int(step),
        range_ns=(int(low), int(high)),
        idle_ns=int(step - busy),
        idle_range_ns=(int(low - busy), int(high - busy)),
        idle_share=(step - busy) / step if step else None,
        tokens_per_s=tokens * 1e9 / step if tokens and step else None,
        tokens_per_s_range=(tokens * 1e9 / high, tokens * 1e9 / low) if tokens and low else None,
        removed_ns=play.removed(cost),
        source=costs.source,
    )


def _is_hip(name: str) -> bool:
    return name.startswith("hip")


def units_of(trace: Trace, device: Device, lane: int) -> Units:
    """The units of cost of one host thread, from its nested ops, nested frames and launch calls."""
    calls = device.links.calls
    calls = calls[trace.lane[calls] == lane]
    plain = ~names_where(trace, trace.name[calls], runtime_calls.is_graph_launch)
    lengths = np.sort(trace.dur[calls[plain]])
    call = float(nearest_rank(lengths, 50)) if lengths.size else 0.0
    return Units(call, _spacing(trace, lane) or CALL_TO_OP * call)


# Least spacing of ops over median launch call, where too few ops are nested to see it.
CALL_TO_OP = 0.13


def _spacing(trace: Trace, lane: int) -> float:
    """Least time in ns from the start of an op to that of the first inside it, and at their ends.

    The 1st and the 5th percentile over nested pairs, added; 0 where there are too few.
    """
    rows = trace.rows_of(Cat.CPU_OP)
    rows = rows[trace.lane[rows] == lane]
    start, end = trace.start[rows], trace.start[rows] + trace.dur[rows]
    order = np.lexsort((-end, start))
    first, last = start[order], end[order]
    inside = np.flatnonzero((first[1:] < last[:-1]) & (last[1:] <= last[:-1]))
    entry = np.sort(first[inside + 1] - first[inside])
    order = np.lexsort((-start, end))
    first, last = start[order], end[order]
    around = np.flatnonzero((first[1:] <= first[:-1]) & (last[1:] > first[1:]))
    leave = np.sort(last[around + 1] - last[around])
    if min(entry.size, leave.size) < FEWEST_PAIRS:
        return 0.0
    return float(nearest_rank(entry, 1) + nearest_rank(leave, 5))


def _costs(trace: Trace, lane: int, units: Units, costs: EventCosts) -> tuple[Ints, Ints]:
    """When the recorded events of a thread began, ascending, and the sum of their costs up to each.

    Both in ns; the second has one entry more and begins with 0.
    """
    each = costs.shaped_op if (trace.op.shape >= 0).any() else costs.op
    parts = []
    for cat, cost in (
        (Cat.CPU_OP, each * units.op_ns),
        (Cat.RUNTIME, costs.call * units.call_ns),
        (Cat.PYTHON, costs.frame * units.op_ns),
    ):
        if trace.joined and cat is not Cat.RUNTIME:
            continue  # Recorded another time: they cost this recording nothing.
        rows = trace.rows_of(cat)
        start = trace.start[rows[trace.lane[rows] == lane]]
        parts.append((start, np.full(start.size, cost)))
    start = np.concatenate([part[0] for part in parts])
    order = np.argsort(start, kind="stable")
    spent = np.concatenate([part[1] for part in parts])[order]
    return start[order], np.rint(np.concatenate(([0.0], np.cumsum(spent)))).astype(np.int64)


class _Play:
    """The launches, waits and GPU ops of some steps, to be laid out again with a faster host.

    Ops stand in the order of their starts. `gap` is the time that the device let pass before an op
    which was already launched, below 0 where it ran beside the ops before it; `latency` that from
    its launch call to its start.
    """

    def __init__(
        self, trace: Trace, device: Device, steps: Steps, waits: Waits, lane: int, chosen: Ints
    ) -> None:
        links = device.links
        self._steps, self._chosen = steps, chosen
        begin, until = int(steps.host_start[chosen[0]]), int(steps.gpu_end[chosen].max())
        order = np.lexsort((links.row, links.end, links.start))
        free = np.concatenate(([begin], np.maximum.accumulate(links.end[order])[:-1]))
        kept = links.start[order] >= steps.gpu_start[chosen[0]]
        kept &= links.start[order] <= until
        order, before = order[kept], np.maximum(free[kept], begin)
        self._start, self._dur = links.start[order], (links.end - links.start)[order]
        launch = links.launch[order]
        replayed = links.replayed[order]
        self._ours = (launch >= 0) & (trace.lane[np.maximum(launch, 0)] == lane)
        called = np.where(self._ours, trace.start[np.maximum(launch, 0)], self._start)
        self._called = np.maximum(called, begin)
        self._inner = np.zeros(order.size, np.bool_)
        self._inner[1:] = replayed[1:] & (launch[1:] == launch[:-1])
        queued = self._inner | (self._called <= before)
        gap = self._start - before
        seen = np.sort(gap[queued & ~self._inner & (gap >= 0)])
        usual = min(nearest_rank(seen, 50), USUAL_GAP_NS) if seen.size else USUAL_GAP_NS
        self._gap = np.where(queued, gap, usual)
        self._latency = np.full(order.size, USUAL_LATENCY_NS)
        for kind in (replayed, ~replayed):
            times = np.sort((self._start - self._called)[self._ours & ~queued & kind])
            if times.size:
                self._latency[kind] = min(nearest_rank(times, 50), LAUNCH_MOST_NS)
        # How long after the first launch call the device was still at work launched before, which
        # need not be recorded.
        behind = self._start[0] - self._called[0] > LAUNCH_MOST_NS
        self._begin = begin
        self._lead = int(self._start[0] if behind else before[0]) - begin
        inside = (waits.end > begin) & (waits.start <= until)
        self._waits = Waits(*(column[inside] for column in (waits.start, waits.end, waits.after)))

    def removed(self, cost: tuple[Ints, Ints]) -> int:
        """Median over the steps of what their events cost the host, in ns."""
        at = cost[1][np.searchsorted(cost[0], self._steps.host_end[self._chosen])]
        at = at - cost[1][np.searchsorted(cost[0], self._steps.host_start[self._chosen])]
        return int(spread(at).median or 0)

    def period(self, cost: tuple[Ints, Ints], node_ns: float, factor: float) -> int:
        """Median period of the steps in ns, with `factor` times the given costs taken out."""
        begin, end, after = self._waits.start, self._waits.end, self._waits.after
        times = np.unique(np.concatenate(([self._begin], self._called[self._ours], begin, end)))
        spent = cost[1][np.searchsorted(cost[0], times)]
        length = np.diff(times, prepend=times[:1])
        own = np.maximum(length - factor * np.diff(spent, prepend=spent[:1]), LEAST_OWN * length)
        own[_inside(times, begin, end)] = 0
        host = np.cumsum(own)
        at = host[np.minimum(np.searchsorted(times, self._called), times.size - 1)]
        free = ~self._ours | self._inner
        ready = np.where(free, -np.inf, at + self._latency)
        shorter = np.where(self._inner, np.clip(self._gap, 0, node_ns * factor), 0)
        gap = self._gap - shorter
        starts = np.zeros(at.size)
        reach, waited, done = float(self._lead), 0.0, 0
        # Ops launched before a wait, even where a later one of another stream started first.
        bounds = np.searchsorted(np.maximum.accumulate(self._called), begin, side="right")
        for number, stop in enumerate((*bounds.tolist(), at.size)):
            if stop > done:
                piece = slice(done, stop)
                starts[piece], reach = _laid_out(
                    ready[piece] + waited, gap[piece], self._dur[piece], reach
                )
                done = stop
            if number < begin.size and after[number] >= 0:
                now = host[np.searchsorted(times, begin[number])] + waited
                least = min(int(end[number] - begin[number]), SHORT_WAIT_NS)
                waited += max(least, reach + int(after[number]) - now)
        return self._median(starts)

    def _median(self, starts: npt.NDArray[np.float64]) -> int:
        steps, chosen = self._steps, self._chosen
        first = np.searchsorted(self._start, steps.gpu_start[chosen])
        until = np.searchsorted(self._start, steps.gpu_end[chosen])
        ends = np.maximum.accumulate(starts + self._dur)
        follows = until < self._start.size
        follows[follows] = self._start[until[follows]] == steps.gpu_end[chosen][follows]
        last = np.where(
            follows, starts[np.minimum(until, starts.size - 1)], ends[np.maximum(until - 1, 0)]
        )
        return int(spread(np.rint(last - starts[first])).median or 0)


# What an op waits for behind another one where no pair of the trace shows it, and from its launch
# call to its start on an idle device (measured on an H200).
USUAL_GAP_NS = 1_000
USUAL_LATENCY_NS = 5_000
# A wait for work that is already done takes no longer than this.
SHORT_WAIT_NS = 5_000
# How long after the work that it waited for a call returns, at most.
RETURN_NS = 20_000


@dataclass(frozen=True, eq=False)
class Waits:
    """When a thread waited for the GPU, in ns, in the order of time.

    after: how long after the work that it waited for it went on; -1 where it waited for room in
    the queue, which a faster host would fill as well.
    """

    start: Ints
    end: Ints
    after: Ints


def _waits(trace: Trace, device: Device, kinds: CallKinds, clock: HostClock, lane: int) -> Waits:
    """The outermost synchronizes of a thread and its waits for room in the queue."""
    rows = kinds.row[(kinds.kind == SYNC) & (trace.lane[kinds.row] == lane)]
    start, end = trace.start[rows], trace.start[rows] + trace.dur[rows]
    last = np.concatenate(([-1], np.sort(device.links.end)))
    last = last[np.searchsorted(last, end, side="right") - 1]
    after = np.where(last >= start, np.clip(end - last, 0, RETURN_NS), RETURN_NS // 4)
    full = clock.sets[lane]["backpressure"]
    start = np.concatenate((start, full.start))
    end = np.concatenate((end, full.end))
    after = np.concatenate((after, np.full(full.start.size, -1)))
    order = np.lexsort((-end, start))
    start, end, after = start[order], end[order], after[order]
    outer = np.ones(start.size, np.bool_)
    outer[1:] = end[1:] > np.maximum.accumulate(end)[:-1]
    return Waits(start[outer], end[outer], after[outer])


def _inside(times: Ints, begin: Ints, end: Ints) -> npt.NDArray[np.bool_]:
    """Whether the time that ends at each of `times` passed inside one of the waits."""
    which = np.searchsorted(begin, times, side="left") - 1
    inside = which >= 0
    inside[inside] = times[inside] <= end[which[inside]]
    return inside


def _laid_out(
    ready: npt.NDArray[np.float64], gap: npt.NDArray[np.number], dur: Ints, reach: float
) -> tuple[npt.NDArray[np.float64], float]:
    """Starts of ops that follow each other on a device which is free at `reach`, and when it ends.

    An op starts when it is ready and the device has been free for its gap.
    """
    more = np.maximum(gap + dur, 0)
    total = np.cumsum(more)
    ends = total + np.maximum(np.maximum.accumulate(ready + dur - total), reach)
    before = np.concatenate(([reach], ends[:-1]))
    return np.maximum(ready, before + gap), float(ends[-1])
