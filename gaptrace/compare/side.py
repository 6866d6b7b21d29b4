"""One side of a comparison: one or more recordings of one thing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gaptrace.compare.recording import Recording, record
from gaptrace.errors import GaptraceError
from gaptrace.measure.result import Analysis
from gaptrace.results.comparison import PROFILED, ComparedSide

_GRAVITY = {"refused": 2, "limited": 1, "ok": 0}


@dataclass(frozen=True, eq=False)
class Side:
    """Recordings of one thing, repeats of each other, and the analyses behind them.

    label: what to call it. path: what was named. analyses: one per recording, or empty where they
    are not kept: of a saved baseline (`saved`) and of the points of a sweep (batch, length: where
    that was varied).
    """

    label: str
    path: str
    recordings: tuple[Recording, ...]
    analyses: tuple[Analysis, ...] = ()
    saved: bool = False
    batch: int | None = None
    length: int | None = None

    def __post_init__(self) -> None:
        if not self.recordings:
            raise GaptraceError(f"{self.label} has no recording", "record it again")

    @staticmethod
    def of(
        analyses: Analysis | Sequence[Analysis], *, label: str = "", path: str = "", run: str = ""
    ) -> Side:
        """A side made of live analyses; the label is the file's name where none is given."""
        many = (analyses,) if isinstance(analyses, Analysis) else tuple(analyses)
        recordings = tuple(
            record(analysis, run=run, repeat=_repeat(analysis, place))
            for place, analysis in enumerate(many, start=1)
        )
        path = path or (recordings[0].path if recordings else "")
        return Side(label or short_label(path), path, recordings, many)

    @property
    def mode(self) -> str | None:
        """The mode that all recordings share, None for a bare trace."""
        return self.recordings[0].mode

    @property
    def complete(self) -> int:
        """Complete decode steps in all recordings."""
        return sum(recording.complete for recording in self.recordings)

    def representative(self, source: str) -> int:
        """Place of the recording whose step time is the median over all that have one.

        source: how the step time is known. Of two middle ones the faster. 0 where no recording has
        steps.
        """
        times = [
            (time, place)
            for place, recording in enumerate(self.recordings)
            if (time := recording.period_ns if source == PROFILED else recording.step_ns)
            is not None
        ]
        if not times:
            return 0
        return sorted(times)[(len(times) - 1) // 2][1]

    def view(self, place: int, step: int) -> ComparedSide:
        """The side as plain data; `place` and `step` are those of the bridge."""
        worst = max(self.recordings, key=lambda r: _GRAVITY.get(r.verdict, 0))
        facts: dict[str, str | None] = {}
        for recording in self.recordings:
            for key, value in recording.facts.items():
                facts[key] = facts.get(key) or value
        return ComparedSide(
            label=self.label,
            path=self.path,
            mode=self.mode,
            runs=len(self.recordings),
            steps=self.complete,
            facts=facts,
            verdict=worst.verdict,
            reasons=tuple(dict.fromkeys(text for r in self.recordings for text in r.reasons)),
            saved=self.saved,
            recording=self.recordings[place].path if self.analyses else "",
            step=step,
            batch=self.batch,
            length=self.length,
        )


def _repeat(analysis: Analysis, place: int) -> int:
    return analysis.manifest.run.repeat or place


def short_label(path: str) -> str:
    """The file's name without the endings of traces and saved baselines."""
    name = path.rstrip("/").rsplit("/", 1)[-1]
    for ending in (".gz", ".json", ".gaptrace", ".pt.trace", ".trace"):
        name = name.removesuffix(ending)
    return name or path
