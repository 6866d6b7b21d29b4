"""Finds the kernels that each recorded op launched, in a Kineto trace of the same run.

Ops are joined by `Record function id`; where the ids do not agree (the two observers ran in
different processes) by the order of the op names. Kernels are joined to ops by `External id`, else
by the op that was open on the launching thread when their launch call began.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .execution_trace import Op, Step, TraceError, read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

GPU = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "memset"}
MODULE = "nn.Module: "
# Two recordings of one program agree on nearly every op; different programs do not.
ENOUGH = 0.9


@dataclass(frozen=True)
class Kernel:
    """One device op of the eager step: kernel, copy or memset, with its duration in ns."""

    name: str
    kind: str
    dur_ns: int


@dataclass(frozen=True)
class Recording:
    """What is used of a Kineto trace.

    `ops` are the operator events in call order, `kernels[i]` those that `ops[i]` itself launched,
    `modules[i]` the innermost `nn.Module` around it where Python frames were recorded, and
    `others` the launches outside every op as (launch time, kernel).
    """

    path: str
    ops: tuple[Mapping[str, Any], ...]
    kernels: tuple[tuple[Kernel, ...], ...]
    modules: tuple[str, ...]
    others: tuple[tuple[float, Kernel], ...]
    device: Mapping[str, Any] | None


@dataclass(frozen=True)
class Links:
    """The kernels of one step: per op id those that it launched itself, and the rest.

    `how` says what joined the ops: `Record function id`, `order of ops` or `none`.
    """

    how: str
    kernels: Mapping[int, tuple[Kernel, ...]]
    modules: Mapping[int, str]
    unlinked: tuple[Kernel, ...]

    def take(self, op: Op, names: Iterable[str], taken: set[int]) -> list[Kernel]:
        """Kernels launched by `op` and what it called, each handed out once.

        `names` limits them to ops so called (with all below those); none means all. `taken`
        holds the ids of the ops whose kernels were handed out before, and is added to.
        """
        wanted = frozenset(names)
        found: list[Kernel] = []
        for part in op.walk():
            if wanted and part.name not in wanted:
                continue
            for inner in part.walk():
                if inner.id not in taken and inner.id in self.kernels:
                    taken.add(inner.id)
                    found += self.kernels[inner.id]
        return found


NO_LINKS = Links("none", {}, {}, ())


def read(path: str | Path) -> Recording:
    """The ops and kernels of the Kineto trace in `path`.

    Raises:
        TraceError: the file is no Kineto trace.
    """
    document = read_json(path)
    events = document if isinstance(document, list) else document.get("traceEvents")
    if not isinstance(events, list):
        raise TraceError(f"{path} is no Kineto trace: it has no traceEvents")
    spans = [e for e in events if e.get("ph") == "X"]
    ops = [e for e in spans if str(e.get("cat", "")).lower() in ("cpu_op", "operator")]
    ops.sort(key=lambda e: (float(e["ts"]), -float(e.get("dur", 0))))
    frames = [
        e
        for e in spans
        if str(e.get("cat", "")).lower() in ("python_function", "python function")
        and str(e.get("name", "")).startswith(MODULE)
    ]
    launches = {
        e["args"]["correlation"]: e
        for e in spans
        if str(e.get("cat", "")).lower() in ("cuda_runtime", "cuda_driver", "hip_runtime")
        and e.get("args", {}).get("correlation")
    }
    open_op = _innermost(ops, launches.values())
    by_ext = {e["args"]["External id"]: i for i, e in enumerate(ops) if _arg(e, "External id")}
    kernels: list[list[Kernel]] = [[] for _ in ops]
    others: list[tuple[float, Kernel]] = []
    gpu = [e for e in spans if str(e.get("cat", "")).lower() in GPU]
    for event in sorted(gpu, key=lambda e: float(e["ts"])):
        kernel = Kernel(
            str(event.get("name", "")),
            GPU[str(event["cat"]).lower()],
            round(float(event.get("dur", 0)) * 1000),
        )
        launch = launches.get(_arg(event, "correlation"))
        owner = by_ext.get(_arg(event, "External id"))
        if owner is None and launch is not None:
            owner = open_op.get(id(launch))
        if owner is None:
            others.append((float((launch or event)["ts"]), kernel))
        else:
            kernels[owner].append(kernel)
    module_of = _innermost(frames, ops)
    modules = tuple(
        frames[module_of[id(e)]]["name"][len(MODULE) :] if id(e) in module_of else "" for e in ops
    )
    properties = document.get("deviceProperties") if isinstance(document, dict) else None
    return Recording(
        str(path),
        tuple(ops),
        tuple(tuple(k) for k in kernels),
        modules,
        tuple(others),
        properties[0] if properties else None,
    )


def link(recording: Recording, step: Step) -> Links:
    """The kernels of `step`, joined op by op.

    Where the trace does not contain the step (no common ids, no equal run of op names) nothing is
    joined and `how` is `none`.
    """
    wanted = [op for top in step.ops for op in top.walk() if op.is_operator]
    by_rf = {_arg(e, "Record function id"): i for i, e in enumerate(recording.ops)}
    pairs: dict[int, int] = {}
    for op in wanted:
        at = by_rf.get(op.rf_id) if op.rf_id else None
        if at is not None and recording.ops[at].get("name") == op.name:
            pairs[op.id] = at
    how = "Record function id"
    if len(pairs) < ENOUGH * len(wanted):
        first = _find([op.name for op in wanted], [str(e.get("name")) for e in recording.ops])
        if first is None:
            return NO_LINKS
        pairs = {op.id: first + i for i, op in enumerate(wanted)}
        how = "order of ops"
    events = [recording.ops[i] for i in pairs.values()]
    begin = min(float(e["ts"]) for e in events)
    end = max(float(e["ts"]) + float(e.get("dur", 0)) for e in events)
    return Links(
        how,
        {key: recording.kernels[i] for key, i in pairs.items()},
        {key: recording.modules[i] for key, i in pairs.items() if recording.modules[i]},
        tuple(kernel for ts, kernel in recording.others if begin <= ts <= end),
    )


def shorten(name: str) -> str:
    """A kernel's name without its template arguments and signature: `reduce_kernel`."""
    text = name
    for pattern in (r"\([^()]*\)", r"<[^<>]*>"):
        while (shorter := re.sub(pattern, "", text)) != text:
            text = shorter
    text = re.split(r"[(<]", text)[0].removeprefix("void ").strip()
    return text.split("::")[-1] or name


