"""The answer: what a reader is told first, as text with typed quantities in it."""

from __future__ import annotations

from collections.abc import Iterable

from gaptrace import units
from gaptrace.document.blocks import Inline, Text
from gaptrace.document.tables import known
from gaptrace.quantity import COUNT, NS, SHARE, TOKENS_PER_S, TRACED, UNPROFILED, Quantity
from gaptrace.results.analysis import AnalysisResult, DeviceFigures
from gaptrace.results.run import ModeRow, RunResult
from gaptrace.vocabulary import CAUSES

# Repairs after which missing GPU work is the file's fault.
DAMAGE = frozenset(
    {"truncated", "truncated_gzip", "corrupt_gzip", "given_up", "dropped_events", "log_lines"}
)
KIND_WORDS = {
    "decode": "Decode: ",
    "inference": "Inference steps: ",
    "training": "Training steps: ",
}
BASIS_WORDS = {TRACED: "as profiled", UNPROFILED: "unprofiled", "given": "given"}


def plain(parts: Iterable[Inline]) -> str:
    """The parts as one line of text."""
    return "".join(
        part if isinstance(part, str) else part.text if isinstance(part, Text) else units.text(part)
        for part in parts
    )


def analysis_answer(result: AnalysisResult) -> tuple[Inline, ...]:
    """Rate, step time, idle share and largest cause; or why there is no such sentence."""
    head, quality = result.headline, result.quality
    if result.steps.device is None:
        damage = next((r.text for r in quality.reasons if r.id in DAMAGE), "")
        if damage:
            return (f"No GPU work is left in what could be read of this file: {damage}.",)
        return ("No GPU work was recorded, so there is nothing to measure.",)
    if head.step_ns is None or quality.withholds("steps", "period"):
        return _whole(result.devices, result.steps.device)
    parts: list[Inline] = [KIND_WORDS[result.steps.kind]]
    if head.tokens_per_s is not None:
        parts += [Quantity(head.tokens_per_s, TOKENS_PER_S, head.basis), ", "]
    parts += [Quantity(head.step_ns, NS, head.basis), " per step"]
    if head.basis != UNPROFILED:
        parts.append(f" ({BASIS_WORDS.get(head.basis, head.basis)})")
    if head.idle_share is None:
        return (*parts, "; idle time is withheld, see below.")
    parts += [". The GPU idles ", Quantity(head.idle_share, SHARE, head.idle_basis), " of it"]
    if head.idle_basis != head.basis:
        parts.append(f" ({BASIS_WORDS.get(head.idle_basis, head.idle_basis)})")
    if head.largest_cause is None or head.largest_cause_ns is None or not head.idle_share:
        return (*parts, ".")
    word = CAUSES[head.largest_cause]
    parts += ["; largest cause: ", Text(word.label, term=word.term, key=word.id), ", "]
    amount = Quantity(head.largest_cause_ns, NS, TRACED)
    if head.recoverable:
        return (*parts, "up to ", amount, " per token recoverable.")
    return (*parts, amount, " per token.")


def _whole(devices: Iterable[DeviceFigures], chosen: str | None) -> tuple[Inline, ...]:
    """What can be said without steps: how much of the recording the GPU was idle."""
    several = (chosen or "").split(", ")
    device = max(
        (item for item in devices if item.device == chosen or item.device in several),
        key=lambda item: item.gpu_ops,
    )
    parts: tuple[Inline, ...] = (
        "No decode step could be measured; over the whole recording of ",
        Quantity(device.span_ns, NS, TRACED),
        " the GPU was idle ",
    )
    share = known(device.idle_share, SHARE, TRACED)
    if share is not None:
        return (*parts, share, " of the time.")
    return (*parts, "for ", Quantity(device.idle_ns, NS, TRACED), ".")


def run_answer(result: RunResult) -> tuple[Inline, ...]:
    """Which mode is fastest, and by how much over eager, where the repeats say so."""
    rows = [row for row in result.modes if row.step_ns is not None]
    name = f"{result.name}: "
    best = next((row for row in rows if row.fastest), None)
    if best is None:
        return (f"{name}no mode of this run could be measured.",)
    if len(rows) == 1:
        return (f"{name}only {best.mode} could be measured: ", *_speed(best), ".")
    parts = (name, _mode(best), " is fastest at ", *_speed(best))
    base = next((row for row in rows if row.mode == "eager"), rows[0])
    if base is best:
        # Eager is the fastest: what the slowest of the others costs is the news.
        other = max(rows, key=lambda row: row.times_slower or 0)
        if other.as_fast_as_best:
            return (*parts, *_alike(other))
        times = _times(other)
        return (*parts, "; ", _mode(other), " is ", times, " times slower.") if times else (
            *parts, ".",
        )  # fmt: skip
    if base.as_fast_as_best:
        return (*parts, *_alike(base))
    times = _times(base)
    return (*parts, ", ", times, " times as fast as ", _mode(base), ".") if times else (*parts, ".")


def _speed(row: ModeRow) -> tuple[Inline, ...]:
    rate = known(row.tokens_per_s, TOKENS_PER_S, row.basis)
    step: tuple[Inline, ...] = (Quantity(row.step_ns, NS, row.basis), " per step")
    if row.basis != UNPROFILED:
        step = (*step, f" ({BASIS_WORDS.get(row.basis, row.basis)})")
    return step if rate is None else (rate, ", ", *step)


def _mode(row: ModeRow) -> Text:
    return Text(row.mode, "strong", term="mode", key=row.mode)


def _times(row: ModeRow) -> Quantity | None:
    return known(row.times_slower, COUNT, row.basis)


def _alike(row: ModeRow) -> tuple[Inline, ...]:
    return ("; ", _mode(row), " is as fast within the spread of the repeats.")
