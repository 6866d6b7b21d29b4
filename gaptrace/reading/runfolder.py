"""Run folders as `gaptrace collect` leaves them: which cells there are, and each cell's trace.

A run folder is NAME/MODE/REPEAT/{run.json, trace.json.gz}. Any level of it can be named: the whole
run, one mode, one repeat. Folders that are still being written (`.partial`) are not looked at.

Where a launcher started several ranks, each has a folder in that of the repeat: NAME/MODE/REPEAT/
rank-N. The first rank then stands for the run, and the others are told of beside it.

A sweep is NAME/POINT/MODE/REPEAT: each point (`batch-8`, `length-128`, `batch-8-length-128`) is a
run folder of its own, and its manifests say which point it is.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gaptrace.errors import GaptraceError, NotATraceError
from gaptrace.reading.loading import load
from gaptrace.reading.manifest import Manifest
from gaptrace.results import manifest as m
from gaptrace.results.codec import from_data
from gaptrace.trace import RunInfo, Trace
from gaptrace.vocabulary import mode_order

MANIFEST = "run.json"
INDEX = "collect.json"
_RANK = re.compile(r"rank-(\d+)")
_POINT = re.compile(r"batch-(?P<batch>\d+)(?:-length-(?P<after>\d+))?|length-(?P<length>\d+)")


@dataclass(frozen=True)
class RunCell:
    """One mode and repeat of a run: its manifest, and its traces' paths where it has them.

    times_path: of a light recording of the same steps, whose times are nearer to those without the
    profiler.
    """

    path: Path
    mode: str
    repeat: int
    manifest: Manifest
    trace_path: Path | None
    times_path: Path | None = None

    @property
    def rank(self) -> int | None:
        """Which of several processes it is of; None where there was one."""
        match = _RANK.fullmatch(self.path.absolute().name)
        return int(match[1]) if match else None

    @property
    def status(self) -> str:
        """`ok`, `mode_failed` or `script_failed`."""
        return self.manifest.run.status

    @property
    def reason(self) -> str:
        """Why the mode could not run; empty where it did."""
        return self.manifest.failure.reason

    def load(
        self,
        *,
        progress: Callable[[int, int], None] | None = None,
        cache: Path | None = None,
    ) -> Trace:
        """The cell's trace as recorded, with its manifest as `Trace.run`; see `runs.cells`."""
        if self.trace_path is None:
            raise NotATraceError(
                f"{self.path} holds no trace", self.reason or "this mode could not be recorded"
            )
        trace = load(self.trace_path, progress=progress, cache=cache)
        return dataclasses.replace(trace, run=self.manifest.info)


@dataclass(frozen=True)
class RunFolder:
    """A run: its name and its cells, by mode in the usual order, then by repeat.

    missing: `MODE/REPEAT` that were to be recorded when the recording was stopped, and the reason
    where there is one. of_ranks: the cells of all ranks, where there were several; `cells` then are
    those of the first.
    """

    path: Path
    name: str
    cells: tuple[RunCell, ...]
    missing: tuple[str, ...] = ()
    of_ranks: tuple[RunCell, ...] = ()

    @property
    def modes(self) -> tuple[str, ...]:
        """Modes in the usual order, failed ones included."""
        return tuple(dict.fromkeys(cell.mode for cell in self.cells))

    def of_mode(self, mode: str) -> tuple[RunCell, ...]:
        """The repeats of a mode."""
        return tuple(cell for cell in self.cells if cell.mode == mode)


@dataclass(frozen=True)
class Point:
    """One run of a sweep: its folder's name, its batch size and length (None: not varied)."""

    name: str
    batch: int | None
    length: int | None
    run: RunFolder


@dataclass(frozen=True)
class SweepFolder:
    """A sweep: its name and its points, by length and then by batch size.

    missing: names of points that were to be recorded when the recording was stopped.
    """

    path: Path
    name: str
    points: tuple[Point, ...]
    missing: tuple[str, ...] = ()


def is_sweep(path: str | Path) -> bool:
    """Whether the path is a folder of points, each a run folder that says it is one."""
    folder = Path(path)
    return folder.is_dir() and bool(_points(folder))


