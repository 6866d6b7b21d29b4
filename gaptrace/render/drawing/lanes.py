"""The timeline of a step: streams, gaps by cause, launches, host thread with nested ops.

Lanes are drawn 1,200 units wide and stretched. What is narrower than a cell (one unit, or more
where a lane would hold too many marks) is drawn merged with its neighbours, each kind with its
share of their time, so that a lane's colours stay true to scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gaptrace import units
from gaptrace.render.drawing.picture import Entry, Picture, fill_entry
from gaptrace.render.drawing.shapes import box, label, line, shape, stretched
from gaptrace.render.elements import Element, element, number, percent
from gaptrace.timeline.columns import CAUSES, CLASSES, HOST_STATES, Blocks, Stretch
from gaptrace.timeline.views import Views
from gaptrace.vocabulary import CAUSES as CAUSE_WORDS
from gaptrace.vocabulary import OP_CLASSES

WIDTH = 1200
MOST_MARKS = 2_000
GAP_OBJECTS, FOCUSABLE = 24, 12
# Marks that each kind of lane may use; together they stay under the most a drawing may hold.
QUOTA = {"gpu": 550, "parts": 500, "calls": 150, "states": 350, "ops": 250}
LANE, GAP_LANE, CALL_LANE, STATE_LANE, ROW = 22, 26, 10, 14, 13
SPACE, AXIS = 8, 22
# The picked steps under one another: a title over each row.
TITLE, ROW_HIGH, ROW_PITCH = 18, 20, 44
DEPTH_SHOWN = 4
# The one look that is an outline: its time is nobody's.
OUTLINED = "k-unattributed"
ROW_MARKS = 200
GUTTER = 132
CLASS_LOOKS = tuple(f"o-{name}" for name in CLASSES)
CAUSE_LOOKS = tuple(f"k-{name}" for name in CAUSES)
STATE_LOOKS = tuple(f"k-{name}" for name in HOST_STATES)


@dataclass
class _Sheet:
    """Lanes as they are put under one another."""

    scale: float
    y: int = 0
    marks: int = 0
    labels: list[Element] = field(default_factory=list)
    body: list[Element] = field(default_factory=list)
    names: list[Element] = field(default_factory=list)

    def lane(
        self, name: str, blocks: Blocks, height: int, looks: Sequence[str], quota: int, space: int
    ) -> int:
        """Draw a lane at the present height and say where that was; no name draws no label."""
        paths, marks = _lane(blocks, self.scale, self.y, height, looks, quota)
        if name:
            middle = self.y + (height + 9) / 2
            self.labels.append(label(units.middle_elided(name, 19), "100%", middle, "soft end"))
        self.body += paths
        self.marks += marks
        top, self.y = self.y, self.y + height + space
        return top


def draw_lanes(item: Stretch) -> Picture:
    """The lanes of a stretch, at most 2,000 marks, with their axis."""
    sheet = _Sheet(WIDTH / item.span_ns)
    if item.step is not None and item.step != (0, item.span_ns):
        left, right = (number(end * sheet.scale) for end in item.step)
        sheet.body.append(shape("path", "edge", d=f"M{left} 0V999M{right} 0V999"))
    for lane in item.gpu:
        quota = QUOTA["gpu"] // len(item.gpu)
        sheet.lane(f"GPU {lane.label}", lane.blocks, LANE, CLASS_LOOKS, quota, 2)
    bottom = sheet.y - 2
    sheet.y += SPACE - 2
    quota = QUOTA["parts"]
    gap_y = sheet.lane("gaps, by cause", item.parts, GAP_LANE, CAUSE_LOOKS, quota, SPACE)
    call_y = sheet.y
    if len(item.calls):
        ticks = replace(item.calls, dur=np.full(len(item.calls), max(int(1.4 / sheet.scale), 1)))
        sheet.lane("launch calls", ticks, CALL_LANE, ("call", "call"), QUOTA["calls"], SPACE)
    for host in item.host:
        quota = QUOTA["states"] // len(item.host)
        sheet.lane(host.label, host.states, STATE_LANE, STATE_LOOKS, quota, 2)
        depth = min(int(host.ops.kind.max(initial=-1)) + 1, DEPTH_SHOWN)
        for level in range(depth):
            blocks = host.ops.of(host.ops.kind == level)
            quota = QUOTA["ops"] // (depth * len(item.host))
            title = "" if level else "ops, nested"
            top = sheet.lane(title, blocks, ROW - 1, ("op",) * DEPTH_SHOWN, quota, 1)
            sheet.names += _names(blocks, item, sheet.scale, top + ROW - 4)
        sheet.y += SPACE
    objects = _gap_objects(item, sheet.scale, gap_y, call_y, bottom)
    marks = sheet.marks + len(objects)
    assert marks <= MOST_MARKS, f"{marks} marks"
    lanes = stretched(WIDTH, sheet.y, sheet.body, objects)
    names = element("g", sheet.names, class_="names", aria_hidden="true")
    return Picture(
        (lanes, names, *_axis(item, sheet.y)),
        sheet.y + AXIS,
        item.said,
        lane_entries(item),
        tuple(sheet.labels),
        GUTTER,
        role="group",
        notes=item.notes,
    )


def lane_entries(item: Stretch) -> tuple[Entry, ...]:
    """What a legend of the lanes says: causes and op classes that they show, in their order."""
    causes = _kinds(CAUSES, item.parts) | _kinds(HOST_STATES, *(lane.states for lane in item.host))
    classes = _kinds(CLASSES, *(lane.blocks for lane in item.gpu))
    return (
        *(fill_entry(name, "cause") for name in CAUSE_WORDS if name in causes),
        *(fill_entry(name, "class") for name in OP_CLASSES if name in classes),
    )


def _kinds(names: Sequence[str], *lanes: Blocks) -> set[str]:
    return {names[code] for blocks in lanes for code in np.unique(blocks.kind).tolist()}


def _lane(
    blocks: Blocks, scale: float, y: int, height: int, looks: Sequence[str], quota: int
) -> tuple[list[Element], int]:
    """Paths of a lane, one per look, and how many marks they hold."""
    left = np.clip(blocks.start * scale, 0, WIDTH)
    right = np.clip((blocks.start + blocks.dur) * scale, 0, WIDTH)
    cell = 1.0
    begin, end, kind = _cells(left, right, blocks.kind, cell)
    while begin.size > max(quota, 1) and cell < WIDTH:
        cell *= 1.5
        begin, end, kind = _cells(left, right, blocks.kind, cell)
    middle, paths = number(y + height / 2), []
    for code in np.unique(kind).tolist():
        own = kind == code
        order = np.argsort(begin[own])
        edges = zip(*(ends[own][order].round(1).tolist() for ends in (begin, end)), strict=True)
        if looks[code] == OUTLINED:
            d = "".join(f"M{number(x)} {y}H{number(to)}v{height}H{number(x)}z" for x, to in edges)
            paths.append(shape("path", OUTLINED, d=d))
            continue
        # Thick strokes say the same in half the characters that outlines of boxes need.
        d, at = f"M0 {middle}", 0.0
        for x, to in edges:
            width = max(to - x, 0.05)
            d += f"m{number(x - at)} 0h{number(width)}"
            at = x + width
        paths.append(shape("path", f"l-{looks[code]}", d=d, stroke_width=height))
    return paths, int(begin.size)


def _cells(
    left: np.ndarray, right: np.ndarray, kind: np.ndarray, cell: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Wide blocks as they are; narrow ones of a cell as one block a kind, as long as all of them.

    The blocks of a cell stand side by side from where its first one starts: their lengths are what
    they sum to, and free time between them stays free.
    """
    wide = right - left >= cell
    narrow = np.flatnonzero(~wide)
    if narrow.size == 0:
        return left, right, kind
    place = np.floor(left[narrow] / cell).astype(np.int64)
    kinds = int(kind.max()) + 1
    key, member = np.unique(place * kinds + kind[narrow], return_inverse=True)
    spent = np.bincount(member, weights=(right - left)[narrow], minlength=key.size)
    own, code = key // kinds, key % kinds
    first = np.flatnonzero(np.concatenate(([True], own[1:] != own[:-1])))
    group = np.repeat(np.arange(first.size), np.diff(np.append(first, own.size)))
    starts = np.full(first.size, np.inf)
    np.minimum.at(starts, np.searchsorted(own[first], place), left[narrow])
    before = np.cumsum(spent) - spent
    begin = starts[group] + before - before[first][group]
    return (
        np.concatenate((left[wide], begin)),
        np.concatenate((right[wide], begin + spent)),
        np.concatenate((kind[wide], code)),
    )


