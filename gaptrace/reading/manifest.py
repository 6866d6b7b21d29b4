"""What a run folder's manifest (`gaptrace.run/1`) says, read field by field and typed.

A bare trace has no manifest: every field is then None or empty. Unknown fields are ignored; a
field of the wrong type counts as absent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gaptrace.trace import RunInfo


class Manifest:
    """Typed access to a run's manifest; `Manifest(None)` answers None to everything."""

    def __init__(self, run: RunInfo | None) -> None:
        self._data: Mapping[str, Any] = run.manifest if run is not None else {}
        self.path = run.path if run is not None else None

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Manifest:
        """Typed access to a part of a manifest."""
        return cls(RunInfo("", data))

    def __bool__(self) -> bool:
        return bool(self._data)

    @property
    def data(self) -> Mapping[str, Any]:
        """The manifest as it was parsed."""
        return self._data

    def get(self, *path: str) -> Any:
        """The value at a path of keys, None where any key is missing."""
        value: Any = self._data
        for key in path:
            if not isinstance(value, Mapping):
                return None
            value = value.get(key)
        return value

    def integer(self, *path: str) -> int | None:
        """A whole number at a path, None where there is none."""
        value = self.number(*path)
        return None if value is None else int(value)

    def number(self, *path: str) -> float | None:
        """A finite number at a path, None where there is none."""
        value = self.get(*path)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        return value if value == value and abs(value) != float("inf") else None

    def ns_of_seconds(self, *path: str) -> float | None:
        """Seconds at a path, as ns; None where there are none."""
        seconds = self.number(*path)
        return None if seconds is None else seconds * 1e9

    def text(self, *path: str) -> str | None:
        """A text at a path, None where there is none."""
        value = self.get(*path)
        return value if isinstance(value, str) else None

    @property
    def mode(self) -> str | None:
        """`eager`, `compiled`, `graph`, `piecewise`, ...: see `load.runfolder.MODES`."""
        return self.text("mode")

    @property
    def tokens(self) -> int | None:
        """Generated tokens per step."""
        return self.integer("step", "tokens")

    @property
    def step_ns(self) -> int | None:
        """Median unprofiled step time in ns."""
        return self.integer("unprofiled", "median_ns")

    @property
    def host_period_ns(self) -> int | None:
        """Median unprofiled host time from step to step before profiling, in ns."""
        return self.integer("unprofiled", "before", "host_median_ns")

    @property
    def host_bound(self) -> tuple[int, str] | None:
        """The most that host dispatch can be, in ns, and what it is: the step or the host's period.

        Neither can be shorter than the step's dispatch: host speed differed between the
        measurements (or profiling slowed one), and the lower is the tighter.
        """
        known = ((self.step_ns, "step"), (self.host_period_ns, "host period"))
        return min(((ns, name) for ns, name in known if ns), key=lambda item: item[0], default=None)

    @property
    def issue_ns(self) -> int | None:
        """Unprofiled host dispatch: entering a step to its return, queue drained first, in ns."""
        return self.integer("issue_ns")

    @property
    def weight_bytes(self) -> int | None:
        """Bytes of weights one step reads."""
        return self.integer("bytes", "weights_read_per_step")

    @property
    def bits_per_weight(self) -> float | None:
        """Mean stored bits per weight, from the parameter bytes by dtype; packed int4 is 4 bits."""
        sizes: dict[str, float] = {}
        for kind in ("parameters", "buffers"):
            found = self.get("bytes", kind)
            for dtype, size in (found if isinstance(found, Mapping) else {}).items():
                # Buffers hold caches and tables too; only packed weights are certainly weights.
                if isinstance(size, (int, float)) and (kind == "parameters" or "int4" in dtype):
                    sizes[dtype] = sizes.get(dtype, 0) + size
        bits = {dtype: _dtype_bits(dtype) for dtype in sizes}
        if not sizes or not all(bits.values()):
            return None
        count = sum(size * 8 / (bits[dtype] or 1) for dtype, size in sizes.items())
        return sum(sizes.values()) * 8 / count if count else None

    @property
    def kv_bytes(self) -> int | None:
        """Bytes of KV cache one step reads."""
        return self.integer("bytes", "kv_read_per_step")

    @property
    def copy_bandwidth(self) -> float | None:
        """Measured copy bandwidth of the device in bytes per second, read plus written."""
        return self.number("device", "copy_bandwidth_bytes_per_s")

    @property
    def peak_memory(self) -> int | None:
        """Peak allocated device memory in bytes."""
        return self.integer("memory", "peak_allocated")


_BITS = (
    (r"int4|fp4|float4", 4),
    (r"int8|float8|fp8|bool", 8),
    (r"16", 16),
    (r"32", 32),
    (r"64", 64),
)


def _dtype_bits(dtype: str) -> int | None:
    return next((bits for pattern, bits in _BITS if re.search(pattern, dtype)), None)
