"""The document of a sweep: curves first, then every mode at every point, savings and notes."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence

from gaptrace import units
from gaptrace.document.blocks import (
    Block,
    Chart,
    Detail,
    Document,
    Note,
    Panel,
    Point,
    Sentence,
    Series,
    Table,
    Text,
)
from gaptrace.document.build import builder
from gaptrace.document.capture import SOURCES
from gaptrace.document.sections import SWEEP, Context, build, section
from gaptrace.document.sweep_words import point_words, sentence
from gaptrace.document.tables import Col, by_basis, figures, known, table, words
from gaptrace.quantity import (
    AT_MOST,
    BYTES,
    COUNT,
    EXACT,
    NS,
    PREDICTED,
    SHARE,
    TOKENS_PER_S,
    TRACED,
    Quantity,
)
from gaptrace.results.run import ModeStart, SweepPoint, SweepResult, SweepRow, SweepSaving

Sized = SweepPoint | SweepRow | SweepSaving


def axis(sweep: SweepResult) -> str:
    """What the horizontal axis counts: `batch`, or `length` where only that varies."""
    batches = {point.batch for point in sweep.points}
    lengths = {point.length for point in sweep.points}
    return "length" if (len(batches) == 1 and len(lengths) > 1) or batches == {None} else "batch"


def _at(item: Sized, along: str) -> int | None:
    return item.batch if along == "batch" else item.length


def _groups(sweep: SweepResult, along: str) -> list[tuple[str, set[str]]]:
    """The points that one panel shows, by the size that its axis does not count."""
    other = "length" if along == "batch" else "batch"
    found: dict[int | None, set[str]] = {}
    for point in sweep.points:
        if _at(point, along) is not None:
            found.setdefault(_at(point, other), set()).add(point.point)
    return [
        (f" · {other} {units.count(n)}" if len(found) > 1 and n is not None else "", points)
        for n, points in found.items()
    ]


def _basis(source: str | None) -> str:
    return SOURCES.get(source or "", TRACED)


def _rate(row: SweepRow) -> Quantity | None:
    return known(row.tokens_per_s, TOKENS_PER_S, _basis(row.rate_source))


def _step(row: SweepRow) -> Quantity | None:
    return known(row.step_ns, NS, _basis(row.rate_source))


def _idle(row: SweepRow) -> Quantity | None:
    """The idle share; as profiled it is an upper bound."""
    basis = _basis(row.idle_source)
    return known(row.idle_share, SHARE, basis, AT_MOST if basis == TRACED else EXACT)


def _limit(name: str) -> Callable[[SweepRow], Quantity | None]:
    return lambda row: known(getattr(row, name), TOKENS_PER_S)


def _rows(sweep: SweepResult) -> list[SweepRow]:
    """Rows by mode, each mode's points in order."""
    return [row for mode in sweep.modes for row in sweep.rows if row.mode == mode]


def _series(
    rows: Sequence[SweepRow], along: str, value: Callable[[SweepRow], Quantity | None],
    label: str, style: str = "line",
) -> Series | None:  # fmt: skip
    points = tuple(
        Point(_at(row, along) or 0, quantity, f"{row.mode}, {point_words(row)}", row.mode)
        for row in rows
        if (quantity := value(row)) is not None
    )
    return Series(label, points, rows[0].mode, style) if points else None


def _panel(
    title: str, along: str, label: str, unit: str, series: Sequence[Series | None],
    scale: str = "linear",
) -> Panel | None:  # fmt: skip
    kept = tuple(item for item in series if item is not None)
    ticks = tuple((float(x), units.count(x)) for x in sorted({p.x for s in kept for p in s.points}))
    return Panel(title, along, label, unit, kept, "log", scale, ticks) if kept else None


