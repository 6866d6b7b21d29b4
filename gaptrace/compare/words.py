"""What a comparison says in words."""

from __future__ import annotations

from collections.abc import Sequence

from gaptrace import units
from gaptrace.compare.bridge import CLASS_WORDS
from gaptrace.compare.result import (
    RUNS,
    TOO_FEW,
    WITHHELD,
    WITHIN_NOISE,
    Bridge,
    BridgePart,
    KernelChange,
    KernelComparison,
    MetricRow,
)

# Parts of a bridge and classes of a loss that are named in a sentence.
NAMED = 3
# A class or kernel is named for a loss or a gain when it makes up this share of it.
WORTH_NAMING = 0.1
# From here on a factor says more than a percentage.
CLEAR_FACTOR = 1.5
# Above this share of the step's change, what profiling added hides how the causes of idle moved.
TRACED_APART = 0.1


def signed_time(ns: float) -> str:
    """A change of time with its sign: `+1.20 ms`, `−340 µs`, `0 µs`."""
    return f"{'+' if ns > 0 else '−' if ns < 0 else ''}{units.time(abs(ns))}"


def signed_share(ratio: float | None) -> str:
    """A change relative to the baseline with its sign: `+4.2 %`."""
    if ratio is None:
        return units.MISSING
    size = abs(ratio)
    # Small changes keep their digits: "+< 0.1 %" would say nothing about direction and size.
    text = f"{units.digits(size * 100, 2)} %" if 0 < size < 0.001 else units.share(size, 1)
    return f"{'+' if ratio > 0 else '−' if ratio < 0 else ''}{text}"


def value_text(unit: str, value: float | None) -> str:
    """A figure of a metric in its unit."""
    if value is None:
        return units.MISSING
    if unit == "ns":
        return units.time(value)
    if unit == "count":
        return units.count(value)
    if unit == "share":
        return units.share(value, 1)
    return units.size(value) if unit == "bytes" else units.rate(value)


def change_text(unit: str, change: float | None) -> str:
    """A change of a metric with its sign, in its unit; shares change in percentage points."""
    if change is None:
        return units.MISSING
    sign = "+" if change > 0 else "−" if change < 0 else ""
    if unit == "share":
        return f"{sign}{units.digits(abs(change) * 100)} points"
    return sign + value_text(unit, abs(change))


def pair_sentence(step: MetricRow, rate: MetricRow, bridge: Bridge | None) -> str:
    """The answer: step times, how sure, and the largest parts of the difference."""
    if step.baseline.value is None or step.candidate.value is None:
        return "No step time to compare: " + (step.note or "no steps") + "."
    before, after = step.baseline.value, step.candidate.value
    text = f"{units.time(before)} → {units.time(after)} per step"
    if step.verdict == WITHHELD:
        return f"{text}, not judged: {step.note}."
    rates = (rate.baseline.value, rate.candidate.value)
    # Medians of an even number of steps can part ways; then the step time speaks alone.
    if rates[0] and rates[1] and (rates[1] > rates[0]) == (after < before):
        text += f" ({units.rate(rates[0])} → {units.rate(rates[1])})"
    text += f": {_verdict(step, before, after)}"
    parts = largest_parts(bridge) if step.verdict != WITHIN_NOISE else ""
    return f"{text}; {parts}." if parts else f"{text}."


def _verdict(step: MetricRow, before: float, after: float) -> str:
    if step.verdict == WITHIN_NOISE:
        if not step.change:
            return "the same"
        return f"{signed_share(step.ratio)}, within noise"
    speed = before / after if after else 0.0
    factor = speed if speed >= 1 else 1 / speed if speed else 0.0
    size = signed_share(step.ratio)
    if factor >= CLEAR_FACTOR:
        size = f"{units.digits(factor)}x {'faster' if speed > 1 else 'slower'}"
    if step.verdict == TOO_FEW:
        return f"{size}, {TOO_FEW}"
    how = "beyond noise" if step.basis == RUNS else step.note or "beyond noise"
    return f"{size}, {step.verdict} {how}"


def largest_parts(bridge: Bridge | None) -> str:
    """The parts that moved most; `profiling` is bookkeeping and stays out of a sentence.

    The parts are as profiled. Where profiling added much more to one side than to the other, they
    would not sum to the change that the sentence tells: then busy and unprofiled idle stand alone.
    """
    if bridge is None:
        return ""
    before, after = bridge.unprofiled_baseline_ns, bridge.unprofiled_candidate_ns
    added = sum(part.delta_ns for part in bridge.parts if part.kind == "profiling")
    if before is not None and after is not None and abs(added) > TRACED_APART * abs(after - before):
        return _busy_and_idle(bridge, before, after)
    moved = [part for part in bridge.waterfall if part.kind != "profiling"]
    parts = sorted(moved, key=lambda part: (-abs(part.delta_ns), part.key))
    return ", ".join(f"{signed_time(part.delta_ns)} {part.title}" for part in parts[:NAMED])


