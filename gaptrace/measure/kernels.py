"""What ran on the GPU during decode: every kernel and copy by name, class, backend and origin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from gaptrace import vocabulary
from gaptrace.knowledge.kernel_names import classify, is_split_k_reducer
from gaptrace.knowledge.short_names import short_names
from gaptrace.measure.attribution import Origin, origins
from gaptrace.measure.devices import Device
from gaptrace.measure.gemm import Products, gemm_traffic
from gaptrace.measure.links import Links, names_where
from gaptrace.measure.stats import nearest_rank
from gaptrace.measure.steps import Steps
from gaptrace.measure.threads import Activity
from gaptrace.results.analysis import KernelRow, Kernels, OriginRow
from gaptrace.trace import Cat, Ints, Trace

Bools = npt.NDArray[np.bool_]
# The peak is often a measured copy; a kernel that mostly reads runs up to a few percent above it.
ABOVE_ROOF = 1.05
REDUCER = "adds up the partial sums of a product; the product's operands are read by another kernel"
SHARED = "several kernels share the bytes of one product"
CACHED = (
    "its shapes over its time exceed the peak bandwidth, so it did not read them all from memory"
)
OP_CLASSES = tuple(vocabulary.OP_CLASSES)


def kernel_table(
    trace: Trace,
    device: Device,
    steps: Steps,
    threads: Mapping[int, Activity],
    products: Products,
    peak_bandwidth: float | None,
) -> Kernels:
    """The kernels of the counted steps of a device, longest total first."""
    links, counted, tokens = device.links, steps.counted, steps.counted_tokens
    index = np.flatnonzero(steps.ops_of(counted))
    if index.size == 0 or tokens == 0:
        return _kernels((), (), 0.0)
    origin = origins(trace, links, threads)
    moves = _moves(trace, links, gemm_traffic(trace, products, origin.op), origin.op)
    dur = links.end - links.start
    total = int(dur[index].sum())
    ops = _Ops(trace, links, origin, moves, dur, total, tokens, peak_bandwidth)
    codes = trace.name[links.row[index]]
    order = np.argsort(codes, kind="stable")
    first = np.unique(codes[order], return_index=True)[1]
    rows = [ops.row(own) for own in np.split(index[order], first[1:])]
    shorts = short_names((row.name for row in rows), {row.name: row.op for row in rows})
    rows = [msgspec.structs.replace(row, short=shorts[row.name]) for row in rows]
    rows.sort(key=lambda row: (-row.total_ns_per_token, row.name))
    busy = int(steps.busy_ns[counted].sum())
    return _kernels(tuple(rows), ops.by_op(index), max(total - busy, 0) / tokens)


def _kernels(
    rows: tuple[KernelRow, ...], by_op: tuple[OriginRow, ...], overlap_ns: float
) -> Kernels:
    by_class = dict.fromkeys(OP_CLASSES, 0.0)
    for row in rows:
        by_class[row.op_class] += row.total_ns_per_token
    whole = sum(by_class.values())
    return Kernels(
        time_ns_by_class=by_class,
        overlap_ns=overlap_ns,
        by_op=by_op,
        rows=rows,
        share_by_class={name: ns / whole if whole else None for name, ns in by_class.items()},
    )


@dataclass(frozen=True, eq=False)
class _Moves:
    """For every GPU op the bytes that it alone moves for its matrix product, else 0.

    reducer, shared: where the product's bytes are known but are not this op's.
    """

    bytes: Ints
    reducer: Bools
    shared: Bools


def _moves(trace: Trace, links: Links, traffic: Ints, op: Ints) -> _Moves:
    """A product's bytes go to the one kernel that reads its operands."""
    codes = trace.name[links.row]
    known = (traffic > 0) & (links.cat == Cat.KERNEL)
    known &= names_where(trace, codes, lambda name: classify(name).op_class == "gemm")
    reducer = known & names_where(trace, codes, is_split_k_reducer)
    alone = known & ~reducer
    _, of, count = np.unique(op[alone], return_inverse=True, return_counts=True)
    shared = np.zeros(codes.size, np.bool_)
    shared[alone] = count[of] > 1
    return _Moves(np.where(alone & ~shared, traffic, 0), reducer, shared)


