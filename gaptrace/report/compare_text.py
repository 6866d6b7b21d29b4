"""A comparison for the terminal: 80 columns, the answer first, plain when colour is off."""

from __future__ import annotations

from collections.abc import Sequence

from gaptrace import units
from gaptrace.compare.result import (
    BETTER,
    EXACT,
    ONE_RUN,
    TOO_FEW,
    WORSE,
    Bridge,
    Comparison,
    Corner,
    GateResult,
    KernelComparison,
    KernelGroup,
    MetricRow,
    Pair,
    SideView,
    TwoByTwo,
)
from gaptrace.compare.words import signed_share, signed_time, value_text
from gaptrace.report.markup import clean
from gaptrace.report.terminal import Ink, nearest, table, wrapped

WIDTH = 80
NOTES_SHOWN = 6
PARTS_SHOWN = 10
KERNELS_SHOWN = 6
GROUPS_SHOWN = 4
BAR = 24
_COLORS = {BETTER: "#3FD0A4", WORSE: "#FF8A3D"}


def comparison_report(comparison: Comparison, *, color: bool) -> str:
    """The whole comparison for a terminal."""
    ink = Ink(color)
    parts: list[str] = []
    if comparison.two_by_two is not None:
        parts.append(_square(comparison.two_by_two, ink))
    parts += [_pair(pair, ink) for pair in comparison.pairs]
    parts += [wrapped(f"· {clean(note)}", WIDTH) for note in comparison.notes]
    if comparison.gates:
        parts.append(gate_lines(comparison.gates, ink))
    parts.append(_next(comparison, ink))
    return "\n\n".join(part for part in parts if part)


def gate_lines(gates: Sequence[GateResult], ink: Ink) -> str:
    """One line per gate: what became of it, and by how much."""
    several = len({gate.pair for gate in gates}) > 1
    lines = ["gates"]
    for gate in gates:
        where = f" [{gate.pair}]" if several else ""
        lines.append(
            wrapped(clean(f"{gate.status}: {gate.gate}{where}: {gate.text}"), WIDTH, indent="  ")
        )
    return "\n".join(lines)


def _pair(pair: Pair, ink: Ink) -> str:
    parts = [
        _banner(pair, ink),
        ink.strong(clean(pair.label)) + "\n" + wrapped(clean(pair.sentence), WIDTH),
        wrapped(clean(pair.kernel_sentence), WIDTH) if pair.kernel_sentence else "",
        _sides(pair),
        _metrics(pair.metrics, ink),
        _bridge(pair.bridge) if pair.bridge is not None else "",
        _kernels(pair.kernels),
    ]
    return "\n\n".join(part for part in parts if part)


def _banner(pair: Pair, ink: Ink) -> str:
    if not pair.banner:
        return ""
    text = f"!! UNLIKE RUNS, compared because of --force: {'; '.join(pair.banner)} !!"
    return wrapped(ink.strong(clean(text)), WIDTH)


def _sides(pair: Pair) -> str:
    lines = [
        wrapped(clean(f"{word:<10} {_side(side)}"), WIDTH)
        for word, side in (("baseline:", pair.baseline), ("candidate:", pair.candidate))
    ]
    shown = pair.notes[:NOTES_SHOWN]
    lines += [wrapped(f"· {clean(note)}", WIDTH, indent="  ") for note in shown]
    if len(pair.notes) > len(shown):
        lines.append(f"  … {len(pair.notes) - len(shown)} more in --json")
    return "\n".join(lines)


def _side(side: SideView) -> str:
    facts = [
        f"{side.runs} {'run' if side.runs == 1 else 'runs'}",
        f"{side.steps} complete {'step' if side.steps == 1 else 'steps'}",
        side.verdict,
    ]
    facts += [text for key in ("gpu", "model", "dtype") if (text := side.facts.get(key))]
    if side.facts.get("torch"):
        facts.append(f"torch {side.facts['torch']}")
    if side.saved:
        facts.append("saved baseline")
    return " · ".join(facts)


def _metrics(rows: Sequence[MetricRow], ink: Ink) -> str:
    body: list[list[str]] = []
    notes: dict[str, list[MetricRow]] = {}
    sources = {row.source for row in rows if row.source and row.baseline.value is not None}
    mixed = len(sources) > 1
    for row in rows:
        if row.baseline.value is None and row.candidate.value is None:
            continue
        if row.unit == "count" and not row.baseline.value and not row.candidate.value:
            continue
        marked = f", {row.source}" if row.source and mixed else ""
        body.append(
            [
                row.title + marked,
                value_text(row.unit, row.baseline.value),
                value_text(row.unit, row.candidate.value),
                signed_share(row.ratio) if row.change is not None else units.MISSING,
                interval_text(row),
                _verdict(row, ink),
            ]
        )
        if row.note:
            notes.setdefault(row.note, []).append(row)
    head = "metric" if mixed or not sources else next(iter(sources))
    text = table([head, "base", "cand", "change", "95 % interval", "verdict"], body, right=1)
    lines = [wrapped(f"· {_note(n, found)}", WIDTH, indent="  ") for n, found in notes.items()]
    return "\n".join([text, *lines])


