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
from gaptrace.results.manifest import Cache, NewFiles

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
    trees = view.analysis.manifest.cudagraph_trees
    skips = trees.skips or 0
    if skips < 1:
        return
    logged = []
    for item in (trees.skip_reasons or ())[:NAMES_SHOWN]:
        reason = " ".join((item.reason or "").split()).rstrip(".")
        known = skip_of(reason)
        facts: dict[str, Fact] = {"said": reason, "line": item.where or None}
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
    trees = view.analysis.manifest.cudagraph_trees
    recordings, again = trees.recordings or 0, trees.rerecordings or 0
    late, partitions = trees.recordings_while_measured or 0, trees.partitions or 0
    if not again and not late and recordings <= MANY_RECORDINGS * max(partitions, 1):
        return
    warned = " ".join(trees.warnings[0].split()) if trees.warnings else ""
    yield Claim(
        "GT407",
        facts={
            "recordings": quantity(recordings, COUNT, UNPROFILED),
            "partitions": _count(partitions if partitions > 1 else None),
            "rerecordings": _count(again),
            "late": _count(late),
            "moving": _count(trees.non_static_inputs),
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
    buckets = analysis.manifest.buckets
    share = buckets.padding_share
    if share is None or share < PADDED:
        return
    moved, peak = analysis.ceilings, analysis.ceilings.peak_bandwidth_bytes_per_s
    facts: dict[str, Fact] = {
        "padding": quantity(share, SHARE, UNPROFILED),
        "bucket": _count(buckets.this),
        "sizes": ", ".join(map(units.count, buckets.sizes or ())) or None,
        "buckets": buckets.this is None,
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
            "kv_source": moved.kv_bytes_source,
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
        (item.ns, item.best_extern_ns, item.count)
        for item in analysis.manifest.autotune.choices or ()
        if item.kind == TEMPLATE and item.ns is not None and item.count is not None
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
    extern = [(ns, count) for _, ns, count in chosen if ns is not None]
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


@rule("GT307", needs=Needs.STEPS)
def cold_start(view: View) -> Iterator[Claim]:
    """The process compiled what a shipped cache would have held. Ceiling 0: it is paid once."""
    manifest = view.analysis.manifest
    start = startup_of(manifest)
    if start is None or start.cache not in (COLD, PARTLY):
        return
    if max(start.compile_ns or 0, start.autotune_ns or 0, start.ready_ns or 0) < SHORT_COMPILE_NS:
        return
    cache = manifest.compile.cache or Cache()
    looked_up = (cache.fx_graph, cache.aot_autograd)
    misses = sum(counts.misses or 0 for counts in looked_up if counts is not None)
    new = cache.new_files or NewFiles()
    built = (new.cubin or 0) + (new.so or 0)
    all_found = start.cache == PARTLY and not misses
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
            "size": None if all_found else quantity(cache.bytes or None, BYTES, UNPROFILED),
        },
        title="cache",
        places=1,
    )
