"""Devices by name: datasheet peaks, and what the front end costs inside a graph replay."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from gaptrace.knowledge.tables import table

if TYPE_CHECKING:
    from collections.abc import Mapping

_BRANDS = re.compile(r"\b(?:nvidia|tesla|amd|intel|corporation)\b|\((?:r|tm)\)|[®™]")


@dataclass(frozen=True)
class Device:
    """Datasheet figures of one GPU as torch sees it; None where no named source gives one.

    bandwidth_bytes_per_s: peak of device memory. bus_bytes_per_s: peak of the link to the host
    (PCIe, NVLink-C2C) in one direction. l2_bytes: second-level cache (AMD: of one compute die).
    sms: multiprocessors or compute units. memory_bytes: nominal. bf16_flops:
    dense tensor-core FLOP/s with fp32 accumulation. power_w: board limit. source: the document.
    note: what to know beside the figures. doubtful: no vendor document backs them, or several
    products share the name.
    """

    id: str
    title: str
    bandwidth_bytes_per_s: int | None
    bus_bytes_per_s: int | None
    l2_bytes: int | None
    sms: int | None
    memory_bytes: int | None
    bf16_flops: float | None
    power_w: int | None
    source: str
    note: str = ""
    doubtful: bool = False


@dataclass(frozen=True)
class GraphConstants:
    """What a captured step costs beside its kernels, measured on one kind of device.

    gap_ns: median idle between two nodes of one replay, by kind of pair, as `before>after`.
    kernel_ns, replay_ns: fitted together; a captured step takes the sum of its kernel durations
    plus kernel_ns for each kernel plus replay_ns for each replay. memset_node_ns: one memset node.
    gap_p05_ns, gap_mean_ns, gap_p95_ns, gap_p99_ns: the spread of all pairs.
    """

    source: str
    detail: str
    gap_ns: Mapping[str, int]
    kernel_ns: int
    replay_ns: int
    memset_node_ns: int
    gap_p05_ns: int
    gap_mean_ns: int
    gap_p95_ns: int
    gap_p99_ns: int

    def gap(self, before: str, after: str) -> int:
        """Median idle in ns between nodes of these kinds: op class ids, or `splitk`.

        A copy kernel counts as pointwise, a split-K reducer as the GEMM it ends, unless it follows
        one; pairs that were not measured get the median of all pairs.
        """
        names = {"copy": "pointwise"}
        first = "gemm" if before == "splitk" else names.get(before, before)
        second = names.get(after, after)
        found = self.gap_ns.get(f"{first}>{second}")
        return self.gap_ns["any"] if found is None else found


def _scaled(row: Mapping[str, Any], key: str, scale: int) -> int | None:
    return round(row[key] * scale) if key in row else None


@lru_cache(maxsize=1)
def devices() -> tuple[Device, ...]:
    """All devices of the table, in its order."""
    return tuple(
        Device(
            id=row["id"],
            title=row["title"],
            bandwidth_bytes_per_s=_scaled(row, "bandwidth_gb_s", 10**9),
            bus_bytes_per_s=_scaled(row, "bus_gb_s", 10**9),
            l2_bytes=_scaled(row, "l2_mib", 2**20),
            sms=row.get("sms"),
            memory_bytes=_scaled(row, "memory_gib", 2**30),
            bf16_flops=row["bf16_tflops"] * 1e12 if "bf16_tflops" in row else None,
            power_w=row.get("power_w"),
            source=row["source"],
            note=row.get("note", ""),
            doubtful=row.get("doubtful", False),
        )
        for row in table("devices.toml")["device"]
    )


@lru_cache(maxsize=1)
def _patterns() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(row["match"]) for row in table("devices.toml")["device"])


def _plain(name: str) -> str:
    return " ".join(_BRANDS.sub(" ", name.lower()).split())


@lru_cache(maxsize=256)
def find_device(name: str) -> Device | None:
    """The device that torch reports under this name, or None where the table has none.

    The whole name must fit: `NVIDIA H100 PCIe` is not an H100 SXM, a laptop GPU or a MIG slice is
    not the card it is named after. An id of the table (`h100-sxm`) is a name too.
    """
    plain = _plain(name)
    for device, pattern in zip(devices(), _patterns(), strict=True):
        if pattern.fullmatch(plain) or plain == device.id:
            return device
    return None


def graph_constants(name: str) -> GraphConstants | None:
    """Costs inside graph replays for the device of this name, or None where none were measured."""
    device = find_device(name)
    row = table("devices.toml")["graph"].get(device.id) if device else None
    return None if row is None else GraphConstants(**row)
