"""A mixture of experts with random weights: Hugging Face's Qwen3-MoE over a static cache.

gaptrace collect moe.py --layers 4
"""

from __future__ import annotations

import argparse

import torch
from decoder import randomize, run
from hybrid import cached_step
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM


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
    step, _, _ = cached_step(model, config, args.batch, where)
    experts = sum(
        p.numel() * p.element_size() for n, p in model.named_parameters() if "experts" in n
    )
    rest = sum(p.numel() * p.element_size() for p in model.parameters()) - experts
    # One step reads the experts that its tokens were routed to, at most top-k for each.
    used = min(config.num_experts, config.num_experts_per_tok * args.batch)
    embedding = model.model.embed_tokens.weight
    step.batch = args.batch
    step.weight_bytes = rest - embedding.numel() * 2 + experts * used // config.num_experts
    step.label = f"mixture of experts, {config.num_hidden_layers} layers"
    return step


if __name__ == "__main__":
    run(build(), parse().steps)
