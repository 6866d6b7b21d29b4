"""Traces of decode scripts as people write them: plain torch.profiler, no mark of any kind.

    python record_wild.py --out FOLDER             # on a GPU: wild.tar and truth.json, minutes
    python record_wild.py --out FOLDER --tiny      # small models on the CPU: does each script run?

Each script builds a model from a config with random weights, generates once to warm up, once under
a clock alone and once under the profiler. truth.json tells what a reading of the trace has to find:
how many iterations there were, of how many sequences, and how long each one took by the script's
own clock. Needs torch, transformers and numpy; nothing is fetched. Imports nothing of gaptrace.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile
from transformers.generation import LogitsProcessor, LogitsProcessorList
from transformers.generation.streamers import BaseStreamer

PART_BYTES = 14 << 20  # a file that is larger than 16 MiB does not leave the machine
NOT_RECORDED = (RuntimeError, ValueError, TypeError, AttributeError, ImportError, KeyError)


@dataclass(frozen=True)
class Size:
    """How large models are, and where they run."""

    where: str
    hidden: int
    heads: int
    layers: int
    vocab: int
    prompt: int

    @property
    def eos(self) -> int:
        """A last token that random weights hardly ever choose, so that its check is there."""
        return self.vocab - 1


GPU = Size("cuda", hidden=1024, heads=16, layers=4, vocab=32000, prompt=96)
TINY = Size("cpu", hidden=64, heads=4, layers=2, vocab=512, prompt=12)


class Clock(LogitsProcessor):
    """Takes the time once in each iteration of a loop: `generate` calls it on every logits.

    length: tokens in the cache at each of these times, where a script tells.
    """

    def __init__(self) -> None:
        self.at: list[int] = []
        self.length: list[int] = []

    def tick(self) -> None:
        """One more iteration has got this far."""
        self.at.append(time.perf_counter_ns())

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        self.tick()
        return scores


# Generates that many new tokens per sequence, or fewer; the result counts them.
Generate = Callable[[int, Clock], int]


@dataclass(frozen=True)
class Script:
    """One script and what is true of its trace.

    prefills: iterations that read the prompt. blocks: the host waits for the GPU in each
    iteration, so its clock shows when a token was there; else it runs ahead.
    """

    name: str
    make: Callable[[Size], Generate]
    tokens: int = 16
    sequences: int = 1
    beams: int = 1
    prefills: int = 1
    blocks: bool = True
    shapes: bool = False
    stack: bool = False
    warm: int = 1
    note: str = ""


# Hugging Face generate ------------------------------------------------------------------------


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


def random_weights(size: Size, kind: Any, config: Any) -> Any:
    """A model of this kind, made where it runs."""
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(size.where):
            return kind(config).eval()
    finally:
        torch.set_default_dtype(torch.float32)


def prompt_of(size: Size, sequences: int = 1, length: int | None = None) -> Tensor:
    """Random token ids."""
    torch.manual_seed(1)
    shape = (sequences, length or size.prompt)
    return torch.randint(2, size.vocab - 1, shape, device=size.where)


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


def greedy(size: Size) -> Generate:
    """A cache that grows."""
    return calls_generate(causal(size), prompt_of(size))


def deeper(size: Size) -> Generate:
    """Twice the layers."""
    model = causal(size, num_hidden_layers=2 * size.layers)
    return calls_generate(model, prompt_of(size))


def static_eager(size: Size) -> Generate:
    """A cache of fixed size, not compiled."""
    return calls_generate(
        causal(size), prompt_of(size), cache_implementation="static", disable_compile=True
    )


def static(size: Size) -> Generate:
    """A cache of fixed size: on a GPU `generate` compiles the forward pass of its own accord."""
    return calls_generate(causal(size), prompt_of(size), cache_implementation="static")


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


def beams(size: Size) -> Generate:
    """Four beams of one sequence."""
    return calls_generate(causal(size), prompt_of(size), num_beams=4)


def beams_batch(size: Size) -> Generate:
    """Four beams of each of two sequences."""
    return calls_generate(causal(size), prompt_of(size, sequences=2), num_beams=4)


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


class _Prints(BaseStreamer):
    """What a chat does with each token that it is given."""

    def put(self, value: Tensor) -> None:
        self.last = value.tolist()

    def end(self) -> None:
        self.last = []


def streamer(size: Size) -> Generate:
    """Each token is handed to the user."""
    return calls_generate(causal(size), prompt_of(size), streamer=_Prints())


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


def loop_item(size: Size) -> Generate:
    """Reads every token."""
    return own_loop(size, stops=True)


def loop_ahead(size: Size) -> Generate:
    """Reads no token until all are there."""
    return own_loop(size, stops=False)


# In the style of gpt-fast ---------------------------------------------------------------------


class RMSNorm(nn.Module):
    """x / rms(x) * weight."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + 1e-5)
        return (wide * scale).type_as(x) * self.weight


