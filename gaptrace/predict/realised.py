"""What compiling did, from a measured pair: removed kernels and launches, busy and idle apart."""

from __future__ import annotations

from collections.abc import Sequence

from gaptrace.compare.match import match_kernels, overlap
from gaptrace.compare.op_names import ops_of_compiled
from gaptrace.compare.recording import CLASS_COLUMNS, record
from gaptrace.measure.headline import PROFILED
from gaptrace.measure.kernels import OP_CLASSES
from gaptrace.measure.result import Analysis
from gaptrace.measure.stats import spread
from gaptrace.quantity import GIVEN, UNPROFILED
from gaptrace.results.comparison import KernelGroup
from gaptrace.results.prediction import Realised, RealisedGroup

# A group that got slower by this many ns per token is a loss worth a line.
LOSS_NS = 500
# Predicted and realised groups stand for each other when this share of their ops agrees.
ALIKE = 0.5
Predicted = Sequence[tuple[str, float]]


def realised(eager: Analysis, compiled: Analysis, predicted: Predicted = ()) -> Realised | None:
    """What the compiled recording has less or more than the eager one; None without steps.

    predicted: name and ns of every generated kernel that was predicted, matched by fused ops.
    """
    left, right = record(eager), record(compiled)
    a, b = eager.headline, compiled.headline
    kernels, launches, busy = (
        _less(a.steps[name].median, b.steps[name].median)
        for name in ("kernels", "launches", "busy_ns")
    )
    idle = _less(a.rate.unprofiled_idle_ns, b.rate.unprofiled_idle_ns)
    source = GIVEN if GIVEN in (a.rate.source, b.rate.source) else UNPROFILED
    if idle is None:
        idle, source = _less(a.steps["idle_ns"].median, b.steps["idle_ns"].median), PROFILED
    if kernels is None or launches is None or busy is None or idle is None:
        return None
    found = match_kernels([left], [right])
    groups = tuple(_group(group, predicted) for group in found.groups)
    return Realised(
        kernels_removed=kernels,
        launches_removed=launches,
        idle_removed_ns=idle,
        idle_source=source,
        busy_change_ns=-busy,
        busy_by_class={
            name: float(spread(right.steps[column]).median or 0)
            - float(spread(left.steps[column]).median or 0)
            for name, column in zip(OP_CLASSES, CLASS_COLUMNS, strict=True)
        },
        groups=groups,
        losses=tuple(sorted((g for g in groups if _loss(g) >= LOSS_NS), key=lambda g: -_loss(g))),
    )


def _loss(group: RealisedGroup) -> float:
    return group.compiled_ns - group.eager_ns


def _less(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else float(before) - float(after)


def _group(group: KernelGroup, predicted: Predicted) -> RealisedGroup:
    names = [member.name for member in group.candidate]
    return RealisedGroup(
        title=group.title,
        op_class=group.op_class,
        eager_kernels=sum(m.per_token for m in group.baseline),
        eager_ns=sum(m.ns_per_token for m in group.baseline),
        compiled_kernels=sum(m.per_token for m in group.candidate),
        compiled_ns=sum(m.ns_per_token for m in group.candidate),
        predicted=_alike(names, predicted),
    )


def _alike(names: Sequence[str], predicted: Predicted) -> tuple[float, float] | None:
    """Number and ns of the predicted kernels whose ops are most like those of the names."""
    ops = {op for name in names for op in ops_of_compiled(name)}
    if not ops:
        return None
    scored = [(overlap(ops, ops_of_compiled(f"{name}_0")), ns) for name, ns in predicted]
    best = max((score for score, _ in scored), default=0.0)
    if best < ALIKE:
        return None
    chosen = [ns for score, ns in scored if score == best]
    return float(len(chosen)), sum(chosen)
