"""Assembles the JSON object `gaptrace.inductor/1` from a schedule and the eager kernels.

Kernel ids are positions in the lists; op indices point into `ops`. Times are integer nanoseconds
of the eager recording and null where no Kineto trace was given.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .eager import shorten
from .graphs import op_at
from .kernels import Access, Extern, Kernel, Schedule
from .rebuild import GEMMS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .eager import Kernel as EagerKernel
    from .eager import Links
    from .execution_trace import Op
    from .graphs import Rebuilt, Segment


def step_kernels(
    rebuilt: Rebuilt, schedules: list[Schedule | None], links: Links
) -> dict[str, Any]:
    """What the compiled step launches: generated and extern kernels, and the ops left to eager.

    The ops of a generated kernel are those it computes; `beside` are library calls whose results
    it only reads through a view.
    `replaces` of a generated kernel lists the eager kernels of its ops; an op that several
    kernels recompute counts for the first of them, one that an extern call needs for that call.
    """
    generated: list[dict[str, Any]] = []
    extern: list[dict[str, Any]] = []
    host: list[dict[str, Any]] = []
    fused: list[Kernel] = []
    taken: set[int] = set()
    pairs = list(zip(rebuilt.segments, schedules, strict=True))
    for at, (segment, schedule) in enumerate(pairs):
        for kernel in schedule.kernels if schedule is not None else ():
            if isinstance(kernel, Extern) and kernel.device != "cpu":
                names = _names(segment, schedule)
                entry = _extern(rebuilt, kernel, links, taken, names)
                extern.append({"segment": at, **entry})
    for at, (segment, schedule) in enumerate(pairs):
        names = _names(segment, schedule)
        for kernel in schedule.kernels if schedule is not None else ():
            if kernel.device == "cpu":
                host.append({"segment": at, "ops": list(kernel.ops)})
            elif isinstance(kernel, Kernel):
                entry = _generated(rebuilt, kernel, links, taken, names)
                generated.append({"segment": at, **entry})
                fused.append(kernel)
    outputs = frozenset(
        op_at(node.meta.get("stack_trace")) or -1 for s in rebuilt.segments for node in s.outputs
    )
    calls = frozenset(index for entry in extern for index in entry["ops"])
    for entry, saved in zip(generated, _savings(rebuilt, fused, outputs, calls), strict=True):
        entry["saves"] = saved
        entry["beside"] = [index for index in entry["ops"] if index in calls]
        entry["ops"] = [index for index in entry["ops"] if index not in calls]
        entry["op_names"] = _unique(rebuilt.ops[index].name for index in entry["ops"])
    left = [_left(rebuilt, i, links) for i in sorted(rebuilt.breaks + rebuilt.outside)]
    return {
        "generated": generated,
        "extern": extern,
        "host": host,
        "eager": [entry for entry in left if entry["kernels"] or entry["copies"]],
        "order": _order(pairs),
    }


def counts(parts: Mapping[str, Any], links: Links) -> dict[str, Any]:
    """How many kernels the compiled step has, by kind, next to those of the eager step.

    Without eager kernels each extern call counts as one kernel (`extern_source`), which misses
    split-K reducers; `total` then is a lower bound.
    """
    generated = len(parts["generated"])
    extern = sum(entry["kernels"] for entry in parts["extern"])
    left = sum(entry["kernels"] for entry in parts["eager"])
    eager = [kernel for group in links.kernels.values() for kernel in group] + list(links.unlinked)
    loose = sum(1 for kernel in links.unlinked if kernel.kind == "kernel")
    known = bool(eager)
    return {
        "generated": generated,
        "extern_calls": len(parts["extern"]),
        "extern_kernels": extern,
        "left_kernels": left,
        "unrecorded_kernels": loose,
        "unrecorded_ns": sum(kernel.dur_ns for kernel in links.unlinked),
        "other": extern + left + loose,
        "total": generated + extern + left + loose,
        "extern_source": "eager kernels" if known else "one a call",
        "copies": sum(entry["copies"] for entry in (*parts["extern"], *parts["eager"])),
        "memsets": sum(entry["memsets"] for entry in (*parts["extern"], *parts["eager"])),
        "eager_kernels": sum(1 for k in eager if k.kind == "kernel") if known else None,
        "by_kind": dict(Counter(entry["kind"] for entry in parts["generated"])),
    }


def totals(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Bytes that generated kernels move, and those that stay in registers instead."""
    kernels = parts["generated"]
    removed = sum(item["bytes"] for entry in kernels for item in entry["removed"])
    return {
        "generated_read": sum(entry["bytes_read"] for entry in kernels),
        "generated_written": sum(entry["bytes_written"] for entry in kernels),
        "generated": sum(entry["bytes"] for entry in kernels),
        "intermediates_removed": removed,
        "eager_saved": sum(e["saves"]["written"] + e["saves"]["read"] for e in kernels),
        "extern_read": sum(entry["bytes_read"] for entry in parts["extern"]),
    }


