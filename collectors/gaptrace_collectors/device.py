"""The accelerator: synchronization, events, memory, and three quick facts measured on it."""

from __future__ import annotations

import itertools
import statistics
import time
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

_LAUNCHES = 1000
_COPIES = 8


class Device:
    """The accelerator that the script uses, or the CPU where there is none.

    ROCm builds answer under `torch.cuda` as well. Nothing here touches the device before `begin`,
    because a script may still want to choose one or to fork.
    """

    def __init__(self) -> None:
        self.type = "cuda" if torch.cuda.is_available() else "cpu"
        self.index = 0

    @property
    def accelerated(self) -> bool:
        """Whether there is a device whose work is asynchronous to the host."""
        return self.type == "cuda"

    def begin(self, tensor_device: torch.device | None) -> None:
        """Settle on the device that the decode step's tensors are on."""
        if tensor_device is not None and tensor_device.type == "cpu":
            self.type = "cpu"
        if self.accelerated:
            index = None if tensor_device is None else tensor_device.index
            self.index = torch.cuda.current_device() if index is None else index

    def synchronize(self) -> None:
        """Wait until the device has nothing left to do."""
        if self.accelerated:
            torch.cuda.synchronize(self.index)

    def event(self) -> Any:
        """A timing event, or None on the CPU."""
        return torch.cuda.Event(enable_timing=True) if self.accelerated else None

    def reset_peak(self) -> None:
        """Forget the memory peak seen so far."""
        if self.accelerated:
            torch.cuda.reset_peak_memory_stats(self.index)

    def peak(self) -> dict[str, int] | None:
        """Largest bytes allocated and reserved since `reset_peak`."""
        if not self.accelerated:
            return None
        return {
            "allocated": torch.cuda.max_memory_allocated(self.index),
            "reserved": torch.cuda.max_memory_reserved(self.index),
        }

    def reserved(self) -> int | None:
        """Bytes that torch holds on the device now, None on the CPU."""
        return torch.cuda.memory_reserved(self.index) if self.accelerated else None

    def facts(self) -> dict[str, Any]:
        """Name, size and versions of the device; nothing is measured."""
        if not self.accelerated:
            return {"type": "cpu", "name": cpu_name(), "index": None}
        props = torch.cuda.get_device_properties(self.index)
        return {
            "type": "cuda" if torch.version.hip is None else "hip",
            "name": props.name,
            "index": self.index,
            "capability": f"{props.major}.{props.minor}",
            "multiprocessors": props.multi_processor_count,
            "total_memory": props.total_memory,
            "l2_bytes": getattr(props, "L2_cache_size", None),
        }

    def measured(self) -> dict[str, Any]:
        """Copy bandwidth and empty-launch cost of this device, in well under a second."""
        if not self.accelerated:
            return {
                "copy_bandwidth_bytes_per_s": None,
                "copy": None,
                "empty_launch_ns": None,
                "empty_launch": None,
            }
        with torch.cuda.device(self.index), torch.inference_mode():
            copy = _copy_bandwidth(self.index)
            launch = _empty_launch()
        return {
            "copy_bandwidth_bytes_per_s": None if copy is None else copy["bytes_per_s"],
            "copy": copy,
            "empty_launch_ns": launch["host_ns"],
            "empty_launch": launch,
        }


def cpu_name() -> str | None:
    """The processor's model name, where the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        return None
    return None


def _copy_bandwidth(index: int) -> dict[str, Any] | None:
    """Bytes read plus bytes written per second by a large device-to-device copy, or None.

    Random contents, since constant data can move faster than real data; the fastest of several
    copies, since a ceiling is asked for.
    """
    free, _ = torch.cuda.mem_get_info(index)
    size = min(1 << 30, free // 4)
    if size < 1 << 26:
        return None
    source = torch.empty(size // 4, dtype=torch.int32, device=f"cuda:{index}").random_()
    target = torch.empty_like(source)
    target.copy_(source)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(_COPIES + 1)]
    marks[0].record()
    for mark in marks[1:]:
        target.copy_(source)
        mark.record()
    torch.cuda.synchronize(index)
    times = [a.elapsed_time(b) / 1e3 for a, b in itertools.pairwise(marks)]
    moved = 2 * source.numel() * source.element_size()
    del source, target
    torch.cuda.empty_cache()
    return {
        "bytes_per_s": round(moved / min(times)),
        "median_bytes_per_s": round(moved / statistics.median(times)),
        "buffer_bytes": moved // 2,
        "copies": _COPIES,
        "how": "device-to-device copy, bytes read plus written, fastest copy",
    }


def _empty_launch() -> dict[str, Any]:
    """What one kernel that does nothing costs: the host, the device, and inside a graph."""

    def chain(count: int) -> None:
        for _ in range(count):
            torch.cuda._sleep(0)

    chain(100)
    torch.cuda.synchronize()
    host = []
    for _ in range(_LAUNCHES // 100):
        begin = time.perf_counter_ns()
        chain(100)
        host.append((time.perf_counter_ns() - begin) / 100)
        torch.cuda.synchronize()
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    chain(_LAUNCHES)
    last.record()
    torch.cuda.synchronize()
    return {
        "host_ns": round(statistics.median(host)),
        "device_period_ns": round(first.elapsed_time(last) * 1e6 / _LAUNCHES),
        "graph_node_ns": _graph_node_ns(chain),
        "how": "torch.cuda._sleep(0), host time per call from Python with an empty queue",
    }


def _graph_node_ns(chain: Callable[[int], None]) -> int | None:
    """Period of one empty kernel inside a replayed graph of a thousand of them, or None."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            chain(_LAUNCHES)
    except RuntimeError:
        return None
    graph.replay()
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    graph.replay()
    last.record()
    torch.cuda.synchronize()
    period: int = round(first.elapsed_time(last) * 1e6 / _LAUNCHES)
    return period
