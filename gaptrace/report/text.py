"""The terminal report: 80 columns, the answer first, plain when colour is off."""

from __future__ import annotations

import numpy as np

from gaptrace import units
from gaptrace.measure.frames import gap_columns
from gaptrace.measure.gaps import CAUSES as CAUSE_ORDER
from gaptrace.measure.quality import NOTE
from gaptrace.measure.result import Analysis
from gaptrace.report import palette
from gaptrace.report.bars import Part, bar
from gaptrace.report.predict_text import help_section
from gaptrace.report.run_parts import SEAMS, SEAMS_SAID, piece_words, seam_rows
from gaptrace.report.terminal import Ink, nearest, table, wrapped

WIDTH = 80
GAPS_SHOWN = 5
FINDINGS_SHOWN = 5
KERNELS_SHOWN = 5
OPS_SHOWN = 5
NOTES_SHOWN = 6
METRICS = {
    "period_ns": "step time",
    "busy_ns": "GPU busy",
    "idle_ns": "GPU idle",
    "host_dispatch_ns": "host dispatch",
    "kernels": "kernels",
    "launches": "launch calls",
    "copies": "copies",
    "memsets": "memsets",
}


def text_report(analysis: Analysis, *, color: bool) -> str:
    """The whole analysis for a terminal."""
    ink = Ink(color)
    parts = [
        wrapped(ink.strong(analysis.sentence), WIDTH),
        _trace_lines(analysis, ink),
        _step_table(analysis),
        _bars(analysis, ink),
        _ceilings(analysis),
        _what_ifs(analysis),
        _pieces(analysis),
        help_section(analysis.prediction, color=color),
        _findings(analysis, ink),
        _host(analysis),
        _power(analysis),
        _kernels(analysis),
        gap_table(analysis, GAPS_SHOWN, color=color),
        _next(analysis, ink),
    ]
    return "\n\n".join(part for part in parts if part)


def _trace_lines(analysis: Analysis, ink: Ink) -> str:
    head, source, quality = analysis.headline, analysis.source, analysis.quality
    facts = [f"trace: {ink.verdict(quality.verdict)}"]
    if analysis.step_table is not None and len(analysis.step_table):
        rule = analysis.step_table.rule
        if head.complete:
            facts.append(f"{units.count(head.complete)} complete steps of {head.count} ({rule})")
        elif head.count:
            facts.append(f"no complete step of {head.count} ({rule})")
        if head.tokens_per_step and head.tokens_per_step != 1:
            facts.append(f"{units.count(head.tokens_per_step)} tokens per step")
    if source.gpu:
        facts.append(source.gpu)
    if source.engine:
        facts.append(source.engine)
    if source.mode:
        facts.append(f"mode {source.mode}")
    if head.rate.source == "unprofiled":
        facts.append("unprofiled times from the run")
        if head.rate.dilation:
            facts.append(f"profiled steps are {units.digits(head.rate.dilation, 2)}x slower")
    lines = [wrapped(" · ".join(facts), WIDTH)]
    shown = quality.reasons[:NOTES_SHOWN]
    for reason in shown:
        count = f" ({units.count(reason.count)})" if reason.count > 1 else ""
        gone = f"; withheld: {', '.join(reason.withheld)}" if reason.withheld else ""
        sign = "·" if reason.level == NOTE else "!"
        lines.append(wrapped(f"{sign} {reason.text}{count}{gone}", WIDTH, indent="  "))
    if len(quality.reasons) > len(shown):
        lines.append(f"  … {len(quality.reasons) - len(shown)} more in --json")
    return "\n".join(lines)


def _step_table(analysis: Analysis) -> str:
    head = analysis.headline
    rows = []
    for name, title in METRICS.items():
        spread, token = head.steps[name], head.per_token[name]
        if spread.median is None:
            continue
        if name in ("copies", "memsets") and not spread.p95:
            continue
        if name.endswith("_ns"):
            unit = units.time_unit(spread.median)
            cells = [units.time_value(v, unit) for v in (spread.median, spread.p5, spread.p95)]
            rows.append([f"{title}, {unit}", *cells, units.time(token.median)])
        else:
            cells = [units.count(v) for v in (spread.median, spread.p5, spread.p95)]
            rows.append([title, *cells, units.count(token.median)])
    if not rows:
        return ""
    return table(["one step", "median", "p5", "p95", "per token"], rows)