@dataclass(frozen=True, eq=False)
class _Ops:
    """The GPU ops of a device, and what shares are of: `total` ns and `tokens` of counted steps."""

    trace: Trace
    links: Links
    origin: Origin
    moves: _Moves
    dur: Ints
    total: int
    tokens: float
    peak: float | None

    def row(self, index: Ints) -> KernelRow:
        """The row of one name, by all of its ops in counted steps."""
        trace, links = self.trace, self.links
        name = trace.name_of(int(links.row[index[0]]))
        kind = classify(name)
        copies = links.cat[index[0]] != Cat.KERNEL
        own = self.dur[index]
        speed, share, note = self._reached(index, own)
        return KernelRow(
            name=name,
            short=kind.short,
            op_class="copy" if copies else kind.op_class,
            sub_class="copy" if copies else kind.sub_class,
            backend=kind.backend,
            per_token=index.size / self.tokens,
            total_ns_per_token=int(own.sum()) / self.tokens,
            median_ns=int(nearest_rank(np.sort(own), 50)),
            share=int(own.sum()) / self.total if self.total else 0.0,
            op=_most_common(trace, self.origin.op[index]),
            module=_most_common(trace, self.origin.module[index]),
            captured=float(links.replayed[index].mean()),
            bandwidth_bytes_per_s=speed,
            roofline_share=share,
            roofline_note=note,
        )

    def _reached(self, index: Ints, own: Ints) -> tuple[float | None, float | None, str | None]:
        """Bandwidth and share of the peak of one kernel name, and why they are withheld."""
        moves, peak = self.moves, self.peak
        moved = moves.bytes[index]
        usable = (moved > 0) & (own > 0)
        if not usable.any():
            shared = SHARED if moves.shared[index].any() else None
            return None, None, REDUCER if moves.reducer[index].any() else shared
        speed = float(nearest_rank(np.sort(moved[usable] / own[usable]), 50)) * 1e9
        share = speed / peak if peak else None
        if share is not None and share > ABOVE_ROOF:
            return None, None, CACHED
        return speed, share, None

    def by_op(self, index: Ints) -> tuple[OriginRow, ...]:
        """GPU work by the innermost op around its launch call, or by what stands in for one."""
        trace, op = self.trace, self.origin.op[index]
        # Name codes of ops; two codes beyond the table for work that no op launched.
        replay, none = len(trace.names), len(trace.names) + 1
        apart = np.where(self.links.replayed[index], replay, none)
        code = np.where(op >= 0, trace.name[op], apart)
        dur = self.dur[index]
        count = np.bincount(code, minlength=none + 1).tolist()
        total = np.bincount(code, weights=dur, minlength=none + 1).tolist()
        whole = max(int(dur.sum()), 1)
        names = (*trace.names, "graph replay", "no op")
        rows = [
            OriginRow(names[c], count[c] / self.tokens, total[c] / self.tokens, total[c] / whole)
            for c in np.flatnonzero(count).tolist()
        ]
        return tuple(sorted(rows, key=lambda row: (-row.total_ns_per_token, row.name)))


def _most_common(trace: Trace, rows: Ints) -> str:
    known = rows[rows >= 0]
    if known.size == 0:
        return ""
    codes, counts = np.unique(trace.name[known], return_counts=True)
    return trace.names[int(codes[np.argmax(counts)])]


def ops_by_class(trace: Trace, device: Device) -> list[str]:
    """Op class of every GPU op of the device, in file order."""
    codes = trace.name[device.links.row]
    kinds = {int(code): classify(trace.names[int(code)]).op_class for code in np.unique(codes)}
    return [
        kinds[int(code)] if cat == Cat.KERNEL else "copy"
        for code, cat in zip(codes, device.links.cat, strict=True)
    ]
