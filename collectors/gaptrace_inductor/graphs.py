"""The step as FX graphs: what the rebuilding makes, the what-ifs change and Inductor schedules."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from . import calls

if TYPE_CHECKING:
    from .execution_trace import Op, TensorRef

# Kept by every pass of AOTAutograd and Inductor, so that a fused node still names its ops.
PLACE = '  File "step", line {}, in {}\n    {}\n'
# What may lie between an input and the lookup that shows it holds token ids.
RENAMES = (
    torch.ops.aten.view,
    torch.ops.aten.reshape,
    torch.ops.aten.unsqueeze,
    torch.ops.aten.squeeze,
    torch.ops.aten.select,
    torch.ops.aten.slice,
    torch.ops.aten.expand,
    torch.ops.aten.alias,
    torch.ops.aten.detach,
    torch.ops.aten.to,
)


@dataclass(eq=False)
class Value:
    """A tensor as the step's ops pass it on.

    `segment` made it, `node` stands for it there (both None for an eager op's result and for a
    tensor from before the step, which is `external`); `op` is the index of the op that made it.
    """

    ref: TensorRef
    segment: Segment | None
    node: fx.Node | None
    fake: Any
    external: bool = False
    op: int = -1


@dataclass(eq=False)
class Input:
    """A graph input: what was recorded, and its part.

    `role` is `mutated` (the step writes it), `parameter` (floating, only read), `integer` (ids,
    lengths) or `carried` (made by an earlier segment or an eager op of the step). `apart` inputs
    have memory of their own even where another input's storage id is the same.
    """

    ref: TensorRef
    node: fx.Node
    role: str
    apart: bool = False


@dataclass(eq=False)
class Segment:
    """One graph: ops between graph breaks, its inputs in order, its outputs."""

    graph: fx.Graph
    ops: list[int] = field(default_factory=list)
    inputs: list[Input] = field(default_factory=list)
    outputs: list[fx.Node] = field(default_factory=list)
    nodes: dict[Value, fx.Node] = field(default_factory=dict)


@dataclass(frozen=True)
class InPlaceWrite:
    """An in-place op on memory that the step did not create.

    `base_elements` is the largest extent seen of that memory, `view_elements` what is addressed.
    """

    op: int
    storage_id: int
    view_elements: int
    base_elements: int
    itemsize: int


@dataclass(frozen=True)
class Made:
    """A tensor in memory of its own that an op made: which op, its bytes, whether its size follows
    the batch (it depends on token ids or on a state)."""

    op: int
    bytes: int
    grows: bool


@dataclass(frozen=True)
class Read:
    """An op's read of what another made: index into `Rebuilt.made`, bytes read."""

    op: int
    made: int
    bytes: int


@dataclass(eq=False)
class Rebuilt:
    """The step as graphs.

    `ops` are the ops as they were used (attention by its children); indices into it identify ops
    everywhere. Left to eager are `breaks` (inside the region) and `outside` (before or after it).
    `opaque` ops were registered from their recorded schema. `recovered` and `mismatched` name ops
    where the rebuilding had to guess or came out different.
    """

    ops: list[Op]
    segments: list[Segment] = field(default_factory=list)
    breaks: list[int] = field(default_factory=list)
    outside: list[int] = field(default_factory=list)
    writes: list[InPlaceWrite] = field(default_factory=list)
    opaque: list[int] = field(default_factory=list)
    recovered: list[str] = field(default_factory=list)
    mismatched: list[str] = field(default_factory=list)
    made: list[Made] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)


def make_inputs(segment: Segment, mode: Any) -> list[Any]:
    """Fake tensors for the graph's placeholders; inputs on one storage share it, as recorded."""
    groups: dict[Any, list[Input]] = {}
    for item in segment.inputs:
        groups.setdefault(item if item.apart else item.ref.storage_id, []).append(item)
    made: dict[str, Any] = {}
    with mode:
        for group in groups.values():
            same = len({(i.ref.dtype, i.ref.device) for i in group}) == 1
            extent = max(i.ref.offset + span_of(i.ref) for i in group)
            base = None
            for item in group:
                ref = item.ref
                if base is None or not same:
                    base = memory(ref, extent)
                made[item.node.name] = base.as_strided(ref.shape, strides_of(ref), ref.offset)
    return [made[node.name] for node in segment.graph.nodes if node.op == "placeholder"]


def module_of(segment: Segment) -> fx.GraphModule:
    """The segment as a GraphModule that returns its outputs as a tuple."""
    if not any(node.op == "output" for node in segment.graph.nodes):
        segment.graph.output(tuple(segment.outputs))
    return fx.GraphModule(torch.nn.Module(), segment.graph)


def memory(ref: TensorRef, extent: int) -> Any:
    """A one-dimensional tensor of `extent` elements like `ref`; call it inside a fake mode."""
    return torch.empty(extent, dtype=calls.dtype_of(ref.dtype), device=ref.device or "cpu")


def follows_batch(segment: Segment) -> set[fx.Node]:
    """The nodes whose size follows the number of sequences: those computed from token ids or
    states; without token ids, from any input that is no parameter."""
    inputs = {item.node: item for item in segment.inputs}
    seeds = {node for node, item in inputs.items() if is_token_input(item)}
    if not seeds:
        seeds = {node for node, item in inputs.items() if item.role in ("integer", "carried")}
    states = ("mutated", "carried")
    seeds |= {n for n, i in inputs.items() if i.role in states and len(i.ref.shape) > 2}
    grown = set(seeds)
    for node in segment.graph.nodes:
        if any(parent in grown for parent in node.all_input_nodes):
            grown.add(node)
    return grown


def is_token_input(item: Input) -> bool:
    """True for ids that an embedding looks up, of at least a batch and a length dimension."""
    if item.role != "integer" or len(item.ref.shape) < 2:
        return False
    frontier = [item.node]
    while frontier:
        node = frontier.pop()
        for user in node.users:
            packet = getattr(user.target, "overloadpacket", None)
            if packet is torch.ops.aten.embedding and user.args[1] is node:
                return True
            if packet in RENAMES:
                frontier.append(user)
    return False


def fake_mode() -> Any:
    """A fake-tensor mode with Dynamo's defaults: no data-dependent scalars or shapes."""
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    env = ShapeEnv(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False)
    return FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)


def mark_op(node: fx.Node, index: int, name: str) -> None:
    """Marks `node` as coming from the op at `index`."""
    node.meta["stack_trace"] = PLACE.format(index, name, name)


def op_at(stack_trace: str | None) -> int | None:
    """The index of the op that a node's `stack_trace`, as set here, names."""
    match = re.search(r'File "step", line (\d+)', stack_trace or "")
    return int(match.group(1)) if match else None


def strides_of(ref: TensorRef) -> tuple[int, ...]:
    """The recorded strides; contiguous ones where the recording has none."""
    return ref.strides if ref.strides is not None else calls.contiguous(ref.shape)


def span_of(ref: TensorRef) -> int:
    """Elements of memory from the tensor's first to its last, both included."""
    if 0 in ref.shape:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(ref.shape, strides_of(ref), strict=True))
