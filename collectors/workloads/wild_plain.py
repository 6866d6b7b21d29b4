"""Scripts of record_wild.py in plain PyTorch: in the styles of gpt-fast and of nanoGPT."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from wild_common import Clock, Generate, Size, prompt_of, random_weights

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
