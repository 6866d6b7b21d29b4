"""Which recording a process makes, and what is known of the step that it records."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gaptrace_collectors import facts
from gaptrace_collectors.progress import Progress
from gaptrace_collectors.ranks import Ranks

if TYPE_CHECKING:
    from torch import nn

    from gaptrace_collectors.modes import Mode
    from gaptrace_collectors.options import Options
    from gaptrace_collectors.plan import Plan
    from gaptrace_collectors.targets import Target


@dataclass
class StepFacts:
    """What is known of the step itself; `None` falls back to what was counted."""

    tokens: int = 1
    tokens_source: str = "assumed"
    uncached: bool = False
    compiled_by: str = ""
    batch: int | None = None
    module: str | None = None
    call: str | None = None
    label: str | None = None
    model: nn.Module | None = None
    weight_bytes: int | None = None
    kv_bytes: int | None = None
    decode_steps_seen: int = 0
    prefill_calls_seen: int = 0


@dataclass(frozen=True)
class CellInfo:
    """Which recording this is."""

    name: str
    mode: Mode
    repeat: int
    entry: str
    target: Target
    options: Options
    plan: Plan
    folder: str
    batch: int | None = None
    ranks: Ranks = field(default_factory=Ranks)
    progress: Progress = field(default_factory=Progress)
    created: str = field(default_factory=facts.now)


def script_folder(target: Target) -> str:
    """The folder whose git state and paths belong to the script."""
    if target.kind == "script":
        return os.path.dirname(os.path.abspath(target.value))
    return os.getcwd()
