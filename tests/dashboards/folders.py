"""Run folders made from the sample traces, as `gaptrace collect` would have left them."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

from tests.builders import events_json

SAMPLES = Path(__file__).parents[2] / "sample_traces"
DATA = Path(__file__).parents[1] / "data"
MODES = {
    "eager": SAMPLES / "small_decoder_eager.json.gz",
    "compiled": SAMPLES / "small_decoder_compiled.json.gz",
    "graph": SAMPLES / "small_decoder_graph.json.gz",
}
# The samples that tests name; the folder may hold more.
BARE = tuple(MODES.values())
# Unprofiled step times in ns, for each mode: rounder than a real recording's.
STEP_NS = {"eager": 3_000_000, "compiled": 1_500_000, "graph": 500_000}


def make_run(
    parent: Path, name: str = "demo", *, repeats: int = 1, failed: str | None = None
) -> Path:
    """A run folder NAME/MODE/REPEAT of the three sample modes; `failed` has no trace."""
    for mode, sample in MODES.items():
        for repeat in range(1, repeats + 1):
            cell = parent / name / mode / str(repeat)
            cell.mkdir(parents=True)
            shutil.copyfile(sample, cell / "trace.json.gz")
            step = STEP_NS[mode] + 1_000 * repeat
            _write(cell / "run.json", manifest(name, mode, repeat, repeats, step))
    if failed is not None:
        cell = parent / name / failed / "1"
        cell.mkdir(parents=True)
        broken = manifest(name, failed, 1, repeats, None)
        broken |= {
            "status": "mode_failed",
            "failure": {"reason": "capture was refused: the step synchronizes"},
            "files": {"trace": None, "execution_trace": None},
        }
        _write(cell / "run.json", broken)
    return parent / name


def manifest(
    name: str, mode: str, repeat: int, repeats: int, step_ns: int | None
) -> dict[str, Any]:
    """A `gaptrace.run/1` manifest with power samples and what compilation did."""
    return {
        "schema": "gaptrace.run/1",
        "name": name,
        "label": "small decoder",
        "mode": mode,
        "repeat": repeat,
        "repeats": repeats,
        "status": "ok",
        "failure": None,
        "created": "2026-11-29T17:14:29+00:00",
        "files": {"trace": "trace.json.gz", "execution_trace": None},
        "step": {"tokens": 1, "batch": 1},
        "unprofiled": {"median_ns": step_ns},
        "issue_ns": None if step_ns is None else step_ns - 100_000,
        "device": {"type": "cuda", "name": "NVIDIA H200"},
        "power": {
            "mean_power_w": 210.0,
            "limits": {"power_mw": 700_000, "sm_mhz_max": 1980},
            "samples": [
                {"phase": "timed_before", "power_mw": 210_000, "sm_mhz": 1980, "temperature_c": 41}
            ],
        },
        "versions": {"torch": "2.13.0"},
        "compile": {
            "requested": mode == "compiled",
            "seconds": 2.5,
            "unique_graphs": 1,
            "recompiles": [
                {"step": 2, "phase": "warmup", "function": "forward", "guard": "size of x changed"}
            ],
            "recompile_count": 1,
            "recompiles_while_measured": 0,
            "graph_breaks": [{"reason": "call to print", "place": "model.py:12", "count": 1}],
            "inductor": {"generated_kernels": 27},
        },
    }


def add_prediction(cell: Path) -> None:
    """Put the saved prediction of another model beside a cell's manifest."""
    data = gzip.decompress((DATA / "llama4.inductor.json.gz").read_bytes())
    (cell / "prediction.json").write_bytes(data)


def write_trace(path: Path, *events: dict[str, Any]) -> Path:
    """A trace file of hand-written events."""
    path.write_bytes(events_json(*events))
    return path


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
