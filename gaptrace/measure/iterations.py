"""Steps of serving engines: one iteration each, whatever labels it is made of.

Under speculation an iteration runs from its first draft to the first draft of the next one: drafts,
verify and draft extend belong to it. A span that encloses the labels of one iteration is the step.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from gaptrace.measure.labels import DECODE, Label, read_label, read_together
from gaptrace.measure.links import Links, names_where
from gaptrace.measure.turns import holding, in_turn, nested
from gaptrace.trace import Cat, Ints, Trace

PIECES = ("step", "verify", "draft", "draft_extend", "capture")
DRAFTS = ("draft", "draft_extend")
# Spans that enclose this share of the labels, one iteration each, are the steps.
ENCLOSED_SHARE = 0.9


@dataclass(frozen=True, eq=False)
class EngineSteps:
    """Iterations in time order: the row that begins each, start and end in ns, merged labels."""

    row: Ints
    start: Ints
    end: Ints
    label: tuple[Label, ...]


def engine_steps(trace: Trace, links: Links, rows: Ints) -> EngineSteps:
    """The iterations that labels with a role (rows) make up."""
    labels = {int(row): read_label(trace.name_of(int(row))) for row in rows}
    piece = np.array([labels[int(row)].role in PIECES for row in rows], np.bool_)
    known = np.array([labels[int(row)].known for row in rows], np.bool_)
    # Shared words count only inside or beside what the engine alone writes.
    pieces = in_turn(trace, links, rows[piece & known])
    spans = in_turn(trace, links, rows[~piece & (known | bool(known.any()))])
    read = read_together([_nested(trace, int(row), labels, rows) for row in pieces])
    main = np.array([label.role not in DRAFTS for label in read], np.bool_)
    spans = _iteration_spans(trace, pieces, main, spans)
    if spans.size == 0 and any(label.role in DRAFTS for label in read):
        spans = _enclosing(trace, pieces, main)
    groups = _grouped(trace, pieces, read, spans)
    row = np.array([first for first, _, _, _ in groups], np.int64)
    return EngineSteps(
        row=row,
        start=np.array([start for _, start, _, _ in groups], np.int64),
        end=np.array([end for _, _, end, _ in groups], np.int64),
        label=tuple(label for _, _, _, label in groups),
    )


def _nested(trace: Trace, row: int, labels: dict[int, Label], rows: Ints) -> Label:
    """A piece's label, with what it lacks from labels of the same pass nested in it."""
    label = labels[row]
    if label.tokens is not None and label.phase is not None:
        return label
    for other in nested(trace, row, rows).tolist():
        if labels[other].known:
            label = label.filled_from(labels[other])
    return label


def _iteration_spans(trace: Trace, pieces: Ints, main: np.ndarray, spans: Ints) -> Ints:
    """Those spans, where nearly every label lies in one and none holds two iterations."""
    if spans.size == 0 or pieces.size == 0:
        return spans
    inside = holding(np.sort(trace.start[pieces[main]]), trace, spans)
    if inside.sum() < ENCLOSED_SHARE * main.sum() or (inside > 1).any():
        return spans[:0]
    return spans[holding(np.sort(trace.start[pieces]), trace, spans) > 0]


def _enclosing(trace: Trace, pieces: Ints, main: np.ndarray) -> Ints:
    """Repeating annotations of any name that hold the labels of one iteration each."""
    notes = trace.rows_of(Cat.ANNOTATION)
    notes = notes[np.isin(trace.lane[notes], trace.lane[pieces]) & ~np.isin(notes, pieces)]
    notes = notes[names_where(trace, trace.name[notes], lambda name: not read_label(name).known)]
    groups: dict[str, list[int]] = {}
    for row in notes.tolist():
        groups.setdefault(re.sub(r"\d+", "", trace.name_of(row)), []).append(row)
    for members in groups.values():
        rows = np.array(members, np.int64)
        begun = holding(np.sort(trace.start[pieces]), trace, rows)
        mains = holding(np.sort(trace.start[pieces[main]]), trace, rows)
        if (
            rows.size > 1
            and begun.sum() >= ENCLOSED_SHARE * pieces.size
            and (mains == 1).mean() >= ENCLOSED_SHARE
        ):
            return rows[begun > 0]
    return np.empty(0, np.int64)


def _grouped(
    trace: Trace, pieces: Ints, read: tuple[Label, ...], spans: Ints
) -> list[tuple[int, int, int, Label]]:
    """(row, start, end, label) of each iteration, in time order."""
    order = np.argsort(spans_start := trace.start[spans], kind="stable") if spans.size else spans
    spans = spans[order] if spans.size else spans
    spans_start = trace.start[spans]
    spans_end = spans_start + trace.dur[spans]
    result: list[tuple[int, int, int, Label]] = []
    held: dict[int, list[Label]] = {}
    loose: list[tuple[int, Label]] = []
    for row, label in zip(pieces.tolist(), read, strict=True):
        start = int(trace.start[row])
        index = int(np.searchsorted(spans_start, start, side="right")) - 1
        if index >= 0 and start < spans_end[index]:
            held.setdefault(index, []).append(label)
        else:
            loose.append((row, label))
    for index in range(spans.size):
        row = int(spans[index])
        label = _merged(held.get(index, [read_label(trace.name_of(row))]))
        result.append((row, int(spans_start[index]), int(spans_end[index]), label))
    result += _runs(trace, loose)
    return sorted(result, key=lambda item: (item[1], item[0]))


def _runs(trace: Trace, loose: list[tuple[int, Label]]) -> list[tuple[int, int, int, Label]]:
    """Labels that no span encloses, from first draft to first draft."""
    speculates = any(label.role in DRAFTS for _, label in loose)
    result: list[list[tuple[int, Label]]] = []
    has_main = True
    for row, label in loose:
        drafts = label.role in DRAFTS
        begins = has_main if label.role == "draft" or not drafts else not result
        # A draft begins an iteration, and so does a pass without one, once the last one is whole.
        if begins or not speculates:
            result.append([])
            has_main = False
        result[-1].append((row, label))
        has_main = has_main or not drafts
    return [
        (
            group[0][0],
            int(trace.start[group[0][0]]),
            max(int(trace.start[row] + trace.dur[row]) for row, _ in group),
            _merged([label for _, label in group]),
        )
        for group in result
    ]


def _merged(labels: list[Label]) -> Label:
    """What an iteration is: its verify or its pass of the target model says, drafts are part."""
    mains = [label for label in labels if label.role not in DRAFTS]
    if not mains:
        return labels[0]
    main = next((label for label in mains if label.role == "verify"), mains[0])
    if len(labels) == 1 or not any(label.role in DRAFTS for label in labels):
        for label in mains:
            if label is not main:
                main = main.filled_from(label)
        return main
    if main.phase != DECODE:
        return main
    # With drafts beside it a decode pass gives at least one token a request; how many at most is
    # known only where the label says how many were scheduled.
    high = main.tokens_high if main.tokens_high != main.tokens_low else None
    low = main.tokens_low if main.tokens_low is not None else main.batch
    return replace(main, tokens_low=low, tokens_high=high)
