"""A sweep: the same modes at several batch sizes or lengths, condensed to one table.

Each point is analysed as the run that it is and then condensed to its figures, so that the traces
of one point alone are in memory. Fusion savings are predicted from the eager recording of the
smallest batch, scaled to each batch as `gaptrace predict --batch` does, and stand beside the
prediction from the point's own eager recording and what compiling really saved there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from gaptrace.measure.headline import PROFILED
from gaptrace.measure.result import Analysis
from gaptrace.measure.startup import mode_start
from gaptrace.measure.stats import spread
from gaptrace.predict import PredictOptions, predict
from gaptrace.predict.saved import has_execution_trace
from gaptrace.reading.manifest import Manifest
from gaptrace.results.prediction import AtBatch
from gaptrace.results.run import SweepPoint, SweepResult, SweepRow, SweepSaving
from gaptrace.runs.run import RunAnalysis

FUSION_NOT_ASKED = (
    "fusion savings are not predicted where a point has an execution trace and Inductor was not "
    "asked about it: `gaptrace predict` on the point asks once"
)
# What compiling saved is read from the first of these pairs that a point has recorded.
PAIRS = (("eager", "compiled"), ("graph", "compiled-graph"))


@dataclass(frozen=True)
class _Own:
    """What a point's own eager recording predicts: at every batch, where it is, and from what."""

    batch: Mapping[str, AtBatch]
    here: AtBatch
    source: str


def analyze_sweep(
    name: str,
    path: str,
    points: Sequence[tuple[SweepPoint, Callable[[], RunAnalysis]]],
    *,
    missing: Sequence[str] = (),
) -> SweepResult:
    """Every point analysed and condensed; points are loaded one at a time, in their order."""
    batches = tuple(sorted({point.batch for point, _ in points if point.batch is not None}))
    rows: list[SweepRow] = []
    owns: dict[SweepPoint, _Own] = {}
    realised: dict[str, tuple[float, str]] = {}
    facts: tuple[str, ...] = ()
    notes: dict[str, None] = {}
    if missing:
        notes[f"the recording was stopped before it was complete: {', '.join(missing)}"] = None
    findings: dict[tuple[str, str], None] = {}
    for point, load in points:
        run = load()
        found = _against_eager([_row(point, run, mode) for mode in run.modes])
        rows += found
        if (own := _predicted(run, batches)) is not None:
            owns[point] = own
        if (saved := _realised(found)) is not None:
            realised[point.point] = saved
        facts = facts or run.facts
        notes.update(dict.fromkeys(_notes(point, run)))
        if own is None and _not_asked(run):
            notes[FUSION_NOT_ASKED] = None
        for cell in run.cells:
            for finding in cell.analysis.result.findings if cell.analysis is not None else ():
                if finding.ceiling_ns_per_token > 0:
                    findings[finding.id, finding.title] = None
    return SweepResult(
        name=name,
        sentence="",
        facts=facts,
        points=tuple(point for point, _ in points),
        modes=_modes(rows),
        rows=tuple(rows),
        savings=_savings([point for point, _ in points], owns, realised),
        notes=tuple(notes),
        path=path,
        findings=tuple(findings),
    )


def _against_eager(rows: list[SweepRow]) -> list[SweepRow]:
    """The rows of a point with their rates over the eager one's."""
    eager = next((row.tokens_per_s for row in rows if row.mode == "eager"), None)
    return [
        replace(row, times_eager=row.tokens_per_s / eager) if eager and row.tokens_per_s else row
        for row in rows
    ]


def _modes(rows: Sequence[SweepRow]) -> tuple[str, ...]:
    """Modes in the order of the point that has most of them, then as they come."""
    size = Counter(row.point for row in rows)
    ordered = sorted(rows, key=lambda row: -size[row.point])
    return tuple(dict.fromkeys(row.mode for row in ordered))