def _names(blocks: Blocks, item: Stretch, scale: float, baseline: int) -> list[Element]:
    """Names that fit into their blocks, at about seven units a character."""
    found = []
    columns = (blocks.start.tolist(), blocks.dur.tolist(), blocks.name.tolist())
    for start, dur, name in zip(*columns, strict=True):
        left, right = max(start * scale, 0), min((start + dur) * scale, WIDTH)
        room = int((right - left) / 8.5)
        if room >= 8 and name >= 0:
            text = units.middle_elided(item.names.texts[name], room)
            found.append(label(text, percent((left + 3) / 12), baseline))
    return found[:60]


def _gap_objects(
    item: Stretch, scale: float, gap_y: int, call_y: int, stream_bottom: int
) -> list[Element]:
    """The longest gaps as objects: a description, a frame, and the arrow from the launch call."""
    blocks, shapes = item.gaps.blocks, []
    longest = np.argsort(-blocks.dur, kind="stable")[:GAP_OBJECTS].tolist()
    for i in sorted(longest):
        left = max(float(blocks.start[i]) * scale, 0)
        right = min(float(blocks.start[i] + blocks.dur[i]) * scale, WIDTH)
        words, call = item.gap_words(i), int(item.gaps.call[i])
        inside = [box(left, gap_y, max(right - left, 0.4), GAP_LANE, "hit")]
        if call >= 0:
            x = number(float(item.calls.start[call]) * scale)
            inside.append(
                shape("path", "arrow", d=f"M{x} {call_y}L{number(right)} {stream_bottom}")
            )
        focused = i in longest[:FOCUSABLE]
        reached = {"tabindex": "0", "role": "img", "aria_label": words} if focused else {}
        shapes.append(shape("g", "gap", words, inside, **reached))
    return shapes


