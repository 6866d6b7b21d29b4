"""Twelve small decoders, one construct each, on which the predicted kernel counts are scored.

    gaptrace collect scored_models.py --model qk_norm
    python record_scored.py OUT               # all twelve, each eager and compiled

Random weights, batch 1, static caches, plain torch. What differs between them is what families of
models differ in: norms, heads, positions, masks, experts, recurrent states.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from decoder import device, randomize, rope, run
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Kind:
    """A decoder: its sizes, and which constructs it is made of.

    norm: rms, layer, or offset (weights stand for 1 + w). position: rope, partial (a quarter of
    each head turns), scaled (angles from interpolated frequencies, made in the step as transformers
    does), alibi, learned. mixer: attention, latent (keys and values from one low-rank state), state
    (a selective state space), delta (a gated delta rule in all layers but the last). window: of
    every other layer. cap: soft cap of the logits. after: norms behind attention and feed-forward
    too. parallel: both read the same input. feed: swiglu, geglu, gelu, experts. explicit: attention
    in products and a softmax, where there is no kernel for it.
    """

    layers: int = 4
    hidden: int = 1024
    heads: int = 8
    kv_heads: int = 8
    vocab: int = 32_000
    length: int = 256
    norm: str = "rms"
    position: str = "rope"
    mixer: str = "attention"
    feed: str = "swiglu"
    tied: bool = False
    bias: bool = False
    qk_norm: bool = False
    parallel: bool = False
    after: bool = False
    window: int = 0
    cap: float = 0.0
    explicit: bool = False

    @property
    def width(self) -> int:
        """Elements of a head."""
        return self.hidden // self.heads

    @property
    def inner(self) -> int:
        """Elements between the two products of the feed-forward."""
        return 2 * self.hidden if self.feed != "experts" else self.hidden // 2


KINDS = {
    "grouped_heads": Kind(kv_heads=2),
    "qk_norm": Kind(kv_heads=2, qk_norm=True, tied=True, position="scaled"),
    "qkv_bias": Kind(kv_heads=4, bias=True, tied=True),
    "sliding_window": Kind(
        kv_heads=4, norm="offset", feed="geglu", after=True, window=64, cap=30.0, tied=True
    ),
    "rope_scaling": Kind(kv_heads=2, position="scaled"),
    "experts": Kind(kv_heads=2, qk_norm=True, feed="experts"),
    "parallel_residual": Kind(
        norm="layer", position="partial", parallel=True, feed="gelu", bias=True
    ),
    "one_kv_head": Kind(kv_heads=1, norm="layer", position="learned", feed="gelu", tied=True),
    "alibi": Kind(norm="layer", position="alibi", feed="gelu", bias=True),
    "latent_cache": Kind(mixer="latent"),
    "state_space": Kind(mixer="state", position="learned"),
    "gated_delta": Kind(mixer="delta", kv_heads=2, qk_norm=True),
}
EXPERTS, CHOSEN = 8, 2
STATE, TAPS = 16, 4


class OffsetNorm(nn.Module):
    """RMS norm whose weights are kept as what they differ from one by, computed in fp32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.offset = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (scaled * (1.0 + self.offset.float())).type_as(x)


class ScaledNorm(nn.Module):
    """RMS norm written out, as most published models have it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


def norm_of(kind: Kind, width: int | None = None) -> nn.Module:
    width = width or kind.hidden
    if kind.norm == "layer":
        return nn.LayerNorm(width)
    return OffsetNorm(width) if kind.norm == "offset" else ScaledNorm(width)


def attend(kind: Kind, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attention of one token over whole caches."""
    if not kind.explicit:
        grouped = q.shape[1] != k.shape[1]
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=grouped)
    times = q.shape[1] // k.shape[1]
    if times > 1:
        k = k[:, :, None].expand(-1, -1, times, -1, -1).reshape(1, q.shape[1], *k.shape[2:])
        v = v[:, :, None].expand(-1, -1, times, -1, -1).reshape(1, q.shape[1], *v.shape[2:])
    scores = torch.matmul(q, k.transpose(2, 3)) * q.shape[-1] ** -0.5 + mask
    return torch.matmul(torch.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype), v)


