"""Random small traces that try to break things, for comparing the analyzer with the reference.

Times are small integers, so that ties, zero lengths, touching and crossing intervals are common.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from tests.builders import (
    Event,
    event,
    frame,
    gpu_mark,
    kernel,
    launch,
    mark,
    memcpy,
    memset,
    op,
    overhead,
    runtime,
)

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

LAST = 80

_KERNEL_CALLS = (
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cudaLaunchKernel_ptsz",
    "cuLaunchKernelEx",
    "hipExtModuleLaunchKernel",
    "cudaFancyNewLaunch",
)
_COPY_CALLS = ("cudaMemcpyAsync", "cudaMemcpy", "hipMemcpyWithStream", "cuMemcpyHtoDAsync_v2")
_GRAPH_CALLS = ("cudaGraphLaunch", "hipGraphLaunch", "cudaGraphLaunch_ptsz")
_OTHER_CALLS = (
    "cudaStreamSynchronize",
    "cudaDeviceSynchronize",
    "hipEventSynchronize",
    "cudaMalloc",
    "cudaFree",
    "cudaHostAlloc",
    "cuModuleLoadData",
    "cudaEventRecord",
    "cudaStreamWaitEvent",
    "cudaLaunchKernel",
    "cudaMemcpyAsync",
)
_OPS = ("aten::mm", "aten::add", "TorchDynamo Cache Lookup", "compile_fx (dynamo_timed)")
_MARKS = ("## forward ##", "_compile.compile_inner (dynamo_timed)")
_FRAMES = ("model.py(3): forward", "torch/_dynamo/convert_frame.py(9): _compile")
_OVERHEADS = ("Activity Buffer Request", "Lazy Function Loading", "Instrumentation")

_start = st.integers(0, LAST)
_length = st.one_of(st.integers(0, 6), st.integers(0, 15), st.sampled_from([0, 1, 30, -2]))
_tid = st.integers(1, 3)


@st.composite
def random_trace(draw: DrawFn, *, max_groups: int = 8, marked: bool | None = None) -> list[Event]:
    """Events of a trace in file order, with at least one GPU op.

    Up to two ranks whose correlation ids collide, two devices each, three streams, three threads;
    eager launches, replays, orphans, doubled correlation ids, several ops under one plain call;
    host events that nest, cross and tie. `marked` asks for `gaptrace.step#N` marks, or for none.
    """
    ranks = draw(st.sampled_from([(None,), (None,), (None,), ("TP00", "TP01")]))
    events: list[Event] = []
    for index, rank in enumerate(ranks):
        devices = [index, 1][: draw(st.integers(1, 2))]
        for corr in range(1, draw(st.integers(1, max_groups)) + 1):
            events += draw(_launched(corr, devices, rank))
        count = draw(st.integers(0, 20))
        events += draw(st.lists(_host_event(rank), min_size=count, max_size=count))
        if draw(st.booleans()) if marked is None else marked:
            events += draw(_step_marks(rank))
    if draw(st.booleans()):
        return draw(st.permutations(events))
    return events


@st.composite
def _launched(draw: DrawFn, corr: int, devices: list[int], rank: str | None) -> list[Event]:
    """One call and the ops it owns, either of which may be missing, or there twice."""
    how = draw(st.sampled_from(["eager"] * 4 + ["copy", "replay", "replay", "orphan", "shared"]))
    many = how in ("replay", "shared")
    at = draw(_start)
    count = draw(st.integers(1, 4)) if many else 1
    graph_id = draw(st.sampled_from([None, 0, 5])) if how in ("replay", "orphan") else None
    ops: list[Event] = []
    for node in range(count):
        start = draw(st.one_of(_start, st.integers(at, at + 10)))
        common: dict[str, Any] = {
            "at": start,
            "dur": draw(_length),
            "corr": draw(st.sampled_from([corr, 0, 900 + corr])) if how == "orphan" else corr,
            "stream": draw(st.integers(7, 9)),
            "device": draw(st.sampled_from(devices)),
            "rank": rank,
            "graph_id": graph_id,
            "node": None if graph_id is None else node,
        }
        kind = "copy" if how == "copy" else draw(st.sampled_from(["k", "k", "k", "set", "copy"]))
        if kind == "k":
            ops.append(kernel(f"k{corr}_{node}", **common))
        elif kind == "set":
            ops.append(memset(**common))
        else:
            ops.append(memcpy(**common))
    if how == "orphan":
        return ops
    names = {"replay": _GRAPH_CALLS, "copy": _COPY_CALLS}.get(how, _KERNEL_CALLS)
    name = draw(st.sampled_from(names))
    call = launch(name, at=at, dur=draw(_length), corr=corr, tid=draw(_tid), rank=rank)
    calls = [call]
    # From three doubled ids on, the file would be taken for two recordings.
    if corr < 3 and draw(st.integers(0, 3)) == 0:
        calls.append(launch(at=draw(_start), dur=3, corr=corr, tid=draw(_tid), rank=rank))
    return [*calls, *ops]


@st.composite
def _host_event(draw: DrawFn, rank: str | None) -> Event:
    where: dict[str, Any] = {"at": draw(_start), "dur": draw(_length), "rank": rank}
    kind = draw(st.sampled_from(["op"] * 4 + ["call"] * 5 + ["mark", "frame", "over", "other"]))
    if kind == "over":
        return overhead(draw(st.sampled_from(_OVERHEADS)), **where)
    if kind == "other":
        if draw(st.booleans()):
            return gpu_mark("## forward ##", **where)
        return event("cuda_sync", "Stream Sync", pid=0, tid=1_000_007, **where)
    where["tid"] = draw(_tid)
    if kind == "op":
        return op(draw(st.sampled_from(_OPS)), **where)
    if kind == "call":
        return runtime(draw(st.sampled_from(_OTHER_CALLS)), **where)
    if kind == "mark":
        return mark(draw(st.sampled_from(_MARKS)), **where)
    return frame(draw(st.sampled_from(_FRAMES)), **where)


@st.composite
def _step_marks(draw: DrawFn, rank: str | None) -> list[Event]:
    starts = sorted(draw(st.sets(_start, min_size=1, max_size=5)))
    return [
        mark(f"gaptrace.step#{number}", at=at, dur=draw(st.integers(0, 20)), tid=1, rank=rank)
        for number, at in enumerate(starts)
    ]
