"""Which side is compared with which, for every form in which inputs can be named.

One run alone compares its modes with eager. Two inputs of one recording each are compared as they
are. A run of several modes meets another mode by mode, and meets one mode with its own of that
name. A sweep meets another cell by cell: the same mode at the same batch size and length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gaptrace.compare.side import Side, short_label
from gaptrace.compare.two_by_two import corners_of
from gaptrace.errors import OptionError
from gaptrace.results.comparison import ComparedCell

Mode = str | None


@dataclass(frozen=True, eq=False)
class Input:
    """One thing named on the command line: its sides by mode (None: a bare trace).

    notes: what of it could not be used, such as modes that failed. sweep: whether `sides` are those
    of all points; they are then by name of the point and mode.
    """

    path: str
    sides: Mapping[Mode, Side]
    notes: tuple[str, ...] = ()
    sweep: bool = False


@dataclass(frozen=True, eq=False)
class Plan:
    """Pairs of baseline and candidate in order, and the four corners of a 2x2 if they are there.

    cells: of two sweeps, those that one of them lacks included.
    """

    pairs: tuple[tuple[Side, Side], ...]
    corners: Mapping[str, Side] | None
    notes: tuple[str, ...]
    cells: tuple[ComparedCell, ...] = ()


def plan_pairs(inputs: Sequence[Input]) -> Plan:
    """The pairs that the inputs ask for; the first input is the baseline.

    Raises:
        OptionError: there is nothing to pair, or it is not clear what to pair.
    """
    notes = [note for item in inputs for note in item.notes]
    if any(item.sweep for item in inputs):
        return _sweeps(inputs, notes)
    if len(inputs) == 1:
        return _modes_of(inputs[0], notes)
    pairs: list[tuple[Side, Side]] = []
    for other in inputs[1:]:
        pairs += _between(inputs[0], other, notes)
    corners = None
    if all(len(item.sides) == 1 for item in inputs):
        corners = corners_of([next(iter(item.sides.values())) for item in inputs])
    return Plan(tuple(pairs), corners, tuple(notes))


def _modes_of(item: Input, notes: list[str]) -> Plan:
    sides = dict(item.sides)
    if len(sides) < 2:
        raise OptionError(
            f"{item.path} holds one mode only, so there is nothing to compare it with",
            "name a second trace, run folder or saved baseline",
        )
    first = "eager" if "eager" in sides else next(iter(sides))
    baseline = sides.pop(first)
    pairs = tuple((baseline, side) for side in sides.values())
    return Plan(pairs, corners_of([baseline, *sides.values()]), tuple(notes))


def _between(baseline: Input, candidate: Input, notes: list[str]) -> list[tuple[Side, Side]]:
    left, right = baseline.sides, candidate.sides
    if len(left) == 1 and len(right) == 1:
        return [(next(iter(left.values())), next(iter(right.values())))]
    common = [mode for mode in left if mode in right]
    if not common:
        many, one = (baseline, candidate) if len(left) > 1 else (candidate, baseline)
        modes = ", ".join(str(mode) for mode in many.sides)
        raise OptionError(
            f"it is not clear which mode of {many.path} to compare with {one.path}",
            f"name one of its modes: {many.path}/MODE with MODE out of {modes}",
        )
    for mode in dict.fromkeys((*left, *right)):
        if mode not in common and len(left) > 1 and len(right) > 1:
            where = baseline if mode in left else candidate
            notes.append(f"mode {mode} is in {where.path} only, so it is not compared")
    return [(left[mode], right[mode]) for mode in common]


def _sweeps(inputs: Sequence[Input], notes: list[str]) -> Plan:
    """Two sweeps cell by cell; what one alone has is named."""
    sweep = next(item for item in inputs if item.sweep)
    point = f"{sweep.path.rstrip('/')}/{next(iter(sweep.sides), '') or ''}".rpartition("/")[0]
    if len(inputs) != 2 or not all(item.sweep for item in inputs):
        raise OptionError(
            f"{sweep.path} is a sweep, and a sweep is compared with one other sweep",
            f"name two sweeps, or one point of it: {point}",
        )
    baseline, candidate = ({_place(side): side for side in i.sides.values()} for i in inputs)
    pairs: list[tuple[Side, Side]] = []
    cells: list[ComparedCell] = []
    for place in dict.fromkeys((*baseline, *candidate)):
        batch, length, mode = place
        left, right = baseline.get(place), candidate.get(place)
        if left is not None and right is not None:
            cells.append(ComparedCell(batch, length, mode, len(pairs)))
            pairs.append((left, right))
        else:
            only = "candidate" if left is None else "baseline"
            cells.append(ComparedCell(batch, length, mode, None, only))
    if not pairs:
        raise OptionError(
            f"{inputs[0].path} and {inputs[1].path} have no mode at the same batch size and length",
            "compare sweeps of the same points, or single points with --force",
        )
    return Plan(tuple(pairs), None, tuple(notes), tuple(cells))


def _place(side: Side) -> tuple[int | None, int | None, str]:
    """Where a side stands in its sweep."""
    return side.batch, side.length, side.mode or ""


def distinct_labels(paths: Sequence[str]) -> list[str]:
    """The shortest ends of the paths that tell them apart, without endings of trace files."""
    parts = [path.rstrip("/").split("/") for path in paths]
    labels = [short_label(path) for path in paths]
    depth = 2
    while len(set(labels)) < len(set(paths)) and depth <= max(len(p) for p in parts):
        labels = ["/".join((*p[-depth:-1], short_label(p[-1]))) for p in parts]
        depth += 1
    if len(set(labels)) < len(labels):
        labels = [f"{label} ({place})" for place, label in enumerate(labels, start=1)]
    return labels
