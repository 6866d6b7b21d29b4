"""How far the figures can be trusted, and where the file they are from has been."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from gaptrace.document import tables as t
from gaptrace.document.blocks import Block, Fact, Note, Sentence, Text
from gaptrace.document.sections import Context
from gaptrace.quantity import (
    ASSUMED,
    BYTES,
    COUNT,
    GIVEN,
    NS,
    SHARE,
    TIMES,
    TRACED,
    UNPROFILED,
    Quantity,
    ranged,
)
from gaptrace.results.analysis import TOKENS_ASSUMED, AnalysisResult, Provenance, Rate, Steps
from gaptrace.units import counted
from gaptrace.vocabulary import VERDICTS

REASONS_IN_BRIEF = 3
# Who measured a step without the profiler, by the source of its rate.
ORIGIN = {UNPROFILED: " from the run", GIVEN: " by hand"}
LEFT_OUT = "left out (--redact)"
NO_STEPS = (
    "No step was found, so there are no figures of one. Looked for: gaptrace marks, engine labels, "
    "ProfilerStep, repeated annotations, compiled regions, repeating kernels. Name the steps with "
    "--step REGEX."
)
CONTENTS = (
    "Names of kernels, ops, modules and Python functions, times, and the facts below. Nothing in "
    "it loads from or reports to anywhere. "
)
REDACTED = "Redacted: host, user, folders, arguments and environment are left out."
NOT_REDACTED = "Not redacted: --redact leaves out host, user, folders, arguments and environment."


def trust(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """The verdict and how the headline was measured; then every reason with what it withholds."""
    yield t.facts(*_facts(result), line=True)
    shown = reasons = result.quality.reasons
    if context.brief:
        shown = tuple(r for r in reasons if r.level != "note")[:REASONS_IN_BRIEF]
    for reason in shown:
        seen = (" (", Quantity(reason.count, COUNT), ")") if reason.count > 1 else ()
        withheld = tuple(item.replace("_", " ") for item in reason.withheld)
        yield Note((reason.text, *seen), reason.level, withheld)
    if left := len(reasons) - len(shown):
        yield Sentence((f"{counted(left, 'more note')} on this trace in the full report.",))
    if not context.brief:
        yield from _how_found(result)
    if result.steps.device is not None and result.headline.step_ns is None:
        yield Note((NO_STEPS,), "limited")


def verdict_text(verdict: str) -> Text:
    """The verdict on a trace, in words."""
    return Text(VERDICTS[verdict], "verdict", term=verdict, key=verdict)


def _facts(result: AnalysisResult) -> Iterator[Fact | None]:
    steps, rate = result.steps, result.rate
    yield t.fact("trace", verdict_text(result.quality.verdict))
    if steps.complete:
        complete, count = Quantity(steps.complete, COUNT), Quantity(steps.count, COUNT)
        yield t.fact("complete steps", complete, " of ", count, term="steps-complete")
    elif steps.count:
        yield t.fact("complete steps", f"none of {steps.count}", term="steps-complete")
    yield t.fact("steps by", steps.rule, term="step-rule")
    if steps.kind != "decode" or steps.phase != "decode":
        yield t.fact("figures of", steps.kind if steps.kind != "decode" else steps.phase)
    yield t.fact("batch", t.known(steps.batch, COUNT))
    yield _tokens(steps)
    if rate.source != "as profiled":
        yield t.fact("times", f"{rate.source}{ORIGIN[rate.source]}", term="unprofiled-step")
        yield t.fact("profiler slowdown", t.known(rate.dilation, TIMES), term="dilation")
    elif rate.tokens_per_s is not None:
        yield t.fact("times", rate.source, term="rate-source")
    if rate.source == "as profiled":
        yield t.fact("unprofiled, predicted", _predicted(rate), term="predicted-unprofiled")


def _predicted(rate: Rate) -> Quantity | None:
    """The step without the profiler as predicted, with its range; None where there is none."""
    found = rate.predicted
    if found is None or found.step_ns is None or found.range_ns is None:
        return None
    return ranged(found.step_ns, *found.range_ns, NS)


def _tokens(steps: Steps) -> Fact | None:
    """Tokens per step where they are not known to be one: a rate rests on what is assumed."""
    if steps.tokens_source == TOKENS_ASSUMED:
        one = Quantity(1, COUNT, ASSUMED)
        return t.fact(
            "tokens per step", one, ", assumed (--tokens-per-step)", term="tokens-per-step"
        )
    if steps.tokens_per_step == 1:
        return None
    return t.fact("tokens per step", t.known(steps.tokens_per_step, COUNT), term="tokens-per-step")


def _how_found(result: AnalysisResult) -> Iterator[Note]:
    """What the kind of the steps rests on, what was checked, what lies between them."""
    steps = result.steps
    if steps.kind_why:
        yield Note((f"{steps.kind} steps: {steps.kind_why}",))
    if steps.checked:
        yield Note((f"marks checked against the launch sequence: {steps.checked}",))
    for why, times in steps.outside.items():
        yield Note((f"left out after {counted(times, 'step')}: {why}",))


def devices(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """Each device over the whole recording: raw figures, never clipped or withheld."""
    whole = (
        t.words("device", "device", "device"),
        t.counts("GPU ops", "gpu_ops", "gpu-op"),
        t.counts("kernels", "kernels", "kernel"),
        t.counts("launch calls", "launch_calls", "launch-call"),
        t.counts("graph replays", "graph_launches", "graph-replay"),
        t.counts("ops in graphs", "ops_in_graphs", "ops-in-graphs"),
        t.counts("orphans", lambda d: d.orphans or None, "orphan"),
        t.times("span", "span_ns", TRACED, "span"),
        t.times("busy", "busy_ns", TRACED, "busy"),
        t.times("idle", "idle_ns", TRACED, "idle"),
        t.figures("idle share", SHARE, "idle_share", TRACED, "idle"),
        t.counts("gaps", "gaps", "gap"),
    )
    step = (
        t.words("device", "device", "device"),
        t.times("busy", "busy_ns", TRACED, "busy"),
        t.figures("busy share", SHARE, "busy_share", TRACED, "busy"),
        t.counts("kernels", "kernels", "kernel"),
        t.counts("launch calls", "launches", "launch-call"),
        t.counts("copies", "copies", "copies"),
        t.counts("memsets", "memsets", "copies"),
    )
    yield t.table("devices-table", "whole recording", result.devices, whole)
    yield t.table("device-steps", "medians of one step", result.steps.devices, step)


def provenance(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """What this file contains, so that it can be sent on with open eyes."""
    source = result.source
    origin = source.provenance or Provenance()
    yield Sentence((CONTENTS + (REDACTED if origin.redacted else NOT_REDACTED),))
    size = t.given(", ", t.known(source.json_bytes, BYTES), " of JSON")
    events = Quantity(source.events, COUNT)
    yield t.facts(
        t.fact("file", source.path, term="source-path"),
        *_personal(origin),
        t.fact("trace", f"{source.format}, ", events, " events", *size),
        t.fact("torch", source.torch),
    )


def _personal(origin: Provenance) -> Iterator[Fact | None]:
    """What the recorder noted about the person and machine, or that it is left out."""
    host, script = origin.host, origin.script
    if origin.redacted:
        for what in ("host", "user", "script", "arguments", "environment"):
            yield t.fact(what, LEFT_OUT)
        return
    if host is not None:
        yield t.fact("host", host.name)
        yield t.fact("user", host.user)
    if script is not None:
        python = script.python
        yield t.fact("script", script.path or script.module)
        yield t.fact("arguments", " ".join(script.argv or ()))
        yield t.fact("interpreter", python if isinstance(python, str) else " ".join(python or ()))
        yield t.fact("commit", _pairs(script.git))
    yield t.fact("environment", _pairs(origin.env))


def _pairs(values: dict[str, Any] | None) -> str:
    found = sorted((values or {}).items())
    return " ".join(f"{key}={value}" for key, value in found if value not in (None, ""))


def commands(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """What to type next: only what has more to say, so of an unusable trace its findings alone."""
    path = result.source.folder or result.source.path
    if path == "-":
        return
    quoted, usable = shlex.quote(path), result.quality.verdict != "refused"
    full = (f"gaptrace analyze {quoted} --full",) if context.brief and usable else ()
    has_gaps = any(d.gaps for d in result.devices if d.device == result.steps.device)
    gaps = (f"gaptrace gaps {quoted}",) if has_gaps and usable else ()
    explain = tuple(f"gaptrace explain {item.id}" for item in result.findings[:1])
    if known := (*full, *gaps, *explain):
        yield Note((), "next", commands=known)


def identity(result: AnalysisResult) -> tuple[str, ...]:
    """What was recorded, in short; unknown facts are left out."""
    source = result.source
    labels = {"mode ": source.mode, "torch ": source.torch, "batch ": source.batch,
              "rank ": source.rank}  # fmt: skip
    found = (source.model, source.gpu, source.engine)
    labelled = (f"{label}{value}" for label, value in labels.items() if value)
    return (*(item for item in found if item), *labelled)
