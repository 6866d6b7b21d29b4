"""Which tensors a step can reach, where they live, and how many bytes they hold."""

from __future__ import annotations

import functools
import inspect
import re
import types
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from gaptrace_collectors.regions import parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DIRECT = "direct"
STATE = "state"

_MOST_TENSORS = 20_000
_DEEPEST = 10
_LEAVES = (str, bytes, int, float, complex, bool, type(None), type, types.ModuleType, torch.dtype)
_MODULE_INTERNALS = frozenset(vars(nn.Module()))
_CACHE_PATH = re.compile(r"past_key_values|cache|recurrent|conv_state|ssm_state", re.IGNORECASE)
_CACHE_NAME = re.compile(r"kv|k|v|keys?|values?|kc|vc", re.IGNORECASE)
_INDEX = re.compile(r"(\[[^\]]*\])+$")
_PACKED_NAME = re.compile(r"weight|scale|zero|pack|codebook", re.IGNORECASE)


@dataclass(frozen=True)
class Placement:
    """Where a tensor was at one step. `kind` is `direct` (an argument) or `state`."""

    kind: str
    shape: tuple[int, ...]
    address: int
    nbytes: int


def is_cache_name(name: str) -> bool:
    """Whether a tensor's path reads like a KV cache or a recurrent state."""
    last = _INDEX.sub("", name).rsplit(".", 1)[-1]
    if _PACKED_NAME.search(last):
        return False  # a quantised projection may well be called `kv`
    return bool(_CACHE_NAME.fullmatch(last) or _CACHE_PATH.search(name))


def nbytes(tensor: torch.Tensor) -> int:
    """Bytes of the tensor's elements; of a quantised one, of what it wraps."""
    return sum(int(part.numel() * part.element_size()) for part in parts_of(tensor))


