"""Steps and gaps of many traces (the ranks of a job, a sweep) as one lazy dask frame.

Needs the `dask` extra. One partition per trace: a trace is loaded and analysed when its partition
is computed, in whatever scheduler is used, and only the frame stays in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from gaptrace.analysis import analyze
from gaptrace.errors import GaptraceError, OptionError
from gaptrace.measure.options import Options
from gaptrace.reading.loading import load

if TYPE_CHECKING:
    import pandas as pd


def steps_of(paths: Sequence[str], options: Options | None = None) -> Any:
    """A dask frame of the steps of every trace, with the trace's path in a first column `source`.

    Columns as `Analysis.steps`. Raises:
        OptionError: no path is given, or dask is not installed.
    """
    return _frame(paths, options or Options(), "steps")


def gaps_of(paths: Sequence[str], options: Options | None = None) -> Any:
    """A dask frame of the gaps of every trace, with the trace's path in a first column `source`.

    Columns as `Analysis.gaps`. Raises:
        OptionError: no path is given, or dask is not installed.
    """
    return _frame(paths, options or Options(), "gaps")


def _frame(paths: Sequence[str], options: Options, kind: str) -> Any:
    try:
        from dask import dataframe
    except ImportError as error:
        raise OptionError(
            "dask is not installed", "install the extra torch-gaptrace[dask]"
        ) from error
    if not paths:
        raise OptionError("no trace was named", "give at least one path")
    read = partial(_partition, options=options, kind=kind)
    # The first trace tells the columns; without GPU work a trace has none to show.
    meta = read(paths[0]).iloc[:0]
    if len(meta.columns) == 1:
        raise GaptraceError(f"{paths[0]} has no {kind}", "name a trace with GPU work first")
    return dataframe.from_map(read, list(paths), meta=meta)


def _partition(path: str, *, options: Options, kind: str) -> pd.DataFrame:
    frame: pd.DataFrame = getattr(analyze(load(path), options), kind).copy()
    frame.insert(0, "source", path)
    return frame
