"""One stretch of a recording as columns: what the timeline draws, for every surface.

The same data feeds the drawing in the report, the canvas beside it and the dashboard. Nothing is
measured here: ops, gaps and causes are those of the analysis, cut to a window. Where a window
holds more than a drawing can show, the smallest things are merged and a note says how many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gaptrace import units
from gaptrace.measure.gaps import CAUSES
from gaptrace.measure.kernels import OP_CLASSES as CLASSES
from gaptrace.trace import Ints, Trace
from gaptrace.vocabulary import CAUSES as CAUSE_WORDS

SCHEMA = "gaptrace.timeline/1"
# Host time as drawn: causes of idle by name, and time that is nobody's wait.
HOST_STATES = (
    "python", "dispatch", "launch", "runtime", "alloc", "compile", "sync", "profiler", "host_wait",
    "unattributed",
)  # fmt: skip
NAME_LENGTH = 300

__all__ = ["CAUSES", "CLASSES", "HOST_STATES", "Blocks", "Names", "Stretch", "as_data"]


class Names:
    """Texts by number, each kept once. say: what is done to each, to leave private parts out."""

    def __init__(self, say: Callable[[str], str] = str) -> None:
        self.texts: list[str] = []
        self._say = say
        self._index: dict[str, int] = {}

    def of(self, text: str) -> int:
        """The number of a text, cut to a bearable length."""
        text = units.middle_elided(self._say(text), NAME_LENGTH)
        if text not in self._index:
            self._index[text] = len(self.texts)
            self.texts.append(text)
        return self._index[text]

    def of_rows(self, trace: Trace, rows: Ints, short: Callable[[str], str] | None = None) -> Ints:
        """The numbers of the events' names; -1 for a row of -1."""
        codes, inverse = np.unique(np.where(rows >= 0, trace.name[rows], -1), return_inverse=True)
        numbers = [
            -1 if code < 0 else self.of(short(name) if short else name)
            for code, name in ((c, trace.names[int(c)] if c >= 0 else "") for c in codes.tolist())
        ]
        return np.array(numbers, np.int64)[inverse] if codes.size else np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Blocks:
    """Named blocks in time order: start and length in ns, a name, and a second number.

    `kind` is what the lane says it is: op class, nesting depth, state or cause.
    """

    start: Ints
    dur: Ints
    name: Ints
    kind: Ints

    def __len__(self) -> int:
        return int(self.start.size)

    def of(self, chosen: np.ndarray) -> Blocks:
        """The blocks that a mask or their places choose."""
        return Blocks(*(column[chosen] for column in vars(self).values()))


@dataclass(frozen=True, eq=False)
class GpuLane:
    """One stream. `blocks.kind` is the op class; call: number of the launch call, -1 if not shown.

    merged: how many ops a block stands for.
    """

    label: str
    blocks: Blocks
    call: Ints
    merged: Ints


@dataclass(frozen=True, eq=False)
class GapLane:
    """The gaps. `blocks.kind` is the largest cause, `blocks.name` the op that ended the gap.

    cause_ns: the parts of each, one column per `CAUSES`.
    """

    blocks: Blocks
    before: Ints
    call: Ints
    drained: Ints
    number: Ints
    cause_ns: Ints


@dataclass(frozen=True, eq=False)
class HostLane:
    """One host thread: what it was doing (`kind` is a state), its nested ops and Python frames."""

    label: str
    states: Blocks
    ops: Blocks
    frames: Blocks


