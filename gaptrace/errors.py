"""The one error family of gaptrace: a message for the person, and a hint about the way out."""

from __future__ import annotations


class GaptraceError(Exception):
    """Something gaptrace cannot do, said in one line, with a second line about what to do next.

    The command line prints both lines and exits with code 2.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class NotATraceError(GaptraceError):
    """The input is not a Kineto trace; the message says what it looks like."""


class BrokenTraceError(GaptraceError):
    """The input was a Kineto trace once, but nothing usable is left of it."""


class OptionError(GaptraceError):
    """An option's value has no meaning for this input."""
