"""`gaptrace predict`: what compiling and capturing would buy, and how right that was."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gaptrace.cli.given import given_of_paths, given_options, one_given
from gaptrace.cli.options import analysis_options, read_trace
from gaptrace.cli.output import check_files, deliver, output_options, write_file
from gaptrace.cli.progress import Progress
from gaptrace.errors import GaptraceError, OptionError
from gaptrace.runs.read import read_run

if TYPE_CHECKING:
    from gaptrace.cli.inductor_child import Question
    from gaptrace.results.prediction import PredictionResult
    from gaptrace.trace import Trace

Answer = Mapping[str, Any]


@click.command()
@click.argument("path")
@click.option(
    "--execution-trace",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Of the same run, by ExecutionTraceObserver; a run folder brings its own.",
)
@click.option(
    "--prediction",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Use this saved answer of Inductor (prediction.json); needs no torch.",
)
@click.option("--python", metavar="PATH", help="Python with torch that asks Inductor [this one].")
@click.option(
    "--what-if",
    multiple=True,
    metavar="CHANGE",
    help="Also schedule a changed step: unstack-cache, static-cache, batch=N, weight-dtype=D "
    "[those that the step asks for].",
)
@click.option("--region", metavar="WHAT", help="Compiled ops: last-gemm, all, or a span's name.")
@click.option("--shapes", is_flag=True, help="Do not ask Inductor: estimate from shapes.")
@click.option("--refresh", is_flag=True, help="Ask Inductor again although an answer is saved.")
@click.option(
    "--against",
    multiple=True,
    type=click.Path(exists=True),
    metavar="TRACE",
    help="Recordings of the same step in other modes, to score against.",
)
@click.option(
    "--batch",
    multiple=True,
    type=click.IntRange(1),
    metavar="N",
    help="Give savings at N sequences per step too [256].",
)
@analysis_options
@given_options
@output_options
def predict(path: str, **values: Any) -> int:  # fmt: skip
    """Say what compiling and capturing this decode step would buy, and how right that was.

    PATH is a run folder of `gaptrace collect` or an eager torch.profiler trace. With an execution
    trace and torch the installed Inductor schedules the step on fake tensors (nothing runs, no GPU
    is needed); the answer is saved in the run folder, so that it is asked once. Where other modes
    were recorded too, predicted and realised figures stand side by side.

    \b
    gaptrace predict runs/NAME
    gaptrace predict eager.json.gz --execution-trace eager.et.json.gz
    """
    check_files(values["out"])
    found = _of_run(path, values) if os.path.isdir(path) else _of_trace(path, values)
    from gaptrace.render.files import Report

    deliver([Report(found)], values)
    if found.best is None:
        click.echo(f"gaptrace: nothing can be predicted from {path}", err=True)
        return 2
    return 0


def _of_trace(path: str, values: dict[str, Any]) -> PredictionResult:
    from gaptrace.analysis import measured
    from gaptrace.predict import predict as predicted

    paths, cached = (path, *values["against"]), not values["no_cache"]
    analysis, *others = (
        measured(read_trace(one, use_cache=cached), options)
        for one, options in zip(paths, given_of_paths(paths, values), strict=True)
    )
    answer = _given(values)
    if answer is None and values["execution_trace"] and not values["shapes"]:
        question = _question(values, Path(values["execution_trace"]), analysis.trace, "")
        answer = _ask(question, values)
    _check_what_ifs(answer, values)
    return predicted(analysis, _options(values), answer=answer, others=others)


def _of_run(path: str, values: dict[str, Any]) -> PredictionResult:
    from gaptrace.predict import predict_run

    if values["against"]:
        raise OptionError("--against is for traces", "a run folder holds its own modes")
    answer = _given(values)
    if answer is None and not values["shapes"]:
        answer = _answer_of_run(path, values)
    _check_what_ifs(answer, values)
    options, cached = one_given(path, values), not values["no_cache"]
    with Progress() as line:
        run = read_run(path, options, use_cache=cached, watch=line.recording)
    return predict_run(run, _options(values), answer=answer)


def _check_what_ifs(answer: Answer | None, values: dict[str, Any]) -> None:
    """Refuse a what-if that nobody was asked."""
    if missing := [name for name in values["what_if"] if name not in _asked(answer or {})]:
        raise OptionError(
            f"--what-if {missing[0]} is not in the answer at hand",
            "it takes torch and an execution trace: `gaptrace predict RUN`, or --execution-trace",
        )


def _options(values: dict[str, Any]) -> Any:
    from gaptrace.predict import PredictOptions, Shapes

    # Who asks for a prediction gets one: without torch, or with --shapes, from shapes.
    return PredictOptions(values["batch"] or PredictOptions.batches, Shapes.ALWAYS)


def _given(values: dict[str, Any]) -> Answer | None:
    from gaptrace.predict.saved import read_answer

    return read_answer(values["prediction"]) if values["prediction"] else None


def _answer_of_run(path: str, values: dict[str, Any]) -> Answer | None:
    """The saved answer of a run's eager recording, or a new one that is saved; None without torch.

    A saved answer serves unless it was asked other things: another region, more what-ifs.
    """
    from gaptrace.predict.saved import NAME, read_answer
    from gaptrace.reading.runfolder import read_run_folder

    cells = [cell for cell in read_run_folder(path).of_mode("eager") if cell.trace_path]
    if not values["refresh"]:
        for cell in cells:
            if (cell.path / NAME).is_file():
                saved = read_answer(cell.path / NAME)
                if _serves(saved, values):
                    return saved
    for cell in cells:
        name = cell.manifest.files.execution_trace
        observed = values["execution_trace"] or (cell.path / str(name) if name else None)
        if observed is None or not Path(observed).is_file() or cell.trace_path is None:
            continue
        trace = read_trace(str(cell.trace_path), use_cache=not values["no_cache"])
        answer = _ask(
            _question(values, Path(observed), trace, cell.manifest.versions.torch or ""), values
        )
        if answer is not None:
            _save(answer, cell.path / NAME)
        return answer
    click.echo("gaptrace: no execution trace in this run: estimated from shapes", err=True)
    return None


def _serves(answer: Answer, values: dict[str, Any]) -> bool:
    region = (answer.get("region") or {}).get("rule")
    same = not values["region"] or values["region"] == region
    return same and _asked(answer).issuperset(values["what_if"])


def _asked(answer: Answer) -> set[str]:
    return {item["name"] for item in answer.get("what_ifs", ())}


def _question(values: dict[str, Any], observed: Path, trace: Trace, torch: str) -> Question:
    from gaptrace.cli.inductor_child import Question

    return Question(
        execution_trace=observed,
        trace=trace,
        what_if=(*values["what_if"], "auto"),
        region=values["region"] or "",
        step=values["step"] or "",
        recorded_torch=torch,
    )


def _ask(question: Question, values: dict[str, Any]) -> Answer | None:
    from gaptrace.cli.inductor_child import NoTorchError, ask

    try:
        with Progress() as line:
            return ask(question, values["python"], line.asking)
    except NoTorchError as error:
        if values["python"]:
            raise
        click.echo(f"gaptrace: {error.message}: estimated from shapes", err=True)
        click.echo(f"hint: {error.hint}", err=True)
        return None


def _save(answer: Answer, path: Path) -> None:
    """Save an answer beside its recording; a folder that cannot be written is no error."""
    try:
        write_file(str(path), json.dumps(answer, separators=(",", ":")) + "\n", force=True)
    except GaptraceError as error:
        click.echo(f"gaptrace: {error.message}", err=True)
