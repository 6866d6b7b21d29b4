"""The whole prediction: from an execution trace and the eager kernels to `gaptrace.inductor/1`."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from . import doubts, kernels, releases, result, standins, whatif
from .eager import NO_LINKS, Eager, Links, link
from .execution_trace import ExecutionTrace, Step, pick_step
from .graphs import Rebuilt, fake_mode, make_inputs, module_of
from .rebuild import RECORDED, Region, rebuild
from .schedule import ScheduleError, schedule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCHEMA = "gaptrace.inductor/1"
# Versions on which the counts were compared with programs that were really compiled.
TESTED = ("2.11", "2.13.0")
AUTO = "auto"


@dataclass(frozen=True)
class Variant:
    """A what-if and what came of it; `error` says why it does not apply."""

    name: str
    text: str
    places: int
    rebuilt: Rebuilt | None
    schedules: list[kernels.Schedule | None]
    error: str | None = None


@dataclass(frozen=True)
class Answer:
    """The step's graphs, their schedules (None: nothing left to schedule), and the what-ifs."""

    rebuilt: Rebuilt
    schedules: list[kernels.Schedule | None]
    what_ifs: list[Variant]

    @property
    def kernels(self) -> list[kernels.Kernel | kernels.Extern]:
        """All kernels of the step as it is, in launch order."""
        return [k for s in self.schedules if s is not None for k in s.kernels]


def predict(
    observed: ExecutionTrace,
    recording: Eager | None = None,
    *,
    step: str | None = None,
    region: str = RECORDED,
    what_if: Sequence[str] = (),
    recorded_torch: str | None = None,
    device: str = "auto",
) -> dict[str, Any]:
    """The `gaptrace.inductor/1` object for an execution trace.

    `recording` is the eager recording of the same run and gives eager durations, kernel counts of
    extern calls and the device. `step` is a pattern for the span to take, `region` which of its ops
    are compiled (`recorded`, `last-gemm`, `all`, or a pattern for a span). Each of `what_if` is
    scheduled beside the step as it is. `device` is `recorded`, `local` or `auto` (the local GPU
    where it is the recorded one).

    Raises:
        TraceError: the execution trace holds no such step.
        RebuildError, ScheduleError, StandinError: torch could not follow; the message says where.
    """
    began = time.perf_counter()
    chosen = pick_step(observed, step)
    links = link(recording, chosen) if recording is not None else NO_LINKS
    scheduled_for = _device(recording.device if recording is not None else None, device)
    stand_in = scheduled_for if scheduled_for["stand_ins"] else None
    with releases.deciding_as(recorded_torch):
        answer = _ask(chosen, region, what_if, stand_in)
    parts = result.step_kernels(answer.rebuilt, answer.schedules, links)
    return {
        "schema": SCHEMA,
        "torch": versions(torch.__version__, recorded_torch),
        "device": scheduled_for,
        "source": {
            "execution_trace": Path(observed.path).name,
            "trace": None if recording is None else recording.trace,
            "et_schema": observed.schema,
            "strides": observed.has_strides,
            "step": chosen.name,
            "step_rule": chosen.rule,
            "step_index": chosen.index,
            "steps": chosen.count,
            "linked_by": links.how,
        },
        "already": "compiled" if chosen.compiled else None,
        "region": _region_of(answer.rebuilt, region),
        "kernels": parts,
        "counts": result.counts(parts, links),
        "bytes": result.totals(parts),
        "doubts": doubts.find(chosen, answer.rebuilt, links, answer.kernels),
        "what_ifs": [_what_if(item, links) for item in answer.what_ifs],
        "ops": result.ops_table(answer.rebuilt, links),
        "seconds": round(time.perf_counter() - began, 1),
    }