def rate_panels(sweep: SweepResult) -> tuple[Panel, ...]:
    """Tokens per second against the axis, a panel for each mode, both ceilings in it."""
    along = axis(sweep)
    found = []
    for suffix, points in _groups(sweep, along):
        for mode in sweep.modes:
            rows = [row for row in sweep.rows if row.mode == mode and row.point in points]
            measured = _series(rows, along, _rate, "measured")
            if measured is None:
                continue
            limits = [
                _series(rows, along, _limit(f"{name}_tokens_per_s"), f"{name} ceiling", style)
                for name, style in (("launch", "dashed"), ("bandwidth", "dotted"))
            ]
            title, series = f"{mode}{suffix}", [measured, *limits]
            found.append(_panel(title, along, "token rate", TOKENS_PER_S, series, "log"))
    return tuple(panel for panel in found if panel is not None)


def idle_panels(sweep: SweepResult) -> tuple[Panel, ...]:
    """Idle share of the step against the axis, all modes in one panel."""
    along = axis(sweep)
    panels = []
    for suffix, points in _groups(sweep, along):
        by_mode = [
            [row for row in sweep.rows if row.mode == mode and row.point in points]
            for mode in sweep.modes
        ]
        series = [_series(rows, along, _idle, rows[0].mode) for rows in by_mode if rows]
        panels.append(_panel(f"idle share{suffix}", along, "GPU idle", SHARE, series))
    return tuple(panel for panel in panels if panel is not None)


def saving_panels(sweep: SweepResult) -> tuple[Panel, ...]:
    """Busy time that fusion saves per step: predicted from eager shapes, and measured."""
    along = axis(sweep)
    panels = []
    for suffix, points in _groups(sweep, along):
        mine = [saving for saving in sweep.savings if saving.point in points]
        series = []
        for label, name, basis in (
            ("predicted", "predicted_ns", PREDICTED),
            ("measured", "realised_ns", TRACED),
        ):
            marks = tuple(
                Point(
                    _at(item, along) or 0,
                    Quantity(getattr(item, name), NS, basis),
                    f"{label}, {point_words(item)}",
                    "compiled",
                    hatched=basis == PREDICTED,
                )
                for item in mine
                if getattr(item, name) is not None
            )
            style = "dashed" if basis == PREDICTED else "line"
            series.append(Series(label, marks, "compiled", style) if marks else None)
        panels.append(_panel(f"fusion saves per step{suffix}", along, "saved", NS, series))
    return tuple(panel for panel in panels if panel is not None)


@section(SWEEP, "curves", "Against batch and length")
def curves(sweep: SweepResult, context: Context) -> Iterator[Block]:
    """Rates with both ceilings, idle shares, and what fusion saves, each with its numbers."""
    along = axis(sweep)
    bases = dict.fromkeys(s.predicted_from for s in sweep.savings if s.predicted_from)
    base = f" of {', '.join(bases)}" if bases else ""
    for key, text, panels, twin in (
        (
            "rates",
            f"Tokens per second against {along}, one panel a mode, both axes logarithmic: how far "
            "the measured rate stays below its two ceilings, and which of them is the lower one.",
            rate_panels(sweep),
            _limits(sweep, f"{context.prefix}rates"),
        ),
        (
            "idle",
            f"Share of the step that the GPU idles, against {along}.",
            idle_panels(sweep),
            _idles(sweep, f"{context.prefix}idle"),
        ),
        (
            "savings",
            f"Busy time that fusion saves per step, against {along}: predicted from the eager "
            f"step{base}, and what compiling saved.",
            saving_panels(sweep),
            _savings(sweep, f"{context.prefix}savings"),
        ),
    ):
        if panels:
            yield Sentence((text,), "lead")
            title = {"rates": "rates and ceilings", "idle": "idle share", "savings": "savings"}[key]
            yield Chart(f"{context.prefix}{key}", title, "panels", panels, twin)
        elif key == "rates":
            yield Note(("no point of this sweep has a figure to draw",))
        if key == "savings" and sweep.savings:
            yield Note((_savings_words(sweep),))


@section(SWEEP, "figures", "Every mode at every point", brief=True)
def numbers(sweep: SweepResult, context: Context) -> Iterator[Block]:
    """Rate, step, idle share and counts of every mode at every point, and how they are known."""
    yield _figures(sweep, f"{context.prefix}figures", context.detail)
    if context.brief:
        yield _limits(sweep, f"{context.prefix}limits")
    yield _starts(sweep, f"{context.prefix}starts", context.detail)
    yield Note((_words(sweep),))


