"""What a person is told at the end: each cell's step time or why it has none, and what next."""

from __future__ import annotations

import os
import shlex
import sys
from typing import Any

from gaptrace_collectors import folder as files
from gaptrace_collectors.status import say

# What helps, by kind of failure.
_ADVICE = {
    "no_device": "record it on a machine with a GPU",
    "moved_input": "a cache that stays in place can be captured: a static cache"
    ' (Hugging Face: cache_implementation="static"), updated in place',
    "changing_shape": "a static cache, or --buckets, which pads what grows",
    "sync": "take the call that waits out of the step, or record piecewise (--modes piecewise)",
    "capture_error": "record piecewise, which leaves operators out of the graphs (--split-at)",
    "compile_error": "TORCH_LOGS=graph_breaks,dynamo shows what the compiler met",
    "recompiles": "a static cache, or --buckets, which pads what grows",
    "outputs_differ": "what the step counts in Python is frozen by a capture: keep it in tensors",
    "overwritten_output": "--modes compiled-graph, or a cache that is updated in place",
    "captured_by_script": "--modes as-is records the script with its own graphs",
    "ranks_differ": "the ranks must make the same decode steps; record one of them by itself",
    "recorder_error": "please report it; define build() (collectors/README.md) to go around it",
}


def close(root: str, cells: list[dict[str, Any]], as_is_reason: str | None) -> None:
    """Say what was recorded, why only as-is where that is so, and what can be done now."""
    rows, runs = [], {}
    wide = max((len(cell["path"] or "") for cell in cells), default=0) + 2
    for cell in cells:
        if cell["path"]:
            runs[cell["path"]] = run = _run(root, cell)
            rows.append(_row(cell, run, wide))
    if not rows:
        return
    say("unprofiled step, median:")
    for row in rows:
        sys.stderr.write(row + "\n")
    if as_is_reason:
        say(f"as-is: {as_is_reason}")
    say(f"Wrote {root}")
    _advise(list(runs.values()))
    good = [cell for cell in cells if cell["status"] == "ok"]
    if good:
        _next(root, good, runs)


def _run(root: str, cell: dict[str, Any]) -> dict[str, Any]:
    """A cell's manifest; of several ranks that of the first."""
    folder = os.path.join(root, cell["path"])
    if cell["ranks"]:
        folder = os.path.join(folder, f"rank-{min(cell['ranks'])}")
    return files.read_json(os.path.join(folder, "run.json")) or {}


def _row(cell: dict[str, Any], run: dict[str, Any], wide: int) -> str:
    median = (run.get("unprofiled") or {}).get("median_ns")
    if not median or cell["status"] != "ok":
        return f"  {cell['path']:<{wide}} {cell['status']}: {cell['reason']}"
    rate = run["step"]["tokens"] * 1e9 / median
    ranks = f"  rank {min(cell['ranks'])} of {len(cell['ranks'])}" if cell["ranks"] else ""
    return f"  {cell['path']:<{wide}} {median / 1e6:9.3f} ms  {rate:10.1f} tok/s{ranks}"


def _advise(runs: list[dict[str, Any]]) -> None:
    """Each kind of failure once, with what helps."""
    modes: dict[str, list[str]] = {}
    for run in runs:
        kind = (run.get("failure") or {}).get("kind")
        if kind in _ADVICE:
            modes.setdefault(kind, []).append(run["mode"])
    for kind, failed in modes.items():
        say(f"hint: {', '.join(dict.fromkeys(failed))}: {_ADVICE[kind]}")


def _next(root: str, good: list[dict[str, Any]], runs: dict[str, dict[str, Any]]) -> None:
    say(f"next: gaptrace analyze {shlex.quote(root)}")
    accelerated = any(
        (runs[cell["path"]].get("device") or {}).get("type") not in (None, "cpu") for cell in good
    )
    if not accelerated:
        return
    points = {cell["path"].rsplit("/", 2)[0] for cell in good if cell["point"]}
    for one in sorted(points)[:1] or [""]:
        inside = [cell for cell in good if cell["path"].startswith(one)]
        where = shlex.quote(os.path.join(root, one).rstrip(os.sep))
        if len({cell["mode"] for cell in inside}) > 1:
            say(f"next: gaptrace compare {where}")
        failed = [run["mode"] for run in runs.values() if run.get("status") == "mode_failed"]
        if failed and any(cell["mode"] == "eager" for cell in inside):
            say(f"next: gaptrace predict {where}   # what {failed[0]} would give")
