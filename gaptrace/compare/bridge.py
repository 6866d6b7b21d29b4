"""The bridge from one step time to another: exact signed parts, in integer nanoseconds.

A step's period is busy time plus idle time. Idle is split by cause and busy by op class, each
nanosecond counted once, so the parts of one step sum to its period; the differences of two steps'
parts then sum to the difference of their periods, with nothing left over and nothing rounded. The
steps are those whose traced period is the median of their run, and the runs those whose step time
is the median of their side. `profiling` carries the sum on to the unprofiled difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gaptrace.compare.recording import CAUSE_COLUMNS, CLASS_COLUMNS, Recording
from gaptrace.compare.result import Bridge, BridgePart
from gaptrace.compare.side import Side
from gaptrace.measure.gaps import CAUSES
from gaptrace.measure.kernels import OP_CLASSES
from gaptrace.measure.sentence import CAUSE_WORDS
from gaptrace.measure.stats import nearest_rank

CLASS_WORDS = {
    "gemm": "GEMM",
    "attention": "attention",
    "communication": "communication",
    "pointwise": "pointwise/reduction",
    "copy": "copy",
    "other": "other",
}
MEDIAN_STEP, OPEN_STEP, WHOLE = "median step", "open step", "whole recording"


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

    def per_token(self, column: str) -> float:
        """A part in ns per token of the step; of a whole recording in ns."""
        return self.parts[column] / max(self.parts.get("tokens", 1), 1)


def build_bridge(
    baseline: Side, candidate: Side, *, unprofiled: bool, basis: str = MEDIAN_STEP
) -> tuple[Bridge, Pillar, Pillar]:
    """The bridge between two sides, and the steps it stands on.

    basis: `whole recording` where the steps of the two sides are not the same piece of work.
    """
    ends = [pillar(side, unprofiled=unprofiled) for side in (baseline, candidate)]
    if basis == WHOLE or any(end.basis == WHOLE for end in ends):
        ends = [
            _whole(side, end.place) for side, end in zip((baseline, candidate), ends, strict=True)
        ]
    left, right = ends
    notes: list[str] = []
    parts = _idle(left, right, notes) + _busy(left, right)
    if not (left.split and right.split):
        parts = [_together(left, right)]
        notes.append(
            "busy and idle cannot be told apart: steps overlap on the GPU by more than 1 %"
        )
    times = _unprofiled(baseline, candidate, left, right)
    if times is not None:
        added = (left.period_ns - times[0], right.period_ns - times[1])
        parts.append(BridgePart("profiling", "profiling", "profiling", *added))
    bases = {left.basis, right.basis}
    bridge = Bridge(
        baseline_ns=left.period_ns,
        candidate_ns=right.period_ns,
        parts=tuple(part for part in parts if part.baseline_ns or part.candidate_ns),
        unprofiled_baseline_ns=times[0] if times else None,
        unprofiled_candidate_ns=times[1] if times else None,
        basis=next(basis for basis in (WHOLE, OPEN_STEP, MEDIAN_STEP) if basis in bases),
        baseline_step=left.words,
        candidate_step=right.words,
        split=left.split and right.split,
        notes=tuple(notes),
    )
    return bridge, left, right


def pillar(side: Side, *, unprofiled: bool) -> Pillar:
    """The step that stands for a side."""
    place = side.representative(unprofiled=unprofiled)
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


def busy_changes(left: Pillar, right: Pillar) -> tuple[tuple[str, float], ...]:
    """Op class and its change of busy ns per token between the two ends, each ns counted once."""
    return tuple(
        (kind, right.per_token(column) - left.per_token(column))
        for kind, column in zip(OP_CLASSES, CLASS_COLUMNS, strict=True)
    )


def _whole(side: Side, place: int) -> Pillar:
    recording = side.recordings[place]
    return Pillar(
        place=place,
        step=-1,
        basis=WHOLE,
        words=WHOLE,
        parts=recording.whole,
        split=True,
        causes=not recording.withholds("causes"),
    )


def _idle(left: Pillar, right: Pillar, notes: list[str]) -> list[BridgePart]:
    if not (left.causes and right.causes):
        sides = [sum(end.parts[name] for name in CAUSE_COLUMNS) for end in (left, right)]
        where = "baseline" if not left.causes else "candidate"
        notes.append(f"idle is not split by cause: the causes of the {where} are withheld")
        return [BridgePart("idle", "withheld", "idle, causes withheld", *sides)]
    return [
        BridgePart(
            "idle", cause, f"idle: {CAUSE_WORDS[cause]}", left.parts[name], right.parts[name]
        )
        for cause, name in zip(CAUSES, CAUSE_COLUMNS, strict=True)
    ]


def _busy(left: Pillar, right: Pillar) -> list[BridgePart]:
    return [
        BridgePart("busy", kind, f"busy: {CLASS_WORDS[kind]}", left.parts[name], right.parts[name])
        for kind, name in zip(OP_CLASSES, CLASS_COLUMNS, strict=True)
    ]


def _together(left: Pillar, right: Pillar) -> BridgePart:
    return BridgePart(
        "time", "withheld", "busy and idle, withheld", left.period_ns, right.period_ns
    )


def _unprofiled(
    baseline: Side, candidate: Side, left: Pillar, right: Pillar
) -> tuple[int, int] | None:
    if left.basis == WHOLE:
        return None
    first: Recording = baseline.recordings[left.place]
    second: Recording = candidate.recordings[right.place]
    if first.unprofiled_ns is None or second.unprofiled_ns is None:
        return None
    return first.unprofiled_ns, second.unprofiled_ns
