"""Step times of the dense decoder in four modes, measured without gaptrace, to check it against.

    python independent_timing.py --size 1b --rounds 5

The modes take turns within a round, so that a drift of the machine touches all of them alike. Each
figure is the time between two device events around `--steps` steps, divided by their number.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import time
from typing import TYPE_CHECKING

import torch
from decoder import SIZES, Decoder, Shape, make
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable


def step_over(forward: Callable[[Tensor, Tensor], Tensor], shape: Shape) -> Callable[[], None]:
    """A greedy step over tensors of its own, around `forward`."""
    where = "cuda" if torch.cuda.is_available() else "cpu"
    token = torch.zeros(shape.batch, 1, dtype=torch.long, device=where)
    pos = torch.zeros(1, dtype=torch.long, device=where)

    @torch.inference_mode()
    def step() -> None:
        logits = forward(token, pos)
        token.copy_(logits.argmax(dim=-1))
        pos.add_(1).remainder_(shape.max_len)

    return step


def captured(step: Callable[[], None]) -> Callable[[], None]:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def replay() -> None:
        graph.replay()

    # The graph reads the step's tensors where they lie: they live as long as the replay does.
    replay.step = step
    return replay


def seconds(step: Callable[[], None], count: int) -> float:
    """Time of one step, from a run of `count`."""
    if not torch.cuda.is_available():
        began = time.perf_counter()
        for _ in range(count):
            step()
        return (time.perf_counter() - began) / count
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    first.record()
    for _ in range(count):
        step()
    last.record()
    torch.cuda.synchronize()
    return first.elapsed_time(last) / 1e3 / count


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", choices=sorted(SIZES), default="1b")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--modes", default="eager,compiled,graph,compiled-graph")
    args = parser.parse_args()
    shape = SIZES[args.size]
    if args.layers:
        shape = dataclasses.replace(shape, layers=args.layers)
    model = make(Decoder, shape)
    modes = args.modes.split(",")
    if not torch.cuda.is_available():
        modes = [mode for mode in modes if "graph" not in mode]
    steps = {}
    for mode in modes:
        forward = torch.compile(model) if "compiled" in mode else model
        step = step_over(forward, shape)
        for _ in range(10):
            step()
        steps[mode] = captured(step) if "graph" in mode else step
    rounds = [
        {mode: seconds(step, args.steps) for mode, step in steps.items()}
        for _ in range(args.rounds + 1)  # the first one warms up
    ]
    result = {
        mode: {
            "median_ms": round(1e3 * statistics.median(r[mode] for r in rounds[1:]), 4),
            "rounds_ms": [round(1e3 * r[mode], 4) for r in rounds[1:]],
        }
        for mode in modes
    }
    print(json.dumps({"size": args.size, "modes": result}))


if __name__ == "__main__":
    main()
