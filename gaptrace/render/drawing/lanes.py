"""The timeline of a step: streams, gaps by cause, launches, host thread with nested ops.

Lanes are drawn 1,200 units wide and stretched. What is narrower than a cell (one unit, or more
where a lane would hold too many marks) is drawn merged with its neighbours, each kind with its
share of their time, so that a lane's colours stay true to scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from gaptrace import units
from gaptrace.render.drawing.picture import Entry, Picture, fill_entry
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
SPACE, AXIS, TITLE = 8, 22, 18
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
    merged: int = 0

    def __post_init__(self) -> None:
        self.labels: list[tuple[str, int, int]] = []
        self.body: list[Element] = []
        self.names: list[Element] = []

    def lane(
        self, label: str, blocks: Blocks, height: int, looks: Sequence[str], quota: int
    ) -> int:
        """Draw a lane at the present height and say where that was; no label draws none."""
        paths, marks = _lane(blocks, self.scale, self.y, height, looks, quota)
        if label:
            self.labels.append((label, self.y, height))
        self.body += paths
        self.marks += marks
        top, self.y = self.y, self.y + height
        return top


def draw_lanes(item: Stretch) -> Picture:
    """The lanes of a stretch, at most 2,000 marks, with their axis."""
    sheet = _Sheet(WIDTH / item.span_ns)
    if item.step is not None and item.step != (0, item.span_ns):
        left, right = (number(end * sheet.scale) for end in item.step)
        sheet.body.append(element("path", d=f"M{left} 0V999M{right} 0V999", class_="edge"))
    for lane in item.gpu:
        quota = QUOTA["gpu"] // len(item.gpu)
        sheet.lane(f"GPU {lane.label}", lane.blocks, LANE, CLASS_LOOKS, quota)
        sheet.y += 2
    bottom = sheet.y - 2
    sheet.y += SPACE - 2
    gap_y = sheet.lane("gaps, by cause", item.parts, GAP_LANE, CAUSE_LOOKS, QUOTA["parts"])
    sheet.y += SPACE
    call_y = sheet.y
    if len(item.calls):
        wide = np.full(len(item.calls), max(int(1.4 / sheet.scale), 1))
        ticks = Blocks(item.calls.start, wide, item.calls.name, item.calls.kind)
        sheet.lane("launch calls", ticks, CALL_LANE, ("call", "call"), QUOTA["calls"])
        sheet.y += SPACE
    for host in item.host:
        quota = QUOTA["states"] // len(item.host)
        sheet.lane(host.label, host.states, STATE_LANE, STATE_LOOKS, quota)
        sheet.y += 2
        depth = min(int(host.ops.kind.max(initial=-1)) + 1, DEPTH_SHOWN)
        for level in range(depth):
            own = host.ops.kind == level
            start, dur, name = (c[own] for c in (host.ops.start, host.ops.dur, host.ops.name))
            blocks = Blocks(start, dur, name, np.zeros(start.size, np.int64))
            quota = QUOTA["ops"] // (depth * len(item.host))
            label = "" if level else "ops, nested"
            top = sheet.lane(label, blocks, ROW - 1, ("op",), quota)
            sheet.names += _names(blocks, item, sheet.scale, top + ROW - 4)
            sheet.y += 1
        sheet.y += SPACE
    objects = _gap_objects(item, sheet.scale, gap_y, call_y, bottom)
    marks = sheet.marks + len(objects)
    assert marks <= MOST_MARKS, f"{marks} marks"
    lanes = element(
        "svg", sheet.body, objects, viewBox=f"0 0 {WIDTH} {sheet.y}", width="100%",
        height=sheet.y, preserveAspectRatio="none",
    )  # fmt: skip
    names = element("g", sheet.names, class_="names", aria_hidden="true")
    labels = tuple(
        element(
            "text", units.middle_elided(label, 19), x="100%", y=y + (height + 9) / 2,
            class_="soft end",
        )
        for label, y, height in sheet.labels
    )  # fmt: skip
    return Picture(
        (lanes, names, *_axis(item, sheet.y)),
        sheet.y + AXIS,
        item.said,
        lane_entries(item),
        labels,
        GUTTER,
        role="group",
        notes=item.notes,
    )


def lane_entries(item: Stretch) -> tuple[Entry, ...]:
    """What a legend of the lanes says: causes and op classes that they show."""
    return (*_cause_entries(item), *_class_entries(item))


def _cause_entries(item: Stretch) -> Iterable[Entry]:
    """The causes that gaps and host lanes show, in the vocabulary's order."""
    shown = {CAUSES[code] for code in np.unique(item.parts.kind).tolist()}
    for lane in item.host:
        shown |= {HOST_STATES[code] for code in np.unique(lane.states.kind).tolist()}
    return [fill_entry(name, "cause") for name in CAUSE_WORDS if name in shown]