def _arg(event: Mapping[str, Any], key: str) -> Any:
    return event.get("args", {}).get(key) or None


def _find(needle: list[str], hay: list[str]) -> int | None:
    if not needle:
        return None
    for at in range(len(hay) - len(needle), -1, -1):
        if hay[at] == needle[0] and hay[at : at + len(needle)] == needle:
            return at
    return None


def _innermost(
    spans: list[Mapping[str, Any]], points: Iterable[Mapping[str, Any]]
) -> dict[int, int]:
    """For each event of `points` (by identity) the innermost span open when it began."""
    lanes: dict[Any, list[tuple[float, int, int, Mapping[str, Any]]]] = {}
    for i, span in enumerate(spans):
        lanes.setdefault(_lane(span), []).append((float(span["ts"]), 0, i, span))
    for point in points:
        if _lane(point) in lanes:
            lanes[_lane(point)].append((float(point["ts"]), 1, -1, point))
    found: dict[int, int] = {}
    for lane in lanes.values():
        for event, owner in _sweep(lane):
            found[id(event)] = owner
    return found


def _sweep(
    lane: list[tuple[float, int, int, Mapping[str, Any]]],
) -> Iterator[tuple[Mapping[str, Any], int]]:
    stack: list[tuple[float, int]] = []
    lane.sort(key=lambda item: (item[0], item[1], -float(item[3].get("dur", 0))))
    for ts, kind, i, event in lane:
        while stack and stack[-1][0] <= ts:
            stack.pop()
        if kind == 0:
            stack.append((ts + float(event.get("dur", 0)), i))
        elif stack:
            yield event, stack[-1][1]


def _lane(event: Mapping[str, Any]) -> tuple[Any, Any]:
    return event.get("pid"), event.get("tid")
