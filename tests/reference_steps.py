"""Steps and host time once more, slowly: the second half of the reference.

A step here is what a mark made it; which marks a real file has is the analyzer's business, so
they are an argument, and `find_marks` knows only the two plain rules.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from tests.reference import (
    CAUSES,
    Ev,
    Recording,
    Thing,
    Threads,
    call_cause,
    covered,
    gaps,
    is_step_mark,
    lower_median,
    nearest_rank,
    ordered_ops,
    things_of_lane,
    within,
)

Lane = tuple[str, str, str]
Marks = list[tuple[int, int]]

HOST_PARTS = (
    "python",
    "dispatch",
    "launch",
    "runtime",
    "alloc",
    "compile",
    "profiler",
    "sync",
    "backpressure",
    "waiting",
    "unattributed",
)
FAMILIES = (
    "cudaLaunchKernel",
    "__cudaLaunchKernel",
    "cuLaunchKernel",
    "cuLaunchGrid",
    "cudaGraphLaunch",
    "cudaMemcpy",
    "cuMemcpy",
    "cudaMemset",
    "cuMemset",
    "hipLaunchKernel",
    "hipGraphLaunch",
    "hipMemcpy",
    "hipMemset",
)


@dataclass
class Step:
    """One step of one device; None where the step has no such figure."""

    index: int
    start: int
    end: int
    is_open: bool
    ops: list[Ev] = field(default_factory=list)
    lane: Lane | None = None
    gpu_start: int | None = None
    gpu_end: int | None = None
    busy_ns: int | None = None
    idle_ns: int | None = None
    foreign_ns: int = 0
    launches: int = 0
    host: dict[str, int] | None = None
    idle_by_cause_ns: dict[str, int] | None = None
    excluded: str = ""

    @property
    def period_ns(self) -> int | None:
        if self.gpu_start is None or self.gpu_end is None:
            return None
        return self.gpu_end - self.gpu_start

    @property
    def complete(self) -> bool:
        return not self.is_open and not self.excluded and self.period_ns is not None

    @property
    def withheld(self) -> bool:
        """Whether over 1 % of what is busy in the window belongs to ops of other steps."""
        return self.busy_ns is not None and self.foreign_ns * 100 > self.busy_ns

    def count(self, kind: str) -> int:
        return sum(o.kind == kind for o in self.ops)

    @property
    def host_dispatch_ns(self) -> int | None:
        if self.host is None:
            return None
        return sum(
            ns for part, ns in self.host.items() if part not in ("sync", "backpressure", "waiting")
        )


def find_marks(rec: Recording, rank: str = "") -> tuple[str, Marks]:
    """The first of the two plain rules that any mark of the rank matches, and its marks."""
    for rule in (r"gaptrace\.step#\d+", r"ProfilerStep#\d+"):
        marks = sorted(
            (e.start, e.end)
            for e in rec.events
            if e.kind in ("annotation", "op") and e.rank == rank and re.match(rule, e.name)
        )
        if marks:
            return rule.split(r"\.")[0].split("#")[0], marks
    return "none", []


def steps_of(
    rec: Recording, device: tuple[str, str], marks: Marks, threads: Threads | None = None
) -> list[Step]:
    """All steps of a device, the open one last, with exclusions marked."""
    threads = threads or Threads(rec)
    if not marks:
        return []
    ops = ordered_ops(rec, device)
    steps = _host_windows(rec, ops, marks)
    for op in ops:
        call = rec.call_of.get(op.row)
        for step in steps:
            beyond = step.is_open
            if call is not None and step.start <= call.start and (beyond or call.start < step.end):
                step.ops.append(op)
    _gpu_windows(steps)
    for step in steps:
        calls = {rec.call_of[o.row] for o in step.ops}
        step.launches = len(calls)
        step.lane = _launching_thread(calls)
    for op in ops:
        for step in steps:
            if op.row not in rec.call_of and _inside(step, op.start):
                step.ops.append(op)
    idle = gaps(rec, device, threads)
    for step in steps:
        if step.gpu_start is None or step.gpu_end is None:
            continue
        lo, hi = step.gpu_start, step.gpu_end
        own = {o.row for o in step.ops}
        step.busy_ns = covered(_clipped(ops, lo, hi))
        step.idle_ns = hi - lo - step.busy_ns
        step.foreign_ns = covered(_clipped([o for o in ops if o.row not in own], lo, hi))
        mine = [g for g in idle if lo <= g.start and g.end <= hi]
        step.idle_by_cause_ns = {c: sum(g.parts[c] for g in mine) for c in CAUSES}
        for gap in mine:
            # Raw figures of devices say Python also where no op of the thread was recorded.
            if gap.call is not None and not ops_recorded(rec, gap.call.lane):
                step.idle_by_cause_ns["python"] -= gap.parts["python"]
                step.idle_by_cause_ns["unattributed"] += gap.parts["python"]
    medians = family_medians(rec)
    for step in steps:
        if step.lane is not None:
            step.host = host_time(rec, threads, medians, step.lane, step.start, step.end)
    _exclude(rec, steps, device[0])
    return steps


def _host_windows(rec: Recording, ops: list[Ev], marks: Marks) -> list[Step]:
    starts = [start for start, _ in marks]
    last, last_end = marks[-1]
    calls = [rec.call_of[o.row] for o in ops if o.row in rec.call_of]
    final = max((c.end for c in calls if c.start >= last), default=last_end)
    ends = [*starts[1:], final]
    return [
        Step(index, start, end, is_open=index == len(starts) - 1)
        for index, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]


def _gpu_windows(steps: list[Step]) -> None:
    following: int | None = None
    for step in reversed(steps):
        if not step.ops:
            step.excluded = "no GPU ops"
            continue
        step.gpu_start = min(o.start for o in step.ops)
        step.gpu_end = max(o.end for o in step.ops) if step.is_open else following
        if step.gpu_end is None:
            # Steps without ops come after it: nothing of a later step closes the window.
            step.gpu_end = max(o.end for o in step.ops)
            step.is_open = True
        if step.gpu_end < step.gpu_start:
            step.gpu_start = step.gpu_end = None
            step.excluded = "starts after the step that follows it"
            continue
        following = step.gpu_start


def _inside(step: Step, instant: int) -> bool:
    if step.gpu_start is None or step.gpu_end is None:
        return False
    return step.gpu_start <= instant < step.gpu_end


def _clipped(ops: list[Ev], lo: int, hi: int) -> list[tuple[int, int]]:
    return [(max(o.start, lo), min(o.end, hi)) for o in ops if o.start < hi and o.end > lo]


def _launching_thread(calls: set[Ev]) -> Lane | None:
    """The thread with most calls; of equals the one that called first."""
    if not calls:
        return None
    votes = Counter(c.lane for c in calls)
    first = {c.lane: c for c in sorted(calls, key=lambda c: (-c.start, -c.row))}
    return min(votes, key=lambda lane: (-votes[lane], first[lane].start, first[lane].row))


def _exclude(rec: Recording, steps: list[Step], rank: str) -> None:
    overheads = [e for e in rec.events if e.kind == "overhead" and e.end > e.start]
    first = steps[0]
    others = sum(s.complete for s in steps[1:])
    if first.complete and others >= 2 and any(_overlaps(e, first) for e in overheads):
        first.excluded = "profiler overhead in the first step"
    lanes = {e.lane for e in rec.events if e.rank == rank}
    compiling = [t for lane in lanes for t in things_of_lane(rec, lane) if t.cause == "compile"]
    whole = [s for s in steps if s.complete]
    dirty = [s for s in whole if any(_overlaps(t.event, s) for t in compiling)]
    if len(dirty) * 2 <= len(whole):
        for step in dirty:
            step.excluded = "compile work"


def _overlaps(e: Ev, step: Step) -> bool:
    return e.start < step.end and e.end > step.start and e.end > e.start


# Host time -----------------------------------------------------------------------------------


def ops_recorded(rec: Recording, lane: Lane) -> bool:
    """Whether any CPU op of the lane was recorded."""
    return any(e.kind == "op" and e.lane == lane and not is_step_mark(e.name) for e in rec.events)


def family(name: str) -> str:
    """The launch family of a call, for the typical cost of its kind."""
    for known in FAMILIES:
        if name.startswith(known):
            return known
    return re.sub(r"_(ptsz|ptds|spt)$", "", name)


def family_medians(rec: Recording) -> dict[str, int]:
    """Median duration of the launch calls of each family, waiting ones left out."""
    durations: dict[str, list[int]] = {}
    for row in rec.ops_of:
        call = rec.events[row]
        if call_cause(rec, call) == "runtime":
            durations.setdefault(family(call.name), []).append(call.end - call.start)
    return {name: lower_median(values) for name, values in durations.items()}


def full_queue(rec: Recording, call: Ev, typical: int) -> tuple[int, int]:
    """The part of a launch call that waits for room in the queue; start >= end: none."""
    if call.end - call.start <= 10 * typical:
        return call.end, call.end
    devices = {o.device for o in rec.ops_of[call.row]}
    earlier = [
        o.end
        for o in rec.ops
        if o.rank == call.rank
        and o.device in devices
        and (rec.call_of[o.row].start if o.row in rec.call_of else o.start) < call.start
    ]
    return call.start + 10 * typical, min(call.end, max(earlier, default=call.start))


def host_time(
    rec: Recording, threads: Threads, medians: dict[str, int], lane: Lane, lo: int, hi: int
) -> dict[str, int]:
    """[lo, hi) of a thread split into exclusive self time; the parts sum to hi - lo."""
    parts = dict.fromkeys(HOST_PARTS, 0)
    rest = "python" if ops_recorded(rec, lane) else "unattributed"
    for start, end, thing in within(threads.segments(lane), lo, hi):
        if thing is None:
            silent = threads.waits_between(lane, start, end)
            parts["waiting"] += silent
            parts[rest] += end - start - silent
        elif not _is_launch(rec, thing):
            parts[thing.cause] += end - start
        else:
            call = thing.event
            full = full_queue(rec, call, medians[family(call.name)])
            waiting = max(min(end, full[1]) - max(start, full[0]), 0)
            parts["backpressure"] += waiting
            parts["launch"] += end - start - waiting
    return parts


def _is_launch(rec: Recording, thing: Thing) -> bool:
    return thing.event.kind == "call" and thing.cause == "runtime" and thing.row in rec.ops_of


# Headlines -----------------------------------------------------------------------------------


def per_step(step: Step) -> dict[str, int | None]:
    """The figures of a step that headlines are made of."""
    return {
        "period_ns": step.period_ns,
        "busy_ns": None if step.withheld else step.busy_ns,
        "idle_ns": None if step.withheld else step.idle_ns,
        "kernels": step.count("kernel"),
        "launches": step.launches,
        "copies": step.count("memcpy"),
        "memsets": step.count("memset"),
        "host_dispatch_ns": step.host_dispatch_ns,
    }


def headlines(steps: list[Step]) -> dict[str, dict[str, int | None]]:
    """Median, p5 and p95 over complete steps; of the open one where none is complete."""
    chosen = [s for s in steps if s.complete] or [s for s in steps if s.is_open]
    rows = [per_step(s) for s in chosen]
    out: dict[str, dict[str, int | None]] = {"median": {}, "p5": {}, "p95": {}}
    for key in rows[0] if rows else ():
        values = [v for row in rows if (v := row[key]) is not None]
        out["median"][key] = lower_median(values) if values else None
        out["p5"][key] = nearest_rank(values, 5) if values else None
        out["p95"][key] = nearest_rank(values, 95) if values else None
    return out