def _bars(analysis: Analysis, ink: Ink) -> str:
    head = analysis.headline
    busy = head.per_token["busy_ns"].median
    causes = {k: v for k, v in head.idle_by_cause_ns.items() if v}
    lines = []
    if busy is not None:
        parts = [Part(palette.BUSY, busy, "busy")]
        parts += [
            Part(look, causes[name], look.word)
            for name, look in palette.CAUSES.items()
            if name in causes
        ]
        idle = head.per_token["idle_ns"].median
        if not causes and idle:
            parts.append(Part(palette.CAUSES["unattributed"], idle, "idle, causes withheld"))
        lines.append(
            f"GPU, one token, medians of its parts: {units.time(sum(part.value for part in parts))}"
        )
        lines += bar(parts, WIDTH, ink)
    host = {k: v for k, v in head.host_time_ns.items() if v}
    if host and max(host.values()) > 0:
        parts = [
            Part(look, host[name], look.word) for name, look in palette.HOST.items() if name in host
        ]
        lines.append(
            "host, one token, medians of its parts: "
            f"{units.time(sum(part.value for part in parts))}"
        )
        lines += bar(parts, WIDTH, ink)
    return "\n".join(lines)


def _ceilings(analysis: Analysis) -> str:
    c = analysis.ceilings
    if c.launch_tokens_per_s is None and c.bandwidth_tokens_per_s is None:
        return ""
    moved = c.step_bytes
    lines = ["ceilings"]
    if c.launch_tokens_per_s is None:
        lines.append("  launch     withheld with the host dispatch time, see above")
    if c.launch_tokens_per_s is not None:
        lines.append(
            f"  launch     {units.rate(c.launch_tokens_per_s)}  "
            f"(host dispatch {units.time(c.host_dispatch_ns)}, {c.host_dispatch_source})"
        )
    if c.bandwidth_tokens_per_s is not None:
        cache = f" + KV {units.size(moved.kv_bytes)}" if moved.kv_bytes else ", weights only"
        lines.append(
            f"  bandwidth  {units.rate(c.bandwidth_tokens_per_s)}  "
            f"({units.size(moved.weight_bytes)} weights{cache}; "
            f"{units.bandwidth(c.peak_bandwidth)}, {c.peak_source})"
        )
    elif moved.weight_bytes is None and moved.weight_source:
        lines.append(f"  bandwidth  unknown: {moved.weight_source} (--weight-bytes)")
    elif moved.weight_bytes is None:
        lines.append(
            "  bandwidth  unknown: no shapes recorded (record_shapes=True, --weight-bytes)"
        )
    else:
        lines.append("  bandwidth  unknown: no peak bandwidth for this GPU (--peak-bandwidth)")
    if c.binding:
        text = f"  {'lower ceiling' if c.pacing_words else 'binding'}: {c.binding}"
        if c.distance is not None:
            text += f", measured at {units.share(c.distance, 1)} of it"
        text += f"; {c.pacing_words}" if c.pacing_words else ""
        if c.handover_bits is not None:
            text += f"; hand-over at {units.digits(c.handover_bits)} bits per weight"
            if c.bits is not None:
                text += f" (now {units.digits(c.bits, 2)})"
        lines.append(wrapped(text, WIDTH, indent="  "))
    return "\n".join(lines)


def _what_ifs(analysis: Analysis) -> str:
    if not analysis.what_ifs:
        return ""
    rows = [
        [
            item.title,
            units.time(item.step_ns),
            units.rate(item.tokens_per_s),
            item.binds,
        ]
        for item in analysis.what_ifs
    ]
    return table(["what if (modelled)", "step", "rate", "binds"], rows)


def _pieces(analysis: Analysis) -> str:
    found = analysis.piecewise
    if found is None:
        return ""
    lines = [wrapped(f"pieces: {piece_words(found)}", WIDTH)]
    rows = [[units.middle_elided(row[0], 32), *row[1:]] for row in seam_rows(found)]
    said = wrapped(SEAMS_SAID, WIDTH, indent="  ")
    return "\n".join([*lines, table(list(SEAMS), rows), said])


def _findings(analysis: Analysis, ink: Ink) -> str:
    if not analysis.findings:
        return ""
    lines = ["findings"]
    for finding in analysis.findings[:FINDINGS_SHOWN]:
        gain = (
            f"up to {units.time(finding.ceiling_ns_per_token)}/token"
            if finding.ceiling_ns_per_token > 0
            else ""
        )
        head = f"  {ink.strong(finding.id)}  {finding.title}"
        lines.append(f"{head}  {gain}".rstrip())
        lines.append(wrapped(finding.text, WIDTH, indent="         "))
    rest = len(analysis.findings) - FINDINGS_SHOWN
    if rest > 0:
        lines.append(f"  … {rest} more in --json")
    return "\n".join(lines)


