"""Finding the decode step in an unmodified script.

Until it is found, every module call passes through here; from then on only calls of the one module
do, through a wrapper on that object. A hook that stayed on all modules would cost tens of percent
of a deep model's step.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from gaptrace_collectors.call_history import CallHistory
from gaptrace_collectors.candidates import Candidates, Step
from gaptrace_collectors.captures import CAPTURES
from gaptrace_collectors.decode_call import Call, StepReader, read_call
from gaptrace_collectors.script_compiles import ScriptCompiles
from gaptrace_collectors.situations import Situations

Original = Callable[..., Any]
CALL = "__call__"


@dataclass(frozen=True)
class Found:
    """The decode step: `method` of `module`, or the function `compiled` that the script compiled.

    `call` is its first decode call, `reader` reads the ones that follow.
    """

    module: nn.Module
    call: Call
    reader: StepReader
    method: str = CALL
    compiled: Original | None = None


class Discovery:
    """Watches `nn.Module.__call__` and `CUDAGraph.replay` until a decode step shows up.

    `on_found(found)` is called with the step before its first decode call is made (where only a
    method of the model encloses the step: within a call of it); `on_replay(graph)` with a graph
    that the script replays by itself.
    """

    _REPLAYS_BEFORE_FOUND = 3

    def __init__(
        self,
        on_found: Callable[[Found], None],
        on_replay: Callable[[Any], None],
    ) -> None:
        self._on_found = on_found
        self._on_replay = on_replay
        self._call: Original = nn.Module.__call__
        self._replay: Original = torch.cuda.CUDAGraph.replay
        self._local = threading.local()
        self._lock = threading.RLock()
        self._replays: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._histories: dict[int, tuple[weakref.ref[nn.Module], CallHistory]] = {}
        self.compiles = ScriptCompiles()
        self.situations = Situations()
        self._candidates = Candidates(self.situations)
        self.installed = False

    @property
    def prefill_calls(self) -> int:
        """Calls that fed more than one token per sequence."""
        return self.situations.prompts

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
                with discovery.compiles.within(id(module)):
                    return original(module, *args, **kwargs)
            finally:
                discovery._local.inside = False

        def watched_replay(graph: Any) -> None:
            count = discovery._replays.get(graph, 0) + (not discovery._candidates.waiting)
            discovery._replays[graph] = count
            discovery._candidates.replayed()
            if count >= discovery._REPLAYS_BEFORE_FOUND:
                discovery.remove()
                discovery._on_replay(graph)
            replay(graph)

        nn.Module.__call__ = watched_call
        torch.cuda.CUDAGraph.replay = watched_replay
        self.compiles.install()
        self.compiles.outermost = self._compiled_call
        self.installed = True

    def remove(self) -> None:
        """Stop watching; safe to call twice."""
        if self.installed:
            nn.Module.__call__ = self._call
            torch.cuda.CUDAGraph.replay = self._replay
            self.compiles.remove()
            self.compiles.outermost = None
            self._histories.clear()
            self._candidates.forget()
            self.installed = False

    def _outermost(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        inference = not torch.is_grad_enabled() or not module.training
        if not module._modules or not self.installed:
            return
        name = type(module).__name__
        if not inference:
            self.situations.training(name)
            return
        if CAPTURES.under_way:
            self.situations.note(f"{name}: called while the script captures a CUDA graph")
            return
        with self._lock:
            call = self._history(module).read(args, kwargs)
            if self.situations.assisted:
                self.situations.note(f"{name}: called in assisted generation")
                return
            found = self._candidates.judge(module, call)
            if found is not None and self.installed:
                self.remove()
                step = _found(module, found)
                if step.method != CALL:
                    self.situations.enclosed(f"{type(step.module).__name__}.{step.method}")
                self._on_found(step)

    def _history(self, module: nn.Module) -> CallHistory:
        known = self._histories.get(id(module))
        if known is None or known[0]() is not module:
            known = (weakref.ref(module), CallHistory(module.forward))
            self._histories[id(module)] = known
        return known[1]

    def _compiled_call(
        self, compiled: Original, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A call of a function that the script compiled, made from outside any module."""
        module = module_within(compiled, args, kwargs)
        call = None if module is None else read_call(args, kwargs)
        training = module is not None and module.training and torch.is_grad_enabled()
        if module is None or call is None or call.embedded or training:
            return compiled(*args, **kwargs)
        if not call.is_decode:
            self.situations.prompt(module, call)
        else:
            with self._lock:
                if self.installed:
                    self.remove()
                    self._on_found(Found(module, call, StepReader(call), compiled=compiled))
            if self.compiles.outermost is not None:
                return self.compiles.outermost(compiled, args, kwargs)
        self._local.inside = True
        try:
            with self.compiles.within(id(compiled)):
                return compiled(*args, **kwargs)
        finally:
            self._local.inside = False

    def explanation(self) -> str:
        """What was seen instead of a decode step, in the words of its situation."""
        return self.situations.explanation()[0]

    def hint(self) -> str:
        """What to do about it."""
        return self.situations.explanation()[1]


def _found(module: nn.Module, step: Step) -> Found:
    reader = StepReader(step.call, silent=step.silent)
    if step.enclosing is None:
        return Found(module, step.call, reader)
    return Found(step.enclosing.owner, step.call, reader, step.enclosing.method)


def module_within(
    function: Original, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> nn.Module | None:
    """The module that a function works with: an argument, its `self`, a closure's, a global."""
    inner = getattr(function, "_torchdynamo_orig_callable", function)
    around = [getattr(inner, "__self__", None), *args, *kwargs.values()]
    inner = getattr(inner, "__func__", inner)
    code = getattr(inner, "__code__", None)
    if code is not None:
        around += [cell.cell_contents for cell in inner.__closure__ or () if _filled(cell)]
        around += [inner.__globals__.get(name) for name in code.co_names]
    around += [
        part
        for item in around[:1]
        for part in getattr(item, "__dict__", {}).values()
        if not isinstance(item, nn.Module)
    ]
    return next((item for item in around if isinstance(item, nn.Module) and item._modules), None)


def _filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def wrap(module: nn.Module, wrapper: Callable[..., Any], method: str = CALL) -> Callable[[], None]:
    """Make `wrapper` what a call of `module`, or of its method, runs, for this object only.

    `Module.__call__` itself looks for `_compiled_call_impl` first. Set through the instance's own
    dictionary, since a compiled module hands attributes on to the module inside it. Returns what
    undoes it.
    """
    name, own = "_compiled_call_impl" if method == CALL else method, module.__dict__
    before = own.get(name, wrap)

    def unwrap() -> None:
        own[name] = before
        if before is wrap:  # a method of the class
            del own[name]

    own[name] = wrapper
    return unwrap
