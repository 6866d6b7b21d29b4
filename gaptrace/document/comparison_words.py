"""What a comparison says in sentences: the answer, the kernels, the 2x2, the gates."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gaptrace import units
from gaptrace.quantity import NS, POINTS, SHARE, TIMES, Quantity, change
from gaptrace.results import comparison as r
from gaptrace.vocabulary import CAUSES, OP_CLASSES

# Parts of a bridge that are named in a sentence.
NAMED = 3
# From here on a factor says more than a percentage.
CLEAR_FACTOR = 1.5
# The status that a line begins with.
STATUS = {
    r.BETTER: "Better",
    r.WORSE: "Worse",
    r.WITHIN_NOISE: "No change beyond noise",
    r.TOO_FEW: "Not judged",
    r.WITHHELD: "Not judged",
}
# The glossary entry behind each verdict.
VERDICT_TERMS = {
    r.BETTER: "better",
    r.WORSE: "worse",
    r.WITHIN_NOISE: "within-noise",
    r.TOO_FEW: "too-few-steps",
    r.WITHHELD: "withheld",
}
EDGES = ("compiled_launched", "compiled_captured", "captured_eager", "captured_compiled")


def said(comparison: r.ComparisonResult) -> r.ComparisonResult:
    """The comparison with all its sentences."""
    pairs = tuple(
        replace(pair, sentence=pair_sentence(pair), kernel_sentence=work_sentence(pair.work))
        for pair in comparison.pairs
    )
    square = comparison.two_by_two
    if square is not None:
        found = {name: getattr(square, name) for name in EDGES}
        edges = {name: replace(e, words=work_sentence(e.work)) for name, e in found.items()}
        square = replace(square, **edges)
        square = replace(square, sentence=_story(square))
    return replace(
        comparison,
        pairs=pairs,
        two_by_two=square,
        gates=tuple(replace(gate, text=gate_text(gate)) for gate in comparison.gates),
        sentence=square.sentence if square is not None else pairs[0].sentence,
    )


def text(value: r.Maybe, unit: str) -> str:
    """A figure for a sentence."""
    return units.text(Quantity(value, unit))


def signed(value: r.Maybe, unit: str = NS) -> str:
    """A change for a sentence, with its sign."""
    return units.text(change(value, unit))


def headline(comparison: r.ComparisonResult) -> str:
    """The answer in one line of at most 25 words that begins with a status."""
    line = _headline(comparison)
    return f"Runs are not comparable (--force). {line}" if comparison.forced else line


def _headline(comparison: r.ComparisonResult) -> str:
    ranked = by_verdict(comparison.pairs)
    square = comparison.two_by_two
    if square is not None and (best := _best(square)) is not None:
        return _fastest(square, best, ranked)
    if len(ranked) == 1:
        return pair_headline(ranked[0])
    worst = ranked[0]
    alike = sum(pair.verdict == worst.verdict for pair in ranked)
    count = f" in {alike} of {len(ranked)} pairs"
    step = worst.metric("step_time")
    return f"{STATUS[worst.verdict]}{count}; {worst.label}: {_times(step)}{_size(worst)}."


def _fastest(square: r.TwoByTwo, best: r.Corner, pairs: Sequence[r.Pair]) -> str:
    """The fastest of the four modes, and what its step is to the eager one."""
    eager = square.eager
    line = f"{best.label} is the fastest of four modes, {text(best.step_ns, NS)} per step"
    if best.label == eager.label:
        return f"No mode is better than {line}."
    verdict = next((p.verdict for p in pairs if p.candidate.label == best.label), r.BETTER)
    times = square.times_eager
    factor = f", {text(times, TIMES)} {eager.label}" if times is not None else ""
    return f"{STATUS[verdict]}: {line}{factor}."


def by_verdict(pairs: Sequence[r.Pair]) -> list[r.Pair]:
    """Pairs, the worst first: worse ones by how much, then those not judged, then the rest."""
    order = {r.WORSE: 0, r.WITHHELD: 1, r.TOO_FEW: 1, r.WITHIN_NOISE: 2, r.BETTER: 3}
    return sorted(
        pairs, key=lambda pair: (order[pair.verdict], -(pair.metric("step_time").ratio or 0))
    )


def pair_headline(pair: r.Pair) -> str:
    """The answer on one pair in at most 25 words: status, step times, how sure."""
    step = pair.metric("step_time")
    if step.baseline.value is None or step.candidate.value is None:
        return f"Not judged: no step time to compare, {step.note or 'no steps'}."
    line = f"{STATUS[step.verdict]}: {_times(step)}"
    if step.verdict == r.WITHHELD:
        return f"{line}; {step.note}."
    line += _size(pair)
    if step.verdict == r.TOO_FEW:
        return f"{line}; {r.TOO_FEW}."
    if step.verdict in (r.BETTER, r.WORSE):
        line += f", {'beyond noise' if step.basis == r.RUNS else step.note or 'beyond noise'}"
    return f"{line}."


def pair_sentence(pair: r.Pair) -> str:
    """The answer on one pair, with the largest parts of the difference."""
    parts = bridge_sentence(pair.bridge) if pair.verdict in (r.BETTER, r.WORSE, r.TOO_FEW) else ""
    line = pair_headline(pair)
    return f"{line[:-1]}; {parts}." if parts else line


def _times(step: r.MetricRow) -> str:
    return f"{text(step.baseline.value, NS)} → {text(step.candidate.value, NS)} per step"


def _size(pair: r.Pair) -> str:
    """How much faster or slower, as a factor where that says more than a percentage."""
    step, factor = pair.metric("step_time"), pair.factor
    if not step.change or factor is None:
        return ", the same" if step.change == 0 else ""
    if factor < CLEAR_FACTOR:
        return f", {signed(step.ratio, SHARE)}"
    return f", {text(factor, TIMES)} {'faster' if step.change < 0 else 'slower'}"


def bridge_sentence(bridge: r.Bridge | None) -> str:
    """The parts of a bridge that moved most; of estimated causes only which was the largest."""
    if bridge is None or not bridge.split:
        return ""
    if not any(part.estimated for part in bridge.parts):
        moved = sorted(waterfall(bridge), key=lambda part: (-abs(part.delta_ns), part.key))
        return ", ".join(f"{signed(part.delta_ns)} {part.title}" for part in moved[:NAMED])
    busy, idle = (
        sum(p.delta_ns for p in bridge.parts if p.kind == kind) for kind in ("busy", "idle")
    )
    line = ", ".join(f"{signed(ns)} {kind}" for kind, ns in (("busy", busy), ("idle", idle)) if ns)
    causes = " and ".join(CAUSES[key].label for key in bridge.idle_causes if key in CAUSES)
    if not causes or not idle:
        return line
    return f"{line}; most of the idle that {'came' if idle > 0 else 'went'} was {causes} (estimate)"


def verdict_words(row: r.MetricRow) -> str:
    """The verdict as it is shown: where the figure went, and in words how that helps."""
    if row.verdict in (r.BETTER, r.WORSE):
        return f"{'▲' if (row.change or 0) > 0 else '▼'} {row.verdict}"
    if row.verdict == r.WITHIN_NOISE:
        return "= equal" if row.basis == r.EXACT else f"= {r.WITHIN_NOISE}"
    return "too few steps" if row.verdict == r.TOO_FEW else row.verdict


def waterfall(bridge: r.Bridge) -> list[r.BridgePart]:
    """The parts that moved, largest gain first and largest loss last.

    In this order the way from one end to the other stays between 0 and the longer step.
    """
    moved = [part for part in bridge.parts if part.delta_ns]
    return sorted(moved, key=lambda part: (part.delta_ns, part.kind, part.key))


def profiling_remark(bridge: r.Bridge) -> str:
    """By how much profiling changed each step; empty where that is not known."""
    before, after = bridge.unprofiled_baseline_ns, bridge.unprofiled_candidate_ns
    if before is None or after is None:
        return ""
    added = (bridge.baseline_ns - before, bridge.candidate_ns - after)
    return (
        f"profiling changed these steps by {signed(added[0])} (baseline) and {signed(added[1])} "
        "(candidate)"
    )


def work_sentence(work: r.Work) -> str:
    """What happened to the kernels and to busy time; empty where either is unknown."""
    before, after = work.kernels
    if before is None or after is None or work.busy_ns is None:
        return ""
    count = after - before
    subject = work.subject[:1].upper() + work.subject[1:]
    if count:
        part = text(abs(work.kernels_ratio), SHARE) if work.kernels_ratio else ""
        share = f"{part} of the kernels" if part else "kernels"
        counts = f"({units.count(before)} → {units.count(after)})"
        line = f"{subject} {'removed' if count < 0 else 'added'} {share} {counts}"
    else:
        line = f"{subject} left the number of kernels as it was"
    if work.busy_verdict == r.WITHIN_NOISE or not work.busy_ns:
        by = signed(work.busy_ratio or 0, SHARE)
        return f"{line}; GPU busy time did not change beyond noise ({by})."
    lost = work.busy_ns > 0
    line += ", yet " if lost and count < 0 else ", and "
    line += f"GPU busy time {'grew' if lost else 'fell'} by {text(abs(work.busy_ns), NS)} per token"
    named = []
    for item in work.classes:
        names = ", ".join(f"{k.short} ×{units.count(k.per_token)}" for k in item.kernels)
        behind = f": {names}" if names else ""
        named.append(f"{OP_CLASSES[item.op_class].label} ({signed(item.delta_ns)}{behind})")
    line += f", on {', '.join(named)}" if named else ""
    return f"{line}{f' ({r.TOO_FEW})' if work.busy_verdict == r.TOO_FEW else ''}."


def _best(square: r.TwoByTwo) -> r.Corner | None:
    known = [c for c in square.corners.values() if c.label == square.best and c.step_ns]
    return known[0] if known else None


def _story(square: r.TwoByTwo) -> str:
    """What compiling and capture did, each on its own and both together."""
    lines = [square.compiled_launched.words]
    idle, step = square.compiled_launched.idle_ns, square.compiled_launched.step_ns
    if idle is not None and step is not None:
        lines.append(
            f"With plain launches it {'saved' if idle < 0 else 'cost'} {text(abs(idle), NS)} of "
            f"idle time per token, because the GPU waits {'less' if idle < 0 else 'more'} to be "
            f"told what to do: {text(abs(step), NS)} per step {'faster' if step < 0 else 'slower'} "
            "in all."
        )
    on_top, alone = square.captured_compiled.step_ns, square.captured_eager.step_ns
    if on_top is not None:
        also = f", capture alone by {signed(alone)}" if alone is not None else ""
        lines.append(f"Capture on top of compiling changes the step by {signed(on_top)}{also}.")
    captured = square.compiled_captured.step_ns
    if captured is not None:
        verb = "wins" if captured < 0 else "loses"
        lines.append(f"Once captured, compiling {verb} {text(abs(captured), NS)} per step.")
    if (best := _best(square)) is not None:
        lines.append(f"Fastest: {best.label}, {text(best.step_ns, NS)} per step.")
    return " ".join(line for line in lines if line)


def gate_text(gate: r.GateResult) -> str:
    """One line that names the gate's metric, its figures and by how much."""
    value = gate.candidate
    if gate.status not in (r.HELD, r.TRIPPED) or value is None:
        return f"{gate.metric}: {gate.reason}"
    line = _moved(gate, value) if gate.relative else _bound(gate, value)
    if gate.status == r.HELD:
        return f"{line}, but within noise" if gate.reason else line
    return f"{line} ({gate.reason})" if gate.reason else line


