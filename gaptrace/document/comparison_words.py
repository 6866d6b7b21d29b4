"""What a comparison says in sentences: the answer, the kernels, the 2x2, the gates."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gaptrace import units
from gaptrace.document.sweep_words import Sized, point_words
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
    r.NOT_COMPARABLE: "Not comparable as profiled",
    r.OVERLAP: "Not judged",
}
# What the figures of a step are known by, where a sentence has to say so.
SAID_SOURCES = {r.GIVEN: " (given)", r.PREDICTED: " (predicted)"}
# Verdicts that a cell has little room for.
SHORT_VERDICTS = {
    r.TOO_FEW: "too few steps",
    r.NOT_COMPARABLE: "not comparable",
    r.OVERLAP: "ranges overlap",
}
# The glossary entry behind each verdict.
VERDICT_TERMS = {
    r.BETTER: "better",
    r.WORSE: "worse",
    r.WITHIN_NOISE: "within-noise",
    r.TOO_FEW: "too-few-steps",
    r.WITHHELD: "withheld",
    r.NOT_COMPARABLE: "not-comparable",
    r.OVERLAP: "ranges-overlap",
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
        sentence=_gated(_sentence(pairs, square), comparison),
    )


def _sentence(pairs: Sequence[r.Pair], square: r.TwoByTwo | None) -> str:
    """The answer on all pairs: the 2x2's, the one pair's, or how many changed and the worst."""
    if square is not None and square.sentence:
        return square.sentence
    return pairs[0].sentence if len(pairs) == 1 else _several(pairs)


def text(value: r.Maybe, unit: str) -> str:
    """A figure for a sentence."""
    return units.text(Quantity(value, unit))


def signed(value: r.Maybe, unit: str = NS) -> str:
    """A change for a sentence, with its sign."""
    return units.text(change(value, unit))


def headline(comparison: r.ComparisonResult) -> str:
    """The answer in one line of at most 25 words that begins with a status, or a tripped gate."""
    line = _gated(_headline(comparison), comparison)
    return f"Runs are not comparable (--force). {line}" if comparison.forced else line


def _gated(line: str, comparison: r.ComparisonResult) -> str:
    """The line with the gates that tripped: behind a change for the worse, else before all."""
    tripped = [gate for gate in comparison.gates if gate.status == r.TRIPPED]
    if not tripped:
        return line
    names = pair_names(comparison.pairs)
    worst = by_verdict(comparison.pairs)[0]
    # The gate of the pair that the line is about, if there is one.
    first = next((gate for gate in tripped if gate.pair == worst.label), tripped[0])
    said = f"gate {first.gate} tripped"
    if len(tripped) > 1:
        said = f"{len(tripped)} gates tripped, {first.gate} first"
    if line.startswith(STATUS[r.WORSE]) and first.pair == worst.label:
        return f"{line.removesuffix('.')}; {said}."
    where = f" on {names.get(first.pair, first.pair)}" if len(comparison.pairs) > 1 else ""
    return f"{said[:1].upper()}{said[1:]}{where}; {line[:1].lower()}{line[1:]}"


def _headline(comparison: r.ComparisonResult) -> str:
    ranked = by_verdict(comparison.pairs)
    square = comparison.two_by_two
    if square is not None and (best := _best(square)) is not None:
        return _fastest(square, best, ranked)
    return pair_headline(ranked[0]) if len(ranked) == 1 else _several(ranked)


def _several(pairs: Sequence[r.Pair]) -> str:
    """How many pairs share the worst verdict, and the worst of them with its step times."""
    ranked = by_verdict(pairs)
    worst, line = ranked[0], _status(ranked)
    if worst.verdict == r.WITHIN_NOISE:
        return f"{line}."
    step, name = worst.metric("step_time"), pair_names(pairs)[worst.label]
    if step.baseline.value is None or step.candidate.value is None:
        return f"{line}; {name}: no step time to compare."
    return f"{line}; {name}: {_times(step)}{_size(worst)}."


def _status(ranked: Sequence[r.Pair]) -> str:
    """`Worse in 1 of 4 modes`: how many share the verdict of the worst."""
    status = STATUS[ranked[0].verdict]
    alike = sum(STATUS[pair.verdict] == status for pair in ranked)
    return f"{status} in {alike} of {kinds_of(ranked, len(ranked))}"


def pair_names(pairs: Sequence[r.Pair]) -> dict[str, str]:
    """What sets each pair apart from the others, by label: its mode and point, else the label."""
    found = {pair.label: place_of(pair) for pair in pairs}
    apart = all(found.values()) and len(set(found.values())) == len(found)
    return found if apart and len(pairs) > 1 else {pair.label: pair.label for pair in pairs}


def place_of(pair: r.Pair) -> str:
    """Mode, batch size and length where both sides have the same; else empty."""
    sides = (pair.baseline, pair.candidate)
    places = [(side.mode, side.batch, side.length) for side in sides]
    if places[0] != places[1] or sides[0].mode is None:
        return ""
    return place_words(sides[0], sides[0].mode)


def place_words(point: Sized, mode: str) -> str:
    """`graph`, or at a point of a sweep `batch 8, length 128, graph`."""
    return ", ".join(part for part in (point_words(point), mode) if part)


def title(comparison: r.ComparisonResult) -> str:
    """What is compared: the pair, the baseline and how many others, or two runs with the status."""
    pairs = comparison.pairs
    if len(pairs) == 1:
        return pairs[0].label
    ends = {(_whole(pair.baseline), _whole(pair.candidate)) for pair in pairs}
    if len(ends) > 1 or not all(place_of(pair) for pair in pairs):
        return f"{pairs[0].baseline.label} → {units.count(len(pairs))} others"
    status = _status(by_verdict(pairs))
    if any(gate.status == r.TRIPPED for gate in comparison.gates):
        status = f"gate tripped, {status[:1].lower()}{status[1:]}"
    return f"{' → '.join(ends.pop())}: {status[:1].lower()}{status[1:]}"


def _whole(side: r.ComparedSide) -> str:
    """The run or sweep that a side is a mode of, by its label: the part before mode and point."""
    label = side.label.removesuffix(f"/{side.mode}")
    return label.rpartition("/")[0] if side.batch or side.length else label


def kinds_of(pairs: Sequence[r.Pair], count: int) -> str:
    """`4 modes`, `12 cells` or `3 pairs`: what the pairs of a comparison are, counted."""
    apart = pair_names(pairs)
    if any(name == label for label, name in apart.items()):
        return units.counted(count, "pair")
    if any(pair.baseline.batch or pair.baseline.length for pair in pairs):
        return units.counted(count, "cell")
    return units.counted(count, "mode")


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
    order = {r.WORSE: 0, r.WITHIN_NOISE: 2, r.BETTER: 3}

    def gravity(pair: r.Pair) -> tuple[int, float]:
        # Where the step says nothing, busy time may.
        step = pair.metric("step_time")
        moved = pair.metric("busy").ratio if pair.verdict in r.UNJUDGED else step.ratio
        return order.get(pair.verdict, 1), -(moved or 0)

    return sorted(pairs, key=gravity)


def pair_headline(pair: r.Pair) -> str:
    """The answer on one pair in at most 25 words: status, step times, how sure."""
    step = pair.metric("step_time")
    if step.baseline.value is None or step.candidate.value is None:
        return f"Not judged: no step time to compare, {step.note or 'no steps'}."
    line = f"{STATUS[step.verdict]}: {_times(step)}"
    if step.verdict in (r.WITHHELD, r.NOT_COMPARABLE):
        return f"{line}; {_busy_moved(pair) or step.note}."
    line += _size(pair)
    if step.verdict in (r.TOO_FEW, r.OVERLAP):
        return f"{line}; {step.verdict}."
    if step.verdict in (r.BETTER, r.WORSE):
        line += f", {r.BEYOND.get(step.basis) or step.note or 'beyond noise'}"
    return f"{line}."


def _busy_moved(pair: r.Pair) -> str:
    """How busy time changed where that can be told of a pair whose step times cannot."""
    busy = pair.metric("busy")
    if pair.verdict != r.NOT_COMPARABLE or busy.verdict not in (r.BETTER, r.WORSE):
        return ""
    return f"GPU busy time is {busy.verdict}, {signed(busy.ratio, SHARE)}"


def pair_sentence(pair: r.Pair) -> str:
    """The answer on one pair, with the largest parts of the difference."""
    told = pair.verdict in (r.BETTER, r.WORSE, r.TOO_FEW, r.OVERLAP)
    parts = bridge_sentence(pair.bridge) if told else ""
    line = pair_headline(pair)
    return f"{line[:-1]}; {parts}." if parts else line


def _times(step: r.MetricRow) -> str:
    ends = f"{text(step.baseline.value, NS)} → {text(step.candidate.value, NS)} per step"
    return ends + SAID_SOURCES.get(step.source or "", "")


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
    if not bridge.comparable:
        moved = [part for part in waterfall(bridge) if part.kind == "busy"]
        moved.sort(key=lambda part: (-abs(part.delta_ns), part.key))
        return ", ".join(f"{signed(part.delta_ns)} {part.title}" for part in moved[:NAMED])
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


def star(row: r.MetricRow) -> str:
    """Marks a verdict that stands on the steps of one run a side."""
    return " *" if row.note == r.ONE_RUN else ""


def cell_words(step: r.MetricRow) -> str:
    """A change and its verdict where there is room for a few letters: `+28 % worse *`."""
    if step.ratio is None:
        return SHORT_VERDICTS.get(step.verdict, "not judged")
    verdict = {r.WITHIN_NOISE: "noise"}.get(step.verdict, step.verdict)
    if step.verdict in r.UNJUDGED:
        verdict = "not judged"
    return f"{signed(step.ratio, SHARE)} {verdict}{star(step)}"


def verdict_words(row: r.MetricRow) -> str:
    """The verdict as it is shown: where the figure went, and in words how that helps."""
    if row.verdict in (r.BETTER, r.WORSE):
        return f"{'▲' if (row.change or 0) > 0 else '▼'} {row.verdict}"
    if row.verdict == r.WITHIN_NOISE:
        return "= equal" if row.basis == r.EXACT else f"= {r.WITHIN_NOISE}"
    return SHORT_VERDICTS.get(row.verdict, row.verdict)


def waterfall(bridge: r.Bridge) -> list[r.BridgePart]:
    """The parts that moved, largest gain first and largest loss last.

    In this order the way from one end to the other stays between 0 and the longer step.
    """
    moved = [part for part in bridge.parts if part.delta_ns]
    return sorted(moved, key=lambda part: (part.delta_ns, part.kind, part.key))


def profiling_remark(bridge: r.Bridge) -> str:
    """By how much profiling changed each step; empty where that is not known."""
    if bridge.source == r.PREDICTED:
        return ""
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
