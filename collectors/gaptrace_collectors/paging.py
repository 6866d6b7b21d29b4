"""Paged caches: how much of a pool of pages belongs to the sequences of a step.

Block tables and lengths are looked for among a call's arguments, in the model, and in the context
objects that its attention modules ask for.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

import torch

from gaptrace_collectors.tensors import Placement, reachable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

_LAST_NAME = re.compile(r".*?([A-Za-z_]\w*)'?\]?$")
_TABLE = re.compile(r"(kv_)?(block|page)_?tables?|kv_page_indices|slot_mapping", re.IGNORECASE)
_LENGTHS = re.compile(
    r"context_lens?|(cache_?)?seq_?lens?|seqused_k|kv_lens?|cache_seqlens|context_lengths",
    re.IGNORECASE,
)
_PAGE = re.compile(r"_?(kv_?(cache_)?)?(block|page)_?size", re.IGNORECASE)


class Paging:
    """The page tables that one step can reach; empty where its caches are not paged."""

    def __init__(self, named: dict[str, Any], model: nn.Module | None) -> None:
        self.tables: list[torch.Tensor] = []
        self.lengths: torch.Tensor | None = None
        self.page_sizes: set[int] = set()
        roots = list(named.items())
        if model is not None:
            roots += [("module", model), *_asked_for(model)]
        for name, root in roots:
            for path, tensor in reachable(root, name):
                self._look(path, tensor)
            for key, value in _numbers(root):
                if _PAGE.fullmatch(key):
                    self.page_sizes.add(value)

    def _look(self, path: str, tensor: torch.Tensor) -> None:
        match = _LAST_NAME.match(path)
        if match is None or tensor.is_floating_point() or not tensor.numel():
            return
        if _TABLE.fullmatch(match[1]):
            self.tables.append(tensor)
        elif _LENGTHS.fullmatch(match[1]) and tensor.dim() == 1:
            self.lengths = tensor

    def __bool__(self) -> bool:
        return bool(self.tables)

    def read_bytes(self, caches: list[Placement]) -> int | None:
        """Bytes of the pools that the sequences of the step fill; None where that is not known."""
        table = next((item for item in self.tables if item.dim() > 1), None)
        if table is None or self.lengths is None or not caches:
            return None
        longest, total = int(self.lengths.max()), int(self.lengths.sum())
        read = 0
        for pool in caches:
            if len(pool.shape) < 4:
                return None
            pages, size = pool.shape[-4], pool.shape[-3]
            needed = -(-longest // size)
            known = size in self.page_sizes or needed == table.shape[-1]
            if not known or needed > table.shape[-1] or int(table.max()) >= pages:
                return None
            read += pool.nbytes // (pages * size) * total
        return read


def _asked_for(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Objects that the modules' forward functions take from globals, or from a getter there."""
    seen: set[int] = set()
    for kind in {type(module) for module in model.modules()}:
        function = inspect.unwrap(kind.forward)
        for name, value in _globals_of(function):
            items = [(name, value)]
            if inspect.isfunction(value):
                items = list(_globals_of(inspect.unwrap(value)))
            for inner, item in items:
                callable_or_type = callable(item) or inspect.ismodule(item)
                if item is None or callable_or_type or id(item) in seen:
                    continue
                seen.add(id(item))
                yield inner, item


def _globals_of(function: Any) -> list[tuple[str, Any]]:
    code = getattr(function, "__code__", None)
    if code is None or (function.__module__ or "").startswith("torch"):
        return []
    values = function.__globals__
    return [(name, values[name]) for name in code.co_names if name in values]


def _numbers(root: Any) -> Iterator[tuple[str, int]]:
    """Whole numbers that an object or a module's parts hold as attributes."""
    modules = getattr(root, "modules", None)
    for item in modules() if inspect.ismethod(modules) else [root]:
        for key, value in getattr(item, "__dict__", {}).items():
            if isinstance(value, int) and not isinstance(value, bool):
                yield key, value
