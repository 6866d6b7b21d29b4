"""Dynamo's own records, without importing Dynamo: its counters and its compilation metrics.

They are private and have changed between versions: what is missing reads as empty.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any


def counters(group: str) -> Mapping[str, Any]:
    """One group of Dynamo's counters; empty where Dynamo was never imported."""
    groups: Any = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    group_counters: Mapping[str, Any] = groups.get(group, {})
    return group_counters


def metrics() -> list[Any]:
    """The compilation metrics kept so far, oldest first."""
    read = getattr(sys.modules.get("torch._dynamo.utils"), "get_compilation_metrics", None)
    return [] if read is None else list(read())


def first_line(text: str) -> str:
    """What a reason says before the stack that torch prints beneath it, at most 300 characters."""
    return text.strip().splitlines()[0][:300]
