"""The data: one immutable columnar table of a trace's complete events, and what came with it.

A Trace is what was recorded, nothing derived. Rows are complete (`"ph": "X"`) events in file
order; row numbers identify events everywhere. All times are integer nanoseconds from the start of
the trace's first complete event. Facts that only some events have sit in sparse groups (`gpu`,
`py`, `op`) that name the rows they belong to.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]


class Cat(IntEnum):
    """What kind of event a row is, whatever the profiler of the day called it."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2
    RUNTIME = 3
    CPU_OP = 4
    ANNOTATION = 5
    GPU_ANNOTATION = 6
    PYTHON = 7
    OVERHEAD = 8
    SYNC = 9
    OTHER = 10


# Category texts of Kineto since 2020, lower-cased. RUNTIME holds runtime and driver calls of every
# vendor. Anything absent here is OTHER and keeps its own text only in the file.
CATEGORIES: Mapping[str, Cat] = {
    "kernel": Cat.KERNEL,
    "gpu_memcpy": Cat.MEMCPY,
    "memcpy": Cat.MEMCPY,
    "gpu_memset": Cat.MEMSET,
    "memset": Cat.MEMSET,
    "cuda_runtime": Cat.RUNTIME,
    "cuda_driver": Cat.RUNTIME,
    "runtime": Cat.RUNTIME,
    "driver": Cat.RUNTIME,
    "xpu_runtime": Cat.RUNTIME,
    "xpu_driver": Cat.RUNTIME,
    "mtia_runtime": Cat.RUNTIME,
    "privateuse1_runtime": Cat.RUNTIME,
    "privateuse1_driver": Cat.RUNTIME,
    "hip_runtime": Cat.RUNTIME,
    "cpu_op": Cat.CPU_OP,
    "operator": Cat.CPU_OP,
    "user_annotation": Cat.ANNOTATION,
    "gpu_user_annotation": Cat.GPU_ANNOTATION,
    "python_function": Cat.PYTHON,
    "python function": Cat.PYTHON,
    "overhead": Cat.OVERHEAD,
    "cuda_sync": Cat.SYNC,
}

GPU_CATS = (Cat.KERNEL, Cat.MEMCPY, Cat.MEMSET)


@dataclass(frozen=True)
class Lane:
    """A thread of a process: where an event was drawn.

    `rank` is the label that a merged multi-rank file puts in front of its pids (`[TP00]`), and
    empty elsewhere. `pid` and `tid` are the file's own values as text.
    """

    rank: str
    pid: str
    tid: str


@dataclass(frozen=True)
class Problem:
    """One thing that was wrong with the input and what was done about it.

    `id` is stable and machine-readable (`truncated`, `bad_utf8`, ...); `text` is a sentence for
    people; `count` says how often it happened.
    """

    id: str
    text: str
    count: int = 1


@dataclass(frozen=True)
class Source:
    """Where a trace came from.

    `format` is `kineto` for every schema read; `container` is `object` or `list` at top level;
    `bytes` is the size of the JSON text after decompression; `events` counts every event in the
    file, `ignored` those that no table keeps, by phase (`"M"`, `"s"`, `"f"`, `"i"`, ...), `unread`
    complete ones of a category that is not analysed, by category, or where they have none by
    `process PID`.
    """

    path: str
    format: str = "kineto"
    container: str = "object"
    compressed: bool = False
    bytes: int = 0
    events: int = 0
    ignored: Mapping[str, int] = field(default_factory=dict)
    unread: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class GpuColumns:
    """Facts about device events: kernels, copies and memsets (never annotations).

    rows: event rows, ascending. device: codes into `Trace.devices`. stream: the file's number, or
    -1. graph_id, graph_node: 0 where the op is not known to be part of a graph. bytes: moved by
    copies and memsets, 0 for kernels.
    """

    rows: Ints
    device: Codes
    stream: Ints
    graph_id: Ints
    graph_node: Ints
    bytes: Ints


@dataclass(frozen=True)
class PyColumns:
    """Python frames (`with_stack=True`): rows, `Python id`, `Python parent id` (0 when absent)."""

    rows: Ints
    id: Ints
    parent: Ints