def _axis(item: Stretch, y: int) -> list[Element]:
    """Round times along the axis, from the start of the step's GPU window."""
    zero = item.step[0] if item.step else 0
    shapes = []
    for at, text in round_times(-zero, item.span_ns - zero):
        place = (zero + at) / item.span_ns
        anchor = "soft mid" if 0.02 < place < 0.98 else "soft end" if place >= 0.98 else "soft"
        x = percent(100 * place)
        shapes += [line(x, y, x, y + 5, "axis"), label(text, x, y + 17, anchor)]
    return shapes


def round_times(low: int, high: int, most: int = 9) -> list[tuple[int, str]]:
    """Round instants between two times in ns, with their text, all in one unit."""
    span = max(high - low, 1)
    step = next(
        size * 10**power
        for power in range(13)
        for size in (1, 2, 5)
        if span / (size * 10**power) <= most
    )
    unit = units.time_unit(max(step, span / 10))
    scale = {"ns": 1, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}[unit]
    first = -(-low // step) * step
    return [(at, f"{units.count(at / scale)} {unit}") for at in range(first, high + 1, step)]


def small_multiples(views: Views) -> Picture | None:
    """The picked steps under one another on one scale, aligned at their start."""
    own = [view.stretch for view in views.shown if view.step is not None]
    if len(own) < 2:
        return None
    starts = [item.step[0] if item.step else 0 for item in own]
    lengths = [item.step[1] - item.step[0] if item.step else item.span_ns for item in own]
    shapes: list[Element] = []
    for n, (item, begin, length) in enumerate(zip(own, starts, lengths, strict=True)):
        y, scale = n * ROW_PITCH, WIDTH / max(length, 1)
        rows = [(item.parts, CAUSE_LOOKS), *((lane.blocks, CLASS_LOOKS) for lane in item.gpu)]
        inner = [
            _lane(_within(blocks, begin, length), scale, 0, ROW_HIGH, looks, ROW_MARKS)[0]
            for blocks, looks in rows
        ]
        wide = percent(100 * length / max(lengths))
        shapes.append(label(item.title, 0, y + 12, "soft"))
        shapes.append(stretched(WIDTH, ROW_HIGH, inner, x=0, y=y + TITLE, width=wide))
    words = f"the picked steps on one scale: {'; '.join(item.title for item in own)}"
    return Picture(tuple(shapes), len(own) * ROW_PITCH, words)


def _within(blocks: Blocks, begin: int, length: int) -> Blocks:
    """The blocks within a stretch, counted from its begin."""
    start = blocks.start - begin
    return replace(blocks, start=start).of((start < length) & (start + blocks.dur > 0))
