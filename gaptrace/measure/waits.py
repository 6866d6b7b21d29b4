"""What makes the host wait for the GPU: reading a value, learning a size, copying, or a call."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaptrace.knowledge import runtime_calls
from gaptrace.measure.links import names_where
from gaptrace.measure.view import Bools, Calls, View
from gaptrace.trace import Cat, Ints

SCALAR_OPS = frozenset(
    f"aten::{name}" for name in ("_local_scalar_dense", "item", "is_nonzero", "equal")
)
SHAPE_OPS = frozenset(
    f"aten::{name}"
    for name in (
        "nonzero", "masked_select", "unique", "_unique", "_unique2", "unique_dim",
        "unique_consecutive", "repeat_interleave", "bincount", "argwhere",
    )
)  # fmt: skip
COPY_OPS = frozenset(
    f"aten::{name}"
    for name in ("copy_", "_to_copy", "to", "_foreach_copy_", "_copy_from", "clone", "set_")
)
SCALAR, SHAPE, TO_DEVICE, COPY, EXPLICIT = range(5)


class Waits(NamedTuple):
    """Calls in which the host waits, the op around each (-1 for none), and what made it wait."""

    calls: Calls
    around: Ints
    kind: Ints


def waits(view: View) -> Waits:
    """The waits of the usable steps, each with the op around it, else the call, as its kind.

    `TO_DEVICE` are copies whose op moved pageable host memory to the device.
    """
    trace, calls = view.trace, view.calls("sync")
    around = view.op_around(calls.row)
    kind = np.full(calls.row.size, EXPLICIT, np.int64)
    kind[names_where(trace, trace.name[calls.row], runtime_calls.is_copy)] = COPY
    inside = around >= 0
    names = trace.name[around[inside]]
    for code, named in ((COPY, COPY_OPS), (SHAPE, SHAPE_OPS), (SCALAR, SCALAR_OPS)):
        hit = names_where(trace, names, named.__contains__)
        kind[np.flatnonzero(inside)[hit]] = code
    pageable = pageable_ops(view)
    to_device = np.isin(calls.row, view.device.links.launch[pageable])
    ops = view.launching_op[pageable]
    to_device |= inside & np.isin(around, ops[ops >= 0])
    kind[to_device & (kind == COPY)] = TO_DEVICE
    return Waits(calls, around, kind)


def pageable_ops(view: View) -> Bools:
    """Copies from pageable host memory to the device in usable steps, outside replays."""
    links = view.device.links
    named = names_where(
        view.trace, view.trace.name[links.row], lambda name: "HtoD" in name and "Pageable" in name
    )
    launched = links.launched & ~links.replayed
    return np.asarray(named & launched & (links.cat == Cat.MEMCPY) & (view.op_step >= 0))
