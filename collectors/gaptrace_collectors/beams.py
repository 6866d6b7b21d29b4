"""Beams of a running search: rows of a call that are no sequences of their own."""

from __future__ import annotations

import re
from typing import Any

from torch import nn

from gaptrace_collectors.enclosing import frames_above, variables

_WIDTH = re.compile(r"_?(num_?beams|n_?beams|beam_(size|width)|beam_?k)", re.IGNORECASE)
_SETTINGS = ("generation_config", "options", "config", "args", "cfg")


def beams_on_stack() -> tuple[int | None, str]:
    """How many beams a sequence has, and what says so, from the callers' variables.

    (1, "") where nothing speaks of beams, (None, NAME) where a function of that name searches
    beams without saying how many.
    """
    searching = ""
    for frame in frames_above():
        values = variables(frame)
        where = frame.f_code.co_name
        config = values.get("generation_config")
        width = _whole(getattr(config, "num_beams", None))
        if width is not None:
            return width, f"generation_config.num_beams of {where}()" if width > 1 else ""
        for name, value in [*values.items(), *_settings(values)]:
            width = _whole(value)
            if width is not None and width > 1 and _WIDTH.fullmatch(name):
                return width, f"{name} of {where}()" if where != "<module>" else name
        if "beam" in where.lower():
            searching = searching or where
    return (None, searching) if searching else (1, "")


def _settings(values: dict[str, Any]) -> list[tuple[str, Any]]:
    """The attributes of what looks like settings among variables, and of `self`."""
    owner = values.get("self")
    holders = [values.get(name) for name in _SETTINGS]
    if owner is not None:
        holders.append(owner)
    if not isinstance(owner, nn.Module):  # a model's own settings are defaults
        inside = getattr(owner, "__dict__", {})
        holders += [inside.get(name) for name in _SETTINGS]
    pairs: list[tuple[str, Any]] = []
    for holder in holders:
        held = holder if isinstance(holder, dict) else getattr(holder, "__dict__", {})
        pairs += [(str(name), value) for name, value in held.items()]
    return pairs


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
