"""The ladder: every run's rate between its two ceilings, on one logarithmic axis.

It is drawn as SVG, as the charts of the report are: the list of runs is the first page anybody
sees, and a charting library alone would take longer to load than the rest of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from gaptrace import units
from gaptrace.render.drawing.picture import LogAxis, Picture
from gaptrace.render.drawing.shapes import box, inset, label, line, sample, shape
from gaptrace.render.elements import Element, Node, element, percent
from gaptrace.render.html_blocks import Page, figure
from gaptrace_dashboards.library import Recording
from gaptrace_dashboards.urls import run_url

ROW, LABELS, SHOWN = 26, 232, 40
SIGNS = (("measured", "measured"), ("launch", "launch ceiling"), ("bandwidth", "bandwidth ceiling"))


def with_rates(recordings: Sequence[Recording]) -> list[Recording]:
    """The recordings that have a rate, the fastest first."""
    known = [(found.row.rates["measured"], found) for found in recordings if _rated(found)]
    return [found for _, found in sorted(known, key=lambda k: (-(k[0].value or 0), k[1].id))]


def _rated(found: Recording) -> bool:
    return "measured" in found.row.rates


def ladder_sentence(known: Sequence[Recording]) -> str:
    """What the ladder says: who is fastest, and how many are held back by the host."""
    best = known[0]
    launch = sum(r.row.binding == "launch" for r in known)
    text = f"Fastest: {best.row.name} at {units.text(best.row.rates['measured'])}."
    if launch:
        text += f" {launch} of {len(known)} are limited by the launch ceiling."
    if len(known) > SHOWN:
        text += f" The {SHOWN} fastest of {len(known)} are drawn."
    return text


def ladder(known: Sequence[Recording], said: str) -> list[Node]:
    """Recordings that have a rate, each a line from its lowest to its highest mark."""
    shown = known[:SHOWN]
    axis = LogAxis.over([value for r in shown for value in _marks(r).values()], 0.08)
    height, shapes, labels = ROW * len(shown), [], []
    for value in axis.ticks():
        x = percent(axis.at(value))
        shapes.append(line(x, 0, x, height, "axis"))
        shapes.append(label(units.digits(value, 1), x, height + 16, "soft mid"))
    shapes.append(label("tokens per second", "50%", height + 34, "soft mid"))
    for place, recording in enumerate(shown):
        y, name = ROW * place + ROW / 2, units.middle_elided(recording.row.name, 34)
        shapes.append(_line(recording, y, axis))
        link = {"href": run_url(recording.id), "tabindex": "-1"}
        labels.append(element("a", label(name, "100%", y + 4, "end"), **link))
    picture = Picture(tuple(shapes), height + 40, said, (), tuple(labels), LABELS)
    signs = (
        element("li", sample(22, 18, inset(8, 9, _sign(name), width=1, height=1)), word)
        for name, word in SIGNS
    )
    drawn = element("div", figure(picture, Page()), class_="ladder")
    return [element("ul", signs, class_="legend"), drawn]


def _marks(recording: Recording) -> dict[str, float]:
    return {name: q.value for name, q in recording.row.rates.items() if q.value}


def _line(recording: Recording, y: float, axis: LogAxis) -> Element:
    marks, words = _marks(recording), dict(SIGNS)
    first, last = (percent(axis.at(end)) for end in (min(marks.values()), max(marks.values())))
    said = ", ".join(f"{words[name]} {units.text(q)}" for name, q in recording.row.rates.items())
    signs = (
        inset(percent(axis.at(value)), y, _sign(name), width=1, height=1)
        for name, value in reversed(marks.items())
    )
    inside = (box(0, y - ROW / 2, "100%", ROW, "hit"), line(first, y, last, y, "rung"), signs)
    return shape("g", "", f"{recording.row.name}: {said}", *inside)


def _sign(name: str) -> Element:
    """A mark around the point (0, 0): told apart by shape, not by colour."""
    if name == "measured":
        return shape("circle", "measured", r=5.5)
    if name == "launch":
        return shape("path", "ceiling", d="M0-9V9")
    return shape("path", "bandwidth", d="M0-6L6 0L0 6L-6 0z")
