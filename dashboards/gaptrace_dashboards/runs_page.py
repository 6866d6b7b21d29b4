"""The list of runs: a table to pick from, and a ladder of their rates against their ceilings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import dcc, html

from gaptrace import units
from gaptrace.quantity import NS, SHARE, TRACED, Number, Quantity
from gaptrace.render.elements import Element, element
from gaptrace.render.html_blocks import Page
from gaptrace.render.tables import basis_words
from gaptrace.vocabulary import VERDICT_SIGNS
from gaptrace_dashboards.components import component, filter_tools, meanings
from gaptrace_dashboards.grids import Column, grid
from gaptrace_dashboards.ladder import ladder, ladder_sentence, with_rates
from gaptrace_dashboards.library import FAILED, GONE, READY, WAITING, Entry, Library, Recording
from gaptrace_dashboards.places import WRITING
from gaptrace_dashboards.rows import Row, short_path
from gaptrace_dashboards.urls import run_url

TICK_MS = 1_500
COLUMNS = (
    Column("name", "run", "link", 250, pinned=True),
    Column("verdict", "trace", "text", 92, term="verdict"),
    Column("rate", "tok/s", "number", 88, term="tokens-per-s"),
    Column("step", "step, ms", "number", 92, term="period"),
    Column("idle", "idle", "number", 72, term="idle"),
    Column("kernels", "kernels/tok", "number", 116, term="kernels-per-token"),
    Column("launches", "launches/tok", "number", 124, term="launches-per-token"),
    Column("host", "host/tok, ms", "number", 152, term="host-dispatch"),
    Column("basis", "times", "text", 104, term="rate-source"),
    Column("binding", "limited by", "text", 104, term="binding-ceiling"),
    Column("launch", "launch ceiling, tok/s", "number", 164, term="launch-ceiling"),
    Column("bandwidth", "bandwidth ceiling, tok/s", "number", 186, term="bandwidth-ceiling"),
    Column("spark", "step times", "spark", 120),
    Column("mode", "mode", "text", 134),
    Column("gpu", "GPU", "text", 150),
    Column("model", "model", "text", 150),
    Column("date", "date", "text", 130),
    Column("sentence", "in one sentence", "name", 320, grow=1),
)


def grid_rows(library: Library) -> list[dict[str, Any]]:
    """The table's rows: recordings with figures, then places that are waiting or have failed."""
    rows = [_recorded(found) for found in library.recordings()]
    rows += [_pending(library, entry) for entry in library.entries() if not entry.rows]
    return rows


def _recorded(found: Recording) -> dict[str, Any]:
    row, head = found.row, found.row.headline
    verdict = f"{VERDICT_SIGNS.get(row.verdict, '✕')} {row.verdict}"
    if found.entry.state == GONE:
        verdict = "– file gone"
    step = head.step_ns
    return {
        "id": found.id,
        "name": row.name + (f" (×{row.repeats})" if row.repeats > 1 else ""),
        "href": run_url(found.id),
        "verdict": verdict,
        "rate": _rate(row, "measured"),
        "launch": _rate(row, "launch"),
        "bandwidth": _rate(row, "bandwidth"),
        "step": (step, _ms(None if step is None else Quantity(step, NS))),
        "idle": (head.idle_share, units.share(head.idle_share, 1)),
        "kernels": _counted(row.kernels),
        "launches": _counted(row.launches),
        "host": (row.host and row.host.value, host_words(row)),
        "basis": basis_words(head.basis),
        "binding": row.binding or "",
        "spark": list(row.spark),
        "mode": row.mode or "",
        "gpu": row.gpu or "",
        "model": row.model or "",
        "date": row.date,
        "sentence": row.sentence or row.note,
    }


def host_words(row: Row) -> str:
    """Host dispatch in ms, saying where it is as profiled though the step is not."""
    text = _ms(row.host)
    apart = row.host is not None and row.host.basis == TRACED != row.headline.basis
    return f"{text} {basis_words(TRACED)}" if apart else text


def _counted(value: Number | None) -> tuple[Number | None, str]:
    return value, units.count(value)


def _rate(row: Row, name: str) -> tuple[Number | None, str]:
    found = row.rates.get(name)
    return (None, units.MISSING) if found is None else (found.value, units.value_text(found))


def _ms(found: Quantity | None) -> str:
    return units.MISSING if found is None else units.value_text(found, "ms")


