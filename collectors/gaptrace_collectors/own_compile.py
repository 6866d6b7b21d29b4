"""A script's own `torch.compile`, switched off where modes were asked for by name.

`--modes eager,graph` on a script that compiles its step means the step as it was written. What
torch compiles for itself (flex attention) and what the recorder compiles goes on.
"""

from __future__ import annotations

import inspect
import os
import sys
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from gaptrace_collectors.failure import is_library

if TYPE_CHECKING:
    from types import FrameType

NOTE = "the script's own torch.compile was switched off for this mode, which was asked for by name"
# A watcher of `torch.compile` stands between the script and this.
_BETWEEN = "script_compiles.py"


def switch_off() -> None:
    """Make `torch.compile` and `Module.compile` do nothing where the script calls them."""
    compile_function, compile_module = torch.compile, nn.Module.compile

    def unchanged(model: Any = None, *args: Any, **kwargs: Any) -> Any:
        if _from_library() or _of_library(model):
            return compile_function(model, *args, **kwargs)
        if model is None:  # used as a decorator with arguments
            return lambda function: function
        return model

    def module_unchanged(module: nn.Module, *args: Any, **kwargs: Any) -> None:
        if _from_library():
            compile_module(module, *args, **kwargs)

    torch.compile = unchanged
    nn.Module.compile = module_unchanged


def _from_library() -> bool:
    """Whether torch or the recorder made the call."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and os.path.basename(frame.f_code.co_filename) == _BETWEEN:
        frame = frame.f_back
    return frame is not None and is_library(frame.f_code.co_filename)


def _of_library(function: Any) -> bool:
    """Whether what is compiled is torch's own, as `torch.compile(flex_attention)` is."""
    if function is None or isinstance(function, nn.Module):
        return False
    inner = inspect.unwrap(getattr(function, "__func__", function))
    code = getattr(inner, "__code__", None)
    return code is not None and is_library(code.co_filename)
