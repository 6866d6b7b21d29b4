"""The timeline of a step as SVG: streams, gaps by cause, launches, host thread with nested ops.

Lanes are drawn 1,200 units wide and stretched to the page. What is narrower than a cell (one unit,
or more where a lane would hold too many marks) is drawn as one block of the kind that takes most of
the cell's time, and the note says how much was merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gaptrace import units
from gaptrace.measure.gaps import CAUSES
from gaptrace.measure.kernels import OP_CLASSES
from gaptrace.report import palette
from gaptrace.report.markup import Markup, element, markup, number
from gaptrace.report.patterns import pattern_defs, standalone_style
from gaptrace.report.timeline_data import HOST_STATES, Blocks, Timeline, causes_shown

WIDTH = 1200
MOST_MARKS = 2_000
GAP_OBJECTS, FOCUSABLE = 48, 12
# Marks that each kind of lane may use; together they stay under the most a drawing may hold.
QUOTA = {"gpu": 550, "parts": 500, "calls": 150, "states": 350, "ops": 250}
LANE, GAP_LANE, CALL_LANE, STATE_LANE, ROW = 22, 26, 10, 14, 13
SPACE = 8
DEPTH_SHOWN = 4
# The one look that is an outline: its time is nobody's.
OUTLINED = "k-unattributed"
ROW_MARKS = 200
LABELS = 132


@dataclass(frozen=True)
class Row:
    """A lane's label and where it stands."""

    label: str
    y: int
    height: int


@dataclass(frozen=True)
class Text:
    """A name inside a lane: left edge in units, baseline, and the text that fits."""

    x: float
    y: int
    text: str


@dataclass(frozen=True)
class Drawing:
    """Lanes 1,200 units wide. marks: how many shapes they took. notes: what was merged."""

    rows: tuple[Row, ...]
    height: int
    body: Markup
    texts: tuple[Text, ...]
    marks: int
    notes: tuple[str, ...]
    ticks: tuple[tuple[float, str], ...]


def draw_step(item: Timeline) -> Drawing:
    """The lanes of a timeline, at most 2,000 marks."""
    rows: list[Row] = []
    body: list[Markup] = []
    texts: list[Text] = []
    marks = merged = 0
    y = 0
    scale = WIDTH / item.span_ns
    if item.step is not None and item.step != (0, item.span_ns):
        left, right = (item.step[0] * scale, item.step[1] * scale)
        body.append(
            element("path", d=f"M{number(left)} 0V999M{number(right)} 0V999", class_="edge")
        )
    for lane in item.gpu:
        shown, count, lost = _lane(
            lane.blocks,
            scale,
            y,
            LANE,
            [f"o-{n}" for n in OP_CLASSES],
            QUOTA["gpu"] // len(item.gpu),
        )
        rows.append(Row(f"GPU {lane.label}", y, LANE))
        body.append(shown)
        marks, merged, y = marks + count, merged + lost, y + LANE + 2
    stream_bottom = y - 2
    y += SPACE - 2
    gap_y = y
    shown, count, lost = _lane(
        item.parts, scale, y, GAP_LANE, [f"k-{n}" for n in CAUSES], QUOTA["parts"]
    )
    rows.append(Row("gaps, by cause", y, GAP_LANE))
    body.append(shown)
    marks, merged, y = marks + count, merged + lost, y + GAP_LANE + SPACE
    call_y = y
    if len(item.calls):
        ticks = Blocks(
            item.calls.start,
            np.full(len(item.calls), max(int(1.4 / scale), 1)),
            item.calls.name,
            item.calls.kind,
        )
        shown, count, lost = _lane(ticks, scale, y, CALL_LANE, ["call", "call"], QUOTA["calls"])
        rows.append(Row("launch calls", y, CALL_LANE))
        body.append(shown)
        marks, y = marks + count, y + CALL_LANE + SPACE
    for host in item.host:
        shown, count, lost = _lane(
            host.states, scale, y, STATE_LANE, [f"k-{n}" for n in HOST_STATES], QUOTA["states"]
        )
        rows.append(Row(host.label, y, STATE_LANE))
        body.append(shown)
        marks, merged, y = marks + count, merged + lost, y + STATE_LANE + 2
        depth = min(int(host.ops.kind.max(initial=-1)) + 1, DEPTH_SHOWN)
        for level in range(depth):
            own = host.ops.kind == level
            blocks = Blocks(*(column[own] for column in _columns(host.ops)))
            shown, count, lost = _lane(
                Blocks(blocks.start, blocks.dur, blocks.name, np.zeros(len(blocks), np.int64)),
                scale, y, ROW - 1, ["op"], QUOTA["ops"] // depth,
            )  # fmt: skip
            if level == 0:
                rows.append(Row("ops, nested", y, ROW))
            body.append(shown)
            texts += _names(blocks, item, scale, y + ROW - 4)
            marks, merged, y = marks + count, merged + lost, y + ROW
        y += SPACE
    objects, count = _gap_objects(item, scale, gap_y, call_y, stream_bottom)
    body.append(objects)
    notes = list(item.notes)
    if merged:
        notes.insert(0, f"{units.count(merged)} blocks too narrow to see are drawn merged")
    return Drawing(
        rows=tuple(rows),
        height=y,
        body=markup(*body),
        texts=tuple(texts),
        marks=marks + count,
        notes=tuple(notes),
        ticks=_ticks(item),
    )


