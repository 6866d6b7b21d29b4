"""How far the figures can be trusted, and where the file they are from has been."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from gaptrace.document.blocks import Block, Facts, Inline, Note, Sentence, Text
from gaptrace.document.sections import Context
from gaptrace.document.tables import fact, facts_of, figures, given, known, table, words
from gaptrace.quantity import BYTES, COUNT, NS, SHARE, TIMES, TRACED, Quantity
from gaptrace.results.analysis import AnalysisResult, Provenance, Reason
from gaptrace.units import counted
from gaptrace.vocabulary import VERDICTS

REASONS_IN_BRIEF = 3
LEFT_OUT = "left out (--redact)"
NO_STEPS = (
    "No step was found, so there are no figures of one. Looked for: gaptrace marks, engine labels, "
    "ProfilerStep, repeated annotations, compiled regions, repeating kernels. Name the steps with "
    "--step REGEX."
)


def trust(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """The verdict and how the headline was measured; then every reason with what it withholds."""
    yield Facts(facts_of(*_facts(result)), line=True)
    reasons = result.quality.reasons
    shown = reasons
    if context.brief:
        shown = tuple(r for r in reasons if r.level != "note")[:REASONS_IN_BRIEF]
    for reason in shown:
        yield _note(reason)
    left = len(reasons) - len(shown)
    if left:
        yield Sentence((f"{counted(left, 'more note')} on this trace in the full report.",))
    if not context.brief:
        yield from _how_found(result)
    if result.steps.device is not None and result.headline.step_ns is None:
        yield Note((NO_STEPS,), "limited")


def _facts(result: AnalysisResult) -> Iterator[Any]:
    steps, rate = result.steps, result.rate
    verdict = result.quality.verdict
    yield fact("trace", Text(VERDICTS[verdict], "verdict", term=verdict, key=verdict))
    if steps.complete:
        yield fact(
            "complete steps",
            Quantity(steps.complete, COUNT),
            " of ",
            Quantity(steps.count, COUNT),
            term="steps-complete",
        )
    elif steps.count:
        yield fact("complete steps", f"none of {steps.count}", term="steps-complete")
    if steps.rule:
        yield fact("steps by", steps.rule, term="step-rule")
    if steps.kind != "decode" or steps.phase != "decode":
        yield fact("figures of", steps.kind if steps.kind != "decode" else steps.phase)
    yield fact("batch", known(steps.batch, COUNT))
    if steps.tokens_per_step is not None and steps.tokens_per_step != 1:
        yield fact(
            "tokens per step", Quantity(steps.tokens_per_step, COUNT), term="tokens-per-step"
        )
    if rate.source != "as profiled":
        yield fact("times", f"{rate.source} from the run" if rate.source == "unprofiled"
                   else rate.source, term="unprofiled-step")  # fmt: skip
        yield fact("profiler slowdown", known(rate.dilation, TIMES), term="dilation")
    elif rate.tokens_per_s is not None:
        yield fact("times", rate.source, term="rate-source")


def _how_found(result: AnalysisResult) -> Iterator[Note]:
    """What the kind of the steps rests on, what was checked, what lies between them."""
    steps = result.steps
    if steps.kind_why:
        yield Note((f"{steps.kind} steps: {steps.kind_why}",))
    if steps.checked:
        yield Note((f"marks checked against the launch sequence: {steps.checked}",))
    for why, times in steps.outside.items():
        yield Note((f"left out after {counted(times, 'step')}: {why}",))


def _note(reason: Reason) -> Note:
    times: tuple[Inline, ...] = ()
    if reason.count > 1:
        times = (" (", Quantity(reason.count, COUNT), ")")
    withheld = tuple(item.replace("_", " ") for item in reason.withheld)
    return Note((reason.text, *times), reason.level, withheld)


def devices(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """Each device over the whole recording: raw figures, never clipped or withheld."""
    yield table(
        f"{context.prefix}devices-table",
        "whole recording",
        result.devices,
        [
            words("device", lambda d: d.device, "device"),
            figures("GPU ops", COUNT, lambda d: d.gpu_ops, term="gpu-op"),
            figures("kernels", COUNT, lambda d: d.kernels, term="kernel"),
            figures("launch calls", COUNT, lambda d: d.launch_calls, term="launch-call"),
            figures("graph replays", COUNT, lambda d: d.graph_launches, term="graph-replay"),
            figures("ops in graphs", COUNT, lambda d: d.ops_in_graphs, term="ops-in-graphs"),
            figures("orphans", COUNT, lambda d: d.orphans or None, term="orphan"),
            figures("span", NS, lambda d: d.span_ns, TRACED, "span"),
            figures("busy", NS, lambda d: d.busy_ns, TRACED, "busy"),
            figures("idle", NS, lambda d: d.idle_ns, TRACED, "idle"),
            figures("idle share", SHARE, lambda d: d.idle_share, TRACED, "idle"),
            figures("gaps", COUNT, lambda d: d.gaps, term="gap"),
        ],
    )
    if result.steps.devices:
        yield table(
            f"{context.prefix}device-steps",
            "medians of one step",
            result.steps.devices,
            [
                words("device", lambda d: d.device, "device"),
                figures("busy", NS, lambda d: d.busy_ns, TRACED, "busy"),
                figures("busy share", SHARE, lambda d: d.busy_share, TRACED, "busy"),
                figures("kernels", COUNT, lambda d: d.kernels, term="kernel"),
                figures("launch calls", COUNT, lambda d: d.launches, term="launch-call"),
                figures("copies", COUNT, lambda d: d.copies, term="copies"),
                figures("memsets", COUNT, lambda d: d.memsets, term="copies"),
            ],
        )


def provenance(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """What this file contains, so that it can be sent on with open eyes."""
    source = result.source
    origin = source.provenance or Provenance()
    yield Sentence(
        (
            "Names of kernels, ops, modules and Python functions, times, and the facts below. "
            "Nothing in it loads from or reports to anywhere. "
            + (
                "Redacted: host, user, folders, arguments and environment are left out."
                if origin.redacted
                else "Not redacted: --redact leaves out host, user, folders, arguments and "
                "environment."
            ),
        )
    )
    yield Facts(
        facts_of(
            fact("file", source.path, term="source-path"),
            *_personal(origin),
            fact(
                "trace",
                f"{source.format}, ",
                Quantity(source.events, COUNT),
                " events",
                *given(", ", known(source.json_bytes, BYTES), " of JSON"),
            ),
            fact("torch", source.torch or ""),
        )
    )


def _personal(origin: Provenance) -> Iterator[Any]:
    """What the recorder noted about the person and machine, or that it is left out."""
    if origin.redacted:
        for what in ("host", "user", "script", "arguments", "environment"):
            yield fact(what, LEFT_OUT)
        return
    host, script = origin.host, origin.script
    if host is not None:
        yield fact("host", host.name or "")
        yield fact("user", host.user or "")
    if script is not None:
        python = script.python
        yield fact("script", script.path or script.module or "")
        yield fact("arguments", " ".join(script.argv or ()))
        yield fact("interpreter", python if isinstance(python, str) else " ".join(python or ()))
        yield fact("commit", _pairs(script.git))
    yield fact("environment", _pairs(origin.env))


def _pairs(values: dict[str, Any] | None) -> str:
    known_ = sorted((values or {}).items())
    return " ".join(f"{key}={value}" for key, value in known_ if value not in (None, ""))


def commands(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """What to type next."""
    path = result.source.folder or result.source.path
    if path == "-":
        return
    quoted = shlex.quote(path)
    full = (f"gaptrace analyze {quoted} --full",) if context.brief else ()
    explain = tuple(f"gaptrace explain {item.id}" for item in result.findings[:1])
    yield Note((), "next", commands=(*full, f"gaptrace gaps {quoted}", *explain))


def identity(result: AnalysisResult) -> tuple[str, ...]:
    """What was recorded, in short; unknown facts are left out."""
    source = result.source
    found = (
        source.model,
        source.gpu,
        source.engine,
        source.mode and f"mode {source.mode}",
        source.torch and f"torch {source.torch}",
        source.batch and f"batch {source.batch}",
        source.rank and f"rank {source.rank}",
    )
    return tuple(item for item in found if item)
