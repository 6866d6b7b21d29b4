"""What the recorder adds to a run: what is missing, starts, pieces, buckets, tuning, graph trees.

Each part is a title, a table and sentences as plain text, so that the terminal, Markdown and HTML
say the same. A part is there only where a mode of the run recorded something for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gaptrace import units
from gaptrace.measure.piecewise import Piecewise, SeamKind
from gaptrace.measure.result import Analysis
from gaptrace.reading.manifest import Manifest
from gaptrace.report.sweep_text import start_words
from gaptrace.runs.run import RunAnalysis, host_dispatch
from gaptrace.runs.startup import seam_prices, tuning_gain

CHOICES_SHOWN = 12
KINDS_SHOWN = 4


@dataclass(frozen=True)
class RunPart:
    """One part: glossary entry that its title leads to, header and rows of a table, sentences."""

    title: str
    term: str
    header: tuple[str, ...]
    rows: list[list[str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def run_parts(run: RunAnalysis) -> list[RunPart]:
    """The parts of a run that have something to say, in the order shown."""
    found = (
        _stopped(run),
        _starts(run),
        _pieces(run),
        _buckets(run),
        _tuning(run),
        _graph_trees(run),
    )
    return [part for part in found if part.rows or part.lines]


def host_words(analysis: Analysis, unit: str | None = None) -> str:
    """Host dispatch of a step: `≤` an upper bound, and whether it is as profiled."""
    ns, source = host_dispatch(analysis)
    text = units.time(ns) if unit is None else units.time_value(ns, unit)
    if ns is None:
        return text
    if source == "as profiled":
        return f"{text} as profiled"
    return f"≤ {text}" if source.endswith("upper bound") else text


def _recorded(run: RunAnalysis, section: str) -> Iterator[tuple[str, Manifest, Mapping[str, Any]]]:
    """Each mode that recorded a section: its first repeat that did, and what stands there."""
    for mode in run.modes:
        for cell in run.cells:
            found = cell.manifest.get(section)
            if cell.mode == mode and isinstance(found, Mapping):
                yield mode, cell.manifest, found
                break


def _stopped(run: RunAnalysis) -> RunPart:
    part = RunPart("recording", "mode", ())
    if run.missing:
        part.lines.append(f"stopped before it was complete; missing: {', '.join(run.missing)}")
    return part


def _starts(run: RunAnalysis) -> RunPart:
    part = RunPart(
        "start-up, s", "start-up", ("mode", "cold", "warm", "compile", "autotune", "capture")
    )
    for mode, start in run.starts.items():
        parts = (start.compile_ns, start.autotune_ns, start.capture_ns)
        cells = [units.MISSING if ns is None else units.time_value(ns, "s") for ns in parts]
        part.rows.append([mode, *start_words(start), *cells])
    return part


def piece_words(found: Piecewise) -> str:
    """The pieces of one recording in a sentence."""
    graphs = f" of {units.count(found.pieces)} graphs" if found.pieces else ""
    text = (
        f"{units.count(found.replays)} graph replays per step{graphs}; "
        f"{units.count(found.seams)} seams, {units.count(found.with_work)} of them launch work "
        f"({units.count(found.kernels)} kernels, {units.count(found.launches)} launch calls)"
    )
    if found.idle_ns is not None:
        text += (
            f"; idle in the seams, as profiled, {units.time(found.idle_ns)} per step "
            f"({units.share(found.share, 1)}), a mean of {units.time(found.idle_per_seam_ns)} each"
        )
    if found.of != "decode steps":
        text += f". No decode step was counted: read from {found.of}"
    return text


SEAMS = ("work in the seam", "per step", "kernels", "idle", "busy", "host")
SEAMS_SAID = (
    "Of one seam, times as profiled; idle is the mean, the others and the kernels are medians."
)


def seam_rows(found: Piecewise) -> list[list[str]]:
    """The kinds of seams as text, in the order of `SEAMS`; times of one seam.

    Idle is their mean, so that it adds up to the seam idle of the step, as the sentence's does.
    """
    return [
        [
            ", ".join(name.removeprefix("aten::") for name in kind.work),
            units.count(kind.per_step),
            units.count(kind.kernels),
            units.time(_mean_idle(kind)),
            units.time(kind.busy_ns),
            units.time(kind.host_ns),
        ]
        for kind in found.kinds[:KINDS_SHOWN]
    ]


def _mean_idle(kind: SeamKind) -> float | None:
    total = kind.idle_per_step_ns
    return None if total is None or not kind.per_step else total / kind.per_step


def _pieces(run: RunAnalysis) -> RunPart:
    part = RunPart(
        "pieces", "piece", ("mode", "replays", "seams", "kernels in them", "idle", "each", "share")
    )
    timed = False
    recorded = {
        mode: _recorded_pieces(mode, manifest, found)
        for mode, manifest, found in _recorded(run, "piecewise")
    }
    for mode in run.modes:
        analysis = run.representative(mode)
        found = analysis.piecewise if analysis is not None else None
        if found is not None:
            timed = timed or found.idle_ns is not None
            part.rows.append(
                [
                    mode,
                    units.count(found.replays),
                    units.count(found.seams),
                    units.count(found.kernels),
                    units.time(found.idle_ns),
                    units.time(found.idle_per_seam_ns),
                    units.share(found.share, 1),
                ]
            )
        part.lines.extend(recorded.get(mode, ()))
    if timed:
        part.lines.insert(
            0, "idle, as profiled, of all seams of a step; each is their mean, share is of the step"
        )
    for price in seam_prices(run):
        change = price.step_ns - price.whole_ns
        sign = "+" if change >= 0 else "−"
        text = (
            f"{price.mode} against {price.whole}, unprofiled: {sign}{units.time(abs(change))} per "
            f"step over {units.count(price.seams)} seams, "
            f"{sign}{units.time(abs(price.per_seam_ns))} each"
        )
        part.lines.append(text + ("" if price.beyond else "; within the spread of the repeats"))
    return part


def _recorded_pieces(mode: str, manifest: Manifest, found: Mapping[str, Any]) -> list[str]:
    """What the recorder says about a mode's pieces: where it was split, what it copies."""
    count, captured = (manifest.integer("piecewise", name) for name in ("pieces", "captured"))
    if count is None:
        return []
    text = f"{mode}: {units.count(count)} pieces, {units.count(captured)} captured"
    split = found.get("split_at")
    if isinstance(split, list) and split:
        text += f", split at {', '.join(str(name) for name in split)}"
    copied = manifest.integer("piecewise", "copied_bytes")
    if copied:
        inputs = found.get("copied_inputs")
        text += f"; {units.size(copied)} copied into static inputs each step"
        text += f" ({units.count(len(inputs))} inputs)" if isinstance(inputs, list) else ""
    pool = manifest.integer("piecewise", "pool_bytes")
    if pool:
        text += f"; graphs hold {units.size(pool)}"
    note = manifest.text("piecewise", "note")
    return [f"{text}. {note}" if note else text]


