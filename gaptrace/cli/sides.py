"""What can be named on the command line of a comparison, brought into the form of its sides."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gaptrace.cli.options import read_trace
from gaptrace.cli.progress import Progress
from gaptrace.errors import GaptraceError, OptionError
from gaptrace.runs.read import read_each_point, read_run

if TYPE_CHECKING:
    from gaptrace.compare.pairing import Input
    from gaptrace.compare.side import Side
    from gaptrace.measure.options import Options
    from gaptrace.runs.run import RunAnalysis


def read_inputs(
    paths: Sequence[str], options: Sequence[Options], *, use_cache: bool
) -> list[Input]:
    """Each path as an input: a trace, a run folder (any level), a sweep, or a saved baseline.

    options: for each path.
    """
    from gaptrace.compare.pairing import distinct_labels
    from gaptrace.reading.runfolder import is_sweep

    labels = distinct_labels(paths) if len(paths) > 1 else [""]
    return [
        (_sweep if path != "-" and is_sweep(path) else read_input)(
            path, own, label=label, use_cache=use_cache
        )
        for path, label, own in zip(paths, labels, options, strict=True)
    ]


def read_input(path: str, options: Options, *, label: str, use_cache: bool) -> Input:
    """One path as an input; `label` goes in front of the names of its modes."""
    from gaptrace.analysis import measured
    from gaptrace.compare.pairing import Input
    from gaptrace.compare.side import Side, short_label
    from gaptrace.runs.saved import is_saved

    if path != "-" and os.path.isdir(path):
        return _run(path, options, label=label, use_cache=use_cache)
    if path != "-" and is_saved(path):
        if options.given:
            raise OptionError(
                f"{path} is a saved baseline, which holds its times already",
                "give the step when it is saved: gaptrace save RUN --unprofiled-step TIME -o FILE",
            )
        return _saved(path, label=label)
    analysis = measured(read_trace(path, use_cache=use_cache), options)
    side = Side.of(analysis, label=label or short_label(path), path=path)
    return Input(path, {None: side})


def _run(path: str, options: Options, *, label: str, use_cache: bool) -> Input:
    from gaptrace.compare.pairing import Input

    with Progress() as line:
        run = read_run(path, options, use_cache=use_cache, watch=line.recording)
    sides, notes = _modes(run, path, label)
    if not sides:
        raise _nothing(path, notes)
    return Input(path, sides, tuple(notes))


def _sweep(path: str, options: Options, *, label: str, use_cache: bool) -> Input:
    """Every mode at every point; the figures are kept, the traces are not."""
    from gaptrace.compare.pairing import Input
    from gaptrace.compare.side import short_label

    found: dict[str | None, Side] = {}
    notes = []
    with Progress() as line:
        for point, run in read_each_point(path, options, use_cache=use_cache, watch=line.recording):
            name = f"{label or short_label(path)}/{point.point}"
            sides, own = _modes(run, point.path, name)
            notes += own
            found |= {
                f"{point.point}/{mode}": replace(
                    side,
                    path=f"{point.path}/{mode}",
                    analyses=(),
                    batch=point.batch,
                    length=point.length,
                )
                for mode, side in sides.items()
            }
    if not found:
        raise _nothing(path, notes)
    return Input(path, found, tuple(notes), sweep=True)


def _nothing(path: str, notes: Sequence[str]) -> GaptraceError:
    return GaptraceError(
        f"{path} holds nothing to compare: {'; '.join(notes)}", "record it again on a GPU"
    )


def _modes(run: RunAnalysis, path: str, label: str) -> tuple[dict[str | None, Side], list[str]]:
    """The sides of a run by mode, and what of it could not be used."""
    from gaptrace.compare.side import Side

    sides: dict[str | None, Side] = {}
    notes = []
    for mode in run.modes:
        reasons = [c.reason for c in run.cells if c.mode == mode and c.analysis is None]
        analyses = run.repeats(mode)
        if reasons:
            part = " in part" if analyses else ""
            why = f": {reasons[0]}" if reasons[0] else ""
            notes.append(f"mode {_named(label, mode)} was not recorded{part}{why}")
        if not analyses:
            continue
        try:
            sides[mode] = Side.of(analyses, label=_named(label, mode), path=path, run=run.name)
        except GaptraceError as error:
            notes.append(f"mode {_named(label, mode)}: {error.message}")
    return sides, notes


def _saved(path: str, *, label: str) -> Input:
    from gaptrace import __version__
    from gaptrace.compare.pairing import Input
    from gaptrace.compare.side import Side
    from gaptrace.runs.saved import load_saved

    run = load_saved(path)
    sides = {
        mode: Side(_named(label or run.name, mode), path, recordings, saved=True)
        for mode, recordings in run.modes.items()
    }
    notes: tuple[str, ...] = ()
    if run.version != __version__:
        notes = (f"{path} was saved by gaptrace {run.version}, this is {__version__}",)
    return Input(path, sides, notes)


def _named(label: str, mode: str | None) -> str:
    """`run/mode`; a label that names the mode already, or a repeat of it, stays as it is."""
    if not label or not mode:
        return label or mode or ""
    if label.isdigit():
        # The end of RUN/MODE/REPEAT that told two paths apart.
        return f"{mode}/{label}"
    return label if mode in label.split("/")[-2:] else f"{label}/{mode}"
