"""The command that records one cell, and the file that tells it how."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from gaptrace_collectors import folder as files
from gaptrace_collectors.left import WORD
from gaptrace_collectors.running import Job

if TYPE_CHECKING:
    from gaptrace_collectors.options import Options, Request
    from gaptrace_collectors.plan import Plan

_HERE = os.path.dirname(os.path.abspath(__file__))


@dataclass(frozen=True)
class CellSpec:
    """One cell: what it records, and where.

    scratch: folder of what the cells of one batch size share. switch_off: whether the script's own
    compiling is to do nothing. notes: go into its run.json.
    """

    mode: str
    repeat: int
    batch: int | None
    plan: Plan
    folder: str
    scratch: str
    notes: tuple[str, ...]
    switch_off: bool


def cell_job(request: Request, options: Options, cell: CellSpec, cache_dir: str | None) -> Job:
    """The command that records a cell; its specification is written into the cell's folder."""
    spec = {
        **asdict(cell),
        "name": request.name,
        "entry": request.entry,
        "target": asdict(request.target),
        "options": options.to_json(),
    }
    os.makedirs(cell.scratch, exist_ok=True)
    path = os.path.join(cell.folder, WORD, "cell.json")
    files.write_json(path, spec)
    words = request.target.command(os.path.join(_HERE, "__main__.py"), "--cell", path)
    # Kineto's own progress lines would end up in the script's output.
    env = {"KINETO_LOG_LEVEL": os.environ.get("KINETO_LOG_LEVEL", "99")}
    return Job(words, env | ({"TORCHINDUCTOR_CACHE_DIR": cache_dir} if cache_dir else {}))
