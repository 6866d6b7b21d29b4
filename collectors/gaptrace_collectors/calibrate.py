"""A small decode step with and without the profiler: what recording costs on this machine.

    python calibrate.py SETTING FOLDER

One process records one setting: the profiler leaves hooks in the driver that slow every later
step, so only what was timed before the first recording is unprofiled. Into FOLDER go the trace
(`SETTING.json.gz`) and what was timed (`SETTING.json`); `gaptrace calibrate` runs all settings and
reads them.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import statistics
import sys
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, record_function

if TYPE_CHECKING:
    from collections.abc import Callable

LAYERS, HIDDEN, HEADS, LENGTH = 8, 512, 8, 256
WARMUP, TIMED, PROFILED = 20, 60, 20
# What is recorded, from the least to the most: launch calls and step marks; CPU ops as well; ops
# and their shapes; ops and Python stacks. `replay` records ops around one graph replay a step.
SETTINGS: dict[str, dict[str, bool]] = {
    "calls": {},
    "ops": {},
    "shapes": {"record_shapes": True},
    "stacks": {"with_stack": True},
    "replay": {},
}


class Layer(nn.Module):  # type: ignore[misc]  # torch has no types where it is not installed
    """One pre-norm decoder layer over a static cache."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN, bias=False)
        self.out = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.gate = nn.Linear(HIDDEN, 2 * HIDDEN, bias=False)
        self.up = nn.Linear(HIDDEN, 2 * HIDDEN, bias=False)
        self.down = nn.Linear(2 * HIDDEN, HIDDEN, bias=False)
        size = (1, HEADS, LENGTH, HIDDEN // HEADS)
        self.register_buffer("keys", torch.zeros(size))
        self.register_buffer("values", torch.zeros(size))

    def forward(self, x: Tensor, position: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (
            part.view(1, 1, HEADS, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        )
        self.keys.index_copy_(2, position, k)
        self.values.index_copy_(2, position, v)
        seen = functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask)
        x = x + self.out(seen.transpose(1, 2).reshape(1, 1, -1))
        h = self.norm2(x)
        return x + self.down(functional.silu(self.gate(h)) * self.up(h))


def decode_step() -> Callable[[], Any]:
    """A launch-bound decode step with random weights: greedy, one token, static shapes."""
    torch.manual_seed(0)
    where = {"device": "cuda", "dtype": torch.bfloat16}
    layers = nn.ModuleList(Layer() for _ in range(LAYERS)).to(**where).eval()
    embed = nn.Embedding(4096, HIDDEN).to(**where)
    token = torch.zeros(1, 1, dtype=torch.long, device="cuda")
    position = torch.zeros(1, dtype=torch.long, device="cuda")
    places = torch.arange(LENGTH, device="cuda")

    def step() -> None:
        with torch.no_grad():
            x = embed(token)
            mask = (places <= position)[None, None, None]
            for layer in layers:
                x = layer(x, position, mask)
            token.copy_(functional.linear(x, embed.weight)[:, -1:].argmax(dim=-1))

    return step


def replayed(step: Callable[[], Any]) -> Callable[[], Any]:
    """The step as one CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    replay: Callable[[], Any] = graph.replay
    return replay


def periods_ns(step: Callable[[], Any], count: int) -> list[int]:
    """Periods of `count` steps in ns, by events on the device."""
    torch.cuda.synchronize()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    events[0].record()
    for event in events[1:]:
        step()
        event.record()
    torch.cuda.synchronize()
    return [round(a.elapsed_time(b) * 1e6) for a, b in itertools.pairwise(events)]


def record(step: Callable[[], Any], setting: str, path: str) -> None:
    """A trace of some steps under one setting of the profiler, with a mark around each step."""
    from torch.autograd import profiler as autograd_profiler

    enable = autograd_profiler._enable_profiler
    if setting == "calls":
        # Ops are left out where they are recorded, and marks are kept.
        scopes = {torch._C._profiler.RecordScope.USER_SCOPE}
        autograd_profiler._enable_profiler = lambda config, activities: enable(
            config, activities, scopes
        )
    try:
        both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
        session = profile(activities=both, **SETTINGS[setting])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            session.prepare_trace()
            step()
            torch.cuda.synchronize()
            session.start_trace()
        for number in range(PROFILED):
            with record_function(f"gaptrace.step#{number}"):
                step()
        with record_function(f"gaptrace.step#{PROFILED}"):
            step()
        torch.cuda.synchronize()
        session.stop_trace()
    finally:
        autograd_profiler._enable_profiler = enable
    session.export_chrome_trace(path)


def main(setting: str, folder: str) -> None:
    """Time the step, record it under one setting, and leave both in the folder."""
    step = decode_step()
    for _ in range(WARMUP):
        step()
    if setting == "replay":
        step = replayed(step)
    periods = periods_ns(step, TIMED)
    record(step, setting, os.path.join(folder, f"{setting}.json.gz"))
    after = periods_ns(step, TIMED)
    facts = {
        "setting": setting,
        "unprofiled_ns": periods,
        "after_ns": statistics.median_low(after),
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "host": platform.node(),
    }
    with open(os.path.join(folder, f"{setting}.json"), "w", encoding="utf-8") as file:
        json.dump(facts, file)


if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit("no CUDA device: there is nothing to calibrate without one")
    main(*sys.argv[1:3])
