"""Findings that only the recorder can show: captures given up, padding, tuning, cold starts.

Nothing of it is in the trace; the recorder counted it in the same process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gaptrace import units
from gaptrace.findings.rule import Claim, Finding, Needs, rule
from gaptrace.knowledge.graph_skips import skip_of
from gaptrace.knowledge.inductor_names import inductor_parts
from gaptrace.measure.startup import COLD, PARTLY, startup_of

if TYPE_CHECKING:
    from gaptrace.findings.view import View

NS = 1e9
REASONS_SHOWN = 3
# Recordings beyond this many for each captured part: one for every call, or for every shape.
MANY_RECORDINGS = 4
# Padding below this share of the positions read is what a fine grid of buckets leaves.
PADDED = 0.05
# Kernels that took this many times as long when they were tried alone as they take in the step.
LONGER_ALONE = 1.5
TEMPLATE = "Triton template"
# A start that compiles for less than this is not worth shipping a cache for.
SHORT_COMPILE_NS = 5 * NS


def _rows(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


@rule("GT406", needs=Needs.STEPS)
def capture_given_up(view: View) -> Iterator[Claim]:
    """torch was asked to capture and ran a graph launched. Ceiling 0: GT101 and GT402 have it."""
    manifest = view.analysis.manifest
    skips = manifest.integer("cudagraph_trees", "skips") or 0
    if skips < 1:
        return
    text = f"torch gave up on capturing {units.count(skips)} compiled "
    text += f"{'graph' if skips == 1 else 'graphs'} and launched the work."
    for item in _rows(manifest.get("cudagraph_trees", "skip_reasons"))[:REASONS_SHOWN]:
        reason = " ".join(str(item.get("reason", "")).split()).rstrip(".")
        where = f" ({item['where']})" if item.get("where") else ""
        known = skip_of(reason)
        text += f" Logged: {reason}{where}."
        if known is not None:
            text += f" That is, {known.means}: {known.change}."
    title = "torch gave up on capturing a graph"
    yield Claim(Finding("GT406", title, 0.0, "measured", text, places=skips))


@rule("GT407", needs=Needs.STEPS)
def recorded_again(view: View) -> Iterator[Claim]:
    """Graphs recorded again after they had been recorded, or very often. Ceiling 0.

    Recording again while steps are measured is worse: then no step is steady.
    """
    manifest = view.analysis.manifest
    recordings = manifest.integer("cudagraph_trees", "recordings") or 0
    again = manifest.integer("cudagraph_trees", "rerecordings") or 0
    parts = max(manifest.integer("cudagraph_trees", "partitions") or 1, 1)
    late = manifest.integer("cudagraph_trees", "recordings_while_measured") or 0
    if not again and not late and recordings <= MANY_RECORDINGS * parts:
        return
    text = f"{units.count(recordings)} graphs were recorded"
    text += f" for {units.count(parts)} captured parts" if parts > 1 else ""
    text += f", {units.count(again)} of them again." if again else "."
    if late:
        text += f" {units.count(late)} of them while steps were measured: those were not steady."
    moving = manifest.integer("cudagraph_trees", "non_static_inputs")
    if moving:
        text += f" {units.count(moving)} inputs are copied in before each replay."
    warnings = manifest.get("cudagraph_trees", "warnings")
    if isinstance(warnings, list) and warnings:
        text += f" torch warned: {' '.join(str(warnings[0]).split())[:300].rstrip('.')}."
    text += " Each recording runs the step once more and keeps its memory."
    title = "graphs were recorded more than once"
    yield Claim(Finding("GT407", title, 0.0, "measured", text, places=again or recordings))


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
    tokens = analysis.headline.tokens_per_step or 1
    own = analysis.manifest.integer("buckets", "this")
    sizes = analysis.manifest.get("buckets", "sizes")
    text = f"{units.share(share, 1)} of the positions that a step works on are padding"
    if own is not None:
        text += f" up to the bucket of {units.count(own)}"
    elif isinstance(sizes, list) and sizes:
        text += f" up to buckets of {', '.join(units.count(n) for n in sizes if _is_size(n))}"
    ceiling = 0.0
    if moved.kv_bytes and peak:
        wasted = share * moved.kv_bytes
        ceiling = wasted * NS / peak / tokens
        if view.busy is not None:
            ceiling = min(ceiling, view.busy)
        if not view.worth(ceiling):
            return
        text += (
            f": at most {units.size(wasted)} of the {units.size(moved.kv_bytes)} of cache that a "
            f"step reads ({moved.kv_source}), {units.time(ceiling)} per token at "
            f"{units.bandwidth(peak)}."
        )
    else:
        text += ". What they cost needs the bytes of the cache (--kv-bytes) and a bandwidth."
    title = "padding to a bucket is read and thrown away"
    yield Claim(Finding("GT408", title, ceiling, "likely", text, places=1))


@rule("GT409", needs=Needs.CAUSES)
def tuned_by_more_than_kernels(view: View) -> Iterator[Claim]:
    """Products that became templates by trials much longer than the kernels themselves.

    Ceiling 0: what library calls would take in this step, only a step with them can show. Told only
    where the step runs as many templates as were chosen for it, so that both means are of the same
    kernels.
    """
    analysis = view.analysis
    chosen = [
        (item["ns"], item.get("best_extern_ns"), item["count"])
        for item in _rows(analysis.manifest.get("autotune", "choices"))
        if item.get("kind") == TEMPLATE and _is_size(item.get("ns")) and _is_size(item.get("count"))
    ]
    tried = sum(count for _, _, count in chosen)
    tokens = analysis.headline.tokens_per_step or 1
    rows = [
        row
        for row in analysis.kernels.rows
        if (parts := inductor_parts(row.name)) is not None and parts.kind == "template"
    ]
    run = round(sum(row.per_token for row in rows) * tokens)
    # Each bucket's graph asked the same questions.
    if not run or not tried or tried % run:
        return
    alone = sum(ns * count for ns, _, count in chosen) / tried
    inside = sum(row.total_ns_per_token for row in rows) * tokens / run
    if alone < LONGER_ALONE * inside:
        return
    text = f"{units.count(len(chosen))} matrix products became Triton templates, which took "
    text += f"{units.time(alone)} on average when each was tried alone"
    extern = [(ns, count) for _, ns, count in chosen if _is_size(ns)]
    if extern:
        mean = sum(ns * count for ns, count in extern) / sum(count for _, count in extern)
        text += f" (the best library calls {units.time(mean)})"
    text += (
        f". In this step their {units.count(run)} kernels take {units.time(inside)} on average: "
    )
    text += f"{units.share(1 - inside / alone, 1)} of a trial was not the kernel but its call, its "
    text += "launch, a cold cache, and that differs between candidates. Which kernel is shorter in "
    text += "the step, only a step with library calls can show."
    title = "products were chosen by trials longer than their kernels"
    yield Claim(Finding("GT409", title, 0.0, "measured", text, places=len(chosen)))


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
    text = f"The compile cache was {start.cache}: ready after {units.time(start.ready_ns)}"
    # Products are tuned while the graph compiles, some other kernels at their first call.
    tuning = "autotuning (in part within the compiling)" if start.compile_ns else "autotuning"
    parts = [
        f"{units.time(ns)} {words}"
        for ns, words in (
            (start.compile_ns, "compiling"),
            (start.autotune_ns, tuning),
            (start.capture_ns, "capturing"),
        )
        if ns
    ]
    text += f", of it {', '.join(parts)}." if parts else "."
    misses = sum(
        manifest.integer("compile", "cache", name, "misses") or 0
        for name in ("fx_graph", "aot_autograd", "autotune")
    )
    made = manifest.integer("compile", "cache", "new_files", "cubin") or 0
    made += manifest.integer("compile", "cache", "new_files", "so") or 0
    if misses or made:
        text += f" {units.count(misses)} {'look-up' if misses == 1 else 'look-ups'} missed, "
        text += f"{units.count(made)} {'kernel was' if made == 1 else 'kernels were'} built."
    size = manifest.integer("compile", "cache", "bytes")
    if start.cache == PARTLY and not misses:
        text += " All graphs came from the cache: what was built are kernels that are tuned at "
        text += "their first call."
    elif size:
        text += f" The cache now holds {units.size(size)}: ship it, and the next start finds it."
    title = f"a start with a {start.cache} compile cache"
    yield Claim(Finding("GT307", title, 0.0, "measured", text, places=1))
