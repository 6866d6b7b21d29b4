"""What fusion saves, group by group, from exact dataflow; and what it would at other batch sizes.

Per group: launches removed, bytes of intermediates that stay in registers (written once, read by
every op that used them), and the time of both. Weights and positions do not grow with the batch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gaptrace.knowledge.inductor_names import copy_ops, view_ops
from gaptrace.measure import fusion_model as fm
from gaptrace.predict.compiled import generated_name
from gaptrace.results.prediction import AtBatch, FusedGroup, FusionSavings, ValueBytes

ACTIVATION = re.compile(r"silu|gelu|relu|swish|swiglu|geglu|hardswish|mish|act_and_mul|tanh")
EXACT = "exact dataflow"
GROUPS_KEPT = 200
_IDLE = frozenset({"arange", "full", "scalar_tensor", "expand", "contiguous", "reshape"})


def exact_savings(
    answer: Mapping[str, Any], peak: float, recorded_batch: int, batches: Sequence[int]
) -> FusionSavings:
    """Savings of the groups that Inductor scheduled. peak: bytes/s. batches: sequences per step."""
    parts, ops = answer["kernels"], answer["ops"]
    plain = fm.savings(parts, ops, peak)
    # At another batch other groups may be worth a line, so they are asked for again.
    scaled = {b: fm.savings(parts, ops, peak, b / recorded_batch) for b in batches}
    by_kernel = {b: {item.kernel: item for item in found} for b, found in scaled.items()}
    alike: dict[tuple[str, tuple[str, ...]], list[fm.Savings]] = {}
    for item in plain:
        alike.setdefault((generated_name(item.name), _computing(item.chain)), []).append(item)
    groups = [
        FusedGroup(
            name=name,
            chain=chain,
            places=len(items),
            launches=sum(item.launches for item in items),
            bytes=round(sum(item.bytes for item in items)),
            time_ns=round(sum(item.time_ns for item in items)),
            activation=any(ACTIVATION.search(op) for op in chain),
            quantize=any(item.quantize for item in items),
            modules=tuple(dict.fromkeys(m for item in items for m in item.modules))[:4],
            at_batch={
                str(b): _sum([found[i.kernel] for i in items if i.kernel in found])
                for b, found in by_kernel.items()
            },
        )
        for (name, chain), items in alike.items()
    ]
    return fusion_savings(
        groups,
        values=_values(parts, ops),
        written=sum(item.written for item in plain),
        read=sum(item.read for item in plain),
        time_ns=sum(item.time_ns for item in plain),
        at_batch={str(b): _sum(found) for b, found in scaled.items()},
        recorded_batch=recorded_batch,
        peak=peak,
        source=EXACT,
    )


def fusion_savings(
    groups: Sequence[FusedGroup], *, values: Mapping[str, tuple[float, float]], written: float,
    read: float, time_ns: float, at_batch: dict[str, AtBatch], recorded_batch: int, peak: float,
    source: str,
) -> FusionSavings:  # fmt: skip
    """The savings of all groups; values: bytes written and read per step by op."""
    ordered = sorted(groups, key=lambda group: (-group.time_ns, group.name))
    return FusionSavings(
        source=source,
        launches=sum(group.launches for group in groups),
        bytes=round(written + read),
        bytes_written=round(written),
        bytes_read=round(read),
        time_ns=round(time_ns),
        recorded_batch=recorded_batch,
        peak_bandwidth_bytes_per_s=None if peak == float("inf") else peak,
        at_batch=at_batch,
        values={name: ValueBytes(round(out), round(back)) for name, (out, back) in values.items()},
        groups=tuple(ordered[:GROUPS_KEPT]),
        quantize_chains=tuple(g for g in ordered if g.quantize and g.activation),
    )


def _sum(items: Sequence[fm.Savings]) -> AtBatch:
    moved, time = sum(item.bytes for item in items), sum(item.time_ns for item in items)
    return AtBatch(round(moved), round(time))


def _computing(chain: Sequence[str]) -> tuple[str, ...]:
    """The ops of a chain that calculate, in order; all of them where none does."""
    idle = view_ops() | _IDLE
    names = [name.rpartition("::")[2] for name in chain]
    kept = [name for name in names if name not in idle]
    return tuple(kept or [n for n in names if n in copy_ops()] or names)


def _values(
    parts: Mapping[str, Any], ops: Sequence[Mapping[str, Any]]
) -> dict[str, tuple[float, float]]:
    names = dict.fromkeys(
        str(ops[value[0]]["op"]) for k in parts["generated"] for value in k["saves"]["values"]
    )
    found = {name: fm.value_savings(parts, ops, name) for name in names}
    return {name: pair for name, pair in found.items() if sum(pair)}
