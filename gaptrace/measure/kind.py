"""What the steps are: decode, inference or training, by evidence; and which of them prefill.

Decode is one new token per sequence: an engine's label, the recorder's own mark or a mark's own
word says so, or the ops do. A step whose attention reads one query per sequence, or whose kernels
are made for that, decodes where it also looks an embedding up or picks a token. Without shapes and
without such kernels, steps that each look an embedding up and pick a token, and are not fed from
the host, follow from each other: they decode.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from gaptrace.knowledge.runtime_calls import is_from_host, is_to_host
from gaptrace.measure.labels import CAPTURE, DECODE, PREFILL
from gaptrace.measure.links import Links, names_where, rows_named
from gaptrace.measure.marks import Marks
from gaptrace.trace import Cat, Ints, Trace

INFERENCE, TRAINING = "inference", "training"
KINDS = (DECODE, INFERENCE, TRAINING)

_BACKWARD_OP = re.compile(
    r"autograd::engine::evaluate_function|\w+Backward\d*$|.*_backward$|Optimizer\.step"
    r"|aten::_fused_(?:adamw?|sgd|adagrad)_?"
)
_BACKWARD_KERNEL = re.compile(r"backward|wgrad|_bwd_|FusedAdam|fused_adam", re.IGNORECASE)
# Kernels for one query per sequence: gemv, split caches, paged and masked attention.
_DECODE_KERNEL = re.compile(
    r"gemv|split_?kv|paged_attention|flash_decod|batch_?decode|decode_(?:att|kernel|stage)"
    r"|attention_decode|mla.*decode|masked_multihead|\bmmha|single_?query",
    re.IGNORECASE,
)
_CAPTURE_CALL = re.compile(r"StreamBeginCapture")
_ATTENTION = re.compile(r"aten::_?scaled_dot_product\w*attention\w*$")
_CONVOLUTION = re.compile(r"aten::(?:conv[23]d|(?:cudnn|miopen|mkldnn)_convolution|_convolution)")
_MOSTLY = 0.9
# Without attention shapes: matrix products of at most so many rows read one token per sequence of
# a small batch, of more than so many read whole sequences.
_FEW_ROWS, _MANY_ROWS = 8, 256
# Ids of one new token each are as large as the ids that come back; prompts are larger.
_FED_RATIO = 4
_SAMPLED = 7
# A first step reads the prompt if it runs other kernels than the later ones, which run the same or
# are so much less busy.
_BUSIER, _SAME_KERNELS, _CLEARLY = 1.5, 0.7, 0.15
# Of an inferred first step: no less like the usual one than but a few are, and no longer busy than
# any other but for a clock that rises.
_FEW, _LONGER = 0.05, 1.1


@dataclass(frozen=True)
class Kind:
    """What the steps are and why, and the phase of each step.

    kind: one of `KINDS`. why: the evidence in words.
    """

    kind: str
    why: str
    phase: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Seen:
    """What the steps are told by: the trace, its ops, the marks and their host windows.

    op_step: for each op in `links` its step.
    """

    trace: Trace
    links: Links
    marks: Marks
    start: Ints
    end: Ints
    op_step: Ints

    def shaped(self, step: int, pattern: re.Pattern[str]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Name and dimensions of a step's ops of such names, where shapes were recorded.

        Windows that were inferred begin with a launch call, so an op is where it ends.
        """
        trace = self.trace
        rows, shape = trace.op.rows, trace.op.shape
        ended = trace.start[rows] + trace.dur[rows]
        inside = (shape >= 0) & (ended > self.start[step]) & (ended <= self.end[step])
        for index in np.flatnonzero(inside).tolist():
            name = trace.name_of(int(rows[index]))
            if pattern.match(name):
                yield name, trace.shapes[int(shape[index])].dims

    def begin_in(self, at: Ints, steps: list[int] | slice) -> npt.NDArray[np.bool_]:
        """For each of the steps whether one of the instants lies in its host window."""
        at = np.sort(at)
        start, end = self.start[steps], self.end[steps]
        return np.asarray(np.searchsorted(at, end) > np.searchsorted(at, start))

    def share(self, steps: list[int], sign: npt.NDArray[np.bool_]) -> float:
        """Share of the steps in whose host window a call with the sign begins."""
        assert self.marks.sequence is not None
        if not steps:
            return 0.0
        return float(self.begin_in(self.marks.sequence.start[sign], steps).mean())

    def ops(self, step: int) -> Counter[int]:
        """How often each name code occurs among the GPU ops of a step."""
        return Counter(self.trace.name[self.links.row[self.op_step == step]].tolist())


