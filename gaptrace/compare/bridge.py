"""The bridge from one step time to another: exact signed parts, in integer nanoseconds.

A step is busy time plus idle time. Busy is split by op class, each nanosecond counted once, and
idle by cause, so the parts of a step sum to it, and the differences of two steps' parts to the
difference of the steps, with nothing left over. The steps are those whose traced period is the
median of their run, and the runs those whose step time is the median of their side.

Where both sides have unprofiled steps (measured, given or predicted) the bridge joins those:
kernels do not slow down under the profiler, so busy is as traced and the rest of the step is idle.
The causes of that idle time exist only as traced; their shares split it, and the parts say that
they are estimates. Without unprofiled steps, and where the profiler slowed a host by nobody knows
how much, busy is bridged as ever, and idle is one part that says that it cannot be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from gaptrace.compare.likeness import host_figures
from gaptrace.compare.recording import CAUSE_COLUMNS, CLASS_COLUMNS
from gaptrace.compare.side import Side
from gaptrace.measure.gaps import CAUSES
from gaptrace.measure.kernels import OP_CLASSES
from gaptrace.measure.stats import nearest_rank
from gaptrace.results.comparison import PROFILED, Bridge, BridgePart
from gaptrace.vocabulary import CAUSES as CAUSE_WORDS
from gaptrace.vocabulary import OP_CLASSES as CLASS_WORDS

MEDIAN_STEP, OPEN_STEP, WHOLE = "median step", "open step", "whole recording"
MIXED = "busy and idle cannot be told apart: steps overlap on the GPU by more than 1 %"
SLOWED = (
    "idle as profiled holds what the profiler added to the host's time; only busy time can be "
    "compared"
)
OVERFULL = "as profiled: the GPU was busy for longer than an unprofiled step takes"


@dataclass(frozen=True)
class Pillar:
    """One end of a bridge: a recording, the row of its step, and the nanoseconds of each part."""

    place: int
    step: int
    basis: str
    words: str
    parts: Mapping[str, int]
    split: bool
    causes: bool

    @property
    def period_ns(self) -> int:
        """The length of the window that the parts sum to."""
        return self.parts["period_ns"]

    @property
    def busy_ns(self) -> int:
        """Its busy time."""
        return sum(self.parts[name] for name in CLASS_COLUMNS)

    @property
    def busy_by_class(self) -> dict[str, float]:
        """Busy ns per token of the step (of a whole recording: in all), each ns counted once."""
        tokens = max(self.parts.get("tokens", 1), 1)
        return {
            kind: self.parts[column] / tokens
            for kind, column in zip(OP_CLASSES, CLASS_COLUMNS, strict=True)
        }


def build_bridge(
    baseline: Side, candidate: Side, *, source: str, basis: str = MEDIAN_STEP
) -> tuple[Bridge, Pillar, Pillar]:
    """The bridge between two sides, and the steps it stands on.

    source: how the step times that are compared are known. basis: `whole recording` where the steps
    of the two sides are not the same piece of work.
    """
    sides = (baseline, candidate)
    left, right = (pillar(side, source) for side in sides)
    if WHOLE in (basis, left.basis, right.basis):
        left, right = _whole(baseline, left.place), _whole(candidate, right.place)
    split = left.split and right.split
    notes: list[str] = []
    times = None
    if source != PROFILED and left.basis != WHOLE:
        before = baseline.recordings[left.place].step_ns
        after = candidate.recordings[right.place].step_ns
        times = None if before is None or after is None else (before, after)
    known, ends = PROFILED, (left.period_ns, right.period_ns)
    if times is not None and split and (left.busy_ns > times[0] or right.busy_ns > times[1]):
        notes.append(OVERFULL)
    elif times is not None:
        known, ends = source, times
    slowed = host_figures(side.recordings for side in sides)
    comparable = known != PROFILED or "step_time" not in slowed
    if not split:
        parts = [_part("time", "withheld", "busy and idle, withheld", *ends)]
        notes.append(MIXED)
    elif comparable:
        parts = _idle(left, right, ends, notes) + _busy(left, right)
    else:
        notes.append(SLOWED)
        idle = [end - side.busy_ns for side, end in zip((left, right), ends, strict=True)]
        parts = [_part("idle", "withheld", "idle, not comparable", *idle), *_busy(left, right)]
    bases = {left.basis, right.basis}
    bridge = Bridge(
        basis=next(basis for basis in (WHOLE, OPEN_STEP, MEDIAN_STEP) if basis in bases),
        source=known,
        baseline_step=left.words,
        candidate_step=right.words,
        baseline_ns=left.period_ns,
        candidate_ns=right.period_ns,
        unprofiled_baseline_ns=times[0] if times else None,
        unprofiled_candidate_ns=times[1] if times else None,
        split=split,
        notes=tuple(notes),
        parts=tuple(
            replace(part, share=abs(part.delta_ns) / (max(ends) or 1))
            for part in parts
            if part.baseline_ns or part.candidate_ns
        ),
        idle_causes=_main_causes([part for part in parts if part.kind == "idle"]),
        comparable=comparable,
    )
    return bridge, left, right


def _main_causes(idle: Sequence[BridgePart]) -> tuple[str, ...]:
    """Of the causes that moved as idle did, the one or two that make up more than half of that."""
    sign = 1 if sum(part.delta_ns for part in idle) > 0 else -1
    moved = sorted(((sign * part.delta_ns, part.key) for part in idle), reverse=True)
    moved = [item for item in moved if item[0] > 0]
    total = sum(ns for ns, _ in moved)
    named = moved[:1] if moved and 2 * moved[0][0] > total else moved[:2]
    return tuple(key for _, key in named) if 2 * sum(ns for ns, _ in named) > total else ()


def pillar(side: Side, source: str) -> Pillar:
    """The step that stands for a side; `source`: how its step time is known."""
    place = side.representative(source)
    recording = side.recordings[place]
    steps = recording.steps
    if steps["period_ns"].size == 0 or recording.rule == "whole trace":
        return _whole(side, place)
    period = steps["period_ns"]
    clean = steps["clean"] > 0
    among = np.flatnonzero(clean) if clean.any() else np.arange(period.size)
    middle = nearest_rank(np.sort(period[among]), 50)
    index = int(among[np.flatnonzero(period[among] == middle)[0]])
    closed = bool(steps["closed"][index])
    run = f" of run {recording.repeat}" if len(side.recordings) > 1 else ""
    return Pillar(
        place=place,
        step=int(steps["step"][index]),
        basis=MEDIAN_STEP if closed else OPEN_STEP,
        words=f"step {int(steps['step'][index])}{run}",
        parts={name: int(column[index]) for name, column in steps.items()},
        split=bool(clean[index]) and not recording.withholds("busy", "idle"),
        causes=not recording.withholds("causes"),
    )


def busy_changes(left: Pillar, right: Pillar) -> dict[str, float]:
    """Change of busy ns per token between the two ends by op class, each ns counted once."""
    before, after = left.busy_by_class, right.busy_by_class
    return {kind: after[kind] - before[kind] for kind in OP_CLASSES}


def _whole(side: Side, place: int) -> Pillar:
    recording = side.recordings[place]
    causes = not recording.withholds("causes")
    return Pillar(place, -1, WHOLE, WHOLE, recording.whole, split=True, causes=causes)


def _part(
    kind: str, key: str, title: str, before: int, after: int, *, estimated: bool = False
) -> BridgePart:
    return BridgePart(kind, key, title, before, after, after - before, estimated=estimated)


def _idle(left: Pillar, right: Pillar, ends: tuple[int, int], notes: list[str]) -> list[BridgePart]:
    totals = [end - side.busy_ns for side, end in zip((left, right), ends, strict=True)]
    if not (left.causes and right.causes):
        where = "baseline" if not left.causes else "candidate"
        notes.append(f"idle is not split by cause: the causes of the {where} are withheld")
        return [_part("idle", "withheld", "idle, causes withheld", *totals)]
    shares = [
        split_by(total, _weights(side)) for side, total in zip((left, right), totals, strict=True)
    ]
    estimated = ends != (left.period_ns, right.period_ns)
    return [
        _part("idle", cause, f"idle: {CAUSE_WORDS[cause].label}", *pair, estimated=estimated)
        for cause, pair in zip(CAUSES, zip(*shares, strict=True), strict=True)
    ]


def _weights(side: Pillar) -> list[int]:
    """Traced idle by cause; where nothing was idle as traced, nothing is known of the causes."""
    found = [side.parts[name] for name in CAUSE_COLUMNS]
    return found if any(found) else [int(cause == "unattributed") for cause in CAUSES]


def split_by(total: int, weights: Sequence[int]) -> list[int]:
    """`total` in whole parts that sum to it, as the weights are to each other (not all are 0).

    What rounding leaves over goes to the largest fractions.
    """
    whole = sum(weights)
    parts = [total * weight // whole for weight in weights]
    fractions = sorted(range(len(parts)), key=lambda i: (-(total * weights[i] % whole), i))
    for i in fractions[: total - sum(parts)]:
        parts[i] += 1
    return parts


def _busy(left: Pillar, right: Pillar) -> list[BridgePart]:
    return [
        _part("busy", kind, f"busy: {CLASS_WORDS[kind].label}", left.parts[name], right.parts[name])
        for kind, name in zip(OP_CLASSES, CLASS_COLUMNS, strict=True)
    ]