def read_sweep(path: str | Path) -> SweepFolder:
    """The sweep at a path.

    Raises:
        NotATraceError: nothing there is a point of a sweep, or a manifest cannot be read.
    """
    folder = Path(path)
    found = _points(folder)
    if not found:
        raise NotATraceError(f"{folder} is not a sweep", _inside(folder))
    points = []
    for place in found:
        batch, length = _sizes(place.name)
        points.append(Point(place.name, batch, length, read_run_folder(place)))
    points.sort(key=lambda point: (point.length or 0, point.batch or 0))
    name = _name([cell for point in points for cell in point.run.cells], folder.absolute())
    return SweepFolder(folder, name, tuple(points), _missing_points(folder, points))


def _name(cells: list[RunCell], folder: Path) -> str:
    return next((name for cell in cells if (name := cell.manifest.run.name)), folder.name)


def _sizes(name: str) -> tuple[int | None, int | None]:
    match = _POINT.fullmatch(name)
    if match is None:
        return None, None
    batch, length = match["batch"], match["length"] or match["after"]
    return int(batch) if batch else None, int(length) if length else None


def _points(folder: Path) -> list[Path]:
    """Subfolders that are points: by their names, and by what their first manifest says."""
    return [
        place
        for place in sorted(folder.iterdir())
        if _POINT.fullmatch(place.name)
        and place.is_dir()
        and any(_says_point(manifest) for manifest in _manifests(place)[:1])
    ]


def _says_point(manifest: Path) -> bool:
    try:
        return _cell(manifest).manifest.run.point is not None
    except GaptraceError:
        return True  # Reading the run will say what is wrong with it.


def is_run_folder(path: str | Path) -> bool:
    """Whether the path is a run, a mode or a repeat folder with a manifest in it."""
    folder = Path(path)
    return folder.is_dir() and bool(_manifests(folder))


def read_run_folder(path: str | Path) -> RunFolder:
    """The run at a path: NAME, NAME/MODE or NAME/MODE/REPEAT.

    Raises:
        NotATraceError: nothing there is a run, or a manifest cannot be read.
    """
    folder = Path(path)
    found = _manifests(folder)
    if not found and is_sweep(folder):
        names = [str(place) for place in _points(folder)]
        more = ", ..." if len(names) > 4 else ""
        raise NotATraceError(
            f"{folder} is a sweep of {len(names)} points, and this takes one run",
            f"name a point: {', '.join(names[:4])}{more}",
        )
    if not found:
        raise NotATraceError(
            f"{folder} is a folder without recorded runs",
            _inside(folder),
        )
    every = [_cell(manifest) for manifest in found]
    every.sort(key=lambda cell: (*mode_order(cell.mode), cell.repeat, cell.rank or 0))
    cells = _of_first_rank(every)
    name = _with_point(_name(cells, folder), cells)
    of_ranks = tuple(every) if len(every) > len(cells) else ()
    return RunFolder(folder, name, tuple(cells), _missing_cells(folder, cells), of_ranks)


def _of_first_rank(cells: list[RunCell]) -> list[RunCell]:
    """Of each mode and repeat the cell of its first rank."""
    first: dict[Path, RunCell] = {}
    for cell in cells:
        first.setdefault(cell.path if cell.rank is None else cell.path.parent, cell)
    return list(first.values())


def _stopped(folder: Path) -> m.CollectIndex | None:
    """What `collect` had set out to record in a folder and did not finish; None where it did."""
    path = folder / INDEX
    try:
        data = msgspec.json.decode(path.read_bytes())
    except (OSError, ValueError):
        return None  # A mode's own folder, or one put together by hand.
    if not isinstance(data, dict):
        return None
    index = from_data(data, m.CollectIndex, str(path))
    return index if index.complete is False else None


