"""Bytes that one step reads, decided from what was observed; withheld where nothing tells."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gaptrace_collectors.paging import Paging
from gaptrace_collectors.step_reads import StepReads, unseen
from gaptrace_collectors.tensors import (
    Placement,
    cache_tensors,
    named_arguments,
    nbytes,
    packed_buffers,
    placement,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch import nn

    from gaptrace_collectors.cell_info import StepFacts
    from gaptrace_collectors.device import Device
    from gaptrace_collectors.runners import Runner

_RECURRENT = re.compile(r"recurrent|conv_state|ssm_state", re.IGNORECASE)
_EXPERT = re.compile(r"expert", re.IGNORECASE)
_PREFILL_ONLY = re.compile(r"(^|_)(encoder|vision|visual|audio|image)(_|$)|encoder$", re.IGNORECASE)
_SAW = "observed in one decode step"
COMPILED_BY_SCRIPT = "the script compiles or captures the step"
_UNREPORTED = "kernels that torch does not report"


@dataclass
class Amount:
    """Bytes, or None with a reason in `source`."""

    bytes: int | None
    source: str


class ReadsObserver:
    """Runs one step of the recording with its reads counted; a handler of the recorder.

    `eager` makes the step without what a mode compiles or captures. `why_not` says why it must not
    be made (the script compiles the step by itself); the step then runs as it is.
    """

    def __init__(
        self,
        model: nn.Module | None,
        state: Any,
        state_name: str,
        named_like: Callable[..., Any],
        eager: Callable[..., Any],
        device: Device,
    ) -> None:
        self.why_not = ""
        self.grown: dict[str, int] = {}  # caches that grow, and their size while profiled
        self.peak: dict[str, int] = {}
        self.weights: Amount | None = None
        self.kv: Amount | None = None
        self._model = model
        self._state = state
        self._state_name = state_name
        self._named_like = named_like
        self._eager = eager
        self._device = device

    def handler(self, runner: Runner, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One step."""
        named = named_arguments(self._named_like, args, kwargs)
        caches = cache_tensors(named, self._state, self._state_name)
        if self.why_not:
            out = runner(*args, **kwargs)
            self.kv = self._kv(caches, None, named)
            return out
        model = self._model
        weights = [] if model is None else [*model.parameters(), *packed_buffers(model)]
        reads = StepReads([*weights, *caches.values()])
        # An eager step may need more memory than the mode that is recorded.
        self.peak = self._device.peak() or {}
        out = reads.run(lambda: self._eager(*args, **kwargs))
        self._device.reset_peak()
        if model is not None:
            self.weights = _weights(model, weights, reads)
        self.kv = self._kv(caches, reads, named)
        return out

    def _kv(
        self, caches: dict[str, torch.Tensor], reads: StepReads | None, named: dict[str, Any]
    ) -> Amount | None:
        """What is read of the caches; None where there are none."""
        if not caches:
            return None
        counted: set[int] = set()
        total = allocated = observed = 0
        unknown: list[Placement] = []
        for name, tensor in caches.items():
            size = self.grown.get(name, nbytes(tensor))
            allocated += size
            regions = [] if reads is None else reads.of(tensor)
            seen = sum(region.bytes for region in regions)
            if seen:
                new = [region for region in regions if id(region) not in counted]
                counted |= {id(region) for region in new}
                read = sum(region.bytes for region in new)
                # A cache that grows was shorter in the profiled steps.
                total += size if name in self.grown and seen >= nbytes(tensor) else read
                observed += 1
            elif name in self.grown or _RECURRENT.search(name):
                total += size
            else:
                unknown.append(placement(tensor))
        if unknown:
            return self._in_pages(unknown, total, named)
        if not observed:
            return Amount(total, "size of the cache tensors, which grow with the text")
        if total == allocated:
            return Amount(total, f"{_SAW}: all that is allocated")
        return Amount(total, f"{_SAW}: {total:,} of the {allocated:,} bytes allocated")

    def _in_pages(self, unknown: list[Placement], total: int, named: dict[str, Any]) -> Amount:
        why = self.why_not or f"the caches are read by {_UNREPORTED}"
        paging = Paging(named, self._model)
        read = paging.read_bytes(unknown) if paging else None
        if read is not None:
            return Amount(total + read, "pages in use: the sequences' lengths, not the whole pool")
        what = "a pool of pages is allocated" if paging else "a cache is allocated"
        return Amount(
            None, f"{what}, but how much of it a step reads is not known: {why}; --kv-bytes says it"
        )


