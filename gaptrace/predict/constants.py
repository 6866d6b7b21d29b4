"""What a graph replay costs beside its kernels: from replays of the same run, else by device.

A captured step is busy time, a gap before each node (by the kinds of the two nodes), a constant
per replay, and what memset nodes cost. Gaps by kind are medians of profiled replays; replays that
nobody profiles run a little faster, so the medians are scaled until a common pair costs what the
fit to unprofiled steps says.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gaptrace.knowledge.devices import graph_constants
from gaptrace.measure.fusion_model import H200, Estimate
from gaptrace.measure.headline import PROFILED
from gaptrace.measure.result import Analysis
from gaptrace.predict.nodes import Nodes, Pair, step_nodes

# Two captured modes must differ this much in nodes before both constants can be told from them.
APART = 1.3
# Constants outside these bounds (ns) are noise of two nearly equal steps, not properties.
NODE_BOUNDS, REPLAY_BOUNDS = (50.0, 3_000.0), (0.0, 100_000.0)
# Measured over predicted captured steps: the 99 % interval for one more run, from the logarithms of
# the twelve that hold both (README.md, "How far captured steps were off"; a test counts it again).
# A step may take less than its kernels did when launched: the clocks are others, and a node may
# begin before the one before it has ended.
CAPTURED_RANGE = (0.90, 1.12)
# The largest share of those steps that was not busy time. Of what lies beyond, no run tells: half
# to double.
REST_SEEN, REST_BEYOND = 0.13, (0.5, 2.0)
# A GPU of which nothing is known: bounds that hold for every GPU and driver seen so far.
UNKNOWN_NODE, UNKNOWN_REPLAY = (100.0, 1_500.0), (2_000.0, 60_000.0)

# A step in pieces less the same in one graph, over its 16 seams of four kernels each: the least and
# the most of a 1 B decoder's points on an H200 (sample_traces/README.md).
SEAM_PRICE_NS = (12_500, 21_800)


@dataclass(frozen=True)
class GraphModel:
    """Costs of one device's replays in ns. gaps: by pair of kinds, `("any", "any")` for others.

    node_ns: of a common pair, and before the first node. replay_ns: per replay. memset_ns: what a
    memset node takes. node_range, replay_range: bounds in ns, None where the usual shares hold.
    """

    gaps: Mapping[Pair, float]
    node_ns: float
    replay_ns: float
    memset_ns: float
    source: str
    measured: bool = False
    node_range: tuple[float, float] | None = None
    replay_range: tuple[float, float] | None = None

    def gap(self, before: str, after: str) -> float:
        """Gap in ns between nodes of these kinds."""
        return self.gaps.get((before, after), self.node_ns)

    @property
    def known(self) -> bool:
        """Whether anything was measured on a device of this kind."""
        return self.node_range is None

    def step(
        self, busy: Estimate | float, pairs: Mapping[Pair, int], nodes: int, replays: int = 1,
        memset_extra_ns: float = 0.0,
    ) -> Estimate:  # fmt: skip
        """The captured step with its range; `busy` without a range is a recorded one.

        What is not known of a predicted busy time and how far captured steps were off from a known
        one have nothing to do with each other: their squares add.
        """
        if not isinstance(busy, Estimate):
            busy = Estimate(busy, busy, busy)
        rest = self.gaps_ns(pairs, nodes, replays) + replays * self.replay_ns + memset_extra_ns
        ns = busy.ns + rest
        beyond = max(rest - REST_SEEN * ns, 0.0)
        low, high = (REST_BEYOND[0] - 1) * beyond, (REST_BEYOND[1] - 1) * beyond
        sure = ns - beyond
        if self.node_range is not None and self.replay_range is not None:
            low = nodes * self.node_range[0] + replays * self.replay_range[0] - rest
            high = nodes * self.node_range[1] + replays * self.replay_range[1] - rest
            high += memset_extra_ns
            sure = busy.ns
        less = math.hypot((1 - CAPTURED_RANGE[0]) * sure, busy.ns - busy.low_ns)
        more = math.hypot((CAPTURED_RANGE[1] - 1) * sure, busy.high_ns - busy.ns)
        return Estimate(ns, max(ns + low - less, 0.0), ns + high + more)

    def gaps_ns(self, pairs: Mapping[Pair, int], nodes: int, replays: int = 1) -> float:
        """Gaps of a step: every pair by its kinds, and one before the first node of each replay.

        Nodes beyond the pairs that are known (library calls of unknown make) count as common ones.
        """
        told = sum(pairs.values())
        known = sum(count * self.gap(*pair) for pair, count in pairs.items())
        return known + max(nodes - told, replays if nodes else 0) * self.node_ns

    def memset_extra(self, durations: Sequence[int]) -> float:
        """What memsets of these recorded durations add once they are nodes."""
        return float(sum(max(self.memset_ns - dur, 0.0) for dur in durations))


def graph_model(
    gpu: str | None, replays: Sequence[Replayed] = (), empty_node_ns: int | None = None
) -> GraphModel:
    """The costs to predict with, best source first.

    replays: captured modes of the same run (leave out the one that is to be predicted).
    empty_node_ns: period of an empty kernel in a replay, as the collector measured it; it bounds
    the gap from above where nothing else is known.
    """
    table = _from_table(gpu)
    found = _from_replays(replays, table)
    if found is not None:
        return found
    return table if table is not None else _unknown(gpu, empty_node_ns)


def _from_table(gpu: str | None) -> GraphModel | None:
    known = graph_constants(gpu) if gpu else None
    if known is None:
        return None
    scale = known.kernel_ns / known.gap("any", "any")
    kinds = ("gemm", "attention", "pointwise", "copy", "communication", "other", "splitk", "memset")
    return GraphModel(
        gaps={(a, b): known.gap(a, b) * scale for a in kinds for b in kinds},
        node_ns=float(known.kernel_ns),
        replay_ns=float(known.replay_ns),
        memset_ns=float(known.memset_node_ns),
        source=f"table: {known.source}",
    )


def _unknown(gpu: str | None, empty_node_ns: int | None) -> GraphModel:
    node = UNKNOWN_NODE
    name = gpu or "an unknown GPU"
    source = f"no constants for {name}: those of an H200 stand in, with a wide range"
    if empty_node_ns:
        node = (min(node[0], empty_node_ns / 2), float(empty_node_ns))
        source += "; gaps are at most the period of an empty node that the collector measured"
    return GraphModel(
        gaps={},
        node_ns=min(H200.node_ns, node[1]),
        replay_ns=H200.replay_ns,
        memset_ns=H200.memset_ns,
        source=source,
        node_range=node,
        replay_range=UNKNOWN_REPLAY,
    )


@dataclass(frozen=True, eq=False)
class Replayed:
    """A captured recording, and the same code with plain launches where the run has it.

    Kernels take a few percent longer in a replay that is profiled. The busy time that a prediction
    starts from is that of plain launches, so the constants must be told from it too.
    """

    captured: Analysis
    launched: Analysis | None = None


@dataclass(frozen=True)
class _Seen:
    """A captured mode: nodes, replays, what its step takes beside busy time, gaps by pair."""

    nodes: Nodes
    excess_ns: float | None
    gaps: Mapping[Pair, Sequence[int]]


def _from_replays(replays: Sequence[Replayed], table: GraphModel | None) -> GraphModel | None:
    # A device of the table is known better than from one profiled replay without its twin.
    usable = [item for item in replays if table is None or item.launched is not None]
    seen = [found for item in usable if (found := _seen(item)) is not None]
    if not seen:
        return None
    by_pair: dict[Pair, list[int]] = defaultdict(list)
    for item in seen:
        for pair, gaps in item.gaps.items():
            by_pair[pair] += gaps
    every = [gap for gaps in by_pair.values() for gap in gaps]
    if not every:
        return None
    mean = float(np.mean(every))
    node, replay = _fit(seen, mean, table)
    scale = node / mean if mean else 0.0
    names = (item.captured.source.mode or item.captured.source.path for item in usable)
    modes = ", ".join(dict.fromkeys(names))
    unprofiled = all(item.captured.headline.rate.source != PROFILED for item in usable)
    return GraphModel(
        gaps={pair: float(np.median(gaps)) * scale for pair, gaps in by_pair.items()},
        node_ns=node,
        replay_ns=replay,
        memset_ns=table.memset_ns if table else H200.memset_ns,
        source=f"replays of this run ({modes})" + ("" if unprofiled else ", as profiled"),
        measured=True,
    )


def _seen(item: Replayed) -> _Seen | None:
    nodes, device = step_nodes(item.captured), item.captured.device
    if nodes is None or device is None or not nodes.replays:
        return None
    links = device.links
    launch, start, end = (c[nodes.index] for c in (links.launch, links.start, links.end))
    together = links.replayed[nodes.index][1:] & (launch[1:] == launch[:-1])
    gap = np.maximum(start[1:] - np.maximum.accumulate(end)[:-1], 0)
    gaps: dict[Pair, list[int]] = defaultdict(list)
    for at in np.flatnonzero(together):
        gaps[nodes.kinds[at], nodes.kinds[at + 1]].append(int(gap[at]))
    head = item.captured.headline
    step = head.step_ns
    busy: float | None = nodes.busy_ns
    if item.launched is not None and item.launched.headline.steps["busy_ns"].median:
        busy = item.launched.headline.steps["busy_ns"].median
    excess = None if step is None or busy is None else float(step - busy)
    return _Seen(nodes, excess if excess and excess > 0 else None, gaps)


def _fit(seen: Sequence[_Seen], mean_gap: float, table: GraphModel | None) -> tuple[float, float]:
    """Node and replay constants that explain the captured steps, else the profiled gaps."""
    known = [item for item in seen if item.excess_ns is not None and not item.nodes.outside]
    known.sort(key=lambda item: len(item.nodes))
    if len(known) > 1 and len(known[-1].nodes) > APART * len(known[0].nodes):
        (n0, r0, e0), (n1, r1, e1) = (
            (len(x.nodes), x.nodes.replays, x.excess_ns or 0.0) for x in (known[0], known[-1])
        )
        if determinant := n0 * r1 - n1 * r0:
            node = (e0 * r1 - e1 * r0) / determinant
            replay = (n0 * e1 - n1 * e0) / determinant
            if (
                NODE_BOUNDS[0] <= node <= NODE_BOUNDS[1]
                and REPLAY_BOUNDS[0] <= replay <= REPLAY_BOUNDS[1]
            ):
                return node, replay
    if known:
        one = known[0]
        assert one.excess_ns is not None
        count, replays = len(one.nodes), one.nodes.replays
        if table is not None:
            replay = min(table.replay_ns, one.excess_ns / replays)
            return max((one.excess_ns - replays * replay) / count, 0.0), replay
        replay = max(one.excess_ns - count * mean_gap, 0.0) / replays
        return (one.excess_ns - replays * replay) / count, replay
    return mean_gap, table.replay_ns if table else H200.replay_ns
