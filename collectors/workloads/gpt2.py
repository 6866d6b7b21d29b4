"""GPT-2 (124 M parameters, random weights) over a static cache: few bytes, many small kernels.

gaptrace collect gpt2.py
"""

from __future__ import annotations

import argparse

import torch
from decoder import run
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, StaticCache

MAX_LEN = 512


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--steps", type=int, default=100)
    return parser.parse_args()


def build():
    args = parse()
    where = "cuda" if torch.cuda.is_available() else "cpu"
    sizes = {"n_embd": 64, "n_head": 2, "vocab_size": 256} if args.tiny else {}
    config = GPT2Config(n_layer=args.layers or (2 if args.tiny else 12), **sizes)
    config.initializer_range = config.n_embd**-0.5
    config.bos_token_id = config.eos_token_id = None
    torch.manual_seed(0)
    model = GPT2LMHeadModel(config).to(where, torch.bfloat16).eval()
    cache = StaticCache(config=config, max_cache_len=MAX_LEN)
    token = torch.zeros(args.batch, 1, dtype=torch.long, device=where)

    @torch.no_grad()
    def step() -> Tensor:
        logits = model(input_ids=token, past_key_values=cache, use_cache=True).logits
        token.copy_(logits[:, -1:].argmax(dim=-1))
        return logits

    with torch.no_grad():
        model(input_ids=token, past_key_values=cache, use_cache=True)

    def reset() -> None:
        token.zero_()
        cache.reset()

    reset()
    step.model = model
    step.batch = args.batch
    step.kv_bytes = sum(
        t.numel() * t.element_size() for layer in cache.layers for t in (layer.keys, layer.values)
    )
    step.reset = reset
    step.label = "GPT-2"
    return step


if __name__ == "__main__":
    run(build(), parse().steps)
