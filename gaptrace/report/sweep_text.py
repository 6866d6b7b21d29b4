"""A sweep as text and as Markdown: a sentence, tables by mode and point, savings, notes."""

from __future__ import annotations

from collections.abc import Callable

from gaptrace import units
from gaptrace.report import github
from gaptrace.report.privacy import Privacy
from gaptrace.report.terminal import Ink, table, wrapped
from gaptrace.runs.startup import ModeStart
from gaptrace.runs.sweep import SweepAnalysis, SweepRow

WIDTH = 80
NOTES_SHOWN = 12
FIGURES = ("tok/s", "step", "idle", "kernels", "launches", "cold, s", "warm, s")
LIMITS = ("launch ceiling", "bandwidth ceiling", "binds", "reached", "replays", "tuned")


def sweep_report(sweep: SweepAnalysis, *, color: bool) -> str:
    """The sweep for a terminal."""
    ink = Ink(color)
    savings = saving_rows(sweep)
    parts = [
        wrapped(ink.strong(sweep.sentence), WIDTH),
        wrapped(" · ".join(sweep.facts), WIDTH),
        table(["", *FIGURES], _grouped(sweep, figure_cells, len(FIGURES), ink)),
        wrapped(_measured_words(sweep), WIDTH),
        table(
            ["ceilings, tok/s", *(name.removesuffix(" ceiling") for name in LIMITS)],
            _grouped(sweep, limit_cells, len(LIMITS), ink),
            right=1,
        ),
        table(list(SAVINGS), savings, right=1) if savings else "",
        wrapped(_savings_words(sweep), WIDTH) if savings else "",
        _notes(sweep),
        _next(sweep, ink),
    ]
    return "\n\n".join(part for part in parts if part)


def _grouped(
    sweep: SweepAnalysis, cells: Callable[[SweepRow], list[str]], width: int, ink: Ink
) -> list[list[str]]:
    """Rows under a line for each mode; a mode that could not run says so in place of figures."""
    rows = []
    for mode in sweep.modes:
        rows.append([ink.strong(mode), *[""] * width])
        rows += [[f"  {row.place.words}", *cells(row)] for row in sweep.of_mode(mode)]
    return rows


def figure_cells(row: SweepRow) -> list[str]:
    """The figures of a row as text, in the order of `FIGURES`."""
    if row.repeats == 0:
        return ["failed", *[units.MISSING] * (len(FIGURES) - 1)]
    cold, warm = start_words(row.start)
    return [
        units.MISSING if row.tokens_per_s is None else units.digits(row.tokens_per_s),
        units.time(row.step_ns),
        idle_words(row),
        units.count(row.kernels),
        units.count(row.launches),
        cold,
        warm,
    ]


def idle_words(row: SweepRow) -> str:
    """The idle share; as profiled it is an upper bound, and reads so."""
    text = units.share(row.idle_share, 1)
    return f"≤ {text}" if row.idle_source == "as profiled" else text


def limit_cells(row: SweepRow) -> list[str]:
    """The ceilings of a row as text, in the order of `LIMITS`."""

    def rate(value: float | None) -> str:
        return units.MISSING if value is None else units.digits(value)

    return [
        rate(row.launch_tokens_per_s),
        rate(row.bandwidth_tokens_per_s),
        row.binding or units.MISSING,
        units.share(row.distance, 1),
        units.count(row.replays),
        choice_words(row),
    ]


def choice_words(row: SweepRow) -> str:
    """How many matrix products went to which kind of kernel, most first."""
    return ", ".join(f"{kind} {units.count(n)}" for kind, n in (row.choices or {}).items())


def start_words(start: ModeStart | None) -> tuple[str, str]:
    """Seconds until ready, cold and warm; a mode without a cache has one time, said once."""
    if start is None:
        return units.MISSING, units.MISSING

    def seconds(ns: float | None) -> str:
        return units.MISSING if ns is None else units.time_value(ns, "s")

    if start.cold_ns is None and start.warm_ns is None and start.partly_ns is None:
        if start.uncached_ns is None:
            return units.MISSING, units.MISSING
        return "no cache", seconds(start.uncached_ns)
    warm = seconds(start.warm_ns)
    if start.warm_ns is None and start.partly_ns is not None:
        warm = f"{seconds(start.partly_ns)} partly"
    return seconds(start.cold_ns), warm


