"""Which bytes of a storage were read: views are counted once, however often they are read."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import torch

Key = tuple[str, int]


def parts_of(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The plain tensors that a tensor consists of: itself, or what a quantised one wraps."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None or type(tensor) in (torch.Tensor, torch.nn.Parameter):
        return [tensor]
    inner: list[torch.Tensor] = []
    for name in flatten()[0]:
        value = getattr(tensor, name)
        if isinstance(value, torch.Tensor):
            inner += parts_of(value)
    return inner


def key_of(tensor: torch.Tensor) -> Key | None:
    """What tells a tensor's storage from others; None where it has none."""
    with contextlib.suppress(RuntimeError, NotImplementedError):
        address = tensor.untyped_storage().data_ptr()
        return (str(tensor.device), address) if address else None
    return None


class Regions:
    """What is read of one storage, of which `size` bytes count at most."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.touched = False  # by anything, writing and embedding look-ups included
        self._dense: list[tuple[int, int]] = []
        self._strided: dict[tuple[Any, ...], int] = {}
        self._rows: dict[tuple[Any, ...], tuple[torch.Tensor, int]] = {}

    def read(self, view: torch.Tensor) -> None:
        """All of a view was read."""
        self.touched = True
        width = view.element_size()
        pairs = zip(view.stride(), view.shape, strict=True)
        # A dimension of stride 0 repeats what is there; one of size 1 has no stride.
        dims = sorted(((step, n) for step, n in pairs if step and n > 1), reverse=True)
        count = math.prod(n for _, n in dims)
        start = view.storage_offset() * width
        extent = 1 + sum(step * (n - 1) for step, n in dims)
        if view.numel() == 0:
            return
        if count == extent:
            self._dense.append((start, start + count * width))
            return
        key = (start, width, tuple(step for step, _ in dims))
        self._strided[key] = max(self._strided.get(key, 0), count * width)

    def read_rows(self, view: torch.Tensor, rows: torch.Tensor) -> None:
        """Rows of a view (its first dimension) were gathered; each counts once."""
        self.touched = True
        if not view.shape[0]:
            return
        rows = rows.detach().flatten()
        if rows.dtype == torch.bool:
            rows = rows.nonzero().flatten()
        else:
            rows = torch.where(rows < 0, rows + view.shape[0], rows)
        key = (view.storage_offset(), tuple(view.shape[1:]), view.stride())
        before = self._rows.get(key)
        every = rows if before is None else torch.cat([before[0], rows.to(before[0].device)])
        self._rows[key] = (every.unique(), view[0].numel() * view.element_size())

    def read_some(self, count: int) -> None:
        """So many bytes were read, from nobody knows where."""
        self.touched = True
        self._strided[("some", len(self._strided))] = count

    @property
    def bytes(self) -> int:
        """Bytes that were read."""
        total = sum(self._strided.values())
        total += sum(int(rows.numel()) * size for rows, size in self._rows.values())
        end = 0
        for start, stop in sorted(self._dense):
            total += max(0, stop - max(start, end))
            end = max(end, stop)
        return int(min(total, self.size))
