"""The compiled step estimated without an execution trace: from the order, names and shapes of ops.

Between two library calls (matrix products, attention, communication) everything pointwise fuses as
far as its sizes agree; a write into a cache stays a kernel of its own. That was within 20 % in
kernels on the models it was tried on, and it cannot see when it is badly wrong: in-place writes to
views, graph breaks, results that are needed twice. So the range is wide and the result says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from gaptrace.knowledge.runtime_calls import crosses_bus
from gaptrace.measure.attribution import op_around
from gaptrace.measure.fusion_model import H200, Estimate, moved_ns
from gaptrace.measure.gemm import ITEM_BITS
from gaptrace.measure.result import Analysis
from gaptrace.predict.compiled import Host, launched_step
from gaptrace.predict.constants import GraphModel
from gaptrace.predict.nodes import Nodes, pairs_of
from gaptrace.predict.savings import ACTIVATION, fusion_savings
from gaptrace.predict.stacked_shapes import StackedWrites, as_caches, stacked_writes
from gaptrace.predict.steps import CompiledStep
from gaptrace.results.prediction import AtBatch, Doubt, FusedGroup, FusionSavings
from gaptrace.trace import OpShape

ESTIMATED = "estimated from shapes"
EXTERN = frozenset({"gemm", "splitk", "attention", "communication", "memset"})
SCATTER = re.compile(r"index_copy|index_put|scatter|masked_fill_|index_add|index_fill")
CREATES = re.compile(r"::(?:arange|fill_|full|zero_|zeros|ones|scalar_tensor|eye)")
# Ops that Inductor leaves to a library.
LIBRARY = re.compile(r"attention|sdpa|topk|sort|nonzero|multinomial|conv|_mm\b|::b?mm\b")
REDUCES = re.compile(r"reduce|softmax|norm|mean|sum|argmax|amax|amin|cumsum|var", re.IGNORECASE)
QUANTIZES = re.compile(r"quant|fp8|float8|e4m3|e5m2|int8", re.IGNORECASE)
# No decode step has as many GPU ops; what has is a whole recording taken for one step.
MOST_NODES = 50_000
# Kernels within a fifth was seen with shapes; names alone tell less.
SHAPES_SHARE, NAMES_SHARE = 0.25, 0.40


@dataclass(frozen=True)
class Piece:
    """A kernel of the step: its op, elements, bytes of an element, duration, position.

    elements: of the largest operand; 0 where no shapes were recorded. operands: elements of each
    tensor it reads. narrow: it makes values of 8 or fewer bits.
    """

    op: str
    name: str
    elements: int
    item: float
    dur: int
    at: int
    narrow: bool
    operands: frozenset[int] = frozenset()

    @property
    def bytes(self) -> float:
        """Bytes of the result, taken to be as large as the largest operand."""
        return self.elements * self.item


@dataclass(frozen=True)
class Fused:
    """Pieces that one generated kernel would do. scatter: a write into a cache."""

    pieces: tuple[Piece, ...]
    scatter: bool = False

    @property
    def elements(self) -> int:
        """Elements of the group's result: those of its last piece."""
        return self.pieces[-1].elements

    @property
    def folded(self) -> bool:
        """Whether it costs no kernel: constants, or single values, that others compute inline."""
        return not self.scatter and all(
            CREATES.search(p.op) is not None or p.elements == 1 for p in self.pieces
        )

    @property
    def eager_ns(self) -> int:
        """Recorded duration of all of them."""
        return sum(piece.dur for piece in self.pieces)

    @property
    def ns(self) -> float:
        """Predicted duration, never above that of the kernels it replaces."""
        largest = max(piece.bytes for piece in self.pieces)
        moved = 0.0 if self.scatter else 2 * largest
        if any(REDUCES.search(p.name) or REDUCES.search(p.op) for p in self.pieces):
            fixed = H200.reduction_ns
        else:
            fixed = H200.pointwise_ns + 3 * H200.load_ns
        return min(fixed + moved_ns(moved), float(self.eager_ns))


@dataclass(frozen=True)
class Fusion:
    """The groups of a step in order, the nodes that fold away, and whether shapes were recorded."""

    groups: tuple[Fused, ...]
    folded: frozenset[int]
    shaped: bool

    @property
    def inside(self) -> frozenset[int]:
        """Positions of all nodes that generated kernels stand for."""
        return self.folded | {p.at for group in self.groups for p in group.pieces}


