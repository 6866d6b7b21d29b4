"""A sweep: the same modes at several batch sizes or lengths, as one table.

Each point is analysed as the run that it is and then condensed to its figures, so that the traces
of one point alone are in memory. Fusion savings are predicted from the eager recording of the
smallest batch, scaled to each batch as `gaptrace predict --batch` does, and stand beside the
prediction from the point's own eager recording and what compiling really saved there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gaptrace import units
from gaptrace.measure.result import Analysis
from gaptrace.measure.stats import spread
from gaptrace.predict import PredictOptions, predict
from gaptrace.reading.manifest import Manifest
from gaptrace.runs.run import RunAnalysis, step_ns
from gaptrace.runs.startup import ModeStart, mode_start

SCHEMA = "gaptrace.sweep/1"
# What compiling saved is read from the first of these pairs that a point has recorded.
PAIRS = (("eager", "compiled"), ("graph", "compiled-graph"))


@dataclass(frozen=True)
class Place:
    """One point of a sweep: its name, batch size and length (None: not varied), and its path."""

    name: str
    batch: int | None
    length: int | None
    path: str

    @property
    def words(self) -> str:
        """`batch 8`, `length 128` or both."""
        parts = [("batch", self.batch), ("length", self.length)]
        return ", ".join(f"{word} {units.count(n)}" for word, n in parts if n is not None)


@dataclass(frozen=True)
class SweepRow:
    """One mode at one point: medians of the repeat that stands for the mode, per step.

    status, reason: as in the run folder. tokens_per_s, step_ns: unprofiled where the run measured
    them (`rate_source`). step_spread: half the range of the repeats' step times over the least.
    idle_share: unprofiled where known (`idle_source`). launches counts a replay once, replays
    counts replays alone. start: what the mode costs before its first steady step. choices: how
    many matrix products autotuning gave to which kind of kernel. verdicts: of every repeat.
    Figures that were withheld or not recorded are None.
    """

    place: Place
    mode: str
    status: str
    reason: str
    repeats: int
    tokens_per_s: float | None = None
    rate_source: str | None = None
    step_ns: int | None = None
    step_spread: float | None = None
    idle_share: float | None = None
    idle_source: str | None = None
    busy_ns: float | None = None
    kernels: float | None = None
    launches: float | None = None
    replays: float | None = None
    launch_tokens_per_s: float | None = None
    bandwidth_tokens_per_s: float | None = None
    binding: str | None = None
    distance: float | None = None
    padding_share: float | None = None
    start: ModeStart | None = None
    choices: Mapping[str, int] | None = None
    verdicts: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The row as plain data."""
        own = {k: v for k, v in vars(self).items() if k not in ("place", "start", "choices")}
        return {
            "point": self.place.name,
            "batch": self.place.batch,
            "length": self.place.length,
            **own,
            "reason": self.reason or None,
            "verdicts": list(self.verdicts),
            "startup": None if self.start is None else self.start.as_dict(),
            "choices": None if self.choices is None else dict(self.choices),
        }


@dataclass(frozen=True)
class SweepSaving:
    """What fusion saves per step at one point; ns of busy time, bytes of intermediates.

    predicted_ns, predicted_bytes: scaled from the eager recording of `predicted_from` (a point's
    name); source: exact dataflow or estimated from shapes. own_ns: predicted from the point's own
    eager recording. realised_ns: busy time of the plain step less that of the compiled one, of
    the two modes in `realised_from`; negative where compiling lost busy time.
    """

    place: Place
    predicted_ns: float | None
    predicted_bytes: float | None
    predicted_from: str | None
    source: str | None
    own_ns: float | None
    realised_ns: float | None
    realised_from: str | None

    def as_dict(self) -> dict[str, Any]:
        """The saving as plain data."""
        own = {k: v for k, v in vars(self).items() if k != "place"}
        place = self.place
        return {"point": place.name, "batch": place.batch, "length": place.length, **own}