def _columns(blocks: Blocks) -> tuple[np.ndarray, ...]:
    return blocks.start, blocks.dur, blocks.name, blocks.kind


def _lane(
    blocks: Blocks, scale: float, y: int, height: int, classes: Sequence[str], quota: int
) -> tuple[Markup, int, int]:
    """Paths of a lane, one per class; how many marks they hold and how many blocks were merged."""
    left = np.clip(blocks.start * scale, 0, WIDTH)
    right = np.clip((blocks.start + blocks.dur) * scale, 0, WIDTH)
    cell = 1.0
    marks = _cells(left, right, blocks.kind, cell)
    while marks[0].size > max(quota, 1) and cell < WIDTH:
        cell *= 1.5
        marks = _cells(left, right, blocks.kind, cell)
    begin, end, kind = marks
    width = np.maximum(end - begin, 0.4)
    middle = number(y + height / 2)
    paths = []
    for code in np.unique(kind).tolist():
        own = kind == code
        pairs = zip(begin[own].round(2).tolist(), width[own].round(2).tolist(), strict=True)
        if classes[code] == OUTLINED:
            d = "".join(f"M{number(x)} {y}h{number(w)}v{height}h{number(-w)}z" for x, w in pairs)
            paths.append(element("path", d=d, class_=OUTLINED))
            continue
        # Thick strokes say the same in half the characters that outlines of boxes need.
        d = "".join(f"M{number(x)} {middle}h{number(w)}" for x, w in pairs)
        paths.append(element("path", d=d, class_=f"l-{classes[code]}", stroke_width=height))
    return markup(*paths), int(begin.size), len(blocks) - int(begin.size)


def draw_row(blocks: Blocks, begin: int, length: int, classes: Sequence[str]) -> Markup:
    """One row, 20 units high, of the blocks in a stretch of time; small ones are merged."""
    moved = Blocks(blocks.start - begin, blocks.dur, blocks.name, blocks.kind)
    inside = (moved.start < length) & (moved.start + moved.dur > 0)
    moved = Blocks(*(column[inside] for column in _columns(moved)))
    return _lane(moved, WIDTH / length, 0, 20, classes, ROW_MARKS)[0]


