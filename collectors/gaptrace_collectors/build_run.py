"""Way 2: the script defines `build()`, which returns the decode step as a callable."""

from __future__ import annotations

import ast
import importlib.util
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from gaptrace_collectors.failure import Failure, ModeFailureError, RecorderError
from gaptrace_collectors.manifest import CellInfo, StepFacts
from gaptrace_collectors.modes import step_runner
from gaptrace_collectors.recorder import Recorder
from gaptrace_collectors.steadiness import Observation
from gaptrace_collectors.tensors import reachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from gaptrace_collectors.device import Device
    from gaptrace_collectors.options import Target
    from gaptrace_collectors.outputs import Outputs


def source_path(target: Target) -> str | None:
    """The file that a script or module target is read from; None for a package without one."""
    if target.kind == "script":
        return target.value
    try:
        spec = importlib.util.find_spec(target.value)
    except (ImportError, ValueError):
        return None
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{target.value}.__main__")
    return None if spec is None else spec.origin


def defines_build(path: str | None) -> bool:
    """Whether a file has a top-level `def build()` that can be called without arguments."""
    if path is None:
        return False
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return False
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "build":
            args = node.args
            required = len(args.posonlyargs) + len(args.args) - len(args.defaults)
            return required == 0 and all(item is not None for item in args.kw_defaults)
    return False


class _StepSubject:
    entry = "build"

    def __init__(self, step: Callable[[], Any]) -> None:
        self._step = step
        self._reset: Callable[[], Any] | None = getattr(step, "reset", None)

    @property
    def can_reset(self) -> bool:
        return self._reset is not None

    def observation(self) -> Observation:
        return Observation(self._step, "step")

    def named_like(self) -> Callable[..., Any]:
        return self._step

    def reset(self) -> None:
        if self._reset is not None:
            self._reset()


def step_facts(step: Callable[[], Any]) -> StepFacts:
    """What the step's attributes say about it. Raises RecorderError where one makes no sense."""

    def whole(name: str) -> int | None:
        value = getattr(step, name, None)
        if value is None:
            return None
        if not isinstance(value, int) or value < 0:
            raise RecorderError(f"step.{name} must be a whole number, not {value!r}")
        return value

    model = getattr(step, "model", None)
    if model is not None and not isinstance(model, nn.Module):
        raise RecorderError(f"step.model must be an nn.Module, not {type(model).__name__}")
    tokens, batch = whole("tokens"), whole("batch")
    source = "step.tokens" if tokens else "step.batch" if batch else "assumed"
    label = getattr(step, "label", None)
    return StepFacts(
        tokens=tokens or batch or 1,
        tokens_source=source,
        batch=batch,
        module=None if model is None else type(model).__name__,
        call="build()",
        label=None if label is None else str(label),
        model=model,
        weight_bytes=whole("weight_bytes"),
        kv_bytes=whole("kv_bytes"),
    )


class BuildRun:
    """Runs an explicit step through the whole plan."""

    def __init__(self, info: CellInfo, device: Device, outputs: Outputs) -> None:
        self.step = StepFacts()
        self.recorder: Recorder | None = None
        self.notes: list[str] = []
        self._info = info
        self._device = device
        self._outputs = outputs

    def run(self, step: Any) -> Failure | None:
        """Record `step`; the Failure where the mode cannot work."""
        if not callable(step):
            raise RecorderError(
                f"build() returned {type(step).__name__}, not a callable without arguments",
                "use --entry script if the script's build() has another meaning",
            )
        self.step = step_facts(step)
        info, model = self._info, self.step.model
        held = next((tensor.device for _, tensor in reachable(step, "step")), None)
        if model is not None:
            held = next((tensor.device for tensor in model.parameters()), held)
        self._device.begin(held)
        try:
            runner = step_runner(step, model, info.mode, self._device)
            recorder = self.recorder = Recorder(
                _StepSubject(step),
                runner,
                self._device,
                info.options,
                info.plan,
                info.mode,
                info.folder,
                self._outputs,
            )
            with torch.no_grad():
                for handler in recorder.phases():
                    self.step.decode_steps_seen += 1
                    handler(runner, (), {})
        except ModeFailureError as error:
            return error.failure
        return None
