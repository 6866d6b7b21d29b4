"""The answer: what a reader is told first, as text with typed quantities in it."""

from __future__ import annotations

from collections.abc import Iterable

from gaptrace import quantity as q
from gaptrace import units
from gaptrace.document.blocks import Inline, Text
from gaptrace.document.tables import known
from gaptrace.results.analysis import AnalysisResult, DeviceFigures
from gaptrace.results.run import ModeRow, RunResult
from gaptrace.vocabulary import CAUSES, PHASES

# Repairs after which missing GPU work is the file's fault.
DAMAGE = frozenset(
    {"truncated", "truncated_gzip", "corrupt_gzip", "given_up", "dropped_events", "log_lines"}
)
BASIS_WORDS = {q.TRACED: "as profiled", q.UNPROFILED: "unprofiled", q.GIVEN: "given"}


def plain(parts: Iterable[Inline]) -> str:
    """The parts as one line of text."""
    return "".join(
        part if isinstance(part, str) else part.text if isinstance(part, Text) else units.text(part)
        for part in parts
    )


def analysis_answer(result: AnalysisResult) -> tuple[Inline, ...]:
    """Rate, step time, idle share and largest cause; or why there is no such sentence."""
    head, reasons = result.headline, result.quality.reasons
    if result.steps.device is None:
        damage = next((r.text for r in reasons if r.id in DAMAGE), "")
        if damage:
            return (f"No GPU work is left in what could be read of this file: {damage}.",)
        if head.step_ns is not None and result.quality.verdict != "refused":
            return _on_cpu(result, head.step_ns)
        return ("No GPU work was recorded, so there is nothing to measure.",)
    gone = result.steps.rule in (None, "whole trace") or result.quality.withholds("steps", "period")
    if head.step_ns is None or gone:
        return _whole(result)
    parts: list[Inline] = [f"{_subject(result)}: "]
    speed = rate(result)
    if speed is not None:
        parts += [speed, ", "]
    parts += [q.Quantity(head.step_ns, q.NS, head.basis), " per step"]
    if head.basis != q.UNPROFILED:
        parts.append(f" ({BASIS_WORDS.get(head.basis, head.basis)})")
    if head.idle_share is None:
        return (*parts, "; idle time is withheld, see below.")
    parts += [". The GPU idles ", q.Quantity(head.idle_share, q.SHARE, head.idle_basis), " of it"]
    if head.idle_basis != head.basis:
        parts.append(f" ({BASIS_WORDS.get(head.idle_basis, head.idle_basis)})")
    copied = result.steps.busy_by_kind_ns.get("exposed_copies")
    if result.ceilings.bus_bound and copied is not None:
        what = Text("copies between host and GPU that nothing hides", term="busy-by-kind")
        parts += ["; ", what, " take ", q.Quantity(copied, q.NS, q.TRACED), " per step"]
        return (*parts, ": the bus limits it.")
    if head.largest_cause is None or head.largest_cause_ns is None or not head.idle_share:
        return (*parts, ".")
    word = CAUSES[head.largest_cause]
    parts += ["; largest cause: ", Text(word.label, term=word.term, key=word.id), ", "]
    amount = q.Quantity(head.largest_cause_ns, q.NS, q.TRACED)
    if head.recoverable:
        return (*parts, "up to ", amount, f" per {each(result)} recoverable.")
    return (*parts, amount, f" per {each(result)}.")


def _on_cpu(result: AnalysisResult, step_ns: q.Number) -> tuple[Inline, ...]:
    """Step time and rate of a step that ran on the host alone."""
    speed = rate(result)
    parts: tuple[Inline, ...] = ("On a CPU: ", *((speed, ", ") if speed is not None else ()))
    return (*parts, q.Quantity(step_ns, q.NS, result.headline.basis), " per step; no GPU work.")


def _subject(result: AnalysisResult) -> str:
    """What the steps are: `Decode`, another phase, `Inference` or `Training`; of which batch."""
    steps = result.steps
    word = PHASES[steps.phase].label if steps.kind == "decode" else steps.kind
    batches = {phase.batch for phase in result.phases if phase.phase == steps.phase}
    several = len(batches) > 1
    which = f" at batch {steps.batch}" if steps.batch is not None else ", mixed batch"
    return f"{word.capitalize()}{which if several else ''}"


def rate(result: AnalysisResult) -> q.Quantity | None:
    """Tokens per second, a range under speculation; steps per second where steps make no tokens."""
    head, found = result.headline, result.rate
    if head.tokens_per_s is not None:
        return q.Quantity(head.tokens_per_s, q.TOKENS_PER_S, head.basis)
    low, high = found.tokens_per_s_range or (None, None)
    if low is not None and high is not None:
        return q.ranged(None, low, high, q.TOKENS_PER_S, head.basis)
    if low is not None or high is not None:
        bound = q.AT_MOST if low is None else q.AT_LEAST
        return known(high if low is None else low, q.TOKENS_PER_S, head.basis, bound)
    if result.steps.kind == "decode":
        return None
    return known(found.steps_per_s, q.STEPS_PER_S, head.basis)


def each(result: AnalysisResult) -> str:
    """What figures are per: `token`, or `step` where steps make no tokens."""
    return "token" if result.steps.tokens_per_step is not None else "step"


def _whole(result: AnalysisResult) -> tuple[Inline, ...]:
    """What can be said without steps: how much of the recording the GPU was idle."""
    device = device_of(result)
    parts: tuple[Inline, ...] = (
        "No step could be measured; over the whole recording of ",
        q.Quantity(device.span_ns, q.NS, q.TRACED),
        " the GPU was idle ",
    )
    share = known(device.idle_share, q.SHARE, q.TRACED)
    if share is not None:
        return (*parts, share, " of the time.")
    return (*parts, "for ", q.Quantity(device.idle_ns, q.NS, q.TRACED), ".")


def device_of(result: AnalysisResult) -> DeviceFigures:
    """The device that the step figures are for; of several the first."""
    found = (d for d in result.devices if d.device == result.steps.device)
    return next(found, result.devices[0])


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
    rate = known(row.tokens_per_s, q.TOKENS_PER_S, row.basis)
    step: tuple[Inline, ...] = (q.Quantity(row.step_ns, q.NS, row.basis), " per step")
    if row.basis != q.UNPROFILED:
        step = (*step, f" ({BASIS_WORDS.get(row.basis, row.basis)})")
    return step if rate is None else (rate, ", ", *step)


def _mode(row: ModeRow) -> Text:
    return Text(row.mode, "strong", term="mode", key=row.mode)


def _times(row: ModeRow) -> q.Quantity | None:
    return known(row.times_slower, q.COUNT, row.basis)


def _alike(row: ModeRow) -> tuple[Inline, ...]:
    return ("; ", _mode(row), " is as fast within the spread of the repeats.")
