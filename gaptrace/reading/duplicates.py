"""Records that were written twice: the second one is not an event of its own.

GPU ops that agree in device, stream, start, duration, name and correlation are one op, and so are
host events that agree in thread, start, duration, name and a non-zero correlation or External id.
The first in the file is kept; the others keep their rows, as events of no kind that is analysed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gaptrace.trace import Cat, GpuColumns, OpColumns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gaptrace.reading.assemble import Merged
    from gaptrace.reading.columns import Array
    from gaptrace.trace import Ints

_HOST = (Cat.RUNTIME, Cat.CPU_OP)


def drop_duplicates(merged: Merged) -> int:
    """How many records stood there twice; `merged` keeps the first of each."""
    gpu = merged.gpu
    rows = gpu.rows
    twice = _repeats(
        merged.start[rows],
        (
            merged.dur[rows],
            merged.cat[rows],
            merged.name[rows],
            merged.lane[rows],
            merged.corr[rows],
            gpu.device,
            gpu.stream,
            gpu.graph_node,
        ),
    )
    host = np.flatnonzero(np.isin(merged.cat, _HOST) & ((merged.corr != 0) | (merged.ext != 0)))
    again = _repeats(
        merged.start[host],
        tuple(
            column[host]
            for column in (
                merged.dur, merged.cat, merged.name, merged.lane, merged.corr, merged.ext,
            )
        ),
    )  # fmt: skip
    if not (twice.any() or again.any()):
        return 0
    merged.cat[rows[twice]] = Cat.OTHER
    merged.cat[host[again]] = Cat.OTHER
    kept = ~twice
    merged.gpu = GpuColumns(
        rows[kept],
        gpu.device[kept],
        gpu.stream[kept],
        gpu.graph_id[kept],
        gpu.graph_node[kept],
        gpu.bytes[kept],
    )
    op = merged.op
    kept = merged.cat[op.rows] == Cat.CPU_OP
    merged.op = OpColumns(op.rows[kept], op.record_function_id[kept], op.shape[kept])
    return int(twice.sum() + again.sum())


def _repeats(start: Ints, others: Sequence[Array]) -> np.ndarray:
    """Which entries equal an earlier one in every column."""
    result = np.zeros(start.size, np.bool_)
    order = np.argsort(start, kind="stable")
    same = start[order][1:] == start[order][:-1]
    # Only what starts together with a neighbour can be a repeat; that is little of most files.
    near = np.zeros(start.size, np.bool_)
    near[1:] |= same
    near[:-1] |= same
    index = np.sort(order[near])
    if index.size == 0:
        return result
    keys = [start[index], *(column[index] for column in others)]
    order = np.lexsort((index, *keys))
    equal = np.ones(index.size - 1, np.bool_)
    for key in keys:
        equal &= key[order][1:] == key[order][:-1]
    result[index[order[1:][equal]]] = True
    return result