def _buckets(run: RunAnalysis) -> RunPart:
    part = RunPart(
        "buckets",
        "bucket",
        ("mode", "bucket", "step", "first call", "compile", "capture", "memory"),
    )
    for mode, _, found in _recorded(run, "buckets"):
        medians = found.get("median_ns")
        prepared = {
            item.get("size"): item
            for item in found.get("prepared") or ()
            if isinstance(item, Mapping)
        }
        sizes = [size for size in found.get("sizes") or () if isinstance(size, int)]
        for size in sizes:
            step = medians.get(str(size)) if isinstance(medians, Mapping) else None
            if size in prepared or step is not None:
                own = Manifest.of(prepared.get(size, {}))
                part.rows.append(
                    [
                        mode,
                        units.count(size),
                        units.time(step),
                        _seconds(own.integer("first_call_ns")),
                        _seconds(own.ns_of_seconds("compile_seconds")),
                        units.time(own.integer("capture_ns")),
                        units.size(own.integer("memory_bytes")),
                    ]
                )
        share = found.get("padding_share")
        if isinstance(share, (int, float)) and share:
            part.lines.append(f"{mode}: {units.share(share, 1)} of the positions read are padding")
    return part


def _seconds(ns: float | None) -> str:
    return units.MISSING if ns is None else units.time(ns, "s")


