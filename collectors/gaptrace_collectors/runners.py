"""How one callable is run in a mode: eagerly, compiled, captured, or compiled and captured."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gaptrace_collectors.autotune import Autotuning
from gaptrace_collectors.buckets import Buckets, GrowingInputs, padded_step
from gaptrace_collectors.capture import Captured
from gaptrace_collectors.cudagraph_trees import TreeWatch
from gaptrace_collectors.failure import Failure, ModeFailureError, evidence_of, first_line
from gaptrace_collectors.hygiene import Compiles
from gaptrace_collectors.modes import MAX_AUTOTUNE, PIECEWISE, REDUCE_OVERHEAD, Mode
from gaptrace_collectors.options import Options
from gaptrace_collectors.piecewise import Pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import nn

    from gaptrace_collectors.device import Device


@dataclass
class Compiler:
    """What compiles a step in one mode, and everything that watches it."""

    arguments: dict[str, Any]
    compiles: Compiles
    pieces: Pieces | None = None
    trees: TreeWatch | None = None
    autotune: Autotuning | None = None


class Runner:
    """One decode step in one mode: call it with the step's own arguments.

    `captured` is the capture wrapper in modes that have one, `compiler` what compiles in modes that
    do, `buckets` the buckets where the step is padded, `model` what is compiled where that is only
    a part of the step; all are None elsewhere.
    """

    def __init__(
        self,
        call: Callable[..., Any],
        captured: Captured | None = None,
        compiler: Compiler | None = None,
        buckets: Buckets | None = None,
        model: nn.Module | None = None,
    ) -> None:
        self._call = call
        self.model = model
        self.captured = captured
        self.compiler = compiler
        self.buckets = buckets
        self.first_call_done = compiler is None
        self._trees = compiler is not None and compiler.trees is not None

    @property
    def compiles(self) -> Compiles | None:
        """The compiler's watcher, in modes that compile."""
        return self.compiler.compiles if self.compiler else None

    def captures(self) -> int:
        """CUDA graphs captured so far, by whichever way the mode captures."""
        count = self.captured.graphs if self.captured else 0
        if self.compiler and self.compiler.pieces:
            count += self.compiler.pieces.captured
        if self.compiler and self.compiler.trees:
            count += self.compiler.trees.recordings()
        return count

    def capture_ns(self) -> int | None:
        """Host time that capturing took, None where nobody knows."""
        if self.captured:
            return self.captured.capture_ns
        if self.compiler and self.compiler.pieces:
            return self.compiler.pieces.capture_ns
        return None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._trees:
            import torch

            # A new step begins: what the last one returned may be overwritten.
            torch.compiler.cudagraph_mark_step_begin()
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
                (evidence_of(error, type(cause).__name__),),
            )
        ) from error


def require_device(mode: Mode, device: Device) -> None:
    """Raise ModeFailureError where the mode needs a GPU and there is none."""
    if mode.captures_step and not device.accelerated:
        raise ModeFailureError(
            Failure("no_device", "no CUDA device: a CUDA graph cannot be captured here")
        )


def compiler_of(
    mode: Mode, device: Device, options: Options, batch: int, buckets: Buckets | None
) -> Compiler | None:
    """What compiles in `mode`, None in modes that do not."""
    if not mode.compiles:
        return None
    compiler = Compiler({}, Compiles())
    if buckets:
        compiler.arguments["dynamic"] = False  # one graph per bucket
    if mode is PIECEWISE:
        compiler.pieces = Pieces(device, options.split_at, buckets)
        compiler.arguments["backend"] = compiler.pieces
    if mode.has_trees:
        compiler.trees = TreeWatch(device)
        compiler.arguments["mode"] = mode.id
    if mode is MAX_AUTOTUNE:
        compiler.autotune = Autotuning(
            options.autotune_max_batch, batch, accelerated=device.accelerated
        )
        if compiler.autotune.skipped:
            compiler.arguments["mode"] = REDUCE_OVERHEAD.id
    return compiler


def module_runner(
    module: nn.Module,
    mode: Mode,
    device: Device,
    options: Options,
    batch: int,
    plain: Callable[..., Any],
) -> Runner:
    """`plain`, a call of `module` or of its method, in `mode`; wrapping is left to the caller."""
    require_device(mode, device)
    call = plain
    buckets = _buckets(options, mode, "growing inputs")
    compiler = compiler_of(mode, device, options, batch, buckets)
    whole = getattr(plain, "__func__", None) is type(module)._call_impl
    if compiler and whole:
        module.compile(**compiler.arguments)
        compiled = module._compiled_call_impl
        assert compiled is not None
        call = compiled
    elif compiler:
        import torch

        call = torch.compile(plain, **compiler.arguments)
    captured = None
    if mode.captures_step:
        compiles = compiler.compiles if compiler else None
        named_like = module.forward if whole else plain
        captured = Captured(call, device, compiles, module, "module", named_like, buckets)
        call = captured
    if buckets:
        call = GrowingInputs(plain, buckets).padded(call)
    return Runner(call, captured, compiler, buckets)


def step_runner(
    step: Callable[[], Any],
    model: nn.Module | None,
    mode: Mode,
    device: Device,
    options: Options,
    batch: int,
) -> Runner:
    """An explicit step in `mode`. Compiling applies to `model` where the step names one."""
    require_device(mode, device)
    call: Callable[..., Any] = step
    buckets = _buckets(options, mode, "step.pad_to")
    compiler = compiler_of(mode, device, options, batch, buckets)
    if compiler:
        import torch

        if model is not None:
            model.compile(**compiler.arguments)
        else:
            call = torch.compile(step, **compiler.arguments)
    captured = None
    if mode.captures_step:
        compiles = compiler.compiles if compiler else None
        captured = Captured(call, device, compiles, step, "step", step, buckets)
        call = captured
    if buckets:
        call = padded_step(step, call, buckets)
    return Runner(call, captured, compiler, buckets, model)


def _buckets(options: Options, mode: Mode, source: str) -> Buckets | None:
    if not options.buckets:
        return None
    return Buckets(options.buckets, source, shared_pool=mode.captures_step)
