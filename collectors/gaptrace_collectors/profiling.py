"""One short profiler session around a few steps, and the execution trace of its last step."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import shutil
import sys
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.autograd.profiler as torch_profiler
from torch._C._profiler import RecordScope
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile

from gaptrace_collectors.failure import writing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    from gaptrace_collectors.device import Device

TRACE = "trace.json.gz"
# The light recording of steps that were recorded in full as well.
TIMES = "times.json.gz"
EXECUTION_TRACE = "execution_trace.json.gz"
# The annotation that `gaptrace predict` takes for the ops of the compiled region.
REGION = "gaptrace.region"


@contextlib.contextmanager
def _stderr_silenced() -> Iterator[None]:
    """Keep the observer's own log lines out of the script's stderr."""
    try:
        sys.stderr.flush()
        saved = os.dup(2)
    except (OSError, ValueError, AttributeError):
        yield
        return
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)


class ProfilerSession:
    """Prepared, started and stopped between steps, so that no step pays for its set-up."""

    def __init__(
        self, folder: str, device: Device, options: ProfilerOptions, name: str = TRACE
    ) -> None:
        self._folder = folder
        self._name = name
        self._device = device
        self._ops = options.ops
        activities = [ProfilerActivity.CPU]
        if device.accelerated:
            activities.append(ProfilerActivity.CUDA)
        self._profile = profile(
            activities=activities,
            record_shapes=options.shapes,
            with_stack=options.stacks,
        )
        self._observer: Any = None
        self._raw = os.path.join(folder, "execution_trace.json")

    def prepare(self) -> None:
        """Load and initialise the profiler; the next step warms it up."""
        with warnings.catch_warnings():  # that it keeps one trace at a time, which is meant
            warnings.filterwarnings("ignore", "Warning: Profiler clears events")
            self._profile.prepare_trace()

    def start(self) -> None:
        """Begin recording."""
        self._device.synchronize()
        with contextlib.nullcontext() if self._ops else _marks_alone():
            self._profile.start_trace()

    def start_execution_trace(self) -> None:
        """Record the next steps' operators as an execution trace too, with ids that match."""
        self._observer = ExecutionTraceObserver()
        with _stderr_silenced():
            self._observer.register_callback(self._raw)
            self._observer.start()

    def stop(self) -> tuple[str, str | None]:
        """End recording and write the files; their names in the folder."""
        self._device.synchronize()
        if self._observer is not None:
            with _stderr_silenced():
                self._observer.stop()
                self._observer.unregister_callback()
        self._profile.stop_trace()
        with writing(self._folder):
            self._profile.export_chrome_trace(os.path.join(self._folder, self._name))
            return self._name, self._compressed_execution_trace()

    def _compressed_execution_trace(self) -> str | None:
        if self._observer is None or not os.path.exists(self._raw):
            return None
        with (
            open(self._raw, "rb") as plain,
            gzip.open(os.path.join(self._folder, EXECUTION_TRACE), "wb", 6) as packed,
        ):
            shutil.copyfileobj(plain, packed)
        os.remove(self._raw)
        return EXECUTION_TRACE


@dataclass(frozen=True)
class ProfilerOptions:
    """Whether the trace carries ops at all, their tensor shapes, and Python stacks.

    Without ops it holds step marks, launch calls and GPU work, which costs the host least.
    """

    shapes: bool = False
    stacks: bool = False
    ops: bool = True


@contextlib.contextmanager
def _marks_alone() -> Iterator[None]:
    """A recording that starts here leaves ops out: torch.profiler has no setting for it."""
    enable = torch_profiler._enable_profiler

    def enable_marks(config: Any, activities: Any, *_: Any) -> None:
        enable(config, activities, {RecordScope.USER_SCOPE})

    torch_profiler._enable_profiler = enable_marks
    try:
        yield
    finally:
        torch_profiler._enable_profiler = enable


def mark(number: int) -> Any:
    """The annotation around profiled step `number`."""
    return torch.profiler.record_function(f"gaptrace.step#{number}")


@contextlib.contextmanager
def region(model: nn.Module | None) -> Iterator[None]:
    """Annotate what a compiling mode would compile: calls of `model`, without one all of it."""
    if model is None:
        with torch.profiler.record_function(REGION):
            yield
        return
    spans: list[Any] = []

    def enter(*_: Any) -> None:
        spans.append(torch.profiler.record_function(REGION))
        spans[-1].__enter__()

    def leave(*_: Any) -> None:
        spans.pop().__exit__(None, None, None)

    handles = (
        model.register_forward_pre_hook(enter, prepend=True),
        model.register_forward_hook(leave, always_call=True),
    )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def rewrite_trace(path: str, replacements: list[tuple[str, str]]) -> None:
    """Replace personal texts in a compressed trace, and drop the host's name."""
    with gzip.open(path, "rb") as file:
        text = file.read().decode("utf-8", "replace")
    for old, new in replacements:
        escaped = json.dumps(old)[1:-1]
        text = text.replace(escaped, new)
        if old != escaped:
            text = text.replace(old, new)
    temporary = path + ".tmp"
    with gzip.open(temporary, "wb", 6) as file:
        file.write(text.encode())
    os.replace(temporary, path)
