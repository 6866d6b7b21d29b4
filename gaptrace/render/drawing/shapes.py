"""The shapes that drawings are made of. A place across is a share of the width (`12.5%`) where the
drawing stretches with the page, else a number of pixels. tip: what a shape is, in words.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from gaptrace.render.elements import Child, Element, element

Across: TypeAlias = str | float


def shape(tag: str, css: str, tip: str = "", *inside: Child, **attributes: Any) -> Element:
    """Any shape."""
    title = element("title", tip) if tip else None
    return element(tag, title, inside, class_=css.strip() or None, **attributes)


def line(x1: Across, y1: float, x2: Across, y2: float, css: str) -> Element:
    """A straight line."""
    return shape("line", css, x1=x1, y1=y1, x2=x2, y2=y2)


def box(x: Across, y: float, width: Across, height: float, css: str, tip: str = "") -> Element:
    """A filled box."""
    return shape("rect", css, tip, x=x, y=y, width=width, height=height)


def label(words: str, x: Across, y: float, css: str = "", tip: str = "") -> Element:
    """A line of text from `x` on; css `mid` or `end` puts its middle or its end there."""
    return shape("text", css, tip, words, x=x, y=y)


def inset(x: Across, y: float, *shapes: Child, **attributes: Any) -> Element:
    """Shapes moved to a place."""
    return element("svg", shapes, x=x, y=y, **attributes)


def stretched(width_: int, height_: int, *shapes: Child, **attributes: Any) -> Element:
    """Shapes in their own units, stretched to the width of the page or to the one given."""
    room = {"width": "100%", "height": height_, **attributes}
    view = f"0 0 {width_} {height_}"
    return element("svg", shapes, viewBox=view, preserveAspectRatio="none", **room)


def sample(width: int, height: int, *shapes: Child) -> Element:
    """A small picture beside a word of a legend."""
    return element("svg", shapes, width=width, height=height, class_="swatch", aria_hidden="true")


def swatch(fill: str) -> Element:
    """A small sample of a fill."""
    return sample(16, 12, element("rect", width=16, height=12, class_=fill))
