"""What became of kernels and of busy time, kept apart: one can fall while the other rises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gaptrace.compare.side import Side
from gaptrace.results.comparison import (
    WITHIN_NOISE,
    ClassChange,
    KernelChange,
    KernelComparison,
    MetricRow,
    NamedKernel,
    Work,
)
from gaptrace.vocabulary import MODES, SQUARE

# Classes of a gain or loss, and kernels of a class, that are named.
NAMED = 3
# A class or kernel is named for a loss or a gain when it makes up this share of it.
WORTH_NAMING = 0.1


def work_of(
    subject: str,
    kernels: MetricRow,
    busy: MetricRow,
    classes: Mapping[str, float],
    matched: KernelComparison,
) -> Work:
    """The change of kernels and busy time; `classes`: change of busy ns per token by op class."""
    moved = busy.change if busy.verdict != WITHIN_NOISE else None
    return Work(
        subject=subject,
        kernels=(kernels.baseline.value, kernels.candidate.value),
        kernels_ratio=kernels.ratio,
        busy_ns=busy.change,
        busy_ratio=busy.ratio,
        busy_verdict=busy.verdict,
        classes=_classes(classes, matched, lost=moved > 0) if moved else (),
    )


def _classes(
    changes: Mapping[str, float], matched: KernelComparison, *, lost: bool
) -> tuple[ClassChange, ...]:
    sign = 1 if lost else -1
    moved = sorted(((sign * change, name) for name, change in changes.items()), reverse=True)
    total = sum(change for change, _ in moved if change > 0)
    named = [(name, sign * ns) for ns, name in moved if ns > WORTH_NAMING * total > 0]
    return tuple(
        ClassChange(name, ns, _kernels([r for r in matched.rows if r.op_class == name], lost=lost))
        for name, ns in named[:NAMED]
    )


def _kernels(rows: Sequence[KernelChange], *, lost: bool) -> tuple[NamedKernel, ...]:
    """The kernels behind a gain or a loss, longest first, with how often they run."""
    moved = [row for row in rows if (row.delta_ns > 0) == lost and row.delta_ns]
    moved.sort(key=lambda row: (-abs(row.delta_ns), row.name))
    total = sum(abs(row.delta_ns) for row in moved)
    moved = [row for row in moved if abs(row.delta_ns) > WORTH_NAMING * total] or moved[:1]
    found: dict[str, float] = {}
    for row in moved:
        use = row.candidate if lost else row.baseline
        found[row.short] = found.get(row.short, 0.0) + (use.per_token if use else 0.0)
        if len(found) == NAMED:
            break
    return tuple(NamedKernel(short, times) for short, times in found.items())


def mode_of(side: Side) -> str:
    """The mode of a side; of a bare trace what it holds tells.

    Generated kernels make it compiled, kernels that mostly come from replays make it captured.
    """
    if side.mode:
        return side.mode
    recording = side.recordings[0]
    kind = (recording.generated > 0, recording.captured > 0.5)
    return next(m for m in SQUARE if (MODES[m].compiled, MODES[m].captured) == kind)


def subject(baseline: Side, candidate: Side) -> str:
    """What was done to the baseline to get the candidate, as the subject of a sentence."""
    before, after = (MODES.get(mode_of(side)) for side in (baseline, candidate))
    if before is None or after is None or not {before.id, after.id} <= set(SQUARE):
        return "the candidate"
    if before.compiled > after.compiled or before.captured > after.captured:
        return "the candidate"
    compiled, captured = before.compiled < after.compiled, before.captured < after.captured
    if compiled and captured:
        return "compiling and capturing"
    return "compiling" if compiled else "capturing" if captured else "the candidate"
