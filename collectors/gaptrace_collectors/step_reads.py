"""What one decode step reads, seen by running one with every operator's arguments looked at.

That step runs eagerly, behind everything that is measured. What operators are given is counted as
views: experts that were routed to, pages that were gathered, the part of a cache that was sliced.
Kernels that torch does not dispatch (Triton, extensions) are not seen; `unseen` tensors are those
that only they can have read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gaptrace_collectors.regions import Key, Regions, key_of, parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_ASSIGNING = (
    *("copy_", "index_copy_", "index_put_", "_index_put_impl_", "scatter_", "fill_", "zero_"),
    *("masked_fill_", "masked_scatter_", "_foreach_copy_", "set_", "resize_"),
)
# Older versions cannot look at a step of which a library compiles a part.
SEES_COMPILED_PARTS = hasattr(TorchDispatchMode, "ignore_compile_internals")
_GATHERING = ("index", "_unsafe_index", "index_select", "gather", "take_along_dim", "take")
_LENGTHS = re.compile(
    r"(cache_?)?seq_?lens?(_k|_kv)?|seqused_k|context_lens|kv_lens|cache_seqlens", re.IGNORECASE
)


class StepReads(TorchDispatchMode):  # type: ignore[misc]
    """A context in which one step runs; `watched` tensors are counted."""

    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """What a library compiles inside the step runs compiled, as in any other step."""
        return True

    def __init__(self, watched: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self.ran: set[int] = set()  # modules whose forward was called
        self._regions: dict[Key, Regions] = {}
        self._counted: set[tuple[Key, int, tuple[int, ...]]] = set()
        for tensor in watched:
            for part in parts_of(tensor):
                self._watch(part)

    def _watch(self, tensor: torch.Tensor) -> None:
        key = key_of(tensor)
        if key is None:
            return
        tied = (key, tensor.storage_offset(), tuple(tensor.shape))
        if tied in self._counted:
            return
        self._counted.add(tied)
        size = tensor.numel() * tensor.element_size()
        if key in self._regions:
            size += self._regions[key].size
        self._regions[key] = Regions(min(size, tensor.untyped_storage().nbytes()))

    def run(self, call: Callable[[], Any]) -> Any:
        """Make the call, and note what it reads and which modules it runs."""
        hook = register_module_forward_pre_hook(lambda module, _: self.ran.add(id(module)))
        try:
            with self:
                return call()
        finally:
            hook.remove()

    def of(self, tensor: torch.Tensor) -> list[Regions]:
        """The regions of a watched tensor's storages."""
        keys = [key_of(part) for part in parts_of(tensor)]
        return [self._regions[key] for key in keys if key in self._regions]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        self._note(func, args, kwargs or {}, out)
        return out

    def _note(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        schema = getattr(func, "_schema", None)
        shared = {key_of(leaf) for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)}
        if schema is None:  # an operator of operators, such as flex attention
            self._note_all((args, kwargs), shared)
            return
        arguments = list(schema.arguments)
        bound = {item.name: value for item, value in zip(arguments, args, strict=False)} | kwargs
        name = schema.name.split("::")[-1]
        for item in arguments:
            for tensor in tree_leaves(bound.get(item.name)):
                if not isinstance(tensor, torch.Tensor):
                    continue
                writes = item.alias_info is not None and item.alias_info.is_write
                for part in parts_of(tensor):
                    regions = self._regions.get(key_of(part) or ("", 0))
                    if regions is None:
                        continue
                    if writes and (item.is_out or name in _ASSIGNING):
                        regions.touched = True
                    elif writes or key_of(part) not in shared:
                        _read(regions, name, item.name, part, bound, out)

    def _note_all(self, values: Any, shared: set[Key | None]) -> None:
        for tensor in tree_leaves(values):
            for part in parts_of(tensor) if isinstance(tensor, torch.Tensor) else ():
                key = key_of(part)
                if key in self._regions and key not in shared:
                    self._regions[key].read(part)


def _read(
    regions: Regions, op: str, role: str, view: torch.Tensor, bound: dict[str, Any], out: Any
) -> None:
    """What an operator reads of a tensor that it is given as `role`."""
    if op == "embedding" and role == "weight":
        regions.touched = True  # one row per token; embedding tables are not counted
        return
    if role in ("self", "input") and op in _GATHERING:
        rows = _rows(op, bound)
        if rows is not None and view.dim():
            regions.read_rows(view, rows)
        else:
            regions.read_some(min(out.numel(), view.numel()) * view.element_size())
        return
    groups = bound.get("offs")
    if isinstance(groups, torch.Tensor) and view.dim() == 3 and groups.numel() == view.shape[0]:
        sizes = torch.diff(groups.detach(), prepend=groups.new_zeros(1))
        for group in (sizes > 0).nonzero().flatten().tolist():
            regions.read(view[group])
        return
    if not _read_to_length(regions, view, bound):
        regions.read(view)


def _rows(op: str, bound: dict[str, Any]) -> torch.Tensor | None:
    """The rows that an operator gathers; None where it gathers otherwise."""
    if op == "index_select":
        index = bound.get("index")
        return index if bound.get("dim") == 0 and isinstance(index, torch.Tensor) else None
    first, *others = bound.get("indices") or [None]
    if not isinstance(first, torch.Tensor) or any(item is not None for item in others):
        return None
    return None if first.dtype == torch.bool and first.dim() != 1 else first


def _read_to_length(regions: Regions, view: torch.Tensor, bound: dict[str, Any]) -> bool:
    """Whether an attention kernel was told how far to read a cache, and that was counted."""
    lengths = next(
        (
            value
            for name, value in bound.items()
            if _LENGTHS.fullmatch(name) and isinstance(value, torch.Tensor) and value.dim() == 1
        ),
        None,
    )
    if lengths is None or view.dim() < 4 or not view.is_floating_point():
        return False
    window = bound.get("window_size_left")
    if isinstance(window, int) and window >= 0:
        lengths = lengths.clamp(max=window + 1)
    tokens = view.shape[0] * view.shape[1]  # sequences or pages, positions in each
    bytes_per_token = view.numel() // max(tokens, 1) * view.element_size()
    regions.read_some(int(lengths.sum()) * bytes_per_token)
    return True


def unseen(
    model: nn.Module, reads: StepReads, tensors: Iterable[torch.Tensor]
) -> list[tuple[str, torch.Tensor]]:
    """Those of `tensors` that no operator was given although their module ran, each once.

    A module without children also counts as run where its parent did and no operator read anything
    of that parent: a fused kernel may take the weights of parts that are never called.
    """
    wanted = {id(tensor) for tensor in tensors}
    parents = {id(child): part for part in model.modules() for child in part.children()}

    def untouched(tensor: torch.Tensor) -> bool:
        return not any(region.touched for region in reads.of(tensor))

    def ran(module: nn.Module) -> bool:
        if id(module) in reads.ran:
            return True
        parent = parents.get(id(module))
        if parent is None or id(parent) not in reads.ran or next(module.children(), None):
            return False
        inside = [*parent.parameters(), *parent.buffers()]
        return all(untouched(tensor) for tensor in inside if id(tensor) in wanted)

    found: dict[int, tuple[str, torch.Tensor]] = {}
    for prefix, module in model.named_modules():
        for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
            if tensor is None or id(tensor) not in wanted or id(tensor) in found:
                continue
            if untouched(tensor) and ran(module):
                found[id(tensor)] = (f"{prefix}.{name}" if prefix else name, tensor)
    return list(found.values())
