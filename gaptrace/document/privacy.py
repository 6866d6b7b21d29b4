"""A result without what tells of a person or machine: folders, host, user, arguments."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from gaptrace.results.analysis import Provenance, Source

T = TypeVar("T")
# A path of two or more parts; names of kernels and ops hold no such thing.
_PATH = re.compile(r"(?:~|[A-Za-z]:)?(?:[\\/][^\\/:*?\"'<>|\s()]+){2,}")


def redacted(result: T) -> T:
    """The same result with folders cut from every text and all of `Provenance` left out.

    A path keeps its last part. Works on every kind of result, and on results within results.
    """
    found: T = _redacted(result)
    return found


def _redacted(value: Any) -> Any:
    match value:
        case str():
            return _PATH.sub(lambda found: re.split(r"[\\/]", found[0])[-1], value)
        case Provenance():
            return Provenance(redacted=True)
        case msgspec.Struct():
            own = {name: _redacted(getattr(value, name)) for name in value.__struct_fields__}
            if isinstance(value, Source):
                own["provenance"] = Provenance(redacted=True)
            return type(value)(**own)
        case dict():
            return {key: _redacted(item) for key, item in value.items()}
        case list() | tuple():
            return type(value)(_redacted(item) for item in value)
        case _:
            return value
