"""`gaptrace analyze`: where a token's time goes, and whether the trace can be trusted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from gaptrace.cli.gating import analyze_gates, finish_analyze, gate_options, no_gates_on
from gaptrace.cli.given import given_of_paths, given_options
from gaptrace.cli.options import analysis_options, read_trace, times_option
from gaptrace.cli.output import check_files, deliver, output_options, report_of
from gaptrace.cli.progress import Progress
from gaptrace.errors import OptionError

if TYPE_CHECKING:
    from gaptrace.cli.output import Analyzed
    from gaptrace.measure.options import Options


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@analysis_options
@times_option
@given_options
@output_options
@gate_options
@click.option("--strict", is_flag=True, help="Exit with 2 unless every trace is ok.")
def analyze(paths: tuple[str, ...], **values: Any) -> int:
    """Show where a token's time goes, and whether the trace can be trusted.

    PATH is a torch.profiler trace (.json, .json.gz), a run folder of `gaptrace collect`, or - for
    standard input; a sweep (one run folder for each batch size or length) becomes one table. One
    screen: the answer, whether to trust it, where the time goes, three findings, what to do next.
    With --full all of it. A run folder with several modes shows them side by side.
    """
    check_files(values["out"])
    gates = analyze_gates(values)  # A misspelt gate is refused before any work is done.
    no_gates_on([path for path in paths if _is_sweep(path)], values["fail_on"], gates)
    chosen = given_of_paths(paths, values)
    times = values["times_from"]
    if times and (len(paths) > 1 or os.path.isdir(paths[0])):
        raise OptionError(
            "--times-from is for one trace file", "a run folder names its light recording by itself"
        )
    analyzed = [
        _analyzed(path, options, use_cache=not values["no_cache"], times_from=times)
        for path, options in zip(paths, chosen, strict=True)
    ]
    deliver([report_of(item) for item in analyzed], values)
    return finish_analyze(analyzed, gates, values)


def _analyzed(path: str, options: Options, *, use_cache: bool, times_from: str | None) -> Analyzed:
    from gaptrace.analysis import analyze as run
    from gaptrace.runs.read import read_points, read_run

    if path == "-" or not os.path.isdir(path):
        folder = os.path.dirname(path)
        if os.path.isfile(os.path.join(folder, "run.json")):
            beside = f"`gaptrace analyze {folder or '.'}` reads the run.json beside it, too"
            click.echo(f"hint: {path} is part of a recording: {beside}", err=True)
        trace = read_trace(path, use_cache=use_cache, times_from=times_from, options=options)
        return run(trace, options)
    if _is_sweep(path):
        with Progress() as line:
            return read_points(path, options, use_cache=use_cache, watch=line.recording)
    with Progress() as line:
        whole = read_run(path, options, use_cache=use_cache, watch=line.recording)
    return whole.alone or whole


def _is_sweep(path: str) -> bool:
    from gaptrace.reading.runfolder import is_sweep

    return path != "-" and is_sweep(path)
