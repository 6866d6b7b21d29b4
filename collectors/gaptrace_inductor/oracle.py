"""Asks Inductor: rebuilds the step, schedules its graphs, and again for each what-if."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import doubts, kernels, standins, whatif
from .graphs import fake_mode, make_inputs, module_of
from .rebuild import Region, rebuild
from .schedule import ScheduleError, schedule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .execution_trace import Step
    from .graphs import Rebuilt

AUTO = "auto"


@dataclass(frozen=True)
class Variant:
    """A what-if and what came of it; `error` says why it does not apply."""

    name: str
    text: str
    places: int
    rebuilt: Rebuilt | None
    schedules: list[kernels.Schedule | None]
    error: str | None = None


@dataclass(frozen=True)
class Answer:
    """The step's graphs, their schedules (None: nothing left to schedule), and the what-ifs."""

    rebuilt: Rebuilt
    schedules: list[kernels.Schedule | None]
    what_ifs: list[Variant]

    @property
    def kernels(self) -> list[kernels.Kernel | kernels.Extern]:
        """All kernels of the step as it is, in launch order."""
        return [k for s in self.schedules if s is not None for k in s.kernels]


def ask(
    step: Step, region: str, what_if: Sequence[str], device: Mapping[str, Any] | None
) -> Answer:
    """What the installed Inductor schedules for `step`.

    `device` has the properties of a GPU to stand in for; None asks the GPU of this machine. The
    what-if `auto` stands for those that the step's doubts name.

    Raises:
        RebuildError, ScheduleError, StandinError: as `rebuild`, `schedule` and `standing_in` do.
    """
    with contextlib.ExitStack() as stack:
        if device is not None:
            stack.enter_context(standins.standing_in(device))
        rebuilt = rebuild(step, Region(region), mode := fake_mode())
        answer = Answer(rebuilt, _schedules(rebuilt, mode), [])
        names = [name for name in what_if if name != AUTO]
        if AUTO in what_if:
            names += [name for name in doubts.suggested(rebuilt) if name not in names]
        for name in names:
            answer.what_ifs.append(_variant(step, region, name))
    return answer


def region_of(rebuilt: Rebuilt, rule: str) -> dict[str, Any]:
    """Which ops were compiled and which stayed eager, as JSON."""
    ops = [index for segment in rebuilt.segments for index in segment.ops]
    return {
        "rule": rule,
        "ops": len(ops),
        "first": ops[0] if ops else None,
        "last": ops[-1] if ops else None,
        "segments": [
            {"ops": len(s.ops), "inputs": len(s.inputs), "outputs": len(s.outputs)}
            for s in rebuilt.segments
        ],
        "breaks": list(rebuilt.breaks),
        "outside": list(rebuilt.outside),
    }


def _variant(step: Step, region: str, name: str) -> Variant:
    rebuilt = rebuild(step, Region(region), mode := fake_mode())
    try:
        change = whatif.apply(name, rebuilt, mode)
        return Variant(change.name, change.text, change.places, rebuilt, _schedules(rebuilt, mode))
    except (whatif.WhatIfError, ScheduleError) as error:
        return Variant(name, "", 0, None, [], str(error))


def _schedules(rebuilt: Rebuilt, mode: Any) -> list[kernels.Schedule | None]:
    return [
        schedule(module_of(segment), make_inputs(segment, mode), mode, kernels.read)
        for segment in rebuilt.segments
    ]
