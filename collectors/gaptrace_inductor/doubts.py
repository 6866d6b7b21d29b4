"""Names what makes a prediction doubtful, from the rebuilt step and what was scheduled for it.

A doubt is a sentence with its evidence, never a correction: the counts stay those of Inductor.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from .execution_trace import tensors
from .graphs import op_at
from .kernels import Kernel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from .eager import Links
    from .execution_trace import Step
    from .graphs import InPlaceWrite, Rebuilt
    from .kernels import Extern

# A base this much larger than the view that is written is a stack of caches, not a cache.
STACKED = 2
RANDOM = frozenset({"aten::bernoulli_", "aten::multinomial", "aten::exponential_", "aten::rand"})


def find(
    step: Step, rebuilt: Rebuilt, links: Links, kernels: Iterable[Kernel | Extern]
) -> list[dict[str, Any]]:
    """The doubtful constructs of a step, each with `id`, `text`, `ops` (indices) and figures."""
    doubts = [
        *_stacked(rebuilt, kernels),
        *_breaks(rebuilt),
        *_transfers(rebuilt),
        *_growing(rebuilt),
        *_unknown(rebuilt, links),
        *_guesses(rebuilt),
    ]
    if step.compiled:
        text = "the step was already compiled when it was recorded; only what is left is predicted"
        doubts.append({"id": "already_compiled", "text": text, "ops": []})
    return doubts


def suggested(rebuilt: Rebuilt) -> list[str]:
    """The what-ifs that the step's own constructs ask for."""
    names = ["unstack-cache"] if stacked_writes(rebuilt) else []
    return names + (["static-cache"] if any(_growing(rebuilt)) else [])


def stacked_writes(rebuilt: Rebuilt) -> Mapping[int, list[InPlaceWrite]]:
    """In-place writes by storage id, for memory written through several of its proper views."""
    groups: dict[int, list[InPlaceWrite]] = {}
    for write in rebuilt.writes:
        if write.base_elements >= STACKED * write.view_elements and write.view_elements > 1:
            groups.setdefault(write.storage_id, []).append(write)
    return {
        key: writes
        for key, writes in groups.items()
        if len({_offset(rebuilt, w) for w in writes}) > 1
    }


def _offset(rebuilt: Rebuilt, write: InPlaceWrite) -> tuple[int, ...]:
    return tuple(
        ref.offset
        for ref in tensors(list(rebuilt.ops[write.op].inputs))
        if ref.storage_id == write.storage_id
    )


def _stacked(rebuilt: Rebuilt, kernels: Iterable[Kernel | Extern]) -> Iterator[dict[str, Any]]:
    listed = [kernel for kernel in kernels if isinstance(kernel, Kernel)]
    alike: dict[tuple[int, int], list[list[InPlaceWrite]]] = {}
    for writes in stacked_writes(rebuilt).values():
        base = writes[0].base_elements * writes[0].itemsize
        alike.setdefault((base, writes[0].view_elements * writes[0].itemsize), []).append(writes)
    for (base, view), groups in alike.items():
        writes = [write for group in groups for write in group]
        copies = [
            i
            for i, kernel in enumerate(listed)
            if any(access.bytes == base and access.how == "whole" for access in kernel.writes)
        ]
        text = (
            f"{len(writes)} in-place writes go to views ({view} bytes) of {len(groups)} stacked "
            f"buffers ({base} bytes each): compiled, {len(copies)} kernels copy a whole buffer"
        )
        yield {
            "id": "stacked_cache",
            "text": text,
            "ops": sorted({write.op for write in writes}),
            "writes": len(writes),
            "buffers": len(groups),
            "base_bytes": base,
            "view_bytes": view,
            "whole_copies": len(copies),
            "kernels": copies,
            "copied_bytes": sum(a.bytes for i in copies for a in listed[i].writes),
            "what_if": "unstack-cache",
        }


def _breaks(rebuilt: Rebuilt) -> Iterator[dict[str, Any]]:
    if not rebuilt.breaks:
        return
    names = Counter(rebuilt.ops[i].name for i in rebuilt.breaks)
    listed = ", ".join(f"{name} ({n})" for name, n in names.most_common(5))
    text = (
        f"{len(rebuilt.breaks)} ops need a value on the host or are not traceable: {listed}; the "
        f"step is compiled in {len(rebuilt.segments)} graphs"
    )
    yield {"id": "graph_breaks", "text": text, "ops": list(rebuilt.breaks)}


def _transfers(rebuilt: Rebuilt) -> Iterator[dict[str, Any]]:
    ops = []
    for segment in rebuilt.segments:
        for index in segment.ops:
            op = rebuilt.ops[index]
            before = {ref.device.split(":")[0] for ref in tensors(list(op.inputs)) if ref.shape}
            after = {ref.device.split(":")[0] for ref in tensors(list(op.outputs))}
            if before and after and "cpu" in before | after and not after <= before:
                ops.append(index)
    if ops:
        text = f"{len(ops)} ops move tensors between host and device inside the compiled region"
        yield {"id": "host_transfers", "text": text, "ops": ops}


def _growing(rebuilt: Rebuilt) -> Iterator[dict[str, Any]]:
    ops = []
    for segment in rebuilt.segments:
        inputs = {item.node for item in segment.inputs}
        for node in segment.graph.nodes:
            name = getattr(getattr(node.target, "_schema", None), "name", "")
            if name != "aten::cat" or node not in segment.outputs:
                continue
            if any(part in inputs for part in node.args[0]):
                ops.append(op_at(node.meta.get("stack_trace")) or 0)
    if ops:
        text = (
            f"{len(ops)} states grow by cat from step to step: compiled code for fixed shapes "
            "would recompile; dynamic shapes are not modelled"
        )
        yield {"id": "growing_state", "text": text, "ops": ops, "what_if": "static-cache"}


def _unknown(rebuilt: Rebuilt, links: Links) -> Iterator[dict[str, Any]]:
    if rebuilt.opaque:
        names = sorted({rebuilt.ops[i].name for i in rebuilt.opaque})
        text = (
            f"{', '.join(names[:5])}: not registered here; taken as opaque calls that compile as "
            "they are (a graph break where they have no fake implementation)"
        )
        yield {"id": "unknown_ops", "text": text, "ops": sorted(set(rebuilt.opaque))}
    if links.unlinked:
        names = sorted({kernel.name.split("(")[0] for kernel in links.unlinked})
        text = (
            f"{len(links.unlinked)} kernels were launched by no operator ({', '.join(names[:3])}): "
            "user kernels, kept as they are"
        )
        yield {"id": "unrecorded_kernels", "text": text, "ops": []}
    random = [i for s in rebuilt.segments for i in s.ops if rebuilt.ops[i].name in RANDOM]
    if random:
        text = f"{len(random)} random ops in the region: Inductor replaces or falls back for them"
        yield {"id": "random_ops", "text": text, "ops": random}


def _guesses(rebuilt: Rebuilt) -> Iterator[dict[str, Any]]:
    if rebuilt.recovered:
        text = f"{len(rebuilt.recovered)} inputs are views that no recorded op made; rebuilt"
        yield {"id": "recovered_views", "text": text, "ops": []}
    if rebuilt.mismatched:
        names = ", ".join(sorted(set(rebuilt.mismatched))[:5])
        text = f"{len(rebuilt.mismatched)} ops came out with another shape or dtype: {names}"
        yield {"id": "mismatched_ops", "text": text, "ops": []}
