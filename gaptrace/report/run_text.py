"""A run in the terminal: its modes side by side, then what could not be recorded and why."""

from __future__ import annotations

from gaptrace import units
from gaptrace.measure.result import Analysis
from gaptrace.predict import predict_run
from gaptrace.report.predict_text import help_section
from gaptrace.report.run_parts import host_words, run_parts
from gaptrace.report.terminal import Ink, table, wrapped
from gaptrace.report.text import WIDTH
from gaptrace.runs.run import RunAnalysis, step_ns

PER_STEP = (
    "kernels, launches and host dispatch per step; host unprofiled unless it says otherwise, "
    "≤ where only an upper bound is known"
)


def run_report(run: RunAnalysis, *, color: bool) -> str:
    """All modes of a run in one table, unprofiled where the run measured it."""
    ink = Ink(color)
    parts = [
        wrapped(ink.strong(_sentence(run)), WIDTH),
        _facts(run),
        _modes(run),
        _findings(run),
        *_parts(run),
        help_section(predict_run(run), color=color),
        _notes(run),
        _next(run, ink),
    ]
    return "\n\n".join(part for part in parts if part)


def _sentence(run: RunAnalysis) -> str:
    """Which mode is fastest, and by how much over eager (or the first mode)."""
    found = {mode: run.representative(mode) for mode in run.modes}
    times = {m: ns for m, a in found.items() if a is not None and (ns := step_ns(a)) is not None}
    if not times:
        return f"{run.name}: no mode of this run could be measured."
    best = min(times, key=lambda mode: times[mode])
    fastest = found[best]
    assert fastest is not None
    text = (
        f"{run.name}: {best} is fastest at {units.rate(fastest.headline.rate.tokens_per_s)}, "
        f"{units.time(times[best])} per step"
    )
    base = "eager" if "eager" in times else next(iter(times))
    if len(times) == 1:
        return f"{run.name}: only {best} could be measured: {text.split(' at ', 1)[1]}."
    if base == best:
        worst = max(times, key=lambda mode: times[mode])
        if _overlap(run, best, worst):
            return f"{text}; {worst} is as fast within the spread of the repeats."
        return f"{text}; {worst} is {units.digits(times[worst] / times[best], 2)} times slower."
    if _overlap(run, best, base):
        return f"{text}; {base} is as fast within the spread of the repeats."
    return f"{text}, {units.digits(times[base] / times[best], 2)} times as fast as {base}."


def _overlap(run: RunAnalysis, one: str, other: str) -> bool:
    """Whether the repeats of two modes have step times in common: then none of them is faster."""
    both = [[ns for a in run.repeats(m) if (ns := step_ns(a)) is not None] for m in (one, other)]
    if min(map(len, both)) < 2:
        return False
    return max(map(min, both)) <= min(map(max, both))


def _facts(run: RunAnalysis) -> str:
    for cell in run.cells:
        if cell.analysis is None:
            continue
        source, moved = cell.analysis.source, cell.analysis.ceilings
        facts = [source.gpu, source.model, source.torch and f"torch {source.torch}"]
        if moved.step_bytes.weight_bytes:
            facts.append(f"{units.size(moved.step_bytes.weight_bytes)} weights per step")
        if moved.bits:
            facts.append(f"{units.digits(moved.bits, 2)} bits per weight")
        return wrapped(" · ".join(fact for fact in facts if fact), WIDTH)
    return ""


def _modes(run: RunAnalysis) -> str:
    rows = []
    for mode in run.modes:
        analysis = run.representative(mode)
        if analysis is None:
            status = next(cell.status for cell in run.cells if cell.mode == mode)
            rows.append([mode, status.replace("_", " "), *[units.MISSING] * 7])
            continue
        rows.append([mode, *_row(run, mode, analysis)])
    header = ["mode", "step", "tok/s", "spread", "idle", "kernels", "launches", "host", "binds"]
    return f"{table(header, rows)}\n{wrapped(PER_STEP, WIDTH, indent='  ')}"


def _row(run: RunAnalysis, mode: str, analysis: Analysis) -> list[str]:
    head = analysis.headline
    repeats = [ns for a in run.repeats(mode) if (ns := step_ns(a)) is not None]
    spread = units.MISSING
    if len(repeats) > 1:
        spread = f"±{units.digits(50 * (max(repeats) - min(repeats)) / min(repeats), 2)} %"
    idle = head.unprofiled_idle_share
    if idle is None or idle < 0:
        idle = head.idle_share
    rate = head.rate.tokens_per_s
    return [
        units.time(step_ns(analysis)),
        units.MISSING if rate is None else units.digits(rate),
        spread,
        units.share(idle, 1),
        units.count(head.steps["kernels"].median),
        units.count(head.steps["launches"].median),
        host_words(analysis),
        analysis.ceilings.binding or units.MISSING,
    ]


def _findings(run: RunAnalysis) -> str:
    """The largest finding of each mode."""
    lines = []
    for mode in run.modes:
        analysis = run.representative(mode)
        if analysis is None or not analysis.findings:
            continue
        top = analysis.findings[0]
        gain = top.ceiling_ns_per_token
        text = f", up to {units.time(gain)}/token" if gain > 0 else ""
        lines.append(wrapped(f"{mode}: {top.id} {top.title}{text}", WIDTH, indent="  "))
    return "\n".join(["largest finding of each mode", *lines]) if lines else ""


def _parts(run: RunAnalysis) -> list[str]:
    """Starts, pieces, buckets, autotuning: what the recorder saw beside the steps."""
    found = []
    for part in run_parts(run):
        body = [table([part.title, *part.header[1:]], part.rows)] if part.rows else [part.title]
        body += [wrapped(line, WIDTH, indent="  ") for line in part.lines]
        found.append("\n".join(body))
    return found


def _notes(run: RunAnalysis) -> str:
    where: dict[str, list[str]] = {}
    for cell in run.cells:
        for text in cell.remarks("different", "not compared"):
            where.setdefault(text, []).append(f"{cell.mode}/{cell.repeat}")
    lines = [f"{', '.join(cells)}: {text}" for text, cells in where.items()]
    return "\n".join(wrapped(line, WIDTH, indent="  ") for line in lines)


def _next(run: RunAnalysis, ink: Ink) -> str:
    lines = [ink.next("analyze", cell.path) for cell in run.cells if cell.analysis is not None]
    return lines[0] if lines else ""
