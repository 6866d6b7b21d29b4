"""Bytes to a Trace: `load` reads a Kineto trace of any year and any vendor, repaired if need be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gaptrace.load.loading import load

__all__ = ["load"]


def __getattr__(name: str) -> Any:
    # Imported when asked for: those who want only a part of the package need no decoder.
    if name == "load":
        from gaptrace.load.loading import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
