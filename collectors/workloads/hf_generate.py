"""An unmodified Hugging Face script: a Llama model with random weights calls `generate`.

    gaptrace collect hf_generate.py                  # dynamic cache: it grows at every step
    gaptrace collect hf_generate.py --cache static

Nothing in here knows of gaptrace.
"""

from __future__ import annotations

import argparse

import torch
from transformers import LlamaConfig, LlamaForCausalLM

SIZES = {"tiny": (2, 64, 4, 128, 256), "1b": (16, 2048, 32, 8192, 128256)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", choices=sorted(SIZES), default="1b")
    parser.add_argument("--tiny", action="store_const", const="tiny", dest="size")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--cache", choices=("dynamic", "static"), default="dynamic")
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--prompts", type=int, default=1, help="calls of generate")
    args = parser.parse_args()
    layers, hidden, heads, intermediate, vocab = SIZES[args.size]
    config = LlamaConfig(
        num_hidden_layers=args.layers or layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=max(1, heads // 4),
        intermediate_size=intermediate,
        vocab_size=vocab,
        tie_word_embeddings=True,
        initializer_range=hidden**-0.5,  # smaller ones make a tied model repeat one token
        eos_token_id=None,
        pad_token_id=0,
    )
    where = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(where):
        model = LlamaForCausalLM(config).eval()
    torch.set_default_dtype(torch.float32)
    more = {"cache_implementation": "static"} if args.cache == "static" else {}
    for n in range(args.prompts):
        prompt = torch.arange(1, 9, device=where).repeat(args.batch, 1) + n
        out = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=args.tokens,
            do_sample=False,
            **more,
        )
        print("generated", out.shape[1] - prompt.shape[1], "tokens:", out[0, -4:].tolist())


if __name__ == "__main__":
    main()