def _note(note: str, rows: Sequence[MetricRow]) -> str:
    """A note once for all rows it is about; those without a verdict are named."""
    if note == ONE_RUN:
        return f"* {note}"
    if all(row.change is not None for row in rows):
        return note
    return f"{note}, so not judged: {', '.join(row.title for row in rows)}"


def interval_text(row: MetricRow) -> str:
    """The interval of the change, relative to the baseline: `−6.1 … −4.2 %`."""
    if row.basis == EXACT:
        return "exact"
    if row.interval is None or not row.baseline.value:
        return ""
    low, high = (100 * end / abs(row.baseline.value) for end in row.interval)
    return f"{_percent(low)} … {_percent(high)} %"


def _percent(value: float) -> str:
    text = f"{abs(value):.{1 if abs(value) < 9.95 else 0}f}"
    sign = "" if float(text) == 0 else "+" if value > 0 else "−"
    return sign + text


def _verdict(row: MetricRow, ink: Ink) -> str:
    words = "too few steps" if row.verdict == TOO_FEW else row.words
    if row.note == ONE_RUN:
        words += " *"
    return ink.paint(f"{row.arrow} {words}".strip(), _COLORS.get(row.verdict, "none"))


def _bridge(bridge: Bridge) -> str:
    before, after = bridge.ends
    unprofiled = bridge.unprofiled_baseline_ns is not None
    kind = "unprofiled" if unprofiled else "as profiled"
    unit = "" if bridge.basis == "whole recording" else " per step"
    head = f"bridge: {units.time(before)} → {units.time(after)}{unit}, {kind}"
    lines = [f"{head} ({bridge.baseline_step} → {bridge.candidate_step})"]
    parts = bridge.waterfall
    kept = sorted(parts, key=lambda part: (-abs(part.delta_ns), part.key))[:PARTS_SHOWN]
    largest = max((abs(part.delta_ns) for part in kept), default=0)
    rows = [
        [signed_time(part.delta_ns), _bar(part.delta_ns, largest), part.title]
        for part in parts
        if part in kept
    ]
    rest = [part.delta_ns for part in parts if part not in kept]
    if rest:
        rows.append([signed_time(sum(rest)), "", f"{len(rest)} smaller parts"])
    rows.append([signed_time(after - before), "", "in all, exactly"])
    wide = max(len(row[0]) for row in rows)
    lines += [f"  {row[0]:>{wide}}  {row[1]:<{BAR}}  {row[2]}".rstrip() for row in rows]
    lines += [wrapped(f"· {note}", WIDTH, indent="  ") for note in bridge.notes]
    return "\n".join(lines)


def _bar(value: int, largest: int) -> str:
    """A bar to scale; `▒` gains and `█` losses, so that no colour is needed."""
    cells = max(1, round(abs(value) / largest * BAR)) if largest else 0
    return ("▒" if value < 0 else "█") * cells


def _kernels(kernels: KernelComparison) -> str:
    counts = [
        f"{len(kernels.of(status))} {status}"
        for status in ("removed", "added", "changed", "same")
        if kernels.of(status)
    ]
    if not counts:
        return ""
    lines = [f"kernels by name: {', '.join(counts)}"]
    moved = [row for row in kernels.rows if row.status != "same"][:KERNELS_SHOWN]
    rows = [
        [
            units.middle_elided(clean(row.short), 40),
            row.status,
            f"{units.count(_uses(row.baseline))} → {units.count(_uses(row.candidate))}",
            signed_time(row.delta_ns),
        ]
        for row in moved
    ]
    if rows:
        lines.append(table(["largest changes", "", "per token", "time/token"], rows, left=2))
    lines += [_group(group) for group in kernels.groups[:GROUPS_SHOWN]]
    if len(kernels.groups) > GROUPS_SHOWN:
        lines.append(f"  … {len(kernels.groups) - GROUPS_SHOWN} more groups in --json")
    return "\n".join(lines)


def _uses(use: object) -> float:
    return float(getattr(use, "per_token", 0.0))


def _group(group: KernelGroup) -> str:
    before = sum(member.per_token for member in group.baseline)
    after = sum(member.per_token for member in group.candidate)
    text = (
        f"{units.middle_elided(clean(group.title), 44)}: {units.count(before)} kernels → "
        f"{units.count(after)}, {signed_time(group.delta_ns)} per token"
    )
    return wrapped(text, WIDTH, indent="  ")


def _square(square: TwoByTwo, ink: Ink) -> str:
    rows = [
        [name, _cell(left), _cell(right)]
        for name, (left, right) in zip(("eager", "compiled"), square.corners, strict=True)
    ]
    lines = [
        wrapped(ink.strong(clean(square.sentence)), WIDTH),
        "",
        table([f"2x2, {square.source}", "launched", "captured"], rows),
    ]
    return "\n".join(lines)


def _cell(corner: Corner) -> str:
    return f"{units.time(corner.step_ns)}, {units.time(corner.busy_ns)} busy"


def _next(comparison: Comparison, ink: Ink) -> str:
    path = comparison.pairs[0].candidate.path
    if not path or path == "-" or comparison.pairs[0].candidate.saved:
        return ""
    return ink.next("analyze", nearest(path))
