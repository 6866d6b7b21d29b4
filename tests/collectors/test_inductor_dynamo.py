"""The rebuilt graph schedules like the graph that Dynamo captures from the same module.

Both sides use the installed Inductor, so this holds for any torch version. The module runs on the
CPU; its recording and Dynamo's graph are then both said to live on a GPU.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.profiler import ExecutionTraceObserver

from gaptrace_inductor import graphs, kernels, rebuild, schedule, standins

from .conftest import WORKLOADS
from .inductor_runs import predict

sys.path.insert(0, str(WORKLOADS))
import scored_models

pytestmark = [pytest.mark.torch, pytest.mark.slow]
WIDTH, HEADS, LENGTH = 64, 2, 32


def weight(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape, dtype=torch.bfloat16) * 0.02, requires_grad=False)


class Attention(nn.Module):
    """Decode attention with a cache per layer or, stacked, one for all layers."""

    def __init__(self, layers: int, stacked: bool) -> None:
        super().__init__()
        self.table, self.head = weight(128, WIDTH), weight(128, WIDTH)
        self.qkv = nn.ParameterList(weight(3 * WIDTH, WIDTH) for _ in range(layers))
        self.out = nn.ParameterList(weight(WIDTH, WIDTH) for _ in range(layers))
        shape = (1, HEADS, LENGTH, WIDTH // HEADS)
        one = torch.zeros(2, layers, *shape, dtype=torch.bfloat16)
        self.caches: Any = one if stacked else [[c.clone() for c in kv] for kv in one]

    def forward(self, ids: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        x = F.embedding(ids, self.table)
        for i, (qkv, out) in enumerate(zip(self.qkv, self.out, strict=True)):
            scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
            parts = F.linear((x.float() * scale).to(x.dtype), qkv).chunk(3, -1)
            q, k, v = (part.view(1, 1, HEADS, -1).transpose(1, 2) for part in parts)
            self.caches[0][i].index_copy_(2, at, k)
            self.caches[1][i].index_copy_(2, at, v)
            scores = q.float() @ self.caches[0][i].float().transpose(-1, -2) * 0.125
            mixed = scores.softmax(-1).to(q.dtype) @ self.caches[1][i]
            x = x + F.linear(mixed.transpose(1, 2).reshape(x.shape), out)
        return F.linear(x, self.head)


class Recurrent(nn.Module):
    """A gated state that is decayed, updated and read, then written back."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = weight(128, WIDTH), weight(128, WIDTH)
        self.kvg, self.out = weight(3 * WIDTH, WIDTH), weight(WIDTH, WIDTH)
        self.state = torch.zeros(1, WIDTH, WIDTH)

    def forward(self, ids: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        x = F.embedding(ids, self.table)
        k, v, g = F.linear(x, self.kvg).float().squeeze(1).chunk(3, -1)
        new = self.state * g.sigmoid().unsqueeze(-1) + k.unsqueeze(-1) * v.unsqueeze(-2)
        self.state.copy_(new)
        read = (new * F.silu(k).unsqueeze(-1)).sum(-2).to(x.dtype)
        return F.linear(x + F.linear(read, self.out), self.head)


def scored(name: str) -> nn.Module:
    """One of the twelve scored models, tiny; its attention has no kernel on a CPU."""
    kind = scored_models.tiny(scored_models.KINDS[name])
    model: nn.Module = scored_models.make(dataclasses.replace(kind, explicit=True), "cpu")
    return model


MODULES: dict[str, Any] = {
    "cache per layer": lambda: Attention(2, stacked=False),
    "stacked cache": lambda: Attention(2, stacked=True),
    "recurrent": Recurrent,
    # All twelve stand in gaptrace_inductor/README.md; these have what the others lack.
    **{
        name: lambda name=name: scored(name)
        for name in ("qk_norm", "sliding_window", "experts", "state_space", "gated_delta")
    },
}


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(1, 1, dtype=torch.long), torch.tensor([5])


def recorded_on_cpu(module: nn.Module, path: Path) -> Path:
    observer = ExecutionTraceObserver()
    observer.register_callback(str(path))
    ids, at = inputs()
    with torch.no_grad():
        module(ids, at)
        observer.start()
        # As the recorder does, so that what follows the last product is in the region too.
        span = torch.profiler.record_function
        with span("gaptrace.step#0"), span(rebuild.SPAN):
            module(ids, at)
        observer.stop()
    observer.unregister_callback()
    document = json.loads(path.read_text())
    for node in document["nodes"]:
        for side in (node["inputs"], node["outputs"]):
            side["values"] = [
                on_gpu(*column)
                for column in zip(side["values"], side["shapes"], side["types"], strict=True)
            ]
    path.write_text(json.dumps(document))
    return path


def on_gpu(value: Any, shape: Any, kind: str) -> Any:
    """Every tensor but those that stand for Python numbers, and every device argument."""
    if kind == "Device":
        return "cuda:0"
    if kind.startswith("GenericList[Tensor"):
        return [on_gpu(v, s, "Tensor(list)") for v, s in zip(value, shape, strict=True)]
    if kind.startswith("Tensor(") and isinstance(value, list) and (shape or "double" not in kind):
        return [*value[:5], "cuda:0"] if value[5] == "cpu" else value
    return value


def captured_by_dynamo(module: nn.Module) -> list[tuple[int, int]]:
    """Generated kernels and library calls of each graph that Dynamo makes."""
    from torch.fx.experimental.proxy_tensor import make_fx

    seen: list[tuple[Any, list[Any]]] = []

    def keep(graph: Any, given: list[Any]) -> Any:
        seen.append(
            (graph, [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype) for t in given])
        )
        return graph.forward

    torch._dynamo.reset()
    gpu = torch.device("cuda:0")
    counts = []
    with torch.no_grad():
        torch.compile(module, backend=keep, dynamic=False)(*inputs())
        for graph, given in seen:
            # Fake CUDA tensors take no Python indexing: to operators first, on the CPU.
            flat = make_fx(graph, tracing_mode="fake", pre_dispatch=True)(*given)
            for node in flat.graph.nodes:
                if node.op == "call_function" and "device" in node.kwargs:
                    node.kwargs = {**node.kwargs, "device": gpu}
            flat.recompile()
            mode = graphs.fake_mode()
            with standins.standing_in(standins.H200):
                with mode:
                    fakes = [
                        torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=gpu)
                        for t in given
                    ]
                found = schedule.schedule(flat, fakes, mode, kernels.read)
            made = sum(isinstance(k, kernels.Kernel) for k in found.kernels)
            counts.append((made, len(found.kernels) - made))
    return counts


@pytest.mark.skipif(torch.cuda.is_available(), reason="records on the CPU for a GPU not there")
@pytest.mark.parametrize("name", list(MODULES))
def test_the_rebuilt_graph_schedules_like_dynamos(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = MODULES[name]()
    result = predict(recorded_on_cpu(module, tmp_path / "et.json"))
    counts = result["counts"]
    assert [(counts["generated"], counts["extern_calls"])] == captured_by_dynamo(module)
    assert counts["generated"] > 3
    stacked = [d["id"] for d in result["doubts"]] == ["stacked_cache"]
    assert stacked == (name == "stacked cache")
