"""A Llama-style dense decoder, one K and one V cache tensor per layer: 1 B and 8 B shapes.

gaptrace collect dense_decoder.py --size 1b
"""

from __future__ import annotations

from decoder import SIZES, Decoder, greedy_step, make, parse, run


def build():
    shape, args = parse(SIZES, "1b")
    step = greedy_step(make(Decoder, shape))
    step.label = f"Llama-style dense decoder, {args.size}"
    return step


if __name__ == "__main__":
    run(build(), parse(SIZES, "1b")[1].steps)
