"""A bad step, on purpose: a text that changes with every token is part of what is compiled.

Dynamo guards on the text, so each token fails the guard and compiles the step once more.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from decoder import SIZES, Decoder, greedy_step, make, parse, run

if TYPE_CHECKING:
    from torch import Tensor


class TaggedDecoder(Decoder):
    """A decoder that looks its scale up by the name of the current step."""

    tag = "step 0"

    def forward(self, token: Tensor, pos: Tensor) -> Tensor:
        return super().forward(token, pos) * (1.0 if self.tag else 0.0) * len(self.tag)


def build():
    shape, _ = parse(SIZES, "1b")
    model = make(TaggedDecoder, dataclasses.replace(shape, layers=min(shape.layers, 2)))
    plain = greedy_step(model)
    count = 0

    def step() -> Tensor:
        nonlocal count
        count += 1
        model.tag = f"step {count}"
        return plain()

    step.model = model
    step.batch = plain.batch
    step.kv_bytes = plain.kv_bytes
    step.reset = plain.reset
    step.label = "dense decoder, one recompile per token"
    return step


if __name__ == "__main__":
    run(build(), parse(SIZES, "1b")[1].steps)
