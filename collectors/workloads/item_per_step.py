"""A bad step, on purpose: the host asks the GPU for a number inside every step.

`.item()` waits until all work before it is done, so the queue is empty whenever the host goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from decoder import SIZES, Decoder, greedy_step, make, parse, run

if TYPE_CHECKING:
    from torch import Tensor


class CarefulDecoder(Decoder):
    """A decoder that checks its logits on the host."""

    def forward(self, token: Tensor, pos: Tensor) -> Tensor:
        logits = super().forward(token, pos)
        if logits.abs().amax().item() > 1e4:
            logits = logits.clamp(-1e4, 1e4)
        return logits


def build():
    shape, args = parse(SIZES, "1b")
    step = greedy_step(make(CarefulDecoder, shape))
    step.label = f"dense decoder, {args.size}, .item() in every step"
    return step


if __name__ == "__main__":
    run(build(), parse(SIZES, "1b")[1].steps)
