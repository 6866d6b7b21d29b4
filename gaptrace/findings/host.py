"""Findings about host work: launches, Python, the allocator, single ops that hold the host up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gaptrace import units
from gaptrace.findings.evidence import gap_evidence, host_evidence, names_counted
from gaptrace.findings.rule import Claim, Finding, Needs, rule
from gaptrace.findings.trust import PARTLY_CAPTURED, captured_share
from gaptrace.findings.view import LAUNCHING_CAUSES, View
from gaptrace.measure.hosttime import HOST_CLASSES
from gaptrace.measure.marks import COMPILED_REGION
from gaptrace.measure.sentence import CAUSE_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator

# Below this share of a token's time, host lateness is a detail and not what bounds the step.
LAUNCH_BOUND_SHARE = 0.05
# With fewer late gaps a step is not bound by launching, whatever the host does in them.
FEW_GAPS = 10
# Where the host dispatch time is not known, this share of idle says that launching bounds the step.
MOSTLY_IDLE = 0.5
# An op that runs this long by itself, without launching, is not dispatch: dispatching one op
# takes microseconds, a few tens under the profiler.
HOLDS_UP_NS = 200_000
HOLDS_UP_SHARE = 0.05
PYTHON_SHARE = 0.05
# Ops whose own time is that of what they wrap.
_WRAPPERS = ("autograd::engine::", "TorchDynamo Cache Lookup", "ProfilerStep", "CompiledFunction")


@rule("GT101", needs=Needs.CAUSES)
def launch_bound(view: View) -> Iterator[Claim]:
    """The host launches too slowly for the GPU. Ceiling: all idle caused by launching.

    That is idle time with cause `launch`, `dispatch`, `python`, `runtime` or `alloc`: in one graph
    replay no host work lies between the ops. Waits (`sync`) and compile work are not in it.
    """
    head = view.analysis.headline
    launches = head.per_token["launches"].median
    own = view.launching_ns
    found = view.idle_amount(view.by_step(own))
    if captured_share(view) > PARTLY_CAPTURED or not view.worth(found.ns, LAUNCH_BOUND_SHARE):
        return
    gaps = (view.gap_step >= 0) & (own > 0)
    if gaps.sum() < FEW_GAPS * found.of:
        return
    compiled = view.regions[0].size > 0
    kind = "compiled" if compiled else "eager"
    dispatch = head.per_token["host_dispatch_ns"].median
    if dispatch is None or view.busy is None:
        slower = view.worth(found.ns, MOSTLY_IDLE)
    else:
        slower = dispatch > view.busy
    title = f"launch-bound {kind} decode" if slower else f"{kind} decode with late launches"
    causes = view.analysis.headline.idle_by_cause_ns
    largest = sorted(
        (name for name in LAUNCHING_CAUSES if causes.get(name)),
        key=lambda name: -(causes[name] or 0),
    )
    shown = [f"{CAUSE_WORDS[name]} {units.time(causes[name])}" for name in largest]
    text = f"The GPU is busy for {units.time(view.busy)} per token"
    if launches is not None:
        text += f", for which the host makes {units.count(launches)} launch calls"
    if dispatch is not None:
        text += f" and needs {units.time(dispatch)}"
    text += (
        f". In {units.count(float(gaps.sum() / found.of))} gaps per step the host was "
        f"late and the GPU idle: {', '.join(shown)}."
    )
    if compiled:
        text += " The step is compiled but not captured: each launch still costs the host."
    captured = next((w for w in view.analysis.what_ifs if w.id == "captured"), None)
    if captured is not None:
        tokens = head.tokens_per_step or 1
        text += f" Captured, the model says {units.time(captured.step_ns / tokens)} per token."
    evidence = gap_evidence(view, own, "the host was late")
    yield Claim(
        Finding("GT101", title, found.ns, "measured", text, evidence, int(gaps.sum())), gaps
    )


@rule("GT102", needs=Needs.CAUSES)
def python_between_ops(view: View) -> Iterator[Claim]:
    """Python between ops. Ceiling: the host's Python time, at most the idle with a late host."""
    steps = view.steps
    work = steps.host_ns[:, HOST_CLASSES.index("python")]
    found = view.idle_amount(view.freed(work, steps.gpu_start))
    own = view.cause("python")
    idle = view.amount(view.by_step(own))
    if captured_share(view) > PARTLY_CAPTURED or not view.worth(idle.ns, PYTHON_SHARE):
        return
    gaps = (view.gap_step >= 0) & (own > 0)
    text = (
        f"Python (or other untraced host code) between ops takes "
        f"{units.time(view.amount(work).ns)} per token; for {units.time(idle.ns)} of it the GPU "
        f"is idle{idle.note}."
    )
    functions = [row for row in view.analysis.host.python if row.self_ns > 0][:3]
    if functions:
        named = ", ".join(f"{row.name} ({units.time(row.self_ns)})" for row in functions)
        text += f" Most of it: {named}."
    else:
        text += " Recorded with stacks, the trace would name the functions."
    evidence = gap_evidence(view, own, "Python between ops")
    yield Claim(
        Finding(
            "GT102", "Python between ops", found.ns, "measured", text, evidence, int(gaps.sum())
        ),
        gaps,
    )


@rule("GT104", needs=Needs.CAUSES)
def allocator(view: View) -> Iterator[Claim]:
    """Allocator calls in steady state. Ceiling: their time, at most the late idle after them."""
    calls = view.calls("alloc")
    work, begin = view.per_step(calls.step, calls.ns, calls.start)
    found = view.idle_amount(view.freed(work, begin))
    if not view.worth(found.ns):
        return
    tokens = float(view.steps.tokens[view.usable].sum())
    text = (
        f"The allocator asks the driver for memory in steady state: "
        f"{names_counted(view, calls.row, tokens)}, {units.time(view.amount(work).ns)} of host "
        f"time per token{found.note}. PyTorch's cache should serve a step that repeats itself."
    )
    evidence = host_evidence(view, calls.row, calls.step, calls.ns)
    title = "allocator calls in steady state"
    yield Claim(
        Finding("GT104", title, found.ns, "measured", text, evidence, int(calls.row.size)),
        view.late_in(work > 0),
    )


@rule("GT106", needs=Needs.CAUSES)
def holding_op(view: View) -> Iterator[Claim]:
    """One op that launches nothing holds the host up. Ceiling: its own time, at most late idle.

    Its own time is that in no nested op, call or compile work, per token over the counted steps.
    """
    host = view.analysis.host
    for row in host.ops[:5]:
        if row.calls == 0 or row.launches > 0 or row.self_ns / row.calls < HOLDS_UP_NS:
            continue
        if row.name.startswith(_WRAPPERS) or COMPILED_REGION.match(row.name):
            continue
        rows, step, own = view.own_time(row.name)
        work, begin = view.per_step(step, own, view.trace.start[rows])
        found = view.idle_amount(view.freed(work, begin))
        if not view.worth(found.ns, HOLDS_UP_SHARE):
            continue
        text = (
            f"{row.name} ({units.count(row.calls)} per token) keeps the launching thread "
            f"for {units.time(row.self_ns)} per token by itself{found.note}, and launches nothing."
        )
        evidence = host_evidence(view, rows, step, own)
        yield Claim(
            Finding(
                "GT106",
                f"{row.name} holds the host up",
                found.ns,
                "measured",
                text,
                evidence,
                int(rows.size),
            ),
            view.late_in(work > 0),
        )
        return
