"""A bad step, on purpose: two functions of known names hold the host up in every step.

`wait_for_tokens` sleeps for 2 ms, as a poll does; `rank_candidates` computes on the host for 1 ms.
Both come between the steps' launches, so the GPU waits for them: its gaps must name them.

gaptrace collect --stacks --modes eager sleeping_host.py
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from decoder import SIZES, Decoder, greedy_step, make, parse, run

if TYPE_CHECKING:
    from torch import Tensor

SLEEP_S, COMPUTE_S = 2e-3, 1e-3


def wait_for_tokens() -> None:
    """Sleep as a poll for work does."""
    time.sleep(SLEEP_S)


def rank_candidates() -> int:
    """Add numbers up for a while, as a scheduler in Python does."""
    until, total = time.perf_counter() + COMPUTE_S, 0
    while time.perf_counter() < until:
        for number in range(2_000):
            total += number * number
    return total


class WaitingDecoder(Decoder):
    """A decoder that does both before it launches anything."""

    def forward(self, token: Tensor, pos: Tensor, window: int | None = None) -> Tensor:
        wait_for_tokens()
        rank_candidates()
        return super().forward(token, pos, window)


def build():
    shape, args = parse(SIZES, "1b")
    step = greedy_step(make(WaitingDecoder, shape))
    step.label = f"dense decoder, {args.size}, host asleep for 2 ms and at work for 1 ms"
    return step


if __name__ == "__main__":
    run(build(), parse(SIZES, "1b")[1].steps)
