"""What every part of a page needs to know about the page it is on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gaptrace.report.markup import Child, Markup, element
from gaptrace.report.matrix import MatrixCell
from gaptrace.report.privacy import Privacy
from gaptrace.report.terms import Terms
from gaptrace.report.views import Budget


@dataclass(frozen=True)
class Context:
    """One analysis on one page.

    prefix keeps ids of several analyses on a page apart. predicted: what the modes that were not
    recorded would do, by mode; drawn hatched beside what was measured.
    """

    prefix: str = ""
    terms: Terms = field(default_factory=Terms)
    privacy: Privacy = Privacy.OPEN
    budget: Budget = field(default_factory=Budget)
    predicted: Mapping[str, MatrixCell] = field(default_factory=dict)

    def id(self, name: str) -> str:
        """The id of a place of this analysis."""
        return f"{self.prefix}{name}"


@dataclass(frozen=True)
class Section:
    """A part of a page that the navigation names."""

    id: str
    title: str
    body: Markup

    def html(self) -> Markup:
        """The section with its heading."""
        return element(
            "section",
            element("h2", self.title, id=f"h-{self.id}"),
            self.body,
            id=self.id,
            aria_labelledby=f"h-{self.id}",
            class_="part",
        )


def section(context: Context, name: str, title: str, *children: Child) -> Section:
    """A section of the context's analysis; its children one after another."""
    from gaptrace.report.markup import markup

    return Section(context.id(name), title, markup(*children))


def swatch(css: str) -> Markup:
    """A small sample of a colour and pattern."""
    return element(
        "svg",
        element("rect", width=16, height=12, class_=css),
        width=16,
        height=12,
        class_="swatch",
        aria_hidden="true",
    )
