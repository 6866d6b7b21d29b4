"""Result to Document: the one entry, by the type of the result.

Each kind of result registers what makes its document with `@builder`. The module that does so is
loaded on first use, so that a caller imports this one alone.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from gaptrace.document.blocks import Document
from gaptrace.document.sections import Context

Make = Callable[[Any, Context], Document]
M = TypeVar("M", bound=Make)

# `RunResult` is told by the module `run`.
_ENDING = "Result"
_BUILDERS: dict[type, Make] = {}


def builder(kind: type) -> Callable[[M], M]:
    """Register what makes the document of a type of result."""

    def register(make: M) -> M:
        if kind in _BUILDERS:
            raise RuntimeError(f"two builders make the document of {kind.__name__}")
        _BUILDERS[kind] = make
        return make

    return register


def document(result: Any, context: Context | None = None) -> Document:
    """Everything that is said about a result, in the detail that the context asks for."""
    kind = type(result)
    if kind not in _BUILDERS:
        import_module(f"gaptrace.document.{kind.__name__.removesuffix(_ENDING).lower()}")
    return _BUILDERS[kind](result, context or Context())
