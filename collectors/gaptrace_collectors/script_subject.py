"""What is recorded of an unmodified script, and what is said of calls that are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gaptrace_collectors.beams import beams_on_stack
from gaptrace_collectors.failure import Failure
from gaptrace_collectors.steadiness import Observation

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from gaptrace_collectors.cell_info import StepFacts
    from gaptrace_collectors.decode_call import Call

SWITCHED_OFF = "Hugging Face's automatic compilation was switched off for this mode"
THREADS = "decode calls ran in another thread while one was being recorded: not recorded"
CAPTURING = "decode calls were made while a CUDA graph was captured: not recorded"
BATCHES = "decode calls had another batch size than {}: not recorded"
FROM_HUGGING_FACE = "Hugging Face's generate compiles its forward call"
CAPTURED = "calls were captured by the script: not recorded"
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


def describe_call(step: StepFacts, call: Call, note: Callable[[str], None]) -> None:
    """Say in `step` what one call feeds: rows, and how many of them are sequences of their own."""
    step.tokens = step.batch = call.sequences
    step.call = step.call or str(call)
    step.uncached = call.grows
    if call.grows:
        note(UNCACHED.format(call.length))
    if call.packed:
        step.tokens_source = "the call: one per sequence, packed into one row"
    beams, source = beams_on_stack()
    if beams is None:
        step.tokens_source = (
            f"the call: one per row; {source}() searches beams, how many is not known:"
            " if rows are beams, give --tokens-per-step"
        )
    elif beams > 1 and call.sequences % beams == 0:
        step.tokens = call.sequences // beams
        step.tokens_source = (
            f"the call: {call.sequences} rows, {beams} beams per sequence ({source})"
        )


def self_compiled(how: str) -> Failure:
    """The failure of a mode whose step the script compiles or captures by itself."""
    return Failure(
        "self_compiled",
        f"the script compiles or captures the step by itself ({how})",
    )