class Attention(nn.Module):
    """Self-attention over a static cache."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.kind = kind
        kv = kind.kv_heads * kind.width
        self.q = nn.Linear(kind.hidden, kind.hidden, bias=kind.bias)
        self.k = nn.Linear(kind.hidden, kv, bias=kind.bias)
        self.v = nn.Linear(kind.hidden, kv, bias=kind.bias)
        self.o = nn.Linear(kind.hidden, kind.hidden, bias=kind.bias and kind.norm == "layer")
        if kind.qk_norm:
            self.q_norm, self.k_norm = norm_of(kind, kind.width), norm_of(kind, kind.width)
        cache = (1, kind.kv_heads, kind.length, kind.width)
        self.register_buffer("k_cache", torch.zeros(cache))
        self.register_buffer("v_cache", torch.zeros(cache))

    def forward(self, x: Tensor, pos: Tensor, turn: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        kind = self.kind
        q = self.q(x).view(1, 1, kind.heads, kind.width)
        k = self.k(x).view(1, 1, kind.kv_heads, kind.width)
        v = self.v(x).view(1, 1, kind.kv_heads, kind.width).transpose(1, 2)
        if kind.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = q.transpose(1, 2), k.transpose(1, 2)
        if kind.position in ("rope", "scaled"):
            q, k = rope(q, *turn), rope(k, *turn)
        elif kind.position == "partial":
            q, k = partly(q, *turn), partly(k, *turn)
        self.k_cache.index_copy_(2, pos, k)
        self.v_cache.index_copy_(2, pos, v)
        mixed = attend(kind, q, self.k_cache, self.v_cache, mask)
        return self.o(mixed.transpose(1, 2).reshape(1, 1, -1))


def partly(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The first of the elements turned, the others passed on."""
    size = cos.shape[-1]
    return torch.cat((rope(x[..., :size], cos, sin), x[..., size:]), dim=-1)


