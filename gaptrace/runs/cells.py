"""The trace of one recording of a run folder, its light recording joined to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from gaptrace.errors import GaptraceError
from gaptrace.measure.join import joined
from gaptrace.measure.options import Options
from gaptrace.reading.loading import load
from gaptrace.reading.runfolder import RunCell
from gaptrace.trace import Problem, Trace


def load_cell(
    cell: RunCell,
    options: Options,
    *,
    progress: Callable[[int, int], None] | None = None,
    cache: Path | None = None,
) -> Trace:
    """The trace of a cell, with its manifest; the times are those of its light recording if any.

    Where the two recordings do not hold the same steps it is the full one, and a problem says why.

    Raises:
        NotATraceError: the cell holds no trace, or one that cannot be read.
    """
    full = cell.load(progress=progress, cache=cache)
    if cell.times_path is None:
        return full
    try:
        light = dataclasses.replace(load(cell.times_path, cache=cache), run=full.run)
        return joined(full, light, options)
    except GaptraceError as error:
        why = f"the light recording beside it was left aside: {error}"
        return dataclasses.replace(full, problems=(*full.problems, Problem("not_joined", why)))
