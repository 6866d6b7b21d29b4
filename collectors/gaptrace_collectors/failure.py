"""A mode that cannot work here, as a value: what, why, and the evidence."""

from __future__ import annotations

import contextlib
import linecache
import os
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
# Its folder, not any folder of that name: environments are called torch, too.
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_STDLIB = os.path.dirname(os.path.abspath(traceback.__file__)) + os.sep
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


@dataclass(frozen=True)
class Evidence:
    """One observed fact: what it is about, where in the code, and the detail."""

    what: str
    where: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Failure:
    """Why a mode could not be recorded. `kind` is one of those named in collectors/README.md."""

    kind: str
    reason: str
    evidence: tuple[Evidence, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """The failure as it stands in run.json."""
        return {
            "kind": self.kind,
            "reason": self.reason,
            "evidence": [vars(item) for item in self.evidence],
        }


class ModeFailureError(Exception):
    """Raised where a mode turns out to be impossible; carries the Failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class RecorderError(Exception):
    """Something the recorder cannot do for this script: exit code 125, with a hint."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@contextlib.contextmanager
def writing(folder: str) -> Iterator[None]:
    """Raise RecorderError, not the script's error, where a file cannot be written."""
    try:
        yield
    except OSError as error:
        raise RecorderError(
            f"{folder} cannot be written: {error.strerror or error}",
            "is there space left? -o names another folder",
        ) from error


class StopScript(SystemExit):
    """Leaves the script from inside a decode step; an exit, so that frameworks let it through."""

    def __init__(self) -> None:
        super().__init__(0)


def is_library(filename: str) -> bool:
    """Whether a file belongs to torch, to this package or to the interpreter."""
    if filename.startswith((_OWN, _TORCH, "<")):
        return True
    # Installed packages lie below the standard library's folder, but are somebody's code.
    return filename.startswith(_STDLIB) and not any(part in filename for part in _INSTALLED)


def where_of(frames: Iterable[traceback.FrameSummary]) -> str:
    """`file:line in function: code` of the innermost frame that is not torch's or ours."""
    best: traceback.FrameSummary | None = None
    for frame in frames:
        if not is_library(frame.filename):
            best = frame
    if best is None:
        return ""
    code = best.line or linecache.getline(best.filename, best.lineno or 0).strip()
    return f"{best.filename}:{best.lineno} in {best.name}: {code}"


def where_of_error(error: BaseException) -> str:
    """Where in the user's code an exception came from, through its causes."""
    seen: BaseException | None = error
    while seen is not None:
        where = where_of(traceback.extract_tb(seen.__traceback__))
        if where:
            return where
        seen = seen.__cause__ or seen.__context__
    return ""


def evidence_of(error: BaseException, what: str = "") -> Evidence:
    """The error as evidence: its first line (or `what`), where in the user's code, its text."""
    return Evidence(what or first_line(error), where_of_error(error), str(error)[:2000])


def own_frames_removed(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame on that is not the recorder's."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith((_OWN, "<frozen")):
        trace = trace.tb_next
    return trace


def first_line(error: BaseException, width: int = 300) -> str:
    """The exception's type and the first line of its text."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:width]
