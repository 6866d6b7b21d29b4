"""Answers Inductor's questions about a GPU that is not there, so that it can schedule for it.

Nothing is run: fake tensors carry the device, Inductor only asks what the device is like. With
the GPU of the recording at hand none of this is used. Each stand-in is one line of `_PLACES`;
where an installed torch lacks a place that must exist, `StandinError` names it.
"""

from __future__ import annotations

import contextlib
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# What a Kineto trace calls the properties, and what torch does.
KINETO_PROPERTIES = {
    "totalGlobalMem": "total_memory",
    "computeMajor": "major",
    "computeMinor": "minor",
    "maxThreadsPerBlock": "max_threads_per_block",
    "maxThreadsPerMultiprocessor": "max_threads_per_multi_processor",
    "regsPerMultiprocessor": "regs_per_multiprocessor",
    "warpSize": "warp_size",
    "sharedMemPerBlock": "shared_memory_per_block",
    "numSms": "multi_processor_count",
    "sharedMemPerBlockOptin": "shared_memory_per_block_optin",
    "sharedMemPerMultiprocessor": "shared_memory_per_multiprocessor",
}
# Used for whatever a recording does not say. Values of an H200 (CUDA 13 driver, measured).
H200: dict[str, Any] = {
    "name": "NVIDIA H200",
    "major": 9,
    "minor": 0,
    "multi_processor_count": 132,
    "total_memory": 150109880320,
    "warp_size": 32,
    "regs_per_multiprocessor": 65536,
    "max_threads_per_block": 1024,
    "max_threads_per_multi_processor": 2048,
    "shared_memory_per_block": 49152,
    "shared_memory_per_block_optin": 232448,
    "shared_memory_per_multiprocessor": 233472,
    "L2_cache_size": 62914560,
    "gcnArchName": "",
    "uuid": "0",
    "is_integrated": 0,
    "is_multi_gpu_board": 0,
}


class StandinError(RuntimeError):
    """The device asked for cannot be had: no GPU here, or no place in this torch to stand in."""


def properties(recorded: Mapping[str, Any] | None) -> tuple[dict[str, Any], str]:
    """Device properties to schedule for, and where they are from.

    `recorded` is `deviceProperties[0]` of a Kineto trace. The Python exporter writes the SM count
    as `maxThreadsPerMultiprocessor`; a value under 1024 there is not believed.
    """
    if not recorded or not recorded.get("numSms", recorded.get("name")):
        return dict(H200), "assumed (no device in the recording)"
    made = dict(H200)
    made["name"] = recorded.get("name", H200["name"])
    for theirs, ours in KINETO_PROPERTIES.items():
        value = recorded.get(theirs)
        if isinstance(value, int) and value >= 0:
            made[ours] = value
    if made["max_threads_per_multi_processor"] < 1024:
        made["max_threads_per_multi_processor"] = H200["max_threads_per_multi_processor"]
    return made, "recorded"


def local_device() -> str | None:
    """Name of the GPU of this machine that torch can use, None without one."""
    return str(torch.cuda.get_device_name(0)) if torch.cuda.is_available() else None


@contextlib.contextmanager
def standing_in(device: Mapping[str, Any]) -> Iterator[None]:
    """While open, torch answers questions about CUDA as if `device` were there.

    Raises:
        StandinError: a place to stand in is missing in this torch.
    """
    _trace_patterns_on_cpu()
    props = SimpleNamespace(**device)
    with contextlib.ExitStack() as stack:
        for owner, name, answer in _places(props):
            if not hasattr(owner, name):
                where = getattr(owner, "__name__", type(owner).__name__)
                raise StandinError(
                    f"torch {torch.__version__} has no {where}.{name}: scheduling without a GPU "
                    "is not supported there; run it on a machine with one"
                )
            stack.enter_context(mock.patch.object(owner, name, answer))
        for module in list(sys.modules.values()):
            names = getattr(module, "__dict__", {})
            if str(getattr(module, "__name__", "")).startswith("torch.") and callable(
                names.get("has_triton")
            ):
                stack.enter_context(mock.patch.object(module, "has_triton", return_value=True))
        yield


