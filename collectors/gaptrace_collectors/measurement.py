"""What is recorded, what a recording gathers, and how a phase says how a step is to be run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from gaptrace_collectors.power import PowerMeter
from gaptrace_collectors.runners import Runner

if TYPE_CHECKING:
    from gaptrace_collectors.steadiness import Observation

Handler = Callable[[Runner, tuple[Any, ...], dict[str, Any]], Any]


@dataclass
class Measurement:
    """What is measured and written as one recording: everything, or the steps of one bucket."""

    folder: str
    length: int | None = None
    sections: dict[str, Any] = field(default_factory=dict)
    power: PowerMeter | None = None


class Subject(Protocol):
    """What is recorded: an unmodified script's module, or an explicit step."""

    entry: str

    def observation(self) -> Observation:
        """An empty observation that knows where to look for state."""

    def named_like(self) -> Callable[..., Any]:
        """The callable whose signature names the arguments."""

    @property
    def can_reset(self) -> bool:
        """Whether `reset` does anything."""

    def reset(self) -> None:
        """Back to the first token, where the step offers it."""

    @property
    def can_seek(self) -> bool:
        """Whether `seek` does anything."""

    def seek(self, length: int) -> None:
        """Go to where the next step has this length, where the step offers it."""

    def kv_bytes(self) -> int | None:
        """Bytes of KV cache that the step reads as it is now, where the step says so."""


def plain(runner: Runner, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the step and nothing else."""
    return runner(*args, **kwargs)
