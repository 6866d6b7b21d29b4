"""`build()` mode: the script defines `build()`, which returns the decode step as a callable."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import os
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from gaptrace_collectors.bytes_read import ReadsObserver
from gaptrace_collectors.cell_info import CellInfo, StepFacts
from gaptrace_collectors.failure import Failure, ModeFailureError, RecorderError
from gaptrace_collectors.measurement import Measurement
from gaptrace_collectors.points import Point
from gaptrace_collectors.recorder import Recorder
from gaptrace_collectors.runners import step_runner
from gaptrace_collectors.steadiness import Observation
from gaptrace_collectors.tensors import reachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from gaptrace_collectors.device import Device
    from gaptrace_collectors.outputs import Outputs
    from gaptrace_collectors.targets import Target


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


class _StepSubject:
    entry = "build"

    def __init__(self, step: Callable[[], Any]) -> None:
        self._step = step
        self._reset: Callable[[], Any] | None = getattr(step, "reset", None)
        self._seek: Callable[[int], Any] | None = getattr(step, "seek", None)

    @property
    def can_reset(self) -> bool:
        return self._reset is not None

    @property
    def can_seek(self) -> bool:
        return self._seek is not None

    def seek(self, length: int) -> None:
        assert self._seek is not None
        self._seek(length)

    def kv_bytes(self) -> int | None:
        return _whole(self._step, "kv_bytes")

    def observation(self) -> Observation:
        return Observation(self._step, "step")

    def named_like(self) -> Callable[..., Any]:
        return self._step

    def reset(self) -> None:
        if self._reset is not None:
            self._reset()


def step_facts(step: Callable[[], Any]) -> StepFacts:
    """What the step's attributes say about it. Raises RecorderError where one makes no sense."""
    model = getattr(step, "model", None)
    if model is not None and not isinstance(model, nn.Module):
        raise RecorderError(f"step.model must be an nn.Module, not {type(model).__name__}")
    tokens, batch = _whole(step, "tokens"), _whole(step, "batch")
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
        weight_bytes=_whole(step, "weight_bytes"),
        kv_bytes=_whole(step, "kv_bytes"),
    )


def _whole(step: Callable[[], Any], name: str) -> int | None:
    """A whole number that is an attribute of the step, or that such a function returns."""
    value = getattr(step, name, None)
    if callable(value):
        value = value()
    if value is None:
        return None
    if not isinstance(value, int) or value < 0:
        raise RecorderError(f"step.{name} must be a whole number, not {value!r}")
    return value


def call_build(build: Callable[..., Any], batch: int | None, *, in_arguments: bool) -> Any:
    """The step of `build()`, at a batch size where a sweep asks for one. Raises RecorderError."""
    if batch is None or in_arguments:
        return build()
    if "batch" not in inspect.signature(build).parameters:
        raise RecorderError(
            "the workload takes no batch size",
            "write {batch} where its argument goes, or let it define build(batch=...)",
        )
    return build(batch=batch)


def _uncompiled(step: Callable[[], Any], model: nn.Module | None) -> Any:
    """One step without what was compiled of its model."""
    compiled = None if model is None else model._compiled_call_impl
    if model is None or compiled is None:
        return step()
    model._compiled_call_impl = None
    try:
        return step()
    finally:
        model._compiled_call_impl = compiled


class BuildRun:
    """Runs an explicit step through the whole plan."""

    def __init__(self, info: CellInfo, device: Device, outputs: Outputs) -> None:
        self.step = StepFacts()
        self.recorder: Recorder | None = None
        self.notes: list[str] = []
        self.measurements = [Measurement(info.folder)]
        self._info = info
        self._device = device
        self._outputs = outputs

    def _measurements(self, step: Callable[[], Any]) -> list[Measurement]:
        """One measurement per bucket, else one. Raises RecorderError."""
        info = self._info
        if not info.options.buckets:
            return self.measurements
        if not all(callable(getattr(step, name, None)) for name in ("seek", "pad_to")):
            raise RecorderError(
                "--buckets: the step cannot be padded",
                "give it step.seek(n) and step.pad_to(n), see collectors/README.md",
            )
        self.measurements = [
            Measurement(os.path.join(info.folder, Point(None, size).folder), size)
            for size in info.options.buckets
        ]
        for measurement in self.measurements:
            os.makedirs(measurement.folder, exist_ok=True)
        return self.measurements

    def run(self, step: Any) -> Failure | None:
        """Record `step`; the Failure where the mode cannot work."""
        if not callable(step):
            raise RecorderError(
                f"build() returned {type(step).__name__}, not a callable without arguments",
                "use --entry script if the script's build() has another meaning",
            )
        self.step = step_facts(step)
        wanted = self._info.batch
        if wanted is not None and self.step.batch not in (None, wanted):
            raise RecorderError(
                f"batch {wanted} was asked for, the step says {self.step.batch}",
                "build() must make a step of the batch size it is given",
            )
        info, model = self._info, self.step.model
        device = next((tensor.device for _, tensor in reachable(step, "step")), None)
        if model is not None:
            device = next((tensor.device for tensor in model.parameters()), device)
        self._device.begin(device)
        measurements = self._measurements(step)
        try:
            runner = step_runner(
                step, model, info.mode, self._device, info.options, self.step.tokens
            )
            recorder = self.recorder = Recorder(
                _StepSubject(step), runner, self._device, info, measurements, self._outputs
            )
            eager = functools.partial(_uncompiled, step, model)
            recorder.reads = ReadsObserver(model, step, "step", step, eager, self._device)
            with torch.no_grad():
                for handler in recorder.phases():
                    self.step.decode_steps_seen += 1
                    handler(runner, (), {})
        except ModeFailureError as error:
            return error.failure
        return None
