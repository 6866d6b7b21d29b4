"""The top of a page: the sentence, the trust in it, where a token's time goes, the ceilings."""

from __future__ import annotations

from gaptrace import units
from gaptrace.measure.quality import LIMITED, NOTE, REFUSED, Quality
from gaptrace.measure.result import Analysis
from gaptrace.report import palette
from gaptrace.report.charts import bars, ceilings_chart, token_rows
from gaptrace.report.context import Context, Section, section, swatch
from gaptrace.report.markup import Markup, element, markup, shortened
from gaptrace.report.tables import Cell, Number, counted, data_table, shared, timed

SIGN = {"ok": "✓", LIMITED: "!", REFUSED: "✕", NOTE: "·"}
# Label and glossary entry of each figure of a step, in the order shown.
STEP_FIGURES = {
    "period_ns": ("step time", "period"),
    "busy_ns": ("GPU busy", "busy"),
    "idle_ns": ("GPU idle", "idle"),
    "host_dispatch_ns": ("host dispatch", "host-dispatch"),
    "kernels": ("kernels", "kernel"),
    "launches": ("launch calls", "launch-call"),
    "copies": ("copies", "copies"),
    "memsets": ("memsets", "copies"),
}


def identity(analysis: Analysis, context: Context) -> list[str]:
    """What was recorded, in short: model, GPU, mode, torch, batch; unknown facts are left out."""
    source, manifest = analysis.source, analysis.manifest
    torch = source.torch
    batch = manifest.integer("step", "batch") if manifest else None
    known = [
        source.model,
        source.gpu,
        source.engine,
        f"mode {source.mode}" if source.mode else None,
        f"torch {torch}" if torch else None,
        f"batch {batch}" if batch else None,
        f"rank {source.rank}" if source.rank else None,
    ]
    return [shortened(context.privacy.text(text), 80) for text in known if text]


def trust_line(analysis: Analysis, context: Context) -> Markup:
    """The verdict and how the headline was measured, in one line; then every reason."""
    quality, head, terms = analysis.quality, analysis.headline, context.terms
    facts: list[Markup | str] = [
        markup("trace ", terms.link(quality.verdict, f"{SIGN[quality.verdict]} {quality.verdict}"))
    ]
    steps = analysis.step_table
    if steps is not None and len(steps):
        if head.complete:
            facts.append(
                markup(
                    f"{units.count(head.complete)} ",
                    terms.link("steps-complete", "complete steps"),
                    f" of {units.count(head.count)}",
                )
            )
        elif head.count:
            facts.append(markup("no ", terms.link("steps-complete", "complete step")))
        facts.append(markup(terms.link("step-rule", "steps by"), f" {steps.rule}"))
        if head.tokens_per_step and head.tokens_per_step != 1:
            facts.append(
                markup(
                    f"{units.count(head.tokens_per_step)} ",
                    terms.link("tokens-per-step", "tokens per step"),
                )
            )
    if head.rate.source == "unprofiled":
        facts.append(markup(terms.link("unprofiled-step", "unprofiled times"), " from the run"))
        if head.rate.dilation:
            facts.append(
                markup(
                    "profiled steps are ",
                    terms.link("dilation", f"{units.digits(head.rate.dilation, 2)}× slower"),
                )
            )
    elif head.rate.tokens_per_s:
        facts.append(markup("times ", terms.link("rate-source", "as profiled")))
    return element(
        "div",
        element("p", *_joined(facts), class_="trust"),
        reason_list(quality, context),
        id=context.id("quality"),
        class_=f"quality {quality.verdict}",
    )


def _joined(parts: list[Markup | str]) -> list[Markup | str]:
    line: list[Markup | str] = []
    for part in parts:
        line += [" · ", part] if line else [part]
    return line


def reason_list(quality: Quality, context: Context) -> Markup | None:
    """What weakens the figures, in the open; mere notes fold away."""
    grave = [reason for reason in quality.reasons if reason.level != NOTE]
    notes = [reason for reason in quality.reasons if reason.level == NOTE]

    def line(reason: object) -> Markup:
        text = shortened(context.privacy.text(reason.text), 600)  # type: ignore[attr-defined]
        count, withheld = reason.count, reason.withheld  # type: ignore[attr-defined]
        return element(
            "li",
            element("b", f"{SIGN[reason.level]} "),  # type: ignore[attr-defined]
            text,
            f" ({units.count(count)})" if count > 1 else None,
            markup("; ", context.terms.link("withheld"), f": {', '.join(withheld)}")
            if withheld
            else None,
        )

    word = "note" if len(notes) == 1 else "notes"
    return markup(
        element("ul", *[line(reason) for reason in grave], class_="reasons") if grave else None,
        element(
            "details",
            element("summary", f"{len(notes)} {word} about this trace"),
            element("ul", *[line(reason) for reason in notes], class_="reasons"),
        )
        if notes
        else None,
    )


def token_section(analysis: Analysis, context: Context) -> Section | None:
    """Where a token's time goes: bars, and the same numbers as a table."""
    rows = token_rows(analysis)
    if not rows:
        return None
    return section(
        context,
        "token",
        "Where a token’s time goes",
        element("figure", bars(rows, analysis.sentence)),
        element(
            "div",
            _parts_table(analysis, context),
            _step_numbers(analysis, context),
            class_="columns",
        ),
    )


