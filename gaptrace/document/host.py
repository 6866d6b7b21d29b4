"""What the launching thread does: ops, what a launch costs, Python and modules; compilation."""

from __future__ import annotations

from collections.abc import Iterator

from gaptrace.document import tables as t
from gaptrace.document.answers import each
from gaptrace.document.blocks import Block, Facts, Note, Sentence, Table, Text
from gaptrace.document.sections import Context
from gaptrace.knowledge.engines import part_titles
from gaptrace.quantity import COUNT, NS, SHARE, TRACED
from gaptrace.results.analysis import AnalysisResult, FunctionRow

NO_STACKS = (
    "No Python stacks were recorded, so time between ops has no function names "
    "(collect --stacks; it slows the host further)."
)


def ops(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """CPU ops by their own host time per token."""
    host, one = result.host, each(result)
    if not host.ops:
        return
    yield Sentence(
        (
            *t.given(t.known(host.op_calls, COUNT), f" op calls per {one} take "),
            *t.given(
                t.duration(host.op_ns, TRACED),
                " of ",
                Text("dispatch", term="dispatch"),
                " on the host; ",
            ),
            "the costliest is ",
            Text(host.ops[0].name, "name"),
            ".",
        ),
        "lead",
    )
    yield t.table(
        f"{context.prefix}ops-table",
        "ops by own host time",
        host.ops,
        [
            t.words("op", lambda o: t.name(o.name)),
            t.figures(f"calls per {one}", COUNT, lambda o: o.calls),
            t.figures(f"own time per {one}", NS, lambda o: o.self_ns, TRACED, "dispatch"),
            t.figures("share", SHARE, lambda o: o.share, TRACED),
            t.figures("per call", NS, lambda o: o.ns_per_call, TRACED),
            t.figures(
                f"launches per {one}", COUNT, lambda o: o.launches, term="launches-per-token"
            ),
        ],
    )


def host_time(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """What a launch costs, and the Python functions and modules behind the host's time."""
    host = result.host
    facts = t.facts_of(
        t.fact("host dispatch per launch", t.duration(host.cost_per_launch_ns, TRACED),
             term="launch-cost"),
        t.fact("in the launch call", t.duration(host.launch_call_ns, TRACED), " median"),
        t.fact("from launch call to start", t.duration(host.launch_to_start_ns, TRACED), " median",
             term="launch-to-start"),
    )  # fmt: skip
    if facts:
        yield Facts(facts)
    for anchor, title, rows in (
        ("python", "Python between ops", host.python),
        ("modules", "modules and regions", host.modules),
    ):
        if rows:
            yield _functions(f"{context.prefix}{anchor}", title, rows, each(result))
    if facts and not host.python:
        yield Note((NO_STACKS,))


def _functions(anchor: str, title: str, rows: tuple[FunctionRow, ...], one: str) -> Table:
    return t.table(
        anchor,
        title,
        rows,
        [
            t.words("name", lambda row: t.name(row.name)),
            t.figures(f"own time per {one}", NS, lambda row: row.self_ns, TRACED),
            t.figures("share", SHARE, lambda row: row.share, TRACED),
        ],
    )


def engine_parts(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """Host time of a step by what the engine does, and the GPU's idle time between steps."""
    found = result.host_parts
    if found is None:
        return
    if found.parts:
        titles = part_titles()
        yield t.table(
            f"{context.prefix}engine-parts",
            f"host time of one step, from {found.source}",
            found.parts,
            [
                t.words("part", lambda p: titles[p.part], "host-time"),
                t.figures("median", NS, lambda p: p.median_ns, TRACED, "median"),
                t.figures("of all steps", NS, lambda p: p.total_ns, TRACED),
            ],
            shown=len(found.parts),
        )
    between = t.duration(found.idle_between_steps_ns, TRACED)
    facts = t.facts_of(
        t.fact("GPU idle between steps", between, " a step, as profiled", term="idle")
    )
    if facts:
        yield Facts(facts)


def compilation(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """Recompilations and graph breaks as the recorder saw them."""
    seen = result.compilation
    if seen is None:
        return
    measured = t.known(seen.recompiles_while_measured, COUNT)
    yield Facts(
        t.facts_of(
            t.fact(
                "recompiles",
                t.known(seen.recompile_count, COUNT),
                " in all",
                *t.given(", ", measured, " while measured"),
                term="recompile",
            ),
            t.fact("graphs", t.known(seen.unique_graphs, COUNT)),
            t.fact(
                "generated kernels",
                t.known(seen.inductor.generated_kernels, COUNT) if seen.inductor else None,
                term="generated",
            ),
            t.fact("compile time", t.duration(t.seconds(seen.seconds))),
        )
    )
    if seen.note:
        yield Note((seen.note,))
    if seen.recompiles:
        yield t.table(
            f"{context.prefix}recompiles",
            "recompiles",
            seen.recompiles,
            [
                t.figures("step", COUNT, lambda r: r.step, term="step"),
                t.words("phase", lambda r: r.phase),
                t.words("function", lambda r: t.name(r.function or "")),
                t.words("guard that failed", lambda r: r.guard, "guard"),
            ],
        )
    if seen.graph_breaks:
        yield t.table(
            f"{context.prefix}graph-breaks",
            "graph breaks",
            seen.graph_breaks,
            [
                t.words("reason", lambda it: it.reason or "", "graph-break"),
                t.words("place", lambda it: it.place or ""),
                t.figures("count", COUNT, lambda it: it.count),
            ],
        )