_NAMED: tuple[Col[SweepRow], ...] = (
    words("mode", lambda row: Text(row.mode, term="mode", key=row.mode), "mode", "mode"),
    figures("batch", COUNT, lambda row: row.batch, term="point"),
    figures("length", COUNT, lambda row: row.length, term="point"),
)


def _figures(sweep: SweepResult, anchor: str, detail: Detail) -> Table:
    rows = _rows(sweep)
    more: tuple[Col[SweepRow], ...] = (
        figures("busy", NS, lambda row: row.busy_ns, TRACED, "busy"),
        figures("spread", SHARE, lambda row: row.step_spread, term="spread"),
        figures("replays", COUNT, lambda row: row.replays, term="graph-replay"),
    )
    return table(
        anchor,
        "",
        rows,
        [
            *_NAMED,
            *by_basis("rate", TOKENS_PER_S, _rate, rows, "tokens-per-s"),
            *by_basis("step", NS, _step, rows, "period"),
            *by_basis("idle", SHARE, _idle, rows, "idle"),
            figures("kernels", COUNT, lambda row: row.kernels, term="kernel"),
            figures("launches", COUNT, lambda row: row.launches, term="launch-call"),
            *(more if detail is Detail.FULL else ()),
            words("failed", lambda row: None if row.repeats else _failed(row)),
        ],
        shown=len(rows),
        weak=lambda row: not row.repeats,
        key=lambda row: row.mode,
    )


def _idles(sweep: SweepResult, anchor: str) -> Table:
    rows = [row for row in _rows(sweep) if row.idle_share is not None]
    columns = [*_NAMED, *by_basis("idle", SHARE, _idle, rows, "idle")]
    return table(anchor, "idle share", rows, columns, shown=len(rows), key=lambda row: row.mode)


def _failed(row: SweepRow) -> str:
    status = row.status.replace("_", " ")
    return f"{status}: {row.reason}" if row.reason else status


def _limits(sweep: SweepResult, anchor: str) -> Table:
    rows = [row for row in _rows(sweep) if row.repeats]
    return table(
        anchor,
        "ceilings",
        rows,
        [
            *_NAMED,
            *by_basis("rate", TOKENS_PER_S, _rate, rows, "tokens-per-s"),
            figures("launch ceiling", TOKENS_PER_S, _limit("launch_tokens_per_s"),
                    term="launch-ceiling"),
            figures("bandwidth ceiling", TOKENS_PER_S, _limit("bandwidth_tokens_per_s"),
                    term="bandwidth-ceiling"),
            words("limited by", lambda row: row.binding, "binding-ceiling"),
            figures("reached", SHARE, lambda row: row.distance),
        ],
        shown=len(rows),
        key=lambda row: row.mode,
    )  # fmt: skip


def _starts(sweep: SweepResult, anchor: str, detail: Detail) -> Table:
    """Until nothing compiles or is captured any more; what tuning chose; what buckets pad."""
    rows = [r for r in _rows(sweep) if r.startup is not None or r.choices or r.padding_share]

    def start(name: str) -> Callable[[SweepRow], Quantity | None]:
        def ns(row: SweepRow) -> Quantity | None:
            found: ModeStart | None = row.startup
            return None if found is None else known(getattr(found, name), NS)

        return ns

    parts: tuple[Col[SweepRow], ...] = (
        figures("compiling", NS, start("compile_ns")),
        figures("autotuning", NS, start("autotune_ns"), term="autotune"),
        figures("capturing", NS, start("capture_ns")),
    )
    return table(
        anchor,
        "starts",
        rows,
        [
            *_NAMED,
            figures("cold start", NS, start("cold_ns"), term="cold-start"),
            figures("warm start", NS, start("warm_ns"), term="cold-start"),
            figures("partly warm", NS, start("partly_ns")),
            figures("no cache", NS, start("uncached_ns")),
            *(parts if detail is Detail.FULL else ()),
            figures("padding", SHARE, lambda row: row.padding_share, term="padding"),
            words("tuned", _choices, "autotune"),
        ],
        shown=len(rows),
        key=lambda row: row.mode,
    )