@dataclass(frozen=True)
class SweepAnalysis:
    """All points of one sweep. findings: id and title of what has a gain, of any point."""

    name: str
    path: str
    rows: tuple[SweepRow, ...]
    savings: tuple[SweepSaving, ...]
    facts: tuple[str, ...]
    notes: tuple[str, ...]
    findings: tuple[tuple[str, str], ...]

    @property
    def places(self) -> tuple[Place, ...]:
        """The points in their order."""
        return tuple(dict.fromkeys(row.place for row in self.rows))

    @property
    def modes(self) -> tuple[str, ...]:
        """Modes in the order shown, failed ones included."""
        return tuple(dict.fromkeys(row.mode for row in _by_mode(self.rows)))

    def of_mode(self, mode: str) -> tuple[SweepRow, ...]:
        """The rows of a mode, by point."""
        return tuple(row for row in self.rows if row.mode == mode)

    def at(self, place: Place) -> tuple[SweepRow, ...]:
        """The rows of a point, by mode."""
        return tuple(row for row in self.rows if row.place == place)

    @property
    def verdicts(self) -> frozenset[str]:
        """The verdicts of all traces."""
        return frozenset(verdict for row in self.rows for verdict in row.verdicts)

    @property
    def sentence(self) -> str:
        """The answer in one sentence: the fastest mode at the first and the last point."""
        known = [p for p in self.places if any(row.tokens_per_s for row in self.at(p))]
        if not known:
            return f"{self.name}: no mode of this sweep could be measured."
        ends = known[:1] if len(known) == 1 else [known[0], known[-1]]
        return f"{self.name}: {'; '.join(self._fastest(place) for place in ends)}."

    def _fastest(self, place: Place) -> str:
        rows = [row for row in self.at(place) if row.tokens_per_s]
        best = max(rows, key=lambda row: row.tokens_per_s or 0)
        text = f"at {place.words} {best.mode} is fastest, {units.rate(best.tokens_per_s)}"
        eager = next((row.tokens_per_s for row in rows if row.mode == "eager"), None)
        if eager and best.mode != "eager" and best.tokens_per_s:
            text += f", {units.digits(best.tokens_per_s / eager, 2)} times as fast as eager"
        if best.binding:
            text += f" ({best.binding}-bound)"
        return text

    @property
    def summary(self) -> dict[str, Any]:
        """The sweep as plain data: `gaptrace.sweep/1`."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "sentence": self.sentence,
            "facts": list(self.facts),
            "points": [
                {"point": p.name, "batch": p.batch, "length": p.length, "path": p.path}
                for p in self.places
            ],
            "modes": list(self.modes),
            "rows": [row.as_dict() for row in self.rows],
            "savings": [saving.as_dict() for saving in self.savings],
            "notes": list(self.notes),
        }


def _by_mode(rows: Sequence[SweepRow]) -> list[SweepRow]:
    """Rows so that modes come in the order of the point that has most of them."""
    order: dict[str, int] = {}
    for place in sorted(
        dict.fromkeys(row.place for row in rows), key=lambda p: -sum(r.place == p for r in rows)
    ):
        for row in rows:
            if row.place == place:
                order.setdefault(row.mode, len(order))
    return sorted(rows, key=lambda row: order[row.mode])


@dataclass(frozen=True)
class _Own:
    """What a point's own eager recording predicts: per batch bytes and ns, and from what."""

    batch: Mapping[int, tuple[float, float]]
    here: tuple[float, float]
    source: str


def analyze_sweep(
    name: str,
    path: str,
    points: Sequence[tuple[Place, Callable[[], RunAnalysis]]],
    *,
    missing: Sequence[str] = (),
) -> SweepAnalysis:
    """Every point analysed and condensed; points are loaded one at a time, in their order."""
    batches = tuple(sorted({place.batch for place, _ in points if place.batch is not None}))
    rows: list[SweepRow] = []
    owns: dict[Place, _Own] = {}
    realised: dict[Place, tuple[float, str]] = {}
    facts: tuple[str, ...] = ()
    notes: dict[str, None] = {}
    if missing:
        notes[f"the recording was stopped before it was complete: {', '.join(missing)}"] = None
    findings: dict[tuple[str, str], None] = {}
    for place, load in points:
        run = load()
        found = [_row(place, run, mode) for mode in run.modes]
        rows += found
        own = _predicted(run, batches)
        if own is not None:
            owns[place] = own
        if (saved := _realised(found)) is not None:
            realised[place] = saved
        facts = facts or _facts(run)
        notes.update(dict.fromkeys(_notes(place, run)))
        for cell in run.cells:
            for finding in cell.analysis.findings if cell.analysis is not None else ():
                if finding.ceiling_ns_per_token > 0:
                    findings[finding.id, finding.title] = None
    return SweepAnalysis(
        name=name,
        path=path,
        rows=tuple(rows),
        savings=_savings([place for place, _ in points], owns, realised),
        facts=facts,
        notes=tuple(notes),
        findings=tuple(findings),
    )


