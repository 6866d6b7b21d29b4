"""Run folders as `gaptrace collect` leaves them: which cells there are, and each cell's trace.

A run folder is NAME/MODE/REPEAT/{run.json, trace.json.gz}. Any level of it can be named: the whole
run, one mode, one repeat. Folders that are still being written (`.partial`) are not looked at.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaptrace.errors import NotATraceError
from gaptrace.load.loading import load
from gaptrace.trace import RunInfo, Trace

MANIFEST = "run.json"
SCHEMA = "gaptrace.run/1"
# The order in which modes are shown; others follow by name.
MODES = ("eager", "compiled", "graph", "compiled-graph", "as-is")


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
    """A run: its name and its cells, by mode in the usual order, then by repeat."""

    path: Path
    name: str
    cells: tuple[RunCell, ...]

    @property
    def modes(self) -> tuple[str, ...]:
        """Modes in the usual order, failed ones included."""
        return tuple(dict.fromkeys(cell.mode for cell in self.cells))

    def of_mode(self, mode: str) -> tuple[RunCell, ...]:
        """The repeats of a mode."""
        return tuple(cell for cell in self.cells if cell.mode == mode)


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
    if not found:
        raise NotATraceError(
            f"{folder} is a folder without recorded runs",
            _inside(folder),
        )
    cells = [_cell(manifest) for manifest in found]
    order = {mode: i for i, mode in enumerate(MODES)}
    cells.sort(key=lambda cell: (order.get(cell.mode, len(order)), cell.mode, cell.repeat))
    name = next((str(c.manifest["name"]) for c in cells if c.manifest.get("name")), folder.name)
    return RunFolder(folder, name, tuple(cells))


def _inside(folder: Path) -> str:
    """What to name instead: runs and traces that lie in a folder."""
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    names = [p.name for p in found if is_run_folder(p) or p.name.endswith((".json", ".json.gz"))]
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
