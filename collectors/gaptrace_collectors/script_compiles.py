"""What the script compiles by itself, and whether that is part of the decode step.

A compiled sampler or mask builder beside the step leaves the step as it was written; a compiled
function *inside* it does not, unless it is a helper of torch's own, as flex attention is.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from gaptrace_collectors import dynamo_records
from gaptrace_collectors.failure import is_library
from gaptrace_collectors.hygiene import dynamo_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OWN_GRAPH = "its own CUDA graph"
Original = "_torchdynamo_orig_callable"


class ScriptCompiles:
    """Watches `torch.compile` from before the script starts.

    `outermost`, where set, is given each call of a compiled function that no module call and no
    other compiled function encloses, and makes that call.
    """

    def __init__(self) -> None:
        self.outermost: (
            Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any] | None
        ) = None
        self.seen: Counter[str] = Counter()  # compiled functions that ran anywhere
        self._compile: Callable[..., Any] = torch.compile
        self._inside: dict[int, set[str]] = {}  # by the id of the module whose call it was
        self._library: dict[int, set[str]] = {}
        self._local = threading.local()

    def install(self) -> None:
        """Start watching; a function compiled from now on tells when it runs."""
        compiles, original = self, self._compile

        @functools.wraps(original)
        def watched(model: Any = None, *args: Any, **kwargs: Any) -> Any:
            made = original(model, *args, **kwargs)
            if kwargs.get("disable"):
                return made
            if model is None:  # used as a decorator with arguments
                return lambda function: compiles._telling(function, made(function))
            return compiles._telling(model, made)

        torch.compile = watched

    def remove(self) -> None:
        """Stop watching what is compiled; functions compiled before go on telling."""
        torch.compile = self._compile

    def _telling(self, function: Any, compiled: Any) -> Any:
        if isinstance(function, (nn.Module, type)) or not callable(compiled):
            return compiled
        if compiled is function:  # compiling was switched off
            return compiled
        label, library = _label(function), _is_library(function)
        compiles = self

        @functools.wraps(compiled)
        def telling(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return compiled(*args, **kwargs)
            compiles._note(label, library)
            outermost = compiles.outermost
            if outermost is None or library or compiles.key is not None:
                return compiled(*args, **kwargs)
            return outermost(compiled, args, kwargs)

        return telling

    @property
    def key(self) -> int | None:
        """The module or function whose call this thread is in."""
        return getattr(self._local, "key", None)

    def note_replay(self) -> None:
        """A CUDA graph of the script's was replayed."""
        self._note(OWN_GRAPH, library=None)

    def _note(self, label: str, library: object) -> None:
        if _switched_off():
            return
        if not library:
            self.seen[label] += 1
        if self.key is not None:
            noted = self._library if library else self._inside
            noted.setdefault(self.key, set()).add(label)

    @contextlib.contextmanager
    def within(self, key: int) -> Iterator[None]:
        """What runs or is compiled in here belongs to the call of `key`, unless nested in one."""
        if self.key is not None:
            yield
            return
        self._local.key = key
        frames = dynamo_frames()
        try:
            yield
        finally:
            self._local.key = None
            new = dynamo_frames() - frames
            for metric in dynamo_records.metrics()[-new:] if new > 0 else []:
                name, place = getattr(metric, "co_name", None), getattr(metric, "co_filename", None)
                if name and place:
                    noted = self._library if is_library(place) else self._inside
                    noted.setdefault(key, set()).add(f"torch.compile on {name}")

    def inside(self, module: nn.Module) -> str:
        """A function of the script's that ran compiled inside `module`, or an empty text."""
        return _any(self._inside, module)

    def library_inside(self, module: nn.Module) -> str:
        """A function of torch's own that compiled itself inside `module`, or an empty text."""
        return _any(self._library, module)

    def beside(self, module: nn.Module | None) -> str:
        """Functions of the script's that ran compiled outside of `module`, or an empty text."""
        within = set() if module is None else _labels(self._inside, module)
        return ", ".join(sorted(set(self.seen) - within))


@contextlib.contextmanager
def replays_within(compiles: ScriptCompiles) -> Iterator[None]:
    """Graphs that the script replays in here are noted like what it compiled."""
    replay = torch.cuda.CUDAGraph.replay

    def noted(graph: Any) -> None:
        compiles.note_replay()
        replay(graph)

    torch.cuda.CUDAGraph.replay = noted
    try:
        yield
    finally:
        torch.cuda.CUDAGraph.replay = replay


def _any(noted: dict[int, set[str]], module: nn.Module) -> str:
    return min(_labels(noted, module), default="")


def _labels(noted: dict[int, set[str]], module: nn.Module) -> set[str]:
    """What was noted for a module or a part of it that was called from outside."""
    return {label for part in module.modules() for label in noted.get(id(part), ())}


def compiled_by_script(module: nn.Module) -> str:
    """How the script compiled the module or a part of it by itself, or an empty text."""
    if type(module).__name__ == "OptimizedModule":
        return "torch.compile(model)"
    if module._compiled_call_impl is not None:
        return "model.compile()"
    if _is_compiled(module.forward):
        return "torch.compile(model.forward)"
    for part in module.modules():
        name = type(part).__name__
        if name == "OptimizedModule":
            return f"torch.compile on {type(part._orig_mod).__name__}, a part of the step"
        if part._compiled_call_impl is not None:
            return "compile() on a submodule"
        if _is_compiled(part.forward) and not _is_library(getattr(part.forward, Original)):
            return f"torch.compile on {name}.forward"
    return ""


def _is_compiled(function: Any) -> bool:
    return hasattr(function, Original) and not getattr(function, "_torchdynamo_disable", False)


def _switched_off() -> bool:
    """Whether torch.compile leaves functions as they are (TORCHDYNAMO_DISABLE, a stance)."""
    config = getattr(sys.modules.get("torch._dynamo"), "config", None)
    frames = sys.modules.get("torch._dynamo.eval_frame")
    stance = getattr(getattr(frames, "_stance", None), "stance", "default")
    return bool(getattr(config, "disable", False)) or stance == "force_eager"


def _label(function: Any) -> str:
    inner = inspect.unwrap(getattr(function, "__func__", function))
    return f"torch.compile on {getattr(inner, '__qualname__', type(function).__name__)}"


def _is_library(function: Any) -> bool:
    """Whether a function belongs to torch, such as flex attention compiling itself."""
    inner = inspect.unwrap(getattr(function, "__func__", function))
    code = getattr(inner, "__code__", None)
    return code is not None and is_library(code.co_filename)
