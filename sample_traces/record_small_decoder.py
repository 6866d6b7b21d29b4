"""Record the small_decoder_*.json.gz traces of this folder with nothing but torch.profiler.

A Llama-style decoder (RMSNorm, RoPE, grouped-query SDPA over one static KV cache per layer,
SwiGLU) with random bf16 weights generates greedily at batch 1. The same step is recorded three
times: eager, under torch.compile, and captured by hand into one CUDA graph. The times printed at
the end are measured without the profiler.

    python sample_traces/record_small_decoder.py OUTDIR
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, schedule

LAYERS, HIDDEN, HEADS, KV_HEADS, INTERMEDIATE, VOCAB, MAX_LEN = 4, 2048, 16, 4, 5632, 32000, 512
STEPS = 8


class Layer(nn.Module):
    """One pre-norm decoder layer that writes its KV cache in place."""

    def __init__(self) -> None:
        super().__init__()
        self.head_dim = HIDDEN // HEADS
        self.norm1, self.norm2 = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)
        self.q = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.kv = nn.Linear(HIDDEN, 2 * KV_HEADS * self.head_dim, bias=False)
        self.o = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.gate = nn.Linear(HIDDEN, INTERMEDIATE, bias=False)
        self.up = nn.Linear(HIDDEN, INTERMEDIATE, bias=False)
        self.down = nn.Linear(INTERMEDIATE, HIDDEN, bias=False)
        cache = torch.zeros(1, KV_HEADS, MAX_LEN, self.head_dim)
        self.register_buffer("k_cache", cache)
        self.register_buffer("v_cache", cache.clone())

    def rope(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        first, second = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-second, first), dim=-1) * sin

    def forward(self, x: Tensor, pos: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        h = self.norm1(x)
        q = self.q(h).view(1, 1, HEADS, self.head_dim).transpose(1, 2)
        kv = self.kv(h).view(1, 1, 2 * KV_HEADS, self.head_dim).transpose(1, 2)
        k, v = kv.chunk(2, dim=1)
        self.k_cache.index_copy_(2, pos, self.rope(k, cos, sin))
        self.v_cache.index_copy_(2, pos, v)
        a = functional.scaled_dot_product_attention(
            self.rope(q, cos, sin), self.k_cache, self.v_cache, attn_mask=mask, enable_gqa=True
        )
        x = x + self.o(a.transpose(1, 2).reshape(1, 1, HIDDEN))
        h = self.norm2(x)
        return x + self.down(functional.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    """Token id and position in, logits out; every address and shape is static."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCAB, bias=False)
        half = HIDDEN // HEADS // 2
        angles = torch.arange(MAX_LEN)[:, None] / 10000 ** (torch.arange(half)[None] / half)
        self.register_buffer("cos", torch.cat((angles.cos(), angles.cos()), dim=-1))
        self.register_buffer("sin", torch.cat((angles.sin(), angles.sin()), dim=-1))
        self.register_buffer("positions", torch.arange(MAX_LEN))

    def forward(self, token: Tensor, pos: Tensor) -> Tensor:
        x = self.embed(token)
        cos, sin = self.cos[pos], self.sin[pos]
        mask = (self.positions <= pos)[None, None, None]
        for layer in self.layers:
            x = layer(x, pos, cos, sin, mask)
        return self.head(self.norm(x))


def unprofiled_ms(step: Callable[[], None], count: int = 100) -> float:
    """Median step time in milliseconds from device events, no profiler running."""
    for _ in range(10):
        step()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in pairwise(marks))


def record(step: Callable[[], None], path: Path, *, shapes: bool) -> None:
    """Profile STEPS steps, one ProfilerStep#N mark each, after five warm-up steps."""
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        schedule=schedule(wait=1, warmup=5, active=STEPS),
        on_trace_ready=lambda p: p.export_chrome_trace(str(path)),
        record_shapes=shapes,
    ) as prof:
        for _ in range(1 + 5 + STEPS):
            step()
            prof.step()
    print(f"wrote {path} ({path.stat().st_size} bytes)")


@torch.inference_mode()
def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    torch.set_default_device("cuda")
    model = Decoder().to(torch.bfloat16).eval()
    token = torch.zeros(1, 1, dtype=torch.long)
    pos = torch.zeros(1, dtype=torch.long)

    def step_of(forward: Callable[[Tensor, Tensor], Tensor]) -> Callable[[], None]:
        def step() -> None:
            logits = forward(token, pos)
            token.copy_(logits.argmax(dim=-1))
            pos.add_(1).remainder_(MAX_LEN)

        return step

    eager = step_of(model)
    compiled = step_of(torch.compile(model))
    for _ in range(3):
        compiled()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            eager()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        eager()

    for name, step in (("eager", eager), ("compiled", compiled), ("graph", graph.replay)):
        record(step, out / f"small_decoder_{name}.json.gz", shapes=name == "eager")
        print(f"{name}: {unprofiled_ms(step):.3f} ms per step without the profiler")
    print(torch.cuda.get_device_name(), "torch", torch.__version__)


if __name__ == "__main__":
    main()
