"""`gaptrace.gaps/1`: every gap of a device, with the nanoseconds of each cause, as plain data."""

from __future__ import annotations

from msgspec import Struct, field

GAPS = "gaptrace.gaps/1"


class HostWork(Struct, frozen=True):
    """A part of the time for which the GPU waited for its host, by what the host did.

    cause: that of the idle time. kind: what it was inside of: `runtime call`, `op`, `function`,
    `annotation`, `compiler`, `profiler` or `nothing recorded`. name: of the innermost event. where:
    the innermost Python frame of the program's own code around it; empty where no stacks were
    recorded. ns: how long, share: of the gap; or both of a token's idle time.
    """

    cause: str
    kind: str
    name: str
    where: str
    ns: int | float
    share: float | None = None


class Gap(Struct, frozen=True):
    """One gap: step -1 outside steps. cause: the largest; the `*_ns` of all causes sum to dur_ns.

    before, after: names of the GPU ops on both sides. launch_call: what ended the wait. Rows are
    event rows, -1 where unknown. drained_by_sync: the queue was empty because somebody waited.
    host: what the launching thread did in the gap until it launched, the largest part first; it
    sums to the host causes. launch_path: from the program's line to the launch call.
    """

    gap: int
    step: int
    start_ns: int
    end_ns: int
    dur_ns: int
    cause: str
    before: str
    after: str
    launch_call: str
    before_row: int
    after_row: int
    launch_row: int
    drained_by_sync: bool
    graph_node_ns: int
    device_wait_ns: int
    launch_ns: int
    unattributed_ns: int
    sync_ns: int
    alloc_ns: int
    compile_ns: int
    runtime_ns: int
    dispatch_ns: int
    python_ns: int
    profiler_ns: int
    host_wait_ns: int = 0
    host: tuple[HostWork, ...] = ()
    launch_path: tuple[str, ...] = ()


class GapsResult(Struct, frozen=True):
    """All gaps of one device in time order. withheld: why the causes are not to be believed.

    frames: whether Python frames of a launching thread were recorded.
    """

    source: str
    device: str | None
    gaps: tuple[Gap, ...]
    withheld: str | None = None
    frames: bool = False
    schema: str = field(default=GAPS)
