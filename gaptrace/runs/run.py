"""A whole run: every mode and repeat analysed, side by side.

A captured trace has no shapes, so what one step must read is taken from the eager mode of the same
run where a mode's own recording does not say.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gaptrace.analysis import Analysis, analyze
from gaptrace.measure.options import Options
from gaptrace.measure.startup import mode_start
from gaptrace.measure.stats import median_place
from gaptrace.quantity import EXACT, TRACED, Bound, Maybe
from gaptrace.reading.manifest import Manifest
from gaptrace.results.run import ModeStart, RankRow, RunResult
from gaptrace.trace import Trace


@dataclass(frozen=True)
class CellResult:
    """One mode and repeat: its analysis, or the reason why there is none."""

    mode: str
    repeat: int
    path: str
    status: str
    reason: str
    manifest: Manifest
    analysis: Analysis | None = None

    def remarks(self, *outputs: str) -> list[str]:
        """Why it failed, outputs whose status is one of `outputs`, a trace that is not ok."""
        found = [self.reason] if self.reason else []
        status = self.manifest.outputs.status
        if status in outputs:
            found.append(f"outputs {status} ({self.manifest.outputs.reason or ''})")
        if self.analysis is not None and self.analysis.quality.verdict != "ok":
            grave = self.analysis.quality.reasons[0]
            found.append(f"trace {grave.level}: {grave.text}")
        return found


@dataclass(frozen=True)
class RunAnalysis:
    """All cells of one run, in the order of the folder.

    missing: modes and repeats that were to be recorded when the recording was stopped. ranks: of
    each cell, where there were several. result: plain data, what `gaptrace analyze --json` prints.
    """

    name: str
    path: str
    cells: tuple[CellResult, ...]
    missing: tuple[str, ...] = ()
    ranks: tuple[RankRow, ...] = ()
    result: RunResult | None = None

    @property
    def alone(self) -> Analysis | None:
        """The analysis of the only recording, which then stands for the folder; None of several."""
        several = len(self.cells) > 1 or self.missing or self.ranks
        return None if several else self.cells[0].analysis

    @property
    def analyses(self) -> dict[str, Analysis]:
        """The analyses that stand for the modes, by path, as pictures ask for them."""
        chosen = (self.representative(mode) for mode in self.modes)
        return {analysis.path: analysis for analysis in chosen if analysis is not None}

    @property
    def modes(self) -> tuple[str, ...]:
        """Modes in the order shown, failed ones included."""
        return tuple(dict.fromkeys(cell.mode for cell in self.cells))

    def repeats(self, mode: str) -> tuple[Analysis, ...]:
        """The analyses of a mode, one per repeat that was recorded."""
        return tuple(
            cell.analysis for cell in self.cells if cell.mode == mode and cell.analysis is not None
        )

    def representative(self, mode: str) -> Analysis | None:
        """The repeat whose step time is the median of the mode's repeats; None without any."""
        timed = [a for a in self.repeats(mode) if a.headline.step_ns is not None]
        if not timed:
            return next(iter(self.repeats(mode)), None)
        return timed[median_place(self.step_times(mode))]

    def step_times(self, mode: str) -> list[int]:
        """Step times of a mode's repeats in ns, in the order recorded."""
        return [
            ns for analysis in self.repeats(mode) if (ns := analysis.headline.step_ns) is not None
        ]

    def step_spread(self, mode: str) -> float | None:
        """Half the range of a mode's step times over the least; None for a single one."""
        times = self.step_times(mode)
        return (max(times) - min(times)) / 2 / min(times) if len(times) > 1 and min(times) else None

    @property
    def facts(self) -> tuple[str, ...]:
        """What was recorded, in short, from the first recording."""
        source = next((cell.analysis.source for cell in self.cells if cell.analysis), None)
        if source is None:
            return ()
        torch = f"torch {source.torch}" if source.torch else None
        return tuple(fact for fact in (source.gpu, source.model, torch) if fact)

    @property
    def starts(self) -> dict[str, ModeStart]:
        """How each mode started, cold and warm, where the recorder saw it."""
        return {
            mode: start
            for mode in self.modes
            if (start := mode_start(c.manifest for c in self.cells if c.mode == mode)) is not None
        }


def host_dispatch(analysis: Analysis) -> tuple[Maybe, Bound, str]:
    """Host dispatch of a step in ns, its bound and basis: what the launch ceiling stands on.

    Unprofiled where the run timed it; else, and where the ceilings are withheld, the median of the
    profiled steps. None where it was withheld.
    """
    limits = analysis.ceilings
    if limits.host_dispatch_ns is not None:
        return limits.host_dispatch_ns, limits.host_dispatch_bound, limits.host_dispatch_basis
    return analysis.headline.steps["host_dispatch_ns"].median, EXACT, TRACED


# Gets the trace of a cell; None where it has none.
Load = Callable[[], Trace] | None


# Is told what is analysed next: its name, how many recordings were before it, and of how many.
Watch = Callable[[str, int, int], None]


def analyze_cells(
    cells: Sequence[tuple[CellResult, Load]], options: Options, watch: Watch | None = None
) -> tuple[CellResult, ...]:
    """Every cell with the analysis of its trace; traces are loaded one at a time."""
    shared: Options | None = None
    found = [cell for cell, _ in cells]
    # Eager first: its shapes tell the other modes what a step must read.
    order = sorted(range(len(cells)), key=lambda place: found[place].mode != "eager")
    for done, place in enumerate(order):
        cell, load = cells[place]
        if watch is not None:
            watch(f"{cell.mode}/{cell.repeat}", done, len(cells))
        if load is not None:
            analysis = analyze(load(), (shared or options).of_mode(cell.mode))
            if cell.mode == "eager" and shared is None:
                shared = with_bytes_of(analysis, options)
            found[place] = dataclasses.replace(cell, analysis=analysis)
    return tuple(found)


def with_bytes_of(eager: Analysis, options: Options) -> Options:
    """Options that carry the eager step's bytes to the modes that recorded no shapes."""
    moved = eager.ceilings
    return dataclasses.replace(
        options,
        weight_bytes=options.weight_bytes or moved.weight_bytes,
        kv_bytes=options.kv_bytes or moved.kv_bytes,
    )
