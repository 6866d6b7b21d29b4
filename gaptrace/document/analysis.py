"""The document of one analysed recording: its sections in reading order."""

from __future__ import annotations

import os
from collections.abc import Iterator

from gaptrace.document.answers import analysis_answer
from gaptrace.document.blocks import Block, Document, Sentence
from gaptrace.document.build import builder
from gaptrace.document.capture import capture_blocks, compile_blocks, square_blocks
from gaptrace.document.ceilings import ceilings, power, what_would_help
from gaptrace.document.findings import findings
from gaptrace.document.host import compilation, engine_parts, host_time, ops
from gaptrace.document.kernels import kernels
from gaptrace.document.sections import ANALYSIS, Context, build, section
from gaptrace.document.steps import (
    phases,
    pieces,
    step_numbers,
    steps_picture,
    timeline,
    token_time,
)
from gaptrace.document.trust import commands, devices, identity, provenance, trust
from gaptrace.results.analysis import AnalysisResult

section(ANALYSIS, "trust", "Trust", brief=True)(trust)
section(ANALYSIS, "token", "Where the time goes", brief=True)(token_time)
section(ANALYSIS, "step", "The step in numbers")(step_numbers)
section(ANALYSIS, "phases", "Phases")(phases)
section(ANALYSIS, "ceilings", "Ceilings")(ceilings)


@section(ANALYSIS, "modes", "What would help")
def modes(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """The 2x2 around this recording, and the step under one change at a time."""
    yield from square_blocks(result.square, f"{context.prefix}square")
    yield from what_would_help(result, context)


section(ANALYSIS, "findings", "Findings", brief=True)(findings)
section(ANALYSIS, "steps", "Steps")(steps_picture)
section(ANALYSIS, "timeline", "Timeline")(timeline)
section(ANALYSIS, "pieces", "Pieces")(pieces)
section(ANALYSIS, "kernels", "Kernels")(kernels)
section(ANALYSIS, "ops", "Ops")(ops)
section(ANALYSIS, "host", "Host")(host_time)
section(ANALYSIS, "parts", "Host time by engine part")(engine_parts)


@section(ANALYSIS, "capture", "Capture")
def capture(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """Whether the step can be captured, and the captured step as predicted."""
    if result.headline.step_ns is not None:
        yield from capture_blocks(result.capture, context.prefix)


@section(ANALYSIS, "compile", "Compilation")
def compiled(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """The compiled step as predicted, and what the recorder saw of compiling."""
    yield from compile_blocks(result.compile, context.prefix)
    yield from compilation(result, context)


section(ANALYSIS, "power", "Power")(power)
section(ANALYSIS, "devices", "Devices")(devices)
section(ANALYSIS, "provenance", "What this file contains")(provenance)
section(ANALYSIS, "next", "Next", brief=True)(commands)


@builder(AnalysisResult)
def analysis_document(result: AnalysisResult, context: Context) -> Document:
    """Everything that is said about one recording, in the detail that is asked for."""
    return Document(
        kind=ANALYSIS,
        title=result.source.name or os.path.basename(result.source.path.rstrip("/")) or "trace",
        answer=Sentence(analysis_answer(result), "answer"),
        identity=identity(result),
        sections=build(ANALYSIS, result, context),
        result=result,
        detail=context.detail,
    )
