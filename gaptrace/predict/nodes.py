"""The GPU ops of one typical step, as the nodes they would be in a CUDA graph."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gaptrace.knowledge.kernel_names import classify, is_split_k_reducer
from gaptrace.knowledge.runtime_calls import crosses_bus
from gaptrace.measure.links import names_where
from gaptrace.measure.result import Analysis
from gaptrace.measure.stats import nearest_rank
from gaptrace.trace import Cat, Ints

Pair = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Nodes:
    """GPU ops of the step whose busy time is the median, in order of their start.

    step: row of the step table. index: positions in the device's links. kinds: op class of each,
    `splitk` for a split-K reducer, `memset`. busy_ns: of the step's GPU window. replays: graph
    replays; outside: ops in none. across: copies between host and device. kernels: of all nodes.
    """

    step: int
    index: Ints
    kinds: tuple[str, ...]
    dur: Ints
    busy_ns: int
    replays: int
    outside: int
    across: int
    kernels: int

    def __len__(self) -> int:
        return int(self.index.size)

    @property
    def pairs(self) -> Counter[Pair]:
        """How often a node of one kind follows a node of another."""
        return pairs_of(self.kinds)

    @property
    def memset_ns(self) -> tuple[int, ...]:
        """Recorded durations of the memsets."""
        return tuple(
            int(d) for kind, d in zip(self.kinds, self.dur, strict=True) if kind == "memset"
        )


def pairs_of(kinds: Sequence[str]) -> Counter[Pair]:
    """How often each pair of kinds is adjacent."""
    return Counter(itertools.pairwise(kinds))


def kind_of(name: str, cat: int = Cat.KERNEL) -> str:
    """The kind of node that a GPU op is: an op class, `splitk`, `copy` or `memset`."""
    if cat == Cat.MEMSET or name.startswith("Memset"):
        return "memset"
    if cat == Cat.MEMCPY or name.startswith("Memcpy"):
        return "copy"
    return "splitk" if is_split_k_reducer(name) else classify(name).op_class


def step_nodes(analysis: Analysis) -> Nodes | None:
    """The nodes of the typical step; None where steps or busy times are not known."""
    steps, device = analysis.step_table, analysis.device
    if steps is None or device is None or analysis.quality.withholds("steps", "busy", "kernels"):
        return None
    usable = np.flatnonzero(steps.counted & ~steps.mixed & steps.has_ops)
    if usable.size == 0:
        return None
    busy = steps.busy_ns[usable]
    middle = nearest_rank(np.sort(busy), 50)
    step = int(usable[np.flatnonzero(busy == middle)[0]])
    links, trace = device.links, analysis.trace
    index = np.flatnonzero(steps.op_step == step)
    index = index[np.lexsort((links.row[index], links.end[index], links.start[index]))]
    codes = trace.name[links.row[index]]
    cats = links.cat[index]
    kind = {
        (int(code), int(cat)): kind_of(trace.names[int(code)], int(cat))
        for code, cat in np.unique(np.stack((codes, cats)), axis=1).T
    }
    kinds = tuple(kind[int(code), int(cat)] for code, cat in zip(codes, cats, strict=True))
    crosses = names_where(trace, codes, crosses_bus)
    replayed = links.replayed[index]
    return Nodes(
        step=step,
        index=index,
        kinds=kinds,
        dur=(links.end - links.start)[index],
        busy_ns=int(middle),
        replays=int(np.unique(links.launch[index][replayed]).size),
        outside=int((~replayed).sum()),
        kernels=int((links.cat[index] == Cat.KERNEL).sum()),
        across=int(crosses.sum()),
    )
