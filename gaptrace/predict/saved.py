"""Answers of Inductor as they lie beside a recording: `prediction.json`.

`gaptrace predict` writes them, so that whoever analyses the run later needs no torch.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gaptrace.errors import GaptraceError
from gaptrace.measure.fusion_model import SCHEMA
from gaptrace.reading.manifest import Manifest

NAME = "prediction.json"
_PARTS = ("torch", "kernels", "counts", "doubts", "ops")


def saved_answer(manifest: Manifest) -> Mapping[str, Any] | None:
    """The answer saved beside the recording of a run, or beside another repeat of its mode; None
    where there is none."""
    if manifest.path is None:
        return None
    own = Path(manifest.path)
    repeats = sorted(own.parent.glob(f"*/{NAME}")) if own.parent.name == manifest.mode else []
    found = next((path for path in (own / NAME, *repeats) if path.is_file()), None)
    return None if found is None else read_answer(found)


def has_execution_trace(manifest: Manifest) -> bool:
    """Whether an execution trace lies beside a recording, of which Inductor can be asked."""
    name = manifest.files.execution_trace
    return bool(manifest.path and name) and (Path(str(manifest.path)) / str(name)).is_file()


def read_answer(path: str | Path) -> Mapping[str, Any]:
    """The `gaptrace.inductor/1` object in a file, plain or gzipped.

    Raises:
        GaptraceError: the file cannot be read or holds something else.
    """
    try:
        data = Path(path).read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        found = json.loads(data)
    except (OSError, ValueError, EOFError) as error:
        raise GaptraceError(
            f"{path} cannot be read as a prediction: {error}", "predict again with --refresh"
        ) from error
    return checked(found, str(path))


def checked(found: Any, name: str) -> Mapping[str, Any]:
    """The object if it is a `gaptrace.inductor/1` one.

    Raises:
        GaptraceError: it is not, or it has a schema this version does not read.
    """
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema != SCHEMA:
        raise GaptraceError(
            f"{name} is not a {SCHEMA} object (its schema is {schema!r})",
            "it is written by `gaptrace predict`",
        )
    if missing := [part for part in _PARTS if part not in found]:
        raise GaptraceError(f"{name} lacks {', '.join(missing)}", "predict again with --refresh")
    answer: Mapping[str, Any] = found
    return answer
