"""A Llama-style decoder with random weights, shared by the workloads of this folder.

RMSNorm, rotary embedding, grouped-query attention over static KV caches, SwiGLU. Every address and
every shape is the same at every step, so the step can be compiled and captured. One K and one V
tensor per layer; stacked_cache.py has the other layout.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Shape:
    """Sizes of a decoder."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    intermediate: int
    vocab: int
    tied: bool
    max_len: int = 512
    batch: int = 1

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads

    @property
    def cache_bytes(self) -> int:
        """Bytes of all caches in bf16; attention reads all of them at every step."""
        return 2 * 2 * self.layers * self.batch * self.kv_heads * self.max_len * self.head_dim


SIZES = {
    "tiny": Shape(2, 64, 4, 2, 128, 256, tied=True, max_len=128),
    "1b": Shape(16, 2048, 32, 8, 8192, 128256, tied=True),
    "8b": Shape(32, 4096, 32, 8, 14336, 128256, tied=False),
}


def parse(sizes: dict[str, Shape], default: str, *flags: str) -> tuple[Shape, argparse.Namespace]:
    """The shape that the command line asks for, and the other flags."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", choices=sorted(sizes), default=default)
    parser.add_argument("--tiny", action="store_const", const="tiny", dest="size")
    for field in dataclasses.fields(Shape):
        if field.name != "tied":
            parser.add_argument(f"--{field.name.replace('_', '-')}", type=int)
    parser.add_argument("--steps", type=int, default=100)
    for flag in flags:
        parser.add_argument(flag, action="store_true")
    args = parser.parse_args()
    given = {
        field.name: getattr(args, field.name)
        for field in dataclasses.fields(Shape)
        if getattr(args, field.name, None) is not None
    }
    return dataclasses.replace(sizes[args.size], **given), args


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Attention(nn.Module):
    """Attention of one layer; the caches are handed in by the layer's owner."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        width = shape.head_dim
        self.q = nn.Linear(shape.hidden, shape.heads * width, bias=False)
        self.kv = nn.Linear(shape.hidden, 2 * shape.kv_heads * width, bias=False)
        self.o = nn.Linear(shape.heads * width, shape.hidden, bias=False)

    def forward(
        self,
        x: Tensor,
        pos: Tensor,
        cos: Tensor,
        sin: Tensor,
        mask: Tensor,
        k_cache: Tensor,
        v_cache: Tensor,
        window: int | None = None,
    ) -> Tensor:
        shape = self.shape
        q = self.q(x).view(shape.batch, 1, shape.heads, shape.head_dim).transpose(1, 2)
        kv = self.kv(x).view(shape.batch, 1, 2 * shape.kv_heads, shape.head_dim).transpose(1, 2)
        k, v = kv.chunk(2, dim=1)
        k_cache.index_copy_(2, pos, rope(k, cos, sin))
        v_cache.index_copy_(2, pos, v)
        if window is not None:
            k_cache, v_cache = k_cache[:, :, :window], v_cache[:, :, :window]
        out = functional.scaled_dot_product_attention(
            rope(q, cos, sin),
            k_cache,
            v_cache,
            attn_mask=mask,
            enable_gqa=shape.heads != shape.kv_heads,
        )
        return self.o(out.transpose(1, 2).reshape(shape.batch, 1, -1))


