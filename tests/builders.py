"""Traces written by hand: every time an integer in nanoseconds, every file real Kineto JSON.

    trace_of(
        launch(at=10, dur=5, corr=1), kernel("a", at=20, dur=30, corr=1),
        launch(at=60, dur=5, corr=2), kernel("b", at=70, dur=30, corr=2),
    )

An event is the dictionary that Kineto would write, except that `ts` and `dur` hold nanoseconds;
`events_json` writes them as microseconds with three decimals. File order is argument order.
Row times of a Trace count from its first complete event, so `trace_of` puts an `anchor()` at time
0 in front: row 0 is the anchor, and the times of a drawing are the times of the trace.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gaptrace.trace import Trace

Event = dict[str, Any]

STREAM = 7
PID = 100
TID = 1


def kernel(
    name: str,
    *,
    at: int,
    dur: int,
    corr: int = 0,
    stream: int = STREAM,
    device: int = 0,
    graph_id: int | None = None,
    node: int | None = None,
    rank: str | None = None,
    ext: int = 0,
    **args: Any,
) -> Event:
    """A kernel on `device`; `rank` makes its pid the `[TP00] 0` of merged multi-rank files."""
    args = {"grid": [1, 1, 1], "block": [128, 1, 1], **args}
    return _gpu("kernel", name, at, dur, corr, stream, device, graph_id, node, rank, ext, args)


def memcpy(
    kind: str = "HtoD (Pageable -> Device)",
    *,
    at: int,
    dur: int,
    corr: int = 0,
    stream: int = STREAM,
    device: int = 0,
    graph_id: int | None = None,
    node: int | None = None,
    rank: str | None = None,
    ext: int = 0,
    nbytes: int = 4,
    **args: Any,
) -> Event:
    """A copy on the device, named `Memcpy <kind>`."""
    args = {"bytes": nbytes, **args}
    name = f"Memcpy {kind}"
    return _gpu("gpu_memcpy", name, at, dur, corr, stream, device, graph_id, node, rank, ext, args)


def memset(
    kind: str = "(Device)",
    *,
    at: int,
    dur: int,
    corr: int = 0,
    stream: int = STREAM,
    device: int = 0,
    graph_id: int | None = None,
    node: int | None = None,
    rank: str | None = None,
    ext: int = 0,
    nbytes: int = 4,
    **args: Any,
) -> Event:
    """A memset on the device, named `Memset <kind>`."""
    args = {"bytes": nbytes, **args}
    name = f"Memset {kind}"
    return _gpu("gpu_memset", name, at, dur, corr, stream, device, graph_id, node, rank, ext, args)


def launch(
    name: str = "cudaLaunchKernel",
    *,
    at: int,
    dur: int,
    corr: int = 0,
    tid: int | str = TID,
    pid: int | str = PID,
    rank: str | None = None,
    ext: int = 0,
    cat: str | None = None,
    **args: Any,
) -> Event:
    """A runtime or driver call; names in `cu...` style become driver calls unless `cat` says so."""
    if cat is None:
        driver = name.startswith("cu") and not name.startswith("cuda")
        cat = "cuda_driver" if driver else "cuda_runtime"
    args = {"correlation": corr, "cbid": 211, **args}
    if ext:
        args["External id"] = ext
    return event(cat, name, at=at, dur=dur, pid=pid, tid=tid, rank=rank, **args)


def runtime(name: str, *, at: int, dur: int, corr: int = 0, **rest: Any) -> Event:
    """A runtime or driver call that is not thought of as a launch: `runtime("cudaMalloc", ...)`."""
    return launch(name, at=at, dur=dur, corr=corr, **rest)


def graph_launch(*, at: int, dur: int, corr: int, **rest: Any) -> Event:
    """One `cudaGraphLaunch`: the launch call of every op that carries its correlation."""
    return launch("cudaGraphLaunch", at=at, dur=dur, corr=corr, **rest)


def op(
    name: str,
    *,
    at: int,
    dur: int,
    tid: int | str = TID,
    pid: int | str = PID,
    rank: str | None = None,
    dims: Sequence[Any] | None = None,
    types: Sequence[str] | None = None,
    concrete: Sequence[str] | None = None,
    ext: int = 0,
    record: int = 0,
    **args: Any,
) -> Event:
    """A CPU op; `dims`, `types` and `concrete` are what `record_shapes` adds."""
    if ext:
        args["External id"] = ext
    if record:
        args["Record function id"] = record
    if dims is not None:
        args["Input Dims"] = list(dims)
    if types is not None:
        args["Input type"] = list(types)
    if concrete is not None:
        args["Concrete Inputs"] = list(concrete)
    return event("cpu_op", name, at=at, dur=dur, pid=pid, tid=tid, rank=rank, **args)


def mark(
    name: str,
    *,
    at: int,
    dur: int,
    tid: int | str = TID,
    pid: int | str = PID,
    rank: str | None = None,
    **args: Any,
) -> Event:
    """A user annotation on the host: a step mark, a scope, a module."""
    return event("user_annotation", name, at=at, dur=dur, pid=pid, tid=tid, rank=rank, **args)


def gpu_mark(
    name: str,
    *,
    at: int,
    dur: int,
    stream: int = STREAM,
    device: int = 0,
    rank: str | None = None,
    **args: Any,
) -> Event:
    """The device-side shadow of a user annotation, which is not a GPU op."""
    args = {"device": device, "stream": stream, **args}
    cat = "gpu_user_annotation"
    return event(cat, name, at=at, dur=dur, pid=device, tid=stream, rank=rank, **args)


def frame(
    name: str,
    *,
    at: int,
    dur: int,
    tid: int | str = TID,
    pid: int | str = PID,
    rank: str | None = None,
    id: int = 1,  # noqa: A002
    parent: int | None = None,
    **args: Any,
) -> Event:
    """A Python frame as `with_stack` records it: `file.py(12): function`."""
    args = {"Python id": id, "Python parent id": parent, **args}
    return event("python_function", name, at=at, dur=dur, pid=pid, tid=tid, rank=rank, **args)


def overhead(
    name: str = "Activity Buffer Request",
    *,
    at: int,
    dur: int,
    tid: int | str = 0,
    pid: int | str = -1,
    rank: str | None = None,
    **args: Any,
) -> Event:
    """Time that the profiler or the driver took for itself; Kineto draws it on pid -1, tid 0."""
    return event("overhead", name, at=at, dur=dur, pid=pid, tid=tid, rank=rank, **args)


def event(
    cat: str,
    name: str,
    *,
    at: int,
    dur: int,
    pid: int | str = PID,
    tid: int | str = TID,
    rank: str | None = None,
    **args: Any,
) -> Event:
    """A complete event of any category, for what has no builder of its own."""
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": pid if rank is None else f"[{rank}] {pid}",
        "tid": tid,
        "ts": at,
        "dur": dur,
        "args": args,
    }


def anchor(at: int = 0) -> Event:
    """An event of no interest that fixes time 0 of a drawing."""
    return event("Trace", "PyTorch Profiler (0)", at=at, dur=0, pid="Spans", tid="PyTorch Profiler")


def _gpu(
    cat: str,
    name: str,
    at: int,
    dur: int,
    corr: int,
    stream: int,
    device: int,
    graph_id: int | None,
    node: int | None,
    rank: str | None,
    ext: int,
    args: dict[str, Any],
) -> Event:
    args = {"device": device, "context": 1, "stream": stream, "correlation": corr, **args}
    if ext:
        args["External id"] = ext
    if graph_id is not None:
        args["graph id"] = graph_id
    if node is not None:
        args["graph node id"] = node
    return event(cat, name, at=at, dur=dur, pid=device, tid=stream, rank=rank, **args)


def micros(ns: int) -> str:
    """Nanoseconds as Kineto writes them: microseconds with three decimals."""
    whole, rest = divmod(abs(ns), 1000)
    return f"{'-' if ns < 0 else ''}{whole}.{rest:03d}"


def events_json(*events: Event, **top_level: Any) -> bytes:
    """The events as a Kineto file, one event after the other in the layout Kineto uses.

    `top_level` adds or replaces top-level keys (`deviceProperties=[...]`, `schemaVersion=1`).
    """
    head = {"schemaVersion": 1, **top_level}
    lines = [f'  "{key}": {json.dumps(value)},\n' for key, value in head.items()]
    body = ",\n".join(map(_event_text, events))
    return f'{{\n{"".join(lines)}  "traceEvents": [\n{body}\n  ]\n}}\n'.encode()


def _event_text(item: Event) -> str:
    rest = {key: value for key, value in item.items() if key not in ("ts", "dur", "args")}
    pairs = [f'"{key}": {json.dumps(value)}' for key, value in rest.items()]
    pairs += [f'"{key}": {micros(item[key])}' for key in ("ts", "dur") if key in item]
    if "args" in item:
        pairs.append(f'"args": {json.dumps(item["args"])}')
    inner = ", ".join(pairs)
    return f"  {{\n    {inner}\n  }}"


def trace_of(*events: Event, **top_level: Any) -> Trace:
    """The Trace of a drawing; times in it are the times drawn, and row 0 is the anchor."""
    from gaptrace.reading.loading import load

    return load(events_json(anchor(), *events, **top_level))


def load_events(events: Iterable[Event]) -> Trace:
    """`trace_of` for a list."""
    return trace_of(*events)


Mode = Literal["eager", "graph"]


def decode_events(
    *,
    steps: int = 8,
    kernels: int = 4,
    kernel_ns: int = 2_000,
    gap_ns: int = 3_000,
    launch_ns: int = 1_000,
    op_ns: int = 1_000,
    between_ns: int = 10_000,
    sync_ns: int = 0,
    mode: Mode = "eager",
    label: str = "gaptrace.step#{n}",
    first: int = 0,
    at: int = 0,
    tid: int = TID,
    device: int = 0,
    stream: int = STREAM,
    dims: Sequence[Any] | None = None,
) -> list[Event]:
    """A regular decode loop in which all steps are equal, so every median is known in advance.

    Eager: each kernel is preceded by `gap_ns` of idle, which ends with `op_ns` inside a CPU op and
    `launch_ns` of launch call; what is left of the gap is Python. The period is
    `kernels * (kernel_ns + gap_ns) + between_ns`, idle of a step is
    `kernels * gap_ns + between_ns`, all but `kernels * (op_ns + launch_ns)` of it Python.
    Graph: one `cudaGraphLaunch` of `launch_ns`, `op_ns` after the mark, then the kernels with
    `gap_ns` between them. The period is
    `op_ns + launch_ns + kernels * kernel_ns + (kernels - 1) * gap_ns + between_ns`.
    `sync_ns` adds a `cudaStreamSynchronize` from the start of a step's last kernel until `sync_ns`
    after its end, which takes that much of the idle from Python.
    """
    if gap_ns < launch_ns + op_ns and mode == "eager":
        raise ValueError("an eager gap must hold the op and its launch call")
    if not 0 <= sync_ns <= between_ns:
        raise ValueError("the synchronization must end before the next step")
    events: list[Event] = []
    corr = 1
    for step in range(steps):
        parts: list[Event] = []
        if mode == "eager":
            ready = at
            for index in range(kernels):
                start = ready + gap_ns
                call = start - launch_ns
                inner = op_ns + launch_ns
                parts += [
                    op("aten::mm", at=call - op_ns, dur=inner, tid=tid, ext=corr, dims=dims),
                    launch(at=call, dur=launch_ns, corr=corr, tid=tid, ext=corr),
                    kernel(
                        f"gemm_{index}",
                        at=start,
                        dur=kernel_ns,
                        corr=corr,
                        device=device,
                        stream=stream,
                        ext=corr,
                    ),
                ]
                corr += 1
                ready = start + kernel_ns
        else:
            call = at + op_ns
            parts.append(graph_launch(at=call, dur=launch_ns, corr=corr, tid=tid))
            start = call + launch_ns
            for index in range(kernels):
                begin = start + index * (kernel_ns + gap_ns)
                parts.append(
                    kernel(
                        f"gemm_{index}",
                        at=begin,
                        dur=kernel_ns,
                        corr=corr,
                        device=device,
                        stream=stream,
                    )
                )
                ready = begin + kernel_ns
            corr += 1
        if sync_ns:
            wait = kernel_ns + sync_ns
            parts.append(runtime("cudaStreamSynchronize", at=ready - kernel_ns, dur=wait, tid=tid))
        name = label.format(n=first + step)
        events += [mark(name, at=at, dur=ready + sync_ns - at, tid=tid), *parts]
        at = ready + between_ns
    return events


def decode_trace(**options: Any) -> Trace:
    """The Trace of `decode_events(**options)`."""
    return trace_of(*decode_events(**options))
