"""Rebuilds the FX graph that Dynamo would hand to Inductor, from the ops of one recorded step.

The unit is the outermost operator call. Each becomes a call of the same overload with its
recorded arguments. Values are found by tensor id in call order; an id that no earlier op of the
step produced is a graph input. Python numbers were recorded as CPU scalars without their value:
0.7, 2 and True stand in, none of which folds away (a CPU scalar that the operator would not take
as a number is a tensor).

Attention is taken by its recorded children, so that the backend which eager chose stays; so is any
op that comes out different from its recording (autocast). An op that Dynamo cannot trace
(`.item()`, `nonzero`) ends a segment: the step is rebuilt as several graphs, as Dynamo would.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._subclasses import fake_tensor

from . import calls
from .execution_trace import TensorRef, tensors
from .graphs import (
    InPlaceWrite,
    Input,
    Made,
    Read,
    Rebuilt,
    Segment,
    Value,
    follows_batch,
    mark_op,
    memory,
    span_of,
    strides_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .execution_trace import Op, Step

RECORDED = "recorded"
# What `gaptrace collect` opens around what its compiling modes compile.
SPAN = "gaptrace.region"
BY_CHILDREN = frozenset({"aten::scaled_dot_product_attention"})
# Ops whose result shape or value is known only on the host: Dynamo's graph ends there.
BREAKS = frozenset(
    {
        "aten::_local_scalar_dense",
        "aten::is_nonzero",
        "aten::nonzero",
        "aten::nonzero_numpy",
        "aten::masked_select",
        "aten::_unique2",
        "aten::unique_dim",
        "aten::unique_consecutive",
        "aten::equal",
    }
)
GEMMS = re.compile(
    r"aten::(mm|addmm|bmm|baddbmm|_scaled_mm|_grouped_mm|_scaled_grouped_mm|_int_mm|_weight_int\w+"
    r"|linear|matmul|addmv|mv|dot|_cslt_sparse_mm|_scaled_mm_v2)$"
)
NUMBERS = {torch.float64: 0.7, torch.int64: 2, torch.bool: True, torch.complex128: 0.7}
# Where a state carried from step to step is looked for: smaller results are bookkeeping.
STATE_ELEMENTS = 64
UNTRACEABLE = (
    fake_tensor.DataDependentOutputException,
    fake_tensor.DynamicOutputShapeException,
    fake_tensor.UnsupportedOperatorException,
)
FAILURES = (RuntimeError, TypeError, ValueError, IndexError, AssertionError, LookupError)


class RebuildError(RuntimeError):
    """An op of the step could not be repeated on fake tensors; the message names it."""


@dataclass(frozen=True)
class Region:
    """Which ops are compiled.

    `recorded`: those in the span by which the recorder marks what its compiling modes compile,
    where there is none `last-gemm`. `last-gemm`: all up to the last GEMM. `all`, or a span's name.
    """

    rule: str = RECORDED

    def resolved(self, ops: Iterable[Op]) -> Region:
        """The rule that `recorded` stands for on these ops."""
        if self.rule != RECORDED:
            return self
        marked = any(SPAN in op.scope for op in ops)
        return Region(SPAN if marked else "last-gemm")

    def members(self, ops: list[Op]) -> frozenset[int]:
        """Indices of the compiled ops.

        Raises:
            RebuildError: the rule names a span that no op has around it.
        """
        if self.rule == RECORDED:
            return self.resolved(ops).members(ops)
        if self.rule == "all":
            return frozenset(range(len(ops)))
        if self.rule == "last-gemm":
            gemms = [i for i, op in enumerate(ops) if holds_gemm(op)]
            return frozenset(range(gemms[-1] + 1)) if gemms else frozenset(range(len(ops)))
        inside = frozenset(
            i for i, op in enumerate(ops) if any(re.search(self.rule, s) for s in op.scope)
        )
        if not inside:
            raise RebuildError(f"no op lies in a span that matches {self.rule!r}")
        return inside


def rebuild(step: Step, region: Region, mode: Any) -> Rebuilt:
    """The graphs of `step`, its compiled ops chosen by `region`, checked on fake tensors.

    Raises:
        RebuildError: an op fails on fake tensors or has no counterpart in this torch.
    """
    builder = _Builder(list(_units(step.ops)), mode)
    builder.run(region.members(builder.ops))
    builder.keep_carried(step.following)
    builder.keep_states()
    return builder.finish()


def holds_gemm(op: Op) -> bool:
    """True where `op` or what it called is a matrix multiplication."""
    return any(GEMMS.match(part.name) for part in op.walk())


class _Builder:
    def __init__(self, ops: list[Op], mode: Any) -> None:
        self.ops = ops
        self.mode = mode
        self.live: dict[int, Value] = {}
        self.owner: dict[int, Value] = {}
        self.extent: dict[int, int] = {}
        self.made: list[Value] = []
        self.written: list[tuple[int, TensorRef]] = []
        self.uses: list[tuple[int, Value, int]] = []
        self.result = Rebuilt(ops)

    def run(self, members: frozenset[int]) -> None:
        """Adds every op, in call order, to the graph it belongs to."""
        current: Segment | None = None
        last = -1
        for index, op in enumerate(self.ops):
            for ref in tensors(list(op.inputs)):
                self._see(ref)
            if calls.is_inert(op) and not _breaks(op):
                continue
            self._note_uses(index, op)
            if index in members and not _breaks(op):
                if current is None:
                    current = Segment(fx.Graph())
                    self.result.segments.append(current)
                if self._compiled(current, index, op):
                    current.ops.append(index)
                    last = index
                    continue
            (self.result.breaks if index in members else self.result.outside).append(index)
            current = None
            self._eager(index, op)
        if last >= 0:
            for ref in tensors(list(self.ops[last].outputs)):
                self._mark(self._known(ref))

    def keep_carried(self, following: tuple[Op, ...]) -> None:
        """Makes outputs of the values that the next step reads."""
        produced: set[int] = set()
        for op in following:
            for ref in tensors(list(op.inputs)):
                if ref.tensor_id not in produced:
                    self._mark(self._known(ref))
            produced.update(ref.tensor_id for ref in tensors(list(op.outputs)))

    def keep_states(self) -> None:
        """Makes outputs of unused results shaped like an input: a state for the next step."""
        shapes = {
            (item.ref.shape, item.ref.dtype)
            for segment in self.result.segments
            for item in segment.inputs
            if item.ref.numel >= STATE_ELEMENTS
        }
        for value in self.made:
            node, ref = value.node, value.ref
            if node is None or node.users or (ref.shape, ref.dtype) not in shapes:
                continue
            if "!" not in str(getattr(node.target, "_schema", "")):
                self._mark(value)

    def finish(self) -> Rebuilt:
        """The graphs, with the part that each input plays."""
        for index, ref in self.written:
            extent = self.extent.get(ref.storage_id, ref.numel)
            self.result.writes.append(
                InPlaceWrite(index, ref.storage_id, ref.numel, extent, ref.itemsize)
            )
            for segment in self.result.segments:
                for item in segment.inputs:
                    if item.ref.storage_id == ref.storage_id and not item.apart:
                        item.role = "mutated"
        self._flow()
        self.result.segments = [segment for segment in self.result.segments if segment.ops]
        return self.result

    def _flow(self) -> None:
        grown = {node for segment in self.result.segments for node in follows_batch(segment)}
        made: dict[Value, int] = {}
        for op, value, size in self.uses:
            if value not in made:
                made[value] = len(made)
                whole = value.ref.numel * value.ref.itemsize
                self.result.made.append(Made(value.op, whole, value.node in grown))
            self.result.reads.append(Read(op, made[value], size))

    def _note_uses(self, index: int, op: Op) -> None:
        """Keeps which values of the step `op` reads; a view reads nothing."""
        inputs = list(tensors(list(op.inputs)))
        memories = {ref.storage_id for ref in inputs}
        results = {ref.storage_id for ref in tensors(list(op.outputs))}
        if results and results <= memories and "!" not in op.schema:
            return
        for ref in {(ref.storage_id, ref.offset): ref for ref in inputs}.values():
            owner = self.owner.get(ref.storage_id)
            if owner is not None and owner.op >= 0:
                size = min(ref.numel, owner.ref.numel) * ref.itemsize
                self.uses.append((index, owner, size))

    def _see(self, ref: TensorRef) -> None:
        owner = self.owner.get(ref.storage_id)
        if ref.numel and (owner is None or owner.external):
            span = ref.offset + span_of(ref)
            self.extent[ref.storage_id] = max(self.extent.get(ref.storage_id, 0), span)

    def _eager(self, index: int, op: Op) -> None:
        for ref in tensors(list(op.inputs)):
            self._mark(self._known(ref))
        inputs = {ref.storage_id for ref in tensors(list(op.inputs))}
        for ref in tensors(list(op.outputs)):
            if self._known(ref) is None:
                value = Value(ref, None, None, None, op=index)
                self.live[ref.tensor_id] = value
                if ref.storage_id not in inputs:
                    self.owner[ref.storage_id] = value

    def _compiled(self, segment: Segment, index: int, op: Op) -> bool:
        """Adds `op` to the graph, or its children; False where Dynamo could not trace it."""
        inner = [child for child in op.children if child.is_operator]
        try:
            call, node, result = self._call(segment, index, op)
        except UNTRACEABLE:
            return False
        except FAILURES as error:
            if inner:
                return all(self._compiled(segment, index, child) for child in inner)
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise RebuildError(f"{op.name} (node {op.id}): {first[:300]}") from error
        if not _alike(result, _recorded(op, result)):
            if inner and not call.written:
                segment.graph.erase_node(node)
                return all(self._compiled(segment, index, child) for child in inner)
            self.result.mismatched.append(op.name)
        if call.opaque:
            self.result.opaque.append(index)
        for ref in call.written:
            owner = self.owner.get(ref.storage_id)
            if owner is None or owner.external:
                self.written.append((index, ref))
        self._define(segment, index, op, node, result)
        return True

    def _call(self, segment: Segment, index: int, op: Op) -> tuple[calls.Call, fx.Node, Any]:
        call = calls.call_of(op)
        args = self._nodes(segment, index, call, call.args)
        kwargs = {key: self._nodes(segment, index, call, v) for key, v in call.kwargs.items()}
        fakes = fx.node.map_arg((tuple(args), kwargs), lambda n: n.meta["fake"])
        with self.mode, torch.no_grad():
            result = call.target(*fakes[0], **fakes[1])
        node = segment.graph.call_function(call.target, tuple(args), kwargs)
        mark_op(node, index, op.name)
        node.meta["fake"] = result
        return call, node, result

    def _define(self, segment: Segment, index: int, op: Op, node: fx.Node, result: Any) -> None:
        recorded = _recorded(op, result)
        if isinstance(result, torch.Tensor):
            if isinstance(recorded, TensorRef):
                self._bind(segment, index, op, node, recorded)
        elif isinstance(result, (list, tuple)) and isinstance(recorded, (list, tuple)):
            for at, (part, ref) in enumerate(zip(result, recorded, strict=False)):
                if isinstance(part, torch.Tensor) and isinstance(ref, TensorRef):
                    item = segment.graph.call_function(operator.getitem, (node, at))
                    item.meta.update(stack_trace=node.meta["stack_trace"], fake=part)
                    self._bind(segment, index, op, item, ref)

    def _bind(self, segment: Segment, index: int, op: Op, node: fx.Node, ref: TensorRef) -> None:
        inputs = list(tensors(list(op.inputs)))
        if self._known(ref) is not None and ref.tensor_id in {i.tensor_id for i in inputs}:
            return
        value = Value(ref, segment, node, node.meta["fake"], op=index)
        segment.nodes[value] = node
        self.live[ref.tensor_id] = value
        self.made.append(value)
        if ref.storage_id not in {i.storage_id for i in inputs}:
            self.owner[ref.storage_id] = value

    def _known(self, ref: TensorRef) -> Value | None:
        value = self.live.get(ref.tensor_id)
        if value is None:
            return None
        old = value.ref
        strides = None in (old.strides, ref.strides) or old.strides == ref.strides
        same = strides and (old.storage_id, old.offset, old.shape, old.dtype) == (
            ref.storage_id,
            ref.offset,
            ref.shape,
            ref.dtype,
        )
        return value if same else None

    def _nodes(self, segment: Segment, index: int, call: calls.Call, value: Any) -> Any:
        if isinstance(value, TensorRef):
            return self._node(segment, index, call, value)
        if isinstance(value, (list, tuple)):
            return [self._nodes(segment, index, call, item) for item in value]
        return value

    def _node(self, segment: Segment, index: int, call: calls.Call, ref: TensorRef) -> Any:
        value = self._known(ref)
        if value is None:
            number = NUMBERS.get(calls.dtype_of(ref.dtype))
            if ref.is_cpu_scalar and call.takes_numbers and number is not None:
                return number
            value = self._view_of_owner(segment, index, ref)
        if value is None:
            value = Value(ref, None, None, None, external=True)
            self.live[ref.tensor_id] = value
            self.owner.setdefault(ref.storage_id, value)
        if value in segment.nodes:
            return segment.nodes[value]
        self._mark(value)
        return self._input(segment, value)

    def _view_of_owner(self, segment: Segment, index: int, ref: TensorRef) -> Value | None:
        """A view that no recorded op made of a value that a compiled op made."""
        owner = self.owner.get(ref.storage_id)
        if owner is None or owner.segment is not segment or not ref.numel:
            return None
        fits = ref.offset + span_of(ref) <= owner.ref.offset + span_of(owner.ref)
        if owner.ref.dtype != ref.dtype or owner.ref.device != ref.device or not fits:
            return None
        self.result.recovered.append(self.ops[index].name)
        where = (list(ref.shape), list(strides_of(ref)), ref.offset)
        target = torch.ops.aten.as_strided.default
        node = segment.graph.call_function(target, (owner.node, *where))
        mark_op(node, index, "aten::as_strided")
        with self.mode:
            node.meta["fake"] = owner.fake.as_strided(*where)
        value = Value(ref, segment, node, node.meta["fake"])
        segment.nodes[value] = node
        self.live[ref.tensor_id] = value
        self.made.append(value)
        return value

    def _input(self, segment: Segment, value: Value) -> fx.Node:
        ref = value.ref
        with segment.graph.inserting_before(first_call(segment.graph)):
            node = segment.graph.placeholder(f"in{len(segment.inputs)}")
        with self.mode:
            flat = memory(ref, ref.offset + span_of(ref))
            node.meta["fake"] = flat.as_strided(ref.shape, strides_of(ref), ref.offset)
        owner = self.owner.get(ref.storage_id)
        # Ids of memory come back after it was freed: only what outlives the step is shared.
        apart = owner is None or not owner.external
        role = _role(ref) if value.external else "carried"
        segment.inputs.append(Input(ref, node, role, apart))
        segment.nodes[value] = node
        return node

    def _mark(self, value: Value | None) -> None:
        if value is None or value.segment is None or value.node is None:
            return
        if value.node not in value.segment.outputs:
            value.segment.outputs.append(value.node)


def first_call(graph: fx.Graph) -> fx.Node:
    """The node before which a placeholder may be added."""
    for node in graph.nodes:
        if node.op != "placeholder":
            return node
    return graph._root


def _units(ops: tuple[Op, ...]) -> Iterator[Op]:
    for op in ops:
        unknown = not op.name.startswith("aten::") and calls.overload_of(op) is None
        inner = [child for child in op.children if child.is_operator]
        if inner and (op.name in BY_CHILDREN or unknown):
            for child in inner:
                child.scope = (*op.scope, op.name)
            yield from _units(tuple(inner))
        else:
            yield op


def _breaks(op: Op) -> bool:
    if op.name in BREAKS:
        return True
    # What a kernel of its own calls inside (a fallback, an index by mask) Dynamo never sees.
    return calls.is_composite(op) and any(_breaks(child) for child in op.children)


def _role(ref: TensorRef) -> str:
    floating = calls.dtype_of(ref.dtype).is_floating_point
    # Packed weights are integers too; ids and lengths are few.
    return "parameter" if floating or ref.numel > 4096 else "integer"


def _recorded(op: Op, result: Any) -> Any:
    """What was recorded for `result`, in its form: one tensor, or a list of them."""
    if isinstance(result, torch.Tensor):
        return op.outputs[0] if op.outputs else None
    if len(op.outputs) == 1 and isinstance(op.outputs[0], list):
        return op.outputs[0]
    return op.outputs


def _alike(result: Any, recorded: Any) -> bool:
    if isinstance(result, torch.Tensor) and isinstance(recorded, TensorRef):
        same = tuple(result.shape) == recorded.shape
        return same and result.dtype == calls.dtype_of(recorded.dtype)
    if isinstance(result, (list, tuple)) and isinstance(recorded, (list, tuple)):
        return all(_alike(*pair) for pair in zip(result, recorded, strict=False))
    return True
