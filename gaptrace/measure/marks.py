"""Where the decode steps are: the first rule that matches any mark decides.

In order: a regular expression from the user; gaptrace's own marks; labels of serving engines;
`ProfilerStep#N`; other annotations that repeat; repeated compiled regions; one period per
repeating kernel or graph-launch sequence; else the whole trace is one window.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gaptrace.errors import OptionError
from gaptrace.measure.labels import Label, marks_step, read_label
from gaptrace.measure.links import Links, codes_in, names_where, rank_codes, rows_named
from gaptrace.measure.period import period_starts
from gaptrace.trace import Cat, Ints, Trace

GAPTRACE_MARK = re.compile(r"gaptrace\.step#\d+")
PROFILER_MARK = re.compile(r"ProfilerStep#\d+|ProfilerStep\*")
COMPILED_REGION = re.compile(r"## Call CompiledFxGraph |Torch-Compiled Region|CompiledFunction")
# Annotations that libraries record on their own: they repeat, but they are not steps.
LIBRARY_MARK = re.compile(
    r"nccl:|gloo:|mpi:|ucc:|c10d::|record_param_comms|Optimizer\.|enumerate\(DataLoader\)"
    r"|DistributedDataParallel\.|FSDP::|PyTorch Profiler"
)

RULES = (
    "--step",
    "gaptrace marks",
    "engine labels",
    "ProfilerStep",
    "repeated annotations",
    "compiled regions",
    "repeating kernels",
    "whole trace",
)


@dataclass(frozen=True, eq=False)
class Marks:
    """The marks of the steps, in time order, none inside another.

    rule: one of `RULES`. start, end: ns. lane: code of the thread the mark is on, -1 where the
    marks were inferred from kernels. row: event row of the mark, -1 where inferred. label: what
    the mark's text (or a text nested in it) says about phase and tokens.
    """

    rule: str
    start: Ints
    end: Ints
    lane: Ints
    row: Ints
    label: tuple[Label, ...]

    def __len__(self) -> int:
        return int(self.start.size)


def find_marks(trace: Trace, links: Links, step: str | None = None) -> Marks:
    """The step marks for the ops in `links` (one device), by the first rule that matches.

    Raises:
        OptionError: `step` is not a regular expression, or no event's name matches it.
    """
    if step is not None:
        return _marks_by_option(trace, links, step)
    for rule, is_mark in (
        ("gaptrace marks", GAPTRACE_MARK.match),
        ("engine labels", marks_step),
        ("ProfilerStep", PROFILER_MARK.match),
    ):
        rows = _host_rows(trace, links, is_mark)
        if rows.size:
            return _marks(trace, rule, _outermost(trace, links, rows))
    rows = _repeated(trace, links, _rank_rows(trace, links, trace.rows_of(Cat.ANNOTATION)))
    if rows.size:
        return _marks(trace, "repeated annotations", rows)
    regions = _host_rows(trace, links, COMPILED_REGION.match)
    rows = _most_frequent(trace, _outermost(trace, links, regions), links)
    if rows.size:
        return _marks(trace, "compiled regions", rows)
    starts = period_starts(trace, links)
    if starts.size:
        ends = np.append(starts[1:], _last_instant(trace, links))
        return _inferred("repeating kernels", starts, ends)
    if links.row.size == 0:
        return _inferred("whole trace", np.empty(0, np.int64), np.empty(0, np.int64))
    known = links.launched
    first = int(min(links.start.min(), trace.start[links.launch[known]].min(initial=2**62)))
    return _inferred("whole trace", np.array([first]), np.array([_last_instant(trace, links)]))


def _marks_by_option(trace: Trace, links: Links, step: str) -> Marks:
    try:
        pattern = re.compile(step)
    except re.error as error:
        raise OptionError(
            f"--step {step!r} is not a regular expression: {error}",
            "quote special characters, for example --step 'decode_step#\\d+'",
        ) from error
    for cats in ((Cat.ANNOTATION,), (Cat.CPU_OP,), (Cat.PYTHON,)):
        rows = _rank_rows(trace, links, rows_named(trace, pattern.search, *cats))
        if rows.size:
            return _marks(trace, "--step", _outermost(trace, links, rows))
    names = sorted({trace.name_of(int(r)) for r in trace.rows_of(Cat.ANNOTATION)})[:5]
    raise OptionError(
        f"no annotation, op or Python frame matches --step {step!r}",
        "annotations in this trace: " + (", ".join(names) if names else "none"),
    )


def _host_rows(trace: Trace, links: Links, is_mark: Callable[[str], object]) -> Ints:
    """Annotations and ops of such names; before 2022 annotations were recorded as ops."""
    return _rank_rows(trace, links, rows_named(trace, is_mark, Cat.ANNOTATION, Cat.CPU_OP))


def _rank_rows(trace: Trace, links: Links, rows: Ints) -> Ints:
    """Those rows whose lane belongs to a rank that the ops in `links` belong to."""
    if links.row.size == 0:
        return rows
    own = np.isin(rank_codes(trace), codes_in(links.rank))
    return rows if own.all() else rows[own[trace.lane[rows]]]


def _outermost(trace: Trace, links: Links, rows: Ints) -> Ints:
    """The rows that no other of them contains, on the one thread that matters most.

    Marks on several threads at once would tile the time twice; the thread whose marks hold the
    most launch calls is kept, then the one with the most marks.
    """
    if rows.size == 0:
        return rows
    lanes = trace.lane[rows]
    launch_start = np.sort(trace.start[links.calls], kind="stable")
    best: tuple[int, int, int] = (-1, -1, 0)
    for lane in np.unique(lanes):
        here = rows[lanes == lane]
        inside = np.searchsorted(launch_start, trace.start[here] + trace.dur[here]) - (
            np.searchsorted(launch_start, trace.start[here])
        )
        best = max(best, (int((inside > 0).sum()), here.size, -int(lane)))
    rows = rows[lanes == -best[2]]
    start, end = trace.start[rows], trace.start[rows] + trace.dur[rows]
    order = np.lexsort((rows, -end, start))
    rows, start, end = rows[order], start[order], end[order]
    reach = np.maximum.accumulate(end)
    inner = np.concatenate(([False], (start[1:] < reach[:-1]) & (end[1:] <= reach[:-1])))
    return rows[~inner]


def _repeated(trace: Trace, links: Links, host: Ints) -> Ints:
    """Annotations whose text, digits removed, occurs more than once; the group that launches most.

    Nesting is resolved before groups are compared, so an inner annotation that repeats within
    each step never beats the step around it.
    """

    def candidate(name: str) -> bool:
        return not (COMPILED_REGION.match(name) or LIBRARY_MARK.match(name))

    rows = host[names_where(trace, trace.name[host], candidate)]
    key = _digitless(trace, rows)
    repeats = np.isin(
        key, [k for k, n in zip(*np.unique(key, return_counts=True), strict=True) if n > 1]
    )
    return _most_frequent(trace, _outermost(trace, links, rows[repeats]), links)


def _digitless(trace: Trace, rows: Ints) -> Ints:
    keys: dict[str, int] = {}
    codes = {
        int(code): keys.setdefault(re.sub(r"\d+", "", trace.names[int(code)]), len(keys))
        for code in np.unique(trace.name[rows])
    }
    return np.fromiter((codes[int(code)] for code in trace.name[rows]), np.int64, rows.size)


def _most_frequent(trace: Trace, rows: Ints, links: Links) -> Ints:
    """Of rows grouped by text without digits, the repeating group with most launch calls inside."""
    if rows.size == 0:
        return rows
    launch_start = np.sort(trace.start[links.calls], kind="stable")
    key = _digitless(trace, rows)
    inside = np.searchsorted(launch_start, trace.start[rows] + trace.dur[rows]) - (
        np.searchsorted(launch_start, trace.start[rows])
    )
    best, best_key = (-1, -1), -1
    for k in np.unique(key):
        members = key == k
        working = int((inside[members] > 0).sum())
        if members.sum() < 2 or (launch_start.size and working < max(2, 0.5 * members.sum())):
            continue
        score = (int(inside[members].sum()), int(trace.dur[rows[members]].sum()))
        if score > best:
            best, best_key = score, int(k)
    return rows[key == best_key] if best_key >= 0 else rows[:0]


def _marks(trace: Trace, rule: str, rows: Ints) -> Marks:
    order = np.lexsort((rows, trace.start[rows]))
    rows = rows[order]
    start, end = trace.start[rows], trace.start[rows] + trace.dur[rows]
    return Marks(
        rule=rule,
        start=start,
        end=end,
        lane=trace.lane[rows].astype(np.int64),
        row=rows,
        label=_labels(trace, rows, start, end),
    )


def _labels(trace: Trace, rows: Ints, start: Ints, end: Ints) -> tuple[Label, ...]:
    """Each mark's label; where its own text says nothing, a text nested in it on its thread may."""
    read = _cached(read_label)
    labels = [read(trace.name_of(int(row))) for row in rows]
    inner = rows_named(trace, lambda name: read(name).known, Cat.ANNOTATION)
    for i, (row, label) in enumerate(zip(rows, labels, strict=True)):
        if label.known and label.tokens is not None:
            continue
        nested = inner[
            (inner != row)
            & (trace.lane[inner] == trace.lane[row])
            & (trace.start[inner] >= start[i])
            & (trace.start[inner] + trace.dur[inner] <= end[i])
        ]
        for other in nested:
            labels[i] = labels[i].filled_from(read(trace.name_of(int(other))))
    return tuple(labels)


def _cached(function: Callable[[str], Label]) -> Callable[[str], Label]:
    known: dict[str, Label] = {}

    def read(name: str) -> Label:
        if name not in known:
            known[name] = function(name)
        return known[name]

    return read


def _inferred(rule: str, starts: Ints, ends: Ints) -> Marks:
    none = np.full(starts.size, -1, np.int64)
    return Marks(
        rule, starts.astype(np.int64), ends.astype(np.int64), none, none, (Label(),) * starts.size
    )


def _last_instant(trace: Trace, links: Links) -> int:
    known = links.launched
    calls = links.launch[known]
    last_call = int((trace.start[calls] + trace.dur[calls]).max(initial=0))
    return max(last_call, int(links.end.max(initial=0))) + 1
