"""Analysis, run or comparison as Markdown for a pull request: read in ten seconds, then unfold."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from gaptrace import units
from gaptrace.compare.result import Comparison, MetricRow, Pair
from gaptrace.compare.words import change_text, signed_share, signed_time, value_text
from gaptrace.findings.rule import Finding
from gaptrace.knowledge.kernel_names import classify
from gaptrace.knowledge.rules import page
from gaptrace.measure.quality import NOTE
from gaptrace.measure.result import Analysis
from gaptrace.report import palette
from gaptrace.report.finding_list import ceiling_text
from gaptrace.report.github import bars, code, fitted, folded, plain, prose, table
from gaptrace.report.html_run import run_sentence
from gaptrace.report.matrix import (
    COLUMNS,
    MODES,
    ROWS,
    UNKNOWN,
    MatrixCell,
    run_cells,
    spread,
    square_cells,
)
from gaptrace.report.overview import SIGN
from gaptrace.report.predict_cells import run_predictions
from gaptrace.report.privacy import Privacy
from gaptrace.report.run_parts import host_words, run_parts
from gaptrace.runs.run import RunAnalysis, step_ns

KERNELS_SHOWN, GROUPS_SHOWN, EVIDENCE_SHOWN = 12, 12, 5
# The rows of the table on top, in order; the rest is in the folded parts.
PAIRED = (
    "step_time", "tokens_per_s", "idle", "idle_share", "busy", "host_dispatch", "kernels",
    "launches", "copies", "peak_memory",
)  # fmt: skip


def render_analysis_markdown(analysis: Analysis, privacy: Privacy = Privacy.OPEN) -> str:
    """One analysis as a GitHub comment."""
    return fitted(
        [
            f"### {plain(analysis.sentence)}",
            _trust(analysis, privacy),
            _figures(analysis),
            _token_bars(analysis),
        ],
        [
            *[_finding(finding, privacy) for finding in analysis.findings],
            _kernels(analysis),
            command("analyze", [privacy.path(analysis.path)]),
        ],
    )


def render_run_markdown(run: RunAnalysis, privacy: Privacy = Privacy.OPEN) -> str:
    """A run folder as a GitHub comment: the 2x2, the modes, the findings of each."""
    cells = run_cells(run, run_predictions(run))
    details = []
    for mode in run.modes:
        analysis = run.representative(mode)
        if analysis is not None:
            parts = [_trust(analysis, privacy), _figures(analysis), _token_bars(analysis)]
            details.append(
                folded(
                    f"{plain(mode)}: {plain(analysis.sentence)}",
                    "\n\n".join(part for part in parts if part),
                )
            )
            details += [_finding(f, privacy, f"{plain(mode)}: ") for f in analysis.findings]
    return fitted(
        [f"### {plain(run_sentence(run))}", _square(cells) if cells else "", _modes(run)],
        [*_parts(run, privacy), *details, command("analyze", [privacy.path(run.path)])],
    )


def _parts(run: RunAnalysis, privacy: Privacy) -> list[str]:
    """Starts, pieces, buckets, autotuning: folded, as a run may have many rows of each."""
    found = []
    for part in run_parts(run):
        rows = [[plain(cell) for cell in row] for row in part.rows]
        body = [table(part.header, rows)] if rows else []
        body.append("\n".join(f"- {plain(privacy.text(line))}" for line in part.lines))
        found.append(folded(plain(part.title), "\n\n".join(text for text in body if text)))
    return found


def render_comparison_markdown(comparison: Comparison, privacy: Privacy = Privacy.OPEN) -> str:
    """A comparison as a GitHub comment: metrics with verdicts, the bridge, kernels."""
    parts = [f"### {plain(comparison.sentence)}"]
    parts += [_banner(pair) for pair in comparison.pairs]
    square = comparison.two_by_two
    optional = []
    if square is not None:
        parts.append(_square(square_cells(square)))
    tripped = [gate for gate in comparison.gates if gate.status == "tripped"]
    parts += [f"- ✕ gate {code(gate.gate)}: {plain(gate.text)}" for gate in tripped]
    for i, pair in enumerate(comparison.pairs):
        several = len(comparison.pairs) > 1 or square is not None
        head = f"**{plain(pair.label)}**: {plain(pair.sentence)}" if several else ""
        text = "\n\n".join(part for part in (head, _metrics(pair), _bridge(pair)) if part)
        if i == 0:
            parts.append(text)
        else:
            optional.append(folded(f"{plain(pair.label)}: {plain(pair.sentence)}", text))
    for pair in comparison.pairs:
        optional += [_kernel_changes(pair), _notes(pair)]
    held = [gate for gate in comparison.gates if gate.status != "tripped"]
    if held:
        lines = [f"- {plain(g.status)}: {code(g.gate)} {plain(g.text)}" for g in held]
        optional.append(folded(f"{len(held)} gates not tripped", "\n".join(lines)))
    paths = [pair.baseline.path for pair in comparison.pairs[:1]]
    paths += [pair.candidate.path for pair in comparison.pairs]
    optional.append(command("compare", [privacy.path(path) for path in dict.fromkeys(paths)]))
    return fitted(parts, optional)


def _trust(analysis: Analysis, privacy: Privacy) -> str:
    quality, head, source = analysis.quality, analysis.headline, analysis.source
    facts = [f"trace **{SIGN[quality.verdict]} {quality.verdict}**"]
    if head.complete:
        facts.append(f"{units.count(head.complete)} complete steps of {units.count(head.count)}")
    facts += [plain(privacy.text(text), 80) for text in (source.gpu, source.model) if text]
    if source.mode:
        facts.append(f"mode {plain(source.mode, 40)}")
    if head.rate.source == "unprofiled" and head.rate.dilation:
        slow = units.digits(head.rate.dilation, 2)
        facts.append(f"unprofiled times; profiled steps are {slow}× slower")
    lines = [" · ".join(facts)]
    for reason in quality.reasons:
        if reason.level != NOTE:
            gone = f" (withheld: {', '.join(reason.withheld)})" if reason.withheld else ""
            lines.append(f"- {SIGN[reason.level]} {plain(privacy.text(reason.text))}{gone}")
    return "\n".join(lines)


def _figures(analysis: Analysis) -> str:
    head, rate, ceilings = analysis.headline, analysis.headline.rate, analysis.ceilings
    rows = []
    if rate.tokens_per_s is not None:
        rows.append(["tokens/s", units.rate(rate.tokens_per_s), "", rate.source])
    for name, title in (
        ("period_ns", "step time"), ("busy_ns", "GPU busy"), ("idle_ns", "GPU idle"),
        ("host_dispatch_ns", "host dispatch"), ("kernels", "kernels"),
        ("launches", "launch calls"),
    ):  # fmt: skip
        spread, token = head.steps[name], head.per_token[name]
        if spread.median is None:
            continue
        show = units.time if name.endswith("_ns") else units.count
        rows.append(
            [
                title,
                show(spread.median),
                f"{show(spread.p5)} – {show(spread.p95)}",
                f"{show(token.median)} per token",
            ]
        )
    for title, value in (
        ("launch ceiling", ceilings.launch_tokens_per_s),
        ("bandwidth ceiling", ceilings.bandwidth_tokens_per_s),
    ):
        if value is not None:
            binds = "**binds**" if ceilings.binding and title.startswith(ceilings.binding) else ""
            rows.append([title, units.rate(value), "", binds])
    return table(["one step", "median", "p5 – p95", ""], rows) if rows else ""


def _token_bars(analysis: Analysis) -> str:
    head = analysis.headline
    busy, whole = head.per_token["busy_ns"].median, head.per_token["period_ns"].median
    if busy is None:
        return ""
    rows = [("GPU busy", busy, f"{units.time(busy)} {units.share(busy, whole)}")]
    for name, look in palette.CAUSES.items():
        value = head.idle_by_cause_ns.get(name)
        if value:
            text = f"{units.time(value)} {units.share(value, whole)}"
            rows.append((f"idle: {look.word}", value, text))
    return f"Where a token’s {units.time(whole)} go:\n\n{bars(rows)}"


def _finding(finding: Finding, privacy: Privacy, prefix: str = "") -> str:
    answers = page(finding.id)
    parts = [
        prose(privacy.text(finding.text)),
        f"**What to try:** {prose(answers.what_to_try)}",
        f"**How to check:** {prose(answers.how_to_check)}",
    ]
    rows = [
        [
            units.count(item.step),
            units.time(item.start_ns),
            units.time(item.end_ns - item.start_ns),
            plain(privacy.text(item.what), 160),
            code(classify(item.before).short, 48) if item.before else "",
            code(classify(item.after).short, 48) if item.after else "",
        ]
        for item in finding.evidence[:EVIDENCE_SHOWN]
    ]
    if rows:
        parts.append(table(["step", "at", "for", "what", "after", "before"], rows, left=0))
    head = f"{prefix}<b>{finding.id}</b> {plain(finding.title)}: {ceiling_text(finding)}"
    return folded(head, "\n\n".join(parts))


def _kernels(analysis: Analysis) -> str:
    rows = [
        [
            code(row.short, 60),
            palette.OP_CLASSES[row.op_class].word,
            units.count(row.per_token),
            units.time_value(row.total_ns_per_token, "µs"),
            units.share(row.share, 1),
        ]
        for row in analysis.kernels.rows[:KERNELS_SHOWN]
    ]
    if not rows:
        return ""
    header = ["kernel", "class", "per token", "µs per token", "share"]
    return folded("longest kernels", table(header, rows, left=2))


def command(name: str, paths: Sequence[str]) -> str:
    """The command that makes this again, in a block that nothing in a path can close."""
    words = " ".join(shlex.quote(path.replace("`", "'")) for path in paths)
    line = " ".join(f"gaptrace {name} {words}".split())
    return f"Reproduce:\n\n```sh\n{line[:1_000]}\n```"


def _modes(run: RunAnalysis) -> str:
    rows = []
    for mode in run.modes:
        analysis = run.representative(mode)
        if analysis is None:
            why = next((c.reason for c in run.cells if c.mode == mode and c.reason), "not recorded")
            rows.append([plain(mode), plain(why, 200), "", "", "", "", ""])
            continue
        head = analysis.headline
        share = head.unprofiled_idle_share or head.idle_share
        rows.append(
            [
                plain(mode),
                units.rate(head.rate.tokens_per_s),
                units.time(step_ns(analysis)),
                units.share(share, 1),
                units.count(head.steps["kernels"].median),
                units.count(head.steps["launches"].median),
                host_words(analysis),
            ]
        )
    header = ["mode", "rate", "step", "idle", "kernels", "launches", "host dispatch"]
    return table(header, rows)


def _square(cells: dict[str, MatrixCell]) -> str:
    best = max((c.tokens_per_s or 0 for c in cells.values()), default=0)

    def words(cell: MatrixCell) -> str:
        if cell.known == UNKNOWN or cell.tokens_per_s is None:
            return UNKNOWN
        known = f"{cell.known}{spread(cell)}"
        text = f"{units.rate(cell.tokens_per_s)} ({units.time(cell.step_ns)}, {known})"
        return f"**{text}**" if cell.tokens_per_s == best else text

    rows = [[row, *[words(cells[MODES[row, column]]) for column in COLUMNS]] for row in ROWS]
    return table(["", *COLUMNS], rows)


def _banner(pair: Pair) -> str:
    if not pair.banner:
        return ""
    return f"> [!WARNING]\n> Unlike runs, compared all the same: {plain('; '.join(pair.banner))}"


def _metrics(pair: Pair) -> str:
    shown = {row.id: row for row in pair.metrics}
    rows = [
        [
            row.title + (" per token" if row.per_token else ""),
            value_text(row.unit, row.baseline.value),
            value_text(row.unit, row.candidate.value),
            change_text(row.unit, row.change),
            signed_share(row.ratio),
            _verdict(row),
        ]
        for name in PAIRED
        if (row := shown.get(name)) is not None
        and (row.baseline.value is not None or row.candidate.value is not None)
    ]
    return table(["metric", "base", "cand", "change", "%", "verdict"], rows)


def _verdict(row: MetricRow) -> str:
    words = f"{row.arrow} {row.words}".strip()
    return f"**{words}**" if row.verdict in ("better", "worse") else words


def _bridge(pair: Pair) -> str:
    bridge = pair.bridge
    if bridge is None:
        return ""
    before, after = bridge.ends
    parts = bridge.waterfall
    rows = [
        (f"{'−' if part.delta_ns < 0 else '+'} {part.title}", float(abs(part.delta_ns)),
         signed_time(part.delta_ns))
        for part in parts[:16]
    ]  # fmt: skip
    profiled = "" if bridge.unprofiled_baseline_ns is not None else ", as profiled"
    head = f"Bridge, {units.time(before)} → {units.time(after)} per step{profiled}:"
    more = f"\n\n{len(parts) - 16} smaller parts are in the report." if len(parts) > 16 else ""
    return f"{head}\n\n{bars(rows)}{more}" if rows else head


def _kernel_changes(pair: Pair) -> str:
    kernels = pair.kernels
    moved = [row for row in kernels.rows if row.status != "same"][:KERNELS_SHOWN]
    if not moved:
        return ""
    rows = [
        [
            code(row.short, 60),
            row.status,
            units.count(row.baseline.per_token) if row.baseline else "",
            units.count(row.candidate.per_token) if row.candidate else "",
            signed_time(row.delta_ns),
        ]
        for row in moved
    ]
    parts = [table(["kernel", "status", "base", "cand", "change per token"], rows, left=2)]
    groups = [
        [
            plain(group.title, 80),
            "+".join(dict.fromkeys(code(item.short, 40) for item in group.baseline[:3])),
            "+".join(dict.fromkeys(code(item.short, 40) for item in group.candidate[:3])),
            signed_time(group.delta_ns),
        ]
        for group in kernels.groups[:GROUPS_SHOWN]
    ]
    if groups:
        parts.append(table(["what replaced what", "base", "cand", "change"], groups, left=3))
    counts = ", ".join(
        f"{len(kernels.of(status))} {status}"
        for status in ("removed", "added", "changed", "same")
        if kernels.of(status)
    )
    return folded(f"kernels, {plain(pair.label)}: {counts}", "\n\n".join(parts))


def _notes(pair: Pair) -> str:
    if not pair.notes:
        return ""
    lines = "\n".join(f"- {plain(note)}" for note in pair.notes)
    return folded(f"{len(pair.notes)} notes on {plain(pair.label)}", lines)
