"""What the launching thread does: ops, what a launch costs, Python and modules; compilation."""

from __future__ import annotations

from collections.abc import Iterator

from gaptrace.document import tables as t
from gaptrace.document.answers import each
from gaptrace.document.blocks import Block, Note, Sentence, Text
from gaptrace.document.sections import Context
from gaptrace.document.steps import NO_FRAMES, called_from, cause_name, work_name
from gaptrace.knowledge.engines import part_titles
from gaptrace.quantity import COUNT, SHARE, TRACED
from gaptrace.results.analysis import AnalysisResult

NO_STACKS = (
    "No Python stacks were recorded, so time between ops has no function names "
    "(collect --stacks; it slows the host further)."
)
OPS_SHOWN = 5
SHARES = t.figures("share", SHARE, "share", TRACED)


def ops(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """CPU ops by their own host time per token."""
    host, one = result.host, each(result)
    if not host.ops:
        return
    time, dispatch = t.duration(host.op_ns, TRACED), Text("dispatch", term="dispatch")
    yield Sentence(
        (
            *t.given(t.known(host.op_calls, COUNT), f" op calls per {one} take "),
            *t.given(time, " of ", dispatch, " on the host; "),
            "the costliest is ", Text(host.ops[0].name, "name"), ".",
        ),
        "lead",
    )  # fmt: skip
    columns = (
        t.names("op", "name"),
        t.counts(f"calls per {one}", "calls"),
        t.times(f"own time per {one}", "self_ns", TRACED, "dispatch"),
        SHARES,
        t.times("per call", "ns_per_call", TRACED),
        t.counts(f"launches per {one}", "launches", "launches-per-token"),
    )
    yield t.table("ops-table", "ops by own host time", host.ops, columns)


def alone(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """On the first screen the costliest ops of a step that ran on a CPU; in full all are shown."""
    host = result.host
    if not context.brief or result.steps.device is not None or not host.ops:
        return
    columns = (
        t.names("op", "name"),
        t.counts(f"calls per {each(result)}", "calls"),
        t.times(f"own time per {each(result)}", "self_ns", TRACED, "dispatch"),
        SHARES,
    )
    yield t.table("ops-alone", "ops by own host time", host.ops[:OPS_SHOWN], columns, shown=t.ALL)


def host_time(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """What a launch costs, and the Python functions and modules behind the host's time."""
    host = result.host
    cost, call, start = (
        t.duration(ns, TRACED)
        for ns in (host.cost_per_launch_ns, host.launch_call_ns, host.launch_to_start_ns)
    )
    costs = t.facts(
        t.fact("host dispatch per launch", cost, term="launch-cost"),
        t.fact("in the launch call", call, " median"),
        t.fact("from launch call to start", start, " median", term="launch-to-start"),
    )
    yield costs
    own = t.times(f"own time per {each(result)}", "self_ns", TRACED)
    columns = (t.names("name", "name"), own, SHARES)
    yield t.table("python", "Python between ops", host.python, columns)
    yield t.table("modules", "modules and regions", host.modules, columns)
    if costs.facts and not host.python:
        yield Note((NO_STACKS,))


def idle_work(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """What the launching thread did while the GPU waited for it: a mean over the counted steps."""
    found, one = result.idle_work, each(result)
    if found is None:
        return
    late = t.duration(found.late_ns, TRACED)
    yield Sentence(
        (
            *t.given("The GPU waits for its host ", late, f" per {one} (mean, as profiled). "),
            "In that time the launching thread was in:",
        ),
        "lead",
    )
    columns = (
        t.words("cause", lambda w: cause_name(w.cause), "cause", "cause"),
        t.words("host in", work_name, "host-work"),
        t.words("called from", called_from, "host-work"),
        t.times(f"per {one}", "ns", TRACED, "idle-per-token"),
        t.figures("of idle", SHARE, "share", "", "host-work"),
    )
    notes = () if found.frames else (NO_FRAMES,)
    yield t.table("idle-work", "the host while the GPU was idle", found.parts, columns, notes=notes)
    if found.other_ns:
        rest = t.duration(found.other_ns, TRACED)
        yield Sentence((*t.given("All smaller parts together take ", rest, f" per {one}."),))


def engine_parts(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """Host time of a step by what the engine does, and the GPU's idle time between steps."""
    found = result.host_parts
    if found is None:
        return
    titles = part_titles()
    columns = (
        t.words("part", lambda p: titles[p.part], "host-time"),
        t.times("median", "median_ns", TRACED, "median"),
        t.times("of all steps", "total_ns", TRACED),
    )
    title = f"host time of one step, from {found.source}"
    yield t.table("engine-parts", title, found.parts, columns, shown=t.ALL)
    between = t.duration(found.idle_between_steps_ns, TRACED)
    yield t.facts(
        t.fact("GPU idle between steps", between, " a step, as profiled", term="idle"),
    )


def compilation(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """Recompilations and graph breaks as the recorder saw them."""
    seen = result.compilation
    if seen is None:
        return
    measured = t.given(", ", t.known(seen.recompiles_while_measured, COUNT), " while measured")
    recompiled = t.known(seen.recompile_count, COUNT)
    generated = seen.inductor.generated_kernels if seen.inductor else None
    yield t.facts(
        t.fact("recompiles", recompiled, " in all", *measured, term="recompile"),
        t.fact("graphs", t.known(seen.unique_graphs, COUNT)),
        t.fact("generated kernels", t.known(generated, COUNT), term="generated"),
        t.fact("compile time", t.duration(t.seconds(seen.seconds))),
    )
    if seen.note:
        yield Note((seen.note,))
    recompiles = (
        t.counts("step", "step", "step"),
        t.words("phase", "phase"),
        t.names("function", "function"),
        t.words("guard that failed", "guard", "guard"),
    )
    yield t.table("recompiles", "recompiles", seen.recompiles or (), recompiles)
    breaks = (
        t.words("reason", "reason", "graph-break"),
        t.words("place", "place"),
        t.counts("count", "count"),
    )
    yield t.table("graph-breaks", "graph breaks", seen.graph_breaks or (), breaks)
