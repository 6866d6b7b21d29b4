"""Cut a recorded trace to its last steps and to what analysis reads, so that it can live in a repo.

    python trim_trace.py RUNS/hybrid/eager/1 sample_traces/hybrid_eager --steps 3

Copies a cell's files; in the trace it keeps the last STEPS complete steps and the open one behind
them (whose operators the execution trace names), with every event that those steps launched. The
durations and times of what is kept are not touched. What was dropped stands in the trace's own
`gaptrace_trimmed` entry.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
from pathlib import Path

MARK = "gaptrace.step#"
# Occupancy and register counts: a fifth of a trace of small kernels, and read by nothing here.
UNREAD = (
    "queued",
    "context",
    "registers per thread",
    "shared memory",
    "blocks per SM",
    "warps per SM",
    "est. achieved occupancy %",
    "Ev Idx",
)
SHAPES = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")


def trimmed(trace: dict, steps: int, *, shapes: bool) -> dict:
    """The trace with its last `steps` complete steps and the open one."""
    events = trace["traceEvents"]
    spans = [event for event in events if event.get("ph") == "X"]
    marks = sorted(
        float(event["ts"])
        for event in spans
        if event.get("cat") == "user_annotation" and str(event["name"]).startswith(MARK)
    )
    if len(marks) < steps + 1:
        raise SystemExit(f"the trace has {len(marks)} marks, {steps + 1} are needed")
    begin = marks[-steps - 1]
    gone = {
        event["args"]["correlation"]
        for event in spans
        if event.get("cat") in ("cuda_runtime", "cuda_driver") and float(event["ts"]) < begin
    }
    device = ("kernel", "gpu_memcpy", "gpu_memset")
    kept = []
    for event in events:
        args = event.get("args") or {}
        if event.get("ph") in ("s", "f", "t"):
            continue  # flow arrows: correlation says the same
        if event.get("ph") == "X" and event.get("cat") != "Trace":
            if event.get("cat") in device:
                if args.get("correlation") in gone:
                    continue
            elif float(event["ts"]) < begin:
                continue
        drop = UNREAD + (() if shapes else SHAPES)
        if args:
            event = {**event, "args": {k: v for k, v in args.items() if k not in drop}}
        kept.append(event)
    note = {"steps": steps, "events_before": len(events), "events_after": len(kept)}
    return {**trace, "gaptrace_trimmed": note, "traceEvents": kept}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("cell", type=Path, help="RUNS/NAME/MODE/REPEAT")
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--no-shapes", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for path in args.cell.glob("*.json*"):
        if path.name != "trace.json.gz":
            shutil.copy(path, args.out / path.name)
    source = args.cell / "trace.json.gz"
    if not source.exists():
        return
    with gzip.open(source) as file:
        trace = json.load(file)
    text = json.dumps(
        trimmed(trace, args.steps, shapes=not args.no_shapes), separators=(",", ":")
    ).encode()
    # Time stamp 0: the same input gives the same bytes.
    (args.out / "trace.json.gz").write_bytes(gzip.compress(text, 9, mtime=0))
    before, after = source.stat().st_size, (args.out / "trace.json.gz").stat().st_size
    print(f"{args.out}: {before // 1000} kB -> {after // 1000} kB")


if __name__ == "__main__":
    main()