def _busy_and_idle(bridge: Bridge, before: int, after: int) -> str:
    """The unprofiled change as busy and idle, and the causes that most of the traced idle had.

    Empty where busy and idle cannot be told apart, or a step is busy for longer than it takes.
    """
    busy = [part for part in bridge.parts if part.kind == "busy"]
    ends = (sum(part.baseline_ns for part in busy), sum(part.candidate_ns for part in busy))
    if not bridge.split or ends[0] > before or ends[1] > after:
        return ""
    added = ends[1] - ends[0]
    idle = after - before - added
    text = f"{signed_time(added)} busy, {signed_time(idle)} idle"
    sign = 1 if idle > 0 else -1
    moved = [(sign * part.delta_ns, part) for part in bridge.parts if part.kind == "idle"]
    moved = sorted(
        (item for item in moved if item[0] > 0), key=lambda item: (-item[0], item[1].key)
    )
    total = sum(ns for ns, _ in moved)
    named = moved[:1] if moved and 2 * moved[0][0] > total else moved[:2]
    if not named or named[0][1].key == "withheld" or 2 * sum(ns for ns, _ in named) <= total:
        return text
    causes = " and ".join(part.title.removeprefix("idle: ") for _, part in named)
    return f"{text}; most of the traced idle that {'came' if idle > 0 else 'went'} was {causes}"


def kernel_sentence(
    kernels: MetricRow,
    busy: MetricRow,
    classes: Sequence[tuple[str, float]],
    matched: KernelComparison,
    *,
    subject: str,
) -> str:
    """What happened to the kernels and to busy time, kept apart: one can fall and the other rise.

    classes: op class and its change of busy ns per token. subject: what did it (`compiling`).
    """
    if kernels.change is None or busy.change is None:
        return ""
    count = kernels.change
    if count:
        ratio = (
            f"{units.share(abs(kernels.ratio), 1)} of the kernels" if kernels.ratio else "kernels"
        )
        first = f"{subject} {'removed' if count < 0 else 'added'} {ratio}"
        first += (
            f" ({units.count(kernels.baseline.value)} → {units.count(kernels.candidate.value)})"
        )
    else:
        first = f"{subject} left the number of kernels as it was"
    first = first[:1].upper() + first[1:]
    if busy.verdict == WITHIN_NOISE or not busy.change:
        return f"{first}; GPU busy time did not change beyond noise ({signed_share(busy.ratio)})."
    lost = busy.change > 0
    joint = ", yet " if lost and count < 0 else ", and "
    amount = (
        f"GPU busy time {'grew' if lost else 'fell'} by {units.time(abs(busy.change))} per token"
    )
    where = _classes(classes, matched, lost=lost)
    doubt = f" ({TOO_FEW})" if busy.verdict == TOO_FEW else ""
    return f"{first}{joint}{amount}{where}{doubt}."


def _classes(classes: Sequence[tuple[str, float]], matched: KernelComparison, *, lost: bool) -> str:
    """The op classes that make up a gain or a loss, with the kernels behind each."""
    sign = 1 if lost else -1
    moved = sorted(((sign * change, name) for name, change in classes), reverse=True)
    total = sum(change for change, _ in moved if change > 0)
    named = [(name, change) for change, name in moved if change > WORTH_NAMING * total > 0]
    if not named:
        return ""
    texts = []
    for name, change in named[:NAMED]:
        names = kernel_names([row for row in matched.rows if row.op_class == name], lost=lost)
        behind = f": {names}" if names else ""
        texts.append(f"{CLASS_WORDS[name]} ({signed_time(sign * change)}{behind})")
    return f", on {', '.join(texts)}"


def kernel_names(rows: Sequence[KernelChange], *, lost: bool) -> str:
    """The kernels behind a gain or a loss, longest first, with how often they run."""
    moved = [row for row in rows if (row.delta_ns > 0) == lost and row.delta_ns]
    moved.sort(key=lambda row: (-abs(row.delta_ns), row.name))
    total = sum(abs(row.delta_ns) for row in moved)
    moved = [row for row in moved if abs(row.delta_ns) > WORTH_NAMING * total] or moved[:1]
    found: dict[str, float] = {}
    for row in moved:
        use = row.candidate if lost else row.baseline
        found[row.short] = found.get(row.short, 0.0) + (use.per_token if use else 0.0)
        if len(found) == NAMED:
            break
    return ", ".join(f"{short} ×{units.count(times)}" for short, times in found.items())


def verdict_words(row: MetricRow) -> str:
    """The verdict with its sign as it helps: `▼ better`, `▲ worse`, `= within noise`."""
    return f"{row.arrow} {row.words}".strip()


def part_words(part: BridgePart) -> str:
    """One part of a bridge: `−2.90 ms idle: Python between ops`."""
    return f"{signed_time(part.delta_ns)} {part.title}"
