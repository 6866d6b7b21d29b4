"""Lets Inductor compile a graph up to its schedule, and hands the schedule to a reader.

`Scheduler.codegen` is replaced for the duration: it is the first thing after fusion that would
write code. Everything before it (Dynamo's pre-grad passes, AOTAutograd's functionalisation, the
joint and post-grad passes, lowering, fusion) is the installed torch's own.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING, Any, TypeVar
from unittest import mock

import torch
from torch import fx

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")
# Caches would need the device's name and could answer without scheduling; padding a matmul is
# decided by timing it.
SETTINGS = {"force_disable_caches": True, "shape_padding": False, "compile_threads": 1}


class ScheduleError(RuntimeError):
    """Inductor failed before its schedule was ready; the message is its own."""


class _Scheduled(BaseException):
    """Ends the compilation once the schedule has been read.

    Not an Exception, because Inductor wraps those.
    """


def schedule(
    module: fx.GraphModule, inputs: list[Any], mode: Any, read: Callable[[Any], T]
) -> T | None:
    """What `read` makes of Inductor's scheduler for `module`, None where nothing is scheduled.

    `inputs` are fake tensors of `mode`. Nothing runs.

    Raises:
        ScheduleError: Inductor failed on the graph.
    """
    from torch._guards import TracingContext, tracing
    from torch._inductor import compile_fx, config, scheduler

    answers: list[T] = []

    def stop(self: Any) -> None:
        answers.append(read(self))
        raise _Scheduled

    known = {key: value for key, value in SETTINGS.items() if hasattr(config, key)}
    with (
        mock.patch.object(scheduler.Scheduler, "codegen", stop),
        config.patch(known),
        _quiet(),
        torch.no_grad(),
        tracing(TracingContext(mode)),
    ):
        try:
            compile_fx.compile_fx(module, inputs)
        except _Scheduled:
            pass
        except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
            lines = str(error).splitlines() or [type(error).__name__]
            raise ScheduleError(f"Inductor failed: {lines[0][:300]}") from error
    return answers[0] if answers else None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