class FastBlock(nn.Module):
    """Attention over a fixed cache that is written in place, and a gated MLP."""

    def __init__(self, size: Size, room: int) -> None:
        super().__init__()
        hidden, self.heads = size.hidden, size.heads
        self.wqkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.wo = nn.Linear(hidden, hidden, bias=False)
        self.w1 = nn.Linear(hidden, 3 * hidden, bias=False)
        self.w3 = nn.Linear(hidden, 3 * hidden, bias=False)
        self.w2 = nn.Linear(3 * hidden, hidden, bias=False)
        self.norm1, self.norm2 = RMSNorm(hidden), RMSNorm(hidden)
        cache = torch.zeros(1, self.heads, room, hidden // self.heads)
        self.register_buffer("k_cache", cache)
        self.register_buffer("v_cache", cache.clone())

    def forward(self, x: Tensor, turn: Tensor, mask: Tensor, pos: Tensor) -> Tensor:
        split = (*x.shape[:2], self.heads, -1)
        q, k, v = (part.view(split) for part in self.wqkv(self.norm1(x)).chunk(3, dim=-1))
        q, k = (rotate(part, turn).transpose(1, 2) for part in (q, k))
        self.k_cache[:, :, pos] = k
        self.v_cache[:, :, pos] = v.transpose(1, 2)
        seen = functional.scaled_dot_product_attention(
            q, self.k_cache, self.v_cache, attn_mask=mask
        )
        x = x + self.wo(seen.transpose(1, 2).reshape(x.shape))
        h = self.norm2(x)
        return x + self.w2(functional.silu(self.w1(h)) * self.w3(h))


def rotate(x: Tensor, turn: Tensor) -> Tensor:
    """Rotary positions over pairs of neighbours."""
    pairs = x.float().reshape(*x.shape[:-1], -1, 2)
    cos, sin = turn[None, :, None, :, 0], turn[None, :, None, :, 1]
    a, b = pairs[..., 0], pairs[..., 1]
    return torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(3).type_as(x)


class FastDecoder(nn.Module):
    """Logits of the tokens at the given positions."""

    def __init__(self, size: Size, room: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(size.vocab, size.hidden)
        self.layers = nn.ModuleList(FastBlock(size, room) for _ in range(size.layers))
        self.norm = RMSNorm(size.hidden)
        self.output = nn.Linear(size.hidden, size.vocab, bias=False)
        width = size.hidden // size.heads
        speed = 10000.0 ** -(torch.arange(0, width, 2, dtype=torch.float32) / width)
        angle = torch.outer(torch.arange(room, dtype=torch.float32), speed)
        self.register_buffer("turns", torch.stack([angle.cos(), angle.sin()], dim=-1))
        self.register_buffer("causal", torch.ones(room, room).bool().tril())

    def forward(self, ids: Tensor, pos: Tensor) -> Tensor:
        mask, turn = self.causal[None, None, pos], self.turns[pos]
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, turn, mask, pos)
        return self.output(self.norm(x))


def pick(logits: Tensor) -> Tensor:
    """A sample of the best 200 without a multinomial, which would wait for the GPU."""
    logits = logits[:, -1].float() / 0.8
    best, _ = torch.topk(logits, min(200, logits.shape[-1]))
    logits = torch.where(logits < best[:, -1:], -float("inf"), logits)
    probs = torch.softmax(logits, dim=-1)
    noise = torch.empty_like(probs).exponential_(1)
    return torch.argmax(probs / noise, dim=-1, keepdim=True).to(torch.int)


def prefill(model: nn.Module, ids: Tensor, pos: Tensor) -> Tensor:
    """The first new token."""
    return pick(model(ids, pos))


def decode_one_token(model: nn.Module, ids: Tensor, pos: Tensor) -> Tensor:
    """The next token."""
    return pick(model(ids, pos))


def gptfast(size: Size, *, compiles: bool, reads: bool) -> Generate:
    """gpt-fast's generate; `reads`: a callback looks at each token, as when it is interactive."""
    prompt = prompt_of(size)
    length = prompt.shape[1]
    model = random_weights(size, lambda _: FastDecoder(size, room=length + 64), None)
    step = decode_one_token
    if compiles:
        step = torch.compile(decode_one_token, mode="reduce-overhead", fullgraph=True)

    @torch.no_grad()
    def generate(tokens: int, clock: Clock) -> int:
        seq = torch.empty(length + tokens, dtype=torch.int, device=size.where)
        seq[:length] = prompt[0]
        token = prefill(model, prompt, torch.arange(length, device=size.where)).clone()
        seq[length] = token.squeeze()
        pos = torch.tensor([length], device=size.where)
        clock.tick()
        found = []
        for _ in range(tokens - 1):
            with sdpa_kernel(SDPBackend.MATH):
                token = step(model, token.view(1, -1), pos).clone()
            pos += 1
            found.append(token)
            stopped = reads and token.tolist() == [[size.eos]]
            clock.tick()
            if stopped:
                break
        new = torch.cat(found, dim=1)
        seq[length + 1 : length + 1 + new.shape[1]] = new[0]
        return int(new.shape[1]) + 1

    return generate


def gptfast_eager(size: Size) -> Generate:
    """Nothing waits for the GPU."""
    return gptfast(size, compiles=False, reads=False)


def gptfast_reads(size: Size) -> Generate:
    """Each token is read."""
    return gptfast(size, compiles=False, reads=True)


def gptfast_compiled(size: Size) -> Generate:
    """A captured graph per token; the host runs ahead."""
    return gptfast(size, compiles=True, reads=False)


def gptfast_compiled_reads(size: Size) -> Generate:
    """A captured graph per token; each token is read."""
    return gptfast(size, compiles=True, reads=True)


# In the style of nanoGPT ----------------------------------------------------------------------


class NanoBlock(nn.Module):
    """Causal attention over the whole sequence and an MLP."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        hidden, self.heads = size.hidden, size.heads
        self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.c_attn = nn.Linear(hidden, 3 * hidden)
        self.c_proj = nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        split = (*x.shape[:2], self.heads, -1)
        q, k, v = (p.view(split).transpose(1, 2) for p in self.c_attn(self.ln_1(x)).chunk(3, -1))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(x.shape))
        return x + self.down(functional.gelu(self.up(self.ln_2(x))))


class NanoGPT(nn.Module):
    """Logits of the last position."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.wte = nn.Embedding(size.vocab, size.hidden)
        self.wpe = nn.Embedding(1024, size.hidden)
        self.h = nn.ModuleList(NanoBlock(size) for _ in range(size.layers))
        self.ln_f = nn.LayerNorm(size.hidden)
        self.lm_head = nn.Linear(size.hidden, size.vocab, bias=False)

    def forward(self, idx: Tensor) -> Tensor:
        pos = torch.arange(idx.shape[1], dtype=torch.long, device=idx.device)
        x = self.wte(idx) + self.wpe(pos)
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x)[:, [-1], :])


