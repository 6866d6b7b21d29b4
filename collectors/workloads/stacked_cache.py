"""A 64-layer dense decoder whose KV cache is one stacked tensor, written in place; bf16 or int4.

    gaptrace collect stacked_cache.py
    gaptrace collect stacked_cache.py --int4

Hidden size 5120, intermediate size 17408, 40 heads: 24 B parameters. With --int4 the layers' linear
weights are packed for tinygemm's `_weight_int4pack_mm`, groups of 128; the head stays in bf16.
"""

from __future__ import annotations

import torch
from decoder import Decoder, Shape, fill_buffers, greedy_step, make, parse, randomize, run
from torch import Tensor, nn

GROUP = 128
INNER_K_TILES = 8
SIZES = {
    "tiny": Shape(2, 256, 2, 2, 512, 256, tied=False, max_len=128),
    "24b": Shape(64, 5120, 40, 40, 17408, 32000, tied=False),
}


class StackedDecoder(Decoder):
    """K and V of all layers lie in two tensors `[layers, batch, heads, length, width]`."""

    def make_caches(self, shape: Shape) -> None:
        size = (shape.layers, shape.batch, shape.kv_heads, shape.max_len, shape.head_dim)
        self.register_buffer("k_cache", torch.zeros(size))
        self.register_buffer("v_cache", torch.zeros(size))

    def caches(self, n: int) -> tuple[Tensor, Tensor]:
        return self.k_cache[n], self.v_cache[n]


class Int4Linear(nn.Module):
    """A linear layer with random 4-bit weights in tinygemm's layout."""

    def __init__(self, inputs: int, outputs: int, where: str) -> None:
        super().__init__()
        self.outputs = outputs
        self.on_cpu = where == "cpu"
        aten = torch.ops.aten
        if self.on_cpu:
            values = torch.randint(0, 16, (outputs, inputs), dtype=torch.int32)
            packed = aten._convert_weight_to_int4pack_for_cpu(values, INNER_K_TILES)
        else:
            values = torch.randint(0, 256, (outputs, inputs // 2), dtype=torch.uint8, device=where)
            packed = aten._convert_weight_to_int4pack(values, INNER_K_TILES)
        scales = torch.empty(inputs // GROUP, outputs, 2, dtype=torch.bfloat16, device=where)
        scales[..., 0].fill_(0.01)
        scales[..., 1].normal_(std=0.005)
        self.register_buffer("weight_int4pack", packed)
        self.register_buffer("scales_and_zeros", scales)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])
        aten = torch.ops.aten
        mm = aten._weight_int4pack_mm_for_cpu if self.on_cpu else aten._weight_int4pack_mm
        out = mm(flat, self.weight_int4pack, GROUP, self.scales_and_zeros)
        return out.reshape(*x.shape[:-1], self.outputs)


def make_int4(shape: Shape) -> StackedDecoder:
    """The decoder with the layers' linear weights in 4 bits; they never exist in bf16."""
    torch.manual_seed(0)
    where = "cuda" if torch.cuda.is_available() else "cpu"
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("meta"):
        model = StackedDecoder(shape)
    torch.set_default_dtype(before)
    holders = [part for layer in model.layers for part in (layer, layer.attention)]
    for holder in holders:
        for name, part in list(holder.named_children()):
            if isinstance(part, nn.Linear):
                setattr(holder, name, nn.Identity())
                sizes = (part.in_features, part.out_features)
                holder.__dict__.setdefault("_later", []).append((name, sizes))
    model.to_empty(device=where)
    for holder in holders:
        for name, (inputs, outputs) in holder.__dict__.pop("_later", []):
            setattr(holder, name, Int4Linear(inputs, outputs, where))
    fill_buffers(model)
    randomize(model)
    return model.eval()


def build():
    shape, args = parse(SIZES, "24b", "--int4")
    model = make_int4(shape) if args.int4 else make(StackedDecoder, shape)
    step = greedy_step(model)
    step.label = f"64-layer dense decoder, stacked KV cache, {'int4' if args.int4 else 'bf16'}"
    return step


if __name__ == "__main__":
    run(build(), parse(SIZES, "24b", "--int4")[1].steps)
