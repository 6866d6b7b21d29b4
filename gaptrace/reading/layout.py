"""Where a trace's text may be cut, and where its list of events begins.

A cut is only a guess that decides speed: a slice is accepted when it decodes as a list, and what
does not is walked event by event. All patterns have bounded repeats, so that a search is linear
whatever the input.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

KINETO_CUT = b"\n  },\n  {"
_EVENT_KEY = rb'"(?:ph|name|cat|pid|tid|ts|args|id|dur|bp|s)"'
ANY_CUT = re.compile(rb"\}(\s{0,64},)\s{0,64}\{\s{0,64}" + _EVENT_KEY)
EVENT_START = re.compile(rb"[,\[\n](?=\s{0,64}\{\s{0,64}" + _EVENT_KEY + rb")")
EVENTS_END = re.compile(rb'\}\s{0,64}(?=\]\s{0,64}(?:\}\s{0,64}\Z|,\s{0,64}"|\Z))')
EVENTS_KEY = re.compile(rb'"traceEvents"\s{0,64}:\s{0,64}\[')
_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*+"|[{}\[\]]', re.DOTALL)
FIRST_EVENT = re.compile(rb"\[\s{0,64}\{\s{0,64}" + _EVENT_KEY)
SPACE = b" \t\r\n"


@dataclass(frozen=True)
class Cut:
    """A place between two events: the first ends before `end`, the next starts at `next`."""

    end: int
    next: int


@dataclass(frozen=True)
class Layout:
    """How events are set apart in this file."""

    kineto: bool

    @classmethod
    def of(cls, sample: bytes) -> Layout:
        """Kineto's own layout where the sample shows it, else any."""
        return cls(kineto=KINETO_CUT in sample)

    def first_cut(self, data: bytes, start: int, stop: int) -> Cut | None:
        """The first cut found between two positions."""
        if self.kineto:
            at = data.find(KINETO_CUT, start, stop)
            return None if at < 0 else Cut(at + 4, at + 5)
        match = ANY_CUT.search(data, start, stop)
        return None if match is None else Cut(match.start() + 1, match.end(1))

    def last_cut(self, data: bytes, start: int, stop: int) -> Cut | None:
        """The last cut found between two positions."""
        if self.kineto:
            at = data.rfind(KINETO_CUT, start, stop)
            return None if at < 0 else Cut(at + 4, at + 5)
        for reach in (1 << 14, 1 << 18, 1 << 22, stop):
            begin = max(start, stop - reach)
            found = [(cut.start() + 1, cut.end(1)) for cut in ANY_CUT.finditer(data, begin, stop)]
            if found:
                return Cut(*found[-1])
            if begin == start:
                break
        return None


def skip_space(data: bytes, at: int, stop: int) -> int:
    """The first position between two that is not JSON white space."""
    while at < stop:
        step = data[at : min(at + 256, stop)]
        rest = step.lstrip(SPACE)
        if rest:
            return at + len(step) - len(rest)
        at += len(step)
    return at


def depth(data: bytes) -> int:
    """How many brackets are open at the end of the data, those inside strings not counted."""
    level = 0
    for match in _STRUCTURE.finditer(data):
        token = match[0]
        if token in (b"{", b"["):
            level += 1
        elif token in (b"}", b"]"):
            level -= 1
    return level