def _row(point: SweepPoint, run: RunAnalysis, mode: str) -> SweepRow:
    cells = [cell for cell in run.cells if cell.mode == mode]
    manifests = [cell.manifest for cell in cells]
    analysis = run.representative(mode)
    place = (point.point, point.batch, point.length, mode)
    start = mode_start(manifests)
    if analysis is None:
        return SweepRow(*place, cells[0].status, cells[0].reason or None, 0, startup=start)
    head, limits = analysis.headline, analysis.ceilings
    share, source = head.rate.unprofiled_idle_share, head.rate.source
    if share is None or share < 0:
        share, source = head.idle_share, PROFILED
    return SweepRow(
        *place,
        status="ok",
        reason=next((cell.reason for cell in cells if cell.reason), None),
        repeats=len(run.repeats(mode)),
        tokens_per_s=head.rate.tokens_per_s,
        rate_source=None if head.rate.tokens_per_s is None else head.rate.source,
        step_ns=head.step_ns,
        step_spread=run.step_spread(mode),
        idle_share=share,
        idle_source=None if share is None else source,
        busy_ns=head.steps["busy_ns"].median,
        kernels=head.steps["kernels"].median,
        launches=head.steps["launches"].median,
        replays=_replays(analysis),
        launch_tokens_per_s=limits.launch_tokens_per_s,
        bandwidth_tokens_per_s=limits.bandwidth_tokens_per_s,
        binding=limits.binding,
        distance=limits.distance,
        padding_share=analysis.manifest.buckets.padding_share,
        verdicts=tuple(cell.analysis.quality.verdict for cell in cells if cell.analysis),
        startup=start,
        choices=_choices(manifests),
    )


def _replays(analysis: Analysis) -> float | None:
    steps = analysis.step_table
    if steps is None or analysis.headline.steps["launches"].median is None:
        return None
    counted = steps.graph_launches[steps.counted]
    return spread(counted).median if counted.size else None


def _choices(manifests: Sequence[Manifest]) -> dict[str, int] | None:
    """How many products went to which kind of kernel, in the first repeat that lists any."""
    for manifest in manifests:
        if listed := manifest.autotune.choices:
            return dict(Counter(item.kind or "?" for item in listed).most_common())
    return None


def _predicted(run: RunAnalysis, batches: Sequence[int]) -> _Own | None:
    """Fusion savings from a point's eager recording, there and at every batch of the sweep."""
    eager = run.representative("eager") if "eager" in run.modes else None
    found = None if eager is None else predict(eager, PredictOptions(tuple(batches))).savings
    if found is None:
        return None
    return _Own(found.at_batch, AtBatch(found.bytes, found.time_ns), found.source)


def _not_asked(run: RunAnalysis) -> bool:
    """Whether the eager recording has an execution trace about which Inductor was not asked."""
    eager = run.representative("eager") if "eager" in run.modes else None
    return eager is not None and has_execution_trace(eager.manifest)


def _realised(rows: Sequence[SweepRow]) -> tuple[float, str] | None:
    busy = {row.mode: row.busy_ns for row in rows if row.busy_ns is not None}
    for plain, compiled in PAIRS:
        if plain in busy and compiled in busy:
            return (busy[plain] or 0) - (busy[compiled] or 0), f"{plain} − {compiled}"
    return None


def _savings(
    points: Sequence[SweepPoint],
    owns: Mapping[SweepPoint, _Own],
    realised: Mapping[str, tuple[float, str]],
) -> tuple[SweepSaving, ...]:
    found = []
    for point in points:
        own = owns.get(point)
        # The smallest batch of the same length tells about the others.
        alike = [p for p in owns if p.length == point.length and p.batch is not None]
        origin = min(alike, key=lambda p: p.batch or 0, default=None)
        scaled = owns[origin].batch.get(str(point.batch)) if origin is not None else None
        if scaled is None:
            scaled, origin = (None, None) if own is None else (own.here, point)
        saved, pair = realised.get(point.point, (None, None))
        if scaled is None and saved is None:
            continue
        found.append(
            SweepSaving(
                point=point.point,
                batch=point.batch,
                length=point.length,
                predicted_ns=scaled.time_ns if scaled else None,
                predicted_bytes=scaled.bytes if scaled else None,
                predicted_from=origin.point if origin else None,
                source=owns[origin].source if origin else None,
                own_ns=own.here.time_ns if own else None,
                realised_ns=saved,
                realised_from=pair,
            )
        )
    return tuple(found)


def _notes(point: SweepPoint, run: RunAnalysis) -> list[str]:
    """What to know about single cells: modes that failed, outputs that differ, weak traces."""
    found = []
    if run.missing:
        found.append(f"{point.point}: stopped before {', '.join(run.missing)}")
    for cell in run.cells:
        found += [f"{point.point}/{cell.mode}: {text}" for text in cell.remarks("different")]
    return found