def fused_groups(analysis: Analysis, nodes: Nodes) -> Fusion:
    """What fuses in the step up to its last matrix product.

    Constants and single values are computed wherever they are needed and cost no kernel. A result
    that the next library call does not read waits for the next run of its size (an activation
    beside the up projection).
    """
    heavy = [i for i, kind in enumerate(nodes.kinds) if kind == "gemm"]
    last = heavy[-1] if heavy else len(nodes.kinds) - 1
    found: list[Fused] = []
    run: list[Piece] = []
    pieces = _pieces(analysis, nodes)
    for at, kind in enumerate(nodes.kinds[: last + 1]):
        piece = pieces[at]
        if piece is not None and kind not in EXTERN and not LIBRARY.search(piece.op):
            run.append(piece)
            continue
        groups = _split(run)
        read = piece.operands if piece is not None and kind == "gemm" else frozenset()
        waits = [g for g in groups if read and not g.scatter and g.elements not in read]
        found += [g for g in groups if g not in waits]
        run = [p for group in waits for p in group.pieces]
    found += _split(run)
    return Fusion(
        groups=tuple(group for group in found if not group.folded),
        folded=frozenset(p.at for group in found if group.folded for p in group.pieces),
        shaped=any(p is not None and p.elements for p in pieces),
    )


def _split(run: Sequence[Piece]) -> list[Fused]:
    """The groups of one run: writes into caches alone, the rest by size.

    A smaller size between two pieces of a larger one is part of it: the inner step of a norm, the
    half that a rotation turns.
    """
    found = [Fused((piece,), scatter=True) for piece in run if SCATTER.search(piece.op)]
    plain = [piece for piece in run if not SCATTER.search(piece.op)]
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for at, piece in enumerate(plain):
        first.setdefault(piece.elements, at)
        last[piece.elements] = at
    home = {
        size: next(
            (
                big
                for big in sorted(first)
                if big > size and first[big] < first[size] and last[size] < last[big]
            ),
            size,
        )
        for size in first
    }
    by_size: dict[int, list[Piece]] = {}
    for piece in plain:
        by_size.setdefault(home[piece.elements], []).append(piece)
    return [*found, *(Fused(tuple(pieces)) for pieces in by_size.values())]


def _pieces(analysis: Analysis, nodes: Nodes) -> list[Piece | None]:
    """For each node its piece; None for copies between host and device."""
    trace, device = analysis.trace, analysis.device
    assert device is not None
    links = device.links
    launch = np.where(links.replayed, -1, links.launch)[nodes.index]
    ops = op_around(trace, analysis.threads, launch)
    at = np.searchsorted(trace.op.rows, ops)
    found: list[Piece | None] = []
    for i, (row, op) in enumerate(zip(links.row[nodes.index], ops, strict=True)):
        name = trace.name_of(int(row))
        if crosses_bus(name):
            found.append(None)
            continue
        op_name = trace.name_of(int(op)) if op >= 0 else ""
        narrow = bool(QUANTIZES.search(name) or QUANTIZES.search(op_name))
        code = int(trace.op.shape[at[i]]) if op >= 0 and at[i] < trace.op.rows.size else -1
        sizes = _sizes(trace.shapes[code]) if code >= 0 else []
        elements, item = max(sizes, default=(0, 2.0))
        operands = frozenset(size for size, _ in sizes)
        dur = int(nodes.dur[i])
        found.append(Piece(op_name, name, elements, item, dur, i, narrow, operands))
    return found


def _sizes(shape: OpShape) -> list[tuple[int, float]]:
    """Elements and bytes of an element of every tensor operand; a list counts as its sum."""
    found = []
    for dims, dtype in zip(shape.dims, shape.types, strict=False):
        if not isinstance(dims, list) or not dims:
            continue
        item = ITEM_BITS.get(dtype, 16) / 8
        if all(type(d) is int for d in dims):
            found.append((prod(dims), item))
        elif all(isinstance(d, list) for d in dims):
            found.append((sum(prod(d) for d in dims), item))
    return found