def ops_table(rebuilt: Rebuilt, links: Links) -> list[dict[str, Any]]:
    """The recorded ops that indices point to: name, record function id, module, spans."""
    return [
        {
            "op": op.name,
            "rf_id": op.rf_id,
            "module": links.modules.get(op.id) or "",
            "scope": list(op.scope),
        }
        for op in rebuilt.ops
    ]


def _generated(
    rebuilt: Rebuilt,
    kernel: Kernel,
    links: Links,
    taken: set[int],
    names: Mapping[str, str],
) -> dict[str, Any]:
    replaced: list[EagerKernel] = []
    for index in kernel.ops:
        replaced += links.take(rebuilt.ops[index], (), taken)
    read = sum(access.bytes for access in kernel.reads)
    written = sum(access.bytes for access in kernel.writes)
    return {
        "name": kernel.name,
        "kind": kernel.kind,
        "ops": list(kernel.ops),
        "aten": list(kernel.aten),
        "modules": _modules(rebuilt, kernel, links),
        "reads": [_access(access, names) for access in kernel.reads],
        "writes": [_access(access, names) for access in kernel.writes],
        "removed": [_access(access, names) for access in kernel.removed],
        "loads": kernel.loads,
        "bytes_read": read,
        "bytes_written": written,
        "bytes": read + written,
        "numel": kernel.numel,
        "reduced": kernel.reduced,
        "reductions": kernel.reductions,
        "dtype": kernel.dtype,
        "nodes": kernel.nodes,
        "in_place": kernel.mutates,
        "replaces": _eager(replaced),
    }


def _savings(
    rebuilt: Rebuilt, kernels: list[Kernel], outputs: frozenset[int], calls: frozenset[int]
) -> list[dict[str, Any]]:
    """Per generated kernel the eager intermediates that it no longer writes or reads.

    A result is not written where every reader shares a kernel with the op that made it (that op
    may be recomputed in several); its reads inside such kernels fall away in any case. Each is
    credited to the first kernel that computes it. `calls` are ops that stay library calls: what
    they make and read stays in memory.
    """
    homes: dict[int, list[int]] = {}
    for at, kernel in enumerate(kernels):
        for index in kernel.ops:
            if index not in calls:
                homes.setdefault(index, []).append(at)
    readers: dict[int, list[Any]] = {}
    for read in rebuilt.reads:
        readers.setdefault(read.made, []).append(read)
    savings: list[dict[str, Any]] = [
        {"written": 0, "read": 0, "grows_written": 0, "grows_read": 0, "values": []}
        for _ in kernels
    ]
    for key, made in enumerate(rebuilt.made):
        home = set(homes.get(made.op, ()))
        used = [read for read in readers.get(key, ()) if read.op != made.op]
        inside = [read for read in used if homes.get(read.op) and set(homes[read.op]) <= home]
        if not home or not inside:
            continue
        written = made.bytes if len(inside) == len(used) and made.op not in outputs else 0
        read = sum(item.bytes for item in inside)
        entry = savings[min(home)]
        entry["written"] += written
        entry["read"] += read
        if made.grows:
            entry["grows_written"] += written
            entry["grows_read"] += read
        entry["values"].append([made.op, made.bytes, written, read])
    return savings


