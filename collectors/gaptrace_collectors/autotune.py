"""What Inductor's autotuning decided: the choice made for each matrix product, and its price.

Read through the hook that Inductor offers for it, and by watching which templates are generated
with what fused into them. Both have moved between versions: what is missing is left out.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# The shape that a template gives, and what is fused before and behind it.
_Fused = tuple[tuple[int | str, ...], tuple[str, ...], tuple[str, ...]]

_EXTERN = "ExternKernelCaller"
_KINDS = {
    "TritonTemplateCaller": "Triton template",
    "CUTLASSTemplateCaller": "CUTLASS",
    "CUDATemplateCaller": "CUTLASS",
    "CppTemplateCaller": "C++ template",
    "CuteDSLTemplateCaller": "CuTe template",
    "SubgraphChoiceCaller": "decomposition",
}


class Autotuning:
    """Watches autotuning from the moment it is made; `skipped` says why there is none."""

    def __init__(self, max_batch: int | None, batch: int, *, accelerated: bool) -> None:
        self._library = "cuBLAS" if accelerated else "ATen"
        self.skipped: str | None = None
        self._max_batch = max_batch
        self._choices: dict[tuple[str, str, str], dict[str, Any]] = {}
        self._templates: Counter[_Fused] = Counter()
        if max_batch is not None and batch > max_batch:
            self.skipped = f"batch {batch} is above --autotune-max-batch {max_batch}"
            return
        self._listen()

    def _listen(self) -> None:
        try:
            from torch._inductor import select_algorithm
        except ImportError:
            return
        # Its tables would land in the script's output.
        if hasattr(select_algorithm, "PRINT_AUTOTUNE"):
            select_algorithm.PRINT_AUTOTUNE = False
        if hasattr(select_algorithm, "_log_autotune_choices_stats"):
            select_algorithm._log_autotune_choices_stats = lambda *_, **__: None
        if hasattr(select_algorithm, "add_feedback_saver"):
            select_algorithm.add_feedback_saver(self._chosen)
        _watch_templates(self._templates)

    def _chosen(self, timings: dict[Any, float], name: str, inputs: list[Any], *_: Any) -> None:
        """Called by Inductor with every measured candidate's milliseconds."""
        finite = {choice: ms for choice, ms in timings.items() if ms < float("inf")}
        if not finite:
            return
        best = min(finite, key=lambda choice: finite[choice])
        extern = [ms for choice, ms in finite.items() if _class(choice) == _EXTERN]
        shapes, chosen = [_shape(node) for node in inputs], self._kind(best)
        # Equal layers ask the same question again; candidates are then numbered anew.
        same = self._choices.get((name, str(shapes), chosen))
        if same is not None:
            same["count"] += 1
            return
        self._choices[name, str(shapes), chosen] = {
            "op": name,
            "shapes": shapes,
            "dtype": _dtype(inputs),
            "chosen": str(getattr(best, "name", best)),
            "kind": chosen,
            "ns": round(finite[best] * 1e6),
            "best_extern_ns": round(min(extern) * 1e6) if extern else None,
            "candidates": len(timings),
            "count": 1,
        }

    def _kind(self, choice: Any) -> str:
        """The library or template family behind a candidate, by its class."""
        name = _class(choice)
        return self._library if name == _EXTERN else _KINDS.get(name, name)

    def section(self, seconds: float | None, *, cached: bool) -> dict[str, Any]:
        """The `autotune` section of run.json; `cached`: all compiled graphs came from the cache."""
        note = None
        if not self._choices and not self.skipped:
            if cached:
                note = "the choices for matrix products came with the graphs from the cache"
                note += "; the time went into other kernels, at their first call" if seconds else ""
            elif seconds:
                note = "no matrix product had a choice; the time went into the other kernels"
            else:
                note = "nothing was tuned"
        return {
            "max_batch": self._max_batch,
            "skipped": self.skipped,
            "seconds": seconds,
            "choices": list(self._choices.values()),
            "templates": [
                {
                    "output": list(output),
                    "prologue": list(before),
                    "epilogue": list(after),
                    "count": count,
                }
                for (output, before, after), count in self._templates.most_common()
            ],
            "note": note,
        }


def _class(choice: Any) -> str:
    """Name of a candidate's class; one that only prepares its inputs is looked through."""
    return type(getattr(choice, "_wrapped", choice)).__name__


def _shape(node: Any) -> list[int | str]:
    try:
        return [int(size) if str(size).isdigit() else str(size) for size in node.get_size()]
    except (AttributeError, NotImplementedError):
        return []


def _dtype(inputs: list[Any]) -> str | None:
    for node in inputs:
        try:
            return str(node.get_dtype()).removeprefix("torch.")
        except (AttributeError, NotImplementedError):
            continue
    return None


def _watch_templates(generated: Counter[_Fused]) -> None:
    """Count the templates that are generated, by what is fused before and behind them."""
    try:
        from torch._inductor.codegen.simd import SIMDScheduling
    except ImportError:
        return
    original: Callable[..., Any] | None = getattr(SIMDScheduling, "codegen_template", None)
    if original is None:
        return

    def codegen_template(
        self: Any, template_node: Any, epilogue_nodes: Any, *rest: Any, **named: Any
    ) -> Any:
        prologue = rest[0] if rest else named.get("prologue_nodes", ())
        if not named.get("only_gen_src_code"):
            output = tuple(_shape(getattr(template_node, "node", None)))
            generated[output, _origins(prologue), _origins(epilogue_nodes)] += 1
        return original(self, template_node, epilogue_nodes, *rest, **named)

    SIMDScheduling.codegen_template = codegen_template


def _origins(nodes: Any) -> tuple[str, ...]:
    """The operators that scheduler nodes came from, without the numbers of their nodes."""
    names = {
        re.sub(r"_\d+$", "", str(origin.name))
        for node in nodes or ()
        for origin in getattr(getattr(node, "node", None), "origins", ()) or ()
    }
    return tuple(sorted(names))
