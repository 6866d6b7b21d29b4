"""Host time per step by what the engine does: schedule, prepare inputs, forward, sample and so on.

Which annotations and Python frames show which part is knowledge/engines.toml's business.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gaptrace import intervals as iv
from gaptrace.intervals import Intervals
from gaptrace.knowledge.engines import engine_parts, part_titles
from gaptrace.measure.devices import Device
from gaptrace.measure.links import codes_in, rows_named
from gaptrace.measure.quality import Quality
from gaptrace.measure.stats import spread
from gaptrace.measure.steps import Steps
from gaptrace.results.analysis import HostPart, HostParts
from gaptrace.trace import Cat, Ints, Trace

LABELS, FRAMES = "labels", "Python frames"


@dataclass(frozen=True, eq=False)
class PartTimes:
    """Host time of every step by engine part, on the thread that launches the step.

    engine: whose labels and frames were looked for, None for a program that is no known engine.
    source: `labels`, `Python frames`, both joined by `and`; None where neither shows a part. parts:
    ids in the order of tables. ns: one row per step, one column per part; a row sums to the step's
    host window. idle_between_ns: for every step the GPU's idle time from its own last op to the
    next step's first.
    """

    engine: str | None
    source: str | None
    parts: tuple[str, ...]
    ns: npt.NDArray[np.int64]
    idle_between_ns: Ints


def part_times(trace: Trace, engine: str | None, device: Device, steps: Steps) -> PartTimes:
    """The host window of each step split by the innermost label or frame that shows a part.

    Time that none of them covers is `between` after the step's mark has ended, else `other`.
    """
    parts = tuple(part_titles())
    labels, frames = _showing(trace, engine)
    rows = np.concatenate((*labels.values(), *frames.values(), np.empty(0, np.int64)))
    part = np.repeat(
        [parts.index(name) for name in (*labels, *frames)],
        [found.size for found in (*labels.values(), *frames.values())],
    ).astype(np.int64)
    order = np.argsort(rows, kind="stable")
    rows, part = rows[order], part[order]
    ns = np.zeros((len(steps), len(parts)), np.int64)
    ended = np.clip(steps.marks.end, steps.host_start, steps.host_end)
    # A label on a thread that launches no step says nothing about a step's window.
    shown = np.zeros(len(trace), np.bool_)
    for lane in codes_in(steps.lane[steps.lane >= 0]):
        own = trace.lane[rows] == lane
        shown[rows[own]] = True
        segments = iv.innermost(trace.start[rows[own]], trace.end[rows[own]])
        owner = part[own][segments.owner]
        here = np.flatnonzero(steps.lane == lane)
        start, end = steps.host_start[here], steps.host_end[here]
        for index in codes_in(owner):
            mine = Intervals(segments.start[owner == index], segments.end[owner == index])
            ns[here, index] = iv.overlap_with(mine, start, end)
        claimed = iv.union(segments.start, segments.end)
        unclaimed = end - ended[here] - iv.overlap_with(claimed, ended[here], end)
        ns[here, parts.index("between")] += unclaimed
    ns[:, parts.index("other")] += steps.host_window_ns - ns.sum(axis=1)
    sources = [
        source
        for source, found in ((LABELS, labels), (FRAMES, frames))
        if any(shown[rows].any() for rows in found.values())
    ]
    return PartTimes(
        engine=engine,
        source=" and ".join(sources) or None,
        parts=parts,
        ns=ns,
        idle_between_ns=_idle_between(device, steps),
    )


def _showing(trace: Trace, engine: str | None) -> tuple[dict[str, Ints], dict[str, Ints]]:
    """Rows of the annotations and of the Python frames that show each part of the engine."""
    labels: dict[str, Ints] = {}
    frames: dict[str, Ints] = {}
    for part in engine_parts():
        if part.engine != engine:
            continue
        if part.label is not None:
            labels[part.part] = rows_named(trace, part.label.search, Cat.ANNOTATION)
        if part.frame is not None:
            frames[part.part] = rows_named(trace, part.frame.search, Cat.PYTHON)
    return labels, frames


def _idle_between(device: Device, steps: Steps) -> Ints:
    """Idle ns of the device from each step's last op to the end of its GPU window."""
    last = steps.gpu_start.copy()
    owned = steps.op_step >= 0
    np.maximum.at(last, steps.op_step[owned], device.links.end[owned])
    last = np.minimum(last, steps.gpu_end)
    return np.asarray(steps.gpu_end - last - iv.overlap_with(device.busy, last, steps.gpu_end))


def host_parts(times: PartTimes | None, steps: Steps | None, quality: Quality) -> HostParts | None:
    """The parts over the steps that count, the open one left out where there is another."""
    if times is None or steps is None or quality.withholds("host"):
        return None
    closed = steps.counted & (np.arange(len(steps)) != steps.open_index)
    chosen = closed if closed.any() else steps.counted
    idle = spread(times.idle_between_ns[closed & ~steps.mixed]).median
    return HostParts(
        engine=times.engine,
        source=times.source,
        steps=int(chosen.sum()),
        host_window_ns=int(steps.host_window_ns[chosen].sum()),
        parts=tuple(
            HostPart(part, spread(times.ns[chosen, i]).median, int(times.ns[chosen, i].sum()))
            for i, part in enumerate(times.parts)
            if times.source is not None
        ),
        idle_between_steps_ns=None if quality.withholds("idle") else idle,
    )
