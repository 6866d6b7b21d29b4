"""`gaptrace analyze`: where a token's time goes, and whether the trace can be trusted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from gaptrace.cli.gating import analyze_gates, finish_analyze, gate_options, no_gates_on
from gaptrace.cli.options import (
    analysis_options,
    options_from,
    read_trace,
)
from gaptrace.cli.output import (
    Result,
    check_kinds,
    json_text,
    output_options,
    wants_color,
    write,
)
from gaptrace.runs.read import read_points, read_run

if TYPE_CHECKING:
    from gaptrace.measure.options import Options


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@analysis_options
@output_options
@gate_options
@click.option("--redact", is_flag=True, help="Leave paths, arguments and hosts out of files.")
@click.option("--strict", is_flag=True, help="Exit with 2 unless every trace is ok.")
def analyze(paths: tuple[str, ...], **values: Any) -> int:
    """Say where a token's time goes, and whether the trace can be trusted.

    PATH is a torch.profiler trace (.json, .json.gz), a run folder of `gaptrace collect`, or - for
    standard input; a sweep (one run folder for each batch size or length) becomes one table. The
    first line is the answer; then what to know about the trace, the step in
    numbers, its idle time by cause, the ceilings, the findings and the largest gaps. A run folder
    with several modes shows them side by side.
    """
    check_kinds(values["out"])
    analyze_gates(values)  # A misspelt gate is refused before any work is done.
    no_gates_on([path for path in paths if _is_sweep(path)], values)
    options = options_from(values)
    results = [_result(path, options, use_cache=not values["no_cache"]) for path in paths]
    if values["json_"]:
        body = json_text(results)
    else:
        body = "\n\n".join(_text(result, color=wants_color(values["color"])) for result in results)
    write(body, values["out"], results, force=values["force"], redact=values["redact"])
    return finish_analyze(results, values)


def _result(path: str, options: Options, *, use_cache: bool) -> Result:
    from gaptrace.measure.analyze import analyze as run

    if path == "-" or not os.path.isdir(path):
        folder = os.path.dirname(path)
        if os.path.isfile(os.path.join(folder, "run.json")):
            beside = f"`gaptrace analyze {folder or '.'}` reads the run.json beside it, too"
            click.echo(f"hint: {path} is part of a recording: {beside}", err=True)
        return run(read_trace(path, use_cache=use_cache), options)
    if _is_sweep(path):
        return read_points(path, options, use_cache=use_cache)
    whole = read_run(path, options, use_cache=use_cache)
    only = whole.cells[0]
    alone = len(whole.cells) == 1 and not whole.missing
    return only.analysis if alone and only.analysis is not None else whole


def _is_sweep(path: str) -> bool:
    from gaptrace.reading.runfolder import is_sweep

    return path != "-" and is_sweep(path)


def _text(result: Result, *, color: bool) -> str:
    from gaptrace.report.run_text import run_report
    from gaptrace.report.sweep_text import sweep_report
    from gaptrace.report.text import text_report
    from gaptrace.runs.run import RunAnalysis
    from gaptrace.results.run import SweepResult

    if isinstance(result, SweepResult):
        return sweep_report(result, color=color)
    if isinstance(result, RunAnalysis):
        return run_report(result, color=color)
    return text_report(result, color=color)
