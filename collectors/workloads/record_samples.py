"""Record the workloads of this folder on the GPU at hand, in an order that a time budget respects.

    python record_samples.py OUT                       # everything
    python record_samples.py OUT --only dense_1b,hybrid --budget 600
    python record_samples.py OUT --agreement 5         # against a script without gaptrace
    python record_samples.py OUT --list

Leaves run folders under OUT and prints one table at the end. A recording that would not fit into
what is left of the budget is skipped and named.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOUR = "eager,compiled,graph,compiled-graph"
# A 64-layer step has thousands of kernels: few profiled steps, so that traces stay small.
BIG = "--warmup 5 --timed-steps 24 --steps 3 --issue-steps 5"
USUAL = "--warmup 10 --timed-steps 100 --steps 8"
BAD = "--warmup 8 --timed-steps 20 --steps 5 --issue-steps 4 --max-seconds 20"


@dataclass(frozen=True)
class Job:
    """One run folder; `seconds` is about what it takes on an H200 with 16 cores and cold caches."""

    name: str
    script: str
    words: str
    modes: str
    repeats: int
    options: str
    seconds: int


JOBS = [
    Job("dense_1b", "dense_decoder.py", "--size 1b", FOUR, 3, USUAL, 170),
    Job("hybrid", "hybrid.py", "", FOUR, 1, BIG, 320),
    Job("stacked_bf16", "stacked_cache.py", "", FOUR, 1, BIG, 170),
    Job("stacked_int4", "stacked_cache.py", "--int4", FOUR, 1, BIG, 170),
    Job("bad_recompile", "recompile_per_token.py", "", "eager,compiled", 1, BAD, 90),
    Job("bad_item", "item_per_step.py", "--layers 4", "eager,graph", 1, BAD, 25),
    Job("bad_sleeping", "sleeping_host.py", "--layers 4", "eager", 1, f"{BAD} --stacks", 25),
    Job("bad_growing", "growing_cache.py", "", "eager,graph", 1, BAD, 25),
    Job("hf_dynamic", "hf_generate.py", "--layers 4", "eager,graph", 1, BAD, 35),
    Job("hf_static", "hf_generate.py", "--layers 4 --cache static", "eager,graph", 1, BAD, 35),
    # For sample_traces: the whole hybrid's eager trace would not fit there.
    Job("hybrid_16", "hybrid.py", "--layers 16", FOUR, 1, BIG, 110),
    # Unseen by the predictions of compiled and captured steps, as hybrid and stacked are.
    Job("moe", "moe.py", "--layers 4", FOUR, 1, USUAL, 70),
    Job("dense_b16", "dense_decoder.py", "--size 1b --layers 4 --batch 16", FOUR, 1, USUAL, 60),
    Job("gpt2", "gpt2.py", "", FOUR, 1, USUAL, 80),
    Job("dense_8b", "dense_decoder.py", "--size 8b", FOUR, 1, USUAL, 120),
]


def collect(job: Job, out: Path) -> int:
    """Run the recorder for one job; its exit code."""
    command = [sys.executable, "-m", "gaptrace_collectors", "--force", "-o", str(out)]
    command += ["--name", job.name, "--modes", job.modes, "--repeats", str(job.repeats)]
    command += [*job.options.split(), str(HERE / job.script), *job.words.split()]
    path = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False).returncode


def independent(out: Path, number: int, rounds: int) -> None:
    """Time the 1 B decoder without gaptrace, to compare with afterwards."""
    command = [sys.executable, str(HERE / "independent_timing.py"), "--rounds", str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    out.mkdir(parents=True, exist_ok=True)
    (out / f"independent_{number}.json").write_text(done.stdout or "{}")
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)


def rows(out: Path) -> list[list[str]]:
    """One row for each recording under `out`."""
    table = []
    for path in sorted(out.glob("*/*/*/run.json")):
        run = json.loads(path.read_text())
        unprofiled, steady = run["unprofiled"] or {}, run["steadiness"] or {}
        median = unprofiled.get("median_ns")
        sequence = steady.get("launch_sequence") or {}
        profiled = (run["profiled"] or {}).get("host_ns") or [0]
        power = (run["power"] or {}).get("mean_power_w")
        failure = run["failure"] or {}
        trace = path.parent / "trace.json.gz"
        table.append(
            [
                f"{run['name']}/{run['mode']}/{run['repeat']}",
                run["status"] if median else failure.get("kind", run["status"]),
                f"{median / 1e6:.3f}" if median else "-",
                f"{run['step']['tokens'] * 1e9 / median:.1f}" if median else "-",
                f"{run['issue_ns'] / 1e6:.3f}" if run["issue_ns"] else "-",
                f"{sorted(profiled)[len(profiled) // 2] / 1e6:.3f}",
                str((sequence.get("counts") or ["-"])[0]),
                f"{power:.0f}" if power else "-",
                (run["outputs"] or {}).get("status") or "-",
                f"{trace.stat().st_size // 1000}" if trace.exists() else "-",
            ]
        )
    return table


def alternate(out: Path, rounds: int) -> None:
    """The 1 B decoder timed without gaptrace and with it, in turns, each in fresh processes."""
    short = "--warmup 10 --timed-steps 100 --steps 5 --issue-steps 5"
    for number in range(1, rounds + 1):
        job = Job(f"agreement_{number}", "dense_decoder.py", "--size 1b", FOUR, 1, short, 60)
        turns = [lambda n=number: independent(out, n, 2), lambda j=job: collect(j, out)]
        for turn in turns if number % 2 else reversed(turns):
            turn()


def agreement(out: Path) -> None:
    """How far the recorded 1 B decoder is from the independent timings around it."""
    timings = [json.loads(p.read_text()) for p in sorted(out.glob("independent_*.json"))]
    for mode in FOUR.split(","):
        there = [t["modes"][mode]["median_ms"] for t in timings if t]
        paths = [*out.glob(f"dense_1b/{mode}/*/run.json"), *out.glob(f"agree*/{mode}/*/run.json")]
        runs = [json.loads(p.read_text()) for p in paths]
        here = [r["unprofiled"]["median_ns"] / 1e6 for r in runs if r["unprofiled"]]
        if there and here:
            mine, other = sorted(here)[len(here) // 2], sorted(there)[len(there) // 2]
            print(
                f"agreement {mode}: {mine:.3f} ms recorded ({min(here):.3f} to {max(here):.3f}),"
                f" {other:.3f} ms independent ({min(there):.3f} to {max(there):.3f}),"
                f" {100 * (mine / other - 1):+.1f} %"
            )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds")
    parser.add_argument("--list", action="store_true")
    parser.add_argument(
        "--agreement", type=int, metavar="ROUNDS", help="alternate with no gaptrace"
    )
    parser.add_argument("--tiny", action="store_true", help="pass --tiny to each workload")
    args = parser.parse_args()
    if args.list:
        for job in JOBS:
            print(f"{job.name:<14} about {job.seconds:>4} s  {job.script} {job.words}")
        return
    if args.agreement:
        alternate(args.out, args.agreement)
        agreement(args.out)
        return
    chosen = [name for name in args.only.split(",") if name] or [job.name for job in JOBS]
    unknown = set(chosen) - {job.name for job in JOBS}
    if unknown:
        raise SystemExit(f"no recording is called {', '.join(sorted(unknown))}; see --list")
    began, took, skipped = time.monotonic(), {}, []
    for job in sorted((j for j in JOBS if j.name in chosen), key=lambda j: chosen.index(j.name)):
        start = time.monotonic()
        if start - began + job.seconds > args.budget:
            skipped.append(job.name)
            continue
        timed = job.name == "dense_1b" and not args.tiny
        if timed:
            independent(args.out, 1, 3)
        if args.tiny:
            job = Job(**{**vars(job), "words": f"{job.words} --tiny"})
        code = collect(job, args.out)
        if timed:
            independent(args.out, 2, 2)
        took[job.name] = f"{time.monotonic() - start:.0f} s" + (f", exit {code}" if code else "")
    head = ["recording", "status", "unprofiled ms", "tok/s", "issue ms", "profiled ms"]
    head += ["ops", "W", "outputs", "trace kB"]
    table = [head, *rows(args.out)]
    widths = [max(len(row[n]) for row in table) for n in range(len(head))]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
    agreement(args.out)
    print("took:", ", ".join(f"{name} {text}" for name, text in took.items()))
    if skipped:
        print("skipped for lack of time:", ", ".join(skipped))


if __name__ == "__main__":
    main()