def _tuning(run: RunAnalysis) -> RunPart:
    part = RunPart(
        "autotuning",
        "autotune",
        ("op", "shapes", "chosen", "kind", "time", "best library call", "of"),
    )
    for mode, _, found in _recorded(run, "autotune"):
        choices = [item for item in found.get("choices") or () if isinstance(item, Mapping)]
        part.rows.extend(_choice(item) for item in choices[:CHOICES_SHOWN])
        part.lines.extend(_tuning_words(mode, found, choices))
        analysis = run.representative(mode)
        for finding in analysis.findings if analysis is not None else ():
            if finding.id == "GT409":
                part.lines.append(f"{mode}: {finding.id} {finding.title}")
    gain = tuning_gain(run)
    if gain is not None:
        text = f"tuning took {units.time(gain.cost_ns)} ({gain.source})"
        if gain.break_even_tokens is not None:
            text += (
                f" and saves {units.time(gain.saved_ns_per_token)} per token against "
                f"{gain.against}: earned back after {units.digits(gain.break_even_tokens)} tokens"
            )
        else:
            text += f"; no break-even: {gain.reason}"
        part.lines.append(text)
    return part


def _choice(item: Mapping[str, Any]) -> list[str]:
    shapes = item.get("shapes")
    words = [
        "×".join(str(n) for n in shape) for shape in shapes or () if isinstance(shape, list)
    ] if isinstance(shapes, list) else []  # fmt: skip

    def time(name: str) -> str:
        value = item.get(name)
        return units.time(value) if isinstance(value, (int, float)) else units.MISSING

    count = item.get("candidates")
    return [
        str(item.get("op", "")),
        " by ".join(words),
        units.middle_elided(str(item.get("chosen", "")), 28),
        str(item.get("kind") or ""),
        time("ns"),
        time("best_extern_ns"),
        units.count(count) if isinstance(count, int) else "",
    ]


def _tuning_words(
    mode: str, found: Mapping[str, Any], choices: list[Mapping[str, Any]]
) -> list[str]:
    lines = []
    if found.get("skipped"):
        lines.append(f"{mode}: nothing was tuned: {found['skipped']}")
    if choices:
        kinds = Counter(str(item.get("kind") or "unknown kind") for item in choices).most_common()
        text = f"{mode}: {units.count(len(choices))} products tuned: "
        text += ", ".join(f"{kind} {units.count(n)}" for kind, n in kinds)
        rest = len(choices) - CHOICES_SHOWN
        text += f"; {units.count(rest)} more are in run.json" if rest > 0 else ""
        lines.append(text)
    fused = [t for t in found.get("templates") or () if isinstance(t, Mapping)]
    counts = [n if isinstance(n := item.get("count"), int) else 1 for item in fused]
    before, behind = (
        sum(n for n, item in zip(counts, fused, strict=True) if item.get(kind))
        for kind in ("prologue", "epilogue")
    )
    if fused:
        lines.append(
            f"{mode}: {units.count(sum(counts))} template kernels, {units.count(before)} with a "
            f"prologue and {units.count(behind)} with an epilogue"
        )
    if found.get("note"):
        lines.append(f"{mode}: {found['note']}")
    return lines


def _graph_trees(run: RunAnalysis) -> RunPart:
    part = RunPart("graph trees", "graph-replay", ())
    for mode, manifest, _ in _recorded(run, "cudagraph_trees"):
        words = []
        for name, title in (
            ("recordings", "recorded"),
            ("rerecordings", "recorded again"),
            ("partitions", "partitions"),
            ("skips", "given up"),
        ):
            value = manifest.integer("cudagraph_trees", name)
            if value is not None:
                words.append(f"{title} {units.count(value)}")
        if words:
            part.lines.append(f"{mode}: graphs {', '.join(words)}")
    return part
