"""What is known of a collection while its cells are recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gaptrace_collectors.points import Point


@dataclass
class State:
    """What the cells until now have shown, and what they came to.

    available: decode steps that the script makes, once it made fewer than were planned. switch_off:
    whether the script's own compiling is to do nothing. on_cpu: whether a cell ran on a CPU.
    passed: which calls were no steps, in words.
    """

    available: int | None = None
    exit_code: int = 0
    cells: list[dict[str, Any]] = field(default_factory=list)
    stop: bool = False
    complete: bool = False
    as_is_reason: str | None = None
    passed: str = ""
    switch_off: bool = False
    on_cpu: bool = False

    def note(
        self,
        mode: str,
        repeat: int,
        point: Point,
        status: str,
        *,
        path: str | None = None,
        exit_code: int | None = None,
        reason: str | None = None,
        ranks: list[int] | None = None,
    ) -> None:
        """Add a row of the index."""
        self.cells.append(
            {
                "mode": mode,
                "repeat": repeat,
                "point": point.to_json(),
                "status": status,
                "path": path,
                "exit_code": exit_code,
                "reason": reason,
                "ranks": ranks or None,
            }
        )
