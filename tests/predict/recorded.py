"""The two recorded models, their saved answers of Inductor, and what was measured on the GPU."""

from __future__ import annotations

import gzip
import json
import shutil
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaptrace.analysis import analyze
from gaptrace.reading.loading import load

if TYPE_CHECKING:
    from gaptrace.measure.result import Analysis

DATA = Path(__file__).parents[1] / "data"
MODELS = ("gpt2_4", "llama4")
# H200, torch 2.11: unprofiled steps and busy times in ns, kernels. The saved answer for llama4 is
# torch 2.13's own: two kernels less, since a batched matmul with K = 1 becomes a multiply there.
TRUE: dict[str, dict[str, int]] = {
    "llama4": {
        "eager": 5_570_000,
        "graph": 667_000,
        "compiled-graph": 404_000,
        "busy": 366_000,
        "kernels": 81,
        "generated": 42,
    },
    "gpt2_4": {
        "eager": 4_000_000,
        "graph": 392_000,
        "compiled-graph": 255_000,
        "busy": 224_000,
        "kernels": 54,
        "generated": 28,
    },
}
MISSED = {"llama4": (2, 1), "gpt2_4": (0, 0)}


def trace_path(model: str) -> Path:
    return DATA / f"{model}_eager.json.gz"


def answer_path(model: str) -> Path:
    return DATA / f"{model}.inductor.json.gz"


@lru_cache(maxsize=2)
def eager(model: str) -> Analysis:
    return analyze(load(trace_path(model)))


def answer(model: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(answer_path(model).read_bytes()))
    return found


def manifest(model: str, mode: str, **over: Any) -> dict[str, Any]:
    body: dict[str, Any] = {
        "schema": "gaptrace.run/1",
        "name": model,
        "label": model,
        "mode": mode,
        "repeat": 1,
        "status": "ok",
        "failure": None,
        "files": {"trace": "trace.json.gz", "execution_trace": "execution_trace.json.gz"},
        "step": {"tokens": 1, "batch": 1},
        "unprofiled": {"median_ns": TRUE[model]["eager"]},
        "device": {"type": "cuda", "name": "NVIDIA H200"},
        "versions": {"torch": "2.11.0"},
    }
    return {**body, **over}


def eager_run(folder: Path, model: str, **over: Any) -> Path:
    """A run folder with the eager mode of a recorded model."""
    place = folder / model / "eager" / "1"
    place.mkdir(parents=True)
    shutil.copy(trace_path(model), place / "trace.json.gz")
    shutil.copy(DATA / f"{model}_eager.et.json.gz", place / "execution_trace.json.gz")
    (place / "run.json").write_text(json.dumps(manifest(model, "eager", **over)))
    return folder / model


def failed_mode(run: Path, model: str, mode: str, failure: dict[str, Any]) -> None:
    place = run / mode / "1"
    place.mkdir(parents=True)
    body = manifest(model, mode, status="mode_failed", failure=failure, files={"trace": None})
    (place / "run.json").write_text(json.dumps(body))
