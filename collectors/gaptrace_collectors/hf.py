"""Hugging Face `generate` compiles by itself with static caches: keep that apart from the modes."""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from gaptrace_collectors.situations import Situations

_MODULE = "transformers.generation.utils"
_CRITERIA = "_valid_auto_compile_criteria"
_ASSISTED = "_assisted_decoding"


class _PatchingLoader(importlib.abc.Loader):
    """Runs the module as its own loader would, then hands it to `patch`."""

    def __init__(self, inner: importlib.abc.Loader, patch: Callable[[ModuleType], None]) -> None:
        self._inner = inner
        self._patch = patch

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        self._patch(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Answers for one module name, once."""

    def __init__(self, patch: Callable[[ModuleType], None]) -> None:
        self._patch = patch

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _PatchingLoader(spec.loader, self._patch)
        return spec


def _wrap_method(name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Let `wrap` replace a method of `GenerationMixin`, once there is one."""

    def patch(module: ModuleType) -> None:
        mixin = getattr(module, "GenerationMixin", None)
        method = getattr(mixin, name, None)
        if mixin is not None and method is not None:
            setattr(mixin, name, wrap(method))

    if _MODULE in sys.modules:
        patch(sys.modules[_MODULE])
    else:
        sys.meta_path.insert(0, _Finder(patch))


def switch_off_automatic_compilation(on_switched_off: Callable[[], None]) -> None:
    """`generate` never compiles its forward call; `on_switched_off` hears when it would have."""

    def wrap(asked: Callable[..., Any]) -> Callable[..., bool]:
        def never(self: Any, *args: Any, **kwargs: Any) -> bool:
            if asked(self, *args, **kwargs):
                on_switched_off()
            return False

        return never

    _wrap_method(_CRITERIA, wrap)


def watch_automatic_compilation(
    on_compiled_call: Callable[[Any, Callable[[], Callable[..., Any]]], Callable[..., Any]],
) -> None:
    """`generate` compiles as it likes; `on_compiled_call(model, make)` gives the call it will use.

    For `as-is`, where the compiled call has to be seen from outside of the compiled region. `make`
    does what `generate` would have done.
    """

    def wrap(asked: Callable[..., Any]) -> Callable[..., bool]:
        def wrapping(self: Any, *args: Any, **kwargs: Any) -> bool:
            compiles = bool(asked(self, *args, **kwargs))
            if compiles and "get_compiled_call" not in vars(self):
                compiled = self.get_compiled_call

                def get_compiled_call(*inner: Any, **more: Any) -> Callable[..., Any]:
                    return on_compiled_call(self, lambda: compiled(*inner, **more))

                self.get_compiled_call = get_compiled_call
            return compiles

        return wrapping

    _wrap_method(_CRITERIA, wrap)


def watch_assisted_generation(situations: Situations) -> None:
    """While `generate` drafts and verifies, `situations.assisted` is not 0."""

    def wrap(decoding: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(decoding)
        def watched(*args: Any, **kwargs: Any) -> Any:
            assistant = kwargs.get("assistant_model")
            situations.assisted += 1
            situations.assisted_by = (
                "prompt lookup" if assistant is None else f"a {type(assistant).__name__}"
            )
            try:
                return decoding(*args, **kwargs)
            finally:
                situations.assisted -= 1

        return watched

    _wrap_method(_ASSISTED, wrap)
