"""The bridge as a waterfall: from one step time to another in exact signed parts."""

from __future__ import annotations

from dataclasses import dataclass

from gaptrace import units
from gaptrace.compare.result import Bridge, BridgePart, Pair
from gaptrace.compare.words import signed_time
from gaptrace.report import palette
from gaptrace.report.markup import Markup, element, number
from gaptrace.report.patterns import pattern_defs, standalone_style

ROW, SPACE, LABELS = 22, 6, 232
SHOWN = 14


@dataclass(frozen=True)
class Beam:
    """One row of the waterfall: its label, its two ends in ns, its look, and its value in words."""

    label: str
    start_ns: float
    end_ns: float
    css: str
    text: str
    whole: bool = False


def beams(bridge: Bridge) -> list[Beam]:
    """The rows to draw, from the baseline through the largest gain to the largest loss.

    The rows sum exactly; small parts that do not fit share one row.
    """
    before, after = bridge.ends
    rows = [
        Beam(f"baseline: {bridge.baseline_step}", 0, before, "op", units.time(before), whole=True)
    ]
    at = float(before)
    parts = bridge.waterfall
    kept = sorted(parts, key=lambda part: -abs(part.delta_ns))[:SHOWN]
    for part in parts:
        if part not in kept:
            continue
        text = signed_time(part.delta_ns)
        rows.append(Beam(part.title, at, at + part.delta_ns, _css(part), text))
        at += part.delta_ns
    rest = sum(part.delta_ns for part in parts if part not in kept)
    if len(parts) > len(kept):
        label = f"{len(parts) - len(kept)} smaller parts"
        rows.append(Beam(label, at, at + rest, "k-unattributed", signed_time(rest)))
    rows.append(
        Beam(f"candidate: {bridge.candidate_step}", 0, after, "op", units.time(after), whole=True)
    )
    return rows


def _css(part: BridgePart) -> str:
    if part.kind == "idle" and part.key in palette.CAUSES:
        return f"k-{part.key}"
    if part.kind == "busy" and part.key in palette.OP_CLASSES:
        return f"o-{part.key}"
    return "k-profiler" if part.kind == "profiling" else "k-unattributed"


def _scale(rows: list[Beam]) -> tuple[float, float]:
    """The stretch of time to draw; both ends stand on zero."""
    low = min(0.0, *(min(row.start_ns, row.end_ns) for row in rows))
    high = max(max(row.start_ns, row.end_ns) for row in rows)
    return low, max(high - low, 1.0)


def _waterfall(rows: list[Beam]) -> tuple[list[Markup], int]:
    """Shapes at percentages of the width, and the height they need. Room is kept for the values."""
    low, span = _scale(rows)
    room = 86.0
    shapes = []
    y = 0
    for i, row in enumerate(rows):
        left = room * (min(row.start_ns, row.end_ns) - low) / span
        width = max(room * abs(row.end_ns - row.start_ns) / span, 0.15)
        shapes.append(
            element(
                "rect", element("title", f"{row.label}: {row.text}"), x=f"{number(left)}%", y=y,
                width=f"{number(width)}%", height=ROW, class_=row.css,
            )
        )  # fmt: skip
        shapes.append(
            element(
                "text", row.text, x=f"{number(left + width + 0.8)}%", y=y + ROW - 7,
                class_="strong" if row.whole else None,
            )
        )  # fmt: skip
        if i + 1 < len(rows):
            edge = f"{number(room * (row.end_ns - low) / span)}%"
            shapes.append(
                element("line", x1=edge, x2=edge, y1=y + ROW, y2=y + ROW + SPACE, class_="link")
            )
        y += ROW + SPACE
    return shapes, y - SPACE


def bridge_figure(bridge: Bridge) -> Markup:
    """The waterfall for a page: labels beside bars that stretch."""
    rows = beams(bridge)
    shapes, height = _waterfall(rows)
    labels = [
        element(
            "text", units.middle_elided(row.label, 36), x="100%",
            y=i * (ROW + SPACE) + ROW - 7, class_="end strong" if row.whole else "end",
        )
        for i, row in enumerate(rows)
    ]  # fmt: skip
    before, after = bridge.ends
    said = f"from {units.time(before)} to {units.time(after)} per step, part by part"
    return element(
        "figure",
        element(
            "div",
            element("svg", *labels, width=LABELS, height=height, aria_hidden="true"),
            element("svg", *shapes, width="100%", height=height, role="img", aria_label=said),
            class_="bridge",
        ),
    )


def standalone_bridge_svg(pair: Pair) -> str:
    """A whole SVG file of a pair's bridge; light and dark by media query."""
    assert pair.bridge is not None
    rows = beams(pair.bridge)
    shapes, height = _waterfall(rows)
    top, width = 64, 1_200
    return str(
        element(
            "svg",
            element("title", pair.sentence),
            standalone_style(),
            pattern_defs(),
            element("rect", width=width, height=height + top + 16, class_="page"),
            *[
                element("text", line, x=8, y=22 + 18 * i, class_="h" if i == 0 else "soft")
                for i, line in enumerate(_lines(pair))
            ],
            *[
                element(
                    "text", units.middle_elided(row.label, 36), x=LABELS,
                    y=top + i * (ROW + SPACE) + ROW - 7, class_="end",
                )
                for i, row in enumerate(rows)
            ],
            element(
                "svg", *shapes, x=LABELS + 8, y=top, width=width - LABELS - 16, height=height
            ),
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {width} {height + top + 16}",
            width=width,
            height=height + top + 16,
            role="img",
            aria_label=pair.sentence,
        )
    )  # fmt: skip


def _lines(pair: Pair) -> list[str]:
    first, *more = units.two_lines(pair.sentence, 140) or [pair.label]
    return [first, *(more or [pair.label])]