def nanogpt(size: Size) -> Generate:
    """No cache: each token reads the whole sequence again.

    Nobody asks for a token, but an index list, `[-1]`, is copied to the GPU, which waits for it.
    """
    model = random_weights(size, lambda _: NanoGPT(size), None)
    prompt = prompt_of(size, length=8)

    @torch.no_grad()
    def generate(tokens: int, clock: Clock) -> int:
        idx = prompt
        for _ in range(tokens):
            logits = model(idx)[:, -1, :] / 0.8
            best, _ = torch.topk(logits, min(200, logits.shape[-1]))
            logits[logits < best[:, [-1]]] = -float("inf")
            probs = functional.softmax(logits, dim=-1)
            idx = torch.cat((idx, torch.multinomial(probs, num_samples=1)), dim=1)
            clock.tick()
        return int(idx.shape[1] - prompt.shape[1])

    return generate


# Recording ------------------------------------------------------------------------------------

SCRIPTS = (
    Script("hf_greedy", greedy),
    Script("hf_greedy_40", greedy, tokens=40),
    Script("hf_greedy_12_deeper", deeper, tokens=12),
    Script("hf_greedy_shapes", greedy, tokens=12, shapes=True),
    Script("hf_greedy_stack", greedy, tokens=12, stack=True),
    Script("hf_static_eager", static_eager),
    Script("hf_sampling", sampling),
    Script("hf_batch4", batch, sequences=4),
    Script("hf_batch4_40", batch, tokens=40, sequences=4),
    Script("hf_beams", beams, tokens=12, beams=4),
    Script("hf_beams_batch2", beams_batch, tokens=12, sequences=2, beams=4),
    Script("hf_assisted", assisted, tokens=24, note="speculation"),
    Script("hf_prompt_lookup", prompt_lookup, tokens=24, note="speculation"),
    Script("hf_streamer", streamer),
    Script("hf_gpt2", gpt2),
    Script("hf_experts", experts, tokens=12),
    Script("hf_mamba", mamba, tokens=12),
    Script("hf_whisper", whisper, tokens=14, note="the prefill reads one token too"),
    Script("loop_item", loop_item),
    Script("loop_ahead", loop_ahead, blocks=False),
    Script("gptfast_eager", gptfast_eager, blocks=False),
    Script("gptfast_eager_reads", gptfast_reads),
    Script("nanogpt", nanogpt, prefills=0),
    Script("nanogpt_shapes", nanogpt, tokens=12, prefills=0, shapes=True),
    # Those that compile come last: where time runs out, only they are missing.
    Script("gptfast_compiled", gptfast_compiled, blocks=False, warm=3),
    Script("gptfast_compiled_reads_40", gptfast_compiled_reads, tokens=40, warm=3),
    Script("hf_static", static, warm=3),
)


