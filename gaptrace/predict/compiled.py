"""The compiled step from an answer of the Inductor oracle: kernels, busy time, step times, doubts.

Counts are those of the scheduler that was asked. Library kernels keep their eager durations,
generated ones cost what `fusion_model` says. With plain launches the host needs, per launch of the
compiled step, about what it needs per launch of the eager one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gaptrace.measure import fusion_model as fm
from gaptrace.measure.fusion_model import CompiledBusy, Estimate
from gaptrace.predict.constants import GraphModel
from gaptrace.predict.nodes import kind_of, pairs_of
from gaptrace.predict.steps import CompiledStep, ns_of, range_of
from gaptrace.results.prediction import Doubt, Loss, Variant, VariantRanges

# Host time per launch, compiled over eager, was 0.67 to 1.79 on seven warm recordings. What a call
# of compiled code costs once (guards, wrappers) is not in an eager trace, and one machine's host
# ran the same compiled step at two speeds, 1.6 times apart: hence half to double.
HOST_RANGE = (0.5, 2.0)
# A profiled host is slower by up to five times. From there the range would span a factor of ten and
# more, which tells nobody anything.
WITHHELD = "withheld: the host was timed under the profiler only"
# Kernels: range as a share of the count. The scheduler that the user will compile with is exact or
# one off; another version may fuse otherwise, and doubtful constructs may come out as copies.
SAME_TORCH, OTHER_TORCH, DOUBTFUL = 0.02, 0.10, 0.25
DOUBTS = frozenset(
    {"stacked_cache", "graph_breaks", "unknown_ops", "mismatched_ops", "recovered_views"}
)
# A generated kernel this much slower than what it replaces (ns) is a loss worth a line. Less says
# little: an op that several kernels compute again is counted for the first of them.
LOSS_NS = 5_000
_NUMBER = re.compile(r"_\d+$")


@dataclass(frozen=True)
class Host:
    """What the eager host needs: ns per launch, None where unknown, and where that is from.

    profiled: it was measured under the profiler, with nothing to tell by how much that slowed it.
    """

    per_launch_ns: float | None
    source: str
    profiled: bool = False


def compiled_step(answer: Mapping[str, Any], host: Host, model: GraphModel) -> CompiledStep:
    """What the answer says the compiled step would be.

    A recording that is compiled already is said to be so, and nothing is predicted.
    """
    torch = answer["torch"]
    source = f"Inductor of torch {torch.get('used')}"
    note = str(torch.get("note") or "")
    if answer.get("already") == "compiled":
        return CompiledStep(already=True, exact=True, source=source, note="already compiled")
    busy = busy_of(answer["kernels"], answer["counts"], answer["doubts"])
    counts = answer["counts"]
    share = _share(answer)
    kernels, generated = int(counts["total"]), int(counts["generated"])
    launches = kernels + int(counts["copies"]) + int(counts["memsets"])
    captured = captured_of(answer["kernels"], busy, model, _graphs(answer))
    return CompiledStep(
        already=False,
        exact=True,
        source=source,
        note=note,
        kernels=kernels,
        generated=generated,
        extern=kernels - generated,
        launches=launches,
        eager_kernels=counts.get("eager_kernels"),
        busy=None if busy.unmeasured else busy.busy,
        by_class=None if busy.unmeasured else dict(busy.by_class),
        launched=None if busy.unmeasured else launched_step(busy.busy, launches, host),
        withheld="" if busy.unmeasured else withheld_because(busy.busy, launches, host),
        captured=None if busy.unmeasured else captured,
        kernel_range=_range(kernels, share),
        generated_range=_range(generated, share),
        doubts=_doubts(answer),
        losses=_losses(answer["kernels"]),
        host=host.source,
        profiled=host.profiled,
        what_ifs=tuple(
            _variant(item, answer, busy, captured, model) for item in answer["what_ifs"]
        ),
        torch=torch,
    )


def busy_of(
    parts: Mapping[str, Any], counts: Mapping[str, Any], doubts: Sequence[Mapping[str, Any]]
) -> CompiledBusy:
    """Predicted busy time, kernels that no op launched included: they stay as they are."""
    busy = fm.compiled_busy(parts, doubts)
    loose = float(counts.get("unrecorded_ns") or 0)
    if not loose:
        return busy
    total, kernels = busy.busy, int(counts.get("unrecorded_kernels") or 0)
    return replace(
        busy,
        busy=Estimate(total.ns + loose, total.low_ns + 0.95 * loose, total.high_ns + 1.1 * loose),
        left_ns=busy.left_ns + loose,
        by_class={**busy.by_class, "other": busy.by_class.get("other", 0.0) + loose},
        kernels=busy.kernels + kernels,
        nodes=busy.nodes + kernels,
    )


def withheld_because(busy: Estimate, launches: int, host: Host) -> str:
    """Why the step with plain launches is withheld; empty where it is not.

    It is where the host may set the pace and was timed under the profiler only.
    """
    if host.per_launch_ns is None or not host.profiled:
        return ""
    slowest = HOST_RANGE[1] * launches * host.per_launch_ns
    return WITHHELD if slowest > busy.low_ns else ""


def launched_step(busy: Estimate, launches: int, host: Host) -> Estimate | None:
    """The step with plain launches: the slower of host and GPU; None without host times."""
    if host.per_launch_ns is None or withheld_because(busy, launches, host):
        return None
    needs = launches * host.per_launch_ns
    low, high = HOST_RANGE
    return Estimate(
        max(needs, busy.ns),
        max(low * needs, busy.low_ns),
        max(high * needs, busy.high_ns) + 0.02 * busy.high_ns,
    )


def captured_of(
    parts: Mapping[str, Any], busy: CompiledBusy, model: GraphModel, replays: int
) -> Estimate:
    """The step replayed from graphs: gaps by the kinds of neighbouring kernels."""
    kinds, memsets = sequence(parts)
    pairs = pairs_of(kinds)
    return model.step(busy.busy, pairs, busy.nodes, replays, model.memset_extra(memsets))


def sequence(parts: Mapping[str, Any]) -> tuple[list[str], list[int]]:
    """Kinds of all nodes in launch order, and the recorded durations of memsets among them."""
    kinds: list[str] = []
    memsets: list[int] = []
    order = (None if where == "generated" else parts["extern"][at] for where, at in parts["order"])
    for entry in (*order, *parts["eager"]):
        if entry is None:
            kinds.append("pointwise")
            continue
        launched = entry.get("eager", entry)
        for name, dur in zip(launched["names"], launched["durs_ns"], strict=True):
            kinds.append(kind_of(str(name)))
            if kinds[-1] == "memset":
                memsets.append(int(dur))
    return kinds, memsets


def _graphs(answer: Mapping[str, Any]) -> int:
    """Pieces that can be captured: graph breaks end one and begin the next."""
    region = answer.get("region") or {}
    return max(len(region.get("segments") or ()), 1) if region.get("breaks") else 1


def _share(answer: Mapping[str, Any]) -> float:
    if any(doubt["id"] in DOUBTS for doubt in answer["doubts"]):
        return DOUBTFUL
    torch = answer["torch"]
    used, recorded = (str(torch.get(key) or "").split("+")[0] for key in ("used", "recorded"))
    return SAME_TORCH if recorded and used == recorded else OTHER_TORCH


def _range(count: int, share: float) -> tuple[int, int]:
    width = max(round(count * share), 1)
    return max(count - width, 0), count + width


def _doubts(answer: Mapping[str, Any]) -> tuple[Doubt, ...]:
    ops = answer["ops"]
    return tuple(
        Doubt(
            str(item["id"]),
            str(item["text"]),
            tuple(dict.fromkeys(str(ops[i]["op"]) for i in item["ops"] if i < len(ops))),
        )
        for item in answer["doubts"]
    )


def _losses(parts: Mapping[str, Any]) -> tuple[Loss, ...]:
    """Generated kernels slower than what they replace, alike ones together; longest first."""
    groups: dict[str, list[float]] = {}
    for entry in parts["generated"]:
        lost = fm.generated_ns(entry) - entry["replaces"]["dur_ns"]
        if lost >= LOSS_NS:
            verb = "copies" if fm.generated_class(entry) == "copy" else "computes"
            names = " ".join(dict.fromkeys(n.split("::")[-1] for n in entry["aten"][:6]))
            groups.setdefault(f"{verb}: {names}", []).append(lost)
    found = [Loss(text, len(lost), sum(lost)) for text, lost in groups.items()]
    return tuple(sorted(found, key=lambda item: -item.ns))


def _variant(
    item: Mapping[str, Any],
    answer: Mapping[str, Any],
    base: CompiledBusy,
    base_captured: Estimate,
    model: GraphModel,
) -> Variant:
    if item.get("error"):
        return Variant(str(item["name"]), "", str(item["error"]))
    # The doubt that the what-if takes away must not widen its own range.
    settled = {"unstack-cache": "stacked_cache", "static-cache": "growing_state"}
    doubts = [d for d in answer["doubts"] if d["id"] != settled.get(str(item["name"]))]
    busy = busy_of(item["kernels"], item["counts"], doubts)
    captured = captured_of(item["kernels"], busy, model, _graphs(answer))
    found, replayed = (None, None) if busy.unmeasured else (busy.busy, captured)
    both = not busy.unmeasured and not base.unmeasured
    text = str(item.get("text") or "")
    if str(item["name"]).startswith(("batch=", "weight-dtype=")):
        text += "; library calls keep their recorded durations, so only generated kernels change"
    return Variant(
        name=str(item["name"]),
        text=text,
        kernels=int(item["counts"]["total"]),
        generated=int(item["counts"]["generated"]),
        busy_ns=ns_of(found),
        captured_step_ns=ns_of(replayed),
        range=VariantRanges(range_of(found), range_of(replayed)),
        gain_ns=round(base.busy.ns - busy.busy.ns) if both else None,
        captured_gain_ns=round(base_captured.ns - captured.ns) if both else None,
    )


def generated_name(name: str) -> str:
    """A generated kernel's name without the number that tells it from its twins."""
    return _NUMBER.sub("", name)