def _choices(row: SweepRow) -> str:
    """How many matrix products went to which kind of kernel, most first."""
    return ", ".join(f"{kind} {units.count(n)}" for kind, n in (row.choices or {}).items())


def _words(sweep: SweepResult) -> str:
    """What the figures are."""
    text = "counts and times are per step; a replay is one launch call"
    if any(row.startup is not None for row in sweep.rows):
        text += (
            "; a start lasts until nothing compiles or is captured any more, cold with an empty "
            "compile cache and warm with a full one; a mode without a cache starts alike each time"
        )
    if any(row.padding_share is not None for row in sweep.rows):
        text += "; with buckets one start covers all lengths"
    return text


@section(SWEEP, "savings", "Fusion savings", brief=True)
def savings(sweep: SweepResult, context: Context) -> Iterator[Block]:
    """What fusion saves of the GPU's busy time in one step, point by point."""
    # The full form has the table beside its curve.
    if sweep.savings and (context.brief or not saving_panels(sweep)):
        yield _savings(sweep, f"{context.prefix}saved")
        yield Note((_savings_words(sweep),))


def _savings(sweep: SweepResult, anchor: str) -> Table:
    return table(
        anchor,
        "fusion, per step",
        sweep.savings,
        [
            figures("batch", COUNT, lambda s: s.batch, term="point"),
            figures("length", COUNT, lambda s: s.length, term="point"),
            figures("predicted", NS, lambda s: s.predicted_ns, PREDICTED, "predicted-fusion"),
            figures("from its own eager step", NS, lambda s: s.own_ns, PREDICTED),
            figures("measured", NS, lambda s: s.realised_ns, TRACED, "measured-savings"),
            figures("bytes", BYTES, lambda s: s.predicted_bytes, PREDICTED),
            words("predicted from", lambda s: s.predicted_from),
            words("by", lambda s: s.source),
            words("measured on", lambda s: s.realised_from),
        ],
        shown=len(sweep.savings),
    )


def _savings_words(sweep: SweepResult) -> str:
    bases = dict.fromkeys(s.predicted_from for s in sweep.savings if s.predicted_from)
    sources = dict.fromkeys(s.source for s in sweep.savings if s.source)
    text = "measured: busy time of the plain step less that of the compiled one"
    if not bases:
        return text
    origin = f"{', '.join(bases)} ({', '.join(sources)})"
    return f"predicted from the eager step of {origin}, scaled to each batch; {text}"


@section(SWEEP, "findings", "Findings", brief=True)
def findings(sweep: SweepResult, context: Context) -> Iterator[Block]:
    """What has a gain at any point: analyse that point for how much."""
    del context
    if sweep.findings:
        named = ", ".join(f"{id_} {title}" for id_, title in sweep.findings)
        yield Note((f"findings with a gain at some point: {named}",))


@section(SWEEP, "notes", "Notes", brief=True)
def notes(sweep: SweepResult, context: Context) -> Iterator[Block]:
    """What to know about single cells."""
    del context
    for note in sweep.notes:
        yield Note((note,))


@section(SWEEP, "next", "Next", brief=True)
def commands(sweep: SweepResult, context: Context) -> Iterator[Block]:
    """The command to type next: one point alone."""
    del context
    if sweep.points and sweep.points[0].path:
        path = shlex.quote(sweep.points[0].path)
        yield Note((), "next", commands=(f"gaptrace analyze {path}",))


@builder(SweepResult)
def sweep_document(result: SweepResult, context: Context) -> Document:
    """Everything that is said about a sweep, in the detail that is asked for."""
    return Document(
        kind=SWEEP,
        title=result.name,
        answer=Sentence((result.sentence or sentence(result),), "answer"),
        identity=result.facts,
        sections=build(SWEEP, result, context),
        result=result,
        detail=context.detail,
    )
