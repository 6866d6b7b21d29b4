"""One analysis in a worker process: the result goes to a file, its rows come back."""

from __future__ import annotations

import os
import pickle
import time
from dataclasses import dataclass
from typing import TypeAlias

from gaptrace.analysis import Analysis, analyze
from gaptrace.errors import GaptraceError, NotATraceError
from gaptrace.measure.options import Options
from gaptrace.reading.cachefolder import cache_folder
from gaptrace.reading.loading import load
from gaptrace.runs.read import read_run
from gaptrace.runs.run import RunAnalysis
from gaptrace.runs.saved import SavedRun, load_saved
from gaptrace_dashboards.places import RUN, SAVED, Place
from gaptrace_dashboards.rows import Row, rows_of

Result: TypeAlias = "Analysis | RunAnalysis | SavedRun"
REPORT_EVERY_S = 0.2


@dataclass(frozen=True)
class Outcome:
    """What became of a place: rows and the file that holds the result, or why there is none.

    foreign: the file is no trace at all.
    """

    rows: tuple[Row, ...] = ()
    file: str = ""
    error: str = ""
    hint: str = ""
    foreign: bool = False


def work(place: Place, folder: str) -> Outcome:
    """Analyse a place; the result goes to a file in `folder`, which only this server uses."""
    target = os.path.join(folder, f"{place.id}-{place.newest_ns}.result")
    try:
        result = _result(place, target + ".progress")
        rows = rows_of(result, place.name, place.newest_ns)
    except NotATraceError as error:
        return Outcome(error=error.message, hint=error.hint, foreign=True)
    except GaptraceError as error:
        return Outcome(error=error.message, hint=error.hint)
    except OSError as error:
        return Outcome(error=f"{place.path} cannot be read: {error.strerror}")
    except MemoryError:
        return Outcome(error="out of memory", hint="record fewer steps")
    with open(target + ".part", "wb") as file:
        pickle.dump(result, file, protocol=5)
    os.replace(target + ".part", target)
    return Outcome(rows=tuple(rows), file=target)


def _result(place: Place, progress: str) -> Result:
    if place.kind == RUN:
        whole = read_run(place.path, Options(), use_cache=True)
        return whole.alone or whole
    if place.kind == SAVED:
        return load_saved(place.path)
    trace = load(place.path, progress=_Progress(progress), cache=cache_folder(place.path))
    return analyze(trace, Options())


class _Progress:
    """Writes the share read so far to a small file that the server looks at."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._last = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if total and now - self._last > REPORT_EVERY_S:
            self._last = now
            with open(self._path, "w", encoding="ascii") as file:
                file.write(str(100 * done // total))


def read_result(path: str) -> Result:
    """The result that `work` wrote; only for files of this server's own folder."""
    with open(path, "rb") as file:
        result: Result = pickle.load(file)
    return result
