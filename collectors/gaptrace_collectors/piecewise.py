"""Piecewise capture: the compiled graph split at attention, each piece in a CUDA graph of its own.

What serving engines do: attention (or any operator named) stays outside, launched by the host, and
what lies between two of them is compiled by itself and captured. Only public parts of torch are
used: a Dynamo backend, `split_module`, `torch.compile` for each piece, `torch.cuda.graph`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule
from torch.fx.passes.split_module import split_module

from gaptrace_collectors.capture import CaptureCost
from gaptrace_collectors.failure import (
    Evidence,
    Failure,
    ModeFailureError,
    evidence_of,
    first_line,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import fx

    from gaptrace_collectors.buckets import Buckets
    from gaptrace_collectors.device import Device

# What is called attention where no `--split-at` says otherwise.
ATTENTION = (
    "scaled_dot_product_attention",
    "flex_attention",
    "flash_attn_func",
    "flash_attn_with_kvcache",
    "flash_attn_varlen_func",
    "unified_attention",
    "unified_attention_with_output",
)
_WARMUP_CALLS = 3
_STACK_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


@dataclass
class Seam:
    """An operator left outside, between two pieces."""

    op: str
    where: str
    after_piece: int  # of the pieces of the same bucket


@dataclass
class _Input:
    """One tensor argument of a captured piece: the tensor that the graph reads."""

    position: int
    name: str
    tensor: torch.Tensor
    copied: bool  # its address differs from call to call: copied in before each replay
    checked: bool  # held by the script: must lie where it lay at capture


class Piece:
    """A compiled part of the graph that captures itself once it is warm."""

    def __init__(self, number: int, module: GraphModule, origins: Sequence[str]) -> None:
        self.number = number
        self._module = module
        self._compiled: Callable[..., Any] | None = None
        self._names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
        self._origins = list(origins)
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: list[_Input] = []
        self._used: list[_Input] = []
        self._out: Any = None

    @property
    def captured(self) -> bool:
        """Whether calls are replays by now."""
        return self._graph is not None

    @property
    def copied(self) -> list[tuple[str, torch.Tensor]]:
        """Inputs that are copied into the graph's own buffers before every replay."""
        return [(item.name, item.tensor) for item in self._inputs if item.copied]

    def __call__(self, *args: Any) -> Any:
        if self._graph is not None:
            return self._replay(args)
        self._calls += 1
        return self._call()(*args)

    def _call(self) -> Callable[..., Any]:
        if self._compiled is None:
            # Not in the backend: while Dynamo compiles, torch.compile gives its argument back. A
            # lazily built module would make Dynamo trace its building; this one is whole.
            self._compiled = torch.compile(GraphModule(self._module, self._module.graph).forward)
        return self._compiled

    @property
    def warm(self) -> bool:
        """Whether it was called often enough to be captured."""
        return self._calls >= _WARMUP_CALLS

    def capture(self, args: tuple[Any, ...], pool: Any) -> Any:
        """Capture this call and replay it once, so that it does the work of one step."""
        call = list(args)
        for position, value in enumerate(args):
            if not isinstance(value, torch.Tensor) or value.device.type != "cuda":
                continue
            origin = self._origins[position]
            # A parameter cannot move; what a captured piece left lies where that graph put it.
            copied = origin == "launched"
            tensor = value.clone() if copied else value
            checked = origin == "input" and not isinstance(value, torch.nn.Parameter)
            self._inputs.append(_Input(position, self._names[position], tensor, copied, checked))
            call[position] = tensor
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            self._out = self._call()(*call)
        self._used = [item for item in self._inputs if item.copied or item.checked]
        self._graph = graph
        graph.replay()
        return self._out

    def _replay(self, args: tuple[Any, ...]) -> Any:
        for item in self._used:
            value = args[item.position]
            if item.copied:
                item.tensor.copy_(value, non_blocking=True)
            elif value.data_ptr() != item.tensor.data_ptr():
                raise ModeFailureError(_moved(self.number, item.name))
        assert self._graph is not None
        self._graph.replay()
        return self._out


def _moved(piece: int, name: str) -> Failure:
    return Failure(
        "moved_input",
        f"{name} lies elsewhere than when piece {piece} was captured",
        (Evidence(name, "", f"read by piece {piece}, which replays a captured graph"),),
    )


@dataclass
class _SplitGraph:
    """What one of Dynamo's graphs was split into."""

    bucket: int | None
    cost: CaptureCost
    pieces: list[Piece] = field(default_factory=list)
    seams: list[Seam] = field(default_factory=list)