class Latent(nn.Module):
    """Attention whose keys and values come from one cached low-rank state, and one turned key."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.kind = kind
        self.rank, self.turned = kind.hidden // 4, kind.width // 2
        self.q = nn.Linear(kind.hidden, kind.heads * (kind.width + self.turned), bias=False)
        self.down = nn.Linear(kind.hidden, self.rank + self.turned, bias=False)
        self.up = nn.Linear(self.rank, 2 * kind.hidden, bias=False)
        self.o = nn.Linear(kind.hidden, kind.hidden, bias=False)
        self.norm = norm_of(kind, self.rank)
        self.register_buffer("state_cache", torch.zeros(1, kind.length, self.rank))
        self.register_buffer("key_cache", torch.zeros(1, 1, kind.length, self.turned))

    def forward(self, x: Tensor, pos: Tensor, turn: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        kind = self.kind
        cos, sin = (part[..., : self.turned] for part in turn)
        q = self.q(x).view(1, 1, kind.heads, -1).transpose(1, 2)
        plain, turning = q.split((kind.width, self.turned), dim=-1)
        low, key = self.down(x).split((self.rank, self.turned), dim=-1)
        self.state_cache.index_copy_(1, pos, self.norm(low))
        self.key_cache.index_copy_(2, pos, rope(key.view(1, 1, 1, -1), cos, sin))
        both = self.up(self.state_cache).view(1, kind.length, kind.heads, 2 * kind.width)
        k, v = both.transpose(1, 2).split(kind.width, dim=-1)
        shared = self.key_cache.expand(-1, kind.heads, -1, -1)
        q, k = torch.cat((plain, rope(turning, cos, sin)), -1), torch.cat((k, shared), -1)
        return self.o(attend(kind, q, k, v, mask).transpose(1, 2).reshape(1, 1, -1))


class StateSpace(nn.Module):
    """A selective state space: a short convolution over kept inputs, then a decayed state."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.into = nn.Linear(kind.hidden, 4 * kind.hidden, bias=False)
        self.select = nn.Linear(2 * kind.hidden, 2 * STATE + 64, bias=False)
        self.time = nn.Linear(64, 2 * kind.hidden)
        self.out = nn.Linear(2 * kind.hidden, kind.hidden, bias=False)
        self.taps = nn.Parameter(torch.ones(2 * kind.hidden, TAPS))
        self.decay = nn.Parameter(torch.ones(2 * kind.hidden, STATE))
        self.skip = nn.Parameter(torch.ones(2 * kind.hidden))
        self.register_buffer("taps_cache", torch.zeros(1, 2 * kind.hidden, TAPS))
        self.register_buffer("state_cache", torch.zeros(1, 2 * kind.hidden, STATE))

    def forward(self, x: Tensor, pos: Tensor, turn: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        new, gate = self.into(x).squeeze(1).chunk(2, dim=-1)
        self.taps_cache.copy_(torch.roll(self.taps_cache, shifts=-1, dims=-1))
        self.taps_cache[:, :, -1] = new
        new = functional.silu((self.taps_cache * self.taps).sum(dim=-1))
        low, write, read = self.select(new).split((64, STATE, STATE), dim=-1)
        step = functional.softplus(self.time(low))
        kept = torch.exp(step[..., None] * -torch.exp(self.decay.float()))
        fed = (step * new)[..., None] * write[:, None].float()
        self.state_cache.copy_(self.state_cache * kept + fed)
        y = torch.matmul(self.state_cache.to(x.dtype), read[..., None]).squeeze(-1)
        return self.out((y + self.skip * new) * functional.silu(gate))[:, None]


class Delta(nn.Module):
    """A gated delta rule: the state is decayed, corrected by what it would have read, and read."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.kind = kind
        self.qkv = nn.Linear(kind.hidden, 3 * kind.hidden, bias=False)
        self.gates = nn.Linear(kind.hidden, 2 * kind.heads, bias=False)
        self.out = nn.Linear(kind.hidden, kind.hidden, bias=False)
        self.norm = norm_of(kind, kind.width)
        shape = (1, kind.heads, kind.width, kind.width)
        self.register_buffer("state_cache", torch.zeros(shape, dtype=torch.float32))

    def forward(self, x: Tensor, pos: Tensor, turn: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        kind = self.kind
        qkv = functional.silu(self.qkv(x)).view(1, 3, kind.heads, kind.width).float()
        q, k, v = qkv.unbind(1)
        q, k = (part * torch.rsqrt(part.pow(2).sum(-1, keepdim=True) + 1e-6) for part in (q, k))
        decay, rate = self.gates(x).view(1, 2, kind.heads, 1).float().unbind(1)
        state = self.state_cache * torch.exp(-functional.softplus(decay))[..., None]
        wrong = (v - (state * k[..., None]).sum(-2)) * torch.sigmoid(rate)
        state = state + k[..., None] * wrong[..., None, :]
        self.state_cache.copy_(state)
        read = (state * q[..., None]).sum(-2) * kind.width**-0.5
        return self.out(self.norm(read.to(x.dtype)).reshape(1, 1, -1))


class Experts(nn.Module):
    """The two chosen of eight experts: their weights gathered, then batched products."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.router = nn.Linear(kind.hidden, EXPERTS, bias=False)
        self.up = nn.Parameter(torch.empty(EXPERTS, kind.hidden, 2 * kind.inner))
        self.down = nn.Parameter(torch.empty(EXPERTS, kind.inner, kind.hidden))

    def forward(self, x: Tensor) -> Tensor:
        share = torch.softmax(self.router(x).float(), dim=-1)
        share, chosen = torch.topk(share, CHOSEN, dim=-1)
        share = (share / share.sum(-1, keepdim=True)).to(x.dtype).view(CHOSEN, 1, 1)
        chosen = chosen.view(CHOSEN)
        gate, up = torch.bmm(x.expand(CHOSEN, 1, -1), self.up[chosen]).chunk(2, dim=-1)
        mixed = torch.bmm(functional.silu(gate) * up, self.down[chosen])
        return (mixed * share).sum(0, keepdim=True)


class FeedForward(nn.Module):
    """Gated or plain."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.feed = kind.feed
        self.up = nn.Linear(kind.hidden, kind.inner, bias=kind.norm == "layer")
        self.down = nn.Linear(kind.inner, kind.hidden, bias=kind.norm == "layer")
        if kind.feed != "gelu":
            self.gate = nn.Linear(kind.hidden, kind.inner, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.feed == "gelu":
            return self.down(functional.gelu(self.up(x)))
        gate = self.gate(x)
        gate = functional.silu(gate) if self.feed == "swiglu" else tanh_gelu(gate)
        return self.down(gate * self.up(x))


def tanh_gelu(x: Tensor) -> Tensor:
    return functional.gelu(x, approximate="tanh")


class Layer(nn.Module):
    """One layer; `mask` 1 sees a window of the cache, 0 all of it."""

    def __init__(self, kind: Kind, number: int) -> None:
        super().__init__()
        self.kind, self.mask = kind, int(bool(kind.window) and number % 2 == 0)
        self.norm1, self.norm2 = norm_of(kind), norm_of(kind)
        if kind.after:
            self.norm3, self.norm4 = norm_of(kind), norm_of(kind)
        if kind.mixer == "latent":
            self.mixer: nn.Module = Latent(kind)
        elif kind.mixer == "state":
            self.mixer = StateSpace(kind)
        elif kind.mixer == "delta" and number < kind.layers - 1:
            self.mixer = Delta(kind)
        else:
            self.mixer = Attention(kind)
        self.feed = Experts(kind) if kind.feed == "experts" else FeedForward(kind)

    def forward(
        self, x: Tensor, pos: Tensor, turn: tuple[Tensor, Tensor], masks: tuple[Tensor, Tensor]
    ) -> Tensor:
        mixed = self.mixer(self.norm1(x), pos, turn, masks[self.mask])
        if self.kind.parallel:
            return x + mixed + self.feed(self.norm2(x))
        x = x + (self.norm3(mixed) if self.kind.after else mixed)
        fed = self.feed(self.norm2(x))
        return x + (self.norm4(fed) if self.kind.after else fed)


class Model(nn.Module):
    """A token id `[1, 1]` and its position `[1]` in, logits out."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.kind = kind
        self.embed = nn.Embedding(kind.vocab, kind.hidden)
        self.layers = nn.ModuleList(Layer(kind, n) for n in range(kind.layers))
        self.norm = norm_of(kind)
        self.head = nn.Linear(kind.hidden, kind.vocab, bias=False)
        if kind.tied:
            self.head.weight = self.embed.weight
        if kind.position == "learned":
            self.places = nn.Embedding(kind.length, kind.hidden)
        size = kind.width // 4 if kind.position == "partial" else kind.width
        scale = 4.0 if kind.position == "scaled" else 1.0
        waves = 10_000.0 ** (-torch.arange(0, size, 2, dtype=torch.float32) / size) / scale
        angles = torch.arange(kind.length)[:, None] * waves.repeat(2)
        self.register_buffer("waves", waves)
        self.register_buffer("cos", angles.cos().bfloat16())
        self.register_buffer("sin", angles.sin().bfloat16())
        self.register_buffer("places_seen", torch.arange(kind.length))
        slopes = 2.0 ** (-8.0 * torch.arange(1, kind.heads + 1) / kind.heads)
        self.register_buffer("slopes", slopes.bfloat16()[:, None, None])

    def turn(self, pos: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines of a position, from a table or (scaled) made here."""
        if self.kind.position != "scaled":
            return self.cos[pos], self.sin[pos]
        angles = (self.waves[None, :, None] @ pos[None, None, :].float()).transpose(1, 2)
        both = torch.cat((angles, angles), dim=-1)
        cos, sin = both.cos() * 1.1, both.sin() * 1.1
        return cos.to(like.dtype)[:, None], sin.to(like.dtype)[:, None]

    def masks(self, pos: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        """What is added to the scores of all positions, and of those in the window."""
        seen = self.places_seen <= pos
        kept = [seen, seen & (self.places_seen > pos - self.kind.window)]
        least = torch.finfo(like.dtype).min
        full, local = (torch.where(k, 0.0, least).to(like.dtype)[None, None, None] for k in kept)
        if self.kind.position == "alibi":
            full = full + self.slopes * (self.places_seen - pos).to(like.dtype)
        return full, local

    def forward(self, token: Tensor, pos: Tensor) -> Tensor:
        x = self.embed(token)
        if self.kind.after:
            x = x * self.kind.hidden**0.5
        if self.kind.position == "learned":
            x = x + self.places(pos)
        turn, masks = self.turn(pos, x), self.masks(pos, x)
        for layer in self.layers:
            x = layer(x, pos, turn, masks)
        logits = self.head(self.norm(x))
        cap = self.kind.cap
        return torch.tanh(logits / cap) * cap if cap else logits


def make(kind: Kind, where: str) -> Model:
    """A model in bf16 with random weights; angles and recurrent states keep their type."""
    torch.manual_seed(0)
    with torch.device(where):
        model = Model(kind)
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            parameter.data = parameter.data.bfloat16()
            parameter.requires_grad_(requires_grad=False)
        for name, buffer in module.named_buffers(recurse=False):
            if name in ("k_cache", "v_cache", "key_cache", "taps_cache") or (
                name == "state_cache" and isinstance(module, Latent)
            ):
                module.register_buffer(name, buffer.bfloat16())
    randomize(model)
    return model.eval()


def tiny(kind: Kind) -> Kind:
    """The same constructs at sizes that a CPU runs at once."""
    return replace(kind, layers=2, hidden=64, heads=4, kv_heads=min(kind.kv_heads, 2), vocab=256,
                   length=32, window=kind.window and 8)  # fmt: skip


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=sorted(KINDS), default="qk_norm")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--explicit", action="store_true", help="attention in products and softmax")
    parser.add_argument("--steps", type=int, default=50)
    return parser.parse_args()


def build() -> Callable[[], Tensor]:
    """One greedy decode step over static token and position tensors."""
    args = parse()
    kind, where = KINDS[args.model], device()
    kind = replace(tiny(kind) if args.tiny else kind, explicit=args.explicit)
    model = make(kind, where)
    token = torch.zeros(1, 1, dtype=torch.long, device=where)
    pos = torch.zeros(1, dtype=torch.long, device=where)

    @torch.inference_mode()
    def step() -> Tensor:
        logits = model(token, pos)
        token.copy_(logits.argmax(dim=-1))
        pos.add_(1).remainder_(model.kind.length)
        return logits

    def reset() -> None:
        token.zero_()
        pos.zero_()
        for name, buffer in model.named_buffers():
            if name.endswith("_cache"):
                buffer.zero_()

    step.model = model  # type: ignore[attr-defined]
    step.batch = 1  # type: ignore[attr-defined]
    step.reset = reset  # type: ignore[attr-defined]
    step.label = args.model  # type: ignore[attr-defined]
    return step


if __name__ == "__main__":
    run(build(), parse().steps)
