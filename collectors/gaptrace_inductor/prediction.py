"""The whole prediction: from an execution trace and the eager kernels to `gaptrace.inductor/1`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from . import doubts, oracle, result, standins
from .eager import NO_LINKS, Eager, Links, link
from .execution_trace import ExecutionTrace, pick_step

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = "gaptrace.inductor/1"
# Versions on which the counts were compared with programs that were really compiled.
TESTED = ("2.11", "2.13.0")


def predict(
    observed: ExecutionTrace,
    recording: Eager | None = None,
    *,
    step: str | None = None,
    region: str = "last-gemm",
    what_if: Sequence[str] = (),
    recorded_torch: str | None = None,
    device: str = "auto",
) -> dict[str, Any]:
    """The `gaptrace.inductor/1` object for an execution trace.

    `recording` is the eager recording of the same run and gives eager durations, kernel counts of
    extern calls and the device. `step` is a pattern for the span to take, `region` which of its ops
    are compiled (`last-gemm`, `all`, or a pattern for a span). Each of `what_if` is scheduled
    beside the step as it is. `device` is `recorded`, `local` or `auto` (the local GPU where it is
    the recorded one).

    Raises:
        TraceError: the execution trace holds no such step.
        RebuildError, ScheduleError, StandinError: torch could not follow; the message says where.
    """
    began = time.perf_counter()
    chosen = pick_step(observed, step)
    links = link(recording, chosen) if recording is not None else NO_LINKS
    scheduled_for = _device(recording.device if recording is not None else None, device)
    stand_in = scheduled_for if scheduled_for["stand_ins"] else None
    answer = oracle.ask(chosen, region, what_if, stand_in)
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
        "region": oracle.region_of(answer.rebuilt, region),
        "kernels": parts,
        "counts": result.counts(parts, links),
        "bytes": result.totals(parts),
        "doubts": doubts.find(chosen, answer.rebuilt, links, answer.kernels),
        "what_ifs": [_what_if(item, links) for item in answer.what_ifs],
        "ops": result.ops_table(answer.rebuilt, links),
        "seconds": round(time.perf_counter() - began, 1),
    }


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


def _what_if(item: oracle.Variant, links: Links) -> dict[str, Any]:
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
    return {
        "used": used,
        "recorded": recorded,
        "tested": tested,
        "tested_versions": list(TESTED),
        "note": note,
    }
