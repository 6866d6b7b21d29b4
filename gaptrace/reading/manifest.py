"""What a run folder's manifest (`gaptrace.run/1`) says, typed section by section.

A bare trace has no manifest: every section is then empty. Unknown fields are ignored; a known field
of another type is refused by its name.
"""

from __future__ import annotations

import re
from typing import Generic, TypeVar

from gaptrace.results import manifest as m
from gaptrace.results.codec import from_data
from gaptrace.trace import RunInfo

S = TypeVar("S")


class _Section(Generic[S]):
    """A section of the manifest under its own name; empty where the recording never reached it."""

    def __init__(self, empty: type[S]) -> None:
        self._empty = empty

    def __set_name__(self, owner: type[Manifest], name: str) -> None:
        self._name = name

    def __get__(self, manifest: Manifest, owner: type[Manifest]) -> S:
        found: S | None = getattr(manifest.run, self._name)
        return self._empty() if found is None else found


class Manifest:
    """A run's manifest; `Manifest(None)` has empty sections.

    Raises:
        GaptraceError: a field of the manifest has another type; the message names it.
    """

    device = _Section(m.Device)
    step = _Section(m.Step)
    unprofiled = _Section(m.Unprofiled)
    bytes = _Section(m.Bytes)
    memory = _Section(m.Memory)
    versions = _Section(m.Versions)
    startup = _Section(m.StartUp)
    compile = _Section(m.Compile)
    power = _Section(m.Power)
    outputs = _Section(m.Outputs)
    buckets = _Section(m.Buckets)
    autotune = _Section(m.Autotune)
    piecewise = _Section(m.Pieces)
    cudagraph_trees = _Section(m.GraphTrees)
    steadiness = _Section(m.Steadiness)
    failure = _Section(m.Failure)
    profiled = _Section(m.Profiled)
    issue = _Section(m.Issue)
    files = _Section(m.Files)
    script = _Section(m.Script)

    def __init__(self, run: RunInfo | None) -> None:
        self.info = run
        self.path = None if run is None else run.path
        data = {} if run is None else run.manifest
        name = "run.json" if self.path is None else f"{self.path}/run.json"
        self.run = from_data({"schema": m.RUN_SCHEMA, **data}, m.RunManifest, name)

    def __bool__(self) -> bool:
        return self.path is not None

    @property
    def mode(self) -> str | None:
        """`eager`, `compiled`, `graph`, `piecewise`, ...: see `vocabulary.MODES`."""
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
    def weights_withheld(self) -> str | None:
        """Why the recorder does not say what weights a step reads, though it knows the model."""
        known = self.bytes.weights_read_per_step is not None or self.bytes.parameters is None
        return None if known else self.bytes.weights_source

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