def _missing_cells(folder: Path, cells: list[RunCell]) -> tuple[str, ...]:
    point = _sizes(folder.name)
    index = _stopped(folder) or (_stopped(folder.parent) if any(point) else None)
    there = {(cell.mode, cell.repeat) for cell in cells}
    # A mode that cannot work is not recorded again, and `as-is` takes the place of all others.
    done = {cell.mode for cell in cells if cell.status == "mode_failed"}
    if index is None or any(cell.mode == "as-is" for cell in cells):
        return ()
    reasons = {
        (cell.mode, cell.repeat): cell.reason
        for cell in index.cells
        if cell.path is None and _is_at(cell.point or m.Point(), point)
    }
    found = []
    for mode in index.modes:
        for repeat in range(1, (index.repeats or 1) + 1):
            if (mode, repeat) not in there and mode not in done:
                why = reasons.get((mode, repeat))
                found.append(f"{mode}/{repeat} ({why})" if why else f"{mode}/{repeat}")
    return tuple(found)


def _missing_points(folder: Path, points: list[Point]) -> tuple[str, ...]:
    index = _stopped(folder)
    if index is None:
        return ()
    there = {(point.batch, point.length) for point in points}
    wanted = [
        (batch, length) for batch in index.batches or (None,) for length in index.buckets or (None,)
    ]
    return tuple(_folder_name(*point) for point in wanted if any(point) and point not in there)


def _folder_name(batch: int | None, length: int | None) -> str:
    sizes = (("batch", batch), ("length", length))
    return "-".join(f"{key}-{size}" for key, size in sizes if size is not None)


def _is_at(point: m.Point, sizes: tuple[int | None, int | None]) -> bool:
    return (point.batch, point.length) in (sizes, (sizes[0], None))


def _with_point(name: str, cells: list[RunCell]) -> str:
    """`NAME/batch-8` for a point of a sweep, so that points can be told apart by name."""
    points = (cell.manifest.run.point for cell in cells)
    point = next((point for point in points if point is not None), m.Point())
    own = _folder_name(point.batch, point.length)
    return name if not own or name.endswith(own) else f"{name}/{own}"


def _inside(folder: Path) -> str:
    """What to name instead: runs and traces that lie in a folder."""
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    names = [
        p.name
        for p in found
        if is_run_folder(p) or is_sweep(p) or p.name.endswith((".json", ".json.gz"))
    ]
    if not names:
        return "name a trace file, or a folder that `gaptrace collect` wrote"
    more = ", ..." if len(names) > 6 else ""
    return f"name what is in it: {', '.join(names[:6])}{more}"


def _manifests(folder: Path) -> list[Path]:
    """Manifests in the folder, at most two levels down, leaving out folders being written.

    Those of ranks lie one level further down.
    """
    found = []
    for pattern in (MANIFEST, f"*/{MANIFEST}", f"*/*/{MANIFEST}", f"*/*/rank-*/{MANIFEST}"):
        found += [
            path
            for path in sorted(folder.glob(pattern))
            if not any(part.startswith(".") for part in path.relative_to(folder).parts)
        ]
    return found


def _repeat_folder(manifest: Path) -> Path:
    folder = manifest.parent
    return folder.parent if _RANK.fullmatch(folder.name) else folder


def _cell(path: Path) -> RunCell:
    try:
        data = msgspec.json.decode(path.read_bytes())
    except (OSError, ValueError) as error:
        raise NotATraceError(f"{path} cannot be read: {error}", "record the run again") from error
    schema = str(data.get("schema", "")) if isinstance(data, dict) else ""
    if not schema.startswith("gaptrace.run/"):
        raise NotATraceError(
            f"{path} is not a gaptrace run manifest", f"its schema must be {m.RUN_SCHEMA}"
        )
    if schema != m.RUN_SCHEMA:
        raise NotATraceError(
            f"{path} has schema {schema}, this version reads {m.RUN_SCHEMA}", "update gaptrace"
        )
    manifest = Manifest(RunInfo(str(path.parent), data))
    return RunCell(
        path=path.parent,
        mode=manifest.mode or _repeat_folder(path).parent.name,
        repeat=manifest.run.repeat or 1,
        manifest=manifest,
        trace_path=_file_of(path, manifest.files.trace),
        times_path=_file_of(path, manifest.files.times),
    )


def _file_of(manifest: Path, name: str | None) -> Path | None:
    found = manifest.parent / name if name else None
    return found if found is not None and found.is_file() else None
