"""Which call is the decode step: the outermost call that is made once per token.

A module nested in a larger one is the step only where nothing larger is called per token: a block
of a model is none, whatever it is fed.
"""

from __future__ import annotations

import weakref
from collections import Counter, deque
from typing import TYPE_CHECKING, NamedTuple

from gaptrace_collectors.call_history import CallHistory
from gaptrace_collectors.decode_call import Call, read_numbers
from gaptrace_collectors.enclosing import (
    EnclosingCall,
    another_model,
    enclosing_calls,
    holds_more,
    larger_module,
    script_line,
)

if TYPE_CHECKING:
    from types import FrameType

    from torch import nn

    from gaptrace_collectors.situations import Situations

_REMEMBERED = 512
_REPLAY = 0  # no object has this id
_STEPS_BESIDE_ANOTHER = 16


class Step(NamedTuple):
    """A decode step: its call, the method that encloses it, if any, and whether that is silent."""

    call: Call
    enclosing: EnclosingCall | None = None
    silent: bool = False


class _Level(NamedTuple):
    """A running method around a module call, and what its arguments feed, if they tell."""

    enclosing: EnclosingCall
    call: Call | None


def _per_token(levels: list[_Level]) -> _Level:
    """Of methods that run once per token, outermost first, the one that is the step.

    The outermost one of the innermost module that has all that a step needs: what a wrapper does
    around it (a sampler, bookkeeping) is beside the step.
    """
    outermost = levels[0].enclosing.owner
    owner = next(
        level.enclosing.owner
        for level in reversed(levels)
        if level.enclosing.owner is outermost or not holds_more(outermost, level.enclosing.owner)
    )
    return next(level for level in levels if level.enclosing.owner is owner)


