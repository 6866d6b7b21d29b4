"""Which calls of one step make the host wait for the GPU, with the line that made them."""

from __future__ import annotations

import traceback
import warnings
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from gaptrace_collectors.failure import where_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_EXPLICIT = (
    (torch.cuda, "synchronize", "torch.cuda.synchronize"),
    (torch.cuda.Stream, "synchronize", "Stream.synchronize"),
    (torch.cuda.Event, "synchronize", "Event.synchronize"),
)


class Synchronizations:
    """Found synchronizations of the steps run inside `watch`."""

    def __init__(self) -> None:
        self._found: Counter[tuple[str, str]] = Counter()

    def __len__(self) -> int:
        return sum(self._found.values())

    def section(self) -> list[dict[str, Any]]:
        """The `synchronizations` list of run.json."""
        return [
            {"op": op, "where": where, "count": count}
            for (op, where), count in self._found.most_common(32)
        ]

    def _note(self, op: str) -> None:
        frames = traceback.extract_stack()
        where = where_of(frames)
        code = where.rsplit(": ", 1)[-1] if where else ""
        self._found[(op or code, where)] += 1

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Count the synchronizations inside the block. Needs CUDA; elsewhere it does nothing."""
        if not torch.cuda.is_available():
            yield
            return
        mode = torch.cuda.get_sync_debug_mode()
        originals = [(owner, name, getattr(owner, name)) for owner, name, _ in _EXPLICIT]
        shown = warnings.showwarning

        def on_warning(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
            if "synchronizing CUDA operation" in str(message):
                self._note("")
            elif "Synchronization debug mode" not in str(message):
                shown(message, category, *rest, **more)

        with warnings.catch_warnings():
            warnings.filterwarnings("always", message=".*synchronizing CUDA operation.*")
            warnings.showwarning = on_warning
            for (owner, name, label), (_, _, function) in zip(_EXPLICIT, originals, strict=True):
                setattr(owner, name, self._noting(label, function))
            torch.cuda.set_sync_debug_mode("warn")
            try:
                yield
            finally:
                torch.cuda.set_sync_debug_mode(mode)
                for owner, name, function in originals:
                    setattr(owner, name, function)

    def _noting(self, label: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*args: Any, **kwargs: Any) -> Any:
            self._note(label)
            return function(*args, **kwargs)

        return noting
