"""The stacked cache named without an execution trace: from the shapes of `select` and of the write.

`kc[layer].index_copy_(...)` is recorded as `aten::select` of the stack and then the write into a
tensor of the stack's shape without that dimension. How many whole-buffer copies compiling makes of
it depends on the schedule; it was one for every four writes on both models that were measured (8 of
32 and 32 of 128).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from math import prod

import numpy as np

from gaptrace import units
from gaptrace.measure.fusion_model import H200, Estimate, moved_ns
from gaptrace.measure.gemm import ITEM_BITS
from gaptrace.measure.links import names_where
from gaptrace.measure.result import Analysis
from gaptrace.predict.nodes import Nodes
from gaptrace.results.prediction import StackedCache

WRITES = re.compile(r"aten::(?:index_copy_|index_put_|_index_put_impl_|scatter_|copy_|index_add_)")
WRITES_A_COPY = 4
STACKED = 2


@dataclass(frozen=True)
class StackedWrites:
    """Writes into layers of stacks of one shape: how many, of how many stacks, and their bytes."""

    op: str
    writes: int
    buffers: int
    base_bytes: int
    view_bytes: int

    @property
    def copies(self) -> int:
        """Whole-buffer copies that compiling is likely to add."""
        return max(self.writes // WRITES_A_COPY, self.buffers)

    @property
    def loss(self) -> Estimate:
        """Time of those copies; from one per buffer to one per write."""
        one = H200.pointwise_ns + moved_ns(2 * self.base_bytes)
        return Estimate(self.copies * one, self.buffers * one, 2 * self.writes * one)


def stacked_writes(analysis: Analysis, nodes: Nodes) -> tuple[StackedWrites, ...]:
    """In-place writes of the typical step into tensors that were selected from a larger one."""
    trace, steps = analysis.trace, analysis.step_table
    if steps is None:
        return ()
    rows, shape = trace.op.rows, trace.op.shape
    start = trace.start[rows]
    inside = (shape >= 0) & (start >= steps.host_start[nodes.step])
    inside &= (start < steps.host_end[nodes.step]) & (trace.lane[rows] == steps.lane[nodes.step])
    rows, shape, start = rows[inside], shape[inside], start[inside]
    wanted = names_where(
        trace, trace.name[rows], lambda n: n == "aten::select" or WRITES.fullmatch(n) is not None
    )
    rows, shape, start = rows[wanted], shape[wanted], start[wanted]
    # Of ops that start together the outer one comes first.
    order = np.lexsort((-trace.dur[rows], start))
    picked: dict[tuple[int, ...], tuple[tuple[int, ...], str]] = {}
    found: Counter[tuple[str, tuple[int, ...], tuple[int, ...], int]] = Counter()
    layers: dict[tuple[str, tuple[int, ...], tuple[int, ...], int], Counter[str]] = {}
    until = -1
    for at in order:
        name, form = trace.name_of(int(rows[at])), trace.shapes[int(shape[at])]
        dims = _dims(form.dims[0]) if form.dims else ()
        if name == "aten::select":
            cut = _number(form.concrete[1:2])
            if dims and cut is not None and -len(dims) <= cut < len(dims):
                cut %= len(dims)
                picked[dims[:cut] + dims[cut + 1 :]] = (dims, "".join(form.concrete[2:3]))
            continue
        if start[at] < until or dims not in picked:
            continue
        until = int(start[at] + trace.dur[rows[at]])
        base, layer = picked[dims]
        item = ITEM_BITS.get(form.types[0], 16) // 8 if form.types else 2
        if prod(base) >= STACKED * prod(dims) and prod(dims) > 1:
            key = (name, base, dims, item)
            found[key] += 1
            layers.setdefault(key, Counter())[layer] += 1
    return tuple(
        StackedWrites(name, count, max(layers[key].values()), prod(base) * item, prod(view) * item)
        for key, count in found.items()
        for name, base, view, item in [key]
        if count > 1 and len(layers[key]) > 1
    )


def _dims(dims: object) -> tuple[int, ...]:
    if isinstance(dims, list) and dims and all(type(d) is int for d in dims):
        return tuple(dims)
    return ()


def _number(texts: tuple[str, ...]) -> int | None:
    text = "".join(texts)
    return int(text) if re.fullmatch(r"-?\d+", text) else None


def as_caches(found: tuple[StackedWrites, ...]) -> tuple[StackedCache, ...]:
    """The findings in words, with the loss that compiling is likely to bring."""
    return tuple(
        StackedCache(
            writes=item.writes,
            buffers=item.buffers,
            base_bytes=item.base_bytes,
            view_bytes=item.view_bytes,
            copies=item.copies,
            loss_ns=item.loss.ns,
            busy_change_ns=None,
            gain_ns=item.loss.ns,
            text=(
                f"{item.writes} in-place writes ({item.op}) go to layers "
                f"({units.size(item.view_bytes)}) of {item.buffers} stacked buffers "
                f"({units.size(item.base_bytes)} each). Compiled, about {item.copies} kernels "
                f"would copy a whole buffer: {units.time(item.loss.ns)} per step lost "
                f"({units.time(item.loss.low_ns)} to {units.time(item.loss.high_ns)}), which one "
                "tensor per layer would win back. Estimated from shapes."
            ),
        )
        for item in found
    )
