"""A result without what tells of a person or machine: folders, host, user, arguments."""

from __future__ import annotations

import os
import re
from typing import Any, TypeVar

import msgspec

from gaptrace.results.analysis import Provenance, Source

T = TypeVar("T")
# A path of two or more parts within a text, from its first folder on.
_PATH = re.compile(r"(?:~|[A-Za-z]:|\b[\w.-]+)?(?:[\\/][^\\/:*?\"'<>|\s()]+){2,}")
_PATHS = frozenset({"path", "folder"})


def redacted(result: T) -> T:
    """The same result with folders cut from every text and all of `Provenance` left out.

    A path keeps its last part; one within the folder of a whole run keeps its place in it, so that
    no two recordings come to have one name. Works on every kind of result, and on results within
    results.
    """
    found: T = _redacted(result, str(getattr(result, "path", "")))
    return found


def shown_path(path: str, within: str = "") -> str:
    """A path as a redacted result has it; `within`: the folder of the run that it is part of."""
    path, within = path.rstrip("/"), within.rstrip("/")
    last = os.path.basename(within) if within and f"{path}/".startswith(f"{within}/") else ""
    return f"{last}{path.removeprefix(within)}" if last else os.path.basename(path)


def _redacted(value: Any, within: str) -> Any:
    match value:
        case str():
            return _PATH.sub(lambda found: re.split(r"[\\/]", found[0])[-1], value)
        case msgspec.Struct():
            own = {
                name: shown_path(item, within)
                if name in _PATHS and isinstance(item, str)
                else _redacted(item, within)
                for name in value.__struct_fields__
                for item in (getattr(value, name),)
            }
            if isinstance(value, Source):
                own["provenance"] = Provenance(redacted=True)
            return type(value)(**own)
        case dict():
            return {key: _redacted(item, within) for key, item in value.items()}
        case list() | tuple():
            return type(value)(_redacted(item, within) for item in value)
        case _:
            return value
