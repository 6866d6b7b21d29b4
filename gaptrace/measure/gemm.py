"""Bytes that matrix products must move, from the recorded shapes.

The weight operand is the second of `mm` and `linear`, the third of `addmm`, the packed second of
the int4 product; `bmm` multiplies activations and is left out. Nested calls count once: only the
innermost of the family is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from gaptrace.measure.links import names_where
from gaptrace.trace import Ints, OpShape, Trace

ITEM_BITS = {
    "c10::BFloat16": 16,
    "c10::Half": 16,
    "float": 32,
    "double": 64,
    "c10::Float8_e4m3fn": 8,
    "c10::Float8_e5m2": 8,
    "c10::Float8_e4m3fnuz": 8,
    "c10::Float8_e5m2fnuz": 8,
    "signed char": 8,
    "unsigned char": 8,
    "char": 8,
    "int": 32,
    "long int": 64,
    "long": 64,
    "short": 16,
    "bool": 8,
}
# Op name to the position of its weight operand.
_WEIGHT_AT = {
    "aten::mm": 1,
    "aten::linear": 1,
    "aten::addmm": 2,
    "aten::_scaled_mm": 1,
    "aten::_int_mm": 1,
    "aten::_weight_int4pack_mm": 1,
    "aten::_weight_int8pack_mm": 1,
}
_PACKED_INT4 = "aten::_weight_int4pack_mm"
_FAMILY = re.compile("|".join(map(re.escape, _WEIGHT_AT)))

# Bytes and counts from here on are those of a broken record.
LARGEST = 1 << 60


@dataclass(frozen=True)
class Weight:
    """The weight operand of one call: bytes as stored, number of weights, bytes moved in all."""

    bytes: int
    count: int
    moved: int


def is_gemm_op(name: str) -> bool:
    """Whether the op multiplies an activation by a 2-D weight."""
    return _FAMILY.fullmatch(name) is not None


def weight_of(name: str, shape: OpShape) -> Weight | None:
    """The weight operand of a call, None where the shape does not tell."""
    at = _WEIGHT_AT.get(name)
    if at is None or len(shape.dims) <= at or len(shape.types) <= at:
        return None
    stored = _bits(shape, at)
    if stored is None:
        return None
    count = prod(shape.dims[at])
    if name == _PACKED_INT4:
        # Eight 4-bit weights to an int32; scales and zeros (operand 3) are read along with them.
        scales = _bits(shape, 3) if len(shape.dims) > 3 else 0
        weight_bytes = (stored + (scales or 0)) // 8
        count *= 8
    elif len(shape.dims[at]) != 2:
        return None
    else:
        weight_bytes = stored // 8
    left = at - 1
    rows = prod(shape.dims[left][:-1]) if _is_tensor(shape.dims[left]) else 0
    columns = count // shape.dims[left][-1] if rows and shape.dims[left][-1] else 0
    item = _item_bits(shape, left) // 8
    moved = weight_bytes + (prod(shape.dims[left]) + rows * columns) * item if rows else 0
    return Weight(weight_bytes, count, moved)


def _is_tensor(dims: Any) -> bool:
    return isinstance(dims, (list, tuple)) and bool(dims) and all(type(d) is int for d in dims)


def _item_bits(shape: OpShape, at: int) -> int:
    return ITEM_BITS.get(shape.types[at], 0) if at < len(shape.types) else 0


def _bits(shape: OpShape, at: int) -> int | None:
    item = _item_bits(shape, at)
    if not item or not _is_tensor(shape.dims[at]):
        return None
    return int(prod(shape.dims[at]) * item)


@dataclass(frozen=True, eq=False)
class Products:
    """Every matrix product with a known weight operand, nested calls once; one entry per call.

    rows: event rows, ascending. bytes: of the weights as stored. count: number of weights. moved:
    bytes the product must move in all (weights, input, output), 0 where the input is unknown.
    """

    rows: Ints
    bytes: Ints
    count: Ints
    moved: Ints


def matrix_products(trace: Trace) -> Products:
    """The matrix products of a trace, from the recorded shapes."""
    rows = trace.op.rows
    shaped = np.flatnonzero(trace.op.shape >= 0)
    shaped = shaped[names_where(trace, trace.name[rows[shaped]], is_gemm_op)]
    shaped = shaped[_leaves(trace, rows[shaped])]
    rows, shape, kinds = rows[shaped], trace.op.shape[shaped], len(trace.shapes)
    # Each pair of a name and a shape is read once.
    pairs, of = np.unique(trace.name[rows].astype(np.int64) * kinds + shape, return_inverse=True)
    weights = [
        weight_of(trace.names[pair // kinds], trace.shapes[pair % kinds]) for pair in pairs.tolist()
    ]
    # Sizes that no memory holds are no shapes.
    weights = [
        w if w is None or max(w.bytes, w.count, w.moved) < LARGEST else None for w in weights
    ]
    known = np.array([weight is not None for weight in weights], np.bool_)[of]
    facts = [(0, 0, 0) if w is None else (w.bytes, w.count, w.moved) for w in weights]
    columns = np.array(facts, np.int64).reshape(-1, 3)[of[known]].T
    return Products(rows[known], *columns)


def _leaves(trace: Trace, rows: Ints) -> np.ndarray:
    """Which of the rows contain no other of them on their thread."""
    lane, start = trace.lane[rows], trace.start[rows]
    end = start + trace.dur[rows]
    order = np.lexsort((rows, -end, start, lane))
    inner = np.zeros(rows.size, np.bool_)
    if rows.size > 1:
        a, b = order[:-1], order[1:]
        inner[a] = (lane[a] == lane[b]) & (start[b] < end[a]) & (end[b] <= end[a])
    return ~inner


def gemm_traffic(trace: Trace, products: Products, op: Ints) -> Ints:
    """Bytes that the matrix product of each GPU op must move, by its innermost op row; else 0."""
    moved = np.zeros(len(trace) + 1, np.int64)
    moved[products.rows] = products.moved
    return moved[op]