@dataclass
class Pieces:
    """A Dynamo backend; what it made is in `seams` and `pieces`."""

    device: Device
    split_at: tuple[str, ...] = ()
    buckets: Buckets | None = None
    _parts: list[_SplitGraph] = field(default_factory=list)
    _pool: Any = None

    @property
    def pieces(self) -> list[Piece]:
        """All pieces, of every bucket."""
        return [piece for part in self._parts for piece in part.pieces]

    @property
    def seams(self) -> list[Seam]:
        """All seams, of every bucket."""
        return [seam for part in self._parts for seam in part.seams]

    @property
    def capture_ns(self) -> int:
        """Host time that capturing took so far, over all buckets."""
        return sum(part.cost.ns for part in self._parts)

    @property
    def captured(self) -> int:
        """Pieces that replay by now."""
        return sum(piece.captured for piece in self.pieces)

    def __call__(self, graph: GraphModule, examples: list[Any]) -> Callable[..., Any]:
        """Split one Dynamo graph; called by torch.compile."""
        names = self.split_at or ATTENTION
        part = 0
        parts: dict[fx.Node, int] = {}
        apart: dict[int, list[fx.Node]] = {}
        for node in graph.graph.nodes:
            if node.op in ("placeholder", "get_attr", "output"):
                continue
            if op_matches(node, names):
                # Operators that follow each other directly share a seam.
                if part not in apart:
                    part += 1
                apart.setdefault(part, []).append(node)
            elif part in apart and not _unpacks(node, apart[part]):
                part += 1
            parts[node] = part
        whole = split_module(graph, graph, lambda node: parts[node], keep_original_order=True)
        self._adopt(whole, {f"submod_{number}": nodes for number, nodes in apart.items()})
        split: Callable[..., Any] = whole
        return split

    def _adopt(self, whole: fx.GraphModule, apart: dict[str, list[fx.Node]]) -> None:
        """Put a Piece in the place of every submodule that holds no operator to be left outside."""
        bucket = self.buckets.current if self.buckets else None
        before = sum(len(part.pieces) for part in self._parts if part.bucket == bucket)
        made = _SplitGraph(bucket, CaptureCost(self.device))
        self._parts.append(made)
        origin: dict[fx.Node, str] = {}
        for node in whole.graph.nodes:
            if node.op == "placeholder":
                origin[node] = "input"
            elif node.op == "call_module":
                name = str(node.target)
                if name in apart:
                    origin[node] = "launched"
                    last = before + len(made.pieces) - 1
                    made.seams += [Seam(op_name(n), _source_line(n), last) for n in apart[name]]
                    continue
                origin[node] = "captured"
                module = getattr(whole, name)
                origins = [origin.get(arg, "other") for arg in node.args]
                piece = Piece(before + len(made.pieces), module, origins)
                made.pieces.append(piece)
                delattr(whole, name)
                setattr(whole, name, _Slot(piece, made.cost, self))
            elif node.op == "call_function":  # unpacks what a submodule returned
                origin[node] = origin.get(node.args[0], "other")

    def run(self, piece: Piece, cost: CaptureCost, args: tuple[Any, ...]) -> Any:
        """One call of a piece: capture it where that is due, and count that in `cost`."""
        if piece.captured or not (self.device.accelerated and piece.warm):
            return piece(*args)
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        try:
            with cost.of_one():
                return piece.capture(args, self._pool)
        except RuntimeError as error:
            raise ModeFailureError(
                Failure(
                    "capture_error",
                    f"capture of piece {piece.number} was refused: {first_line(error)}",
                    (evidence_of(error),),
                )
            ) from error

    def section(self, bucket: int | None = None) -> dict[str, Any]:
        """The `piecewise` section of run.json, of one bucket's pieces or of all."""
        parts = [part for part in self._parts if bucket is None or part.bucket == bucket]
        pieces = [piece for part in parts for piece in part.pieces]
        seams = [seam for part in parts for seam in part.seams]
        copied = [
            {
                "piece": piece.number,
                "name": name,
                "shape": list(tensor.shape),
                "bytes": tensor.numel() * tensor.element_size(),
            }
            for piece in pieces
            for name, tensor in piece.copied
        ]
        note = None
        if not seams:
            wanted = ", ".join(self.split_at or ATTENTION)
            note = f"no operator of the compiled graph is called {wanted}: one piece, no seam"
        elif not self.device.accelerated:
            note = "no CUDA device: the pieces are compiled, but not captured"
        return {
            "split_at": list(self.split_at or ATTENTION),
            "seams": [vars(seam) for seam in seams],
            "pieces": len(pieces),
            "captured": sum(piece.captured for piece in pieces),
            "capture_ns": sum(part.cost.ns for part in parts),
            "pool_bytes": sum(part.cost.pool_bytes for part in parts),
            "copied_inputs": copied,
            "copied_bytes": sum(item["bytes"] for item in copied),
            "graphs": len(parts),
            "note": note,
        }


class _Slot(torch.nn.Module):  # type: ignore[misc]
    """A piece as a submodule of the split graph."""

    def __init__(self, piece: Piece, cost: CaptureCost, pieces: Pieces) -> None:
        super().__init__()
        self._piece = piece
        self._cost = cost
        self._pieces = pieces

    def forward(self, *args: Any) -> Any:
        return self._pieces.run(self._piece, self._cost, args)


def op_name(node: fx.Node) -> str:
    """The operator's own name: `scaled_dot_product_attention`, `mm`."""
    target: Any = node.target
    if node.op == "call_method":
        return str(target)
    packet = getattr(target, "overloadpacket", target)
    return str(getattr(packet, "__name__", packet)).rpartition(".")[2]


def op_matches(node: fx.Node, names: Sequence[str]) -> bool:
    """Whether a node is one of the operators named, as `name`, `space::name` or `space.name`."""
    if node.op not in ("call_function", "call_method"):
        return False
    name = op_name(node)
    target: Any = node.target
    packet = getattr(target, "overloadpacket", target)
    full = str(getattr(packet, "_qualified_op_name", "") or f"{_module(packet)}.{name}")
    wanted = {name.replace("::", ".") for name in names}
    return name in wanted or full.replace("::", ".") in wanted


def _module(target: Any) -> str:
    return str(getattr(target, "__module__", "") or "")


def _unpacks(node: fx.Node, nodes: list[fx.Node]) -> bool:
    """Whether a node only takes one of several results of a node left outside."""
    return op_name(node) == "getitem" and node.args[0] in nodes


def _source_line(node: fx.Node) -> str:
    """Where in the user's code a node came from, as `file:line`."""
    frames = _STACK_FRAME.findall(str(node.meta.get("stack_trace") or node.stack_trace or ""))
    return f"{frames[-1][0]}:{frames[-1][1]}" if frames else ""