def kind_of(
    trace: Trace,
    links: Links,
    marks: Marks,
    windows: tuple[Ints, Ints],
    op_step: Ints,
    busy_ns: Ints,
) -> Kind:
    """The kind of the steps whose host windows are given, and each step's phase.

    op_step: for each op in `links` its step. busy_ns: of each step's GPU window.
    """
    seen = _Seen(trace, links, marks, *windows, op_step)
    labels = [label.phase for label in marks.label]
    kind, why = _decided(seen, labels)
    if kind != DECODE:
        # A word that the ops do not bear out.
        labels = [None if label == DECODE else label for label in labels]
    phase = [label or kind for label in labels]
    if kind == DECODE and all(label is None for label in labels):
        for step in _prefills(seen, busy_ns):
            phase[step] = PREFILL
    # Nothing that a step launches in which a graph is captured is part of a step that runs.
    captures = rows_named(trace, _CAPTURE_CALL.search, Cat.RUNTIME)
    for step in np.flatnonzero(seen.begin_in(trace.start[captures], slice(None))).tolist():
        phase[step] = CAPTURE
    return Kind(kind, why, tuple(phase))


def _decided(seen: _Seen, labels: list[str | None]) -> tuple[str, str]:
    marks = seen.marks
    if why := _trains(seen.trace, seen.links):
        return TRAINING, why
    if DECODE in labels and not marks.word:
        return DECODE, "an engine's label says decode"
    if marks.rule == "gaptrace marks":
        return DECODE, "gaptrace's own marks stand around decode steps"
    if all(labels) and not marks.word and labels:
        return INFERENCE, "the labels say no decode"
    if len(marks) == 0 or marks.sequence is None:
        return INFERENCE, "nothing shows that a token is made"
    steps = [i for i in range(len(marks)) if labels[i] in (None, DECODE)]
    if marks.drafts:
        return DECODE, "each step checks drafts and counts those that are accepted"
    length = _query_length(seen, steps)
    if marks.word and length != "many" and not _convolves(seen.trace):
        return DECODE, "the marks' own word says so"
    heads = seen.share(steps, marks.sequence.head)
    picks = seen.share(steps, marks.sequence.pick | marks.sequence.weak_pick)
    if max(heads, picks) < _MOSTLY or length == "many":
        return INFERENCE, "no step is seen to make one token per sequence"
    if length == "one":
        return DECODE, "each step reads one token per sequence and " + _what(heads, picks)
    if _has_decode_kernels(seen, steps):
        return DECODE, "kernels made for one query per sequence, and " + _what(heads, picks)
    strong = seen.share(steps, marks.sequence.pick)
    loops = min(heads, strong) >= _MOSTLY and len(steps) > 1
    if loops and not _fed_from_host(seen):
        return DECODE, "each step looks an embedding up and picks the next token"
    return INFERENCE, "no step is seen to make one token per sequence"


def _what(heads: float, picks: float) -> str:
    return "looks an embedding up" if heads >= picks else "picks the next token"


def _trains(trace: Trace, links: Links) -> str:
    ops = trace.names_of(Cat.CPU_OP, Cat.ANNOTATION)
    if any(_BACKWARD_OP.match(trace.names[int(code)]) for code in ops):
        return "the steps run a backward pass or an optimizer"
    if trace.rows_of(Cat.CPU_OP).size:
        return ""
    kernels = trace.name[links.row[links.cat == Cat.KERNEL]]
    found = names_where(trace, kernels, _BACKWARD_KERNEL.search).any()
    return "kernels of a backward pass run" if found else ""


def _convolves(trace: Trace) -> bool:
    """Whether images are worked on: models of text convolve along the sequence at most."""
    ops = (trace.names[int(code)] for code in trace.names_of(Cat.CPU_OP))
    return any(_CONVOLUTION.match(name) for name in ops)


# Shapes --------------------------------------------------------------------------------------


_ASKED = re.compile(
    r"aten::_?scaled_dot_product\w*attention\w*$|aten::embedding$|aten::(?:linear|mm|addmm)$"
)


def _is_size(dims: Any) -> bool:
    return isinstance(dims, (list, tuple)) and bool(dims) and all(type(n) is int for n in dims)


