"""Reads Inductor's scheduler after fusion: what each kernel would compute, read and write.

Bytes are counted from the loads and stores of the fused nodes: a load through `expand` or a
gather is charged for the elements that it touches, an intermediate whose users all lie in the
same kernel is neither written nor read. Only what the scheduler holds is read here, in the one
place of the package that depends on its classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .graphs import op_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# Inductor's limits for a persistent reduction over the innermost and over an outer dimension.
PERSISTENT = 1024
PERSISTENT_OUTER = 64
# These stand for a part of another call's result, or for nothing that runs.
NO_CALLS = frozenset({"MultiOutput", "MutationOutput", "NoneAsConstantBuffer", "OpaqueMultiOutput"})


@dataclass(frozen=True)
class Access:
    """One buffer as a kernel touches it: its role, elements and bytes touched, and how.

    `role` is `input` or `intermediate`; `how` is `whole`, `part`, `gather` or `scatter`.
    """

    buffer: str
    role: str
    elements: int
    bytes: int
    dtype: str
    how: str
    size: int


@dataclass(frozen=True)
class Kernel:
    """One generated kernel.

    `kind` is `pointwise`, `reduction`, `persistent`, `scatter`, `template` or `foreach`; `ops` are
    indices of recorded ops; `numel` and `reduced` are output elements and elements reduced into
    each; `removed` are intermediates that live in registers.
    """

    name: str
    kind: str
    device: str
    ops: tuple[int, ...]
    aten: tuple[str, ...]
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    removed: tuple[Access, ...]
    numel: int
    reduced: int
    dtype: str
    nodes: int
    loads: int
    reductions: int
    mutates: bool


@dataclass(frozen=True)
class Extern:
    """One call of a library or fallback kernel: its operator, what it touches, its ops."""

    op: str
    device: str
    ops: tuple[int, ...]
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]


@dataclass(frozen=True)
class Schedule:
    """The kernels of one graph in launch order: generated and extern ones, mixed."""

    kernels: tuple[Kernel | Extern, ...]
    inputs: tuple[str, ...]
    constants: int


def read(scheduler: Any) -> Schedule:
    """The schedule as plain data; call it where Inductor would generate code."""
    from torch._inductor.virtualized import V

    kernels: list[Kernel | Extern] = []
    results = _results(scheduler)
    for node in _flat(scheduler.nodes):
        kind = type(node).__name__
        if kind == "ExternKernelSchedulerNode":
            if type(node.node).__name__ not in NO_CALLS:
                kernels.append(_extern(scheduler, node, results))
        elif kind == "ForeachKernelSchedulerNode":
            kernels.append(_generated(scheduler, node, "foreach"))
        elif kind != "NopKernelSchedulerNode":
            kernels.append(_generated(scheduler, node, None))
    names = tuple(V.graph.graph_input_names)
    return Schedule(tuple(kernels), names, len(V.graph.constants))


def _flat(nodes: Iterable[Any]) -> Iterator[Any]:
    for node in nodes:
        if type(node).__name__ == "GroupedSchedulerNode":
            yield from _flat(node.snodes)
        else:
            yield node


def _results(scheduler: Any) -> dict[str, list[str]]:
    """The buffers that the parts of a multi-output call's result are, by the call's buffer."""
    by_call: dict[str, list[str]] = {}
    for node in _flat(scheduler.nodes):
        if type(node.node).__name__ == "MultiOutput":
            parts = [buffer.get_name() for buffer in node.get_outputs()]
            for source in node.node.inputs:
                by_call.setdefault(source.get_name(), []).extend(parts)
    return by_call


def _extern(scheduler: Any, node: Any, results: dict[str, list[str]]) -> Extern:
    inner = node.node
    target = getattr(inner, "op_overload", None)
    name = str(target) if target is not None else str(getattr(inner, "python_kernel_name", None))
    if name in ("None", ""):
        name = type(inner).__name__
    name = name.removeprefix("torch.ops.").removeprefix("extern_kernels.")
    if name.count(".") and not name.startswith("aten."):
        name = name.removesuffix(".default")
    reads = _accesses(scheduler, node.read_writes.reads)
    names = [buffer.get_name() for buffer in node.get_outputs()]
    names += [part for name in list(names) for part in results.get(name, ())]
    whole = [_whole(name) for name in names]
    writes = tuple(access for access in whole if access is not None)
    operator = _operator(name)
    callers = {
        op_at(origin.meta.get("stack_trace"))
        for origin in inner.get_origins()
        if str(getattr(getattr(origin.target, "_schema", None), "name", "")) == operator
    } - {None}
    ops = tuple(sorted(at for at in callers if at is not None)) or _ops([node])
    return Extern(operator, _device(node), ops, tuple(reads), writes)


def _operator(name: str) -> str:
    """`aten::mm` from `aten.mm.out`, `mm` or `torch.ops.aten.mm.default`."""
    parts = name.split(".")
    if len(parts) == 1:
        return f"aten::{parts[0]}" if hasattr(torch.ops.aten, parts[0]) else parts[0]
    if parts[0] == "aten" or len(parts) > 2:
        return "::".join(parts[:2])
    return f"aten::{parts[0]}" if hasattr(torch.ops.aten, parts[0]) else name


def _generated(scheduler: Any, node: Any, kind: str | None) -> Kernel:
    members = list(node.get_nodes())
    member_names = {member.get_name() for member in members}
    inside: set[str] = set()
    writes: dict[str, Access] = {}
    removed: dict[str, Access] = {}
    mutates = False
    stores: set[str] = set()
    for member in members:
        for buffer in member.get_outputs():
            name = buffer.get_name()
            real = scheduler.mutation_real_name.get(name, name)
            mutated = real != name
            users = [user for user in buffer.users if not user.is_weak]
            inside.add(name)
            deps = [d for d in member.read_writes.writes if d.name == name]
            access = next((_access(d, real, "write") for d in deps), None)
            if access is None:
                continue
            if not mutated and users and all(user.get_name() in member_names for user in users):
                removed[real] = access
                continue
            mutates |= mutated
            stores.add(access.how)
            writes[real] = access
    reads: dict[str, list[Access]] = {}
    loads = 0
    for member in members:
        for dep in member.read_writes.reads:
            if dep.name in inside or type(dep).__name__ == "WeakDep":
                continue
            real = scheduler.mutation_real_name.get(dep.name, dep.name)
            access = _access(dep, real, "read")
            # An in-place scatter depends on the whole buffer it writes; it does not load it.
            if access is None or (type(dep).__name__ == "StarDep" and real in writes):
                continue
            if access not in reads.setdefault(real, []):
                reads[real].append(access)
                loads += 1
    group = getattr(node, "group", None)
    numel, reduced = _sizes(group)
    reductions = sum(1 for member in members if member.is_reduction())
    if kind is None:
        kind = _kind(node, stores, reductions, reduced)
    dtypes = [access.dtype for access in (*writes.values(), *removed.values())]
    return Kernel(
        _name(members, kind),
        kind,
        _device(node),
        _ops(members),
        _aten(members),
        tuple(_merge(reads)),
        tuple(writes.values()),
        tuple(removed.values()),
        numel,
        reduced,
        dtypes[0] if dtypes else "",
        len(members),
        loads,
        reductions,
        mutates,
    )


def _kind(node: Any, stores: set[str], reductions: int, reduced: int) -> str:
    if node.is_template():
        return "template"
    if not reductions:
        return "scatter" if "scatter" in stores else "pointwise"
    hints = {
        str(getattr(getattr(member.node, "data", None), "reduction_hint", "INNER"))
        for member in node.get_nodes()
        if member.is_reduction()
    }
    inner = any(hint.endswith("INNER") for hint in hints)
    return "persistent" if reduced <= (PERSISTENT if inner else PERSISTENT_OUTER) else "reduction"


def _merge(reads: dict[str, list[Access]]) -> Iterator[Access]:
    """One access a buffer: distinct loads of it add up, up to the whole buffer."""
    for accesses in reads.values():
        first = accesses[0]
        itemsize = first.bytes // first.elements if first.elements else 1
        elements = min(sum(a.elements for a in accesses), max(first.size, 1))
        how = "gather" if any(a.how == "gather" for a in accesses) else first.how
        yield Access(
            first.buffer, first.role, elements, elements * itemsize, first.dtype, how, first.size
        )


def _accesses(scheduler: Any, deps: Iterable[Any]) -> list[Access]:
    by_buffer: dict[str, Access] = {}
    for dep in deps:
        if type(dep).__name__ == "WeakDep":
            continue
        real = scheduler.mutation_real_name.get(dep.name, dep.name)
        access = _access(dep, real, "read")
        if access is not None:
            by_buffer.setdefault(real, access)
    return list(by_buffer.values())


def _access(dep: Any, real: str, way: str) -> Access | None:
    whole = _whole(real)
    if whole is None:
        return None
    if type(dep).__name__ != "MemoryDep":
        return whole
    used = dep.index.free_symbols
    elements = 1
    for var, size in zip(dep.var_names, dep.size, strict=True):
        if var in used or _indirect(dep):
            elements *= _int(size)
    # A gather whose index is the loop's own: what is touched cannot exceed the loop.
    elements = min(elements, whole.size) if whole.size else elements
    how = "whole" if elements == whole.size else "part"
    if _indirect(dep):
        how = "gather" if way == "read" else "scatter"
    itemsize = whole.bytes // whole.size if whole.size else 1
    return Access(real, whole.role, elements, elements * itemsize, whole.dtype, how, whole.size)


def _indirect(dep: Any) -> bool:
    return bool(dep.is_indirect()) if hasattr(dep, "is_indirect") else False


def _whole(name: str) -> Access | None:
    from torch._inductor.virtualized import V

    graph = V.graph
    role = "input" if name in graph.graph_inputs or name in graph.constants else "intermediate"
    try:
        elements = _int(graph.get_numel(name))
        dtype = graph.get_dtype(name)
    except (NotImplementedError, KeyError, AttributeError):
        return None
    size = torch.empty((), dtype=dtype, device="meta").element_size()
    text = str(dtype).removeprefix("torch.")
    return Access(name, role, elements, elements * size, text, "whole", elements)


def _sizes(group: Any) -> tuple[int, int]:
    try:
        numel, reduced = group[1][:2]
        return _int(numel), _int(reduced)
    except (TypeError, ValueError, IndexError):
        return 0, 1


def _int(value: Any) -> int:
    if isinstance(value, int):
        return value
    if isinstance(value, (list, tuple)):
        total = 1
        for item in value:
            total *= _int(item)
        return total
    return int(value)


def _device(node: Any) -> str:
    device = node.get_device()
    return device.type if device is not None else ""


def _ops(members: Iterable[Any]) -> tuple[int, ...]:
    ops: set[int] = set()
    for origin in _origins(members):
        at = op_at(origin.meta.get("stack_trace"))
        if at is not None:
            ops.add(at)
    return tuple(sorted(ops))


def _aten(members: Iterable[Any]) -> tuple[str, ...]:
    names = {
        str(origin.target._schema.name)
        for origin in _origins(members)
        if hasattr(origin.target, "_schema")
    }
    return tuple(sorted(names))


def _origins(members: Iterable[Any]) -> Iterator[Any]:
    for member in members:
        for inner in member.get_nodes():
            if inner.node is not None:
                yield from inner.node.get_origins()


def _name(members: list[Any], kind: str) -> str:
    """Inductor's name for the kernel without its number: `triton_red_fused_mean_mul`."""
    from torch._inductor import config, utils

    short = {"reduction": "red", "persistent": "per", "template": "tem", "foreach": "for"}
    naming: Callable[..., str] | None = getattr(utils, "get_fused_kernel_name", None)
    if naming is None:
        return f"triton_{short.get(kind, 'poi')}_fused"
    return f"triton_{short.get(kind, 'poi')}_{naming(members, config.triton.descriptive_names)}"