def _class_entries(item: Stretch) -> Iterable[Entry]:
    shown = {CLASSES[c] for lane in item.gpu for c in np.unique(lane.blocks.kind).tolist()}
    return [fill_entry(name, "class") for name in OP_CLASSES if name in shown]


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
    width = end - begin
    middle = number(y + height / 2)
    paths = []
    for code in np.unique(kind).tolist():
        own = kind == code
        pairs = list(zip(begin[own].round(2).tolist(), width[own].round(2).tolist(), strict=True))
        if looks[code] == OUTLINED:
            d = "".join(f"M{number(x)} {y}h{number(w)}v{height}h{number(-w)}z" for x, w in pairs)
            paths.append(element("path", d=d, class_=OUTLINED))
            continue
        # Thick strokes say the same in half the characters that outlines of boxes need.
        d = "".join(f"M{number(x)} {middle}h{number(max(w, 0.05))}" for x, w in pairs)
        paths.append(element("path", d=d, class_=f"l-{looks[code]}", stroke_width=height))
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
    for start, dur, name in zip(
        blocks.start.tolist(), blocks.dur.tolist(), blocks.name.tolist(), strict=True
    ):
        left, right = max(start * scale, 0), min((start + dur) * scale, WIDTH)
        room = int((right - left) / 8.5)
        if room >= 8 and name >= 0:
            text = units.middle_elided(item.names.texts[name], room)
            found.append(element("text", text, x=percent((left + 3) / 12), y=baseline))
    return found[:60]


def _gap_objects(
    item: Stretch, scale: float, gap_y: int, call_y: int, stream_bottom: int
) -> list[Element]:
    """The longest gaps as objects: a description, a frame, and the arrow from the launch call."""
    blocks = item.gaps.blocks
    longest = np.argsort(-blocks.dur, kind="stable")[:GAP_OBJECTS]
    focusable = set(longest[:FOCUSABLE].tolist())
    shapes = []
    for i in sorted(longest.tolist()):
        left = max(float(blocks.start[i]) * scale, 0)
        right = min(float(blocks.start[i] + blocks.dur[i]) * scale, WIDTH)
        words = item.gap_words(i)
        call = int(item.gaps.call[i])
        arrow = None
        if call >= 0:
            x = float(item.calls.start[call]) * scale
            d = f"M{number(x)} {call_y}L{number(right)} {stream_bottom}"
            arrow = element("path", d=d, class_="arrow")
        shapes.append(
            element(
                "g",
                element("title", words),
                element(
                    "rect", x=round(left, 2), y=gap_y, width=max(round(right - left, 2), 0.4),
                    height=GAP_LANE, class_="hit",
                ),
                arrow,
                class_="gap",
                tabindex="0" if i in focusable else None,
                role="img" if i in focusable else None,
                aria_label=words if i in focusable else None,
            )
        )  # fmt: skip
    return shapes


def _axis(item: Stretch, y: int) -> list[Element]:
    """Round times along the axis, from the start of the step's GPU window."""
    zero = item.step[0] if item.step else 0
    shapes = []
    for at, text in round_times(-zero, item.span_ns - zero):
        place = (zero + at) / item.span_ns
        anchor = "soft mid" if 0.02 < place < 0.98 else "soft end" if place >= 0.98 else "soft"
        x = percent(100 * place)
        shapes.append(element("line", x1=x, x2=x, y1=y, y2=y + 5, class_="axis"))
        shapes.append(element("text", text, x=x, y=y + 17, class_=anchor))
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
    lengths = [item.step[1] - item.step[0] if item.step else item.span_ns for item in own]
    shapes: list[Element] = []
    y = 0
    for item, length in zip(own, lengths, strict=True):
        shapes.append(element("text", item.title, x=0, y=y + 12, class_="soft"))
        y += TITLE
        begin, scale = (item.step[0] if item.step else 0), WIDTH / max(length, 1)
        rows = [(item.parts, CAUSE_LOOKS), *((lane.blocks, CLASS_LOOKS) for lane in item.gpu)]
        inner = [
            _lane(_moved(blocks, begin, length), scale, 0, 20, looks, ROW_MARKS)[0]
            for blocks, looks in rows
        ]
        shapes.append(
            element(
                "svg", inner, x=0, y=y, width=percent(100 * length / max(lengths)), height=20,
                viewBox=f"0 0 {WIDTH} 20", preserveAspectRatio="none",
            )
        )  # fmt: skip
        y += 20 + 6
    words = f"the picked steps on one scale: {'; '.join(item.title for item in own)}"
    return Picture(tuple(shapes), y, words)


def _moved(blocks: Blocks, begin: int, length: int) -> Blocks:
    """The blocks within a stretch, counted from its begin."""
    start = blocks.start - begin
    inside = (start < length) & (start + blocks.dur > 0)
    return Blocks(start[inside], blocks.dur[inside], blocks.name[inside], blocks.kind[inside])
