"""What one recording gathers, and how a phase says how a step is to be run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gaptrace_collectors.power import PowerMeter
from gaptrace_collectors.runners import Runner

Handler = Callable[[Runner, tuple[Any, ...], dict[str, Any]], Any]


@dataclass
class Measurement:
    """What is measured and written as one recording: everything, or the steps of one bucket."""

    folder: str
    length: int | None = None
    sections: dict[str, Any] = field(default_factory=dict)
    power: PowerMeter | None = None
