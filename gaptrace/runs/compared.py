"""Comparisons whole: figures from `compare`, sentences from `document`, analyses for pictures.

compare([gaptrace.analyze(gaptrace.load("before.json.gz")),
         gaptrace.analyze(gaptrace.load("after.json.gz"))])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gaptrace.compare.compare import CompareOptions, compare_pairs
from gaptrace.compare.gates import Gate, judge
from gaptrace.compare.side import Side
from gaptrace.compare.two_by_two import corners_of
from gaptrace.document.comparison_words import said
from gaptrace.measure.result import Analysis
from gaptrace.results.comparison import ComparedCell, ComparisonResult

AnySide = Side | Analysis | Sequence[Analysis]


def compare(sides: Sequence[AnySide], options: CompareOptions | None = None) -> ComparisonResult:
    """Each side after the first compared with the first, the baseline.

    A side is one analysis, the analyses of repeats of one thing, or a `Side`.

    Raises:
        GaptraceError: there is nothing to compare with, or the sides are unlike and not forced.
    """
    known = [side if isinstance(side, Side) else Side.of(side) for side in sides]
    pairs = [(known[0], side) for side in known[1:]]
    return compared(pairs, options, corners=corners_of(known) if pairs else None)


def compared(
    pairs: Sequence[tuple[Side, Side]],
    options: CompareOptions | None = None,
    *,
    corners: Mapping[str, Side] | None = None,
    notes: Sequence[str] = (),
    gates: Sequence[Gate] = (),
    cells: Sequence[ComparedCell] = (),
) -> ComparisonResult:
    """Every pair compared and judged, with its sentences; `corners` are the sides of a 2x2.

    cells: where the pairs stand in two sweeps.

    Raises:
        GaptraceError: there is no pair, or one is unlike and not forced.
    """
    found = compare_pairs(pairs, options, corners=corners, notes=notes, cells=cells)
    return said(judge(found, gates))


def analyses_of(pairs: Iterable[tuple[Side, Side]]) -> dict[str, Analysis]:
    """The live analyses of all sides by path, for pictures; a saved baseline has none."""
    return {
        recording.path: analysis
        for pair in pairs
        for side in pair
        for recording, analysis in zip(side.recordings, side.analyses, strict=False)
    }