def _moved(gate: r.GateResult, value: r.Number) -> str:
    """A relative gate: how far the figure moved, and the limit."""
    moved, points = gate.change or 0, gate.unit == SHARE
    verb = "rose by" if moved > 0 else "fell by" if moved < 0 else "changed by"
    size = text(abs(moved), POINTS if points else gate.unit)
    if not points and gate.ratio is not None:
        size += f" ({text(abs(gate.ratio), SHARE)})"
    ends = f"{text(gate.baseline, gate.unit)} → {text(value, gate.unit)}"
    line, unit = f"{gate.metric} {verb} {size}, {ends}", POINTS if points else SHARE
    limit = text(gate.limit, unit)
    if gate.status == r.HELD:
        return f"{line}: {'over' if gate.reason else 'within'} the limit of {limit}"
    over = f", {text(gate.over, unit)} over" if gate.over is not None else ""
    return f"{line}: the limit is {limit} worse{over}"


def _bound(gate: r.GateResult, value: r.Number) -> str:
    lower, shown, limit = (
        gate.better == "lower",
        text(value, gate.unit),
        text(gate.limit, gate.unit),
    )
    if gate.over is None:
        return f"{gate.metric} is {shown}: {'at most' if lower else 'at least'} {limit} asked for"
    by = text(gate.over, POINTS if gate.unit == SHARE else gate.unit)
    return f"{gate.metric} is {shown}: {by} {'over' if lower else 'under'} the limit of {limit}"