def _query_length(seen: _Seen, steps: list[int]) -> str:
    """`one` or `many` tokens per sequence and step by the recorded shapes, else `unknown`."""
    if not (seen.trace.op.shape >= 0).any() or not steps:
        return "unknown"
    chosen = steps[:: max(1, len(steps) // _SAMPLED)][-_SAMPLED:]
    votes = Counter(_length_in(seen, step) for step in chosen)
    if _grows(seen, steps):
        return "one"
    votes.pop("unknown", None)
    return votes.most_common(1)[0][0] if votes else "unknown"


def _length_in(seen: _Seen, step: int) -> str:
    queries, indices, rows = [], [], []
    for name, dims in seen.shaped(step, _ASKED):
        if _ATTENTION.match(name):
            if dims and _is_size(dims[0]) and len(dims[0]) >= 3:
                queries.append(dims[0][-2])
        elif name == "aten::embedding":
            if len(dims) > 1 and _is_size(dims[1]) and len(dims[1]) > 1:
                indices.append(dims[1][-1])
        else:
            left = dims[1] if name == "aten::addmm" and len(dims) > 1 else dims[0] if dims else ()
            if _is_size(left):
                rows.append(prod(left[:-1]))
    for lengths in (queries, indices):
        if lengths:
            return "one" if sum(n == 1 for n in lengths) > 0.5 * len(lengths) else "many"
    if rows:
        middle = sorted(rows)[len(rows) // 2]
        return "one" if middle <= _FEW_ROWS else "many" if middle > _MANY_ROWS else "unknown"
    return "unknown"


_EMBEDDING = re.compile(r"aten::embedding$")


def _read(seen: _Seen, step: int) -> int:
    """Tokens whose embedding a step looks up, by the largest look-up; 0 where unknown."""
    found = seen.shaped(step, _EMBEDDING)
    return max((prod(d[1]) for _, d in found if len(d) > 1 and _is_size(d[1])), default=0)


def _grows(seen: _Seen, steps: list[int]) -> bool:
    """Whether each step reads one token per sequence more than the one before: no cache."""
    read = np.array([_read(seen, step) for step in steps[: 4 * _SAMPLED]])
    if read.size < 3 or (read == 0).any():
        return False
    more = np.diff(read)
    return bool(more[0] > 0 and (more == more[0]).mean() >= _MOSTLY)


# Kernels and copies --------------------------------------------------------------------------


def _has_decode_kernels(seen: _Seen, steps: list[int]) -> bool:
    trace, links, op_step = seen.trace, seen.links, seen.op_step
    kernel = (links.cat == Cat.KERNEL) & np.isin(op_step, steps)
    name = trace.name[links.row[kernel]]
    made = names_where(trace, name, _DECODE_KERNEL.search)
    return len(set(op_step[kernel][made].tolist())) >= _MOSTLY * len(steps)


def _fed_from_host(seen: _Seen) -> bool:
    """Whether what is copied to the device in a step is much more than what comes back."""
    trace, links, op_step = seen.trace, seen.links, seen.op_step
    copies = np.flatnonzero((links.cat == Cat.MEMCPY) & (op_step >= 0))
    name = trace.name[links.row[copies]]
    moved = trace.gpu.bytes[np.searchsorted(trace.gpu.rows, links.row[copies])]
    count = int(op_step.max(initial=-1)) + 1
    totals = [
        np.bincount(
            op_step[copies][chosen], weights=moved[chosen].astype(np.float64), minlength=count
        )
        for chosen in (names_where(trace, name, way) for way in (is_from_host, is_to_host))
    ]
    if count == 0 or not totals[0].any():
        return False
    fed, back = (float(np.median(total)) for total in totals)
    return fed > _FED_RATIO * max(back, 8.0)


# Prefill -------------------------------------------------------------------------------------


def _prefills(seen: _Seen, busy_ns: Ints) -> list[int]:
    """Steps without a label that read a prompt: more tokens than the others, or other kernels."""
    marks, count = seen.marks, len(seen.marks)
    if count < 3:
        return []
    if (seen.trace.op.shape >= 0).any():
        if _grows(seen, list(range(count))):
            return []
        read = [_read(seen, step) for step in range(count)]
        known = [tokens for tokens in read if tokens]
        if len(known) > 0.5 * count:
            usual = Counter(known).most_common(1)[0][0]
            return [step for step, tokens in enumerate(read) if tokens > usual]
    if marks.row[0] < 0:
        return _unlike_the_later(seen, busy_ns)
    if 0 in marks.odd:
        return [0]
    middle = seen.ops(count // 2)
    first, second = (_in_common(seen.ops(step), middle) for step in (0, 1))
    busier = busy_ns[0] > _BUSIER * float(np.median(busy_ns))
    return [0] if first < _SAME_KERNELS and (busier or second > first + _CLEARLY) else []


def _unlike_the_later(seen: _Seen, busy_ns: Ints) -> list[int]:
    """The first step, unless it runs the same kernels in the same time as the later ones do.

    Nothing marks it as decode, and a recording mostly begins with a prompt, whose pass does the
    same ops with other kernels, or with longer ones. Later steps that are more like it than like
    the others read a prompt as well.
    """
    count = len(seen.marks)
    ops = [seen.ops(step) for step in range(count)]
    common = np.array([_in_common(own, ops[count // 2]) for own in ops])
    steps_with = Counter(name for own in ops for name in own)
    alone = np.array([sum(steps_with[name] == 1 for name in own) for own in ops])
    later = slice(1, max(count - 1, 2))  # the last one is open
    if (
        0 not in seen.marks.odd
        and common[0] >= float(np.quantile(common[later], _FEW, method="lower"))
        and alone[0] <= alone[later].max()
        and busy_ns[0] <= _LONGER * int(busy_ns[later].max())
    ):
        return []
    return [0] + [
        step
        for step in range(1, count)
        if _in_common(ops[step], ops[0]) > max(common[step], _SAME_KERNELS)
    ]


def _in_common(left: Counter[int], right: Counter[int]) -> float:
    return 2 * (left & right).total() / max(left.total() + right.total(), 1)
