"""Finding the decode step in an unmodified script.

Until it is found, every module call passes through here; from then on only calls of the one module
do, through a wrapper on that object. A hook that stayed on all modules would cost tens of percent
of a deep model's step.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from gaptrace_collectors.captures import CAPTURES
from gaptrace_collectors.decode_call import Call, read_call
from gaptrace_collectors.hygiene import dynamo_frames

Original = Callable[..., Any]


class Discovery:
    """Watches `nn.Module.__call__` and `CUDAGraph.replay` until a decode step shows up.

    `on_found(module, call)` is called with the module before its first decode call is made;
    `on_replay(graph)` with a graph that the script replays by itself.
    """

    _REPLAYS_BEFORE_FOUND = 3

    def __init__(
        self,
        on_found: Callable[[nn.Module, Call], None],
        on_replay: Callable[[Any], None],
    ) -> None:
        self._on_found = on_found
        self._on_replay = on_replay
        self._call: Original = nn.Module.__call__
        self._replay: Original = torch.cuda.CUDAGraph.replay
        self._local = threading.local()
        self._last_numel: dict[int, int] = {}
        self._replays: Counter[int] = Counter()
        self.seen: Counter[str] = Counter()
        self.prefill_calls = 0
        self.installed = False

    def install(self) -> None:
        """Start watching."""
        discovery, original, replay = self, self._call, self._replay

        def watched_call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            # Constant-folded by Dynamo, which then traces the call as it always does.
            if torch.compiler.is_compiling() or getattr(discovery._local, "inside", False):
                return original(module, *args, **kwargs)
            discovery._local.inside = True
            try:
                discovery._outermost(module, args, kwargs)
                return original(module, *args, **kwargs)
            finally:
                discovery._local.inside = False

        def watched_replay(graph: Any) -> None:
            discovery._replays[id(graph)] += 1
            if discovery._replays[id(graph)] >= discovery._REPLAYS_BEFORE_FOUND:
                discovery.remove()
                discovery._on_replay(graph)
            replay(graph)

        nn.Module.__call__ = watched_call
        torch.cuda.CUDAGraph.replay = watched_replay
        self.installed = True

    def remove(self) -> None:
        """Stop watching; safe to call twice."""
        if self.installed:
            nn.Module.__call__ = self._call
            torch.cuda.CUDAGraph.replay = self._replay
            self.installed = False

    def _outermost(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        inference = not torch.is_grad_enabled() or not module.training
        if not inference or not module._modules or not self.installed:
            return
        call = read_call(args, kwargs, self._last_numel.get(id(module)))
        name = type(module).__name__
        if call is None:
            self.seen[f"{name}: no token ids or embeddings among its arguments"] += 1
            return
        if CAPTURES.under_way:
            self.seen[f"{name}: called while the script captures a CUDA graph"] += 1
            return
        if not call.is_decode:
            self.seen[f"{name}: {call.sequences} x {call.length} tokens"] += 1
            self.prefill_calls += 1
            self._last_numel[id(module)] = call.length
            return
        self.remove()
        self._on_found(module, call)

    def explanation(self) -> str:
        """What was seen instead of a decode step, for the error message."""
        if not self.seen:
            return "no module was called in inference"
        rows = [f"{text} ({count} calls)" for text, count in self.seen.most_common(4)]
        return "module calls seen: " + "; ".join(rows)


def compiled_by_script(module: nn.Module) -> str:
    """How the script compiled the step by itself, or an empty text."""
    if type(module).__name__ == "OptimizedModule":
        return "torch.compile(model)"
    if module._compiled_call_impl is not None:
        return "model.compile()"
    if hasattr(module.forward, "_torchdynamo_orig_callable"):
        return "torch.compile(model.forward)"
    if any(part._compiled_call_impl is not None for part in module.modules()):
        return "compile() on a submodule"
    if dynamo_frames() > 0:
        return "torch.compile on a part of the step"
    return ""


def wrap(module: nn.Module, wrapper: Callable[..., Any]) -> None:
    """Make `wrapper` what a call of `module` runs, for this object only.

    `Module.__call__` itself looks for `_compiled_call_impl` first. Set through the instance's own
    dictionary, since a compiled module hands attributes on to the module inside it.
    """
    module.__dict__["_compiled_call_impl"] = wrapper
