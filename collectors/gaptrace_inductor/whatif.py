"""Changes a rebuilt step mechanically: what would Inductor make of the step written differently?

Each what-if edits the graphs in place and says how often it applied. One that does not apply, or
whose changed graph no longer runs on fake tensors, raises `WhatIfError` with the reason; nothing
is ever predicted from a graph that was only partly changed.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from . import calls
from .graphs import (
    Input,
    Rebuilt,
    Segment,
    is_token_input,
    mark_op,
    memory,
    op_at,
    span_of,
    strides_of,
)
from .rebuild import first_call

if TYPE_CHECKING:
    from .execution_trace import TensorRef

aten = torch.ops.aten
NAMES = ("unstack-cache", "static-cache", "batch=N", "weight-dtype=D")
_fresh = itertools.count(1 << 40)
# Ops whose second argument is the result's shape.
RESHAPES = (
    aten.view,
    aten.reshape,
    aten.expand,
    aten._unsafe_view,
    aten.new_zeros,
    aten.new_empty,
    aten.new_ones,
    aten.new_full,
)
# Group size of the 4-bit weights, the usual one of tinygemm kernels.
GROUP = 128


class WhatIfError(ValueError):
    """The what-if cannot be applied to this step; the message says why."""


@dataclass(frozen=True)
class Change:
    """What a what-if did: its name, a sentence, how many places it changed."""

    name: str
    text: str
    places: int


def apply(name: str, rebuilt: Rebuilt, mode: Any) -> Change:
    """Applies the what-if called `name` (one of `NAMES`) to `rebuilt`.

    Raises:
        WhatIfError: the name is unknown, or the step does not allow the change.
    """
    key, _, value = name.partition("=")
    if key == "unstack-cache":
        return _unstack(rebuilt, mode)
    if key == "static-cache":
        return _static(rebuilt, mode)
    if key == "batch" and value.isdigit() and int(value) > 0:
        return _batch(rebuilt, mode, int(value))
    if key == "weight-dtype" and value:
        return _weights(rebuilt, mode, value)
    raise WhatIfError(f"unknown what-if {name!r}; there are {', '.join(NAMES)}")


def _unstack(rebuilt: Rebuilt, mode: Any) -> Change:
    """One tensor per layer in place of a stacked cache: each constant `select` becomes an input."""
    count = 0
    for segment in rebuilt.segments:
        shared: dict[int, list[Input]] = {}
        for item in segment.inputs:
            if item.role == "mutated" and not item.apart:
                shared.setdefault(item.ref.storage_id, []).append(item)
        for group in shared.values():
            if len(group) > 1:
                for item in group:
                    item.apart = True
                count += len(group)
        while stacked := next(filter(_is_stacked, segment.inputs), None):
            count += _split_input(segment, stacked, mode)
    if not count:
        raise WhatIfError("no stacked cache: no written input is used only by constant indices")
    return Change("unstack-cache", f"{count} cache tensors in place of views of a stack", count)


def _is_stacked(item: Input) -> bool:
    users = list(item.node.users)
    if item.role != "mutated" or not users:
        return False
    packets = {getattr(user.target, "overloadpacket", None) for user in users}
    if not packets <= {aten.select, aten.unbind}:
        return False
    return any(isinstance(user.args[2] if len(user.args) > 2 else 0, int) for user in users)


def _split_input(segment: Segment, item: Input, mode: Any) -> int:
    pieces: dict[tuple[int, int], fx.Node] = {}
    for user in list(item.node.users):
        axis = int(user.args[1]) if len(user.args) > 1 else 0
        if user.target.overloadpacket is aten.unbind:
            chosen = [(part, int(part.args[1])) for part in list(user.users)]
        else:
            chosen = [(user, int(user.args[2]))]
        for part, index in chosen:
            axis %= len(item.ref.shape)
            index %= item.ref.shape[axis]
            if (axis, index) not in pieces:
                shape = tuple(n for i, n in enumerate(item.ref.shape) if i != axis)
                ref = _like(item.ref, shape)
                pieces[axis, index] = _add_input(segment, ref, item.role, mode)
            part.replace_all_uses_with(pieces[axis, index])
            segment.graph.erase_node(part)
        if not user._erased and not user.users:
            segment.graph.erase_node(user)
    segment.graph.erase_node(item.node)
    segment.inputs.remove(item)
    return len(pieces)


def _static(rebuilt: Rebuilt, mode: Any) -> Change:
    """A buffer written in place where the cache grew by `cat`: same length, nothing copied."""
    count = 0
    for segment in rebuilt.segments:
        inputs = {item.node: item for item in segment.inputs}
        for node in list(segment.graph.nodes):
            if getattr(node.target, "overloadpacket", None) is not aten.cat:
                continue
            parts = node.args[0]
            if len(parts) != 2 or parts[0] not in inputs or len(parts[0].users) != 1:
                continue
            old, new = inputs[parts[0]], parts[1]
            fake = node.meta["fake"]
            axis = (int(node.args[1]) if len(node.args) > 1 else 0) % fake.dim()
            shape = tuple(int(n) for n in fake.shape)
            ref = _like(old.ref, shape)
            where = _like(ref, (shape[axis] - old.ref.shape[axis],), "long int", 8)
            buffer = _add_input(segment, ref, "mutated", mode)
            position = _add_input(segment, where, "integer", mode)
            args = (buffer, axis, position, new)
            _insert(segment, node, mode, aten.index_copy_.default, args)
            node.replace_all_uses_with(buffer)
            segment.outputs[:] = [out for out in segment.outputs if out not in (node, buffer)]
            segment.graph.erase_node(node)
            segment.graph.erase_node(old.node)
            segment.inputs.remove(old)
            count += 1
    if not count:
        raise WhatIfError("no growing cache: no input is extended by cat")
    return Change("static-cache", f"{count} caches written in place instead of grown", count)


def _batch(rebuilt: Rebuilt, mode: Any, size: int) -> Change:
    """`size` sequences in place of those recorded: leading dimensions of activations grow."""
    if len(rebuilt.segments) != 1:
        raise WhatIfError("the step has graph breaks: its pieces cannot be resized together")
    segment = rebuilt.segments[0]
    seeds = [item for item in segment.inputs if is_token_input(item)]
    if not seeds:
        raise WhatIfError("no input ids found: no integer input is looked up in an embedding")
    was = seeds[0].ref.shape[0]
    if size == was:
        raise WhatIfError(f"the step was recorded at batch {was}")
    grown = set()
    for item in segment.inputs:
        axis = _batch_axis(item, was)
        if item in seeds or axis is not None:
            axis = axis or 0
            shape = (*item.ref.shape[:axis], size, *item.ref.shape[axis + 1 :])
            numel = item.ref.numel // was * size
            strides = calls.contiguous(shape)
            item.ref = replace(item.ref, shape=shape, numel=numel, offset=0, strides=strides)
            grown.add(item.node)
    _refake(segment, mode)
    changed = 0
    for node in segment.graph.nodes:
        if node.op != "call_function":
            continue
        touched = any(parent in grown for parent in node.all_input_nodes)
        if touched:
            changed += _resize_arguments(node, was, size)
        _run(node, mode, f"batch={size}")
        if touched:
            grown.add(node)
    return Change(f"batch={size}", f"batch {was} -> {size}", changed + len(seeds))


def _batch_axis(item: Input, was: int) -> int | None:
    """The batch dimension of a cache or state, None for weights and numbers.

    States have three dimensions or more; of weights only stacked experts and convolutions do,
    and those lead with their own counts.
    """
    axis = 1 if _is_stacked(item) else 0
    if item.role == "integer" or len(item.ref.shape) < 3 or item.ref.shape[axis] != was:
        return None
    return axis


def _resize_arguments(node: fx.Node, was: int, size: int) -> int:
    packet = getattr(node.target, "overloadpacket", None)
    if packet not in RESHAPES or not isinstance(node.args[1], (list, tuple)):
        return 0
    shape = list(node.args[1])
    if not shape or not isinstance(shape[0], int) or shape[0] == -1 or shape[0] % was:
        return 0
    source = node.args[0].meta["fake"]
    fixed = 1
    for n in shape[1:]:
        fixed *= n if isinstance(n, int) and n > 0 else 1
    # A view that puts the batch elsewhere than in front keeps its first size.
    views = packet in (aten.view, aten.reshape, aten._unsafe_view)
    if views and -1 not in shape and source.numel() == fixed * shape[0]:
        return 0
    shape[0] = shape[0] // was * size
    node.args = (node.args[0], shape, *node.args[2:])
    return 1


def _weights(rebuilt: Rebuilt, mode: Any, name: str) -> Change:
    if name == "int4":
        return _int4(rebuilt, mode)
    wanted = getattr(torch, name, None)
    if not isinstance(wanted, torch.dtype) or not wanted.is_floating_point:
        raise WhatIfError(f"{name!r} is no dtype for weights; there are int4 and float dtypes")
    if wanted.itemsize < 2:
        raise WhatIfError(f"{name} weights need scales that the step does not have")
    sizes: dict[str, int] = {}
    for segment in rebuilt.segments:
        for item in segment.inputs:
            if calls.dtype_of(item.ref.dtype).is_floating_point and len(item.ref.shape) > 1:
                sizes[item.ref.dtype] = sizes.get(item.ref.dtype, 0) + item.ref.numel
    if not sizes:
        raise WhatIfError("the step reads no floating-point weights")
    main = max(sizes, key=lambda key: sizes[key])
    old = calls.dtype_of(main)
    if old == wanted:
        raise WhatIfError(f"the weights are {name} already")
    text = next(cpp for cpp, short in calls.CPP_DTYPES.items() if short == name)
    count = 0
    for segment in rebuilt.segments:
        for item in segment.inputs:
            if item.ref.dtype == main:
                item.ref = replace(item.ref, dtype=text, itemsize=wanted.itemsize)
                count += 1
        _refake(segment, mode)
        for node in segment.graph.nodes:
            if node.op == "call_function":
                node.args = tuple(wanted if arg == old else arg for arg in node.args)
                node.kwargs = {k: wanted if v == old else v for k, v in node.kwargs.items()}
                _run(node, mode, f"weight-dtype={name}")
    return Change(f"weight-dtype={name}", f"{count} inputs {old} -> {wanted}", count)


def _int4(rebuilt: Rebuilt, mode: Any) -> Change:
    """`_weight_int4pack_mm` (groups of 128) for every bf16 matmul with a weight it can take."""
    count = 0
    for segment in rebuilt.segments:
        inputs = {item.node: item for item in segment.inputs}
        for node in list(segment.graph.nodes):
            match = _weight_of(node, inputs)
            if match is None:
                continue
            x, weight, bias, (n, k) = match
            ref = weight.ref
            packed = _like(ref, (n // 8, k // 128, 32, 4), "int", 4)
            scales = _like(ref, (k // GROUP, n, 2))
            weights = [_add_input(segment, r, "parameter", mode) for r in (packed, scales)]
            shape = [int(s) for s in node.meta["fake"].shape]
            flat = _insert(segment, node, mode, aten.reshape.default, (x, [-1, k]))
            call = aten._weight_int4pack_mm.default
            out = _insert(segment, node, mode, call, (flat, weights[0], GROUP, weights[1]))
            out = _insert(segment, node, mode, aten.reshape.default, (out, shape))
            if bias is not None:
                out = _insert(segment, node, mode, aten.add.Tensor, (out, bias))
            node.replace_all_uses_with(out)
            segment.outputs[:] = [out if o is node else o for o in segment.outputs]
            segment.graph.erase_node(node)
            count += 1
        for item in list(segment.inputs):
            _drop_unused(segment, item)
    if not count:
        raise WhatIfError("no bf16 matmul whose weight the int4 kernel can take")
    return Change("weight-dtype=int4", f"{count} matmuls with 4-bit weights", count)


def _weight_of(
    node: fx.Node, inputs: dict[fx.Node, Input]
) -> tuple[fx.Node, Input, fx.Node | None, tuple[int, int]] | None:
    packet = getattr(node.target, "overloadpacket", None)
    bias = None
    if packet is aten.linear:
        x, weight, transposed = node.args[0], node.args[1], True
        bias = node.args[2] if len(node.args) > 2 else None
    elif packet is aten.addmm and not node.kwargs:
        bias, x, weight = node.args[:3]
        transposed = False
    elif packet in (aten.mm, aten.matmul):
        x, weight, transposed = node.args[0], node.args[1], False
    else:
        return None
    if getattr(weight, "target", None) is aten.t.default:
        weight, transposed = weight.args[0], not transposed
    item = inputs.get(weight)
    if item is None or item.role != "parameter" or len(item.ref.shape) != 2:
        return None
    n, k = item.ref.shape if transposed else item.ref.shape[::-1]
    fits = n % 8 == 0 and k % 128 == 0 and calls.dtype_of(item.ref.dtype) == torch.bfloat16
    return (x, item, bias, (n, k)) if fits else None


def _like(ref: TensorRef, shape: tuple[int, ...], dtype: str = "", itemsize: int = 0) -> TensorRef:
    """A contiguous tensor with memory of its own, otherwise like `ref`."""
    return replace(
        ref,
        tensor_id=next(_fresh),
        storage_id=next(_fresh),
        offset=0,
        numel=math.prod(shape),
        itemsize=itemsize or ref.itemsize,
        shape=shape,
        strides=calls.contiguous(shape),
        dtype=dtype or ref.dtype,
    )


def _add_input(segment: Segment, ref: TensorRef, role: str, mode: Any) -> fx.Node:
    with segment.graph.inserting_before(first_call(segment.graph)):
        node = segment.graph.placeholder(f"what{next(_fresh)}")
    item = Input(ref, node, role, apart=True)
    segment.inputs.append(item)
    _fake_input(item, mode)
    return node


def _insert(
    segment: Segment, before: fx.Node, mode: Any, target: Any, args: tuple[Any, ...]
) -> fx.Node:
    """A new call in front of `before`, which counts as a part of the same recorded op."""
    with segment.graph.inserting_before(before):
        node = segment.graph.call_function(target, args)
    mark_op(node, op_at(before.meta.get("stack_trace")) or 0, target._schema.name)
    _run(node, mode, str(target))
    return node


def _drop_unused(segment: Segment, item: Input) -> None:
    for user in list(item.node.users):
        if user.target is aten.t.default and not user.users:
            segment.graph.erase_node(user)
    if not item.node.users:
        segment.graph.erase_node(item.node)
        segment.inputs.remove(item)


def _fake_input(item: Input, mode: Any) -> None:
    ref = item.ref
    with mode:
        flat = memory(ref, ref.offset + span_of(ref))
        item.node.meta["fake"] = flat.as_strided(ref.shape, strides_of(ref), ref.offset)


def _refake(segment: Segment, mode: Any) -> None:
    for item in segment.inputs:
        _fake_input(item, mode)


def _run(node: fx.Node, mode: Any, name: str) -> None:
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["fake"])
    try:
        with mode, torch.no_grad():
            node.meta["fake"] = node.target(*args, **kwargs)
    except (RuntimeError, TypeError, ValueError, IndexError, AssertionError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise WhatIfError(f"{name} does not fit {node.target}: {first[:300]}") from error