class Layer(nn.Module):
    """One pre-norm decoder layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(shape.hidden), nn.RMSNorm(shape.hidden)
        self.attention = Attention(shape)
        self.gate = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.up = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.down = nn.Linear(shape.intermediate, shape.hidden, bias=False)

    def forward(self, x: Tensor, *rest: Tensor | int | None) -> Tensor:
        x = x + self.attention(self.norm1(x), *rest)
        h = self.norm2(x)
        return x + self.down(functional.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    """Token ids `[batch, 1]` and a position `[1]` in, logits `[batch, 1, vocab]` out.

    Attention reads the whole caches, or their first `window` positions.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed = nn.Embedding(shape.vocab, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.hidden)
        self.head = nn.Linear(shape.hidden, shape.vocab, bias=False)
        if shape.tied:
            self.head.weight = self.embed.weight
        self.make_caches(shape)
        self.register_buffer("cos", torch.empty(shape.max_len, shape.head_dim))
        self.register_buffer("sin", torch.empty(shape.max_len, shape.head_dim))
        self.register_buffer("positions", torch.empty(shape.max_len, dtype=torch.long))

    def make_caches(self, shape: Shape) -> None:
        size = (shape.batch, shape.kv_heads, shape.max_len, shape.head_dim)
        for n in range(shape.layers):
            self.register_buffer(f"k_cache_{n}", torch.zeros(size))
            self.register_buffer(f"v_cache_{n}", torch.zeros(size))

    def caches(self, n: int) -> tuple[Tensor, Tensor]:
        """K and V of layer `n`."""
        return getattr(self, f"k_cache_{n}"), getattr(self, f"v_cache_{n}")

    def forward(self, token: Tensor, pos: Tensor, window: int | None = None) -> Tensor:
        x = self.embed(token)
        cos, sin = self.cos[pos], self.sin[pos]
        mask = (self.positions[:window] <= pos)[None, None, None]
        for n, layer in enumerate(self.layers):
            x = layer(x, pos, cos, sin, mask, *self.caches(n), window)
        return self.head(self.norm(x))


def randomize(model: nn.Module) -> None:
    """Random weights made where the model is, scaled so that signals keep their size; norms one.

    Much smaller ones would let the embedding through unchanged: a tied model would then repeat one
    token for ever, and a stale input would not show in its outputs.
    """
    for name, parameter in model.named_parameters():
        if "norm" in name or parameter.dim() < 2:
            nn.init.ones_(parameter)
        else:
            nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)


def make(kind: type[Decoder], shape: Shape) -> Decoder:
    """A model of `shape` in bf16 on the GPU (or CPU), without ever holding it in fp32."""
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("meta"):
            model = kind(shape)
    finally:
        torch.set_default_dtype(before)
    model.to_empty(device=device())
    fill_buffers(model)
    randomize(model)
    return model.eval()


def fill_buffers(model: Decoder) -> None:
    """Give the buffers their contents, which `to_empty` leaves undefined."""
    shape = model.shape
    half = shape.head_dim // 2
    where = model.positions.device
    steps = torch.arange(shape.max_len, device=where)
    angles = steps[:, None] / 10000 ** (torch.arange(half, device=where)[None] / half)
    model.cos.copy_(torch.cat((angles.cos(), angles.cos()), dim=-1))
    model.sin.copy_(torch.cat((angles.sin(), angles.sin()), dim=-1))
    model.positions.copy_(steps)
    for name, buffer in model.named_buffers():
        if "cache" in name:
            buffer.zero_()


def greedy_step(model: Decoder) -> Callable[[], Tensor]:
    """One greedy decode step over static token and position tensors."""
    shape = model.shape
    where = model.positions.device
    token = torch.zeros(shape.batch, 1, dtype=torch.long, device=where)
    pos = torch.zeros(1, dtype=torch.long, device=where)
    window: int | None = None

    @torch.inference_mode()
    def step() -> Tensor:
        logits = model(token, pos) if window is None else model(token, pos, window)
        token.copy_(logits.argmax(dim=-1))
        pos.add_(1).remainder_(shape.max_len)
        return logits

    def reset() -> None:
        token.zero_()
        pos.zero_()

    def seek(length: int) -> None:
        pos.fill_(length - 1)

    def pad_to(length: int) -> None:
        nonlocal window
        window = length

    def kv_bytes() -> int:
        return shape.cache_bytes * (window or shape.max_len) // shape.max_len

    step.model = model  # type: ignore[attr-defined]
    step.batch = shape.batch  # type: ignore[attr-defined]
    step.kv_bytes = kv_bytes  # type: ignore[attr-defined]
    step.reset = reset  # type: ignore[attr-defined]
    step.seek = seek  # type: ignore[attr-defined]
    step.pad_to = pad_to  # type: ignore[attr-defined]
    return step


def run(step: Callable[[], object], steps: int) -> None:
    """What the script does when nobody records it: some steps, and their mean time."""
    for _ in range(5):
        step()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(steps):
        step()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    print(f"{(time.perf_counter() - began) / steps * 1e3:.3f} ms per step")
