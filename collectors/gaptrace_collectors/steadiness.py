"""Whether steps repeat: addresses and shapes of inputs, and the sequence of launches."""

from __future__ import annotations

import gzip
import itertools
import json
import os
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from gaptrace_collectors.failure import Evidence, RecorderError
from gaptrace_collectors.tensors import STATE, Placement, is_cache_name, snapshot

MARK = "gaptrace.step#"
_MOST_INPUTS = 64


@dataclass
class Observation:
    """Where each input was at each observed step.

    `state` is what to look through besides the call's arguments: the module, or the explicit step.
    """

    state: Any
    state_name: str
    steps: list[dict[str, Placement]] = field(default_factory=list)

    def note(self, named: dict[str, Any]) -> None:
        """Look at the inputs of the step about to run."""
        self.steps.append(snapshot(named, self.state, self.state_name))

    def caches(self) -> dict[str, Placement]:
        """KV caches and recurrent states at the last observed step, by path."""
        last = self.steps[-1] if self.steps else {}
        return {
            name: tensor
            for name, tensor in last.items()
            if len(tensor.shape) > 1 and is_cache_name(name)
        }

    def _tracks(self) -> dict[str, list[Placement]]:
        tracks: dict[str, list[Placement]] = {}
        for step in self.steps:
            for name, tensor in step.items():
                tracks.setdefault(name, []).append(tensor)
        return tracks

    def grew_state(self) -> list[Evidence]:
        """State tensors that changed shape *and* address, so that no graph can find them."""
        grew = []
        for name, track in self._tracks().items():
            first, last = track[0], track[-1]
            if (
                first.kind == STATE
                and len(track) > 1
                and first.shape != last.shape
                and first.address != last.address
            ):
                grew.append(Evidence(name, "", _movement(track)))
        return sorted(grew, key=lambda item: not is_cache_name(item.what))

    def moved_state(self) -> list[Evidence]:
        """State tensors that were found at another address at a later step."""
        return [
            Evidence(name, "", _movement(track))
            for name, track in self._tracks().items()
            if track[0].kind == STATE and len({tensor.address for tensor in track}) > 1
        ]

    def section(self) -> dict[str, Any]:
        """The address and shape part of run.json's `steadiness` section.

        Inputs that change come first; of the constant ones only as many as fit.
        """
        rows = []
        for name, track in self._tracks().items():
            moves = sum(a.address != b.address for a, b in itertools.pairwise(track))
            shapes = {place.shape for place in track}
            rows.append(
                {
                    "name": name,
                    "kind": track[0].kind,
                    "shape": "constant" if len(shapes) == 1 else "changing",
                    "address": "constant" if moves == 0 else "changing",
                    "shape_first": list(track[0].shape),
                    "shape_last": list(track[-1].shape),
                    "moves": moves,
                }
            )
        rows.sort(key=lambda row: (row["shape"] == "constant", row["address"] == "constant"))
        state = [row for row in rows if row["kind"] == STATE]
        return {
            "steps_observed": len(self.steps),
            "inputs": rows[:_MOST_INPUTS],
            "inputs_total": len(rows),
            "moved": [row["name"] for row in state if row["address"] == "changing"][:_MOST_INPUTS],
            "grew": [row["name"] for row in rows if row["shape"] == "changing"][:_MOST_INPUTS],
        }


def _movement(track: list[Placement]) -> str:
    first, last = track[0], track[-1]
    return (
        f"shape {list(first.shape)} at {first.address:#x} in the first observed step,"
        f" {list(last.shape)} at {last.address:#x} {len(track) - 1} steps later"
    )


def launch_sequence(trace_path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Whether complete marked steps launch the same things in the same order, and what they are.

    Compares kernel, copy and memset names of the ops launched between two marks (on a CPU-only
    trace: operator names), the open last step left out. The second part says what the trace shows
    of compiling and capturing.
    """
    with gzip.open(trace_path, "rb") as file:
        text = file.read().decode("utf-8", "replace")
    try:
        events = json.loads(text, strict=False)["traceEvents"]
    except ValueError as error:  # a full disk: the profiler does not say when it cannot write
        raise RecorderError(
            f"the profiler left no whole trace in {os.path.dirname(trace_path)}",
            "is there space left, there and where temporary files go (TMPDIR)?",
        ) from error
    marks: list[tuple[float, float]] = []
    launched: dict[int, float] = {}
    device: list[tuple[float, str, int]] = []
    operators: list[tuple[float, str]] = []
    seen: Counter[str] = Counter()
    for event in events:
        if event.get("ph") != "X":
            continue
        cat, name = event.get("cat"), str(event.get("name"))
        args = event.get("args") or {}
        if cat == "user_annotation" and name.startswith(MARK):
            marks.append((float(event["ts"]), float(event["ts"]) + float(event.get("dur", 0))))
        elif cat in ("kernel", "gpu_memcpy", "gpu_memset"):
            device.append((float(event["ts"]), name, int(args.get("correlation", 0))))
            seen["triton kernels"] += name.startswith("triton_")
        elif cat in ("cuda_runtime", "cuda_driver"):
            launched[int(args.get("correlation", 0))] = float(event["ts"])
            seen["graph launches"] += "GraphLaunch" in name
        elif cat == "cpu_op":
            operators.append((float(event["ts"]), name))
        if name.startswith(("Torch-Compiled Region", "## Call CompiledFxGraph")):
            seen["compiled regions"] += 1
    marks.sort()
    of = "device ops" if device else "operators"
    items = (
        [(launched.get(corr, ts), ts, name) for ts, name, corr in device]
        if device
        else [(ts, ts, name) for ts, name in operators]
    )
    sequences: list[list[str]] = []
    for (begin, _), (end, _) in itertools.pairwise(marks):
        inside = sorted((ts, name) for at, ts, name in items if begin <= at < end)
        sequences.append([name for _, name in inside])
    section = {
        "equal": None if len(sequences) < 2 else all(s == sequences[0] for s in sequences),
        "counts": [len(sequence) for sequence in sequences],
        "first_difference": _first_difference(sequences),
        "of": of,
    }
    return section, {name: count for name, count in seen.items() if count}


def _first_difference(sequences: list[list[str]]) -> dict[str, Any] | None:
    for step, sequence in enumerate(sequences[1:], start=1):
        if sequence == sequences[0]:
            continue
        at = next(
            (n for n, (a, b) in enumerate(zip(sequences[0], sequence, strict=False)) if a != b),
            min(len(sequence), len(sequences[0])),
        )
        names = [part[at] if at < len(part) else None for part in (sequences[0], sequence)]
        return {"step": step, "index": at, "first_step": names[0], "this_step": names[1]}
    return None
