"""The eager recording as plain data for Inductor's process: `gaptrace.eager/1`.

The process that asks Inductor may run another Python, with torch and without what gaptrace needs.
So the trace is read here, once, and that process gets what it joins to the execution trace:

- `trace`: the file's name. `device`: the properties of its GPU as Kineto wrote them, or null.
- `ops`: the CPU ops in call order, `[name, Record function id, start_ns, end_ns, module]`; `module`
  is the innermost `nn.Module` frame around the op, empty without Python frames.
- `kernels`: the device ops by start, `[name, kind, dur_ns, op, launch_ns]`; `kind` is `kernel`,
  `copy` or `memset`, `op` the position in `ops` of the op that launched it, -1 for none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gaptrace.measure.attribution import MODULE_PREFIX, enclosing
from gaptrace.measure.links import link, rows_named
from gaptrace.trace import Cat, Ints, Trace

SCHEMA = "gaptrace.eager/1"
_KINDS = {Cat.KERNEL: "kernel", Cat.MEMCPY: "copy", Cat.MEMSET: "memset"}


def eager_data(trace: Trace) -> dict[str, Any]:
    """The `gaptrace.eager/1` object of a trace; times in ns from the trace's first event.

    An op launched a kernel when it is the innermost one around the launch call. Where no call is
    known (it was not recorded) the kernel's `External id` names the op.
    """
    ops = trace.rows_of(Cat.CPU_OP)
    ops = ops[np.lexsort((-trace.dur[ops], trace.start[ops]))]
    frames = trace.rows_of(Cat.PYTHON)
    modules = rows_named(trace, lambda name: name.startswith(MODULE_PREFIX), Cat.PYTHON)
    around = enclosing(trace, modules, ops, frames_of=frames)
    record_ids = np.zeros(len(trace), np.int64)
    record_ids[trace.op.rows] = trace.op.record_function_id
    links = link(trace)
    order = np.argsort(links.start, kind="stable")
    rows, launch = links.row[order], links.launch[order]
    owner = _owners(trace, ops, rows, launch)
    launched_at = np.where(launch >= 0, trace.start[launch], trace.start[rows])
    properties = trace.metadata.get("deviceProperties")
    return {
        "schema": SCHEMA,
        "trace": trace.source.path.replace("\\", "/").rsplit("/", 1)[-1],
        "device": properties[0] if isinstance(properties, list) and properties else None,
        "ops": [
            [trace.name_of(row), record_id, start, end, _module(trace, frame)]
            for row, record_id, start, end, frame in zip(
                ops.tolist(),
                record_ids[ops].tolist(),
                trace.start[ops].tolist(),
                trace.end[ops].tolist(),
                around.tolist(),
                strict=True,
            )
        ],
        "kernels": [
            [trace.name_of(row), _KINDS[Cat(kind)], dur, op, at]
            for row, kind, dur, op, at in zip(
                rows.tolist(),
                trace.cat[rows].tolist(),
                trace.dur[rows].tolist(),
                owner.tolist(),
                launched_at.tolist(),
                strict=True,
            )
        ],
    }


def _owners(trace: Trace, ops: Ints, kernels: Ints, launch: Ints) -> Ints:
    """For each kernel the position in `ops` of the op that launched it, -1 for none."""
    position = np.full(len(trace) + 1, -1, np.int64)  # the last entry answers for row -1
    position[ops] = np.arange(ops.size)
    owner = position[enclosing(trace, ops, launch)]
    named = {ext: at for at, ext in enumerate(trace.ext[ops].tolist()) if ext}
    for at in np.flatnonzero(launch < 0).tolist():
        owner[at] = named.get(int(trace.ext[kernels[at]]), -1)
    return owner


def _module(trace: Trace, frame: int) -> str:
    return trace.name_of(frame).removeprefix(MODULE_PREFIX) if frame >= 0 else ""
