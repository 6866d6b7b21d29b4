"""Predicts what `torch.compile` would make of a recorded eager step, by asking Inductor itself.

    python -m gaptrace_inductor step.et.json.gz --eager eager.json -o inductor.json

This is the child process of `gaptrace predict`; it needs torch and the standard library. The
step's graph is rebuilt from an execution trace (`torch.profiler.ExecutionTraceObserver`), the
installed Inductor schedules it on fake tensors (nothing runs, no GPU is needed), and one JSON
object `gaptrace.inductor/1` says which kernels there would be. How it works, what the object holds
and where it is wrong: README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gaptrace_inductor import eager, execution_trace

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; the exit status is 0, or 2 with one line that says what is wrong."""
    options = _parser().parse_args(argv)
    # A what-if that does not fit is an answer, not a fault to be logged with a stack.
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    try:
        observed = execution_trace.read(options.execution_trace)
        recording = eager.read(options.eager) if options.eager else None
        from gaptrace_inductor import prediction, rebuild, schedule, standins
    except (execution_trace.TraceError, ImportError) as error:
        _say(f"error: {error}")
        if isinstance(error, ImportError):
            _say("hint: pip install 'torch-gaptrace[predict]'")
        return 2
    try:
        answer = prediction.predict(
            observed,
            recording,
            step=options.step,
            region=options.region,
            what_if=options.what_if,
            recorded_torch=options.recorded_torch,
            device=options.device,
        )
    except (
        execution_trace.TraceError,
        rebuild.RebuildError,
        schedule.ScheduleError,
        standins.StandinError,
    ) as error:
        _say(f"error: {error}")
        return 2
    text = json.dumps(answer, separators=(",", ":")) + "\n"
    if options.output is None:
        sys.stdout.write(text)
    else:
        Path(options.output).write_text(text, encoding="utf-8")
        _say(f"wrote {options.output}")
    return 0


def _say(text: str) -> None:
    sys.stderr.write(f"gaptrace_inductor: {text}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gaptrace_inductor",
        description="Predict the kernels of a compiled step from an eager execution trace.",
    )
    parser.add_argument("execution_trace", help="execution trace of one eager step, .json or .gz")
    parser.add_argument(
        "--eager",
        metavar="FILE",
        help="gaptrace.eager/1 object of the same run: durations, device, kernels of each op",
    )
    parser.add_argument("-o", "--output", help="file to write; standard output without it")
    parser.add_argument("--step", help="pattern for the span that is one step")
    parser.add_argument(
        "--region",
        default="recorded",
        help="compiled ops: recorded (default: the span that `gaptrace collect` marks, without one "
        "last-gemm), last-gemm, all, or a pattern for a span inside the step",
    )
    parser.add_argument(
        "--what-if",
        action="append",
        default=[],
        metavar="CHANGE",
        help="also schedule a changed step: unstack-cache, static-cache, batch=N, weight-dtype=D, "
        "or auto: those that the doubts name",
    )
    parser.add_argument("--recorded-torch", help="torch version of the recording, if known")
    parser.add_argument(
        "--device",
        choices=("auto", "recorded", "local"),
        default="auto",
        help="whose properties to schedule for (default: the local GPU if it is the recorded one)",
    )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
