"""Sizes, a clock and random weights: what the scripts of record_wild.py share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.generation import LogitsProcessor


@dataclass(frozen=True)
class Size:
    """How large models are, and where they run."""

    where: str
    hidden: int
    heads: int
    layers: int
    vocab: int
    prompt: int

    @property
    def eos(self) -> int:
        """A last token that random weights hardly ever choose, so that its check is there."""
        return self.vocab - 1


GPU = Size("cuda", hidden=1024, heads=16, layers=4, vocab=32000, prompt=96)
TINY = Size("cpu", hidden=64, heads=4, layers=2, vocab=512, prompt=12)


class Clock(LogitsProcessor):
    """Takes the time once in each iteration of a loop: `generate` calls it on every logits.

    length: tokens in the cache at each of these times, where a script tells.
    """

    def __init__(self) -> None:
        self.at: list[int] = []
        self.length: list[int] = []

    def tick(self) -> None:
        """One more iteration has got this far."""
        self.at.append(time.perf_counter_ns())

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        self.tick()
        return scores


# Generates that many new tokens per sequence, or fewer; the result counts them.
Generate = Callable[[int, Clock], int]
Make = Callable[[Size], Generate]


def random_weights(size: Size, kind: Any, config: Any) -> Any:
    """A model of this kind, made where it runs."""
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(size.where):
            return kind(config).eval()
    finally:
        torch.set_default_dtype(torch.float32)


def prompt_of(size: Size, sequences: int = 1, length: int | None = None) -> Tensor:
    """Random token ids."""
    torch.manual_seed(1)
    shape = (sequences, length or size.prompt)
    return torch.randint(2, size.vocab - 1, shape, device=size.where)
