"""The definitions once more, slowly: plain loops over the events of the JSON, no arrays.

Written from the definitions alone, to be compared with the analyzer. `read` gives a Recording,
`device_figures` and `gaps` what the device facts are, `cause_parts` why it was idle.
tests/reference_steps.py goes on from here to steps and host time. Times are integer nanoseconds
of the file's own clock, less its earliest start, `origin_ns`.
"""

from __future__ import annotations

import gzip
import itertools
import json
import re
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

GPU_CATEGORIES = {
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
}
CALL_CATEGORIES = {
    "cuda_runtime",
    "cuda_driver",
    "runtime",
    "driver",
    "hip_runtime",
    "xpu_runtime",
    "xpu_driver",
    "mtia_runtime",
    "privateuse1_runtime",
    "privateuse1_driver",
}
HOST_CAUSES = (
    "sync",
    "alloc",
    "compile",
    "runtime",
    "dispatch",
    "python",
    "host_wait",
    "profiler",
)
CAUSES = ("graph_node", "device_wait", "launch", "unattributed", *HOST_CAUSES)


@dataclass(frozen=True)
class Ev:
    """A complete event, with what the definitions ask about it."""

    row: int
    kind: str
    name: str
    start: int
    end: int
    lane: tuple[str, str, str]
    corr: int
    device: str
    negative: bool
    ext: int = 0
    node: int = 0

    @property
    def rank(self) -> str:
        return self.lane[0]


@dataclass(frozen=True)
class Recording:
    """All complete events of one file, in file order, and the links between them."""

    events: tuple[Ev, ...]
    origin_ns: int
    call_of: dict[int, Ev] = field(repr=False)
    ops_of: dict[int, list[Ev]] = field(repr=False)

    @property
    def ops(self) -> list[Ev]:
        return [e for e in self.events if e.kind in ("kernel", "memcpy", "memset")]

    @property
    def devices(self) -> list[tuple[str, str]]:
        """(rank, device) of every device with an op, in order of appearance."""
        return list(dict.fromkeys((e.rank, e.device) for e in self.ops))

    def device_id(self, device: tuple[str, str]) -> str:
        """The device's id as text, with the rank in front in a file of several ranks."""
        several = len({e.rank for e in self.events} - {""}) > 1
        return f"[{device[0]}] {device[1]}" if several and device[0] else device[1]


@dataclass(frozen=True)
class Gap:
    """Idle [start, end) between op `before` and op `after`, and its causes."""

    start: int
    end: int
    before: Ev
    after: Ev
    call: Ev | None
    parts: dict[str, int]
    drained_by_sync: bool


def read(data: bytes) -> Recording:
    """The complete events of a Kineto file (JSON, or gzip of it) with exact times."""
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    text = data.decode("utf-8", "replace")
    document = json.loads(text, parse_float=Decimal, strict=False)
    raw = document["traceEvents"] if isinstance(document, dict) else document
    return recording([e for e in raw if isinstance(e, dict) and e.get("ph") == "X" and "ts" in e])


def recording(raw: list[dict[str, Any]]) -> Recording:
    """Events, and links from op to call: one correlation, one rank, first call in the file."""
    origin = min((exact_ns(item["ts"]) for item in raw), default=0)
    events = _once(_event(row, item, origin) for row, item in enumerate(raw))
    first_call: dict[tuple[str, int], Ev] = {}
    for e in events:
        if e.kind == "call" and e.corr != 0 and (e.rank, e.corr) not in first_call:
            first_call[e.rank, e.corr] = e
    call_of: dict[int, Ev] = {}
    ops_of: dict[int, list[Ev]] = defaultdict(list)
    for e in events:
        if e.kind in ("kernel", "memcpy", "memset"):
            call = first_call.get((e.rank, e.corr))
            if call is not None:
                call_of[e.row] = call
                ops_of[call.row].append(e)
    return Recording(events, origin, call_of, dict(ops_of))


def _once(events: Iterable[Ev]) -> tuple[Ev, ...]:
    """The events, with what stands there twice as an event of no kind the second time."""
    seen, result = set(), []
    for e in events:
        key = (e.kind, e.name, e.start, e.end, e.lane, e.corr, e.ext, e.device, e.node)
        op = e.kind in ("kernel", "memcpy", "memset")
        again = key in seen and (op or (e.kind in ("call", "op") and (e.corr or e.ext)))
        seen.add(key)
        result.append(replace(e, kind="other") if again else e)
    return tuple(result)


