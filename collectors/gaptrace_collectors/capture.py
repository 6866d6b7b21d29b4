"""Capture of a step into CUDA graphs, keyed by the signature of its inputs.

The first calls run eagerly on a side stream and are observed: where the tensors lie that the step
reads. What is passed directly is copied into static buffers before each replay; what the step
reaches through objects is read where it lay at capture, so it has to stay there.
"""

from __future__ import annotations

import gc
import time
import weakref
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from gaptrace_collectors.failure import (
    Evidence,
    Failure,
    ModeFailureError,
    evidence_of,
)
from gaptrace_collectors.steadiness import Observation
from gaptrace_collectors.synchronizations import Synchronizations
from gaptrace_collectors.tensors import direct_tensors, flat_arguments, named_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from gaptrace_collectors.buckets import Buckets
    from gaptrace_collectors.device import Device
    from gaptrace_collectors.hygiene import Compiles

WARMUP_CALLS = 3
_MOST_WARMUP_CALLS = 32
_MOST_GRAPHS = 4


@dataclass
class CaptureCost:
    """What captures have cost so far: host time, and bytes that their memory pool grew by."""

    device: Device
    ns: int = 0
    pool_bytes: int = 0

    @contextmanager
    def of_one(self) -> Iterator[None]:
        """Count one capture; one that is refused is not counted."""
        gc.collect()
        self.device.synchronize()
        # Without this the pool would be filled from blocks that are reserved already, uncounted.
        torch.cuda.empty_cache()
        reserved = torch.cuda.memory_reserved(self.device.index)
        began = time.perf_counter_ns()
        yield
        self.ns += time.perf_counter_ns() - began
        self.pool_bytes += torch.cuda.memory_reserved(self.device.index) - reserved


@dataclass
class _Graph:
    """One captured signature: static inputs in flattening order, and the static output."""

    graph: torch.cuda.CUDAGraph
    inputs: list[tuple[str, torch.Tensor]]
    out: Any


