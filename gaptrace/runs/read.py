"""Run folders and sweeps read from disk and analysed, each large trace by way of the cache."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from gaptrace.measure.options import Options

if TYPE_CHECKING:
    from gaptrace.reading.runfolder import RunFolder
    from gaptrace.results.run import SweepPoint, SweepResult
    from gaptrace.runs.run import RunAnalysis


def read_run(path: str, options: Options, *, use_cache: bool) -> RunAnalysis:
    """Every mode and repeat of the run folder at a path, analysed."""
    from gaptrace.reading.runfolder import read_run_folder

    return _analyzed(read_run_folder(path), path, options, use_cache=use_cache)


def read_points(path: str, options: Options, *, use_cache: bool) -> SweepResult:
    """Every point of the sweep at a path, analysed and condensed."""
    from gaptrace.document.sweep_words import said
    from gaptrace.reading.runfolder import read_sweep
    from gaptrace.results.run import SweepPoint
    from gaptrace.runs.sweep import analyze_sweep

    sweep = read_sweep(path)
    points = [
        (
            SweepPoint(point.name, point.batch, point.length, str(point.run.path)),
            partial(_analyzed, point.run, str(point.run.path), options, use_cache=use_cache),
        )
        for point in sweep.points
    ]
    return said(analyze_sweep(sweep.name, path, points, missing=sweep.missing))


def read_each_point(
    path: str, options: Options, *, use_cache: bool
) -> Iterator[tuple[SweepPoint, RunAnalysis]]:
    """Every point of the sweep at a path with its modes and repeats, one after another.

    Only the traces of the point that was asked for last need be in memory.
    """
    from gaptrace.reading.runfolder import read_sweep
    from gaptrace.results.run import SweepPoint

    for point in read_sweep(path).points:
        where = str(point.run.path)
        run = _analyzed(point.run, where, options, use_cache=use_cache)
        yield SweepPoint(point.name, point.batch, point.length, where), run


def _analyzed(folder: RunFolder, path: str, options: Options, *, use_cache: bool) -> RunAnalysis:
    from gaptrace.reading.cachefolder import cache_folder
    from gaptrace.reading.runfolder import RunCell
    from gaptrace.runs.record import finished
    from gaptrace.runs.run import CellResult, Load, RunAnalysis, analyze_cells

    def cell(found: RunCell) -> tuple[CellResult, Load]:
        trace_path = found.trace_path
        cache = cache_folder(str(trace_path)) if use_cache and trace_path else None
        result = CellResult(
            mode=found.mode,
            repeat=found.repeat,
            path=str(found.path),
            status=found.status,
            reason=found.reason,
            manifest=found.manifest,
        )
        return result, None if trace_path is None else partial(found.load, cache=cache)

    cells = analyze_cells([cell(found) for found in folder.cells], options)
    return finished(RunAnalysis(folder.name, path, cells, folder.missing))