def _pending(library: Library, entry: Entry) -> dict[str, Any]:
    words = pending_words(library, entry)
    blank = Row("", entry.place.name, words)
    found = _recorded(Recording(entry.place.id, entry, blank))
    return {**found, "verdict": "✕ refused" if entry.state == FAILED else "…"}


def pending_words(library: Library, entry: Entry) -> str:
    """Why a place has no figures yet, or why it never will."""
    if entry.place.kind == WRITING:
        return "still being recorded; it appears here when it is done"
    if entry.state == FAILED:
        return f"{entry.error}. {entry.hint}".strip()
    if entry.state == WAITING:
        return "waiting to be analysed"
    share = library.progress(entry)
    return "being analysed" if share is None else f"being analysed, {share} % read"


def headline(library: Library) -> str:
    """The page's sentence: how many runs, and what the best and the worst of them lose."""
    rows = [found.row for found in library.recordings()]
    shares = [row.headline.idle_share for row in rows if row.rates]
    idle = sorted(share for share in shares if share is not None)
    if not rows:
        return "No run yet."
    text = units.counted(len(rows), "recording")
    if not idle:
        return f"{text}, none with decode steps."
    least, most = (units.text(Quantity(share, SHARE)) for share in (idle[0], idle[-1]))
    if len(idle) == 1:
        return f"{text}. The GPU idles {least} of each step."
    return f"{text}. The GPU idles between {least} and {most} of each step."


def progress_words(library: Library) -> str:
    """What is still being done, and what was left out; empty when there is nothing to say."""
    entries_ = library.entries()
    open_ = [
        e for e in entries_ if e.state not in (READY, FAILED, GONE) and e.place.kind != WRITING
    ]
    parts = []
    if open_:
        done = len(entries_) - len(open_)
        now = next((e for e in open_ if e.state != WAITING), open_[0])
        parts.append(
            f"analysed {done} of {len(entries_)}; {now.place.name} {pending_words(library, now)}"
        )
    if library.foreign:
        said = ("other JSON file is no trace", "other JSON files are no traces")
        parts.append(units.counted(library.foreign, *said))
    return "; ".join(parts)


def runs_page(library: Library) -> list[Any]:
    """The page's components."""
    rows = grid_rows(library)
    if not rows:
        return [_nothing(library)]
    recordings = library.recordings()
    return [
        dcc.Interval(id="runs-tick", interval=TICK_MS),
        dcc.Store(id="runs-version", data=library.version),
        html.H1(headline(library), id="runs-sentence"),
        html.P(progress_words(library), id="runs-progress", className="soft", role="status"),
        filter_tools(
            "runs-grid", "filter", "filter runs  ( / )",
            html.Button("Compare", id="compare-button", disabled=True, type="button"),
            html.Span("pick two to four runs; the first is the baseline", id="picked",
                      className="soft", role="status"),
        ),
        grid("runs-grid", COLUMNS, rows, picks=True, height=table_height(len(rows))),
        component(meanings(COLUMNS, Page())),
        html.Div(ladder_part(recordings), id="ladder"),
    ]  # fmt: skip


def table_height(rows: int) -> int:
    """Pixels of the table: all of a few runs, a window over many."""
    return 34 + 30 * min(rows, 16) + 18


def ladder_part(recordings: Sequence[Recording]) -> html.Div | None:
    """The ladder with its sentence; None before any run has a rate.

    Its twin in numbers is the list above it.
    """
    known = with_rates(recordings)
    if not known:
        return None
    sentence = ladder_sentence(known)
    ceilings: Element = element("a", "ceilings", href="#def-launch-ceiling", class_="def")
    return component(
        element(
            "section",
            element("h2", "Rates and ceilings", id="h-ladder"),
            element("p", f"{sentence} ", ceilings),
            ladder(known, sentence),
            id="ladder-part",
            class_="part",
            aria_labelledby="h-ladder",
        )
    )


def _nothing(library: Library) -> html.Div:
    watched = ", ".join(short_path(path) for path in library.paths)
    return html.Div(
        [
            html.H1("No run here yet."),
            html.P(f"Looked in {watched}. New traces and run folders appear by themselves."),
            html.P(["Record one: ", html.Code("gaptrace collect SCRIPT.py")]),
            html.P(progress_words(library), className="soft"),
        ],
        className="state waiting",
    )
