"""Bytes to a Trace: `load` reads a Kineto trace of any year and any vendor, repaired if need be."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gaptrace.load.loading import load
    from gaptrace.trace import Trace

__all__ = ["load"]


class _CallablePackage(ModuleType):
    """`gaptrace.load` names this package and the function in it.

    Importing any part of the package puts the package under that name, whatever stood there
    before; so the package can be called like the function.
    """

    def __call__(self, *args: Any, **options: Any) -> Trace:
        from gaptrace.load.loading import load

        return load(*args, **options)


sys.modules[__name__].__class__ = _CallablePackage


def __getattr__(name: str) -> Any:
    # Imported when asked for: those who want only a part of the package need no decoder.
    if name == "load":
        from gaptrace.load.loading import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
