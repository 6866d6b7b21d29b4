"""Reads the package's TOML tables, once each and on first use."""

from __future__ import annotations

import dataclasses
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


@cache
def table(file: str) -> dict[str, Any]:
    """The parsed content of a TOML file of this package; callers must not change it."""
    return tomllib.loads(Path(__file__).with_name(file).read_text(encoding="utf-8"))


def records(kind: type[T], rows: list[dict[str, Any]]) -> tuple[T, ...]:
    """Rows of a table as dataclasses: lines joined, lists as tuples, keys of other kinds left out.

    A row may lack a field that has a default.
    """
    names = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return tuple(
        kind(**{key: _frozen(value) for key, value in row.items() if key in names}) for row in rows
    )


def _frozen(value: Any) -> Any:
    if isinstance(value, str):
        return value.strip("\n").replace("\n", " ")
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
