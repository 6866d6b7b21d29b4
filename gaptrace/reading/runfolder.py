"""Run folders as `gaptrace collect` leaves them: which cells there are, and each cell's trace.

A run folder is NAME/MODE/REPEAT/{run.json, trace.json.gz}. Any level of it can be named: the whole
run, one mode, one repeat. Folders that are still being written (`.partial`) are not looked at.

A sweep is NAME/POINT/MODE/REPEAT: each point (`batch-8`, `length-128`, `batch-8-length-128`) is a
run folder of its own, and its manifests say which point it is.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaptrace.errors import NotATraceError
from gaptrace.reading.loading import load
from gaptrace.trace import RunInfo, Trace

MANIFEST = "run.json"
INDEX = "collect.json"
SCHEMA = "gaptrace.run/1"
# The order in which modes are shown; others follow by name.
MODES = (
    "eager",
    "compiled",
    "graph",
    "compiled-graph",
    "piecewise",
    "reduce-overhead",
    "max-autotune",
    "as-is",
)
_POINT = re.compile(r"batch-(?P<batch>\d+)(?:-length-(?P<after>\d+))?|length-(?P<length>\d+)")


@dataclass(frozen=True)
class RunCell:
    """One mode and repeat of a run: its manifest, and its trace's path where it has one."""

    path: Path
    mode: str
    repeat: int
    manifest: Mapping[str, Any]
    trace_path: Path | None

    @property
    def status(self) -> str:
        """`ok`, `mode_failed` or `script_failed`."""
        return str(self.manifest.get("status", "ok"))

    @property
    def reason(self) -> str:
        """Why the mode could not run; empty where it did."""
        failure = self.manifest.get("failure")
        return str(failure.get("reason", "")) if isinstance(failure, Mapping) else ""

    def load(
        self,
        *,
        progress: Callable[[int, int], None] | None = None,
        cache: Path | None = None,
    ) -> Trace:
        """The cell's trace, with its manifest as `Trace.run`."""
        if self.trace_path is None:
            raise NotATraceError(
                f"{self.path} holds no trace", self.reason or "this mode could not be recorded"
            )
        trace = load(self.trace_path, progress=progress, cache=cache)
        return dataclasses.replace(trace, run=RunInfo(str(self.path), self.manifest))


@dataclass(frozen=True)
class RunFolder:
    """A run: its name and its cells, by mode in the usual order, then by repeat.

    missing: `MODE/REPEAT` that were to be recorded when the recording was stopped, and the reason
    where there is one.
    """

    path: Path
    name: str
    cells: tuple[RunCell, ...]
    missing: tuple[str, ...] = ()

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
    own = next((c.manifest.get("name") for p in points for c in p.run.cells), None)
    name = str(own or folder.absolute().name)
    return SweepFolder(folder, name, tuple(points), _missing_points(folder, points))


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
        data = json.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return True  # Reading the run will say what is wrong with it.
    return isinstance(data, dict) and isinstance(data.get("point"), dict)


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
    cells = [_cell(manifest) for manifest in found]
    order = {mode: i for i, mode in enumerate(MODES)}
    cells.sort(key=lambda cell: (order.get(cell.mode, len(order)), cell.mode, cell.repeat))
    name = next((str(c.manifest["name"]) for c in cells if c.manifest.get("name")), folder.name)
    return RunFolder(folder, _with_point(name, cells), tuple(cells), _missing_cells(folder, cells))


def _stopped(folder: Path) -> Mapping[str, Any]:
    """What `collect` had set out to record in a folder and did not finish; empty where it did."""
    try:
        found = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # A mode's own folder, or one put together by hand.
    return found if isinstance(found, dict) and found.get("complete") is False else {}


def _missing_cells(folder: Path, cells: list[RunCell]) -> tuple[str, ...]:
    point = _sizes(folder.name)
    index = _stopped(folder) or (_stopped(folder.parent) if any(point) else {})
    there = {(cell.mode, cell.repeat) for cell in cells}
    # A mode that cannot work is not recorded again, and `as-is` takes the place of all others.
    done = {cell.mode for cell in cells if cell.status == "mode_failed"}
    if not index or any(cell.mode == "as-is" for cell in cells):
        return ()
    reasons = {
        (cell.get("mode"), cell.get("repeat")): cell.get("reason")
        for cell in _list(index, "cells")
        if isinstance(cell, dict) and cell.get("path") is None and _is_at(cell.get("point"), point)
    }
    repeats = index.get("repeats")
    found = []
    for mode in _list(index, "modes"):
        for repeat in range(1, repeats + 1 if isinstance(repeats, int) else 2):
            if (mode, repeat) not in there and mode not in done:
                why = reasons.get((mode, repeat))
                found.append(f"{mode}/{repeat} ({why})" if why else f"{mode}/{repeat}")
    return tuple(found)


def _missing_points(folder: Path, points: list[Point]) -> tuple[str, ...]:
    index = _stopped(folder)
    there = {(point.batch, point.length) for point in points}
    wanted = [
        (batch, length)
        for batch in _list(index, "batches") or (None,)
        for length in _list(index, "buckets") or (None,)
    ]
    return tuple(_folder_name(*point) for point in wanted if any(point) and point not in there)


def _folder_name(batch: object, length: object) -> str:
    sizes = (("batch", batch), ("length", length))
    return "-".join(f"{key}-{size}" for key, size in sizes if size is not None)


def _is_at(point: object, sizes: tuple[int | None, int | None]) -> bool:
    own = point if isinstance(point, dict) else {}
    return (own.get("batch"), own.get("length")) in (sizes, (sizes[0], None))


def _list(index: Mapping[str, Any], key: str) -> list[Any]:
    found = index.get(key)
    return found if isinstance(found, list) else []


def _with_point(name: str, cells: list[RunCell]) -> str:
    """`NAME/batch-8` for a point of a sweep, so that points can be told apart by name."""
    point = next((c.manifest["point"] for c in cells if c.manifest.get("point")), None)
    if not isinstance(point, Mapping):
        return name
    own = _folder_name(point.get("batch"), point.get("length"))
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
    """Manifests in the folder, at most two levels down, leaving out folders being written."""
    found = []
    for pattern in (MANIFEST, f"*/{MANIFEST}", f"*/*/{MANIFEST}"):
        found += [
            path
            for path in sorted(folder.glob(pattern))
            if not any(part.startswith(".") for part in path.relative_to(folder).parts)
        ]
    return found


def _cell(path: Path) -> RunCell:
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NotATraceError(f"{path} cannot be read: {error}", "record the run again") from error
    if not isinstance(manifest, dict) or not str(manifest.get("schema", "")).startswith(
        "gaptrace.run/"
    ):
        raise NotATraceError(
            f"{path} is not a gaptrace run manifest", f"its schema must be {SCHEMA}"
        )
    if manifest["schema"] != SCHEMA:
        raise NotATraceError(
            f"{path} has schema {manifest['schema']}, this version reads {SCHEMA}",
            "update gaptrace",
        )
    files = manifest.get("files")
    named = files.get("trace") if isinstance(files, dict) else None
    trace = path.parent / str(named) if named else None
    repeat = manifest.get("repeat")
    return RunCell(
        path=path.parent,
        mode=str(manifest.get("mode", path.parent.parent.name)),
        repeat=repeat if isinstance(repeat, int) else 1,
        manifest=manifest,
        trace_path=trace if trace is not None and trace.is_file() else None,
    )