def _parts_table(analysis: Analysis, context: Context) -> Markup:
    head, terms = analysis.headline, context.terms
    period, host = head.per_token["period_ns"].median, head.host_time_ns
    busy = head.per_token["busy_ns"].median
    window = sum(value for value in host.values() if value) or None
    unit = units.time_unit(max(period or 0, window or 0))
    rows: list[list[Cell]] = []
    if busy is not None:
        rows.append(
            [
                markup(swatch("k-busy"), terms.link("busy", "GPU busy")),
                timed(busy, unit),
                shared(busy, period),
                Number(None, ""),
                Number(None, ""),
            ]
        )
    for name, look in palette.HOST.items():
        idle, spent = head.idle_by_cause_ns.get(name), host.get(name)
        if not idle and not spent:
            continue
        rows.append(
            [
                markup(swatch(f"k-{name}"), terms.link(name, look.word)),
                timed(idle, unit) if idle else Number(0, ""),
                shared(idle, period) if idle else Number(0, ""),
                timed(spent, unit) if spent else Number(0, ""),
                shared(spent, window) if spent else Number(0, ""),
            ]
        )
    return data_table(
        "one token: GPU idle by cause, host time by class",
        [
            "median of one token",
            markup(terms.link("idle-per-token", "GPU"), f", {unit}"),
            "share",
            markup(terms.link("host-time", "host"), f", {unit}"),
            "share",
        ],
        rows,
    )


def _step_numbers(analysis: Analysis, context: Context) -> Markup:
    head, terms = analysis.headline, context.terms
    rows: list[list[Cell]] = []
    for name, (word, term) in STEP_FIGURES.items():
        spread, token = head.steps[name], head.per_token[name]
        if spread.median is None or (name in ("copies", "memsets") and not spread.p95):
            continue
        if name.endswith("_ns"):
            unit = units.time_unit(spread.median)
            cells = [timed(value, unit) for value in (spread.median, spread.p5, spread.p95)]
            cells.append(Number(token.median, units.time(token.median)))
            label = markup(terms.link(term, word), f", {unit}")
        else:
            cells = [counted(value) for value in (spread.median, spread.p5, spread.p95)]
            cells.append(counted(token.median))
            label = terms.link(term, word)
        rows.append([label, *cells])
    return data_table(
        "one step in numbers",
        [
            "one step",
            terms.link("median", "median"),
            "p5",
            "p95",
            terms.link("per-token", "per token"),
        ],
        rows,
    )


def ceilings_section(analysis: Analysis, context: Context) -> Section | None:
    """The two ceilings, which binds, and what a change would do."""
    c, terms = analysis.ceilings, context.terms
    chart = ceilings_chart(analysis)
    if chart is None:
        return None
    lines: list[Markup] = []
    if c.binding:
        verb = " is the lower" if c.pacing_words else " binds"
        said: list[Markup | str] = [markup("The ", terms.link(f"{c.binding}-ceiling"), verb)]
        if c.distance is not None:
            said.append(f"; the measured rate is {units.share(c.distance, 1)} of it")
        if c.pacing_words:
            said.append(f", {c.pacing_words}")
        if c.handover_bits is not None:
            now = f" (now {units.digits(c.bits, 2)})" if c.bits is not None else ""
            said.append(
                markup(
                    "; ",
                    terms.link("hand-over"),
                    f" at {units.digits(c.handover_bits)} bits per weight{now}",
                )
            )
        lines.append(element("p", *said, "."))
    elif c.bandwidth_tokens_per_s is None:
        lines.append(element("p", _why_no_bandwidth(analysis), class_="soft"))
    moved = c.step_bytes
    cells: list[tuple[Markup | str, Markup | str]] = [
        (
            terms.link("launch-ceiling"),
            markup(
                f"{units.rate(c.launch_tokens_per_s)}: ",
                terms.link("host-dispatch", "host dispatch"),
                f" {units.time(c.host_dispatch_ns)} a step, {c.host_dispatch_source}",
            ),
        )
    ]
    if c.bandwidth_tokens_per_s is not None:
        cache = f" + KV cache {units.size(moved.kv_bytes)}" if moved.kv_bytes else ", weights only"
        cells.append(
            (
                terms.link("bandwidth-ceiling"),
                markup(
                    f"{units.rate(c.bandwidth_tokens_per_s)}: ",
                    terms.link("weight-bytes", "weights"),
                    f" {units.size(moved.weight_bytes)} ({moved.weight_source}){cache}; ",
                    terms.link("peak-bandwidth"),
                    f" {units.bandwidth(c.peak_bandwidth)} ({c.peak_source})",
                ),
            )
        )
    from gaptrace.report.tables import facts

    return section(
        context,
        "ceilings",
        "Ceilings",
        *lines,
        element("figure", chart),
        facts(cells),
        _what_ifs(analysis, context),
    )


def _why_no_bandwidth(analysis: Analysis) -> str:
    if analysis.ceilings.step_bytes.weight_bytes is None:
        return (
            "The bandwidth ceiling is unknown: no shapes were recorded "
            "(record with record_shapes=True, or give --weight-bytes)."
        )
    return "The bandwidth ceiling is unknown: no peak bandwidth for this GPU (--peak-bandwidth)."


def _what_ifs(analysis: Analysis, context: Context) -> Markup | None:
    items = analysis.what_ifs
    if not items:
        return None
    unit = units.time_unit(max(item.step_ns for item in items))
    now = analysis.headline.rate.tokens_per_s
    rows: list[list[Cell]] = [
        [
            item.title,
            timed(item.step_ns, unit),
            Number(item.tokens_per_s, units.digits(item.tokens_per_s)),
            Number(item.tokens_per_s / now, f"{units.digits(item.tokens_per_s / now)}×")
            if now
            else Number(None, units.MISSING),
            item.binds,
        ]
        for item in items
    ]
    return markup(
        element("h3", context.terms.link("what-if", "What would help"), " (modelled)"),
        data_table(
            "what if: modelled steps",
            ["change", f"step, {unit}", "tok/s", "against now", "binds"],
            rows,
        ),
    )
