"""The runs of one dashboard: found, analysed once in worker processes, kept, and watched."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context

from gaptrace.analysis import Analysis
from gaptrace.compare.pairing import distinct_labels
from gaptrace.compare.side import Side
from gaptrace.errors import GaptraceError
from gaptrace.runs.run import RunAnalysis
from gaptrace_dashboards.places import RUN, WRITING, Place, find_places, still_there
from gaptrace_dashboards.rows import Row
from gaptrace_dashboards.work import Outcome, Result, read_result, work

WAITING, WORKING, READY, FAILED, GONE = "waiting", "working", "ready", "failed", "gone"
WORKERS = 2
# Results held in memory; the others wait in files.
HELD = 6
# A file younger than this may still be written to.
SETTLED_S = 1.0
LOOK_AGAIN_S = 1.0


@dataclass(frozen=True)
class Entry:
    """A place and how far it is.

    state: one of the five above. rows and file, the result's, are of the last analysis; those of
    a place that has gone or changes are kept. foreign: no trace, and not named by itself.
    """

    place: Place
    state: str
    rows: tuple[Row, ...] = ()
    file: str = ""
    error: str = ""
    hint: str = ""
    foreign: bool = False


@dataclass(frozen=True)
class Recording:
    """One row of the list with its id in addresses: `PLACE` or `PLACE.MODE`."""

    id: str
    entry: Entry
    row: Row

    @property
    def mode(self) -> str:
        """The mode within a run folder, empty for a bare trace."""
        return self.row.key


def process_pool() -> Executor:
    """Workers in fresh processes: a crash or a leak in one is not the server's."""
    # Ctrl-C reaches the workers too, and is the server's to answer.
    return ProcessPoolExecutor(
        WORKERS,
        mp_context=get_context("spawn"),
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_IGN),
    )