class Candidates:
    """Judges each outermost module call, with those before it in mind."""

    def __init__(self, situations: Situations) -> None:
        self._situations = situations
        self._levels: dict[int, list[_Level]] = {}  # around a module's last decode call
        self._read: dict[tuple[int, str], tuple[FrameType, Call | None, CallHistory]] = {}
        self._prompted: FrameType | None = None
        self._order: deque[int] = deque(maxlen=_REMEMBERED)
        self._larger: dict[int, weakref.ref[nn.Module] | None] = {}
        self._rivals: dict[int, bool] = {}
        self._embedded: Counter[int] = Counter()
        self._beside: Counter[int] = Counter()

    def forget(self) -> None:
        """Let go of everything, frames above all."""
        self._levels.clear()
        self._read.clear()
        self._prompted = None

    @property
    def waiting(self) -> bool:
        """Whether a module was fed one token and more calls are to tell whether it is the step."""
        return bool(self._levels or self._beside)

    def replayed(self) -> None:
        """The script replayed a graph of its own, which may be the step without this module."""
        self._order.append(_REPLAY)

    def judge(self, module: nn.Module, call: Call | None) -> Step | None:
        """The step, where this call of `module` shows what it is; None where it does not yet."""
        levels = [self._level(item) for item in enclosing_calls(module)]
        stepping = [
            level
            for level in levels
            if (level.call is not None and level.call.is_decode)
            or (level.call is None and call is not None and call.is_decode)
        ]
        self._prompt_around(levels)
        between = self._between(module)
        self._order.append(id(module))
        whole = (
            call is not None
            and not call.embedded
            and not any(holds_more(level.enclosing.owner, module) for level in stepping)
        )
        if stepping and not whole:
            last, self._levels[id(module)] = self._levels.get(id(module)), stepping
            if last is None:
                return None
            old = [level.enclosing.frame for level in last]
            new = [
                level
                for level in stepping
                if not any(frame is level.enclosing.frame for frame in old)
            ]
            if new:
                return self._enclosed(module, _per_token(new), call)
            if call is None or (call.embedded and any(level.call for level in stepping)):
                return None  # a layer that one step runs several times
        if call is None:
            self._situations.note(
                f"{type(module).__name__}: no token ids or embeddings among its arguments"
            )
            return None
        if not call.is_decode:
            if all(level.call is None for level in levels):
                self._situations.prompt(module, call)
            self._fed(module, call)
            return None
        return self._alone(module, call, between)

    def _level(self, enclosing: EnclosingCall) -> _Level:
        """Read a method's arguments, once for each time it runs."""
        key = (id(enclosing.owner), enclosing.method)
        known = self._read.get(key)
        if known is not None and known[0] is enclosing.frame:
            return _Level(enclosing, known[1])
        method = getattr(enclosing.owner, enclosing.method)
        history = known[2] if known is not None else CallHistory(method)
        args, kwargs = enclosing.arguments()
        call = history.read(args, kwargs) or read_numbers(args, kwargs)
        self._read[key] = (enclosing.frame, call, history)
        return _Level(enclosing, call)

    @staticmethod
    def _enclosed(module: nn.Module, level: _Level, call: Call | None) -> Step | None:
        if level.call is not None:
            return Step(level.call, level.enclosing)
        if call is None:
            return None
        where = f"{type(module).__name__} within {level.enclosing.name}"
        return Step(Call(call.sequences, call.length, where), level.enclosing, silent=True)

    def _between(self, module: nn.Module) -> set[int]:
        """The modules called since the last call of this one; itself where it is the first."""
        since: set[int] = set()
        for key in reversed(self._order):
            if key == id(module):
                return since
            since.add(key)
        return {id(module)}

    def _fed(self, module: nn.Module, call: Call) -> None:
        """Several tokens: a prompt, or what another model drafted."""
        if call.embedded:
            return
        self._situations.prompted(module)
        if any(key != id(module) for key in self._beside):
            self._situations.verified(module)
            self._beside.clear()

    def _prompt_around(self, levels: list[_Level]) -> None:
        """Count a method that runs on a prompt, once for each time it runs."""
        fed = [level for level in levels if level.call is not None and not level.call.is_decode]
        if fed and fed[0].enclosing.frame is not self._prompted:
            self._prompted = fed[0].enclosing.frame
            assert fed[0].call is not None
            self._situations.prompt(fed[0].enclosing.owner, fed[0].call)

    def _alone(self, module: nn.Module, call: Call, between: set[int]) -> Step | None:
        """A decode call that no method of a larger module encloses, or only a loop."""
        if not self._whole(module, call, between):
            return None
        if call.embedded:
            # An encoder of sounds or images is fed the like once; a step again and again.
            self._embedded[id(module)] += 1
            if self._embedded[id(module)] < 2:
                return None
        if self._situations.others_than(module) or self._has_rival(module):
            self._beside[id(module)] += 1
            self._situations.drafted(module)
            if self._beside[id(module)] < _STEPS_BESIDE_ANOTHER:
                return None
        return Step(call)

    def _whole(self, module: nn.Module, call: Call, between: set[int]) -> bool:
        """Whether a module is what is called per token, rather than one part after the other."""
        larger = self._larger_than(module)
        if larger is None:
            return True
        names = {id(part): name for name, part in larger.named_modules()}
        name = names.get(id(module), "")
        of_a_stack = call.embedded and name.rsplit(".", 1)[-1].isdigit()
        others = between & {*names, _REPLAY}
        first = id(module) in others
        if not of_a_stack and not others:
            return True
        if of_a_stack or not first:
            self._situations.parts(module, larger, script_line())
        return False

    def _has_rival(self, module: nn.Module) -> bool:
        if id(module) not in self._rivals:
            self._rivals[id(module)] = another_model(module)
        return self._rivals[id(module)]

    def _larger_than(self, module: nn.Module) -> nn.Module | None:
        if id(module) not in self._larger:
            larger = larger_module(module)
            self._larger[id(module)] = None if larger is None else weakref.ref(larger)
        known = self._larger[id(module)]
        return None if known is None else known()