@dataclass(frozen=True)
class OpColumns:
    """Facts about CPU ops: rows, `Record function id` (0 when absent) and shape code.

    shape is a code into `Trace.shapes`, -1 where no shapes were recorded for the op.
    """

    rows: Ints
    record_function_id: Ints
    shape: Codes


@dataclass(frozen=True)
class OpShape:
    """What an op was called with, as recorded: dimensions, type texts and concrete values.

    `dims[i]` is a list of ints for a tensor, `[]` for a scalar or nothing, and a list of lists
    for a list of tensors. `types[i]` reads like `c10::BFloat16` or `Scalar`.
    """

    dims: tuple[Any, ...]
    types: tuple[str, ...]
    concrete: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunInfo:
    """What a run folder says beside its trace: the parsed `run.json` and where it lies."""

    path: str
    manifest: Mapping[str, Any]


@dataclass(frozen=True)
class Joined:
    """That times are of another, lighter recording of the same steps than ops and Python frames.

    times: path of that recording. steps: how many it has. unlike: host starts in ns of those that
    the full one does not hold as well, which have no ops.
    """

    times: str
    steps: int
    unlike: tuple[int, ...] = ()

    @property
    def matched(self) -> int:
        """Steps that the full recording holds as well."""
        return self.steps - len(self.unlike)


@dataclass(frozen=True, eq=False)
class Trace:
    """One recording. All arrays are read-only and share the row order of the file.

    start, dur: int64 ns. name: codes into `names`. cat: int8 codes of `Cat`. lane: codes into
    `lanes`. corr: correlation id, 0 for none. ext: `External id`, 0 for none.
    `origin_ns` is the absolute time of row time 0 in the file's own clock, before
    `baseTimeNanoseconds` (in `metadata`) is added. `metadata` holds every top-level key of the
    file but the events. `process_names` and `thread_names` come from the metadata events.
    """

    start: Ints
    dur: Ints
    name: Codes
    cat: npt.NDArray[np.int8]
    lane: Codes
    corr: Ints
    ext: Ints
    gpu: GpuColumns
    py: PyColumns
    op: OpColumns
    names: tuple[str, ...]
    lanes: tuple[Lane, ...]
    devices: tuple[str, ...]
    shapes: tuple[OpShape, ...]
    source: Source
    origin_ns: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    process_names: Mapping[str, str] = field(default_factory=dict)
    thread_names: Mapping[tuple[str, str], str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    run: RunInfo | None = None
    joined: Joined | None = None
    read_event: Callable[[int], Mapping[str, Any]] | None = None

    def __post_init__(self) -> None:
        for part in (self, self.gpu, self.py, self.op):
            for item in dataclasses.fields(part):
                value = getattr(part, item.name)
                if isinstance(value, np.ndarray):
                    value.flags.writeable = False

    def __len__(self) -> int:
        """Number of complete events."""
        return int(self.start.size)

    @property
    def end(self) -> Ints:
        """End of each event in ns: start + duration."""
        return self.start + self.dur

    def rows_of(self, *cats: Cat) -> Ints:
        """Rows of the given kinds, in file order; looked for once and kept."""
        rows = self._rows.get(cats)
        if rows is None:
            chosen = np.zeros(len(Cat), np.bool_)
            chosen[list(cats)] = True
            rows = self._rows[cats] = np.flatnonzero(chosen[self.cat])
            rows.flags.writeable = False
        return rows

    @cached_property
    def _rows(self) -> dict[tuple[Cat, ...], Ints]:
        return {}

    def names_of(self, *cats: Cat) -> Ints:
        """Codes of the names that events of the given kinds have, ascending."""
        return np.flatnonzero(self._named[list(cats)].any(axis=0))

    @cached_property
    def _named(self) -> npt.NDArray[np.bool_]:
        """For each kind and name whether an event has both."""
        table = np.zeros((len(Cat), len(self.names)), np.bool_)
        table[self.cat, self.name] = True
        return table

    def name_of(self, row: int) -> str:
        """The event's name as recorded."""
        return self.names[int(self.name[row])]

    def event(self, row: int) -> Mapping[str, Any]:
        """The whole event as recorded, all of its `args` included; reads the file again.

        Empty where the trace was not read from something that can be read twice.
        """
        return {} if self.read_event is None else self.read_event(row)
