"""The address holds what is shown: a page's state to and from its query, and nothing else does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode, urlsplit

RUNS, RUN, COMPARE, GLOSSARY = "/", "/run", "/compare", "/glossary"
# What is no page: files to keep, and what the scripts ask for.
REPORT, COMPARISON_REPORT, TRACE = "/report", "/report/compare", "/trace"
TIMELINES = "/api/compare"
PAGES = (RUNS, RUN, COMPARE, GLOSSARY)
MOST_COMPARED = 4
LONGEST_GIVEN = 40
TABS = ("kernels", "ops", "host", "ceilings", "fusion", "compile", "power", "provenance")


@dataclass(frozen=True)
class State:
    """What an address asks for, as far as the server needs to know it.

    page: one of `PAGES`, or the unknown path itself. runs: recording ids, the baseline first. tab:
    of the run page. given: a step measured without the profiler, as it was typed. pair: which
    candidate of a comparison. forced: unlike runs are compared all the same. Step, gap, zoom,
    filters and theme are the script's: they change without the server.
    """

    page: str = RUNS
    runs: tuple[str, ...] = ()
    tab: str = TABS[0]
    pair: int = 0
    forced: bool = False
    given: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """What the page's content depends on, apart from the tab."""
        if self.page == COMPARE:
            return (self.page, *self.runs, str(self.pair), str(self.forced))
        return (self.page, *self.runs, self.given) if self.page == RUN else (self.page,)


def parse(href: str | None) -> State:
    """The state in an address; what makes no sense falls back to the default."""
    parts = urlsplit(href or "/")
    query = parse_qs(parts.query)
    path = parts.path.rstrip("/") or "/"
    tab = query.get("tab", [TABS[0]])[-1]
    pair = query.get("pair", ["0"])[-1]
    most = 1 if path == RUN else MOST_COMPARED
    return State(
        page=path,
        runs=tuple(dict.fromkeys(query.get("run", [])))[:most],
        tab=tab if tab in TABS else TABS[0],
        pair=int(pair) if pair.isdigit() and len(pair) < 3 else 0,
        forced=query.get("force", ["0"])[-1] == "1",
        given=query.get("given", [""])[-1].strip()[:LONGEST_GIVEN],
    )


def address(path: str, runs: Sequence[str], **more: str | int) -> str:
    """The address of what is at a path about these runs; the first of several is the baseline."""
    return f"{path}?{urlencode([*(('run', run) for run in runs), *more.items()])}"


def run_url(run: str, **more: str | int) -> str:
    """The address of a run's page."""
    return address(RUN, [run], **more)


def compare_url(runs: Sequence[str], **more: str | int) -> str:
    """The address of a comparison."""
    return address(COMPARE, runs, **more)


def report_url(run: str, given: str = "") -> str:
    """The address of a run's HTML report; `given` as in `State`."""
    return address(REPORT, [run], **({"given": given} if given else {}))