def _cells(
    left: np.ndarray, right: np.ndarray, kind: np.ndarray, cell: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Wide blocks as they are; narrow ones in one cell as one block of the prevailing kind."""
    wide = right - left >= cell
    narrow = np.flatnonzero(~wide)
    if narrow.size == 0:
        return left, right, kind
    place = np.floor(left[narrow] / cell).astype(np.int64)
    order = np.lexsort((left[narrow], place))
    narrow, place = narrow[order], place[order]
    first = np.flatnonzero(np.concatenate(([True], place[1:] != place[:-1])))
    begin = np.minimum.reduceat(left[narrow], first)
    end = np.maximum.reduceat(right[narrow], first)
    group = np.repeat(np.arange(first.size), np.diff(np.append(first, narrow.size)))
    kinds = int(kind.max()) + 1
    weight = np.bincount(
        group * kinds + kind[narrow],
        weights=(right - left)[narrow] + 1e-9,
        minlength=first.size * kinds,
    ).reshape(first.size, kinds)
    return (
        np.concatenate((left[wide], begin)),
        np.concatenate((right[wide], end)),
        np.concatenate((kind[wide], weight.argmax(axis=1))),
    )


def _names(blocks: Blocks, item: Timeline, scale: float, baseline: int) -> list[Text]:
    """Names that fit into their blocks, at about seven units a character."""
    found = []
    for start, dur, name in zip(
        blocks.start.tolist(), blocks.dur.tolist(), blocks.name.tolist(), strict=True
    ):
        left, right = max(start * scale, 0), min((start + dur) * scale, WIDTH)
        room = int((right - left) / 8.5)
        if room >= 8 and name >= 0:
            text = units.middle_elided(item.names.texts[name], room)
            found.append(Text(left + 3, baseline, text))
    return found[:60]


def _gap_objects(
    item: Timeline, scale: float, gap_y: int, call_y: int, stream_bottom: int
) -> tuple[Markup, int]:
    """The longest gaps as objects: a description, a frame, and the arrow from the launch call."""
    blocks = item.gaps.blocks
    longest = np.argsort(-blocks.dur, kind="stable")[:GAP_OBJECTS]
    focusable = set(longest[:FOCUSABLE].tolist())
    shapes = []
    for i in sorted(longest.tolist()):
        left = max(float(blocks.start[i]) * scale, 0)
        right = min(float(blocks.start[i] + blocks.dur[i]) * scale, WIDTH)
        said = gap_text(item, i)
        call = int(item.gaps.call[i])
        arrow = None
        if call >= 0:
            x = float(item.calls.start[call]) * scale
            arrow = element(
                "path",
                d=f"M{number(x)} {call_y}L{number(right)} {stream_bottom}",
                class_="arrow",
            )
        shapes.append(
            element(
                "g",
                element("title", said),
                element(
                    "rect", x=round(left, 2), y=gap_y, width=max(round(right - left, 2), 0.4),
                    height=GAP_LANE, class_="hit",
                ),
                arrow,
                class_="gap",
                tabindex="0" if i in focusable else None,
                role="img" if i in focusable else None,
                aria_label=said if i in focusable else None,
            )
        )  # fmt: skip
    return markup(*shapes), len(shapes)


def gap_text(item: Timeline, i: int) -> str:
    """One gap in words: length, causes with their times, neighbours, and what launched its end."""
    blocks, names = item.gaps.blocks, item.names.texts
    start, dur = int(blocks.start[i]), int(blocks.dur[i])
    inside = (item.parts.start >= start) & (item.parts.start < start + dur)
    spent = np.bincount(
        item.parts.kind[inside], weights=item.parts.dur[inside], minlength=len(CAUSES)
    )
    order = np.argsort(-spent, kind="stable")
    causes = ", ".join(
        f"{palette.CAUSES[CAUSES[c]].word} {units.time(int(spent[c]))}" for c in order if spent[c]
    )
    call = int(item.gaps.call[i])
    launched = f"; launched by {names[int(item.calls.name[call])]}" if call >= 0 else ""
    drained = "; the queue was empty because of a sync" if item.gaps.drained[i] else ""
    return (
        f"gap {int(item.gaps.number[i])}: {units.time(dur)} idle ({causes}); "
        f"after {names[int(item.gaps.before[i])]}, before {names[int(blocks.name[i])]}"
        f"{launched}{drained}"
    )


def _ticks(item: Timeline) -> tuple[tuple[float, str], ...]:
    """Round times along the axis, from the start of the step's GPU window, in one unit."""
    zero = item.step[0] if item.step else 0
    return tuple(
        ((zero + at) / item.span_ns, text) for at, text in round_times(-zero, item.span_ns - zero)
    )


def round_times(low: int, high: int, most: int = 9) -> list[tuple[int, str]]:
    """Round instants between two times in ns, with their text; the first one carries the unit."""
    span = max(high - low, 1)
    step = next(
        size * 10**power
        for power in range(13)
        for size in (1, 2, 5)
        if span / (size * 10**power) <= most
    )
    unit = "ns" if span < 1_000 else "µs" if span < 10_000_000 else "ms"
    scale = {"ns": 1, "µs": 1_000, "ms": 1_000_000}[unit]
    first = -(-low // step) * step
    result = []
    for at in range(first, high + 1, step):
        value = at / scale
        text = f"{value:,.6f}".rstrip("0").rstrip(".").replace(",", units.THIN)
        result.append((at, f"{text} {unit}"))
    return result


def lanes_svg(drawing: Drawing, label: str) -> Markup:
    """The lanes alone, stretched to whatever holds them."""
    return element(
        "svg",
        drawing.body,
        class_="lanes",
        viewBox=f"0 0 {WIDTH} {drawing.height}",
        width="100%",
        height=drawing.height,
        preserveAspectRatio="none",
        role="group",
        aria_label=label,
    )


def standalone_step_svg(item: Timeline, sentence: str) -> str:
    """A whole SVG file of the step: sentence, lanes, axis, legend; light and dark."""
    drawing = draw_step(item)
    inner = WIDTH + LABELS
    top, axis = 64, 24
    words = [(f"k-{name}", look.word) for name, look in causes_shown([item])]
    words.insert(0, ("k-busy", "busy, by op class"))
    legend, lines = _legend(words, top + drawing.height + axis + 16, inner)
    height = top + drawing.height + axis + 16 + lines * 20 + 8
    lines_of_text = units.two_lines(sentence, 150)
    return str(
        element(
            "svg",
            element("title", sentence),
            standalone_style(),
            pattern_defs(),
            element("rect", width=inner + 16, height=height, class_="page"),
            *[
                element("text", line, x=8, y=24 + 20 * i, class_="h")
                for i, line in enumerate(lines_of_text)
            ],
            element("text", item.title, x=8, y=24 + 20 * len(lines_of_text) - 4, class_="soft"),
            *[
                element("text", units.middle_elided(row.label, 18), x=LABELS,
                        y=top + row.y + (row.height + 9) / 2, class_="end soft")
                for row in drawing.rows
            ],
            element(
                "svg", drawing.body, x=LABELS + 8, y=top, width=WIDTH, height=drawing.height,
                viewBox=f"0 0 {WIDTH} {drawing.height}",
            ),
            *[
                element("text", text.text, x=LABELS + 8 + text.x, y=top + text.y, class_="halo")
                for text in drawing.texts
            ],
            *[
                element("text", text, x=LABELS + 8 + at * WIDTH, y=top + drawing.height + 16,
                        class_="soft mid")
                for at, text in drawing.ticks
            ],
            legend,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {inner + 16} {height}",
            width=inner + 16,
            height=height,
            role="img",
            aria_label=sentence,
        )
    )  # fmt: skip


def _legend(words: Sequence[tuple[str, str]], y: int, width: int) -> tuple[Markup, int]:
    parts, x, line = [], 8.0, 0
    for css, word in words:
        need = 36 + 7 * len(word)
        if x + need > width:
            x, line = 8.0, line + 1
        parts.append(element("rect", x=x, y=y + 20 * line, width=16, height=12, class_=css))
        parts.append(element("text", word, x=x + 22, y=y + 20 * line + 10))
        x += need
    return markup(*parts), line + 1
