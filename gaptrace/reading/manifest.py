"""What a run folder's manifest (`gaptrace.run/1`) says, typed section by section.

A bare trace has no manifest: every section is then empty. Unknown fields are ignored; a known field
of another type is refused by its name.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TypeVar

from gaptrace.results import manifest as m
from gaptrace.results.codec import from_data
from gaptrace.trace import RunInfo

S = TypeVar("S")


class Manifest:
    """A run's manifest; `Manifest(None)` has empty sections.

    Raises:
        GaptraceError: a field of the manifest has another type; the message names it.
    """

    def __init__(self, run: RunInfo | None) -> None:
        self.info = run
        self.path = None if run is None else run.path
        data = {} if run is None else run.manifest
        name = "run.json" if self.path is None else f"{self.path}/run.json"
        self.run = from_data({"schema": m.RUN_SCHEMA, **data}, m.RunManifest, name)

    def __bool__(self) -> bool:
        return self.path is not None

    def _section(self, value: S | None, empty: type[S]) -> S:
        return empty() if value is None else value

    @cached_property
    def device(self) -> m.Device:
        """The section `device`, empty where it was not reached."""
        return self._section(self.run.device, m.Device)

    @cached_property
    def step(self) -> m.Step:
        """The section `step`, empty where it was not reached."""
        return self._section(self.run.step, m.Step)

    @cached_property
    def unprofiled(self) -> m.Unprofiled:
        """The section `unprofiled`, empty where it was not reached."""
        return self._section(self.run.unprofiled, m.Unprofiled)

    @cached_property
    def bytes(self) -> m.Bytes:
        """The section `bytes`, empty where it was not reached."""
        return self._section(self.run.bytes, m.Bytes)

    @cached_property
    def memory(self) -> m.Memory:
        """The section `memory`, empty where it was not reached."""
        return self._section(self.run.memory, m.Memory)

    @cached_property
    def versions(self) -> m.Versions:
        """The section `versions`, empty where it was not reached."""
        return self._section(self.run.versions, m.Versions)

    @cached_property
    def startup(self) -> m.StartUp:
        """The section `startup`, empty where it was not reached."""
        return self._section(self.run.startup, m.StartUp)

    @cached_property
    def compile(self) -> m.Compile:
        """The section `compile`, empty where it was not reached."""
        return self._section(self.run.compile, m.Compile)

    @cached_property
    def power(self) -> m.Power:
        """The section `power`, empty where it was not reached."""
        return self._section(self.run.power, m.Power)

    @cached_property
    def outputs(self) -> m.Outputs:
        """The section `outputs`, empty where it was not reached."""
        return self._section(self.run.outputs, m.Outputs)

    @cached_property
    def buckets(self) -> m.Buckets:
        """The section `buckets`, empty where it was not reached."""
        return self._section(self.run.buckets, m.Buckets)

    @cached_property
    def autotune(self) -> m.Autotune:
        """The section `autotune`, empty where it was not reached."""
        return self._section(self.run.autotune, m.Autotune)

    @cached_property
    def piecewise(self) -> m.Pieces:
        """The section `piecewise`, empty where it was not reached."""
        return self._section(self.run.piecewise, m.Pieces)

    @cached_property
    def cudagraph_trees(self) -> m.GraphTrees:
        """The section `cudagraph_trees`, empty where it was not reached."""
        return self._section(self.run.cudagraph_trees, m.GraphTrees)

    @cached_property
    def steadiness(self) -> m.Steadiness:
        """The section `steadiness`, empty where it was not reached."""
        return self._section(self.run.steadiness, m.Steadiness)

    @cached_property
    def failure(self) -> m.Failure:
        """The section `failure`, empty where it was not reached."""
        return self._section(self.run.failure, m.Failure)

    @cached_property
    def profiled(self) -> m.Profiled:
        """The section `profiled`, empty where it was not reached."""
        return self._section(self.run.profiled, m.Profiled)

    @cached_property
    def issue(self) -> m.Issue:
        """The section `issue`, empty where it was not reached."""
        return self._section(self.run.issue, m.Issue)

    @cached_property
    def files(self) -> m.Files:
        """The section `files`, empty where it was not reached."""
        return self._section(self.run.files, m.Files)

    @cached_property
    def script(self) -> m.Script:
        """The section `script`, empty where it was not reached."""
        return self._section(self.run.script, m.Script)

    @property
    def mode(self) -> str | None:
        """`eager`, `compiled`, `graph`, `piecewise`, ...: see `runfolder.MODES`."""
        return self.run.mode

    @property
    def tokens(self) -> int | None:
        """Generated tokens per step."""
        return self.step.tokens

    @property
    def step_ns(self) -> int | None:
        """Median unprofiled step time in ns."""
        return _whole(self.unprofiled.median_ns)

    @property
    def host_period_ns(self) -> int | None:
        """Median unprofiled host time from step to step before profiling, in ns."""
        before = self.unprofiled.before
        return None if before is None else _whole(before.host_median_ns)

    @property
    def issue_ns(self) -> int | None:
        """Unprofiled host dispatch: entering a step to its return, queue drained first, in ns."""
        return self.run.issue_ns

    @property
    def weight_bytes(self) -> int | None:
        """Bytes of weights one step reads."""
        return self.bytes.weights_read_per_step

    @property
    def bits_per_weight(self) -> float | None:
        """Mean stored bits per weight, from the parameter bytes by dtype; packed int4 is 4 bits."""
        sizes: dict[str, float] = {}
        for dtype, size in (self.bytes.parameters or {}).items():
            sizes[dtype] = sizes.get(dtype, 0) + size
        for dtype, size in (self.bytes.buffers or {}).items():
            # Buffers hold caches and tables too; only packed weights are certainly weights.
            if "int4" in dtype:
                sizes[dtype] = sizes.get(dtype, 0) + size
        bits = {dtype: _dtype_bits(dtype) for dtype in sizes}
        if not sizes or not all(bits.values()):
            return None
        count = sum(size * 8 / (bits[dtype] or 1) for dtype, size in sizes.items())
        return sum(sizes.values()) * 8 / count if count else None

    @property
    def kv_bytes(self) -> int | None:
        """Bytes of KV cache one step reads."""
        return self.bytes.kv_read_per_step

    @property
    def copy_bandwidth(self) -> float | None:
        """Measured copy bandwidth of the device in bytes per second, read plus written."""
        return self.device.copy_bandwidth_bytes_per_s

    @property
    def peak_memory(self) -> int | None:
        """Peak allocated device memory in bytes."""
        return self.memory.peak_allocated


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


_BITS = (
    (r"int4|fp4|float4", 4),
    (r"int8|float8|fp8|bool", 8),
    (r"16", 16),
    (r"32", 32),
    (r"64", 64),
)


def _dtype_bits(dtype: str) -> int | None:
    return next((bits for pattern, bits in _BITS if re.search(pattern, dtype)), None)