def exact_ns(value: Any) -> int:
    """Nanoseconds of a number of microseconds, as its decimal text says."""
    return int((Decimal(str(value)) * 1000).to_integral_value())


def _event(row: int, item: dict[str, Any], origin: int) -> Ev:
    args = item.get("args") or {}
    category = str(item.get("cat") or "").lower()
    if category in GPU_CATEGORIES:
        kind = GPU_CATEGORIES[category]
    elif category in CALL_CATEGORIES:
        kind = "call"
    elif category in ("cpu_op", "operator"):
        kind = "op"
    elif category == "user_annotation":
        kind = "annotation"
    elif category in ("python_function", "python function"):
        kind = "frame"
    else:
        kind = "overhead" if category == "overhead" else "other"
    rank, pid = _rank_and_pid(str(item.get("pid", "")))
    start = exact_ns(item["ts"]) - origin
    dur = exact_ns(item.get("dur") or 0)
    return Ev(
        row=row,
        kind=kind,
        name=str(item.get("name", "")),
        start=start,
        end=start + max(dur, 0),
        lane=(rank, pid, str(item.get("tid", ""))),
        corr=_integer(args.get("correlation")),
        device=str(args.get("device", pid)),
        negative=dur < 0,
        ext=_integer(args.get("External id")) or _integer(args.get("external id")),
        node=_integer(args.get("graph node id")),
    )


def _rank_and_pid(text: str) -> tuple[str, str]:
    found = re.fullmatch(r"\[([^\]]+)\]\s*(.*)", text)
    return (found[1], found[2]) if found else ("", text)


