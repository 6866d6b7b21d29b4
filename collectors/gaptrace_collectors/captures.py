"""Whether a CUDA graph is being captured, on whatever stream and thread.

While one is, the recorder must not touch the device: a copy to the host, a synchronization or a
timing event would break a capture that is the script's own.
"""

from __future__ import annotations

import threading
from typing import Any

import torch


class Captures:
    """Counts captures between `CUDAGraph.capture_begin` and `capture_end`, of all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0
        self._originals: dict[str, Any] = {}

    def install(self) -> None:
        """Start counting; safe to call twice."""
        if self._originals:
            return
        graph = torch.cuda.CUDAGraph
        begin, end = graph.capture_begin, graph.capture_end
        self._originals = {"capture_begin": begin, "capture_end": end}

        def counted_begin(*args: Any, **kwargs: Any) -> Any:
            self._count(1)
            try:
                return begin(*args, **kwargs)
            except BaseException:
                self._count(-1)
                raise

        def counted_end(*args: Any, **kwargs: Any) -> Any:
            try:
                return end(*args, **kwargs)
            finally:
                self._count(-1)

        graph.capture_begin, graph.capture_end = counted_begin, counted_end

    def remove(self) -> None:
        """Stop counting; safe to call twice."""
        for name, original in self._originals.items():
            setattr(torch.cuda.CUDAGraph, name, original)
        self._originals = {}

    def _count(self, change: int) -> None:
        with self._lock:
            self._open = max(0, self._open + change)

    @property
    def under_way(self) -> bool:
        """Whether any stream is being captured."""
        return bool(self._open) or self.here  # one may not have begun through `CUDAGraph`

    @property
    def here(self) -> bool:
        """Whether this thread's current stream is being captured."""
        # Asking must not start CUDA by itself.
        return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


CAPTURES = Captures()
