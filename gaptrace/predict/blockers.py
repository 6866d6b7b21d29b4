"""What stands in the way of capture, each with its places in the trace and what to change.

Waits, copies and allocator calls are told apart as the findings do. What lies behind the step's
last matrix product or before its first can stay outside the graph, so it is listed and does not
block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gaptrace import intervals as iv
from gaptrace import units
from gaptrace.measure.attribution import enclosing
from gaptrace.measure.steps import extent
from gaptrace.measure.view import Bools, Calls, View
from gaptrace.measure.waits import (
    COPY,
    EXPLICIT,
    SCALAR,
    SHAPE,
    TO_DEVICE,
    pageable_ops,
    waits,
)
from gaptrace.predict.places import places
from gaptrace.results.manifest import Difference, Input
from gaptrace.results.prediction import Blocker, BlockerPlace
from gaptrace.trace import Ints

HEAVY = ("gemm", "attention")
BRANCHES = ("aten::is_nonzero", "aten::equal", "aten::allclose")
CONTROL = 100


class Words(NamedTuple):
    """Id, title, whether it takes the step to pieces, and what to change."""

    id: str
    title: str
    seam: bool
    change: str


WORDS: Mapping[int, Words] = {
    SCALAR: Words(
        "item",
        "a value is read back on the host",
        False,
        "keep the value in a tensor on the GPU (no .item(), int() or float()), or read it behind "
        "the step",
    ),
    CONTROL: Words(
        "control_flow",
        "Python branches on a value from the GPU",
        False,
        "replace the branch by torch.where or a mask, or decide before the step",
    ),
    SHAPE: Words(
        "data_dependent_size",
        "an op's output size depends on data",
        True,
        "use a fixed size: topk, where or masked arithmetic in place of nonzero, boolean indexing "
        "or unique; or leave the op between two graphs",
    ),
    COPY: Words(
        "blocking_copy",
        "a copy makes the host wait",
        False,
        "copy with non_blocking=True to pinned memory and wait behind the step",
    ),
    TO_DEVICE: Words(
        "pageable_copy",
        "a copy from pageable host memory",
        False,
        "create the tensor on the GPU once, or copy it into a static buffer before the step (from "
        "pinned memory)",
    ),
    EXPLICIT: Words(
        "synchronize",
        "explicit synchronization",
        False,
        "remove torch.cuda.synchronize(), or wait for an event behind the step",
    ),
}


class Region(NamedTuple):
    """Per step the launches of its first and last matrix product or attention; -1 without any."""

    first: Ints
    last: Ints


def model_region(view: View) -> Region:
    """Where the model begins and ends on the host; all launches where it has no matrix product."""
    trace, links = view.trace, view.device.links
    heavy = view.of_class(*HEAVY)
    known = links.launched & (view.op_step >= 0)
    if not (heavy & known).any():
        heavy = np.ones(links.row.size, np.bool_)
    chosen = np.flatnonzero(heavy & known)
    at = trace.start[links.launch[chosen]]
    return Region(*extent(at, at, view.op_step[chosen], len(view.steps)))


def blockers(view: View) -> list[Blocker]:
    """Everything seen in the counted steps that capture does not allow or leaves outside."""
    region = model_region(view)
    return [
        *_waits(view, region),
        *_pageable(view, region),
        *_allocations(view),
        *_threads(view),
    ]


def _inside(region: Region, step: Ints, at: Ints) -> Bools:
    return (at >= region.first[step]) & (at < region.last[step])


def _waits(view: View, region: Region) -> Iterator[Blocker]:
    calls, _, kind = waits(view)
    if calls.row.size == 0:
        return
    branch = enclosing(view.trace, view.op_rows(*BRANCHES), calls.row) >= 0
    kind[(kind == SCALAR) & branch] = CONTROL
    inside = _inside(region, calls.step, calls.start)
    for code, words in WORDS.items():
        for blocks in (True, False):
            chosen = (kind == code) & (inside == blocks)
            if chosen.any():
                own = Calls(*(column[chosen] for column in calls))
                yield _wait(view, words, own, blocks=blocks)


def _wait(view: View, words: Words, calls: Calls, *, blocks: bool) -> Blocker:
    tokens = view.tokens
    ns = float(calls.ns.sum()) / tokens
    per_token = calls.row.size / tokens
    text = f"{units.count(per_token)} per token, {units.time(ns)} of host time"
    if not blocks:
        text += "; outside the model's matrix products, so it can stay outside the graph"
    return Blocker(
        id=words.id if blocks else f"{words.id}_outside",
        title=words.title,
        blocks=blocks,
        seam=words.seam and blocks,
        per_token=per_token,
        ns_per_token=ns,
        text=text,
        change=words.change if blocks else "leave it outside: capture what lies between",
        places=places(view, calls.row, calls.step, calls.ns),
    )


def _pageable(view: View, region: Region) -> Iterator[Blocker]:
    """Pageable copies to the device whose call did not wait: their source would be replayed."""
    links = view.device.links
    rows = iv.distinct(links.launch[np.flatnonzero(pageable_ops(view))])
    waiting = view.calls("sync").row
    around = view.op_around(waiting)
    rows = rows[~np.isin(rows, waiting)]
    # A copy that is followed by a wait in its op is listed as that wait.
    rows = rows[~np.isin(view.op_around(rows), around[around >= 0])] if rows.size else rows
    rows, step = view.on_launching_thread(rows)
    inside = _inside(region, step, view.trace.start[rows]) if rows.size else np.zeros(0, np.bool_)
    for blocks in (True, False):
        own, of = rows[inside == blocks], step[inside == blocks]
        if own.size == 0:
            continue
        dur = view.trace.dur[own]
        yield Blocker(
            id="pageable_copy" if blocks else "pageable_copy_outside",
            title=WORDS[TO_DEVICE].title,
            blocks=blocks,
            seam=False,
            per_token=own.size / view.tokens,
            ns_per_token=float(dur.sum()) / view.tokens,
            text="a replay would read the same host address again, whatever lies there by then",
            change=WORDS[TO_DEVICE].change,
            places=places(view, own, of, dur),
        )


def _allocations(view: View) -> Iterator[Blocker]:
    calls = view.calls("alloc")
    if calls.row.size == 0:
        return
    tokens = view.tokens
    names = {view.trace.name_of(int(row)) for row in calls.row}
    frees = any("Free" in name for name in names)
    ns = float(calls.ns.sum()) / tokens
    yield Blocker(
        id="allocator",
        title="memory is allocated or freed through the driver in the step",
        blocks=frees,
        seam=False,
        per_token=calls.row.size / tokens,
        ns_per_token=ns,
        text=f"{', '.join(sorted(names))}: {units.time(ns)} of host time per token",
        change="warm up until the allocator's pool is large enough, keep shapes fixed, and drop "
        "torch.cuda.empty_cache(); memory cannot be freed while a graph is captured",
        places=places(view, calls.row, calls.step, calls.ns),
    )


def _threads(view: View) -> Iterator[Blocker]:
    links, steps = view.device.links, view.steps
    chosen = np.flatnonzero(links.launched & (view.op_step >= 0))
    calls, at = np.unique(links.launch[chosen], return_index=True)
    step = view.op_step[chosen][at]
    other = view.trace.lane[calls] != steps.lane[step]
    if not other.any():
        return
    rows, of = calls[other], step[other]
    yield Blocker(
        id="threads",
        title="several threads launch GPU work in one step",
        blocks=True,
        seam=False,
        per_token=rows.size / view.tokens,
        ns_per_token=0.0,
        text="capture records what one thread (and streams that wait for it) launches; a launch "
        "of another thread makes it fail or is left out",
        change="launch the whole step from one thread",
        places=places(view, rows, of, view.trace.dur[rows]),
    )


def recorded_blockers(view: View) -> list[Blocker]:
    """What the collector saw and the trace cannot show: moving and growing inputs, where it waits.

    Also why a captured mode of this run failed, when its manifest is asked.
    """
    seen = view.analysis.manifest.steadiness
    found = []
    by_name = {item.name: item for item in seen.inputs or ()}
    for names, blocks, name, title, change in (
        (
            seen.moved or (),
            False,
            "moving_inputs",
            "inputs whose address moves between steps",
            "copy them into static buffers (static.copy_(x)) and keep caches at one address",
        ),
        (
            seen.grew or (),
            True,
            "growing_inputs",
            "inputs that grow between steps",
            "allocate them at full length once (a static cache) and mask what is not there yet",
        ),
    ):
        if names:
            found.append(
                Blocker(
                    id=name,
                    title=title,
                    blocks=blocks or not _all_direct(names, by_name),
                    seam=False,
                    per_token=float(len(names)),
                    ns_per_token=0.0,
                    text=f"seen by the collector: {', '.join(names[:8])}",
                    change=change,
                    places=tuple(_input_place(by_name.get(n, Input()), n) for n in names[:5]),
                )
            )
    sequence = seen.launch_sequence
    if sequence is not None and sequence.equal is False:
        first = sequence.first_difference or Difference()
        found.append(
            Blocker(
                id="launch_sequence",
                title="the launches differ between steps",
                blocks=True,
                seam=False,
                per_token=0.0,
                ns_per_token=0.0,
                text=f"seen by the collector: launch {first.index} of step {first.step} is "
                f"{first.this_step or 'not there'}, in the first step "
                f"{first.first_step or 'nothing'}",
                change="keep shapes and branches fixed from step to step",
            )
        )
    return found


def _all_direct(names: Sequence[str], by_name: Mapping[str, Input]) -> bool:
    """Arguments of the call are copied into static buffers by whoever captures: they may move."""
    return all(by_name.get(name, Input()).kind == "direct" for name in names)


def _input_place(item: Input, name: str) -> BlockerPlace:
    what = name
    if item.shape_first != item.shape_last:
        first, last = (list(shape or ()) for shape in (item.shape_first, item.shape_last))
        what += f": {first} then {last}"
    elif item.moves:
        what += f": moved {item.moves} times"
    return BlockerPlace(None, None, None, "", "", what)
