"""The stacked cache, named from the eager step: in-place writes to views of one large buffer.

`kc[layer].index_copy_(...)` writes a little into one slice. Compiled, the write becomes a new value
of the whole buffer, and Inductor copies all of it where it cannot prove the copy away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gaptrace import units
from gaptrace.measure import fusion_model as fm
from gaptrace.predict.steps import CompiledStep
from gaptrace.results.prediction import StackedCache, Variant

COUNTED = ("writes", "buffers", "base_bytes", "view_bytes")


def stacked_caches(
    answer: Mapping[str, Any], compiled: CompiledStep, eager_busy_ns: float | None
) -> tuple[StackedCache, ...]:
    """Every stacked buffer that the step writes through views, with its loss and the way out."""
    generated = answer["kernels"]["generated"]
    variant = next((item for item in compiled.what_ifs if item.name == "unstack-cache"), None)
    found = []
    for doubt in answer["doubts"]:
        if doubt["id"] != "stacked_cache":
            continue
        kernels = [generated[i] for i in doubt.get("kernels", ()) if i < len(generated)]
        loss = max(sum(fm.generated_ns(k) - k["replaces"]["dur_ns"] for k in kernels), 0.0)
        change = None
        if compiled.busy is not None and eager_busy_ns is not None:
            change = compiled.busy.ns - eager_busy_ns
        found.append(
            StackedCache(
                **{name: int(doubt[name]) for name in COUNTED},
                copies=int(doubt["whole_copies"]),
                loss_ns=loss,
                busy_change_ns=change,
                gain_ns=variant.gain_ns if variant is not None else None,
                text=_text(doubt, loss, change, variant),
            )
        )
    return tuple(found)


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
