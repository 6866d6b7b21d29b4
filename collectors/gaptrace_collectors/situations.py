"""What a script does instead of decode steps, in the words of its situation, and what to do."""

from __future__ import annotations

import weakref
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

    from gaptrace_collectors.decode_call import Call

MOST_AT_ONCE = 64
_REPEATED = 4

GENERAL = (
    "a decode step is one module call with one new token per sequence, gradients off;"
    " where that does not fit, define build() (collectors/README.md)"
)
_BUILD = "define build() whose step() does one iteration (collectors/README.md)"
SPECULATION_HINT = (
    f"record each model without the other (no assistant, no prompt lookup), or {_BUILD}"
    " and says in step.tokens how many tokens it accepts on average"
)


class Situations:
    """Counts what was seen while looking for a decode step."""

    def __init__(self) -> None:
        self.prompts = 0
        self.assisted = 0  # calls of assisted generation that are running
        self.assisted_by = ""  # what Hugging Face's assisted generation drafts with
        self._seen: Counter[str] = Counter()
        self._training: Counter[str] = Counter()
        self._lengths: dict[str, Counter[int]] = {}
        self._prompted: dict[int, weakref.ref[nn.Module]] = {}
        self._drafts = ""
        self._method = ""
        self._verified: Counter[tuple[str, str]] = Counter()
        self._parts: dict[str, tuple[str, str]] = {}

    def note(self, text: str) -> None:
        """Count a call that tells nothing."""
        self._seen[text] += 1

    def training(self, name: str) -> None:
        """Count a call in training mode with gradients on."""
        self._training[name] += 1

    def prompt(self, module: nn.Module, call: Call) -> None:
        """Count a call that feeds several tokens per sequence."""
        name = type(module).__name__
        self.prompts += 1
        self._seen[f"{name}: {call.sequences} x {call.length} tokens"] += 1
        if not call.embedded:
            self._lengths.setdefault(name, Counter())[call.length] += 1

    def prompted(self, module: nn.Module) -> None:
        """A model was fed several tokens at once."""
        self._prompted[id(module)] = weakref.ref(module)

    def others_than(self, module: nn.Module) -> bool:
        """Whether another model, no part of this one nor the whole of it, was given a prompt."""
        own = {id(part) for part in module.modules()}
        for reference in self._prompted.values():
            other = reference()
            if other is None or id(other) in own:
                continue
            if not any(part is module for part in other.modules()):
                return True
        return False

    def drafted(self, module: nn.Module) -> None:
        """A model was fed one token while another one waits."""
        self._drafts = type(module).__name__

    def verified(self, module: nn.Module) -> None:
        """A model was fed several tokens after another one was fed some one by one."""
        self._verified[(self._drafts, type(module).__name__)] += 1

    def parts(self, module: nn.Module, larger: nn.Module, line: str) -> None:
        """A part of a larger model was called by itself."""
        self._parts.setdefault(type(larger).__name__, (type(module).__name__, line))

    def enclosed(self, method: str) -> None:
        """A method was found that encloses the step, and wrapped for its next call."""
        self._method = method

    def explanation(self) -> tuple[str, str]:
        """What was seen and what to do about it."""
        if self._method:
            return self._never_called_again()
        if self.assisted_by:
            return self._assisted()
        verifying = [pair for pair, count in self._verified.items() if count > 1]
        if verifying:
            draft, target = verifying[0]
            return (
                f"{draft} drafts tokens and {target} verifies several at once (speculative"
                " decoding): no call is one new token per sequence",
                SPECULATION_HINT,
            )
        if self._parts:
            return self._in_parts()
        several = self._several()
        if several is not None:
            return several
        return self._rest()

    def _never_called_again(self) -> tuple[str, str]:
        return (
            f"{self._method} makes a step, but was not called again after two of them, or only"
            " through a reference that was taken before",
            f"let the script look {self._method} up at each step, as in model(...) or"
            " model.forward(...), and make more steps",
        )

    def _assisted(self) -> tuple[str, str]:
        return (
            f"generate() was assisted by {self.assisted_by}: tokens are drafted and several are"
            " verified at once, so no call is one new token per sequence",
            SPECULATION_HINT,
        )

    def _in_parts(self) -> tuple[str, str]:
        larger, (part, line) = next(iter(self._parts.items()))
        where = f" from {line}" if line else ""
        return (
            f"parts of {larger} ({part} and others) are called one by one{where}: no single call"
            " is the step",
            "define build() with the body of that loop as its step(), step.model the whole model"
            " (collectors/README.md), or move the loop over the parts into a method of the model",
        )

    def _several(self) -> tuple[str, str] | None:
        for name, lengths in self._lengths.items():
            few = {length: n for length, n in lengths.items() if length <= MOST_AT_ONCE}
            if sum(few.values()) < _REPEATED or max(few.values()) < 2:
                continue
            usual = f"{min(few)} to {max(few)}" if len(few) > 1 else str(min(few))
            return (
                f"{name} is fed {usual} tokens at once, {sum(few.values())} times, and never one:"
                " prompt lookup, another kind of speculation, or prompts only",
                f"let it decode one token per call, or {_BUILD} and says in step.tokens how many"
                " tokens it yields on average",
            )
        return None

    def _rest(self) -> tuple[str, str]:
        if not self._seen and self._training:
            name, count = self._training.most_common(1)[0]
            return (
                f"{name} was called {count} times in training mode with gradients on, no module"
                " in inference",
                "call it under torch.no_grad() or after model.eval()",
            )
        if not self._seen:
            return "no module was called in inference", GENERAL
        rows = [f"{text} ({count} calls)" for text, count in self._seen.most_common(4)]
        return "module calls seen: " + "; ".join(rows), GENERAL
