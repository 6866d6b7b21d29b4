"""The modes: how one callable is run eagerly, compiled, captured, or compiled and captured."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from gaptrace_collectors.capture import Captured
from gaptrace_collectors.failure import (
    Evidence,
    Failure,
    ModeFailureError,
    first_line,
    place_of_error,
)
from gaptrace_collectors.hygiene import Compiles
from gaptrace_collectors.options import CAPTURING, COMPILING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import nn

    from gaptrace_collectors.device import Device


class Runner:
    """One decode step in one mode: call it with the step's own arguments.

    `captured` is the capture wrapper in modes that have one, `compiles` the compiler's watcher in
    modes that compile; both are None elsewhere.
    """

    def __init__(
        self,
        call: Callable[..., Any],
        captured: Captured | None,
        compiles: Compiles | None,
    ) -> None:
        self._call = call
        self.captured = captured
        self.compiles = compiles
        self.first_call_done = compiles is None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.first_call_done:
            return self._call(*args, **kwargs)
        with _compile_errors():
            out = self._call(*args, **kwargs)
        self.first_call_done = True
        return out


@contextlib.contextmanager
def _compile_errors() -> Iterator[None]:
    """Turn what the compiler raises into a failed mode; everything else is the script's."""
    import torch._dynamo.exc
    import torch._inductor.exc

    # The roots of the two compilers' errors; Inductor's has not always had one.
    kinds: tuple[type[Exception], ...] = (
        torch._dynamo.exc.TorchDynamoException,
        getattr(torch._inductor.exc, "InductorError", torch._dynamo.exc.TorchDynamoException),
    )
    try:
        yield
    except kinds as error:
        cause = error.__cause__ or error
        raise ModeFailureError(
            Failure(
                "compile_error",
                f"torch.compile could not compile the step: {first_line(error)}",
                (Evidence(type(cause).__name__, place_of_error(error), str(error)[:2000]),),
            )
        ) from error


def require_device(mode: str, device: Device) -> None:
    """Raise ModeFailureError where the mode needs a GPU and there is none."""
    if mode in CAPTURING and not device.accelerated:
        raise ModeFailureError(
            Failure("no_device", "no CUDA device: a CUDA graph cannot be captured here")
        )


def module_runner(module: nn.Module, mode: str, device: Device) -> Runner:
    """The forward call of `module` in `mode`; the module's own `__call__` is left to the caller."""
    require_device(mode, device)
    call: Callable[..., Any] = module._compiled_call_impl or module._call_impl
    compiles = None
    if mode in COMPILING:
        compiles = Compiles()
        module.compile()
        compiled = module._compiled_call_impl
        assert compiled is not None
        call = compiled
    captured = None
    if mode in CAPTURING:
        captured = Captured(call, device, compiles, module, "module", module.forward)
        call = captured
    return Runner(call, captured, compiles)


def step_runner(
    step: Callable[[], Any], model: nn.Module | None, mode: str, device: Device
) -> Runner:
    """An explicit step in `mode`. Compiling applies to `model` where the step names one."""
    require_device(mode, device)
    call: Callable[..., Any] = step
    compiles = None
    if mode in COMPILING:
        import torch

        compiles = Compiles()
        if model is not None:
            model.compile()
        else:
            call = torch.compile(step)
    captured = None
    if mode in CAPTURING:
        captured = Captured(call, device, compiles, step, "step", step)
        call = captured
    return Runner(call, captured, compiles)
