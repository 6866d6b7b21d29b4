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
from gaptrace.predict.result import Group, Savings

ACTIVATION = re.compile(r"silu|gelu|relu|swish|swiglu|geglu|hardswish|mish|act_and_mul|tanh")
EXACT = "exact dataflow"
_IDLE = frozenset({"arange", "full", "scalar_tensor", "expand", "contiguous", "reshape"})


def exact_savings(
    answer: Mapping[str, Any], peak: float, recorded_batch: int, batches: Sequence[int]
) -> Savings:
    """Savings of the groups that Inductor scheduled. peak: bytes/s. batches: sequences per step."""
    parts, ops = answer["kernels"], answer["ops"]
    plain = fm.savings(parts, ops, peak)
    # At another batch other groups may be worth a line, so they are asked for again.
    scaled = {b: fm.savings(parts, ops, peak, b / recorded_batch) for b in batches}
    by_kernel = {b: {item.kernel: item for item in found} for b, found in scaled.items()}
    alike: dict[tuple[str, tuple[str, ...]], list[fm.Savings]] = {}
    for item in plain:
        alike.setdefault((generated_name(item.name), _computing(item.chain)), []).append(item)
    groups = []
    for (name, chain), items in alike.items():
        groups.append(
            Group(
                name=name,
                chain=chain,
                places=len(items),
                launches=sum(item.launches for item in items),
                written=sum(item.written for item in items),
                read=sum(item.read for item in items),
                time_ns=sum(item.time_ns for item in items),
                activation=any(ACTIVATION.search(op) for op in chain),
                quantize=any(item.quantize for item in items),
                modules=tuple(dict.fromkeys(m for item in items for m in item.modules))[:4],
                batch={
                    b: (
                        sum(
                            by_kernel[b][i.kernel].bytes for i in items if i.kernel in by_kernel[b]
                        ),
                        sum(
                            by_kernel[b][i.kernel].time_ns
                            for i in items
                            if i.kernel in by_kernel[b]
                        ),
                    )
                    for b in batches
                },
            )
        )
    groups.sort(key=lambda group: (-group.time_ns, group.name))
    return Savings(
        groups=tuple(groups),
        values=_values(parts, ops),
        launches=sum(item.launches for item in plain),
        written=sum(item.written for item in plain),
        read=sum(item.read for item in plain),
        time_ns=sum(item.time_ns for item in plain),
        batch={
            b: (sum(i.bytes for i in found), sum(i.time_ns for i in found))
            for b, found in scaled.items()
        },
        recorded_batch=recorded_batch,
        peak=peak,
        source=EXACT,
        quantize_chains=tuple(g for g in groups if g.quantize and g.activation),
    )


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