def _places(props: SimpleNamespace) -> list[tuple[Any, str, Any]]:
    from torch._dynamo import device_interface
    from torch._inductor.fx_passes import joint_graph
    from torch._subclasses import fake_tensor

    worker = device_interface.CudaInterface.Worker
    copy = torch.ops.aten.copy_.default
    answers: list[tuple[Any, str, Any]] = [
        (torch.cuda, "is_available", lambda: True),
        (torch.cuda, "device_count", lambda: 1),
        (torch.cuda, "current_device", lambda: 0),
        (torch.cuda, "get_device_properties", lambda device=None: props),
        (torch.cuda, "get_device_capability", lambda device=None: (props.major, props.minor)),
        (torch.cuda, "get_device_name", lambda device=None: props.name),
        (torch.cuda, "get_rng_state", lambda device=None: torch.zeros(16, dtype=torch.uint8)),
        (torch.cuda, "is_bf16_supported", lambda including_emulation=True: props.major >= 8),
        (torch.cuda, "_exchange_device", lambda device: 0),
        (torch.cuda, "_maybe_exchange_device", lambda device: 0),
        (device_interface.CudaInterface, "current_device", staticmethod(lambda: 0)),
        (
            device_interface.CudaInterface,
            "get_device_properties",
            staticmethod(lambda device=None: props),
        ),
        (
            device_interface.CudaInterface,
            "is_bf16_supported",
            staticmethod(lambda including_emulation=True: props.major >= 8),
        ),
        (worker, "current_device", staticmethod(lambda: 0)),
        (worker, "get_device_properties", staticmethod(lambda device=None: props)),
        # These methods take CUDA's device guard, the operators that they stand for do not.
        (torch.Tensor, "copy_", lambda self, src, wait=False: copy(self, src, wait)),
        (torch.Tensor, "__getitem__", _index(torch.Tensor.__getitem__)),
        # A build with CUDA would initialise a driver that is not there.
        (fake_tensor, "init_gpu_context", lambda device: None),
        (joint_graph, "lazy_init", lambda *args, **kwargs: None),
        (
            joint_graph.UniformValueConstantFolder,
            "_deduce_value",
            _on_cpu(joint_graph.UniformValueConstantFolder._deduce_value),
        ),
    ]
    return answers


def _index(real: Callable[..., Any]) -> Callable[..., Any]:
    """`real` with slices and index tensors of a CUDA tensor looked up by operators."""

    def look_up(self: torch.Tensor, at: Any) -> Any:
        parts = at if isinstance(at, tuple) else (at,)
        plain = all(isinstance(p, torch.Tensor) or p == slice(None) for p in parts)
        if self.device.type != "cuda" or not plain:
            return real(self, at)
        indices = [p if isinstance(p, torch.Tensor) else None for p in parts]
        if not any(index is not None for index in indices):
            return torch.ops.aten.alias.default(self)
        return torch.ops.aten.index.Tensor(self, indices)

    return look_up


def _trace_patterns_on_cpu() -> None:
    """Registers the joint-graph patterns while CUDA still counts as absent.

    They are traced on example tensors of the device, which must be allocatable.
    """
    from torch._inductor.fx_passes import joint_graph

    real = joint_graph.lazy_init
    if getattr(real, "__wrapped__", None) is None:
        return
    try:
        real(torch.device("cpu"))
    except TypeError:
        real()


def _on_cpu(real: Callable[..., Any]) -> Callable[..., Any]:
    """`real` with the node's devices replaced by the CPU: it folds constants by computing them."""
    cpu = torch.device("cpu")

    def here(value: Any) -> Any:
        return cpu if isinstance(value, torch.device) else value

    def deduce(self: Any, node: Any) -> Any:
        args, kwargs = node.args, node.kwargs
        if node.op != "call_function" or not any(
            isinstance(value, torch.device) for value in (*args, *kwargs.values())
        ):
            return real(self, node)
        node.args = tuple(here(value) for value in args)
        node.kwargs = {key: here(value) for key, value in kwargs.items()}
        try:
            return real(self, node)
        finally:
            node.args, node.kwargs = args, kwargs

    return deduce
