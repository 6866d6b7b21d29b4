"""Reads what `torch.profiler.ExecutionTraceObserver` writes: ops with their tensors, nested.

Every schema since torch 2.0 is read: the flat one (`inputs`, `input_shapes`, `input_types`), the
Chakra-style one (`inputs.values`, `.shapes`, `.types`) without strides and the one with them.
Ids are those of addresses, so a tensor or storage id comes back after its owner has died; who
reads a value has to follow the order of the ops (`rebuild.py` does).
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC_GZIP = b"\x1f\x8b"
FRAME = "[pytorch|profiler|execution_trace|"
# Spans that only a compiled program opens.
COMPILED_SPAN = re.compile(r"## Call CompiledFxGraph|Torch-Compiled Region")


class TraceError(ValueError):
    """The file cannot serve as an execution trace; the message says why and what to do."""


@dataclass(frozen=True)
class TensorRef:
    """One tensor as an op saw it.

    `strides` is None where the recording's schema has none. `offset` and `numel` count elements.
    `dtype` is the C++ name that the observer wrote (`c10::BFloat16`, `long int`).
    """

    tensor_id: int
    storage_id: int
    offset: int
    numel: int
    itemsize: int
    device: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: str

    @property
    def is_cpu_scalar(self) -> bool:
        """True for a zero-dimensional CPU tensor, which is how a Python number is recorded."""
        return self.device.startswith("cpu") and not self.shape and self.numel == 1


@dataclass(eq=False)
class Op:
    """One recorded node: an operator call, or a span that holds others.

    `rf_id` is the `Record function id` that a Kineto trace of the same run repeats, and gives the
    order of calls. `scope` lists the names of the spans around it, outermost first.
    """

    id: int
    name: str
    rf_id: int
    parent: int
    schema: str
    tid: int
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    backend: str = ""
    children: list[Op] = field(default_factory=list)
    scope: tuple[str, ...] = ()

    @property
    def is_operator(self) -> bool:
        """True for a call of a registered operator, False for a span."""
        return bool(self.schema) and "::" in self.name

    def walk(self) -> Iterator[Op]:
        """This op and everything that it called, in call order."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class Step:
    """One decode step: its outermost operator calls in order, and which step of how many it is."""

    name: str
    rule: str
    index: int
    count: int
    ops: tuple[Op, ...]
    following: tuple[Op, ...]
    compiled: bool


@dataclass(frozen=True)
class ExecutionTrace:
    """A whole recording: its schema version, the nodes in call order, the roots of the nesting."""

    path: str
    schema: str
    nodes: int
    roots: tuple[Op, ...]
    has_strides: bool


def read(path: str | Path) -> ExecutionTrace:
    """The execution trace in `path`, plain or gzipped.

    Raises:
        TraceError: the file is missing, is no JSON, is a Kineto trace, or holds no ops.
    """
    document = read_json(path)
    nodes = document.get("nodes") if isinstance(document, dict) else None
    if not isinstance(nodes, list):
        kineto = isinstance(document, list) or "traceEvents" in document
        what = "a Kineto trace" if kineto else "JSON, but no execution trace"
        raise TraceError(f"{path} is {what}; record one with torch.profiler.ExecutionTraceObserver")
    schema = str(document.get("schema", "unknown"))
    ops = {op.id: op for op in map(_op, nodes)}
    roots: list[Op] = []
    for op in sorted(ops.values(), key=lambda op: (op.rf_id, op.id)):
        parent = ops.get(op.parent)
        if parent is None or parent is op:
            roots.append(op)
        else:
            parent.children.append(op)
    has_strides = any(isinstance(n.get("inputs"), dict) and "strides" in n["inputs"] for n in nodes)
    if not any(op.is_operator for op in ops.values()):
        raise TraceError(f"{path} holds no operator calls; was the observer started and stopped?")
    return ExecutionTrace(str(path), schema, len(nodes), tuple(roots), has_strides)


def read_json(path: str | Path) -> Any:
    """The JSON document in `path`, gunzipped where it is gzipped.

    Raises:
        TraceError: the file cannot be opened, gunzipped or parsed.
    """
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from error
    try:
        if raw.startswith(MAGIC_GZIP):
            raw = gzip.decompress(raw)
        return json.loads(raw.decode("utf-8", "replace"))
    except (OSError, EOFError) as error:
        raise TraceError(f"{path} is a damaged gzip file: {error}") from error
    except json.JSONDecodeError as error:
        raise TraceError(
            f"{path} is not whole JSON (byte {error.pos}); did the recording end early?"
        ) from error