class Library:
    """All runs under the given paths. Every method may be called from several threads.

    Results live in a folder of this process alone, which `close` removes; nothing is read from
    anywhere but the given paths and that folder.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        pool: Callable[[], Executor] = process_pool,
        settled_s: float = SETTLED_S,
    ) -> None:
        self.paths = tuple(paths)
        self._make_pool, self._pool = pool, pool()
        self._settled_s = settled_s
        self._folder = tempfile.mkdtemp(prefix="gaptrace-dashboard-")
        self._lock = threading.RLock()
        self._entries: dict[str, Entry] = {}
        self._jobs: dict[str, Future[Outcome]] = {}
        self._held: OrderedDict[str, Result] = OrderedDict()
        self._looked = 0.0
        self.version = 0
        self.refresh()

    def close(self) -> None:
        """Stop the workers and remove the results."""
        # Whoever leaves does not wait for a large trace (`terminate_workers` of Python 3.14).
        workers = list((getattr(self._pool, "_processes", None) or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.terminate()
        shutil.rmtree(self._folder, ignore_errors=True)

    def refresh(self) -> int:
        """Look at the paths again, at most once a second, and start what is new; the version."""
        with self._lock:
            if time.monotonic() - self._looked >= LOOK_AGAIN_S:
                self._look()
                self._looked = time.monotonic()
            self._collect()
            return self.version

    def _look(self) -> None:
        # A root that has gone is no error here: its entries are shown as gone.
        places: dict[str, Place] = {}
        for root in self.paths:
            try:
                places.update((place.id, place) for place in find_places([root]))
            except GaptraceError:
                if not self._entries:
                    raise
        for id_, place in places.items():
            known = self._entries.get(id_)
            if known is not None and known.place.stamp == place.stamp and known.state != GONE:
                if known.state == WAITING and id_ not in self._jobs:
                    self._start(place)
                continue
            if known is not None and known.state == GONE and known.place.stamp == place.stamp:
                self._put(id_, replace(known, state=READY if known.rows else FAILED))
                continue
            # What is known of the old file is shown until the new one is analysed.
            old = known or Entry(place, WAITING)
            self._put(id_, replace(old, place=place, state=WAITING, error="", hint=""))
            self._start(place)
        for id_, entry in list(self._entries.items()):
            if id_ in places or entry.state == GONE:
                continue
            if entry.place.kind == WRITING or not entry.rows:
                del self._entries[id_]
                self.version += 1
            elif not still_there(entry.place):
                self._put(id_, replace(entry, state=GONE))

    def _start(self, place: Place) -> None:
        if place.kind == WRITING or time.time() - place.newest_ns / 1e9 < self._settled_s:
            return
        try:
            self._jobs[place.id] = self._pool.submit(work, place, self._folder)
        except BrokenProcessPool:
            self._pool = self._make_pool()
            self._jobs[place.id] = self._pool.submit(work, place, self._folder)

    def _collect(self) -> None:
        for id_, job in list(self._jobs.items()):
            entry = self._entries.get(id_)
            if entry is None:
                del self._jobs[id_]
            elif job.done():
                del self._jobs[id_]
                self._finish(entry, job)
            elif job.running() and entry.state == WAITING:
                self._put(id_, replace(entry, state=WORKING))

    def _finish(self, entry: Entry, job: Future[Outcome]) -> None:
        id_ = entry.place.id
        try:
            outcome = job.result()
        except BrokenProcessPool:
            outcome = Outcome(
                error="the process that analysed this run died", hint="perhaps it ran out of memory"
            )
        self._held.pop(id_, None)
        if entry.file and entry.file != outcome.file:
            with suppress(OSError):
                os.unlink(entry.file)
        self._put(
            id_,
            Entry(
                place=entry.place,
                state=READY if outcome.file else FAILED,
                rows=outcome.rows,
                file=outcome.file,
                error=outcome.error,
                hint=outcome.hint,
                # Found in passing and no trace at all: not worth a line.
                foreign=outcome.foreign and not entry.place.named,
            ),
        )

    def _put(self, id_: str, entry: Entry) -> None:
        self._entries[id_] = entry
        self.version += 1

    def progress(self, entry: Entry) -> int | None:
        """Percent of the file read so far, None where it is not known."""
        path = f"{self._folder}/{entry.place.id}-{entry.place.newest_ns}.result.progress"
        try:
            with open(path, encoding="ascii") as file:
                return int(file.read() or 0)
        except (OSError, ValueError):
            return None

    def entries(self) -> list[Entry]:
        """Every place with its state, in the order found; files that are no traces left out."""
        with self._lock:
            return [entry for entry in self._entries.values() if not entry.foreign]

    @property
    def foreign(self) -> int:
        """How many JSON files were found that are no traces."""
        with self._lock:
            return sum(entry.foreign for entry in self._entries.values())

    def recordings(self) -> list[Recording]:
        """Every recording that has a row."""
        return [
            Recording(recording_id(entry.place.id, row.key), entry, row)
            for entry in self.entries()
            for row in entry.rows
        ]

    def recording(self, id_: str) -> Recording | None:
        """The recording with this id."""
        return next((found for found in self.recordings() if found.id == id_), None)

    def entry(self, id_: str) -> Entry | None:
        """The place of a recording's id, whether it has rows yet or not."""
        with self._lock:
            return self._entries.get(id_.partition(".")[0])

    def result(self, entry: Entry) -> Result | None:
        """The whole result of a place, read back where it is not held; None where there is none."""
        id_ = entry.place.id
        with self._lock:
            if id_ in self._held:
                self._held.move_to_end(id_)
                return self._held[id_]
        if not entry.file:
            return None
        try:
            result = read_result(entry.file)
        except FileNotFoundError:
            # Analysed again in the meantime; whoever asks next has the new entry.
            return None
        with self._lock:
            self._held[id_] = result
            while len(self._held) > HELD:
                self._held.popitem(last=False)
        return result

    def analysis(self, recording: Recording) -> Analysis | None:
        """The analysis that stands for a recording; None for saved baselines and failed modes."""
        result = self.result(recording.entry)
        if isinstance(result, RunAnalysis):
            return result.representative(recording.mode)
        return result if isinstance(result, Analysis) else None

    def run(self, recording: Recording) -> RunAnalysis | None:
        """The run folder that a recording belongs to, None for a bare trace."""
        result = self.result(recording.entry) if recording.entry.place.kind == RUN else None
        return result if isinstance(result, RunAnalysis) else None

    def sides(self, recordings: Sequence[Recording]) -> list[Side]:
        """The recordings, each with its repeats, as the sides of a comparison.

        They have the names that `gaptrace compare` would give them, a mode of a run being
        `RUN/MODE` there, so that a report is the same from both.

        Raises:
            GaptraceError: there is nothing recorded behind one of them.
        """
        named = [
            f"{r.entry.place.path.rstrip('/')}/{r.mode}" if r.mode else r.entry.place.path
            for r in recordings
        ]
        sides = []
        for recording, path, label in zip(recordings, named, distinct_labels(named), strict=True):
            side = self._side(recording, label, path)
            if side is None:
                raise GaptraceError(f"{recording.row.name} holds no recording to compare")
            sides.append(side)
        return sides

    def _side(self, recording: Recording, label: str, path: str) -> Side | None:
        result = self.result(recording.entry)
        if isinstance(result, RunAnalysis):
            repeats = result.repeats(recording.mode)
            return Side.of(repeats, label=label, path=path, run=result.name) if repeats else None
        if isinstance(result, Analysis):
            return Side.of(result, label=label, path=path)
        if result is None:
            return None
        return Side(label, path, result.modes[recording.mode or None], saved=True)


def recording_id(place_id: str, mode: str) -> str:
    """The id of a recording in addresses."""
    return f"{place_id}.{mode}" if mode else place_id
