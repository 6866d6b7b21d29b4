"""The kernels that each op of the eager step launched: a plain object, joined to the step's ops.

The object `gaptrace.eager/1` comes from `gaptrace predict`, which reads the Kineto trace of the
same run (`gaptrace/predict/eager.py` says what stands in it). Ops are joined by `Record function
id`; where the ids do not agree (the two observers ran in different processes) by the order of the
op names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from .execution_trace import Op, Step, TraceError, read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

SCHEMA = "gaptrace.eager/1"
# Two recordings of one program agree on nearly every op; different programs do not.
ENOUGH = 0.9


class EagerOp(NamedTuple):
    """One operator call: times in ns, its innermost `nn.Module` where frames were recorded."""

    name: str
    rf_id: int
    start_ns: int
    end_ns: int
    module: str


@dataclass(frozen=True)
class Kernel:
    """One device op of the eager step: kernel, copy or memset, with its duration in ns."""

    name: str
    kind: str
    dur_ns: int


@dataclass(frozen=True)
class Eager:
    """The eager recording: `ops` in call order, `kernels[i]` those that `ops[i]` itself launched.

    `others` are the kernels launched outside every op, as (launch time, kernel); `device` has the
    properties of the GPU as Kineto wrote them.
    """

    trace: str
    ops: tuple[EagerOp, ...]
    kernels: tuple[tuple[Kernel, ...], ...]
    others: tuple[tuple[int, Kernel], ...]
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
        kernels: list[Kernel] = []
        for part in op.walk():
            if wanted and part.name not in wanted:
                continue
            for inner in part.walk():
                if inner.id not in taken and inner.id in self.kernels:
                    taken.add(inner.id)
                    kernels += self.kernels[inner.id]
        return kernels


NO_LINKS = Links("none", {}, {}, ())


def read(path: str | Path) -> Eager:
    """The `gaptrace.eager/1` object in `path`.

    Raises:
        TraceError: the file holds something else.
    """
    document = read_json(path)
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise TraceError(f"{path} is no {SCHEMA} object; `gaptrace predict` makes one of a trace")
    ops = tuple(EagerOp(*row) for row in document["ops"])
    launched: list[list[Kernel]] = [[] for _ in ops]
    others: list[tuple[int, Kernel]] = []
    for name, kind, dur_ns, op, launch_ns in document["kernels"]:
        if op < 0:
            others.append((launch_ns, Kernel(name, kind, dur_ns)))
        else:
            launched[op].append(Kernel(name, kind, dur_ns))
    kernels = tuple(map(tuple, launched))
    return Eager(document["trace"], ops, kernels, tuple(others), document["device"])


def link(eager: Eager, step: Step) -> Links:
    """The kernels of `step`, joined op by op.

    Where the recording does not contain the step (no common ids, no equal run of op names) nothing
    is joined and `how` is `none`.
    """
    wanted = [op for top in step.ops for op in top.walk() if op.is_operator]
    by_rf = {op.rf_id: i for i, op in enumerate(eager.ops)}
    pairs: dict[int, int] = {}
    for op in wanted:
        at = by_rf.get(op.rf_id) if op.rf_id else None
        if at is not None and eager.ops[at].name == op.name:
            pairs[op.id] = at
    how = "Record function id"
    if len(pairs) < ENOUGH * len(wanted):
        first = _last_run([op.name for op in wanted], [op.name for op in eager.ops])
        if first is None:
            return NO_LINKS
        pairs = {op.id: first + i for i, op in enumerate(wanted)}
        how = "order of ops"
    begin = min(eager.ops[i].start_ns for i in pairs.values())
    end = max(eager.ops[i].end_ns for i in pairs.values())
    return Links(
        how,
        {key: eager.kernels[i] for key, i in pairs.items()},
        {key: eager.ops[i].module for key, i in pairs.items() if eager.ops[i].module},
        tuple(kernel for launch_ns, kernel in eager.others if begin <= launch_ns <= end),
    )


def shorten(name: str) -> str:
    """A kernel's name without its template arguments and signature: `reduce_kernel`."""
    text = name
    for pattern in (r"\([^()]*\)", r"<[^<>]*>"):
        while (shorter := re.sub(pattern, "", text)) != text:
            text = shorter
    text = re.split(r"[(<]", text)[0].removeprefix("void ").strip()
    return text.split("::")[-1] or name


def _last_run(wanted: list[str], names: list[str]) -> int | None:
    """Where the last run of `names` that equals `wanted` begins."""
    if not wanted:
        return None
    for at in range(len(names) - len(wanted), -1, -1):
        if names[at] == wanted[0] and names[at : at + len(wanted)] == wanted:
            return at
    return None