def _integer(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        return 0


# Names ---------------------------------------------------------------------------------------


def is_graph_launch(call: Ev | None) -> bool:
    return call is not None and "GraphLaunch" in call.name


def is_compile_name(name: str) -> bool:
    """Whether an op, annotation or frame of this name is Dynamo, Inductor or Triton at work."""
    if name.endswith("(dynamo_timed)"):
        return True
    return bool(
        re.search(
            r"torch/_dynamo/(convert_frame|symbolic_convert|output_graph)\.py"
            r"|torch/_inductor/compile_fx\.py\(\d+\): \w*(compile_fx|codegen_and_compile)"
            r"|triton/compiler/compiler\.py\(\d+\): compile$"
            r"|triton/runtime/jit\.py\(\d+\): (_do_compile|compile)$",
            name,
        )
    )


def call_cause(rec: Recording, call: Ev) -> str:
    """What a runtime or driver call is when it stands between the GPU and its next work."""
    name = call.name
    if "Synchronize" in name or name.startswith("hipMemcpyWithStream"):
        return "sync"
    if re.match(r"(cuda|hip|cu)Memcpy", name):
        copies = [o for o in rec.ops_of.get(call.row, []) if o.kind == "memcpy"]
        if "Async" not in name or (copies and call.end >= max(o.end for o in copies)):
            return "sync"
    if re.match(r"(cuda|hip)(Malloc|Free|HostAlloc|HostMalloc|HostFree|ExtMalloc)", name):
        return "alloc"
    if re.match(r"cuMem(Alloc|Free|HostAlloc|Create|Release|Map|Unmap|SetAccess|Address)", name):
        return "alloc"
    if re.search(r"(Module|Library)Load", name):
        return "compile"
    return "runtime"


def is_waiting_frame(name: str) -> bool:
    """Whether a Python frame of this name waits for somebody else."""
    return bool(
        re.search(
            r"queue\.py\(\d+\): get$|connection\.py\(\d+\): (recv|_recv|poll|wait)"
            r"|selectors\.py\(\d+\): select$|threading\.py\(\d+\): (wait|join)"
            r"|futures/_base\.py\(\d+\): result$"
            r"|shm_broadcast\.py\(\d+\): (dequeue|acquire_read)"
            r"|sched_yield|zmq.*\): (recv|poll)|^<built-in (method|function) (acquire|read|poll)\b",
            name,
        )
    )


def is_step_mark(name: str) -> bool:
    return re.match(r"gaptrace\.step#\d+|ProfilerStep#\d+", name) is not None


# What a thread was doing ---------------------------------------------------------------------


OP, COMPILE, CALL, OVERHEAD = 1, 2, 3, 4


@dataclass(frozen=True)
class Thing:
    """Something a thread can be inside of.

    Of those that cover an instant the one of highest level counts, then the one that started last.
    Compile work outranks ops, because Dynamo runs ops on fake tensors while it traces.
    """

    level: int
    start: int
    end: int
    row: int
    cause: str
    event: Ev

    def depth(self) -> tuple[int, int, int, int]:
        return (self.level, self.start, -self.end, self.row)


Segment = tuple[int, int, Thing | None]


def things_of_lane(rec: Recording, lane: tuple[str, str, str]) -> list[Thing]:
    """Everything that can be innermost on a thread; overheads are on no thread, so on each."""
    things = []
    for e in rec.events:
        if e.rank != lane[0]:
            continue
        if e.kind == "overhead":
            if re.search("Lazy Function Loading|Module Loading|Driver Compiler", e.name):
                things.append(Thing(CALL, e.start, e.end, e.row, "compile", e))
            else:
                things.append(Thing(OVERHEAD, e.start, e.end, e.row, "profiler", e))
        elif e.lane != lane:
            continue
        elif e.kind == "call":
            things.append(Thing(CALL, e.start, e.end, e.row, call_cause(rec, e), e))
        elif e.kind in ("op", "annotation", "frame") and is_compile_name(e.name):
            things.append(Thing(COMPILE, e.start, e.end, e.row, "compile", e))
        elif (e.kind == "op" and not is_step_mark(e.name)) or (
            e.kind == "annotation" and e.name == "TorchDynamo Cache Lookup"
        ):
            things.append(Thing(OP, e.start, e.end, e.row, "dispatch", e))
    return things


def innermost(things: list[Thing]) -> list[Segment]:
    """The timeline of a thread cut at every start and end, with the innermost thing of each cut."""
    starts = sorted((t for t in things if t.end > t.start), key=lambda t: t.start)
    cuts = sorted({t.start for t in starts} | {t.end for t in starts})
    segments: list[Segment] = []
    active: list[Thing] = []
    following = 0
    for lo, hi in itertools.pairwise(cuts):
        active = [t for t in active if t.end > lo]
        while following < len(starts) and starts[following].start == lo:
            active.append(starts[following])
            following += 1
        if active:
            segments.append((lo, hi, max(active, key=Thing.depth)))
    return segments


def within(segments: list[Segment], lo: int, hi: int) -> list[Segment]:
    """The segments of [lo, hi), cut at its ends, with what no thing covers between them."""
    parts: list[Segment] = []
    at = lo
    index = max(bisect_right(segments, lo, key=lambda s: s[0]) - 1, 0)
    while index < len(segments) and segments[index][0] < hi:
        start, end, thing = segments[index]
        start, end = max(start, lo), min(end, hi)
        if start < end:
            if at < start:
                parts.append((at, start, None))
            parts.append((start, end, thing))
            at = end
        index += 1
    if at < hi:
        parts.append((at, hi, None))
    return parts


class Threads:
    """The timeline of each thread, made when first asked for."""

    def __init__(self, rec: Recording) -> None:
        self.rec = rec
        self._lanes: dict[tuple[str, str, str], list[Segment]] = {}
        self._syncs: dict[tuple[str, str, str], list[Thing]] = {}
        self._waiting: dict[tuple[str, str, str], list[tuple[int, int]]] = {}

    def segments(self, lane: tuple[str, str, str]) -> list[Segment]:
        if lane not in self._lanes:
            things = things_of_lane(self.rec, lane)
            self._lanes[lane] = innermost(things)
            self._syncs[lane] = [t for t in things if t.cause == "sync"]
        return self._lanes[lane]

    def syncing_at(self, lane: tuple[str, str, str], instant: int) -> bool:
        self.segments(lane)
        return any(t.start <= instant < t.end for t in self._syncs[lane])

    def waits_between(self, lane: tuple[str, str, str], lo: int, hi: int) -> int:
        """How much of [lo, hi), in which the lane is inside of nothing, it waits."""
        if lane not in self._waiting:
            silent, framed = silences(self.rec, lane), waiting_frames(self.rec, lane)
            self._waiting[lane] = disjoint([*silent, *framed])
        return sum(max(min(b, hi) - max(a, lo), 0) for a, b in self._waiting[lane])


def disjoint(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The union, as intervals that do not touch."""
    merged: list[tuple[int, int]] = []
    for lo, hi in sorted(intervals):
        if merged and lo <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(hi, merged[-1][1]))
        else:
            merged.append((lo, hi))
    return merged


def silences(rec: Recording, lane: tuple[str, str, str]) -> list[tuple[int, int]]:
    """Stretches of 100 us in which the lane is silent and somebody else is at work."""
    calls = [e for e in rec.events if e.kind == "call"]
    seen = [*calls, *rec.ops, *(e for e in rec.events if e.kind == "op")]
    if not seen:
        return []
    points = {min(e.start for e in seen), max(e.end for e in seen)}
    things = things_of_lane(rec, lane)
    frames = frames_of_lane(rec, lane)
    points |= {p for e in (*things, *frames) for p in (e.start, e.end)}
    spans = disjoint([(t.start, t.end) for t in things if t.end > t.start])
    process = lane[:2]
    devices = {o.device for o in rec.ops if (c := rec.call_of.get(o.row)) and c.lane[:2] == process}
    syncs: dict[tuple[str, str, str], list[tuple[int, int]]] = defaultdict(list)
    for call in calls:
        if call.lane != lane and call.lane[:2] == process and call_cause(rec, call) == "sync":
            syncs[call.lane].append((call.start, call.end))
    found = []
    for lo, hi in itertools.pairwise(sorted(points)):
        if hi - lo < 100_000 or any(a < hi and b > lo for a, b in spans):
            continue
        work = [
            covered(
                (max(o.start, lo), min(o.end, hi))
                for o in rec.ops
                if (o.rank, o.device) == (lane[0], device) and o.start < hi and o.end > lo
            )
            for device in devices
        ]
        waits = [
            covered((max(a, lo), min(b, hi)) for a, b in own if a < hi and b > lo)
            for own in syncs.values()
        ]
        if any(10 * w >= 9 * (hi - lo) for w in work) or any(2 * w >= hi - lo for w in waits):
            found.append((lo, hi))
    return found


def frames_of_lane(rec: Recording, lane: tuple[str, str, str]) -> list[Ev]:
    """The Python frames of a lane; those of the only lane that has any, where there is one."""
    frames = [e for e in rec.events if e.kind == "frame"]
    if len({e.lane for e in frames}) == 1:
        return frames
    return [e for e in frames if e.lane == lane]


def waiting_frames(rec: Recording, lane: tuple[str, str, str]) -> list[tuple[int, int]]:
    """Where the innermost Python frame of the lane is one that waits."""
    frames = [Thing(OP, e.start, e.end, e.row, "frame", e) for e in frames_of_lane(rec, lane)]
    if not any(is_waiting_frame(t.event.name) for t in frames):
        return []
    return [
        (lo, hi)
        for lo, hi, thing in innermost(frames)
        if thing is not None and is_waiting_frame(thing.event.name)
    ]


# Devices and gaps ----------------------------------------------------------------------------


def ordered_ops(rec: Recording, device: tuple[str, str]) -> list[Ev]:
    """The ops of a device by start, end, position in the file."""
    mine = [e for e in rec.ops if (e.rank, e.device) == device]
    return sorted(mine, key=lambda e: (e.start, e.end, e.row))


def gaps(rec: Recording, device: tuple[str, str], threads: Threads | None = None) -> list[Gap]:
    """Every gap of a device, in order, with its causes."""
    threads = threads or Threads(rec)
    ops = ordered_ops(rec, device)
    limits = launch_limits(rec, ops)
    found = []
    reach, before = (ops[0].end, ops[0]) if ops else (0, None)
    for index, op in enumerate(ops[1:], start=1):
        if before is not None and op.start > reach:
            together = []
            for other in ops[index:]:
                if other.start != op.start:
                    break
                together.append(other)
            found.append(_gap(rec, threads, reach, before, together, limits))
        if op.end > reach:
            reach, before = op.end, op
    return found


def launch_limits(rec: Recording, ops: list[Ev]) -> dict[bool, int]:
    """How long after its call an op may start as `launch`: for graph launches, and for others."""
    ways: dict[bool, list[int]] = {True: [], False: []}
    replays, reach = set(), None
    for op in ops:
        call = rec.call_of.get(op.row)
        if call is not None and call.row not in replays:
            ready = call.end if reach is None else max(call.end, reach)
            ways[is_graph_launch(call)].append(max(op.start - ready, 0))
            if is_graph_launch(call):
                replays.add(call.row)
        reach = op.end if reach is None else max(reach, op.end)
    return {
        kind: min(20_000 + 4 * (lower_median(values) if values else 0), 200_000)
        for kind, values in ways.items()
    }


def _gap(
    rec: Recording,
    threads: Threads,
    a: int,
    before: Ev,
    together: list[Ev],
    limits: dict[bool, int],
) -> Gap:
    after = together[0]
    b = after.start
    calls = [rec.call_of[o.row] for o in together if o.row in rec.call_of]
    call = min(calls, key=lambda c: c.start) if calls else None
    parts = dict.fromkeys(CAUSES, 0)
    drained = False
    own, other = rec.call_of.get(after.row), rec.call_of.get(before.row)
    if own is not None and own is other and is_graph_launch(own):
        parts["graph_node"] = b - a
    elif call is None:
        parts["unattributed"] = b - a
    elif call.start <= a:
        parts["device_wait"] = b - a
    else:
        late = min(call.start, b)
        for lo, hi, thing in within(threads.segments(call.lane), a, late):
            waits = 0 if thing else threads.waits_between(call.lane, lo, hi)
            parts["host_wait"] += waits
            parts[thing.cause if thing else "python"] += hi - lo - waits
        sent = max(late, min(b, call.end + limits[is_graph_launch(call)]))
        parts["launch"] = sent - late
        parts["device_wait"] = b - sent
        drained = threads.syncing_at(call.lane, a)
    return Gap(a, b, before, after, call, parts, drained)


def device_figures(
    rec: Recording, device: tuple[str, str], threads: Threads | None = None
) -> dict[str, Any]:
    """The `devices[]` entry of the analysis for one device."""
    ops = ordered_ops(rec, device)
    found = gaps(rec, device, threads)
    calls = {rec.call_of[o.row].row: rec.call_of[o.row] for o in ops if o.row in rec.call_of}
    kernels = [o for o in ops if o.kind == "kernel"]
    in_graphs = [o for o in ops if is_graph_launch(rec.call_of.get(o.row))]
    span = max(o.end for o in ops) - ops[0].start
    busy = covered((o.start, o.end) for o in ops)
    linked = [(o, rec.call_of[o.row]) for o in ops if o.row in rec.call_of]
    return {
        "device": rec.device_id(device),
        "gpu_ops": len(ops),
        "kernels": len(kernels),
        "span_ns": span,
        "busy_ns": busy,
        "idle_ns": span - busy,
        "gaps": len(found),
        "launch_calls": len(calls),
        "kernel_launch_calls": len({c.row for o, c in linked if o.kind == "kernel"}),
        "graph_launches": sum(is_graph_launch(c) for c in calls.values()),
        "ops_in_graphs": len(in_graphs),
        "kernels_in_graphs": sum(o.kind == "kernel" for o in in_graphs),
        "orphans": len(ops) - len(linked),
        "starts_before_launch": sum(o.start < c.start for o, c in linked),
        "kernel_dur_sum_ns": sum(o.end - o.start for o in kernels),
        "idle_by_cause_ns": {c: sum(g.parts[c] for g in found) for c in CAUSES},
    }


def covered(intervals: Any) -> int:
    """Length of the union of intervals."""
    total, reach = 0, None
    for start, end in sorted(intervals):
        if reach is None or start > reach:
            reach = start
        if end > reach:
            total += end - reach
            reach = end
    return total


def all_devices(rec: Recording) -> list[dict[str, Any]]:
    """`device_figures` of every device of the file."""
    threads = Threads(rec)
    return [device_figures(rec, device, threads) for device in rec.devices]


def nearest_rank(values: list[int], percent: int) -> int:
    """The smallest value that at least `percent` of 100 values do not exceed."""
    position = -(-percent * len(values) // 100)
    return sorted(values)[max(position, 1) - 1]


def lower_median(values: list[int]) -> int:
    """The middle value; of two middle ones the lower."""
    return sorted(values)[(len(values) - 1) // 2]
