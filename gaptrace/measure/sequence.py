"""The launch calls of a device in time order, and what each of them stands for.

A call is known by the names of the kernels that it launches, and by the CPU op that makes it: the
same op may choose other kernels as a cache grows. Some calls are where a token begins or ends: the
embedding look-up, the choice of the next token, and the small copy that brings it to the host.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gaptrace.knowledge.runtime_calls import is_to_host
from gaptrace.measure.attribution import enclosing, outermost_rows
from gaptrace.measure.links import Links, names_where
from gaptrace.trace import Cat, Ints, Trace

Bools = npt.NDArray[np.bool_]

# The look-up of a token's embedding, by op (aten, vLLM and SGLang custom ops, names that Inductor
# gives fused kernels) and by kernel (vendors' own). Position tables are looked up the same way.
HEAD = re.compile(r"embedding(?!_?bag)(?!.*(?:rotary|backward|dense))|embed_tokens", re.IGNORECASE)
# Kernels of torch's look-up, which gathers for other ops too.
HEAD_KERNEL = re.compile(r"indexSelect(?:Small|Large)Index|vectorized_gather_kernel")
# The choice of the next token. Experts are chosen by top-k and sort too: those alone prove nothing.
PICK = re.compile(
    r"argmax|multinomial|sampl(?:e|er|ing)(?!.*upsample)|exponential_|ArgMaxOps|gumbel",
    re.IGNORECASE,
)
WEAK_PICK = re.compile(r"top_?[kp]|\bsort\b|aten::sort|radixsort|log_softmax", re.IGNORECASE)
_NOT_PICK = re.compile(r"upsampl|resampl|grid_sampl|downsampl|backward", re.IGNORECASE)
# Drafts that a model agrees with are counted by comparing, accumulating and adding up, or by
# finding the first of several random numbers that is too large.
_COUNTING = (
    ("x", re.compile(r"aten::(?:copy_|_?to_copy|bitwise_not|logical_not)$")),
    ("c", re.compile(r"aten::(?:eq|ne|lt|le|gt|ge)_?$")),
    ("a", re.compile(r"aten::_?cum(?:sum|prod)$")),
    ("s", re.compile(r"aten::sum$")),
    ("r", re.compile(r"aten::(?:uniform_|rand|rand_like)$")),
    ("n", re.compile(r"aten::nonzero$")),
)
_COUNT_OF_ACCEPTED = re.compile(r"cx*a+x*c?x*s|rx*cx*n")
# Ids and flags of a batch; logits are larger.
SMALL_COPY = 1 << 16
# A count of accepted drafts follows the choice of tokens within so many calls.
NEAR = 16


@dataclass(frozen=True, eq=False)
class Sequence:
    """Launch calls in time order; every array has one entry per call.

    row: event row (of the op itself where no launch call is known). start, end: ns. kernels: code
    of the sequence of names that the call launches. op: row of the innermost CPU op around the
    call, -1 where there is none. op_name: code of that op's name, or of the call's kernels where
    there is none. head, pick, weak_pick, copy: where tokens begin and end. accept: where the drafts
    that a model agrees with are counted.
    """

    row: Ints
    start: Ints
    end: Ints
    kernels: Ints
    op: Ints
    op_name: Ints
    head: Bools
    pick: Bools
    weak_pick: Bools
    copy: Bools
    accept: Bools

    def __len__(self) -> int:
        return int(self.row.size)

    @property
    def instances(self) -> Ints:
        """Index of the first call of each op instance: an op that launches thrice counts once."""
        first = np.ones(len(self), np.bool_)
        first[1:] = (self.op[1:] != self.op[:-1]) | (self.op[1:] < 0)
        return np.flatnonzero(first)


def sequence(trace: Trace, links: Links) -> Sequence:
    """The launch calls behind the ops in `links`, or its ops where no launch call is known."""
    known = links.launched
    if known.any():
        order = np.lexsort((links.row[known], links.start[known], links.launch[known]))
        ops = np.flatnonzero(known)[order]
        calls, first, size = np.unique(links.launch[ops], return_index=True, return_counts=True)
    else:
        ops = np.lexsort((links.row, links.start))
        calls, first, size = links.row[ops], np.arange(ops.size), np.ones(ops.size, np.int64)
    names = trace.name[links.row[ops]].astype(np.int64)
    # Codes by the names' own order, so that events in another order give the same sequence.
    rank = np.empty(len(trace.names), np.int64)
    rank[sorted(range(len(trace.names)), key=trace.names.__getitem__)] = np.arange(rank.size)
    kernels = _signatures(rank[names], first, size)
    in_time = np.lexsort((calls, kernels, trace.dur[calls], trace.start[calls]))
    inner, outer = _ops_around(trace, calls)
    group = np.repeat(np.arange(calls.size), size)
    moved = trace.gpu.bytes[np.searchsorted(trace.gpu.rows, links.row[ops])]
    small = (links.cat[ops] == Cat.MEMCPY) & (moved <= SMALL_COPY)

    def launched(pattern: re.Pattern[str]) -> Bools:
        hits = names_where(trace, names, pattern.search)
        return _any(hits & ~names_where(trace, names, _NOT_PICK.search), group, calls.size)

    def within(pattern: re.Pattern[str]) -> Bools:
        result = np.zeros(calls.size, np.bool_)
        for row in (inner, outer):
            inside = np.flatnonzero(row >= 0)
            name = trace.name[row[inside]]
            result[inside] |= names_where(trace, name, pattern.search) & ~names_where(
                trace, name, _NOT_PICK.search
            )
        return result

    copies = _any(small & names_where(trace, names, is_to_host), group, calls.size)
    has_op = inner >= 0
    op_name = np.where(has_op, rank[trace.name[np.maximum(inner, 0)]], 0)
    op_name = np.where(has_op, op_name, len(trace.names) + kernels)
    picks = ((launched(PICK) | within(PICK)) & ~copies)[in_time]
    return Sequence(
        row=calls[in_time],
        start=trace.start[calls][in_time],
        end=(trace.start[calls] + trace.dur[calls])[in_time],
        kernels=kernels[in_time],
        op=inner[in_time],
        op_name=op_name[in_time],
        head=(launched(HEAD) | (launched(HEAD_KERNEL) & ~has_op) | within(HEAD))[in_time],
        pick=picks,
        weak_pick=((launched(WEAK_PICK) | within(WEAK_PICK)) & ~copies)[in_time],
        copy=copies[in_time],
        accept=_accepting(trace, inner[in_time], picks),
    )


def _accepting(trace: Trace, op: Ints, pick: Bools) -> Bools:
    """The calls that end a count of accepted drafts: it follows the choice of tokens."""
    result = np.zeros(op.size, np.bool_)
    letters = {
        int(code): next((c for c, p in _COUNTING if p.match(trace.names[int(code)])), ".")
        for code in np.unique(trace.name[op[op >= 0]])
    }
    if not {"c"} <= set(letters.values()) or not pick.any():
        return result
    own = "".join(letters[int(trace.name[row])] if row >= 0 else "." for row in op.tolist())
    for found in _COUNT_OF_ACCEPTED.finditer(own):
        result[found.end() - 1] = bool(pick[max(0, found.start() - NEAR) : found.start()].any())
    return result


def _signatures(names: Ints, first: Ints, size: Ints) -> Ints:
    """A code for what each call launches: a kernel by its name, a replay by all names in order."""
    codes = np.empty(first.size, np.int64)
    single = size == 1
    codes[single] = names[first[single]]
    base = int(names.max(initial=0)) + 1
    several = np.flatnonzero(~single).tolist()
    keys = [names[first[i] : first[i] + size[i]].tobytes() for i in several]
    number = {key: base + place for place, key in enumerate(sorted(set(keys)))}
    codes[several] = [number[key] for key in keys]
    return codes


def _any(flags: Bools, group: Ints, count: int) -> Bools:
    return np.bincount(group[flags], minlength=count) > 0


def _ops_around(trace: Trace, calls: Ints) -> tuple[Ints, Ints]:
    """The innermost and the outermost CPU op around each call on its thread, -1 where none is."""
    ops = trace.rows_of(Cat.CPU_OP)
    ops = ops[names_where(trace, trace.name[ops], is_op) & (trace.dur[ops] > 0)]
    return enclosing(trace, ops, calls), enclosing(trace, outermost_rows(trace, ops), calls)


def is_op(name: str) -> bool:
    """Whether a CPU op's name is that of an op, not of a region or a mark around ops."""
    return not _REGION.match(name)


_REGION = re.compile(
    r"(?:gaptrace\.step|ProfilerStep)[#*]|## Call CompiledFxGraph|Torch-Compiled Region"
    r"|CompiledFunction|TorchDynamo Cache Lookup|Pregraph bytecode|AOTDispatcher Runtime Wrapper"
)
