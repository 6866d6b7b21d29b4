"""Sweep folders made from the sample traces and drawings, as `gaptrace collect` would leave them.

    NAME/batch-1/eager/1/run.json ...    NAME/batch-8/eager/1/run.json ...

Times are round, so that a test can say what a table must hold: a step of batch b takes what the
mode takes at batch 1, times (1 + b / 100).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.builders import Event, events_json, graph_launch, kernel, launch, mark, op

SAMPLES = Path(__file__).parents[1] / "sample_traces"
SAMPLE_OF = {
    "eager": "eager",
    "compiled": "compiled",
    "graph": "graph",
    "compiled-graph": "graph",
    "reduce-overhead": "graph",
    "max-autotune": "graph",
}
# Unprofiled step times in ns at batch 0, and seconds until ready, cold and warm.
STEP_NS = {
    "eager": 4_000_000,
    "compiled": 2_000_000,
    "graph": 600_000,
    "compiled-graph": 500_000,
    "piecewise": 580_000,
    "max-autotune": 450_000,
}
READY_S = {
    "eager": (0.5, 0.5),
    "compiled": (20, 3),
    "graph": (1, 1),
    "compiled-graph": (21, 4),
    "piecewise": (24, 5),
    "max-autotune": (140, 6),
}
COMPILING = ("compiled", "compiled-graph", "piecewise", "max-autotune", "reduce-overhead")


def pieces_events(steps: int = 7, *, pieces: int = 5) -> list[Event]:
    """Steps of `pieces` replays with an attention kernel between any two, in round numbers.

    A piece is two kernels of 2,000 with 500 between them. From its end at 0: 1,000 of idle,
    attention for 3,000, 2,000 of idle, the next piece. So a seam is 6,000 long, 3,000 of it idle.
    """
    events: list[Event] = []
    corr, at = 1, 0
    for step in range(steps):
        begin, own = at, []
        ready = at + 4_000
        for piece in range(pieces):
            own += [
                graph_launch(at=ready - 1_500, dur=1_000, corr=corr),
                kernel("gemm", at=ready, dur=2_000, corr=corr, graph_id=7 + piece, node=1),
                kernel("gemm", at=ready + 2_500, dur=2_000, corr=corr, graph_id=7 + piece, node=2),
            ]
            end = ready + 4_500
            if piece + 1 < pieces:
                own += [
                    op("aten::scaled_dot_product_attention", at=end - 3_000, dur=3_500),
                    launch(at=end - 500, dur=500, corr=corr + 1),
                    kernel("flash_fwd_kernel", at=end + 1_000, dur=3_000, corr=corr + 1),
                ]
            ready, corr = end + 6_000, corr + 2
        at = ready
        events += [mark(f"gaptrace.step#{step}", at=begin, dur=at - begin), *own]
    return events


def make_sweep(
    parent: Path,
    name: str = "decoder",
    *,
    batches: Sequence[int | None] = (1, 8, 64),
    lengths: Sequence[int | None] = (None,),
    modes: Sequence[str] = tuple(STEP_NS),
    repeats: int = 2,
    failed: str | None = None,
) -> Path:
    """A sweep folder NAME/POINT/MODE/REPEAT; the mode `failed` has no trace at the last point."""
    points = [(batch, length) for length in lengths for batch in batches]
    for batch, length in points:
        place = parent / name / folder_name(batch, length)
        for mode in modes:
            for repeat in range(1, repeats + 1):
                cell = place / mode / str(repeat)
                cell.mkdir(parents=True)
                data = manifest(name, mode, repeat, repeats, batch, length)
                if mode == failed and (batch, length) == points[-1]:
                    data |= {
                        "status": "mode_failed",
                        "failure": {"reason": "out of memory"},
                        "files": {"trace": None, "execution_trace": None},
                        "unprofiled": None,
                    }
                else:
                    _trace(cell, mode)
                (cell / "run.json").write_text(json.dumps(data), encoding="utf-8")
    (parent / name / "inductor_cache").mkdir()
    (parent / name / "collect.json").write_text('{"schema": "gaptrace.collect/1"}')
    return parent / name


def folder_name(batch: int | None, length: int | None) -> str:
    """`batch-8-length-128`, or the part of it that is given."""
    parts = [("batch", batch), ("length", length)]
    return "-".join(f"{key}-{value}" for key, value in parts if value is not None)


def step_of(mode: str, batch: int | None, repeat: int = 1) -> int:
    """The unprofiled step time that a manifest says, in ns."""
    return STEP_NS[mode] * (100 + (batch or 0)) // 100 + 1_000 * (repeat - 1)


def _trace(cell: Path, mode: str) -> None:
    target = cell / "trace.json.gz"
    if mode == "piecewise":
        target = cell / "trace.json"
        target.write_bytes(events_json(*pieces_events()))
    else:
        shutil.copyfile(SAMPLES / f"small_decoder_{SAMPLE_OF[mode]}.json.gz", target)


def manifest(
    name: str, mode: str, repeat: int, repeats: int, batch: int | None, length: int | None
) -> dict[str, Any]:
    """A `gaptrace.run/1` manifest of one cell of a sweep."""
    step = step_of(mode, batch, repeat)
    ready = READY_S[mode][min(repeat, 2) - 1]
    cache = "none"
    if mode in COMPILING:
        cache = "cold" if repeat == 1 else "warm"
    data: dict[str, Any] = {
        "schema": "gaptrace.run/1",
        "name": name,
        "label": "small decoder",
        "mode": mode,
        "repeat": repeat,
        "repeats": repeats,
        "status": "ok",
        "failure": None,
        "point": {"batch": batch, "length": length} if batch or length else None,
        "files": {
            "trace": "trace.json" if mode == "piecewise" else "trace.json.gz",
            "execution_trace": None,
        },
        "step": {"tokens": batch or 1, "batch": batch or 1},
        "unprofiled": {"median_ns": step},
        "issue_ns": 3_000_000 if mode == "eager" else 30_000,
        "bytes": {"weights_read_per_step": 900_000_000, "kv_read_per_step": 10_000_000},
        "device": {
            "type": "cuda",
            "name": "NVIDIA H200",
            "copy_bandwidth_bytes_per_s": 4_000_000_000_000,
        },
        "versions": {"torch": "2.13.0"},
        "startup": {
            "ready_ns": int(ready * 1e9),
            "first_call_ns": int(ready * 1e9),
            "compile_seconds": ready / 2 if mode in COMPILING else None,
            "autotune_seconds": 100.0 if mode == "max-autotune" and repeat == 1 else None,
            "capture_ns": 2_000_000 if mode not in ("eager", "compiled") else None,
            "cache": cache,
        },
    }
    if mode == "max-autotune":
        kinds = ("cuBLAS", "Triton template", "Triton template")
        data["autotune"] = {
            "max_batch": None,
            "skipped": None,
            "seconds": 100.0 if repeat == 1 else 0.0,
            "choices": [
                {
                    "op": "mm",
                    "shapes": [[batch or 1, 2048], [2048, 2048 * (n + 1)]],
                    "dtype": "bfloat16",
                    "chosen": f"kernel_{n}",
                    "kind": kind,
                    "ns": 1_000.0 * (n + 1),
                    "best_extern_ns": 2_000.0 * (n + 1),
                    "candidates": 20,
                }
                for n, kind in enumerate(kinds)
            ],
            "templates": [{"prologue": [], "epilogue": ["silu"], "count": 1}],
            "note": None,
        }  # fmt: skip
    if mode == "piecewise":
        data["piecewise"] = {
            "split_at": ["scaled_dot_product_attention"],
            "seams": [],
            "pieces": 5,
            "captured": 5,
            "capture_ns": 2_000_000,
            "pool_bytes": 1_000_000,
            "copied_inputs": [],
            "copied_bytes": 0,
            "graphs": 1,
            "note": None,
        }
    return data
