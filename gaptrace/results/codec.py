"""Results in and out of JSON: one spelling of numbers, one decoder, one JSON Schema for each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from numbers import Integral, Real
from typing import Any, TypeVar

import msgspec

from gaptrace.errors import GaptraceError

T = TypeVar("T")


def to_data(result: Any, *, digits: int = 10) -> Any:
    """A result as plain data under its stable names.

    Whole numbers are integers; others are cut to ten significant digits, so that the same result
    gives the same text everywhere; what is not finite is None.
    """
    return _plain(msgspec.to_builtins(result, str_keys=True, enc_hook=_of_array), digits)


def _of_array(value: Any) -> int | float:
    """A number that comes out of an array, as Python's own."""
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    raise NotImplementedError(f"a result holds a {type(value).__name__}")


def _plain(value: Any, digits: int) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item, digits) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, digits) for item in value]
    if not isinstance(value, float):
        return value
    if not isfinite(value):
        return None
    return int(value) if value.is_integer() else float(f"{value:.{digits}g}")


def to_json(result: Any, indent: int | None = 2) -> str:
    """The JSON text of a result, or of plain data that holds results."""
    return json.dumps(to_data(result), indent=indent, ensure_ascii=False, allow_nan=False)


def from_json(text: bytes | str, kind: type[T], name: str) -> T:
    """The result in a JSON text; `name` says whose text it is.

    Raises:
        GaptraceError: it is no such object; the message names the field.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError as error:
        raise _refused(name, error) from error


def from_data(data: Mapping[str, Any], kind: type[T], name: str) -> T:
    """The result in plain data; `name` says whose data it is.

    Raises:
        GaptraceError: it is no such object; the message names the field.
    """
    try:
        return msgspec.convert(data, type=kind)
    except msgspec.MsgspecError as error:
        raise _refused(name, error) from error


def _refused(name: str, error: Exception) -> GaptraceError:
    text = str(error)
    text = text[:1].lower() + text[1:]
    return GaptraceError(f"{name} cannot be read: {text}", "write it again with this version")


def json_schema(kind: Any, name: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a kind of result."""
    (schema,), components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name,
        **schema,
        "$defs": components,
    }
