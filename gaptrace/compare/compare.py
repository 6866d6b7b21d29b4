"""Sides in, ComparisonResult out: the one place that knows the order of a comparison's parts.

Figures and verdicts only: `gaptrace.runs.compared` adds the sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gaptrace.compare.bridge import MEDIAN_STEP, WHOLE, build_bridge, busy_changes
from gaptrace.compare.figures import sources
from gaptrace.compare.likeness import Likeness, host_figures, likeness
from gaptrace.compare.match import learn_ops, match_kernels
from gaptrace.compare.noise import RESAMPLES, SEED
from gaptrace.compare.rows import metric_rows
from gaptrace.compare.side import Side
from gaptrace.compare.two_by_two import two_by_two
from gaptrace.compare.work import subject, work_of
from gaptrace.errors import GaptraceError
from gaptrace.results.comparison import (
    GIVEN,
    NOT_COMPARABLE,
    PROFILED,
    WITHHELD,
    ComparedCell,
    ComparisonResult,
    MetricRow,
    Pair,
    TwoByTwo,
)
from gaptrace.vocabulary import EDGES

REFUSE, FORCE = "refuse", "force"
# What makes figures comparable that the profiler slowed.
REMEDY = (
    "give the measured step of each side (--unprofiled-step), or record both with gaptrace "
    "collect, which times the steps without the profiler"
)


@dataclass(frozen=True)
class CompareOptions:
    """Choices for one comparison.

    unlike: `refuse` to compare unlike runs, or `force` it, with a banner. seed, resamples: of the
    noise; the same seed gives the same intervals.
    """

    unlike: str = REFUSE
    seed: int = SEED
    resamples: int = RESAMPLES


def compare_pairs(
    pairs: Sequence[tuple[Side, Side]],
    options: CompareOptions | None = None,
    *,
    corners: Mapping[str, Side] | None = None,
    notes: Sequence[str] = (),
    cells: Sequence[ComparedCell] = (),
) -> ComparisonResult:
    """Every pair of baseline and candidate compared; `corners` are the four sides of a 2x2.

    cells: where the pairs stand in two sweeps.

    Raises:
        GaptraceError: there is no pair, or one is unlike and not forced.
    """
    options = options or CompareOptions()
    if not pairs:
        raise GaptraceError("nothing to compare with", "name a baseline and a candidate")
    learned = learn_ops(r for pair in pairs for side in pair for r in side.recordings)
    found = [_pair(left, right, options, learned) for left, right in pairs]
    return ComparisonResult(
        forced=any(pair.banner for pair in found),
        seed=options.seed,
        resamples=options.resamples,
        notes=tuple(notes),
        pairs=tuple(found),
        two_by_two=None if corners is None else _square(corners, options, learned),
        cells=tuple(cells),
    )


def _square(
    corners: Mapping[str, Side], options: CompareOptions, learned: Mapping[str, str]
) -> TwoByTwo:
    sides = [side.recordings for side in corners.values()]
    chosen = sources(sides, host_figures(sides))
    pairs = {
        name: _pair(corners[edge.before], corners[edge.after], options, learned, chosen)
        for name, edge in EDGES.items()
    }
    return two_by_two(corners, pairs)


def _pair(
    baseline: Side,
    candidate: Side,
    options: CompareOptions,
    learned: Mapping[str, str],
    chosen: Mapping[str, str] | None = None,
) -> Pair:
    alike = likeness(baseline.recordings, candidate.recordings)
    if alike.unlike and options.unlike != FORCE:
        raise GaptraceError(
            f"{baseline.label} and {candidate.label} are not alike: {'; '.join(alike.unlike)}",
            "compare runs of the same thing, or use --force to compare them all the same",
        )
    chosen = chosen or sources((baseline.recordings, candidate.recordings), alike.profiled)
    profiled = [name for name in alike.profiled if chosen[name] == PROFILED]
    unjudged = dict.fromkeys(profiled, (NOT_COMPARABLE, alike.slowed))
    # A count of another piece of work is wrong even without a profiler.
    unjudged |= {
        name: (WITHHELD, why)
        for name, why in alike.withheld.items()
        if chosen.get(name, PROFILED) == PROFILED
    }
    rows = metric_rows(
        baseline.recordings,
        candidate.recordings,
        unjudged=unjudged,
        chosen=chosen,
        seed=options.seed,
        resamples=options.resamples,
    )
    bridge, left, right = build_bridge(
        baseline,
        candidate,
        source=chosen["step_time"],
        basis=MEDIAN_STEP if alike.same_steps else WHOLE,
    )
    by_id = {row.id: row for row in rows}
    step = by_id["step_time"]
    kernels = match_kernels(baseline.recordings, candidate.recordings, learned)
    done = subject(baseline, candidate)
    times = (step.baseline.value, step.candidate.value)
    known = [time for time in times if time]
    return Pair(
        baseline=baseline.view(left.place, left.step),
        candidate=candidate.view(right.place, right.step),
        verdict=step.verdict,
        banner=alike.unlike,
        notes=(*_slowing(alike, chosen, rows), *alike.notes),
        step_ns=times,
        factor=max(known) / min(known) if len(known) == 2 else None,
        metrics=rows,
        bridge=bridge,
        kernels=kernels,
        work=work_of(done, by_id["kernels"], by_id["busy"], busy_changes(left, right), kernels),
    )


def _slowing(
    alike: Likeness, chosen: Mapping[str, str], rows: Sequence[MetricRow]
) -> tuple[str, ...]:
    """What slowed a host under the profiler, what that takes away, and what brings it back."""
    if GIVEN in chosen.values():
        return ("a given step time is taken to scatter as the traced steps do",)
    if not alike.slowed:
        return ()
    line = f"{alike.slowed}, which slows the host under the profiler"
    titles = [row.title for row in rows if row.verdict == NOT_COMPARABLE]
    if not titles:
        return (line,)
    return (f"{line}: {', '.join(titles)} cannot be compared as profiled; {REMEDY}",)
