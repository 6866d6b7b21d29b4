"""The stacked cache, named from the eager step: in-place writes to views of one large buffer.

`kc[layer].index_copy_(...)` writes a little into one slice. Compiled, the write becomes a new value
of the whole buffer, and Inductor copies all of it where it cannot prove the copy away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gaptrace import units
from gaptrace.measure import fusion_model as fm
from gaptrace.predict.steps import CompiledStep
from gaptrace.results.prediction import StackedCache, Variant


def stacked_caches(
    answer: Mapping[str, Any], compiled: CompiledStep, eager_busy_ns: float | None
) -> tuple[StackedCache, ...]:
    """Every stacked buffer that the step writes through views, with its loss and the way out."""
    generated = answer["kernels"]["generated"]
    variant = _unstacked(compiled.what_ifs)
    found = []
    for doubt in answer["doubts"]:
        if doubt["id"] != "stacked_cache":
            continue
        kernels = [generated[i] for i in doubt.get("kernels", ()) if i < len(generated)]
        loss = sum(fm.generated_ns(k) - k["replaces"]["dur_ns"] for k in kernels)
        change = None
        if compiled.busy is not None and eager_busy_ns is not None:
            change = compiled.busy.ns - eager_busy_ns
        gain = variant.gain_ns if variant is not None else None
        found.append(
            StackedCache(
                writes=int(doubt["writes"]),
                buffers=int(doubt["buffers"]),
                base_bytes=int(doubt["base_bytes"]),
                view_bytes=int(doubt["view_bytes"]),
                copies=int(doubt["whole_copies"]),
                loss_ns=max(float(loss), 0.0),
                busy_change_ns=change,
                gain_ns=gain,
                text=_text(doubt, max(float(loss), 0.0), change, variant),
            )
        )
    return tuple(found)


def _unstacked(what_ifs: Sequence[Variant]) -> Variant | None:
    return next((item for item in what_ifs if item.name == "unstack-cache"), None)


def _text(
    doubt: Mapping[str, Any], loss: float, change: float | None, variant: Variant | None
) -> str:
    text = (
        f"{doubt['writes']} in-place writes go to views ({units.size(doubt['view_bytes'])}) of "
        f"stacked buffers ({units.size(doubt['base_bytes'])} each). Compiled, "
        f"{doubt['whole_copies']} kernels would copy a whole buffer: {units.time(loss)} per step "
        "lost"
    )
    if change is not None:
        verb = "longer" if change > 0 else "shorter"
        text += f", so that the GPU is busy {units.time(abs(change))} {verb} than in eager"
    text += "."
    if variant is None:
        return text + " Ask --what-if unstack-cache for what one tensor per layer would give."
    if variant.gain_ns is None:
        return f"{text} One tensor per layer could not be asked: {variant.error}"
    return (
        f"{text} One tensor per layer in place of the stack: {variant.generated} generated "
        f"kernels, {units.time(variant.gain_ns)} of busy time won."
    )
