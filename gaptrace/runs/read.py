"""Run folders and sweeps read from disk and analysed, each large trace by way of the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gaptrace.errors import OptionError
from gaptrace.measure.options import Options

if TYPE_CHECKING:
    from gaptrace.reading.runfolder import RunFolder, SweepFolder
    from gaptrace.results.run import RankRow, SweepPoint, SweepResult
    from gaptrace.runs.run import RunAnalysis, Watch


def read_run(
    path: str, options: Options, *, use_cache: bool, watch: Watch | None = None
) -> RunAnalysis:
    """Every mode and repeat of the run folder at a path, analysed; `watch` is told of each.

    Raises:
        OptionError: a given step that names none of several modes, or a mode that is not there.
    """
    from gaptrace.reading.runfolder import read_run_folder

    folder = read_run_folder(path)
    _check_given(options, path, tuple(dict.fromkeys(cell.mode for cell in folder.cells)))
    return _analyzed(folder, path, options, use_cache=use_cache, watch=watch)


def _check_given(options: Options, path: str, modes: Sequence[str]) -> None:
    """Raise where a given step is of no mode of the run, or it is not said of which of several."""
    if options.given and len(modes) > 1:
        raise OptionError(
            f"{path} holds {len(modes)} modes, and a given step is of one",
            f"name it: {modes[0]}=TIME (modes: {', '.join(modes)})",
        )
    for mode, _ in options.given_of_modes:
        if mode not in modes:
            raise OptionError(
                f"{path} has no mode {mode!r} that a step could be given for",
                f"modes: {', '.join(modes)}",
            )


def read_points(
    path: str, options: Options, *, use_cache: bool, watch: Watch | None = None
) -> SweepResult:
    """Every point of the sweep at a path, analysed and condensed; `watch` as in `read_run`.

    Raises:
        OptionError: a step is given, which can be that of one point only.
    """
    from gaptrace.document.sweep_words import said
    from gaptrace.runs.sweep import analyze_sweep

    sweep, points = _points(path, options, use_cache=use_cache, watch=watch)
    return said(analyze_sweep(sweep.name, path, points, missing=sweep.missing))


def read_each_point(
    path: str, options: Options, *, use_cache: bool, watch: Watch | None = None
) -> Iterator[tuple[SweepPoint, RunAnalysis]]:
    """Every point of the sweep at a path with its modes and repeats, one after another.

    Only the traces of the point that was asked for last need be in memory. `watch` as in
    `read_run`.

    Raises:
        OptionError: a step is given, which can be that of one point only.
    """
    _, points = _points(path, options, use_cache=use_cache, watch=watch)
    return ((point, load()) for point, load in points)


def _points(
    path: str, options: Options, *, use_cache: bool, watch: Watch | None
) -> tuple[SweepFolder, list[tuple[SweepPoint, Callable[[], RunAnalysis]]]]:
    """The sweep at a path, and each of its points with what analyses it."""
    from gaptrace.reading.runfolder import read_sweep
    from gaptrace.results.run import SweepPoint

    sweep = read_sweep(path)
    if options.given or options.given_of_modes:
        raise OptionError(
            f"{path} is a sweep: each of its points has a step of its own",
            f"give it with one point: {sweep.points[0].run.path}" if sweep.points else "",
        )
    found: list[tuple[SweepPoint, Callable[[], RunAnalysis]]] = []
    before, total = 0, sum(len(point.run.cells) for point in sweep.points)
    for point in sweep.points:
        where = str(point.run.path)
        told = None if watch is None else partial(_in_sweep, watch, point.name, before, total)
        load = partial(_analyzed, point.run, where, options, use_cache=use_cache, watch=told)
        found.append((SweepPoint(point.name, point.batch, point.length, where), load))
        before += len(point.run.cells)
    return sweep, found


def _in_sweep(
    watch: Watch, point: str, before: int, total: int, cell: str, done: int, cells: int
) -> None:
    """Tell of a recording of one point as one of all recordings of its sweep."""
    del cells
    watch(f"{point}/{cell}", before + done, total)


def _analyzed(
    folder: RunFolder,
    path: str,
    options: Options,
    *,
    use_cache: bool,
    watch: Watch | None,
) -> RunAnalysis:
    from gaptrace.reading.cachefolder import cache_folder
    from gaptrace.reading.runfolder import RunCell
    from gaptrace.runs.cells import load_cell
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
        if trace_path is None:
            return result, None
        return result, partial(load_cell, found, options, cache=cache)

    cells = analyze_cells([cell(found) for found in folder.cells], options, watch)
    return finished(RunAnalysis(folder.name, path, cells, folder.missing, _ranks(folder)))


def _ranks(folder: RunFolder) -> tuple[RankRow, ...]:
    from gaptrace.results.run import RankRow

    return tuple(
        RankRow(
            cell.mode,
            cell.repeat,
            cell.rank or 0,
            cell.manifest.step_ns if cell.status == "ok" else None,
            cell.reason or None,
            str(cell.path),
        )
        for cell in folder.of_ranks
    )
