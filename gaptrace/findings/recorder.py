"""Findings that only the recorder can show: captures given up, padding, tuning, cold starts.

Nothing of it is in the trace; the recorder counted it in the same process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gaptrace import units
from gaptrace.findings.evidence import NAMES_SHOWN
from gaptrace.findings.rule import Claim, rule
from gaptrace.findings.wording import clause_text, quantity
from gaptrace.knowledge.graph_skips import skip_of
from gaptrace.knowledge.inductor_names import inductor_parts
from gaptrace.measure.startup import COLD, PARTLY, startup_of
from gaptrace.measure.view import Needs, View
from gaptrace.quantity import (
    AT_MOST,
    BYTES,
    BYTES_PER_S,
    COUNT,
    GIVEN,
    NS,
    PREDICTED,
    SHARE,
    UNPROFILED,
    Quantity,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gaptrace.findings.wording import Fact

NS_PER_S = 1e9
# Recordings beyond this many for each captured part: one for every call, or for every shape.
MANY_RECORDINGS = 4
# Padding below this share of the positions read is what a fine grid of buckets leaves.
PADDED = 0.05
# Kernels that took this many times as long when they were tried alone as they take in the step.
LONGER_ALONE = 1.5
TEMPLATE = "Triton template"
# A start that compiles for less than this is not worth shipping a cache for.
SHORT_COMPILE_NS = 5_000_000_000


def _count(value: float | None) -> Quantity | None:
    """A number that the recorder counted; None for none."""
    return quantity(value or None, COUNT, UNPROFILED)


@rule("GT406", needs=Needs.STEPS)
def capture_given_up(view: View) -> Iterator[Claim]:
    """torch was asked to capture and ran a graph launched. Ceiling 0: GT101 and GT402 have it."""
    skips = view.analysis.manifest.integer("cudagraph_trees", "skips") or 0
    if skips < 1:
        return
    logged = []
    for item in view.recorded("cudagraph_trees", "skip_reasons")[:NAMES_SHOWN]:
        reason = " ".join(str(item.get("reason", "")).split()).rstrip(".")
        known = skip_of(reason)
        facts: dict[str, Fact] = {"said": reason, "line": item.get("where") or None}
        if known is not None:
            facts |= {"means": known.means, "change": known.change}
        logged.append(clause_text("GT406", "reason", facts))
    facts = {"skips": _count(skips), "reasons": " ".join(logged) or None}
    yield Claim("GT406", facts=facts, places=skips)


@rule("GT407", needs=Needs.STEPS)
def recorded_again(view: View) -> Iterator[Claim]:
    """Graphs recorded again after they had been recorded, or very often. Ceiling 0.

    Recording again while steps are measured is worse: then no step is steady.
    """
    manifest = view.analysis.manifest
    recordings, again, late, partitions, moving = (
        manifest.integer("cudagraph_trees", name) or 0
        for name in (
            "recordings",
            "rerecordings",
            "recordings_while_measured",
            "partitions",
            "non_static_inputs",
        )
    )
    if not again and not late and recordings <= MANY_RECORDINGS * max(partitions, 1):
        return
    warnings = manifest.get("cudagraph_trees", "warnings")
    warned = " ".join(str(warnings[0]).split()) if isinstance(warnings, list) and warnings else ""
    yield Claim(
        "GT407",
        facts={
            "recordings": quantity(recordings, COUNT, UNPROFILED),
            "partitions": _count(partitions if partitions > 1 else None),
            "rerecordings": _count(again),
            "late": _count(late),
            "moving": _count(moving),
            "warning": warned[:300].rstrip(".") or None,
        },
        places=again or recordings,
    )


@rule("GT408", needs=Needs.STEPS)
def padding(view: View) -> Iterator[Claim]:
    """Positions read that are padding. Ceiling: their bytes of cache over the peak bandwidth.

    Never more than the busy time. Without the bytes of the cache the share alone is told, and the
    ceiling is 0.
    """
    analysis = view.analysis
    share = analysis.manifest.number("buckets", "padding_share")
    if share is None or share < PADDED:
        return
    moved, peak = analysis.ceilings.step_bytes, analysis.ceilings.peak_bandwidth
    bucket, sizes = (analysis.manifest.get("buckets", name) for name in ("this", "sizes"))
    listed = [units.count(n) for n in (sizes if isinstance(sizes, list) else []) if _is_size(n)]
    facts: dict[str, Fact] = {
        "padding": quantity(share, SHARE, UNPROFILED),
        "bucket": _count(bucket) if _is_size(bucket) else None,
        "sizes": ", ".join(listed) or None,
        "buckets": not _is_size(bucket),
    }
    ceiling = 0.0
    if moved.kv_bytes and peak:
        wasted = share * moved.kv_bytes
        ceiling = wasted * NS_PER_S / peak / (analysis.headline.tokens_per_step or 1)
        ceiling = ceiling if view.busy is None else min(ceiling, view.busy)
        if not view.matters(ceiling):
            return
        facts |= {
            "wasted": quantity(wasted, BYTES, UNPROFILED, AT_MOST),
            "kv_bytes": quantity(moved.kv_bytes, BYTES, GIVEN),
            "kv_source": moved.kv_source,
            "time": quantity(ceiling, NS, PREDICTED, AT_MOST),
            "bandwidth": quantity(peak, BYTES_PER_S, GIVEN),
        }
    yield Claim("GT408", ceiling, {**facts, "unknown": not ceiling}, "likely", places=1)


@rule("GT409", needs=Needs.CAUSES)
def tuned_by_noise(view: View) -> Iterator[Claim]:
    """Products that became templates by trials much longer than the kernels themselves.

    Ceiling 0: what library calls would take in this step, only a step with them can show. Told only
    where the step runs as many templates as were chosen for it, so that both means are of the same
    kernels.
    """
    analysis = view.analysis
    chosen = [
        (item["ns"], item.get("best_extern_ns"), item["count"])
        for item in view.recorded("autotune", "choices")
        if item.get("kind") == TEMPLATE and _is_size(item.get("ns")) and _is_size(item.get("count"))
    ]
    tried = sum(count for _, _, count in chosen)
    tokens = analysis.headline.tokens_per_step or 1
    templates = [
        row
        for row in analysis.kernels.rows
        if (parts := inductor_parts(row.name)) is not None and parts.kind == "template"
    ]
    run = round(sum(row.per_token for row in templates) * tokens)
    # Each bucket's graph asked the same questions.
    if not run or not tried or tried % run:
        return
    alone = sum(ns * count for ns, _, count in chosen) / tried
    inside = sum(row.total_ns_per_token for row in templates) * tokens / run
    if alone < LONGER_ALONE * inside:
        return
    extern = [(ns, count) for _, ns, count in chosen if _is_size(ns)]
    calls = sum(count for _, count in extern)
    library = sum(ns * count for ns, count in extern) / calls if calls else None
    yield Claim(
        "GT409",
        facts={
            "choices": _count(len(chosen)),
            "alone": quantity(alone, NS, UNPROFILED),
            "extern": quantity(library, NS, UNPROFILED),
            "run": quantity(run, COUNT),
            "inside": quantity(inside, NS),
            "overhead": quantity(1 - inside / alone, SHARE, UNPROFILED),
        },
        places=len(chosen),
    )


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@rule("GT307", needs=Needs.STEPS)
def cold_start(view: View) -> Iterator[Claim]:
    """The process compiled what a shipped cache would have held. Ceiling 0: it is paid once."""
    manifest = view.analysis.manifest
    start = startup_of(manifest)
    if start is None or start.cache not in (COLD, PARTLY):
        return
    if max(start.compile_ns or 0, start.autotune_ns or 0, start.ready_ns or 0) < SHORT_COMPILE_NS:
        return
    misses = sum(
        manifest.integer("compile", "cache", name, "misses") or 0
        for name in ("fx_graph", "aot_autograd", "autotune")
    )
    built = sum(
        manifest.integer("compile", "cache", "new_files", kind) or 0 for kind in ("cubin", "so")
    )
    all_found = start.cache == PARTLY and not misses
    size = manifest.integer("compile", "cache", BYTES)
    yield Claim(
        "GT307",
        facts={
            "cache": start.cache,
            "ready": quantity(start.ready_ns, NS, UNPROFILED),
            "compiling": quantity(start.compile_ns or None, NS, UNPROFILED),
            "tuning": quantity(start.autotune_ns or None, NS, UNPROFILED),
            "within": bool(start.compile_ns),
            "capturing": quantity(start.capture_ns or None, NS, UNPROFILED),
            "misses": quantity(misses, COUNT, UNPROFILED),
            "built": quantity(built, COUNT, UNPROFILED),
            "missed": bool(misses or built),
            "all_found": all_found,
            "size": None if all_found else quantity(size or None, BYTES, UNPROFILED),
        },
        title="cache",
        places=1,
    )
