"""The ladder: every run's rate between its two ceilings, on one logarithmic axis.

It is drawn as SVG, as the charts of the report are: the list of runs is the first page anybody
sees, and a charting library alone would take longer to load than the rest of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gaptrace import units
from gaptrace.report.markup import Markup, element, markup, number
from gaptrace_dashboards.library import Recording
from gaptrace_dashboards.urls import run_url

ROW, LABELS, SHOWN = 26, 232, 40
SIGNS = (("measured", "measured"), ("launch", "launch ceiling"), ("bandwidth", "bandwidth ceiling"))


def ladder_sentence(recordings: Sequence[Recording]) -> str:
    """What the ladder says: who is fastest, and how many are held back by the host."""
    known = [r for r in recordings if r.row.tokens_per_s]
    if not known:
        return "No run has a token rate yet."
    best = max(known, key=lambda r: r.row.tokens_per_s or 0)
    launch = sum(r.row.binding == "launch" for r in known)
    text = f"Fastest: {best.row.name} at {units.rate(best.row.tokens_per_s)}."
    if launch:
        text += f" The launch ceiling binds in {launch} of {len(known)}."
    if len(known) > SHOWN:
        text += f" The {SHOWN} fastest of {len(known)} are drawn."
    return text


def ladder(recordings: Sequence[Recording], label: str) -> Markup:
    """The runs that have a rate, fastest first, each a line from its lowest to its highest mark."""
    known = [r for r in recordings if r.row.tokens_per_s]
    shown = sorted(known, key=lambda r: (-(r.row.tokens_per_s or 0), r.id))[:SHOWN]
    values = [value for r in shown for value in _marks(r).values()]
    low, high = math.log10(min(values)) - 0.08, math.log10(max(values)) + 0.08
    if high - low < 1:
        low, high = (low + high) / 2 - 0.5, (low + high) / 2 + 0.5
    height = ROW * len(shown)
    shapes = _axis(low, high, height)
    for place, recording in enumerate(shown):
        shapes.append(_line(recording, ROW * place + ROW / 2, low, high))
    labels = [
        element(
            "a",
            element(
                "text",
                units.middle_elided(r.row.name, 34),
                x="100%",
                y=ROW * place + ROW / 2 + 4,
                class_="end",
            ),
            href=run_url(r.id),
            tabindex="-1",
        )
        for place, r in enumerate(shown)
    ]
    return markup(
        _legend(),
        element(
            "figure",
            element("svg", *labels, width=LABELS, height=height + 40, aria_hidden="true"),
            element("svg", *shapes, width="100%", height=height + 40, role="img", aria_label=label),
            class_="bridge ladder",
        ),
    )


def _marks(recording: Recording) -> dict[str, float]:
    row = recording.row
    found = {
        "measured": row.tokens_per_s,
        "launch": row.launch_ceiling,
        "bandwidth": row.bandwidth_ceiling,
    }
    return {name: value for name, value in found.items() if value}


def _axis(low: float, high: float, height: float) -> list[Markup]:
    shapes = []
    for power in range(math.floor(low), math.ceil(high) + 1):
        for digit in (1, 2, 5):
            value = digit * 10.0**power
            if not low <= math.log10(value) <= high:
                continue
            x = _at(value, low, high)
            shapes.append(element("line", x1=x, x2=x, y1=0, y2=height, class_="axis"))
            shapes.append(
                element("text", units.digits(value, 1), x=x, y=height + 16, class_="soft mid")
            )
    shapes.append(element("text", "tokens per second", x="50%", y=height + 34, class_="soft mid"))
    return shapes


def _at(value: float, low: float, high: float) -> str:
    return f"{number(100 * (math.log10(value) - low) / (high - low))}%"


def _line(recording: Recording, y: float, low: float, high: float) -> Markup:
    marks = _marks(recording)
    first, last = (_at(end, low, high) for end in (min(marks.values()), max(marks.values())))
    words = dict(SIGNS)
    said = ", ".join(f"{words[name]} {units.rate(value)}" for name, value in marks.items())
    return element(
        "g",
        element("title", f"{recording.row.name}: {said}"),
        element("rect", x=0, y=y - ROW / 2, width="100%", height=ROW, class_="hit"),
        element("line", x1=first, x2=last, y1=y, y2=y, class_="rung"),
        *[
            element("svg", _sign(name), x=_at(value, low, high), y=y, width=1, height=1)
            for name, value in reversed(marks.items())
        ],
    )


def _sign(name: str) -> Markup:
    """A mark around the point (0, 0): told apart by shape, not by colour."""
    if name == "measured":
        return element("circle", r=5.5, class_="measured")
    if name == "launch":
        return element("path", d="M0-9V9", class_="ceiling")
    return element("path", d="M0-6L6 0L0 6L-6 0z", class_="bandwidth")


def _legend() -> Markup:
    return element(
        "ul",
        *[
            element(
                "li",
                element(
                    "svg",
                    element("svg", _sign(name), x=8, y=9, width=1, height=1),
                    width=22,
                    height=18,
                    class_="swatch",
                    aria_hidden="true",
                ),
                word,
            )
            for name, word in SIGNS
        ],
        class_="legend",
    )
