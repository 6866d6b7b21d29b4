"""What a comparison needs of one recording: plain numbers, no trace.

A live analysis and a saved baseline are both brought into this form, so that comparing with either
gives the same result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gaptrace.compare.busy import busy_by_class, class_intervals
from gaptrace.compare.facts import facts_of
from gaptrace.errors import GaptraceError
from gaptrace.intervals import Intervals
from gaptrace.measure.gaps import CAUSES
from gaptrace.measure.headline import host_bound
from gaptrace.measure.kernels import OP_CLASSES
from gaptrace.measure.result import Analysis
from gaptrace.measure.stats import spread
from gaptrace.measure.steps import Steps
from gaptrace.quantity import GIVEN, Number
from gaptrace.reading.manifest import Manifest
from gaptrace.results.analysis import Kernels
from gaptrace.trace import Ints

# Columns of `Recording.steps`, one value per counted step; times in ns. `step` is the row of the
# step in the analysis, `clean` 0 where busy and idle are withheld, `closed` 0 for the open step.
COUNTS = ("tokens", "kernels", "launches", "copies", "memsets")
CAUSE_COLUMNS = tuple(f"idle_{name}_ns" for name in CAUSES)
CLASS_COLUMNS = tuple(f"busy_{name}_ns" for name in OP_CLASSES)
COLUMNS = (
    "step",
    "clean",
    "closed",
    *COUNTS,
    "period_ns",
    "host_dispatch_ns",
    *CAUSE_COLUMNS,
    *CLASS_COLUMNS,
)
# A name beyond this is cut in the middle; what is left still tells kernels apart.
LONGEST_NAME = 2_000


@dataclass(frozen=True)
class UsedKernel:
    """One GPU op name over the counted steps: executions and summed ns in all of them."""

    name: str
    op: str
    op_class: str
    count: int
    total_ns: int
    median_ns: int


@dataclass(frozen=True, eq=False)
class Recording:
    """One recording as a comparison sees it.

    path, run, mode, repeat: where it comes from. facts: see `facts.facts_of`. verdict, reasons:
    quality, the reasons of level `limited` and above. withheld: names of withheld figures. rule:
    how the steps were found. steps: one array per name in `COLUMNS`, counted steps only, in time
    order; empty arrays where steps are withheld. complete: how many of them are complete (the open
    step stands in where none is). whole: the whole recording of the device, the same columns from
    `period_ns` on without host dispatch, plain integers. unprofiled_ns, issue_ns, with their
    samples; peak_memory in bytes: from the run's manifest, None without. given: `unprofiled_ns` was
    given by hand. predicted_ns, predicted_range: the unprofiled step as far as it was predicted,
    with the least and the most that it may be. kernels: by name, longest
    first; kernel_tokens: the tokens they were counted over. captured: kernels inside replays, as a
    share of all; generated: kernels by a compiler, likewise.
    """

    path: str
    run: str
    mode: str | None
    repeat: int
    facts: Mapping[str, str | None]
    verdict: str
    reasons: tuple[str, ...]
    withheld: frozenset[str]
    rule: str
    complete: int
    steps: Mapping[str, Ints]
    whole: Mapping[str, int]
    unprofiled_ns: int | None
    unprofiled_samples: Ints
    issue_ns: int | None
    issue_samples: Ints
    peak_memory: int | None
    kernels: tuple[UsedKernel, ...]
    kernel_tokens: Number
    captured: float
    generated: float
    given: bool = False
    predicted_ns: int | None = None
    predicted_range: tuple[int, int] | None = None

    def withholds(self, *names: str) -> bool:
        """Whether any of the names is withheld."""
        return bool(self.withheld.intersection(names))

    @property
    def period_ns(self) -> int | None:
        """Median traced step time in ns; None without steps."""
        median = spread(self.steps["period_ns"]).median
        return None if median is None else int(median)

    @property
    def step_ns(self) -> int | None:
        """Step time in ns without the profiler: measured or given, else predicted, else None."""
        return self.predicted_ns if self.unprofiled_ns is None else self.unprofiled_ns


def record(analysis: Analysis, *, run: str = "", repeat: int = 1) -> Recording:
    """The numbers of an analysis that comparisons need.

    Raises:
        GaptraceError: no GPU work was recorded, so there is nothing to compare.
    """
    device, steps = analysis.device, analysis.step_table
    if device is None:
        raise GaptraceError(
            f"{analysis.source.path} holds no GPU work, so there is nothing to compare",
            "profile with ProfilerActivity.CUDA",
        )
    quality, manifest = analysis.quality, analysis.manifest
    parts = class_intervals(analysis.trace, device)
    lo, hi = device.links.start.min(), device.links.end.max()
    totals = busy_by_class(parts, np.array([lo]), np.array([hi]))[0]
    causes = device.figures.idle_by_cause_ns
    whole = {
        "period_ns": device.figures.span_ns,
        **{f"idle_{name}_ns": causes[name] for name in CAUSES},
        **{f"busy_{name}_ns": int(totals[i]) for i, name in enumerate(OP_CLASSES)},
    }
    columns = {name: np.empty(0, np.int64) for name in COLUMNS}
    if steps is not None and len(steps) > 0 and not quality.withholds("steps"):
        columns = _columns(steps, parts)
    table = analysis.kernels
    tokens = 0 if steps is None else steps.counted_tokens
    kernels = _kernels(table, tokens)
    bound = host_bound(analysis.headline.rate, manifest)
    issue, issued = manifest.issue_ns, _integers(manifest.issue.samples_ns)
    if bound is not None and issue is not None:
        issue, issued = min(issue, bound[0]), np.minimum(issued, bound[0])
    count = sum(kernel.count for kernel in kernels) or 1
    rate = analysis.headline.rate
    by_hand = rate.source == GIVEN
    return Recording(
        path=analysis.source.path,
        run=run,
        mode=analysis.source.mode,
        repeat=repeat,
        facts=facts_of(analysis),
        verdict=quality.verdict,
        reasons=tuple(reason.text for reason in quality.reasons if reason.level != "note"),
        withheld=quality.withheld,
        rule=steps.rule if steps is not None else "",
        complete=int(columns["closed"].sum()),
        steps=columns,
        whole=whole,
        unprofiled_ns=rate.unprofiled_step_ns if by_hand else manifest.step_ns,
        # Samples of a run are no noise of a time that somebody else measured.
        unprofiled_samples=_integers(None) if by_hand else _unprofiled(manifest),
        issue_ns=issue,
        issue_samples=issued,
        peak_memory=manifest.peak_memory,
        kernels=kernels,
        kernel_tokens=tokens,
        captured=sum(row.captured * row.per_token for row in table.rows) * tokens / count,
        generated=sum(row.per_token for row in table.rows if row.backend == "Inductor")
        * tokens
        / count,
        given=by_hand,
        predicted_ns=analysis.predicted.step_ns,
        predicted_range=analysis.predicted.range_ns,
    )


def _columns(steps: Steps, parts: tuple[Intervals, ...]) -> dict[str, Ints]:
    keep = np.flatnonzero(steps.counted)
    closed = np.ones(len(steps), np.int64)
    if steps.open_index >= 0:
        closed[steps.open_index] = 0
    busy = busy_by_class(parts, steps.gpu_start, steps.gpu_end)
    columns = {
        "step": np.arange(len(steps), dtype=np.int64),
        "clean": (~steps.mixed).astype(np.int64),
        "closed": closed,
        **{name: getattr(steps, name) for name in (*COUNTS, "period_ns", "host_dispatch_ns")},
        **dict(zip(CAUSE_COLUMNS, steps.cause_ns.T, strict=True)),
        **dict(zip(CLASS_COLUMNS, busy.T, strict=True)),
    }
    return {name: columns[name][keep].astype(np.int64) for name in COLUMNS}


def _kernels(table: Kernels, tokens: float) -> tuple[UsedKernel, ...]:
    return tuple(
        UsedKernel(
            name=_bounded(row.name),
            op=row.op,
            op_class=row.op_class,
            count=round(row.per_token * tokens),
            total_ns=round(row.total_ns_per_token * tokens),
            median_ns=row.median_ns,
        )
        for row in table.rows
    )


def _bounded(name: str) -> str:
    if len(name) <= LONGEST_NAME:
        return name
    mark = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:16]
    half = LONGEST_NAME // 2
    return f"{name[:half]}…{mark}…{name[-half:]}"


def _unprofiled(manifest: Manifest) -> Ints:
    """Every step period before profiling, by the clock that the median is from.

    Launch-bound steps stay slower after profiling, so those say nothing about the model.
    """
    times = manifest.unprofiled.before
    if times is None:
        return _integers(None)
    device = manifest.unprofiled.clock == "device_events"
    return _integers(times.device_ns if device else times.host_ns)


def _integers(values: Sequence[float | None] | None) -> Ints:
    return np.array([int(value) for value in values or () if value is not None], np.int64)