@dataclass(frozen=True, eq=False)
class Stretch:
    """Everything between two instants. Starts are ns after `start_ns`; names are shared texts.

    parts: every nanosecond of the gaps shown by its cause (`kind` indexes `CAUSES`), where on the
    launching thread it was. calls: launch calls (`kind` is 1 for a graph launch). step: the step's
    GPU window in the same time. notes: what was merged or left out. origin_ns: time 0 of the
    analysis in the file's own clock, which other viewers show.
    """

    title: str
    start_ns: int
    span_ns: int
    step: tuple[int, int] | None
    names: Names
    gpu: tuple[GpuLane, ...]
    gaps: GapLane
    parts: Blocks
    calls: Blocks
    host: tuple[HostLane, ...]
    marks: Blocks
    notes: tuple[str, ...]
    origin_ns: int = 0

    def __len__(self) -> int:
        """How many blocks there are in all."""
        lanes = [self.gaps.blocks, self.parts, self.calls, *(lane.blocks for lane in self.gpu)]
        for lane in self.host:
            lanes += [lane.states, lane.ops, lane.frames]
        return sum(len(blocks) for blocks in lanes)

    @property
    def own_gaps(self) -> Ints:
        """Places of the gaps of the step drawn; the one before its first op is the step before's.

        Without a step all gaps that the window holds whole.
        """
        blocks = self.gaps.blocks
        first, last = self.step or (0, self.span_ns)
        end = blocks.start + blocks.dur
        inside = (end > first) & (end <= last)
        return np.flatnonzero(inside if self.step else inside & (blocks.start >= 0))

    @property
    def said(self) -> str:
        """The sentence over the picture: how many gaps, how long together, the longest."""
        title = f"{self.title[:1].upper()}{self.title[1:]}"
        dur = self.gaps.blocks.dur[self.own_gaps]
        if dur.size == 0:
            return f"{title}: the GPU never runs dry."
        return (
            f"{title}: {units.counted(int(dur.size), 'gap')}, "
            f"{units.time(int(dur.sum()))} in all, the longest {units.time(int(dur.max()))}."
        )

    def gap_words(self, i: int) -> str:
        """A gap in words: length, causes with their times, neighbours, what launched its end."""
        blocks, names = self.gaps.blocks, self.names.texts
        dur = int(blocks.dur[i])
        spent = self.gaps.cause_ns[i]
        causes = ", ".join(
            f"{CAUSE_WORDS[CAUSES[c]].label} {units.time(int(spent[c]))}"
            for c in np.argsort(-spent, kind="stable")
            if spent[c]
        )
        call = int(self.gaps.call[i])
        launched = f"; launched by {names[int(self.calls.name[call])]}" if call >= 0 else ""
        drained = "; the queue was empty because of a sync" if self.gaps.drained[i] else ""
        return (
            f"gap {int(self.gaps.number[i])}: {units.time(dur)} idle ({causes}); "
            f"after {names[int(self.gaps.before[i])]}, before {names[int(blocks.name[i])]}"
            f"{launched}{drained}"
        )


def as_data(item: Stretch) -> dict[str, Any]:
    """The timeline as plain data for the canvas (`gaptrace.timeline/1`), names left to the caller.

    Starts are written as differences to the one before, which keeps the numbers short. States fill
    the window and parts fill the gaps, in order and without a break, so they have no starts at all.
    """
    return {
        "schema": SCHEMA,
        "title": item.title,
        "start_ns": item.start_ns,
        # As text: absolute times of old files need more digits than a script's numbers have.
        "origin_ns": str(item.origin_ns),
        "span_ns": item.span_ns,
        "step": None if item.step is None else list(item.step),
        "gpu": [
            {
                "label": lane.label,
                **_columns(lane.blocks, "class"),
                "call": lane.call.tolist(),
                **({"merged": lane.merged.tolist()} if (lane.merged > 1).any() else {}),
            }
            for lane in item.gpu
        ],
        "gaps": {
            **_columns(item.gaps.blocks, "cause"),
            "before": item.gaps.before.tolist(),
            "call": item.gaps.call.tolist(),
            "drained": np.flatnonzero(item.gaps.drained).tolist(),
            "first": int(item.gaps.number[0]) if len(item.gaps.blocks) else 0,
        },
        "parts": {"dur": item.parts.dur.tolist(), "cause": item.parts.kind.tolist()},
        "calls": _columns(item.calls, "graph"),
        "host": [
            {
                "label": lane.label,
                "states": {"dur": lane.states.dur.tolist(), "state": lane.states.kind.tolist()},
                "ops": _columns(lane.ops, "depth"),
                "frames": _columns(lane.frames, "depth"),
            }
            for lane in item.host
        ],
        "steps": _columns(item.marks, "number"),
        "notes": list(item.notes),
    }


def _columns(blocks: Blocks, kind: str) -> dict[str, list[int]]:
    return {
        "start": np.diff(blocks.start, prepend=0).tolist(),
        "dur": blocks.dur.tolist(),
        "name": blocks.name.tolist(),
        kind: blocks.kind.tolist(),
    }
