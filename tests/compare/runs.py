"""Run folders made of drawings: four modes of one step, with repeats and unprofiled times."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

from tests.builders import anchor, decode_events, events_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.builders import Event

MODES = ("eager", "compiled", "graph", "compiled-graph")
PLAIN = (
    "cublas_gemm",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, X>()",
    "mul_plain",
    "silu_plain",
)
# Compiled there is one kernel less, and a copy of the whole cache that costs more than it saves.
COMPILED = ("cublas_gemm", "triton_poi_fused_add_mul_silu_0", "triton_poi_fused_copy__1")
COMPILED_NS = (2_000, 2_500, 9_000)


def step_events(mode: str, *, slower_ns: int = 0) -> list[Event]:
    """Eight steps of a mode; `slower_ns` is added to every gap of plain launches."""
    compiled = mode.startswith("compiled")
    captured = mode.endswith("graph")
    names = COMPILED if compiled else PLAIN
    events = decode_events(
        steps=8,
        kernels=len(names),
        kernel_ns=9_000 if compiled else 2_000,
        gap_ns=500 if captured else 12_000 + slower_ns,
        op_ns=1_000,
        launch_ns=1_000,
        mode="graph" if captured else "eager",
    )
    for item in events:
        if item["cat"] == "kernel":
            place = int(item["name"].removeprefix("gemm_"))
            item["name"] = names[place]
            item["dur"] = COMPILED_NS[place] if compiled else 2_000
    return events


def manifest(mode: str, repeat: int, *, step_ns: int, **over: Any) -> dict[str, Any]:
    """A manifest with what a comparison reads."""
    samples = [step_ns + offset for offset in (-3, -2, -1, 0, 0, 1, 2, 3)]
    body: dict[str, Any] = {
        "schema": "gaptrace.run/1",
        "name": "drawn",
        "label": "drawn decoder",
        "mode": mode,
        "repeat": repeat,
        "status": "ok",
        "failure": None,
        "files": {"trace": "trace.json.gz", "execution_trace": None},
        "step": {"tokens": 1, "batch": 1},
        "unprofiled": {
            "median_ns": step_ns,
            "clock": "device_events",
            "before": {"device_ns": samples, "host_ns": None},
            "after": {"device_ns": samples, "host_ns": None},
        },
        "issue_ns": step_ns // 2,
        "issue": {"scope": "step", "samples_ns": [value // 2 for value in samples]},
        "profiled": {"shapes": mode == "eager", "stacks": False},
        "bytes": {"parameters": {"bfloat16": 1_000_000}, "weights_total": 1_000_000},
        "memory": {"peak_allocated": 3_000_000},
        "device": {"type": "cuda", "name": "NVIDIA H200"},
        "versions": {"torch": "2.11.0"},
    }
    return {**body, **over}


def write_run(
    folder: Path,
    *,
    modes: Sequence[str] = MODES,
    repeats: int = 3,
    slower_ns: int = 0,
    failed: Sequence[str] = (),
    **over: Any,
) -> Path:
    """A run folder; runs of a mode differ by a few nanoseconds. `over` replaces manifest fields."""
    for mode in (*modes, *failed):
        step = {"eager": 60_000, "compiled": 45_000, "graph": 21_000, "compiled-graph": 27_000}[
            mode
        ]
        for repeat in range(1, repeats + 1):
            place = folder / mode / str(repeat)
            place.mkdir(parents=True)
            time = step + 7 * repeat + (4 * slower_ns if not mode.endswith("graph") else 0)
            body = manifest(mode, repeat, step_ns=time, **over)
            if mode in failed:
                body |= {
                    "status": "mode_failed",
                    "failure": {"kind": "sync", "reason": "the step synchronizes", "evidence": []},
                    "files": {"trace": None},
                }
            else:
                events = step_events(mode, slower_ns=slower_ns)
                with gzip.open(place / "trace.json.gz", "wb") as file:
                    file.write(events_json(anchor(), *events))
            (place / "run.json").write_text(json.dumps(body), encoding="utf-8")
    return folder