def _extern(
    rebuilt: Rebuilt,
    kernel: Extern,
    links: Links,
    taken: set[int],
    names: Mapping[str, str],
) -> dict[str, Any]:
    kernels: list[EagerKernel] = []
    for index in kernel.ops:
        kernels += _own_kernels(rebuilt.ops[index], kernel.op, links, taken)
    read = sum(access.bytes for access in kernel.reads)
    written = sum(access.bytes for access in kernel.writes)
    launched = _eager(kernels)
    return {
        "op": kernel.op,
        "ops": list(kernel.ops),
        "modules": _modules(rebuilt, kernel, links),
        "gemm": bool(GEMMS.match(kernel.op)),
        "reads": [_access(access, names) for access in kernel.reads],
        "writes": [_access(access, names) for access in kernel.writes],
        "bytes_read": read,
        "bytes_written": written,
        "kernels": launched["kernels"] if kernels else 1,
        "copies": launched["copies"],
        "memsets": launched["memsets"],
        "dur_ns": launched["dur_ns"] if kernels else None,
        "eager": launched,
    }


def _own_kernels(op: Op, name: str, links: Links, taken: set[int]) -> list[EagerKernel]:
    """The eager kernels of the part of `op` that is `name`, or another op of its family."""
    inner = [part.name for part in op.walk()]
    if name in inner:
        return links.take(op, [name], taken)
    if GEMMS.match(name):
        family = [part for part in inner if GEMMS.match(part)]
        return links.take(op, family, taken) if family else []
    return links.take(op, (), taken)


def _left(rebuilt: Rebuilt, index: int, links: Links) -> dict[str, Any]:
    op = rebuilt.ops[index]
    why = "break" if index in rebuilt.breaks else "outside"
    return {"op": op.name, "ops": [index], "why": why, **_eager(links.take(op, (), set()))}


def _eager(kernels: Iterable[EagerKernel]) -> dict[str, Any]:
    listed = list(kernels)
    return {
        "kernels": sum(1 for kernel in listed if kernel.kind == "kernel"),
        "copies": sum(1 for kernel in listed if kernel.kind == "copy"),
        "memsets": sum(1 for kernel in listed if kernel.kind == "memset"),
        "dur_ns": sum(kernel.dur_ns for kernel in listed),
        "names": [shorten(kernel.name) for kernel in listed],
        "durs_ns": [kernel.dur_ns for kernel in listed],
    }


def _modules(rebuilt: Rebuilt, kernel: Kernel | Extern, links: Links) -> list[str]:
    """The modules that the kernel's ops were called in."""
    ids = [rebuilt.ops[index].id for index in kernel.ops]
    return _unique(links.modules[key] for key in ids if key in links.modules)


def _access(access: Access, names: Mapping[str, str]) -> dict[str, Any]:
    entry = asdict(access)
    entry["role"] = names.get(access.buffer, access.role)
    entry["size_bytes"] = access.bytes // max(access.elements, 1) * entry.pop("size")
    return entry


def _names(segment: Segment, schedule: Schedule | None) -> dict[str, str]:
    """The part that each graph input plays, by Inductor's name for it."""
    if schedule is None or len(schedule.inputs) != len(segment.inputs):
        return {}
    order = [node for node in segment.graph.nodes if node.op == "placeholder"]
    roles = {item.node: item.role for item in segment.inputs}
    return {name: roles[node] for name, node in zip(schedule.inputs, order, strict=True)}


def _order(pairs: list[tuple[Segment, Schedule | None]]) -> list[list[Any]]:
    """Launch order as `["generated" | "extern", position in its list]`."""
    seen: Counter[str] = Counter()
    order: list[list[Any]] = []
    for _, schedule in pairs:
        for kernel in schedule.kernels if schedule is not None else ():
            if kernel.device != "cpu":
                kind = "generated" if isinstance(kernel, Kernel) else "extern"
                order.append([kind, seen[kind]])
                seen[kind] += 1
    return order


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