def pick_step(trace: ExecutionTrace, pattern: str | None = None) -> Step:
    """The step to rebuild: the last one that a like one follows, else the last.

    A step is a span whose name matches `pattern`; without one, the outermost spans of the busiest
    thread that are equal once digits are removed (the most frequent name); without spans, all of
    that thread. A step with a successor is preferred because the successor shows which values
    were carried over.

    Raises:
        TraceError: `pattern` matches no span, or the step holds no operator call.
    """
    thread = _busiest_thread(trace)
    if pattern is not None:
        spans = [op for root in trace.roots for op in root.walk() if not op.is_operator]
        steps = [op for op in spans if re.search(pattern, op.name) and op.children]
        if not steps:
            names = sorted({op.name for op in spans if not op.name.startswith(FRAME)})
            raise TraceError(f"no span matches {pattern!r}; the trace has {names[:8]}")
        rule = f"span matches {pattern!r}"
    else:
        spans = [op for op in thread.children if not op.is_operator and op.children]
        stems = Counter(map(_stem, spans))
        most = max(stems, key=lambda s: (stems[s], _size(s, spans)), default=None)
        steps = [op for op in spans if _stem(op) == most] or [thread]
        rule = "outermost spans that repeat" if spans else "no spans: the whole thread"
    index = len(steps) - 1
    ops = _outermost(steps[index], ())
    if index and [op.name for op in ops] == [op.name for op in _outermost(steps[-2], ())]:
        index -= 1
        ops = _outermost(steps[index], ())
    if not ops:
        raise TraceError(
            f"step {steps[index].name!r} holds no operator call: a captured step replays kernels "
            "without calling operators; give the eager step's execution trace"
        )
    later = spans[spans.index(steps[index]) + 1 :] if steps[index] in spans else []
    successor = next((op for op in later if _stem(op) == _stem(steps[index])), None)
    following = _outermost(successor, ()) if successor is not None else []
    compiled = any(
        COMPILED_SPAN.search(op.name) or op.backend == "triton" for op in steps[index].walk()
    )
    name = steps[index].name
    return Step(name, rule, index, len(steps), tuple(ops), tuple(following), compiled)


def tensors(value: Any) -> Iterator[TensorRef]:
    """Every tensor in a recorded argument, nested lists included, in order."""
    if isinstance(value, TensorRef):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)


def _stem(span: Op) -> str:
    return re.sub(r"\d+", "#", span.name)


def _size(stem: str, spans: list[Op]) -> int:
    return sum(1 for span in spans if _stem(span) == stem for _ in span.walk())


def _busiest_thread(trace: ExecutionTrace) -> Op:
    threads = [
        op for root in trace.roots for op in (root, *root.children) if op.name.startswith(FRAME)
    ]
    counts = {id(t): sum(1 for op in t.walk() if op.is_operator) for t in threads}
    leaves = [t for t in threads if "thread" in t.name] or threads
    if not leaves:
        return Op(0, "", 0, 0, "", 0, (), (), children=list(trace.roots))
    return max(leaves, key=lambda t: counts[id(t)])


def _outermost(span: Op, scope: tuple[str, ...]) -> list[Op]:
    ops: list[Op] = []
    for child in span.children:
        if child.is_operator:
            for op in child.walk():
                op.scope = scope
            ops.append(child)
        else:
            ops += _outermost(child, (*scope, child.name))
    return ops


def _op(node: dict[str, Any]) -> Op:
    attrs = {item.get("name"): item.get("value") for item in node.get("attrs", ())}
    ins, outs = node.get("inputs", ()), node.get("outputs", ())
    if isinstance(ins, dict):
        inputs = _values(ins["values"], ins["shapes"], ins["types"], ins.get("strides"))
        outputs = _values(outs["values"], outs["shapes"], outs["types"], outs.get("strides"))
        parent = node.get("ctrl_deps", node.get("parent", 0))
        get = attrs.get
    else:
        inputs = _values(ins, node.get("input_shapes", ()), node.get("input_types", ()), None)
        outputs = _values(outs, node.get("output_shapes", ()), node.get("output_types", ()), None)
        parent, get = node.get("parent", 0), node.get
    return Op(
        id=int(node["id"]),
        name=str(node.get("name", "")),
        rf_id=int(get("rf_id") or 0),
        parent=int(parent or 0),
        schema=str(get("op_schema") or ""),
        tid=int(get("tid") or 0),
        inputs=inputs,
        outputs=outputs,
        backend=str(get("kernel_backend") or ""),
    )


def _values(values: Any, shapes: Any, types: Any, strides: Any) -> tuple[Any, ...]:
    rows = strides if strides is not None else [None] * len(values)
    return tuple(_value(*row) for row in zip(values, shapes, types, rows, strict=False))


def _value(value: Any, shape: Any, kind: str, strides: Any) -> Any:
    if kind.startswith("Tensor("):
        if "nullptr" in kind or not isinstance(value, list):
            return None
        tensor_id, storage_id, offset, numel, itemsize = (int(part) for part in value[:5])
        return TensorRef(
            tensor_id,
            storage_id,
            offset,
            numel,
            itemsize,
            device=str(value[5]) if len(value) > 5 else "",
            shape=tuple(shape),
            strides=None if strides is None else tuple(strides),
            dtype=kind[len("Tensor(") : -1],
        )
    if kind.startswith(("GenericList[", "Tuple[")) and isinstance(value, list):
        inner = _split(kind[kind.index("[") + 1 : -1])
        rows = strides if isinstance(strides, list) else [None] * len(value)
        shapes = (
            shape if isinstance(shape, list) and len(shape) == len(value) else [[]] * len(value)
        )
        if len(inner) < len(value):
            inner += inner[-1:] * (len(value) - len(inner))
        return [_value(*row) for row in zip(value, shapes, inner, rows, strict=False)]
    if isinstance(value, str):
        if kind == "Double":
            return float(value)
        return None if value.startswith("<") else value
    return value


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        if char in "([<":
            depth += 1
        elif char in ")]>":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    if text:
        parts.append(text[start:])
    return parts
