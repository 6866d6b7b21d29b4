"""Is it known who launched what, and was every op recorded? Calls, ids, orphans, replays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from gaptrace import intervals as iv
from gaptrace.knowledge import runtime_calls
from gaptrace.measure.devices import Device
from gaptrace.measure.gaps import CAUSES
from gaptrace.measure.links import names_where, rank_codes, rows_named
from gaptrace.measure.quality import CALL_FIGURES, LIMITED, NOTE, Reason
from gaptrace.measure.steps import Steps
from gaptrace.quantity import NS, TRACED, Quantity
from gaptrace.trace import Cat, Trace

ORPHAN_SHARE = 0.01


def of_links(trace: Trace, device: Device, steps: Steps | None) -> Iterator[Reason]:
    """Calls that are missing or strange, ids used twice, ops without a call, idle unexplained."""
    links = device.links
    calls = trace.rows_of(Cat.RUNTIME)
    if calls.size == 0:
        yield Reason(
            "no_runtime_calls",
            "no runtime or driver call was recorded: launches and causes cannot be known",
            LIMITED,
            withheld=CALL_FIGURES,
        )
        return
    if device.figures.orphans:
        # Work in flight when recording began has no launch call; only steps' own orphans weigh.
        lost, ops = device.figures.orphans, device.figures.gpu_ops
        if steps is not None and steps.counted.any():
            counted = steps.counted
            lost = int(steps.orphans[counted].sum())
            ops = int((steps.kernels + steps.copies + steps.memsets)[counted].sum())
        grave = lost > ORPHAN_SHARE * ops
        yield Reason(
            "orphans",
            "GPU ops have no launch call in the trace; they count as busy time",
            LIMITED if grave else NOTE,
            device.figures.orphans,
            ("launches", "host_dispatch") if grave else (),
        )
    owners = links.calls
    strange = owners[~names_where(trace, trace.name[owners], runtime_calls.is_launch_family)]
    if strange.size:
        names = Counter(trace.name_of(int(row)) for row in strange)
        yield Reason(
            "unknown_launch_calls",
            "calls of no known launch family own GPU ops: "
            + ", ".join(name for name, _ in names.most_common(5)),
            count=int(strange.size),
        )
    reused = _reused_ids(trace)
    if reused:
        yield Reason(
            "ids_reused",
            "correlation ids occur on more than one runtime call; the first call is the launch",
            count=reused,
        )
    plain = ~links.replayed & links.launched
    owner = np.sort(links.launch[plain], kind="stable")
    shared = iv.distinct(owner[1:][owner[1:] == owner[:-1]])
    if shared.size:
        yield Reason(
            "shared_launch",
            "launch calls that replay no graph own several GPU ops",
            count=int(shared.size),
        )
    unrecorded = int(device.gaps.unrecorded_ns.sum())
    if unrecorded:
        yield Reason(
            "no_cpu_ops",
            (
                "no CPU op of the launching thread was recorded (ProfilerActivity.CPU records "
                "them), so what it did is not known: ",
                Quantity(unrecorded, NS, TRACED),
                " of idle time has no cause",
            ),
            LIMITED if trace.rows_of(Cat.CPU_OP).size == 0 else NOTE,
        )
    profiler = device.gaps.cause_ns[:, CAUSES.index("profiler")]
    if steps is not None and steps.counted.any():
        counted = np.append(steps.counted, False)[steps.gap_step(device.gaps.end)]
        profiler = np.where(counted, profiler, 0)
    if profiler.any():
        yield Reason(
            "profiler_in_gaps",
            (
                "the profiler's own work covers ",
                Quantity(int(profiler.sum()), NS, TRACED),
                " of idle time",
            ),
            count=int((profiler > 0).sum()),
        )


def _reused_ids(trace: Trace) -> int:
    calls = rows_named(trace, runtime_calls.is_launch_family, Cat.RUNTIME)
    calls = calls[trace.corr[calls] != 0]
    corr, rank = trace.corr[calls], rank_codes(trace)[trace.lane[calls]]
    order = np.lexsort((corr, rank))
    corr, rank = corr[order], rank[order]
    return int(((corr[1:] == corr[:-1]) & (rank[1:] == rank[:-1])).sum())


def of_replays(trace: Trace, device: Device, steps: Steps) -> Iterator[Reason]:
    """Replays of one graph must record the same ops in every step.

    The graph at one place of the step is known by what most steps replay there; a replay that
    recorded only some of those ops has lost the others. Steps that replay another graph at that
    place (other ops, not fewer) say nothing.
    """
    links = device.links
    counted = np.flatnonzero(steps.counted & (steps.graph_launches > 0))
    if counted.size < 2:
        return
    index = np.flatnonzero(links.replayed)
    index = index[np.argsort(links.launch[index], kind="stable")]
    launch, first = np.unique(links.launch[index], return_index=True)
    bounds = np.append(first, index.size)
    in_time = np.lexsort((launch, trace.start[launch]))
    replays: dict[int, list[Counter[int]]] = {int(step): [] for step in counted}
    for i in in_time:
        step = int(steps.op_step[index[bounds[i]]])
        if step in replays:
            codes = trace.name[links.row[index[bounds[i] : bounds[i + 1]]]]
            replays[step].append(Counter(codes.tolist()))
    by_count: dict[int, list[list[Counter[int]]]] = {}
    for found in replays.values():
        by_count.setdefault(len(found), []).append(found)
    differing = 0
    for group in by_count.values():
        for place in zip(*group, strict=True):
            kinds = Counter(tuple(sorted(names.items())) for names in place)
            usual, times = kinds.most_common(1)[0]
            if 2 * times > len(place):
                whole = Counter(dict(usual))
                differing += sum(n != whole and (n <= whole or whole <= n) for n in place)
    if differing:
        yield Reason(
            "replays_differ",
            "replays of one graph recorded different numbers of GPU ops: some were lost, and "
            "idle time may be an artefact",
            LIMITED,
            differing,
            ("kernels", "busy", "idle", "causes"),
        )
