"""What a module call is nested in: calls of larger modules on the stack, larger modules alive.

A script that calls `model.forward(...)`, or a method that runs the model's blocks, never passes
through the model's own `__call__`: the outermost call that hooks see is one of a block.
"""

from __future__ import annotations

import functools
import gc
import inspect
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn

from gaptrace_collectors.failure import is_library

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

_DEEPEST = 200
_FEW = 0.05
_MAY_HOLD_LOCALS = frozenset(
    ("locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe", "stack")
)


@dataclass(frozen=True)
class EnclosingCall:
    """A method of `owner` that is running now; `frame` tells one call of it from the next."""

    owner: nn.Module
    method: str
    frame: FrameType

    @property
    def name(self) -> str:
        """`Class.method`."""
        return f"{type(self.owner).__name__}.{self.method}"

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What it was called with, as far as its variables still say so, `self` left out."""
        code, values = self.frame.f_code, variables(self.frame)
        count = code.co_argcount + code.co_kwonlyargcount
        named = {name: values[name] for name in code.co_varnames[1:count] if name in values}
        rest: tuple[Any, ...] = ()
        at = count
        if code.co_flags & inspect.CO_VARARGS:
            rest = tuple(values.get(code.co_varnames[at], ()))
            at += 1
        if code.co_flags & inspect.CO_VARKEYWORDS:
            named |= values.get(code.co_varnames[at], {})
        # Positional ones first, as they are in the signature: the token is usually among them.
        first = code.co_varnames[1 : code.co_argcount]
        args = tuple(named.pop(name) for name in first if name in named)
        return args + rest, named


def frames_above() -> Iterator[FrameType]:
    """The frames of the script and its libraries that called into here, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_DEEPEST):
        if frame is None:
            return
        if not is_library(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def variables(frame: FrameType) -> dict[str, Any]:
    """A frame's variables now.

    Before Python 3.13 asking for them leaves a copy in the frame, which would keep the tensors of
    this step alive for as long as a loop runs: it is emptied, unless the code may have it in hand.
    """
    code, values = frame.f_code, frame.f_locals
    taken = dict(values)
    snapshot = sys.version_info < (3, 13) and code.co_flags & inspect.CO_OPTIMIZED
    if snapshot and not _MAY_HOLD_LOCALS.intersection(code.co_names):
        values.clear()
    return taken


def enclosing_calls(module: nn.Module) -> list[EnclosingCall]:
    """Running methods of modules that contain `module`, outermost first, one per method.

    A decorator's frame is not one: only a function found under its own name in the class counts,
    since that is what can be wrapped.
    """
    calls: list[EnclosingCall] = []
    for frame in frames_above():
        code = frame.f_code
        owner: Any = variables(frame).get(code.co_varnames[0]) if code.co_argcount else None
        if not issubclass(type(owner), nn.Module) or owner is module:
            continue
        method = method_name(owner, code)
        if method is not None and any(part is module for part in owner.modules()):
            calls.append(EnclosingCall(owner, method, frame))
    return calls[::-1]


def method_name(owner: nn.Module, code: CodeType) -> str | None:
    """Under which name `owner` runs this code, decorated or not; None where it cannot be wrapped.

    A forward function that was replaced has a name of its own. Special methods are looked up in the
    class alone, so an object's own would not be called.
    """
    own = [str(name) for name, value in vars(owner).items() if callable(value)]
    for name in (code.co_name, "forward", *own):
        if name.startswith("__") or isinstance(vars(owner).get(name), nn.Module):
            continue
        found = vars(owner).get(name) or inspect.getattr_static(type(owner), name, None)
        if _runs(found, code):
            return name
    return None


def _runs(found: Any, code: CodeType) -> bool:
    for _ in range(16):
        if isinstance(found, functools.partial):
            found = found.func
        found = getattr(found, "__func__", found)
        if found is None or getattr(found, "__code__", None) is code:
            return found is not None
        found = getattr(found, "__wrapped__", None)
    return False


def holds_more(owner: nn.Module, part: nn.Module) -> bool:
    """Whether a step needs more of `owner` than `part`: its embedding, its head, or other weights.

    A head is a matrix with a row for each word of an embedding; a few weights beside the part
    (a probe, a metric) do not count.
    """
    inside = {id(module) for module in part.modules()}
    outside = [module for module in owner.modules() if id(module) not in inside]
    words = {item.num_embeddings for item in owner.modules() if isinstance(item, nn.Embedding)}
    for module in outside:
        weight = module._parameters.get("weight")
        if isinstance(module, nn.Embedding):
            return True
        if weight is not None and weight.dim() == 2 and weight.shape[0] in words:
            return True
    own = {id(parameter): parameter.numel() for parameter in part.parameters()}
    more = [item.numel() for item in owner.parameters() if id(item) not in own]
    return bool(sum(more) > _FEW * sum(own.values()))


def live_modules() -> list[nn.Module]:
    """Every module that is alive."""
    return [item for item in gc.get_objects() if issubclass(type(item), nn.Module)]


def larger_module(module: nn.Module) -> nn.Module | None:
    """The largest live module that `module` is a part of; None where none has weights besides.

    A plain wrapper (torch.compile's, DataParallel) adds no parameters, so it is not larger.
    """
    parents: dict[int, list[nn.Module]] = {}
    for item in live_modules():
        for child in item.__dict__.get("_modules", {}).values():
            parents.setdefault(id(child), []).append(item)
    above: dict[int, nn.Module] = {}
    queue = [module]
    while queue:
        for parent in parents.get(id(queue.pop()), []):
            if id(parent) not in above and parent is not module:
                above[id(parent)] = parent
                queue.append(parent)
    own = {id(parameter) for parameter in module.parameters()}
    sizes = {
        key: sum(1 for parameter in parent.parameters() if id(parameter) not in own)
        for key, parent in above.items()
    }
    largest = max(sizes, key=lambda key: sizes[key], default=None)
    return above[largest] if largest is not None and sizes[largest] else None


def another_model(module: nn.Module) -> bool:
    """Whether a model of the same vocabulary is alive that shares nothing with this one."""
    own = {id(part) for part in module.modules()}
    words = {part.num_embeddings for part in module.modules() if isinstance(part, nn.Embedding)}
    vocabulary = max(words, default=0)
    above = larger_module(module)
    if above is not None:
        own |= {id(part) for part in above.modules()}

    def rivals() -> bool:
        return any(
            isinstance(part, nn.Embedding)
            and part.num_embeddings == vocabulary
            and id(part) not in own
            for part in live_modules()
        )

    if not rivals():
        return False
    gc.collect()  # one that is garbage is none
    return rivals()


def script_line() -> str:
    """`function (file:line)` of the innermost caller that is no library's; empty where none is."""
    for frame in frames_above():
        code = frame.f_code
        return f"{code.co_name} ({code.co_filename}:{frame.f_lineno})"
    return ""
