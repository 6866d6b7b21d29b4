"""Scripts of record_wild.py around Hugging Face models: `generate`, and loops of one's own."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import Tensor
from transformers.generation import LogitsProcessorList
from transformers.generation.streamers import BaseStreamer
from wild_common import TINY, Clock, Generate, Make, Size, prompt_of, random_weights


def causal(size: Size, family: str = "Llama", **more: Any) -> Any:
    """A decoder of this family with random weights in bf16."""
    options: dict[str, Any] = {
        "vocab_size": size.vocab,
        "hidden_size": size.hidden,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.heads // 4,
        "head_dim": size.hidden // size.heads,
        "intermediate_size": 3 * size.hidden,
        "initializer_range": size.hidden**-0.5,  # smaller ones repeat one token
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": size.eos,
        "pad_token_id": 0,
    }
    config = getattr(transformers, f"{family}Config")(**(options | more))
    return random_weights(size, getattr(transformers, f"{family}ForCausalLM"), config)


def calls_generate(model: Any, prompt: Tensor, **options: Any) -> Generate:
    """One call of `model.generate`, greedy unless said otherwise."""
    mask = torch.ones_like(prompt)
    asked = {"do_sample": False, "attention_mask": mask} | options

    def generate(tokens: int, clock: Clock) -> int:
        out = model.generate(
            prompt,
            max_new_tokens=tokens,
            logits_processor=LogitsProcessorList([clock]),
            **asked,
        )
        return int(out.shape[1] - prompt.shape[1])

    return generate


def hugging_face(family: str = "Llama", sequences: int = 1, **options: Any) -> Make:
    """A decoder of this family, greedy with a cache that grows unless the options say otherwise."""
    return lambda size: calls_generate(causal(size, family), prompt_of(size, sequences), **options)


def deeper(size: Size) -> Generate:
    """Twice the layers."""
    model = causal(size, num_hidden_layers=2 * size.layers)
    return calls_generate(model, prompt_of(size))


def sampling(size: Size) -> Generate:
    """A Qwen3 with a large vocabulary."""
    vocab = size.vocab if size is TINY else 151936
    model = causal(size, "Qwen3", vocab_size=vocab, eos_token_id=vocab - 1)
    return calls_generate(
        model, prompt_of(size), do_sample=True, temperature=0.8, top_k=50, top_p=0.95
    )


def batch(size: Size) -> Generate:
    """Four prompts of unequal length, padded at the left."""
    prompt = prompt_of(size, sequences=4)
    mask = torch.ones_like(prompt)
    for row in range(4):
        mask[row, : 2 * row] = 0
    return calls_generate(causal(size, "Qwen3"), prompt * mask, attention_mask=mask)


def gpt2(size: Size) -> Generate:
    """Another family: learned positions, addmm."""
    config = transformers.GPT2Config(
        vocab_size=size.vocab,
        n_embd=size.hidden,
        n_layer=size.layers,
        n_head=size.heads,
        initializer_range=size.hidden**-0.5,
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_id=size.eos,
        pad_token_id=0,
    )
    model = random_weights(size, transformers.GPT2LMHeadModel, config)
    return calls_generate(model, prompt_of(size))


def experts(size: Size) -> Generate:
    """A mixture of experts."""
    model = causal(
        size,
        "Qwen3Moe",
        num_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=size.hidden // 2,
    )
    return calls_generate(model, prompt_of(size))


def mamba(size: Size) -> Generate:
    """A state-space model in plain PyTorch; its prefill is a loop over the prompt."""
    config = transformers.MambaConfig(
        vocab_size=size.vocab,
        hidden_size=size.hidden,
        num_hidden_layers=size.layers,
        eos_token_id=size.eos,
        pad_token_id=0,
    )
    model = random_weights(size, transformers.MambaForCausalLM, config)
    return calls_generate(model, prompt_of(size, length=6))


class Prints(BaseStreamer):
    """What a chat does with each token that it is given."""

    def put(self, value: Tensor) -> None:
        self.last = value.tolist()

    def end(self) -> None:
        self.last = []


def speculates(model: Any, prompt: Tensor, **options: Any) -> Generate:
    """Iterations of a draft and a check; the clock ticks where the large model is called."""

    def generate(tokens: int, clock: Clock) -> int:
        def tick(_: Any, args: Any, given: dict[str, Any]) -> None:
            clock.tick()
            clock.length.append(given["past_key_values"].get_seq_length())

        hook = model.register_forward_pre_hook(tick, with_kwargs=True)
        try:
            out = model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                do_sample=False,
                max_new_tokens=tokens,
                **options,
            )
        finally:
            hook.remove()
        clock.length.append(int(out.shape[1]) - 1)
        return int(out.shape[1] - prompt.shape[1])

    return generate


def assisted(size: Size) -> Generate:
    """A small model drafts four tokens.

    It is the large one without its later layers, whose output is scaled down, so that some drafts
    are accepted.
    """
    model = causal(size)
    assistant = causal(size, num_hidden_layers=size.layers // 2)
    assistant.load_state_dict(model.state_dict(), strict=False)
    with torch.no_grad():
        for layer in model.model.layers[size.layers // 2 :]:
            layer.self_attn.o_proj.weight.mul_(0.15)
            layer.mlp.down_proj.weight.mul_(0.15)
    drafts = assistant.generation_config
    drafts.num_assistant_tokens, drafts.assistant_confidence_threshold = 4, 0.0
    drafts.num_assistant_tokens_schedule = "constant"
    return speculates(model, prompt_of(size), assistant_model=assistant)


def prompt_lookup(size: Size) -> Generate:
    """Drafts are looked up in the text so far, so that an iteration calls one model.

    Tied weights of small deviation soon repeat a token, so that drafts are accepted.
    """
    model = causal(size, tie_word_embeddings=True, initializer_range=0.02)
    return speculates(model, prompt_of(size), prompt_lookup_num_tokens=3)


def whisper(size: Size) -> Generate:
    """An encoder once, then a decoder token by token; its prompt is a single token."""
    config = transformers.WhisperConfig(
        vocab_size=size.vocab,
        d_model=size.hidden,
        encoder_layers=size.layers,
        decoder_layers=size.layers,
        encoder_attention_heads=size.heads,
        decoder_attention_heads=size.heads,
        encoder_ffn_dim=4 * size.hidden,
        decoder_ffn_dim=4 * size.hidden,
        init_std=size.hidden**-0.5,
        decoder_start_token_id=1,
        bos_token_id=1,
        eos_token_id=size.eos,
        pad_token_id=0,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    model = random_weights(size, transformers.WhisperForConditionalGeneration, config)
    heard = torch.randn(1, 80, 3000, device=size.where).to(torch.bfloat16)

    def generate(tokens: int, clock: Clock) -> int:
        processors = LogitsProcessorList([clock])
        model.generate(heard, max_new_tokens=tokens, do_sample=False, logits_processor=processors)
        return len(clock.at)

    return generate


# Loops around a Hugging Face model ------------------------------------------------------------


def own_loop(size: Size, *, stops: bool) -> Generate:
    """The loop of many a notebook: past key values handed on, argmax, and perhaps `.item()`."""
    model, prompt = causal(size, "Qwen3"), prompt_of(size)

    @torch.no_grad()
    def generate(tokens: int, clock: Clock) -> int:
        ids, past, found = prompt, None, []
        for _ in range(tokens):
            out = model(input_ids=ids, past_key_values=past, use_cache=True)
            past = out.past_key_values
            ids = out.logits[:, -1:].argmax(dim=-1)
            found.append(ids)
            stopped = stops and ids.item() == size.eos
            clock.tick()
            if stopped:
                break
        return int(torch.cat(found, dim=1).shape[1])

    return generate