def _row(place: Place, run: RunAnalysis, mode: str) -> SweepRow:
    cells = [cell for cell in run.cells if cell.mode == mode]
    manifests = [cell.manifest for cell in cells]
    analysis = run.representative(mode)
    if analysis is None:
        first = cells[0]
        start = mode_start(manifests)
        return SweepRow(place, mode, first.status, first.reason, 0, start=start)
    head, limits = analysis.headline, analysis.ceilings
    share, source = head.unprofiled_idle_share, "unprofiled"
    if share is None or share < 0:
        share, source = head.idle_share, "as profiled"
    return SweepRow(
        place=place,
        mode=mode,
        status="ok",
        reason=next((cell.reason for cell in cells if cell.reason), ""),
        repeats=len(run.repeats(mode)),
        tokens_per_s=head.rate.tokens_per_s,
        rate_source=None if head.rate.tokens_per_s is None else head.rate.source,
        step_ns=step_ns(analysis),
        step_spread=_step_spread(run, mode),
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
        padding_share=analysis.manifest.number("buckets", "padding_share"),
        start=mode_start(manifests),
        choices=_choices(manifests),
        verdicts=tuple(cell.analysis.quality.verdict for cell in cells if cell.analysis),
    )


def _step_spread(run: RunAnalysis, mode: str) -> float | None:
    times = [ns for a in run.repeats(mode) if (ns := step_ns(a)) is not None]
    return (max(times) - min(times)) / 2 / min(times) if len(times) > 1 and min(times) else None


def _replays(analysis: Analysis) -> float | None:
    steps = analysis.step_table
    if steps is None or analysis.headline.steps["launches"].median is None:
        return None
    counted = steps.graph_launches[steps.counted]
    return spread(counted).median if counted.size else None


def _choices(manifests: Sequence[Manifest]) -> Mapping[str, int] | None:
    """How many products went to which kind of kernel, in the first repeat that lists any."""
    for manifest in manifests:
        listed = manifest.get("autotune", "choices")
        if isinstance(listed, list) and listed:
            kinds = [str(item.get("kind") or "?") for item in listed if isinstance(item, Mapping)]
            return dict(Counter(kinds).most_common())
    return None


def _predicted(run: RunAnalysis, batches: Sequence[int]) -> _Own | None:
    """Fusion savings from a point's eager recording, there and at every batch of the sweep."""
    eager = run.representative("eager") if "eager" in run.modes else None
    if eager is None:
        return None
    found = predict(eager, PredictOptions(tuple(batches))).savings
    if found is None:
        return None
    return _Own(found.batch, (found.bytes, found.time_ns), found.source)


def _realised(rows: Sequence[SweepRow]) -> tuple[float, str] | None:
    busy = {row.mode: row.busy_ns for row in rows if row.busy_ns is not None}
    for plain, compiled in PAIRS:
        if plain in busy and compiled in busy:
            return (busy[plain] or 0) - (busy[compiled] or 0), f"{plain} − {compiled}"
    return None


def _savings(
    places: Sequence[Place],
    owns: Mapping[Place, _Own],
    realised: Mapping[Place, tuple[float, str]],
) -> tuple[SweepSaving, ...]:
    found = []
    for place in places:
        own = owns.get(place)
        # The smallest batch of the same length tells about the others.
        alike = [p for p in owns if p.length == place.length and p.batch is not None]
        base = min(alike, key=lambda p: p.batch or 0, default=None)
        scaled = owns[base].batch.get(place.batch) if base and place.batch is not None else None
        origin: Place | None = base
        if scaled is None and own is not None:
            scaled, origin = own.here, place
        saved, pair = realised.get(place, (None, None))
        if scaled is None and saved is None:
            continue
        known = owns[origin] if scaled is not None and origin is not None else None
        found.append(
            SweepSaving(
                place=place,
                predicted_ns=scaled[1] if scaled else None,
                predicted_bytes=scaled[0] if scaled else None,
                predicted_from=origin.name if known and origin else None,
                source=known.source if known else None,
                own_ns=own.here[1] if own else None,
                realised_ns=saved,
                realised_from=pair,
            )
        )
    return tuple(found)


def _facts(run: RunAnalysis) -> tuple[str, ...]:
    """What was recorded, in short, from the first recording of a point."""
    for cell in run.cells:
        if cell.analysis is not None:
            source = cell.analysis.source
            torch = f"torch {source.torch}" if source.torch else None
            return tuple(fact for fact in (source.gpu, source.model, torch) if fact)
    return ()


def _notes(place: Place, run: RunAnalysis) -> list[str]:
    """What to know about single cells: modes that failed, outputs that differ, weak traces."""
    found = []
    if run.missing:
        found.append(f"{place.name}: stopped before {', '.join(run.missing)}")
    for cell in run.cells:
        found += [f"{place.name}/{cell.mode}: {text}" for text in cell.remarks("different")]
    return found
