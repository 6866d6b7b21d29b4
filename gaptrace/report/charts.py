"""Small drawings that stretch with the page: where a token's time goes, ceilings, the step strip.

Positions along the page are percentages, so that text and patterns keep their size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gaptrace import units
from gaptrace.measure.gaps import CAUSES
from gaptrace.measure.kernels import OP_CLASSES
from gaptrace.measure.result import Analysis
from gaptrace.measure.steps import Steps
from gaptrace.report import palette
from gaptrace.report.markup import Markup, element, number
from gaptrace.report.step_svg import WIDTH, draw_row
from gaptrace.report.views import Pick, View

BAR, BAR_SPACE, LABEL = 36, 12, 18
SHORT = {
    "k-sync": "sync",
    "k-python": "Python",
    "k-dispatch": "dispatch",
    "k-launch": "launch",
    "k-runtime": "runtime",
    "k-alloc": "allocator",
    "k-device_wait": "device wait",
    "k-graph_node": "nodes",
    "k-profiler": "profiler",
    "k-backpressure": "queue full",
    "o-pointwise": "pointwise",
}
# At the narrowest page a label needs about this many percent of its width per character.
PERCENT_PER_CHARACTER = 0.88
# Labels of the strip closer than this, in percent of the width, go on two lines.
LABEL_SHARE = 14
STRIP_HEIGHT, STRIP_STEPS, WIDEST_STEP, HEADROOM = 112, 120, 48, 1.25


# Plain fills that are dark on a light page and light on a dark one.
DEEP = frozenset({"k-busy", "k-dispatch", "o-gemm", "o-attention"})


@dataclass(frozen=True)
class Part:
    """One part of a bar: how it looks, its value in ns, its word, and a shorter one."""

    css: str
    value: float
    word: str

    @property
    def short(self) -> str:
        """The word where there is little room."""
        return SHORT.get(self.css, self.word)


@dataclass(frozen=True)
class BarRow:
    """A labelled bar."""

    label: str
    parts: tuple[Part, ...]

    @property
    def total(self) -> float:
        """Sum of the parts."""
        return sum(part.value for part in self.parts)


def bars(rows: Sequence[BarRow], label: str) -> Markup:
    """Bars on one time axis, each with its label above; parts named inside where they fit."""
    whole = max((row.total for row in rows), default=0) or 1
    shapes: list[Markup] = []
    y = 0
    for row in rows:
        shapes.append(element("text", row.label, x=0, y=y + 12, class_="soft"))
        shapes.append(element("text", units.time(row.total), x="100%", y=y + 12, class_="soft end"))
        y += LABEL
        x = 0.0
        for part in row.parts:
            width = 100 * part.value / whole
            said = f"{part.word}: {units.time(part.value)} ({units.share(part.value, row.total)})"
            shapes.append(
                element(
                    "rect", element("title", said), x=f"{number(x)}%", y=y,
                    width=f"{number(width)}%", height=BAR, class_=part.css,
                )
            )  # fmt: skip
            text = f"{part.word} {units.time(part.value)}"
            for candidate in (text, f"{part.short} {units.time(part.value)}", part.short):
                if width > PERCENT_PER_CHARACTER * len(candidate) + 1.2:
                    shapes.append(
                        element("text", candidate, x=f"{number(x + width / 2)}%", y=y + BAR / 2 + 4,
                                class_=f"mid {_on(part.css)}")
                    )  # fmt: skip
                    break
            x += width
        y += BAR + BAR_SPACE
    return _svg(shapes, y - BAR_SPACE + 2, label)


def _on(css: str) -> str:
    """The class of text on a fill: light or dark on plain colour, with a halo on a pattern."""
    return "inv" if css in DEEP else "dark" if css.startswith("o-") else "halo"


def _svg(shapes: Sequence[Markup], height: float, label: str, css: str = "chart") -> Markup:
    return element(
        "svg", *shapes, width="100%", height=height, role="img", aria_label=label, class_=css
    )


def token_rows(analysis: Analysis) -> list[BarRow]:
    """The bars of one token: the GPU by cause, the host by class, and the step unprofiled."""
    head = analysis.headline
    rows = []
    busy, idle = head.per_token["busy_ns"].median, head.per_token["idle_ns"].median
    causes = {name: value for name, value in head.idle_by_cause_ns.items() if value}
    if busy is not None:
        parts = [Part("k-busy", busy, "busy")]
        parts += [
            Part(f"k-{name}", causes[name], look.word)
            for name, look in palette.CAUSES.items()
            if name in causes
        ]
        if not causes and idle:
            parts.append(Part("k-unattributed", idle, "idle, causes withheld"))
        rows.append(BarRow("GPU, one token as profiled", tuple(parts)))
    rate, tokens = head.rate, head.tokens_per_step or 1
    if rate.unprofiled_step_ns is not None and busy is not None:
        rest = max(rate.unprofiled_step_ns / tokens - busy, 0)
        rows.append(
            BarRow(
                "GPU, one token without the profiler",
                (Part("k-busy", busy, "busy"), Part("k-unattributed", rest, "idle")),
            )
        )
    host = {name: value for name, value in head.host_time_ns.items() if value}
    if host:
        rows.append(
            BarRow(
                "host thread, one token as profiled",
                tuple(
                    Part(f"k-{name}", host[name], look.word)
                    for name, look in palette.HOST.items()
                    if name in host
                ),
            )
        )
    return rows


# Room for the label of a ceiling, in percent of the width: 190 px of a page 900 px wide, with its
# navigation beside it, and some to spare.
LABEL = 36


def ceilings_chart(analysis: Analysis) -> Markup | None:
    """Both ceilings and the measured rate on one logarithmic axis of tokens per second."""
    c, rate = analysis.ceilings, analysis.headline.rate.tokens_per_s
    marks = [
        ("launch ceiling", c.launch_tokens_per_s),
        ("bandwidth ceiling", c.bandwidth_tokens_per_s),
    ]
    known = [(word, value) for word, value in marks if value]
    if not known:
        return None
    values = [value for _, value in known] + ([rate] if rate else [])
    low, high = math.log10(min(values)) - 0.36, math.log10(max(values)) + 0.36
    if high - low < 1:
        middle = (high + low) / 2
        low, high = middle - 0.5, middle + 0.5

    def at(value: float) -> float:
        return 100 * (math.log10(value) - low) / (high - low)

    axis = 58
    lowest = min(value for _, value in known)
    shapes = [
        element("rect", x=f"{number(at(lowest))}%", y=34, width=f"{number(100 - at(lowest))}%",
                height=24, class_="beyond"),
        element("line", x1=0, x2="100%", y1=axis, y2=axis, class_="axis"),
    ]  # fmt: skip
    for power in range(math.floor(low), math.ceil(high) + 1):
        for digit in (1, 2, 5):
            value = digit * 10.0**power
            if low <= math.log10(value) <= high:
                tick = f"{number(at(value))}%"
                shapes += [
                    element("line", x1=tick, x2=tick, y1=axis, y2=axis + 4, class_="axis"),
                    element("text", units.digits(value), x=tick, y=axis + 18, class_="soft mid"),
                ]
    placed: list[tuple[float, float]] = []
    for word, value in sorted(known, key=lambda item: item[1]):
        x = at(value)
        place = f"{number(x)}%"
        shapes.append(element("line", x1=place, x2=place, y1=16, y2=axis, class_="ceiling"))
        right = x > 62
        span = (x - LABEL, x) if right else (x, x + LABEL)
        close = any(span[0] < end and begin < span[1] for begin, end in placed)
        y = 12 if not close else 26
        placed.append(span)
        shapes.append(
            element(
                "text", f"{word} {units.rate(value)}", x=f"{number(x + (-0.6 if right else 0.6))}%",
                y=y, class_="halo end" if right else "halo",
            )
        )  # fmt: skip
    if rate:
        x = at(rate)
        # The label keeps clear of a ceiling line beside it, where the edge leaves it room.
        right = x > 80 or (x > 18 and any(1.2 < at(value) - x < 18 for _, value in known))
        shapes.append(element("circle", cx=f"{number(x)}%", cy=46, r=6, class_="measured"))
        shapes.append(
            element(
                "text", f"measured {units.rate(rate)}",
                x=f"{number(x + (-1 if right else 1))}%", y=50,
                class_="halo strong end" if right else "halo strong",
            )
        )  # fmt: skip
    return _svg(shapes, axis + 24, "tokens per second: the ceilings and the measured rate")


@dataclass(frozen=True)
class StripBar:
    """One bar of the strip: the step shown, and how many steps it stands for."""

    index: int
    stands_for: int


def strip_bars(steps: Steps) -> list[StripBar]:
    """At most 120 bars: every step, or the longest of each run of neighbours."""
    usable = np.flatnonzero(steps.has_ops)
    size = max(1, -(-usable.size // STRIP_STEPS))
    bars_ = []
    for first in range(0, usable.size, size):
        group = usable[first : first + size]
        bars_.append(StripBar(int(group[np.argmax(steps.period_ns[group])]), int(group.size)))
    return bars_


def strip(steps: Steps, shown: Sequence[StripBar], chosen: Sequence[Pick], label: str) -> Markup:
    """The steps side by side, each a stack of busy and idle by cause, as tall as it is long."""
    counted = [bar for bar in shown if not steps.excluded[bar.index]]
    # A step that counts for nothing must not flatten all the others: it is cut off at the top.
    longest = max(int(steps.period_ns[bar.index]) for bar in counted or shown) or 1
    if len(counted) < len(shown):
        longest = int(longest * HEADROOM)
    pitch = min(WIDTH / len(shown), WIDEST_STEP)
    width = max(pitch - max(1.0, min(pitch * 0.2, 6)), 0.8)
    paths: dict[str, list[str]] = {}
    hits, cuts = [], []
    words = {pick.index: pick.word for pick in chosen}
    for place, bar in enumerate(shown):
        i = bar.index
        x, y = place * pitch, float(STRIP_HEIGHT)
        faded = "" if not steps.excluded[i] else " faded"
        stack = [("k-busy", int(steps.busy_ns[i]))]
        stack += [
            (f"k-{name}", int(steps.cause_ns[i, CAUSES.index(name)])) for name in palette.CAUSES
        ]
        for css, value in stack:
            if value:
                high = min(STRIP_HEIGHT * value / longest, y)
                y -= high
                paths.setdefault(css + faded, []).append(
                    f"M{number(round(x, 1))} {number(round(y, 1))}h{number(round(width, 1))}"
                    f"v{number(round(high, 1))}h{number(round(-width, 1))}z"
                )
        if int(steps.period_ns[i]) > longest:
            cuts.append(f"M{number(round(x - 1, 1))} 9l{number(round(width + 2, 1))} -5")
        more = f", the longest of {bar.stands_for}" if bar.stands_for > 1 else ""
        out = f", left out of medians: {steps.excluded[i]}" if steps.excluded[i] else ""
        said = (
            f"step {i}{more}: {units.time(int(steps.period_ns[i]))}, "
            f"idle {units.time(int(steps.idle_ns[i]))}{out}"
        )
        hits.append(
            element(
                "rect", element("title", said), x=round(x, 1), y=0, width=round(pitch, 1),
                height=STRIP_HEIGHT, class_="hit", data_step=i,
            )
        )  # fmt: skip
    lanes = element(
        "svg",
        *[element("path", d="".join(d), class_=css) for css, d in paths.items()],
        element("path", d="".join(cuts), class_="cut") if cuts else None,
        *hits,
        viewBox=f"0 0 {WIDTH} {STRIP_HEIGHT}",
        preserveAspectRatio="none",
        width="100%",
        height=STRIP_HEIGHT,
        y=32,
    )
    labels, ends = [], [-100.0, -100.0]
    for place, bar in enumerate(shown):
        if bar.index in words:
            x = 100 * (place * pitch + width / 2) / WIDTH
            row = 0 if x - ends[0] > LABEL_SHARE else 1
            ends[row] = x
            anchor = "mid" if 7 < x < 93 else "end" if x >= 93 else ""
            labels.append(
                element("text", f"{words[bar.index]} ▾", x=f"{number(x)}%", y=12 + 14 * row,
                        class_=f"soft {anchor}".strip())
            )  # fmt: skip
    return _svg([*labels, lanes], STRIP_HEIGHT + 34, label)


def small_multiples(chosen: Sequence[View]) -> Markup | None:
    """The picked steps under one another on one scale, aligned at their start."""
    own = [view for view in chosen if view.step is not None]
    if len(own) < 2:
        return None
    longest = max(_length(view) for view in own)
    shapes: list[Markup] = []
    y = 0
    for view in own:
        item = view.timeline
        shapes.append(element("text", item.title, x=0, y=y + 12, class_="soft"))
        y += LABEL
        begin = item.step[0] if item.step else 0
        length = _length(view)
        inner = [
            draw_row(lane.blocks, begin, length, [f"o-{n}" for n in OP_CLASSES])
            for lane in item.gpu
        ]
        inner.insert(0, draw_row(item.parts, begin, length, [f"k-{n}" for n in CAUSES]))
        shapes.append(
            element(
                "svg", *inner, x=0, y=y, width=f"{number(100 * length / longest)}%", height=20,
                viewBox=f"0 0 {WIDTH} 20", preserveAspectRatio="none",
            )
        )  # fmt: skip
        y += 20 + 6
    return _svg(shapes, y, "the picked steps on one scale, aligned at their start")


def _length(view: View) -> int:
    item = view.timeline
    return max(item.step[1] - item.step[0], 1) if item.step else item.span_ns