def _host(analysis: Analysis) -> str:
    host = analysis.host
    facts = [
        (host.cost_per_launch_ns, "host dispatch per launch"),
        (host.launch_call_ns, "in the launch call"),
        (host.launch_to_start_ns, "from launch call to start"),
    ]
    known = [f"{units.time(ns)} {words}" for ns, words in facts if ns is not None]
    lines = [wrapped("medians: " + ", ".join(known), WIDTH)] if known else []
    rows = [
        [
            units.middle_elided(row.name, 40),
            units.count(row.calls),
            units.time_value(row.self_ns, "µs"),
            units.count(row.launches),
        ]
        for row in host.ops[:OPS_SHOWN]
        if row.self_ns
    ]
    if rows:
        lines.append(table(["ops by own host time", "per token", "µs/token", "launches"], rows))
    functions = [
        [units.middle_elided(row.name, 60), units.time_value(row.self_ns, "µs")]
        for row in host.python[:OPS_SHOWN]
    ]
    if functions:
        lines.append(table(["Python between ops", "µs/token"], functions))
    return "\n\n".join(lines)


def _power(analysis: Analysis) -> str:
    power = analysis.power
    if power is None:
        return ""
    text = f"power {units.digits(power.mean_w)} W"
    if power.limit_w:
        text += f" of {units.digits(power.limit_w)} W ({units.share(power.share, 1)})"
    if power.sm_mhz:
        limit = f" of {units.count(power.sm_mhz_max)}" if power.sm_mhz_max else ""
        text += f", SM clock {units.count(power.sm_mhz)}{limit} MHz"
    if power.joules_per_token:
        text += f", {units.digits(power.joules_per_token)} J per token"
    busy = analysis.headline.steps["busy_ns"].median
    step = analysis.headline.rate.unprofiled_step_ns
    if busy and step:
        text += f"; the GPU is busy {units.share(busy, step)} of the time"
    return wrapped(text, WIDTH)


def _kernels(analysis: Analysis) -> str:
    rows = [
        [
            units.middle_elided(row.short, 36),
            palette.OP_CLASSES[row.op_class].word,
            units.count(row.per_token),
            units.time_value(row.total_ns_per_token, "µs"),
            units.share(row.share, 1),
        ]
        for row in analysis.kernels.rows[:KERNELS_SHOWN]
    ]
    if not rows:
        return ""
    return table(["longest kernels", "class", "per token", "µs/token", "share"], rows, left=2)


def gap_table(analysis: Analysis, top: int, *, color: bool) -> str:
    """The longest gaps with cause and neighbours; of the counted steps where there are any."""
    del color
    columns = gap_columns(analysis)
    if not columns or len(columns["gap"]) == 0:
        return ""
    dur, step = np.asarray(columns["dur_ns"]), np.asarray(columns["step"])
    order = np.lexsort((np.arange(dur.size), -dur))
    steps = analysis.step_table
    where = ""
    if steps is not None and steps.counted.any() and steps.rule != "whole trace":
        order = order[(step[order] >= 0) & steps.counted[np.maximum(step[order], 0)]]
        where = " (counted steps)"
    hidden = analysis.quality.withholds("causes")
    rows = [
        [
            units.time(int(dur[i])),
            str(step[i]) if step[i] >= 0 else units.MISSING,
            "withheld" if hidden else _cause_text(columns, int(i)),
            units.middle_elided(_short(columns["before"][i]), 22),
            units.middle_elided(_short(columns["after"][i]), 22),
        ]
        for i in order[:top]
    ]
    title = "longest gap" if len(rows) == 1 else "longest gaps"
    return table([title + where, "step", "cause", "after", "before"], rows, left=0, right=2)


def _cause_text(columns: dict[str, object], index: int) -> str:
    parts = {name: int(columns[f"{name}_ns"][index]) for name in CAUSE_ORDER}  # type: ignore[index]
    largest = max(parts, key=lambda name: parts[name])
    more = sum(1 for value in parts.values() if value) - 1
    return f"{largest} +{more}" if more else largest


def _short(name: str) -> str:
    from gaptrace.knowledge.kernel_names import classify

    return classify(name).short


def _next(analysis: Analysis, ink: Ink) -> str:
    path = analysis.source.path
    if path == "-":
        return ""
    lines = [ink.next("gaps", nearest(path))]
    if analysis.findings:
        lines.append(ink.next("explain", analysis.findings[0].id))
    return "\n".join(lines)
