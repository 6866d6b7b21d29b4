"""A mixture of experts with random weights: Hugging Face's Qwen3-MoE over a static cache.

gaptrace collect moe.py --layers 4
"""

from __future__ import annotations

import argparse

import torch
from decoder import randomize, run
from hybrid import MAX_LEN, PROMPT, state_of
from torch import Tensor
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM, StaticCache


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--steps", type=int, default=50)
    return parser.parse_args()


def configuration(args: argparse.Namespace) -> Qwen3MoeConfig:
    if args.tiny:
        return Qwen3MoeConfig(
            vocab_size=256,
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=32,
            moe_intermediate_size=32,
            num_experts=8,
            num_experts_per_tok=2,
        )
    return Qwen3MoeConfig(num_hidden_layers=args.layers, head_dim=128)


def build():
    args = parse()
    where = "cuda" if torch.cuda.is_available() else "cpu"
    config = configuration(args)
    torch.manual_seed(0)
    with torch.device(where):
        model = Qwen3MoeForCausalLM(config).to(torch.bfloat16).eval()
    randomize(model)
    cache = StaticCache(config=config, max_cache_len=MAX_LEN)
    token = torch.zeros(args.batch, 1, dtype=torch.long, device=where)
    with torch.no_grad():
        prompt = torch.arange(1, PROMPT + 1, device=where).repeat(args.batch, 1)
        model(input_ids=prompt, past_key_values=cache, use_cache=True)
    live = state_of(cache)
    saved = [tensor.clone() for tensor in live]

    @torch.no_grad()
    def step() -> Tensor:
        logits = model(input_ids=token, past_key_values=cache, use_cache=True).logits
        token.copy_(logits[:, -1:].argmax(dim=-1))
        return logits

    def reset() -> None:
        token.zero_()
        for tensor, before in zip(live, saved, strict=True):
            tensor.copy_(before)

    experts = sum(
        p.numel() * p.element_size() for n, p in model.named_parameters() if "experts" in n
    )
    rest = sum(p.numel() * p.element_size() for p in model.parameters()) - experts
    # One step reads the experts that its tokens were routed to, at most top-k for each.
    used = min(config.num_experts, config.num_experts_per_tok * args.batch)
    embedding = model.model.embed_tokens.weight
    step.model = model
    step.batch = args.batch
    step.weight_bytes = rest - embedding.numel() * 2 + experts * used // config.num_experts
    step.reset = reset
    step.label = f"mixture of experts, {config.num_hidden_layers} layers"
    return step


if __name__ == "__main__":
    run(build(), parse().steps)