SAVINGS = ("fusion, per step", "predicted", "own eager", "realised", "bytes", "from")


def saving_rows(sweep: SweepAnalysis) -> list[list[str]]:
    """The savings of each point as text, in the order of `SAVINGS`."""
    return [
        [
            item.place.words,
            units.time(item.predicted_ns),
            units.time(item.own_ns),
            signed(item.realised_ns),
            units.size(item.predicted_bytes),
            item.realised_from or "",
        ]
        for item in sweep.savings
    ]


def signed(ns: float | None) -> str:
    """A saving; a loss has a minus."""
    if ns is None:
        return units.MISSING
    return f"−{units.time(-ns)}" if ns < 0 else units.time(ns)


def _measured_words(sweep: SweepAnalysis) -> str:
    """How the figures were measured."""
    sources = {row.rate_source for row in sweep.rows if row.rate_source}
    idles = {row.idle_source for row in sweep.rows if row.idle_source}
    if not sources:
        return ""
    text = f"Rates and steps: {' and '.join(sorted(sources))}"
    if idles:
        mixed = " and ".join(sorted(idles, reverse=True))
        text += f"; idle: {mixed}" + (" (≤)" if "as profiled" in idles else "")
    text += "; kernels and launch calls per step, a replay is one call."
    if any(row.start is not None for row in sweep.rows):
        text += (
            " Start: until nothing compiles or is captured any more, with an empty compile cache "
            "and with a full one; `no cache`: the mode compiles nothing, every start is alike."
        )
        if any(row.padding_share is not None for row in sweep.rows):
            text += " With buckets one start covers all lengths."
    return text


def _savings_words(sweep: SweepAnalysis) -> str:
    bases = dict.fromkeys(s.predicted_from for s in sweep.savings if s.predicted_from)
    sources = dict.fromkeys(s.source for s in sweep.savings if s.source)
    if not bases:
        return "Realised: busy time of the plain step less that of the compiled one."
    return (
        f"Predicted from the eager step of {', '.join(bases)} ({', '.join(sources)}), scaled to "
        "each batch; realised: busy time of the plain step less that of the compiled one."
    )


def _notes(sweep: SweepAnalysis) -> str:
    shown = [wrapped(note, WIDTH, indent="  ") for note in sweep.notes[:NOTES_SHOWN]]
    rest = len(sweep.notes) - NOTES_SHOWN
    if rest > 0:
        shown.append(f"  … {rest} more in --json")
    return "\n".join(shown)


def _next(sweep: SweepAnalysis, ink: Ink) -> str:
    places = sweep.places
    return ink.next("analyze", places[0].path) if places else ""


def render_sweep_markdown(sweep: SweepAnalysis, privacy: Privacy = Privacy.OPEN) -> str:
    """The sweep as a GitHub comment: one table with everything, the savings, the notes."""
    header = ["mode", "point", *FIGURES, *LIMITS]
    rows = [
        [
            github.plain(row.mode),
            github.plain(row.place.words),
            *[github.plain(cell) for cell in (*figure_cells(row), *limit_cells(row))],
        ]
        for mode in sweep.modes
        for row in sweep.of_mode(mode)
    ]
    parts = [
        f"### {github.plain(sweep.sentence)}",
        github.plain(privacy.text(" · ".join(sweep.facts))),
        github.table(header, rows, left=2),
    ]
    optional = []
    savings = saving_rows(sweep)
    if savings:
        cells = [[github.plain(cell) for cell in row] for row in savings]
        optional.append(f"{github.table(list(SAVINGS), cells)}\n\n{_savings_words(sweep)}")
    if sweep.notes:
        lines = [f"- {github.plain(privacy.text(note))}" for note in sweep.notes]
        optional.append(github.folded("notes", "\n".join(lines)))
    from gaptrace.report.markdown import command

    optional.append(command("analyze", [privacy.path(sweep.path)]))
    return github.fitted([part for part in parts if part], optional)