@dataclass(frozen=True)
class Timed:
    """One generation by its own clock: ns at each tick, and when the GPU had done all.

    epoch_ns: the time of day when it began, which is what a trace counts in.
    """

    began: int
    epoch_ns: int
    at: tuple[int, ...]
    ended: int
    tokens: int
    length: tuple[int, ...]

    @property
    def per_iteration_s(self) -> float:
        """Median time from tick to tick."""
        return float(np.median(np.diff(self.at))) / 1e9

    @property
    def to_the_end_s(self) -> float:
        """Mean over the iterations after the first tick, until the GPU had done all."""
        return (self.ended - self.at[0]) / (len(self.at) - 1) / 1e9


def drain() -> None:
    """Wait until the GPU has done all."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def timed(generate: Generate, tokens: int) -> Timed:
    """One generation under the clock."""
    clock = Clock()
    torch.manual_seed(2)
    drain()
    epoch, began = time.time_ns(), time.perf_counter_ns()
    made = generate(tokens, clock)
    drain()
    ended = time.perf_counter_ns()
    return Timed(began, epoch, tuple(clock.at), ended, made, tuple(clock.length))


def record(script: Script, size: Size, folder: Path) -> dict[str, Any]:
    """Records one script into the folder: its row of the truth."""
    activities = [ProfilerActivity.CPU]
    if size.where == "cuda":
        activities.append(ProfilerActivity.CUDA)
    generate = script.make(size)
    for _ in range(script.warm):
        timed(generate, script.tokens)
    plain = timed(generate, script.tokens)
    with profile(
        activities=activities, record_shapes=script.shapes, with_stack=script.stack
    ) as profiler:
        seen = timed(generate, script.tokens)
    file = folder / f"{script.name}.json.gz"
    profiler.export_chrome_trace(str(file))
    decode = len(seen.at) - script.prefills
    each = [1] * decode
    if seen.length:  # the first iteration also reads the prompt
        each = np.diff(seen.length[1:]).tolist()
    return {
        "script": script.name,
        "file": file.name,
        "kilobytes": file.stat().st_size // 1000,
        "layers": size.layers,
        "sequences": script.sequences,
        "beams": script.beams,
        "new_tokens": seen.tokens,
        "prefills": script.prefills,
        "decode_iterations": decode,
        "tokens_per_iteration": each,
        "speculation": bool(seen.length),
        "shapes": script.shapes,
        "stack": script.stack,
        "blocks": script.blocks,
        "unprofiled_wall_s": (plain.ended - plain.began) / 1e9,
        "unprofiled_s": plain.per_iteration_s,
        "unprofiled_to_end_s": plain.to_the_end_s,
        "profiled_s": seen.per_iteration_s,
        "profiled_to_end_s": seen.to_the_end_s,
        "began_epoch_ns": seen.epoch_ns,
        "ticks_ns": [at - seen.began for at in seen.at],
        "ended_ns": seen.ended - seen.began,
        "note": script.note,
    }


def pack(out: Path, part: int, file: Path) -> int:
    """Adds the file to the last tar, or begins another where it would get too large: its number."""
    path = out / ("wild.tar" if part == 1 else f"wild{part}.tar")
    if path.exists() and path.stat().st_size + file.stat().st_size > PART_BYTES:
        return pack(out, part + 1, file)
    with tarfile.open(path, "a") as tar:
        tar.add(file, file.name)
    return part


def main() -> None:
    """Records all scripts, or those asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "wild")))
    parser.add_argument("--tiny", action="store_true", help="small models on the CPU")
    parser.add_argument("--budget", type=float, default=330, help="seconds; then no more scripts")
    parser.add_argument("only", nargs="*", help="scripts to record; all of them if none is named")
    args = parser.parse_args()
    unknown = set(args.only) - {script.name for script in SCRIPTS}
    if unknown:
        parser.error(f"no such script: {', '.join(sorted(unknown))}")
    size = TINY if args.tiny else GPU
    transformers.logging.set_verbosity_error()
    args.out.mkdir(parents=True, exist_ok=True)
    for old in (*args.out.glob("wild*.tar"), args.out / "truth.json"):
        old.unlink(missing_ok=True)
    truth: dict[str, Any] = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "gpu": torch.cuda.get_device_name() if size.where == "cuda" else None,
        "scripts": [],
        "missing": {},
    }
    started, part = time.monotonic(), 1
    with tempfile.TemporaryDirectory() as folder:
        for script in SCRIPTS:
            if args.only and script.name not in args.only:
                continue
            if time.monotonic() - started > args.budget:
                truth["missing"][script.name] = "no time left"
                continue
            try:
                row = record(script, size, Path(folder))
            except NOT_RECORDED as error:
                truth["missing"][script.name] = f"{type(error).__name__}: {error}"[:500]
                print(f"{script.name}: {truth['missing'][script.name]}", file=sys.stderr)
            else:
                truth["scripts"].append(row)
                part = pack(args.out, part, Path(folder, row["file"]))
                print(f"{time.monotonic() - started:6.1f} s  {script.name}", flush=True)
            (args.out / "truth.json").write_text(json.dumps(truth, indent=1))
            torch.compiler.reset()
            gc.collect()
            if size.where == "cuda":
                torch.cuda.empty_cache()
    print_table(truth)


def print_table(truth: dict[str, Any]) -> None:
    """One line per script."""
    print(f"torch {truth['torch']}, transformers {truth['transformers']}, {truth['gpu']}")
    print(f"{'script':26} tokens iter seqs beams  plain ms  prof. ms  to end ms   kB")
    for row in truth["scripts"]:
        print(
            f"{row['script']:26} {row['new_tokens']:6} {row['decode_iterations']:4}"
            f" {row['sequences']:4} {row['beams']:5} {1e3 * row['unprofiled_s']:9.3f}"
            f" {1e3 * row['profiled_s']:9.3f} {1e3 * row['profiled_to_end_s']:10.3f}"
            f" {row['kilobytes']:4}"
        )
    for name, why in truth["missing"].items():
        print(f"{name:26} {why}")


if __name__ == "__main__":
    main()
