"""A hybrid of gated-delta-rule and full attention with random weights: 26.9 B parameters.

    gaptrace collect hybrid.py

The step is Hugging Face's Qwen3_5ForCausalLM over a static cache, its delta rule in plain PyTorch.
Three of four layers keep a recurrent state instead of keys and values.
"""

from __future__ import annotations

import argparse

import torch
from decoder import randomize, run
from torch import Tensor
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig, StaticCache

MAX_LEN = 512
PROMPT = 8


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--steps", type=int, default=50)
    # In bf16, 64 random layers amplify rounding; in fp32 the modes can be told to be equal.
    parser.add_argument("--float32", action="store_true")
    return parser.parse_args()


def configuration(args: argparse.Namespace) -> Qwen3_5TextConfig:
    if args.tiny:
        return Qwen3_5TextConfig(
            vocab_size=256,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=args.layers or 4,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=32,
            linear_key_head_dim=16,
            linear_value_head_dim=16,
            linear_num_key_heads=2,
            linear_num_value_heads=4,
        )
    return Qwen3_5TextConfig(
        hidden_size=5120,
        intermediate_size=17408,
        num_hidden_layers=args.layers or 64,
        num_attention_heads=24,
        num_key_value_heads=4,
        head_dim=256,
        linear_num_key_heads=16,
        linear_num_value_heads=48,
    )


def make(
    config: Qwen3_5TextConfig, where: str, dtype: torch.dtype = torch.bfloat16
) -> Qwen3_5ForCausalLM:
    """The model, its weights made where they stay."""
    torch.manual_seed(0)
    config.dtype = dtype
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    with torch.device("meta"):
        model = Qwen3_5ForCausalLM(config)
    torch.set_default_dtype(before)
    model.to_empty(device=where)
    randomize(model)
    # Tables that `to_empty` left undefined are made again by the module's own constructor.
    rotary = type(model.model.rotary_emb)
    with torch.device(where):
        model.model.rotary_emb = rotary(config=config)
    return model.eval()


def state_of(cache: StaticCache) -> list[Tensor]:
    """What a decode step changes in the cache and a reset has to bring back."""
    found: list[Tensor] = []
    for layer in cache.layers:
        for name in ("conv_states", "recurrent_states"):
            states = getattr(layer, name, None)
            parts = states.values() if isinstance(states, dict) else states or ()
            found += [part for part in parts if isinstance(part, Tensor)]
        length = getattr(layer, "cumulative_length", None)
        if isinstance(length, Tensor):
            found.append(length)
    return found


def cached_step(model, config, batch: int, where: str):
    """A greedy step over a static cache behind a short prompt, the cache, and its live state."""
    cache = StaticCache(config=config, max_cache_len=MAX_LEN)
    token = torch.zeros(batch, 1, dtype=torch.long, device=where)
    with torch.no_grad():
        prompt = torch.arange(1, PROMPT + 1, device=where).repeat(batch, 1)
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

    step.model = model
    step.reset = reset
    return step, cache, live


def build():
    args = parse()
    where = "cuda" if torch.cuda.is_available() else "cpu"
    config = configuration(args)
    dtype = torch.float32 if args.float32 else torch.bfloat16
    model = make(config, where, dtype)
    step, cache, live = cached_step(model, config, args.batch, where)
    keys = [t for layer in cache.layers for t in map(vars(layer).get, ("keys", "values"))]
    keys = [tensor for tensor in keys if tensor is not None]
    recurrent = [tensor for tensor in live if tensor.numel() > 1]
    step.batch = args.batch
    step.kv_bytes = sum(t.numel() * t.element_size() for t in (*keys, *recurrent))
    step.label = f"hybrid gated delta rule and attention, {config.num_hidden_layers} layers"
    return step


if __name__ == "__main__":
    run(build(), parse().steps)
