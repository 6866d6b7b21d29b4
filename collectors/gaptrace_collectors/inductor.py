"""Predicts what `torch.compile` would make of a recorded eager step, by asking Inductor itself.

    python -m gaptrace_collectors.inductor step.et.json.gz --trace step.json.gz -o inductor.json

The step's graph is rebuilt from an execution trace (`torch.profiler.ExecutionTraceObserver`), the
installed Inductor schedules it on fake tensors (nothing runs, no GPU is needed), and one JSON
object `gaptrace.inductor/1` says which kernels there would be. How it works, what the object holds
and where it is wrong: `gaptrace_collectors/oracle/README.md`.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaptrace_inductor import execution_trace, kineto

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = "gaptrace.inductor/1"
# Versions on which the counts were compared with programs that were really compiled.
TESTED = ("2.11", "2.13.0")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; the exit status is 0, or 2 with one line that says what is wrong."""
    options = _parser().parse_args(argv)
    # A what-if that does not fit is an answer, not a fault to be logged with a stack.
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    try:
        result = predict(
            options.execution_trace,
            trace=options.trace,
            step=options.step,
            region=options.region,
            what_if=options.what_if,
            recorded_torch=options.recorded_torch,
            device=options.device,
        )
    except execution_trace.TraceError as error:
        _say(f"error: {error}")
        return 2
    except ImportError as error:
        _say(f"error: {error}")
        _say("hint: pip install 'torch-gaptrace[predict]'")
        return 2
    except _errors() as error:
        _say(f"error: {error}")
        return 2
    text = json.dumps(result, separators=(",", ":")) + "\n"
    if options.output is None:
        sys.stdout.write(text)
    else:
        Path(options.output).write_text(text, encoding="utf-8")
        _say(f"wrote {options.output}")
    return 0


def predict(
    path: str | Path,
    *,
    trace: str | Path | None = None,
    step: str | None = None,
    region: str = "last-gemm",
    what_if: Sequence[str] = (),
    recorded_torch: str | None = None,
    device: str = "auto",
) -> dict[str, Any]:
    """The `gaptrace.inductor/1` object for the execution trace at `path`.

    `trace` is a Kineto trace of the same run and gives eager durations, kernel counts of extern
    calls and the device. `step` is a pattern for the span to take, `region` which of its ops are
    compiled (`last-gemm`, `all`, or a pattern for a span). Each of `what_if` is scheduled beside
    the step as it is. `device` is `recorded`, `local` or `auto` (the local GPU where it is the
    recorded one).

    Raises:
        TraceError: a file cannot be used.
        RebuildError, ScheduleError, StandinError: torch could not follow; the message says where.
    """
    began = time.perf_counter()
    recording = kineto.read(trace) if trace is not None else None
    observed = execution_trace.read(path)
    chosen = execution_trace.pick_step(observed, step)
    links = kineto.link(recording, chosen) if recording is not None else kineto.NO_LINKS

    import torch

    from gaptrace_inductor import doubts, oracle, result, standins

    recorded_device = recording.device if recording is not None else None
    properties, source = standins.properties(recorded_device)
    local = standins.local_device()
    if device == "local" and local is None:
        raise standins.StandinError("--device local: torch sees no GPU on this machine")
    stand_in = device == "recorded" or local is None
    if device == "auto" and local is not None and recorded_device is not None:
        stand_in = local != properties["name"]
    if not stand_in:
        properties, source = {"name": local}, "this machine"
    found = oracle.ask(chosen, region, what_if, properties if stand_in else None)
    parts = result.step_kernels(found.rebuilt, found.schedules, links)
    answer: dict[str, Any] = {
        "schema": SCHEMA,
        "torch": _versions(torch.__version__, recorded_torch),
        "device": {**properties, "source": source, "stand_ins": stand_in},
        "source": {
            "execution_trace": Path(path).name,
            "trace": None if trace is None else Path(trace).name,
            "et_schema": observed.schema,
            "strides": observed.has_strides,
            "step": chosen.name,
            "step_rule": chosen.rule,
            "step_index": chosen.index,
            "steps": chosen.count,
            "linked_by": links.how,
        },
        "already": "compiled" if chosen.compiled else None,
        "region": oracle.region_of(found.rebuilt, region),
        "kernels": parts,
        "counts": result.counts(parts, links),
        "bytes": result.totals(parts),
        "doubts": doubts.find(chosen, found.rebuilt, links, found.kernels),
        "what_ifs": [_what_if(item, links) for item in found.what_ifs],
        "ops": result.ops_table(found.rebuilt, links),
    }
    answer["seconds"] = round(time.perf_counter() - began, 1)
    return answer


def _what_if(item: Any, links: kineto.Links) -> dict[str, Any]:
    from gaptrace_inductor import result

    if item.error is not None:
        return {"name": item.name, "error": item.error}
    parts = result.step_kernels(item.rebuilt, item.schedules, links)
    return {
        "name": item.name,
        "text": item.text,
        "places": item.places,
        "kernels": parts,
        "counts": result.counts(parts, links),
        "bytes": result.totals(parts),
    }


def _versions(used: str, recorded: str | None) -> dict[str, Any]:
    short = used.split("+")[0]
    tested = any(short == v or short.startswith(f"{v}.") for v in TESTED)
    known = f"tested: {', '.join(TESTED)}"
    note = f"scheduled by torch {used}" + ("" if tested else f" (untested; {known})")
    if recorded is not None and recorded.split("+")[0] != short:
        note += f"; the step was recorded with {recorded}, whose compiler may count differently"
    return {
        "used": used,
        "recorded": recorded,
        "tested": tested,
        "tested_versions": list(TESTED),
        "note": note,
    }


def _say(text: str) -> None:
    sys.stderr.write(f"gaptrace_collectors.inductor: {text}\n")


def _errors() -> tuple[type[BaseException], ...]:
    from gaptrace_inductor import rebuild, schedule, standins

    return (rebuild.RebuildError, schedule.ScheduleError, standins.StandinError)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gaptrace_collectors.inductor",
        description="Predict the kernels of a compiled step from an eager execution trace.",
    )
    parser.add_argument("execution_trace", help="execution trace of one eager step, .json or .gz")
    parser.add_argument("--trace", help="Kineto trace of the same run: durations, device, links")
    parser.add_argument("-o", "--output", help="file to write; standard output without it")
    parser.add_argument("--step", help="pattern for the span that is one step")
    parser.add_argument(
        "--region",
        default="last-gemm",
        help="compiled ops: last-gemm (default), all, or a pattern for a span inside the step",
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