class Captured:
    """A callable that warms up on a side stream, captures, and from then on replays.

    Every call does the work of exactly one step: warm-up calls are real steps, and the step at
    which the graph is captured is replayed once.
    """

    def __init__(
        self,
        call: Callable[..., Any],
        device: Device,
        compiles: Compiles | None,
        state: Any,
        state_name: str,
        named_like: Callable[..., Any],
        buckets: Buckets | None = None,
    ) -> None:
        self._call = call
        self._buckets = buckets
        self._warm_calls: Counter[Hashable] = Counter()
        self._pool = torch.cuda.graph_pool_handle() if buckets else None
        self._named_like = named_like
        self._device = device
        self._compiles = compiles
        self._graphs: dict[tuple[int | None, Hashable], _Graph] = {}
        self._side = torch.cuda.Stream(device.index)
        self._calls = 0
        self._idle_since = 0
        self._cost = CaptureCost(device)
        self._signature_names: tuple[str, ...] = ()
        self._signatures: list[dict[str, Any]] = []
        self.observation = Observation(state, state_name)
        self.synchronizations = Synchronizations()

    @property
    def warmup_calls(self) -> int:
        """Calls made before the first capture."""
        return self._calls

    @property
    def ready(self) -> bool:
        """Whether something has been captured; with buckets, for the current one."""
        if self._buckets:
            return any(key[0] == self._buckets.current for key in self._graphs)
        return bool(self._graphs)

    @property
    def graphs(self) -> int:
        """Graphs captured so far."""
        return len(self._graphs)

    @property
    def capture_ns(self) -> int:
        """Host time spent on capturing so far."""
        return self._cost.ns

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        signature = _signature(args, kwargs) if args or kwargs else ()
        key = (self._buckets.current if self._buckets else None, signature)
        captured = self._graphs.get(key)
        if captured is not None:
            for (_, static), (_, tensor) in zip(
                captured.inputs, flat_arguments(args, kwargs), strict=True
            ):
                if static.data_ptr() != tensor.data_ptr():
                    static.copy_(tensor, non_blocking=True)
            captured.graph.replay()
            return captured.out
        # Another bucket is another program, which may have to be compiled before it is captured.
        if (self._buckets or not self._graphs) and not self._warm(key):
            return self._warm_call(key, args, kwargs)
        return self._capture(key, args, kwargs)

    def _warm(self, key: Hashable) -> bool:
        """Whether capture may begin: three calls made, and the compiler quiet for as many."""
        calls = self._warm_calls[key] if self._buckets else self._calls
        if calls < WARMUP_CALLS:
            return False
        if self._compiles is None or self._calls - self._idle_since >= WARMUP_CALLS:
            return True
        if self._calls < _MOST_WARMUP_CALLS:
            return False
        raise ModeFailureError(self.never_steady())

    def never_steady(self) -> Failure:
        """The failure of a step that kept compiling until the warm-up was over."""
        recompiles = self._compiles.section()["recompiles"] if self._compiles else []
        return Failure(
            "recompiles",
            f"the recompile counter never stood still in {self._calls} steps,"
            " so there is no compiled step to capture",
            tuple(
                Evidence(f"recompile of {item['function']}", item["place"], item["guard"])
                for item in recompiles[-5:]
            ),
        )

    def _warm_call(self, key: Hashable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        named = named_arguments(self._named_like, args, kwargs)
        self.observation.note(named)
        compiled = self._compiles.count() if self._compiles else 0
        current = torch.cuda.current_stream(self._device.index)
        self._side.wait_stream(current)
        with torch.cuda.stream(self._side):
            # The first call loads modules and libraries, which synchronizes by itself.
            if self._calls == 1:
                with self.synchronizations.watch():
                    out = self._call(*args, **kwargs)
            else:
                out = self._call(*args, **kwargs)
        current.wait_stream(self._side)
        self._calls += 1
        self._warm_calls[key] += 1
        if self._compiles and self._compiles.count() != compiled:
            self._idle_since = self._calls
        return out

    def _capture(
        self, key: tuple[int | None, Hashable], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        named = named_arguments(self._named_like, args, kwargs)
        self.observation.note(named)
        self._refuse_growth()
        self._refuse_many_signatures(named)
        flat = flat_arguments(args, kwargs)
        on_host = [name for name, tensor in flat if tensor.device.type == "cpu"]
        static = [(name, tensor.clone()) for name, tensor in flat]
        replaced = iter([tensor for _, tensor in static])
        new_args = tuple(_replaced(item, replaced) for item in args)
        new_kwargs = {name: _replaced(item, replaced) for name, item in kwargs.items()}
        graph = torch.cuda.CUDAGraph()
        try:
            with (
                self._cost.of_one(),
                torch.cuda.graph(graph, pool=self._pool, stream=self._side),
            ):
                out = self._call(*new_args, **new_kwargs)
        except RuntimeError as error:
            raise ModeFailureError(self._failure(error, on_host)) from error
        self._graphs[key] = _Graph(graph, static, out)
        graph.replay()
        return out

    def _refuse_growth(self) -> None:
        grew = self.observation.grew_state()
        if grew:
            raise ModeFailureError(
                Failure(
                    "moved_input",
                    f"{grew[0].what} changes its shape and its address between steps;"
                    " a captured graph reads where it lay at capture",
                    tuple(grew[:8]),
                )
            )

    def _refuse_many_signatures(self, named: dict[str, Any]) -> None:
        """A graph per step is no capture: stop when the inputs' shapes keep changing."""
        self._signatures.append(
            {
                path: (tuple(tensor.shape), tensor.dtype)
                for name, value in named.items()
                for path, tensor in direct_tensors(value, name)
            }
        )
        if len(self._graphs) < _MOST_GRAPHS + (len(self._buckets.sizes) if self._buckets else 0):
            return
        first, last = self._signatures[0], self._signatures[-1]
        changed = [
            Evidence(path, "", f"{list(first[path][0])} at the first capture, {list(seen[0])} now")
            for path, seen in last.items()
            if path in first and first[path] != seen
        ]
        what = changed[0].what if changed else "an argument that is not a tensor"
        raise ModeFailureError(
            Failure(
                "changing_shape",
                f"{what} differs between steps: {_MOST_GRAPHS} captures did not cover it",
                tuple(changed[:8]),
            )
        )

    def _failure(self, error: RuntimeError, on_host: list[str]) -> Failure:
        """What the driver refused during capture, with the line that did it."""
        message = str(error)
        evidence = [evidence_of(error)]
        waits = self.synchronizations.section()
        evidence += [
            Evidence(f"synchronizes: {item['op']}", item["where"], f"{item['count']} per step")
            for item in waits[:8]
        ]
        evidence += [Evidence(f"input on the CPU: {name}") for name in on_host[:8]]
        host_copy = "CPU and CUDA tensors" in message or "pinned" in message
        if waits or host_copy:
            where = waits[0]["where"] if waits else evidence[0].where
            return Failure("sync", f"the step waits for the GPU inside: {where}", tuple(evidence))
        return Failure(
            "capture_error",
            f"capture was refused: {evidence[0].what} at {evidence[0].where or 'unknown place'}",
            tuple(evidence),
        )

    def section(self) -> dict[str, Any]:
        """The `capture` section of run.json."""
        inputs = next(iter(self._graphs.values())).inputs if self._graphs else []
        return {
            "warmup_steps": self._calls,
            "graphs": len(self._graphs),
            "capture_ns": self._cost.ns,
            "static_inputs": [
                {
                    "name": name,
                    "shape": list(tensor.shape),
                    "dtype": str(tensor.dtype).removeprefix("torch."),
                    "bytes": tensor.numel() * tensor.element_size(),
                }
                for name, tensor in inputs
            ],
            "input_copies_bytes": sum(t.numel() * t.element_size() for _, t in inputs),
            "pool_bytes": self._cost.pool_bytes,
            "whole_step": not inputs,
        }


def _replaced(value: Any, tensors: Any) -> Any:
    """`value` with its direct tensors replaced, in the order `direct_tensors` finds them."""
    if isinstance(value, torch.Tensor):
        return next(tensors)
    if type(value) in (tuple, list):
        return type(value)(_replaced(item, tensors) for item in value)
    if type(value) is dict:
        return {key: _replaced(item, tensors) for key, item in value.items()}
    return value


def _signature(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
    """What must be equal for a captured graph to serve: shapes, types, and other values."""
    return (
        tuple(_part(item) for item in args),
        tuple((name, _part(item)) for name, item in kwargs.items()),
    )


def _part(value: Any) -> Hashable:
    if isinstance(value, torch.Tensor):
        return (value.shape, value.dtype, value.device, value.stride())
    if value is None or isinstance(value, (bool, int, float, str, torch.dtype, torch.device)):
        return value
    if type(value) in (tuple, list):
        return tuple(_part(item) for item in value)
    if type(value) is dict:
        return tuple((key, _part(item)) for key, item in value.items())
    return Identity(value)


class Identity:
    """Equal to itself only while the object lives: its id may be another's afterwards."""

    __slots__ = ("_hash", "_ref")

    def __init__(self, value: Any) -> None:
        self._hash = id(value)
        self._ref: Callable[[], Any]
        try:
            self._ref = weakref.ref(value)
        except TypeError:  # kept alive instead
            self._ref = lambda: value

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        mine = self._ref()
        return isinstance(other, Identity) and mine is not None and mine is other._ref()
