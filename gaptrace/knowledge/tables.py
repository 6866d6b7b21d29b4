"""Reads the package's TOML tables, once each and on first use."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any


@cache
def table(file: str) -> dict[str, Any]:
    """The parsed content of a TOML file of this package; callers must not change it."""
    return tomllib.loads(Path(__file__).with_name(file).read_text(encoding="utf-8"))