def reachable(root: Any, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor that `root` holds, with a path such as `step.cache.layers[3].keys`.

    Looks into containers, attributes, closures and the globals a function names; parameters of
    modules are left out, since weights do not move. Objects of torch itself are not opened.
    """
    queue: deque[tuple[str, Any, int]] = deque([(name, root, 0)])
    seen: set[int] = set()
    count = 0
    while queue and count < _MOST_TENSORS:
        path, value, depth = queue.popleft()
        if isinstance(value, _LEAVES) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            count += 1
            yield path, value
        elif depth < _DEEPEST:
            queue.extend((p, v, depth + 1) for p, v in _children(path, value))


def _children(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, nn.Module):
        yield from ((f"{path}.{key}", item) for key, item in value._buffers.items())
        yield from ((f"{path}.{key}", item) for key, item in value._modules.items())
        for key, item in vars(value).items():
            if key not in _MODULE_INTERNALS and key != "_compiled_call_impl":
                yield f"{path}.{key}", item
    elif isinstance(value, dict):
        yield from (
            (f"{path}[{_key(key, n)}]", item) for n, (key, item) in enumerate(list(value.items()))
        )
    elif isinstance(value, (list, tuple, deque)):
        yield from ((f"{path}[{n}]", item) for n, item in enumerate(value))
    elif isinstance(value, functools.partial):
        yield f"{path}.func", value.func
        yield f"{path}.args", value.args
        yield f"{path}.keywords", value.keywords
    elif isinstance(value, types.MethodType):
        yield f"{path}.__self__", value.__self__
        yield path, value.__func__
    elif isinstance(value, types.FunctionType):
        if not (value.__module__ or "").startswith("torch."):
            yield from _function_children(path, value)
    elif not type(value).__module__.startswith(("torch", "builtins", "threading", "logging")):
        yield from ((f"{path}.{key}", item) for key, item in getattr(value, "__dict__", {}).items())


def _key(key: Any, number: int) -> str:
    """How a dictionary's key stands in a path; objects of one kind often print alike."""
    if isinstance(key, (str, int, tuple)):
        return repr(key)
    return f"{type(key).__name__} {number}"


def _function_children(path: str, function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    outer, inner = function, inspect.unwrap(function)
    if isinstance(inner, types.FunctionType):
        function = inner
    for key, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield f"{path}.{key}", cell.cell_contents
        except ValueError:  # a cell that nothing was put into yet
            continue
    # A decorated step carries its attributes on the wrapper.
    for key, item in {**vars(function), **vars(outer)}.items():
        if key != "__wrapped__":
            yield f"{path}.{key}", item
    for key in function.__code__.co_names:
        item = function.__globals__.get(key)
        if item is not None and not isinstance(item, (types.FunctionType, type)):
            yield key, item


def direct_tensors(value: Any, path: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors passed as they are or in plain tuples, lists and dicts, with their paths."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif type(value) in (tuple, list):
        for n, item in enumerate(value):
            yield from direct_tensors(item, f"{path}[{n}]")
    elif type(value) is dict:
        for n, (key, item) in enumerate(value.items()):
            yield from direct_tensors(item, f"{path}[{_key(key, n)}]")


def flat_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, torch.Tensor]]:
    """The direct tensors of a call in a fixed order, with their paths."""
    flat: list[tuple[str, torch.Tensor]] = []
    for n, item in enumerate(args):
        flat += direct_tensors(item, f"arg{n}")
    for name, item in kwargs.items():
        flat += direct_tensors(item, name)
    return flat


def named_arguments(
    call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Arguments by name, positional ones under the name that the signature gives them."""
    try:
        parameters = list(inspect.signature(call).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    named = {(names[n] if n < len(names) else f"arg{n}"): item for n, item in enumerate(args)}
    return named | kwargs


def snapshot(named: dict[str, Any], state: Any, state_name: str) -> dict[str, Placement]:
    """Where the inputs of one step are: its arguments, and what `state` can reach."""
    placements: dict[str, Placement] = {}
    direct: set[int] = set()
    for key, value in named.items():
        for path, tensor in direct_tensors(value, key):
            direct.add(id(tensor))
            placements[path] = placement(tensor, DIRECT)
    inside: list[tuple[str, torch.Tensor]] = []
    for key, value in named.items():
        inside += reachable(value, key)
    if state is not None:
        inside += reachable(state, state_name)
    for path, tensor in inside:
        if id(tensor) not in direct and not isinstance(tensor, nn.Parameter):
            direct.add(id(tensor))
            placements.setdefault(path, placement(tensor))
    return placements


def cache_tensors(named: dict[str, Any], state: Any, state_name: str) -> dict[str, torch.Tensor]:
    """KV caches and recurrent states among a step's arguments and state, each once, by path."""
    found: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    roots = [*named.items(), *([] if state is None else [(state_name, state)])]
    for key, value in roots:
        for path, tensor in reachable(value, key):
            known = id(tensor) in seen or isinstance(tensor, nn.Parameter)
            if not known and tensor.dim() > 1 and is_cache_name(path):
                seen.add(id(tensor))
                found[path] = tensor
    return found


def packed_buffers(model: nn.Module) -> list[torch.Tensor]:
    """Buffers that hold quantised weights, each once."""
    found = {
        id(buffer): buffer
        for name, buffer in model.named_buffers()
        if _PACKED_NAME.search(name) and not is_cache_name(name)
    }
    return list(found.values())


def placement(tensor: torch.Tensor, kind: str = STATE) -> Placement:
    """Where a tensor is now."""
    try:
        address = tensor.data_ptr()
    except RuntimeError:  # a wrapper subclass without storage
        address = 0
    return Placement(kind, tuple(tensor.shape), address, nbytes(tensor))


def byte_section(model: nn.Module | None, caches: dict[str, Placement]) -> dict[str, Any]:
    """The `bytes` section of run.json: parameters, buffers and caches.

    Weights read per step are the parameters but for embedding tables that nothing else uses (one
    row per token is gathered from those), plus quantised buffers. Tied tensors count once.
    """
    kv = sum(tensor.nbytes for tensor in caches.values()) or None
    section: dict[str, Any] = {
        "parameters": None,
        "buffers": None,
        "weights_total": None,
        "weights_read_per_step": None,
        "weights_source": None,
        "kv_allocated": kv,
        "kv_read_per_step": kv,
        "kv_source": "size of the cache tensors" if kv else None,
    }
    if model is None:
        return section
    parameters: dict[str, int] = {}
    read = total = 0
    users: dict[int, list[tuple[nn.Module, torch.Tensor]]] = {}
    for module in model.modules():
        for parameter in module._parameters.values():
            if parameter is not None:
                users.setdefault(_address(parameter), []).append((module, parameter))
    for owners in users.values():
        size = nbytes(owners[0][1])
        key = _dtype_name("", owners[0][1])
        parameters[key] = parameters.get(key, 0) + size
        total += size
        if not all(isinstance(module, nn.Embedding) for module, _ in owners):
            read += size
    buffers: dict[str, int] = {}
    known: set[int] = set()
    for name, buffer in model.named_buffers():
        if _address(buffer) in known:
            continue
        known.add(_address(buffer))
        key = _dtype_name(name, buffer)
        buffers[key] = buffers.get(key, 0) + nbytes(buffer)
        if _PACKED_NAME.search(name) and not is_cache_name(name):
            total += nbytes(buffer)
            read += nbytes(buffer)
    section |= {
        "parameters": parameters,
        "buffers": buffers,
        "weights_total": total,
        "weights_read_per_step": read,
        "weights_source": "parameters without embedding tables, plus quantised buffers",
    }
    return section


def _address(tensor: torch.Tensor) -> int:
    """What tied tensors have in common; wrapped and offloaded ones have no address of their own."""
    return placement(parts_of(tensor)[0]).address or id(tensor)


def _dtype_name(name: str, tensor: torch.Tensor) -> str:
    if "int4" in name and not tensor.dtype.is_floating_point:
        return "int4 (packed)"
    return str(tensor.dtype).removeprefix("torch.")