def estimated(
    analysis: Analysis, nodes: Nodes, host: Host, model: GraphModel
) -> tuple[CompiledStep, Fusion, tuple[StackedWrites, ...]] | None:
    """The compiled step with an honest range, and what it is made of; None: nothing to fuse."""
    if len(nodes) > MOST_NODES:
        return None
    fusion = fused_groups(analysis, nodes)
    groups, inside, shaped = fusion.groups, fusion.inside, fusion.shaped
    if not groups:
        return None
    share = SHAPES_SHARE if shaped else NAMES_SHARE
    fixed = len(nodes) - len(inside)
    memsets = len(nodes.memset_ns)
    kernels = fixed - memsets - _recorded_copies(analysis, nodes, inside) + len(groups)
    removed = float(nodes.dur[sorted(inside)].sum())
    kept = float(nodes.dur.sum()) - removed
    made = sum(group.ns for group in groups)
    stacked = stacked_writes(analysis, nodes)
    lost = [item.loss for item in stacked]
    # At worst nothing is won; at best the groups cost half of what is assumed.
    busy = Estimate(
        kept + made + sum(loss.ns for loss in lost),
        0.95 * kept + 0.5 * made + sum(loss.low_ns for loss in lost),
        1.1 * kept + max(1.35 * made, removed) + sum(loss.high_ns for loss in lost),
    )
    copied = sum(item.copies for item in stacked)
    kinds = _kinds(nodes, groups, inside)
    width = max(round(len(groups) * 2 * share), 2)
    most = width + sum(item.writes for item in stacked)
    launches = fixed + len(groups) + copied
    basis = "op shapes" if shaped else "kernel names alone (no shapes were recorded)"
    step = CompiledStep(
        already=False,
        exact=False,
        source=ESTIMATED,
        note=(
            f"estimated from {basis}, without the execution trace: no check that it can be "
            "compiled so. `gaptrace predict` with an execution trace and torch asks Inductor itself"
        ),
        kernels=kernels + copied,
        generated=len(groups) + copied,
        extern=kernels - len(groups),
        launches=launches,
        eager_kernels=len(nodes) - memsets - _recorded_copies(analysis, nodes, frozenset()),
        busy=busy,
        by_class=None,
        launched=launched_step(busy, launches, host),
        captured=model.step(
            busy, pairs_of(kinds), launches, 1, model.memset_extra(nodes.memset_ns)
        ),
        doubts=tuple(
            Doubt("stacked_cache", item.text, (w.op,))
            for item, w in zip(as_caches(stacked), stacked, strict=True)
        ),
        host=host.source,
        profiled=host.profiled,
        kernel_range=(max(kernels - width, 1), kernels + most),
        generated_range=(max(len(groups) - width, 1), len(groups) + most),
    )
    return step, fusion, stacked


def _recorded_copies(analysis: Analysis, nodes: Nodes, inside: frozenset[int]) -> int:
    """Copies by the copy engine that stay: they are nodes and launches, not kernels."""
    device = analysis.device
    assert device is not None
    rows = device.links.row[nodes.index]
    return sum(
        analysis.trace.name_of(int(row)).startswith("Memcpy")
        for i, row in enumerate(rows)
        if i not in inside
    )


def _kinds(nodes: Nodes, groups: Sequence[Fused], inside: frozenset[int]) -> list[str]:
    """Kinds of the nodes of the compiled step: each group stands where its first kernel was."""
    firsts = {group.pieces[0].at for group in groups}
    return [
        "pointwise" if i in firsts else kind
        for i, kind in enumerate(nodes.kinds)
        if i in firsts or i not in inside
    ]


def estimated_savings(
    groups: Sequence[Fused], peak: float, recorded_batch: int, batches: Sequence[int]
) -> FusionSavings:
    """Savings from shapes: in each group every result but the last is written and read once less.

    Sizes are those of the largest operand, and all are taken to grow with the batch.
    """
    table: dict[tuple[str, ...], list[Fused]] = {}
    values: dict[str, tuple[float, float]] = {}
    for group in groups:
        if len(group.pieces) < 2:
            continue
        chain = tuple(p.op.rpartition("::")[2] or "?" for p in group.pieces)
        table.setdefault(chain, []).append(group)
        for piece in group.pieces[:-1]:
            out, back = values.get(piece.op, (0.0, 0.0))
            values[piece.op] = (out + piece.bytes, back + piece.bytes)

    def saved(kept: Sequence[Piece], batch: int) -> tuple[float, float]:
        """Bytes one way, and ns, of results that stay in a kernel at a batch size."""
        one_way = sum(piece.bytes for piece in kept) * batch / recorded_batch
        return one_way, 2 * one_way / peak * 1e9 + len(kept) * H200.pointwise_ns

    def at_batch(kept: Sequence[Piece]) -> dict[str, AtBatch]:
        found = {b: saved(kept, b) for b in batches}
        return {str(b): AtBatch(round(2 * moved), round(ns)) for b, (moved, ns) in found.items()}

    rows, every = [], list[Piece]()
    for chain, alike in table.items():
        kept = [piece for group in alike for piece in group.pieces[:-1]]
        every += kept
        one_way, ns = saved(kept, recorded_batch)
        rows.append(
            FusedGroup(
                name="+".join(chain),
                chain=chain,
                places=len(alike),
                launches=len(kept),
                bytes=round(2 * one_way),
                time_ns=round(ns),
                activation=any(ACTIVATION.search(op) for op in chain),
                quantize=any(piece.narrow for group in alike for piece in group.pieces[1:]),
                modules=(),
                at_batch=at_batch(kept),
            )
        )
    one_way, ns = saved(every, recorded_batch)
    return fusion_savings(
        rows,
        values=values,
        written=one_way,
        read=one_way,
        time_ns=ns,
        at_batch=at_batch(every),
        recorded_batch=recorded_batch,
        peak=peak,
        source=ESTIMATED,
    )
