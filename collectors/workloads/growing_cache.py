"""A bad step, on purpose: the KV cache grows by concatenation, so it moves at every step.

Eager and compiled it works. A captured graph would go on reading the cache where it lay.
"""

from __future__ import annotations

import dataclasses

import torch
from decoder import SIZES, Decoder, Shape, make, parse, rope, run
from torch import Tensor
from torch.nn import functional


class GrowingDecoder(Decoder):
    """A decoder over lists of K and V that are one token longer after every step."""

    def make_caches(self, shape: Shape) -> None:
        self.k: list[Tensor] = []
        self.v: list[Tensor] = []

    def clear(self) -> None:
        """Forget all tokens but an empty first one."""
        shape = self.shape
        size = (shape.batch, shape.kv_heads, 1, shape.head_dim)
        weight = self.embed.weight
        self.k = [weight.new_zeros(size) for _ in self.layers]
        self.v = [weight.new_zeros(size) for _ in self.layers]

    def forward(self, token: Tensor, pos: Tensor) -> Tensor:
        shape = self.shape
        x = self.embed(token)
        cos, sin = self.cos[pos], self.sin[pos]
        for n, layer in enumerate(self.layers):
            part = layer.attention
            h = layer.norm1(x)
            q = part.q(h).view(shape.batch, 1, shape.heads, shape.head_dim).transpose(1, 2)
            kv = part.kv(h).view(shape.batch, 1, 2 * shape.kv_heads, shape.head_dim)
            k, v = kv.transpose(1, 2).chunk(2, dim=1)
            self.k[n] = torch.cat((self.k[n], rope(k, cos, sin)), dim=2)
            self.v[n] = torch.cat((self.v[n], v), dim=2)
            out = functional.scaled_dot_product_attention(
                rope(q, cos, sin),
                self.k[n],
                self.v[n],
                enable_gqa=shape.heads != shape.kv_heads,
            )
            x = x + part.o(out.transpose(1, 2).reshape(shape.batch, 1, -1))
            h = layer.norm2(x)
            x = x + layer.down(functional.silu(layer.gate(h)) * layer.up(h))
        return self.head(self.norm(x))


def build():
    shape, _ = parse(SIZES, "1b")
    shape = dataclasses.replace(shape, layers=min(shape.layers, 4))
    model = make(GrowingDecoder, shape)
    where = model.positions.device
    token = torch.zeros(shape.batch, 1, dtype=torch.long, device=where)
    pos = torch.zeros(1, dtype=torch.long, device=where)

    @torch.inference_mode()
    def step() -> Tensor:
        logits = model(token, pos)
        token.copy_(logits.argmax(dim=-1))
        pos.add_(1).remainder_(shape.max_len)
        return logits

    def reset() -> None:
        token.zero_()
        pos.zero_()
        model.clear()

    reset()
    step.model = model
    step.batch = shape.batch
    step.reset = reset
    step.label = "dense decoder, KV cache grown by concatenation"
    return step


if __name__ == "__main__":
    run(build(), parse(SIZES, "1b")[1].steps)
