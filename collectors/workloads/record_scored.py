"""Record the twelve models on which predicted kernel counts are scored: eager and compiled.

    python record_scored.py OUT                    # four at a time: counts are exact, times are not
    python record_scored.py OUT --lanes 1 --modes eager,compiled,graph,compiled-graph
    gaptrace predict OUT/qk_norm                   # what Inductor would make of it, and the score

Each leaves a run folder OUT/MODEL: an eager trace with its execution trace, and the compiled trace
as the truth. With several lanes the models share the GPU and the host, so score no step times then.
A model that would begin after the budget is over is skipped and named.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from scored_models import KINDS

HERE = Path(__file__).resolve().parent
QUICK = "--repeats 1 --warmup 5 --timed-steps 20 --steps 5 --issue-steps 3 --max-seconds 20"


@dataclass(frozen=True)
class Plan:
    """Where to, which modes, what to add to a model's arguments, and when to begin no more."""

    out: Path
    modes: str
    words: tuple[str, ...]
    ends: float


def record(name: str, plan: Plan) -> str:
    """Record one model; what came of it, in words."""
    began = time.monotonic()
    if began > plan.ends:
        return "skipped: the budget is over"
    command = [sys.executable, "-m", "gaptrace_collectors", "--force", "-o", str(plan.out)]
    command += ["--name", name, "--modes", plan.modes, *QUICK.split()]
    command += [str(HERE / "scored_models.py"), "--model", name, *plan.words]
    path = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    counts = ", ".join(f"{mode} {ops(plan.out / name / mode)}" for mode in plan.modes.split(","))
    failed = "" if done.returncode == 0 else f", exit {done.returncode}: {done.stderr[-300:]}"
    return f"{counts}, {time.monotonic() - began:.0f} s{failed}"


def ops(mode: Path) -> str:
    """GPU ops per step of a recorded mode (on a CPU: operators), or why there are none."""
    path = mode / "1" / "run.json"
    if not path.exists():
        return "not recorded"
    run = json.loads(path.read_text())
    sequence = (run["steadiness"] or {}).get("launch_sequence") or {}
    counts = sequence.get("counts")
    return f"{counts[0]} {sequence['of']}" if counts else (run["failure"] or run)["reason"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--modes", default="eager,compiled")
    parser.add_argument("--lanes", type=int, default=4, help="models recorded at the same time")
    parser.add_argument("--budget", type=float, default=240, help="seconds to begin models in")
    parser.add_argument("--tiny", action="store_true", help="try it out on a CPU")
    args = parser.parse_args()
    names = [name for name in args.only.split(",") if name] or list(KINDS)
    if unknown := set(names) - set(KINDS):
        raise SystemExit(f"no model is called {', '.join(sorted(unknown))}")
    words = ("--tiny", "--explicit") if args.tiny else ()
    began = time.monotonic()
    plan = Plan(args.out, args.modes, words, began + args.budget)
    with ThreadPoolExecutor(args.lanes) as lanes:
        for name, said in zip(names, lanes.map(lambda n: record(n, plan), names), strict=True):
            print(f"{name:<18} {said}", flush=True)
    print(f"took {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
