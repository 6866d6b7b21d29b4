"""Devices by the names that torch reports."""

from __future__ import annotations

import re

import pytest

from gaptrace.knowledge.devices import devices, find_device, graph_constants
from gaptrace.knowledge.tables import table


@pytest.mark.parametrize(
    ("name", "found", "gb_s"),
    [
        # as recorded in traces
        ("NVIDIA H200", "h200", 4800),
        ("NVIDIA B200", "b200", 8000),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40", 1555),
        ("NVIDIA A100-PG509-200", "a100-pg509", 1555),
        ("NVIDIA GeForce RTX 3060", "rtx-3060", 360),
        ("NVIDIA GeForce GTX 1650", "gtx-1650", 128),
        ("Tesla V100-SXM2-16GB", "v100-sxm2-16", 900),
        ("Tesla V100-SXM2-32GB", "v100-sxm2-32", 900),
        ("Tesla V100-DGXS-32GB", "v100-sxm2-32", 900),
        ("AMD Instinct MI210", "mi210", 1638.4),
        ("AMD Instinct MI300X", "mi300x", 5300),
        ("AMD Instinct MI300X VF", "mi300x", 5300),
        # one chip, several boards
        ("NVIDIA H100 80GB HBM3", "h100-sxm", 3350),
        ("NVIDIA H100 PCIe", "h100-pcie", 2039),
        ("NVIDIA H100 NVL", "h100-nvl", 3938),
        ("NVIDIA H200 NVL", "h200-nvl", 4800),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80", 2039),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80", 1935),
        ("NVIDIA A100-PCIE-40GB", "a100-pcie-40", 1555),
        ("NVIDIA L40", "l40", 864),
        ("NVIDIA L40S", "l40s", 864),
        ("NVIDIA L4", "l4", 300),
        ("NVIDIA A10", "a10", 600),
        ("NVIDIA A10G", "a10g", 600),
        ("NVIDIA GeForce RTX 3080", "rtx-3080", 760),
        ("NVIDIA GeForce RTX 3080 Ti", "rtx-3080-ti", 912),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "rtx-4070-ti-super", 672),
        ("NVIDIA GeForce RTX 5090", "rtx-5090", 1792),
        ("NVIDIA RTX A6000", "rtx-a6000", 768),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada", 960),
        (
            "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
            "rtx-pro-6000-blackwell",
            1792,
        ),
        (
            "NVIDIA RTX PRO 6000 Blackwell Server Edition",
            "rtx-pro-6000-blackwell-server",
            1597,
        ),
        ("NVIDIA GH200 480GB", "gh200", 4000),
        ("NVIDIA GB200", "gb200", 8000),
        ("NVIDIA GB300", "gb300", 8000),
        ("NVIDIA B300 SXM6 AC", "b300", 8000),
        ("NVIDIA H20", "h20", 4000),
        ("Tesla T4", "t4", 320),
        ("AMD Instinct MI250X", "mi250x", 1638.4),
        ("AMD Instinct MI250X / MI250", "mi250", 1638.4),
        ("AMD Instinct MI308X", "mi308x", 5300),
        ("AMD Instinct MI325X", "mi325x", 6000),
        ("AMD Instinct MI350X", "mi350x", 8000),
        ("AMD Instinct MI355X", "mi355x", 8000),
        ("h100-sxm", "h100-sxm", 3350),
    ],
)
def test_found_by_the_reported_name(name: str, found: str, gb_s: float) -> None:
    device = find_device(name)
    assert device is not None
    assert device.id == found
    assert device.bandwidth_bytes_per_s == round(gb_s * 1e9)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "AMD Radeon Graphics",
        "NVIDIA GeForce RTX 3060 Laptop GPU",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA H100 80GB HBM3 MIG 3g.40gb",
        "NVIDIA B200 MIG 1g.23gb",
        "NVIDIA H2000",
        "NVIDIA A100",
        "NVIDIA Graphics Device",
        "GRID A100X-20C",
    ],
)
def test_names_of_other_things_find_nothing(name: str) -> None:
    assert find_device(name) is None


def test_figures_are_in_plausible_relations() -> None:
    for device in devices():
        assert device.bandwidth_bytes_per_s is not None
        assert 1e11 <= device.bandwidth_bytes_per_s <= 1e13
        assert device.memory_bytes is None or 4 * 2**30 <= device.memory_bytes <= 300 * 2**30
        assert device.sms is None or 10 <= device.sms <= 400
        assert device.l2_bytes is None or 2**20 <= device.l2_bytes <= 2**28
        assert device.bf16_flops is None or 4e13 <= device.bf16_flops <= 3e15
        assert device.power_w is None or 60 <= device.power_w <= 1500


def test_every_device_says_where_its_figures_come_from_and_whether_to_doubt_them() -> None:
    known = devices()
    assert len({device.id for device in known}) == len(known)
    for device in known:
        assert device.source
        # No vendor document means doubtful, and the other way round where the source is not named.
        if device.source.startswith("no public datasheet"):
            assert device.doubtful
    assert {device.id for device in known if device.doubtful} == {
        "h20",
        "h20-3e",
        "a100-pg509",
        "gtx-1650",
        "mi308x",
    }


def test_no_name_fits_two_devices() -> None:
    rows = table("devices.toml")["device"]
    for row in rows:
        plain = row["id"].replace("-", " ")
        fitting = [other["id"] for other in rows if re.fullmatch(other["match"], plain)]
        assert len(fitting) <= 1


def test_bf16_is_absent_where_the_tensor_cores_lack_it() -> None:
    for name in ("Tesla T4", "Tesla V100-SXM2-16GB", "NVIDIA GeForce GTX 1650"):
        device = find_device(name)
        assert device is not None
        assert device.bf16_flops is None


def test_graph_constants_of_the_h200() -> None:
    constants = graph_constants("NVIDIA H200")
    assert constants is not None
    assert constants.source == "measured on H200, torch 2.11"
    assert (constants.kernel_ns, constants.replay_ns) == (307, 13_000)
    assert constants.memset_node_ns == 7_000
    assert constants.gap("gemm", "pointwise") == 290
    assert constants.gap("pointwise", "gemm") == 450
    assert constants.gap("gemm", "splitk") == 770
    assert constants.gap("copy", "pointwise") == 420
    assert constants.gap("splitk", "pointwise") == 290
    assert constants.gap("communication", "other") == 420


def test_no_graph_constants_where_none_were_measured() -> None:
    assert graph_constants("NVIDIA B200") is None
    assert graph_constants("NVIDIA H200 NVL") is None
    assert graph_constants("unheard of") is None
