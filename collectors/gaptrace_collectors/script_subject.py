"""What is recorded of an unmodified script, and what is said of calls that are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gaptrace_collectors.steadiness import Observation

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

SWITCHED_OFF = "Hugging Face's automatic compilation was switched off for this mode"
THREADS = "decode calls ran in another thread while one was being recorded: not recorded"
BATCHES = "decode calls had another batch size than {}: not recorded"
ASSISTED = "decode calls were made in assisted generation: not recorded"
UNCACHED = (
    "nothing is cached: every step computes all tokens so far anew ({} in the first step, one more"
    " in each that follows), so steps get longer; a KV cache would leave one token per step"
)
PART = "{} is a part of {}: of the weights only its own are counted as read"
BESIDE = "compiled by the script beside the step, in all modes: {}"


class ModuleSubject:
    """The module and the objects passed to it, as what is observed."""

    entry = "script"
    can_reset = False
    can_seek = False

    def __init__(self, module: nn.Module | None, call: Callable[..., Any]) -> None:
        self._module = module
        self._named_like = call

    def observation(self) -> Observation:
        return Observation(self._module, "module")

    def named_like(self) -> Callable[..., Any]:
        return self._named_like

    def reset(self) -> None:
        """A script goes on by itself."""

    def seek(self, length: int) -> None:
        """A script cannot be sent anywhere."""

    def kv_bytes(self) -> int | None:
        """A script does not say."""
        return None
