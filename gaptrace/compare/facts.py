"""Facts by which recordings are judged to be alike, as text; None where a recording is silent."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from gaptrace.measure.result import Analysis
from gaptrace.reading.manifest import Manifest
from gaptrace.results.analysis import TOKENS_ASSUMED
from gaptrace.trace import Trace

# Recorded type names to the names torch uses in Python.
_TYPES = {
    "c10::bfloat16": "bfloat16",
    "c10::half": "float16",
    "float": "float32",
    "double": "float64",
    "signed char": "int8",
    "unsigned char": "uint8",
}
_GEMM_OP = re.compile(r"aten::(mm|addmm|bmm|baddbmm|_?\w*(?:scaled|int\w*|pack)_mm|linear|matmul)$")


def facts_of(analysis: Analysis) -> dict[str, str | None]:
    """GPU, model, dtype, batch, versions and profiler settings of one recording.

    dtype: what most parameter bytes are stored as, else the type that most matrix products were
    called with. batch, tokens_per_step: None where they would be guesses.
    """
    manifest, source, head = analysis.manifest, analysis.source, analysis.headline
    known = head.tokens_source not in ("", TOKENS_ASSUMED) and head.tokens_per_step is not None
    tokens = f"{head.tokens_per_step:g}" if known else None
    batch, weights = manifest.step.batch, manifest.bytes.weights_total
    stacks, shapes = manifest.profiled.stacks, manifest.profiled.shapes
    frames, ops = analysis.trace.py.rows.size > 0, analysis.trace.op.rows.size > 0
    if analysis.trace.joined:
        # Settings are those of the recording that the times are from.
        stacks, shapes, frames, ops = False, False, False, False
    # The few products outside a replay (a sampler's) say nothing about those inside.
    if (dtype := _stored_as(manifest)) is None and not head.captured:
        dtype = _multiplied_as(analysis.trace)
    return {
        "gpu": " ".join(source.gpu.split()) if source.gpu else None,
        "model": source.model,
        "weights": str(weights) if weights is not None else None,
        "dtype": dtype,
        "batch": str(batch) if batch is not None else None,
        "tokens_per_step": tokens,
        "engine": source.engine,
        "torch": source.torch,
        "cuda": manifest.versions.cuda,
        "driver": manifest.device.driver,
        # Replays alone call no op, so a captured step does not tell.
        "ops": "yes" if ops else None if head.captured else "no",
        "shapes": _setting(
            analysis, "record_shapes", stated=shapes, seen=bool(analysis.trace.shapes)
        ),
        "stacks": _setting(analysis, "with_stack", stated=stacks, seen=frames),
        "memory": _setting(analysis, "profile_memory", stated=None, seen=False),
    }


def _setting(analysis: Analysis, key: str, *, stated: bool | None, seen: bool) -> str | None:
    """Whether the profiler recorded something: `yes`, `no`, or None where nothing tells.

    The manifest says it, else events of its kind (`seen`), else torch.profiler's own header, which
    has `key` where the setting was on. A file without that header may have lost what it recorded.
    """
    recorded = stated
    if stated is None:
        recorded = seen or bool(analysis.trace.metadata.get(key))
    if stated is None and not recorded and not _says_settings(analysis):
        return None
    return "yes" if recorded else "no"


def _says_settings(analysis: Analysis) -> bool:
    """Whether the file has what torch.profiler writes around the events, or a manifest beside it.

    The recorder of a run folder records no memory events, and says the other settings.
    """
    return "schemaVersion" in analysis.trace.metadata or analysis.trace.run is not None


def _stored_as(manifest: Manifest) -> str | None:
    sizes: Counter[str] = Counter()
    for name, size in (manifest.bytes.parameters or {}).items():
        sizes[name.removeprefix("torch.")] += int(size)
    for name, size in (manifest.bytes.buffers or {}).items():
        if "int4" in name:
            sizes[name.removeprefix("torch.")] += int(size)
    return max(sizes, key=lambda name: (sizes[name], name)) if sizes else None


def _multiplied_as(trace: Trace) -> str | None:
    """The first operand's type of most matrix products; None where no shapes were recorded."""
    if not trace.shapes:
        return None
    rows = trace.op.rows
    shaped = trace.op.shape >= 0
    pairs = np.stack((trace.name[rows][shaped], trace.op.shape[shaped]), axis=1)
    if pairs.size == 0:
        return None
    distinct, counts = np.unique(pairs, axis=0, return_counts=True)
    votes: Counter[str] = Counter()
    for (name, shape), count in zip(distinct.tolist(), counts.tolist(), strict=True):
        if _GEMM_OP.match(trace.names[name]):
            types = [text for text in trace.shapes[shape].types if text not in ("", "Scalar")]
            if types:
                votes[types[0]] += count
    if not votes:
        return None
    text = max(votes, key=lambda kind: (votes[kind], kind))
    return _TYPES.get(text.lower(), text)
