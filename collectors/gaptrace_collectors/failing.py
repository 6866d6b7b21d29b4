"""The one error of the process that collects, and its exit codes."""

from __future__ import annotations

FAILED = 125
INTERRUPTED = 130


class CollectError(Exception):
    """gaptrace itself cannot go on: message, hint, exit code 125."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