def _weights(model: nn.Module, tensors: list[torch.Tensor], reads: StepReads) -> Amount | None:
    """Weights that a step was seen to read, and those that only other kernels can have read."""
    regions = {id(region): region for tensor in tensors for region in reads.of(tensor)}
    total = sum(region.bytes for region in regions.values())
    hidden = unseen(model, reads, tensors)
    experts = [name for name, tensor in hidden if is_expert(name, tensor)]
    if experts:
        return Amount(
            None,
            f"experts are read by {_UNREPORTED} ({experts[0]}), so which of them a step reads is"
            " not known; --weight-bytes says it",
        )
    source = f"{_SAW}: what its operators read, embedding tables left out"
    partly = [
        name
        for name, parameter in model.named_parameters()
        if is_expert(name, parameter)
        and sum(region.bytes for region in reads.of(parameter)) < nbytes(parameter)
    ]
    if partly:
        source += "; of the experts those that were used"
    if hidden:
        size = sum(nbytes(tensor) for _, tensor in hidden)
        total += size
        source += f"; {size:,} bytes counted whole, read by {_UNREPORTED}"
    return Amount(total, source) if total else None


def is_expert(name: str, parameter: torch.Tensor) -> bool:
    """Whether a parameter belongs to experts, by its name or by holding one matrix for each."""
    stacked = parameter.dim() == 3 and min(parameter.shape[:2]) > 1 and "conv" not in name.lower()
    return stacked or bool(_EXPERT.search(name))


def unobserved_weights(model: nn.Module, weights: int, source: str, why: str) -> Amount:
    """Weights by their sizes alone, withheld where a step surely reads less than that."""
    for name, parameter in model.named_parameters():
        if _EXPERT.search(name):
            return Amount(
                None,
                f"the model has experts, of which a step reads some: {why}; --weight-bytes says it",
            )
        part = next((word for word in name.split(".") if _PREFILL_ONLY.search(word)), None)
        if part is not None and parameter.dim() > 1:
            return Amount(
                None, f"whether a step reads {part} is not known: {why}; --weight-bytes says it"
            )
    return Amount(weights, f"{source}; {why}")


def read_section(
    step: StepFacts, reads: ReadsObserver | None, sizes: dict[str, Any]
) -> dict[str, Any]:
    """The fields of run.json's `bytes` that say what one step reads; `sizes`: the other fields."""
    why = COMPILED_BY_SCRIPT if step.compiled_by else "no step was observed"
    weights, kv = (reads.weights, reads.kv) if reads else (None, None)
    if weights is None and step.model is not None:
        whole, source = sizes["weights_read_per_step"], sizes["weights_source"]
        weights = unobserved_weights(step.model, whole, source, why)
    elif weights is None:
        weights = Amount(None, f"the step names no model: {why}; --weight-bytes says it")
    if kv is None and sizes["kv_allocated"]:
        kv = Amount(None, f"a cache is allocated, but what a step reads of it is not known: {why}")
    elif kv is None:
        kv = Amount(None, "nothing is cached" if step.uncached else "no cache tensor was found")
    return {
        "weights_read_per_step": weights.bytes,
        "weights_source": weights.source,
        "kv_read_per_step": kv.bytes,
        "kv_source": kv.source,
    }