def _ask(
    step: Step, region: str, what_if: Sequence[str], device: Mapping[str, Any] | None
) -> Answer:
    """What the installed Inductor schedules for `step`.

    `device` has the properties of a GPU to stand in for; None asks the GPU of this machine. The
    what-if `auto` stands for those that the step's doubts name.

    Raises:
        RebuildError, ScheduleError, StandinError: as `rebuild`, `schedule` and `standing_in` do.
    """
    with contextlib.ExitStack() as stack:
        if device is not None:
            stack.enter_context(standins.standing_in(device))
        rebuilt = rebuild(step, Region(region), mode := fake_mode())
        answer = Answer(rebuilt, _schedules(rebuilt, mode), [])
        names = [name for name in what_if if name != AUTO]
        if AUTO in what_if:
            names += [name for name in doubts.suggested(rebuilt) if name not in names]
        for name in names:
            answer.what_ifs.append(_variant(step, region, name))
    return answer


def _region_of(rebuilt: Rebuilt, rule: str) -> dict[str, Any]:
    """Which ops were compiled and which stayed eager, as JSON."""
    ops = [index for segment in rebuilt.segments for index in segment.ops]
    return {
        "rule": Region(rule).resolved(rebuilt.ops).rule,
        "ops": len(ops),
        "first": ops[0] if ops else None,
        "last": ops[-1] if ops else None,
        "segments": [
            {"ops": len(s.ops), "inputs": len(s.inputs), "outputs": len(s.outputs)}
            for s in rebuilt.segments
        ],
        "breaks": list(rebuilt.breaks),
        "outside": list(rebuilt.outside),
    }


def _variant(step: Step, region: str, name: str) -> Variant:
    rebuilt = rebuild(step, Region(region), mode := fake_mode())
    try:
        change = whatif.apply(name, rebuilt, mode)
        return Variant(change.name, change.text, change.places, rebuilt, _schedules(rebuilt, mode))
    except (whatif.WhatIfError, ScheduleError) as error:
        return Variant(name, "", 0, None, [], str(error))


def _schedules(rebuilt: Rebuilt, mode: Any) -> list[kernels.Schedule | None]:
    return [
        schedule(module_of(segment), make_inputs(segment, mode), mode, kernels.read)
        for segment in rebuilt.segments
    ]


def _device(recorded: Any, wanted: str) -> dict[str, Any]:
    """The properties to schedule for, where they are from, and whether a GPU is stood in for."""
    properties, source = standins.properties(recorded)
    local = standins.local_device()
    if wanted == "local" and local is None:
        raise standins.StandinError("--device local: torch sees no GPU on this machine")
    stand_in = wanted == "recorded" or local is None
    if wanted == "auto" and local is not None and recorded is not None:
        stand_in = local != properties["name"]
    if not stand_in:
        properties, source = {"name": local}, "this machine"
    return {**properties, "source": source, "stand_ins": stand_in}


def _what_if(item: Variant, links: Links) -> dict[str, Any]:
    if item.rebuilt is None:
        return {"name": item.name, "error": item.error}
    parts = result.step_kernels(item.rebuilt, item.schedules, links)
    return {
        "name": item.name,
        "text": item.text,
        "places": item.places,
        "kernels": parts,
        "counts": result.counts(parts, links),
        "bytes": result.totals(parts),
    }


def versions(used: str, recorded: str | None) -> dict[str, Any]:
    """The torch that scheduled, beside the one that recorded, and what to think of it."""
    short = used.split("+")[0]
    tested = any(short == v or short.startswith(f"{v}.") for v in TESTED)
    known = f"tested: {', '.join(TESTED)}"
    note = f"scheduled by torch {used}" + ("" if tested else f" (untested; {known})")
    if recorded is not None and recorded.split("+")[0] != short:
        note += f"; the step was recorded with {recorded}, whose compiler may count differently"
    as_recorded = [change.before for change in releases.undone(used, recorded)]
    if as_recorded:
        note += f"; decided as {recorded} does: {', '.join(as_recorded)}"
    return {
        "used": used,
        "recorded": recorded,
        "tested": tested,
        "tested_versions": list(TESTED),
        "decided_as_recorded": as_recorded,
        "note": note,
    }
