"""How far a recording is: written by the recorded process, read by the one that waits for it.

Both look at the same few bytes, so that a step costs the recorded process one store into memory.
"""

from __future__ import annotations

import mmap
import struct

PHASES = ("check", "prepare", "warm-up", "timed before", "issue", "profiled", "timed after")
_LAYOUT = struct.Struct("<II")  # phase (0: none yet), steps done


class Progress:
    """What a recorded process tells; without a path it tells nobody."""

    def __init__(self, path: str = "") -> None:
        self._memory = mmap.mmap(-1, _LAYOUT.size)
        self._steps = 0
        self._phase = 0
        if path:
            with open(path, "w+b") as file:
                file.write(bytes(_LAYOUT.size))
                file.flush()
                self._memory = mmap.mmap(file.fileno(), _LAYOUT.size)

    def enter(self, phase: str) -> None:
        """A phase begins."""
        self._phase = PHASES.index(phase) + 1 if phase in PHASES else 0
        self.tell()

    def step(self) -> None:
        """A step begins."""
        self._steps += 1
        self.tell()

    def tell(self) -> None:
        """Store what is known."""
        _LAYOUT.pack_into(self._memory, 0, self._phase, self._steps)


def read_progress(path: str) -> tuple[str, int]:
    """The phase under way, empty before the first, and the steps made until now."""
    try:
        with open(path, "rb") as file:
            data = file.read(_LAYOUT.size)
    except OSError:
        return "", 0
    if len(data) < _LAYOUT.size:
        return "", 0
    phase, steps = _LAYOUT.unpack(data)
    return (PHASES[phase - 1] if 0 < phase <= len(PHASES) else ""), steps
