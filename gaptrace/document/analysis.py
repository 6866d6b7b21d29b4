"""The document of one analysed recording: its sections in reading order."""

from __future__ import annotations

import os
from collections.abc import Iterator

from gaptrace.document import ceilings, findings, host, kernels, steps, trust
from gaptrace.document.answers import analysis_answer
from gaptrace.document.blocks import Block, Document
from gaptrace.document.build import builder
from gaptrace.document.capture import capture_blocks, compile_blocks, square_blocks
from gaptrace.document.sections import ANALYSIS, Builder, Context, section, whole
from gaptrace.results.analysis import AnalysisResult


def modes(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """The 2x2 around this recording, and the step under one change at a time."""
    yield from square_blocks(result.square)
    yield from ceilings.what_would_help(result, context)


def capture(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """Whether the step can be captured, and the captured step as predicted."""
    if result.headline.step_ns is not None:
        yield from capture_blocks(result.capture)


def compiled(result: AnalysisResult, context: Context) -> Iterator[Block]:
    """The compiled step as predicted, and what the recorder saw of compiling."""
    yield from compile_blocks(result.compile)
    yield from host.compilation(result, context)


BRIEF = frozenset({"trust", "token", "alone", "findings", "next"})
SECTIONS: tuple[tuple[str, str, Builder], ...] = (
    ("trust", "Trust", trust.trust),
    ("token", "Where the time goes", steps.token_time),
    ("alone", "What the host does", host.alone),
    ("step", "The step in numbers", steps.step_numbers),
    ("phases", "Phases", steps.phases),
    ("ceilings", "Ceilings", ceilings.ceilings),
    ("modes", "What would help", modes),
    ("findings", "Findings", findings.findings),
    ("steps", "Steps", steps.steps_picture),
    ("timeline", "Timeline", steps.timeline),
    ("idle-work", "What the host did while the GPU was idle", host.idle_work),
    ("pieces", "Pieces", steps.pieces),
    ("kernels", "Kernels", kernels.kernels),
    ("ops", "Ops", host.ops),
    ("host", "Host", host.host_time),
    ("parts", "Host time by engine part", host.engine_parts),
    ("capture", "Capture", capture),
    ("compile", "Compilation", compiled),
    ("power", "Power", ceilings.power),
    ("devices", "Devices", trust.devices),
    ("provenance", "What this file contains", trust.provenance),
    ("next", "Next", trust.commands),
)
for _key, _title, _build in SECTIONS:
    section(ANALYSIS, _key, _title, brief=_key in BRIEF)(_build)


@builder(AnalysisResult)
def analysis_document(result: AnalysisResult, context: Context) -> Document:
    """Everything that is said about one recording, in the detail that is asked for."""
    title = result.source.name or os.path.basename(result.source.path.rstrip("/")) or "trace"
    answer = analysis_answer(result)
    return whole(ANALYSIS, result, context, title, answer, trust.identity(result))
