"""Times for a predicted compiled step, and for any step once it is captured.

Input is the object `gaptrace.inductor/1` that `python -m gaptrace_inductor` writes:
which kernels Inductor would generate and what they read and write. Library kernels keep their
eager durations; a generated kernel costs a floor plus its bytes over a bandwidth that depends on
how much it moves. All times are nanoseconds as floats, because they are estimates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SCHEMA = "gaptrace.inductor/1"
_ATTENTION = re.compile(r"attention|sdpa|flash|fmha|mla_decode", re.IGNORECASE)
_COMMUNICATION = re.compile(r"c10d|all_?reduce|all_?gather|reduce_scatter|nccl", re.IGNORECASE)
_COPY = re.compile(r"copy_?$|::clone$|::contiguous$|DeviceCopy", re.IGNORECASE)
# Words of generated kernels that move values and compute nothing.
_MOVES = frozenset(
    f"aten::{name}"
    for name in (
        "clone",
        "copy_",
        "copy",
        "expand",
        "view",
        "slice",
        "select",
        "permute",
        "transpose",
        "unsqueeze",
        "squeeze",
        "reshape",
        "cat",
        "select_scatter",
        "slice_scatter",
        "_unsafe_view",
        "as_strided",
    )
)
# Doubts under which whole buffers may be copied or the graph may come out in another way.
_WIDE = frozenset({"stacked_cache", "graph_breaks", "unknown_ops", "mismatched_ops"})


@dataclass(frozen=True)
class TimeModel:
    """What kernels and graph nodes cost on one device; times in ns, bandwidths in bytes/ns.

    pointwise_ns, load_ns: floor of a generated pointwise kernel, and what each load adds.
    reduction_ns, reduced_ns: floor of a generated reduction, and what each reduced element adds.
    norm_ns: added where mean and variance are reduced together (layer norm).
    small_bandwidth up to small_bytes, then large_bandwidth; huge_bandwidth beyond huge_bytes.
    node_ns, replay_ns: gap per node and constant per replay of a CUDA graph. memset_ns: what a
    memset node takes. source: where the constants are from.
    """

    pointwise_ns: float
    load_ns: float
    reduction_ns: float
    reduced_ns: float
    norm_ns: float
    small_bandwidth: float
    small_bytes: int
    large_bandwidth: float
    huge_bytes: int
    huge_bandwidth: float
    node_ns: float
    replay_ns: float
    memset_ns: float
    source: str


H200 = TimeModel(
    pointwise_ns=850,
    load_ns=50,
    reduction_ns=1200,
    reduced_ns=1000 / 4096,
    norm_ns=500,
    small_bandwidth=1750,
    small_bytes=8_000_000,
    large_bandwidth=3500,
    huge_bytes=300_000_000,
    huge_bandwidth=2700,
    node_ns=307,
    replay_ns=13_000,
    memset_ns=7_000,
    source="H200, torch 2.11, fitted on llama4 and gpt2_4",
)


@dataclass(frozen=True)
class Estimate:
    """A predicted time in ns with the range that is printed beside it."""

    ns: float
    low_ns: float
    high_ns: float


@dataclass(frozen=True)
class CompiledBusy:
    """Predicted busy time of a compiled step.

    `generated_ns`, `extern_ns` and `left_ns` (ops outside the compiled region) sum to `busy.ns`;
    `by_class` splits the same sum by op class. `unmeasured` counts library calls without an eager
    duration: they are not in the sum, so with any the figure is a lower bound.
    """

    busy: Estimate
    generated_ns: float
    extern_ns: float
    left_ns: float
    by_class: Mapping[str, float]
    kernels: int
    nodes: int
    memsets: int
    unmeasured: int


@dataclass(frozen=True)
class Savings:
    """What one fused group saves against eager, at a batch `scale` times the recorded one.

    launches: eager kernels that one generated kernel replaces, less that kernel. written and read:
    bytes of intermediates that never reach memory. time_ns: those bytes at the peak bandwidth plus
    the removed kernels' fixed cost. chain: the eager ops, in order. quantize: the group ends in a
    cast to an integer or 8-bit float.
    """

    kernel: int
    name: str
    chain: tuple[str, ...]
    launches: int
    written: float
    read: float
    time_ns: float
    quantize: bool
    modules: tuple[str, ...] = field(default=())

    @property
    def bytes(self) -> float:
        """Bytes of intermediates neither written nor read."""
        return self.written + self.read


def moved_ns(moved: float, model: TimeModel = H200) -> float:
    """Time to move `moved` bytes: at the small-transfer rate, or the large one where slower.

    The rate is that of kernels whose data lies in L2; the slower rate of very large transfers
    holds for the part beyond `huge_bytes`. The result never falls as bytes grow.
    """
    small = min(moved, model.small_bytes) / model.small_bandwidth
    large = min(moved, model.huge_bytes) / model.large_bandwidth
    huge = max(moved - model.huge_bytes, 0) / model.huge_bandwidth
    return max(small, large) + huge


def generated_ns(kernel: Mapping[str, Any], model: TimeModel = H200) -> float:
    """Duration of one entry of `kernels.generated`: floor plus bytes over bandwidth."""
    if kernel["reductions"]:
        fixed = model.reduction_ns + int(kernel["reduced"]) * model.reduced_ns
        if any("layer_norm" in name or "group_norm" in name for name in kernel["op_names"]):
            fixed += model.norm_ns
    else:
        fixed = model.pointwise_ns + model.load_ns * len(kernel["reads"])
    return fixed + moved_ns(float(kernel["bytes"]), model)


def class_of(op: str) -> str:
    """Op class of a library call or an op left to eager, by operator name."""
    if _ATTENTION.search(op):
        return "attention"
    if _COMMUNICATION.search(op):
        return "communication"
    return "copy" if _COPY.search(op) else "pointwise"


def generated_class(kernel: Mapping[str, Any]) -> str:
    """Op class of a generated kernel: `copy` where it only moves values, else `pointwise`."""
    computing = set(kernel["aten"]) - _MOVES
    return "copy" if kernel["aten"] and not computing else "pointwise"


def compiled_busy(
    parts: Mapping[str, Any], doubts: Iterable[Mapping[str, Any]] = (), model: TimeModel = H200
) -> CompiledBusy:
    """Predicted busy time of a compiled step from `kernels` of the result (or of a what-if).

    Kernels run one after another on one stream, so busy is the sum of durations. The range comes
    from the errors seen on seven models: library kernels -5 % to +10 %, generated ones -25 % to
    +35 %; wider (to +25 % and to double) where `doubts` name a construct that Inductor may
    lower differently.
    """
    classes: dict[str, float] = {}
    generated = extern = left = 0.0
    unmeasured = 0
    for entry in parts["generated"]:
        time = generated_ns(entry, model)
        generated += time
        _add(classes, generated_class(entry), time)
    for entry in parts["extern"]:
        if entry["dur_ns"] is None:
            unmeasured += 1
            continue
        extern += entry["dur_ns"]
        _add(classes, "gemm" if entry["gemm"] else class_of(entry["op"]), entry["dur_ns"])
    for entry in parts["eager"]:
        left += entry["dur_ns"]
        _add(classes, class_of(entry["op"]), entry["dur_ns"])
    wide = any(doubt["id"] in _WIDE for doubt in doubts)
    kept = extern + left
    busy = Estimate(
        generated + kept,
        generated * (0.5 if wide else 0.75) + kept * 0.95,
        generated * (2.0 if wide else 1.35) + kept * (1.25 if wide else 1.1),
    )
    launched = [*parts["extern"], *parts["eager"]]
    kernels = len(parts["generated"]) + sum(entry["kernels"] for entry in launched)
    copies = sum(entry["copies"] for entry in launched)
    memsets = sum(entry["memsets"] for entry in launched)
    nodes = kernels + copies + memsets
    return CompiledBusy(busy, generated, extern, left, classes, kernels, nodes, memsets, unmeasured)


def captured_step(
    busy_ns: float, nodes: int, replays: int = 1, memsets: int = 0, model: TimeModel = H200
) -> float:
    """Step time in ns if the step were replayed from `replays` CUDA graphs.

    busy + a gap per node + a constant per replay. `nodes` counts kernels, copies and memsets;
    `memsets` of them were not in `busy_ns` (pass those that only a capture adds).
    """
    return busy_ns + nodes * model.node_ns + replays * model.replay_ns + memsets * model.memset_ns


def savings(
    parts: Mapping[str, Any],
    ops: Sequence[Mapping[str, Any]],
    bandwidth: float,
    scale: float = 1.0,
    model: TimeModel = H200,
) -> list[Savings]:
    """What each fused group saves, largest time first; groups that save nothing are left out.

    `parts` and `ops` are `kernels` and `ops` of the result, `bandwidth` the peak in bytes/s.
    Values whose size follows the batch are multiplied by `scale`, weights and positions are not.
    """
    found = []
    for at, entry in enumerate(parts["generated"]):
        saved = entry["saves"]
        written = saved["written"] + saved["grows_written"] * (scale - 1)
        read = saved["read"] + saved["grows_read"] * (scale - 1)
        launches = max(entry["replaces"]["kernels"] - 1, 0)
        if not launches and not written + read:
            continue
        time = (written + read) / bandwidth * 1e9 + launches * model.pointwise_ns
        found.append(
            Savings(
                kernel=at,
                name=entry["name"],
                chain=tuple(ops[index]["op"] for index in entry["ops"]),
                launches=launches,
                written=written,
                read=read,
                time_ns=time,
                quantize=any(_is_narrow(access["dtype"]) for access in entry["writes"]),
                modules=tuple(entry["modules"]),
            )
        )
    return sorted(found, key=lambda item: -item.time_ns)


def value_savings(
    parts: Mapping[str, Any], ops: Sequence[Mapping[str, Any]], op: str, scale: float = 1.0
) -> tuple[float, float]:
    """Bytes no longer written and read because results of `op` (`aten::silu`) stay in a kernel."""
    written = read = 0.0
    for entry in parts["generated"]:
        for index, _, out, back in entry["saves"]["values"]:
            if ops[index]["op"] == op:
                written += out * scale
                read += back * scale
    return written, read


def _is_narrow(dtype: str) -> bool:
    return dtype in ("int8", "uint8") or dtype.startswith(("float8", "float4"))


def _add(classes: dict[str, float], name: str, time: float) -> None:
    classes[name] = classes.get(name, 0.0) + time
