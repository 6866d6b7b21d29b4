"""Where the steps are: the first rule that matches any mark decides, and the ops are asked too.

In order: a regular expression from the user; gaptrace's own marks; labels of serving engines;
`ProfilerStep#N`; other annotations that repeat; Python frames that run one pass of an engine;
repeated compiled regions; one period per repeating token, kernel or graph-launch sequence; else
the whole trace is one window. What the launch sequence says about the marks is in marks_check.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from gaptrace.errors import OptionError
from gaptrace.knowledge.engines import engines
from gaptrace.measure.iterations import engine_steps
from gaptrace.measure.labels import DECODE, PREFILL, Label, marks_step, read_label
from gaptrace.measure.links import Links, codes_in, names_where, rank_codes, rows_named
from gaptrace.measure.marks_check import Check, check_marks
from gaptrace.measure.period import Repetition, passes, periods_of, tokens_of
from gaptrace.measure.sequence import Sequence, sequence
from gaptrace.measure.turns import holding, in_turn, nested, outermost
from gaptrace.trace import Cat, Ints, Trace

GAPTRACE_MARK = re.compile(r"gaptrace\.step#\d+")
PROFILER_MARK = re.compile(r"ProfilerStep#\d+|ProfilerStep\*")
COMPILED_REGION = re.compile(r"## Call CompiledFxGraph |Torch-Compiled Region|CompiledFunction")
# Annotations that libraries record on their own: they repeat, but they are not steps.
LIBRARY_MARK = re.compile(
    r"nccl:|gloo:|mpi:|ucc:|c10d::|record_param_comms|Optimizer\.|enumerate\(DataLoader\)"
    r"|DistributedDataParallel\.|FSDP::|PyTorch Profiler"
)
# Words by which people call a mark what it is.
DECODE_WORD = re.compile(
    r"(?<![a-z])(?:decode|decoding|generate|generation|(?:next_?|new_?)?token)s?"
    r"(?:[ _\-./]?(?:step|token|next|new|one|iter|iteration|loop|forward|batch|phase|graph|replay"
    r"|model|run|pass|fn))*(?![ _\-./]?[a-z])",
    re.IGNORECASE,
)
PREFILL_WORD = re.compile(
    r"(?<![a-z])(?:prefill|prompt|context|pre_fill|encode_prompt)(?![a-z])", re.IGNORECASE
)
# The number by which a mark counts steps, at the end of its text or after the engine's word.
_NUMBER = re.compile(r"_forward_step (\d+)|#(\d+)$|[ _\-:](\d+)$|(\d+)$", re.ASCII)

RULES = (
    "--step",
    "gaptrace marks",
    "engine labels",
    "ProfilerStep",
    "repeated annotations",
    "Python frames",
    "compiled regions",
    "repeating kernels",
    "whole trace",
)


@dataclass(frozen=True, eq=False)
class Marks:
    """The marks of the steps, in time order, none inside another.

    rule: one of `RULES`. start, end: ns. lane: code of the thread the mark is on, -1 where the
    marks were inferred from kernels. row: event row of the mark, -1 where inferred. label: what
    the mark's text (or a text nested in it) says about phase and tokens. number: the number in the
    mark's text where marks count themselves, else empty. odd: steps that are unlike the others.
    word: the marks' own word says that they decode. drafts: the steps check drafts. check: what the
    launch sequence says. sequence: the one that was asked, None for marks made by hand.
    """

    rule: str
    start: Ints
    end: Ints
    lane: Ints
    row: Ints
    label: tuple[Label, ...]
    number: tuple[int, ...] = ()
    odd: tuple[int, ...] = ()
    word: bool = False
    drafts: bool = False
    check: Check = field(default_factory=Check)
    sequence: Sequence | None = None

    def __len__(self) -> int:
        return int(self.start.size)


def find_marks(trace: Trace, links: Links, step: str | None = None) -> Marks:
    """The step marks for the ops in `links` (one process), by the first rule that matches.

    Raises:
        OptionError: `step` is not a regular expression, or no event's name matches it.
    """
    seq = sequence(trace, links)
    tokens = tokens_of(seq)
    marks = replace(_by_rule(trace, links, seq, tokens, step), sequence=seq)
    return _drafting(_checked(trace, links, marks, tokens), seq)


def _checked(trace: Trace, links: Links, marks: Marks, tokens: Repetition | None) -> Marks:
    """The marks as the launch sequence has them."""
    seq = marks.sequence
    if seq is None or marks.rule in ("repeating kernels", "whole trace"):
        return marks
    repeats = tokens
    if repeats is None and marks.rule == "compiled regions":
        repeats = periods_of(seq)
    may_change = marks.rule not in ("--step", "engine labels") and trace.run is None
    changed = check_marks(
        seq, repeats, marks.start, marks.end, _countable(marks), may_change=may_change
    )
    marks = replace(marks, check=changed.check)
    if changed.start is None or repeats is None:
        return marks
    return _from_sequence(marks, changed.start, changed.odd, _last_instant(trace, links))


def _drafting(marks: Marks, seq: Sequence) -> Marks:
    """The marks with the fewest and the most tokens of each iteration that checks drafts.

    One token at least, the model's own. At most one for each pass of a model, if the drafts are
    made by passes too; else nothing says how many there were.
    """
    if not seq.accept.any() or any(label.known or label.phase for label in marks.label):
        return marks

    def held(at: Ints) -> Ints:
        instants = np.append(seq.start[at], np.iinfo(np.int64).max)
        place = np.searchsorted(instants, marks.start)
        return np.diff(np.append(place, at.size))

    counts, models = held(np.flatnonzero(seq.accept)), held(passes(seq))
    if (counts > 1).any() or counts.mean() <= 0.5:
        return marks
    labels = [
        replace(label, tokens_low=1, tokens_high=int(count) if count > 1 else None)
        for label, count in zip(marks.label, models, strict=True)
    ]
    return replace(marks, label=tuple(labels), drafts=True)


def _by_rule(
    trace: Trace, links: Links, seq: Sequence, tokens: Repetition | None, step: str | None
) -> Marks:
    if step is not None:
        return _marks_by_option(trace, links, step)
    rows = _host_rows(trace, links, GAPTRACE_MARK.match)
    if rows.size:
        return _marks(trace, "gaptrace marks", in_turn(trace, links, rows))
    if rows_named(trace, marks_step, Cat.ANNOTATION, Cat.CPU_OP).size or _captures(trace).size:
        found = engine_steps(trace, links, _host_rows(trace, links, _has_role))
        if found.row.size:
            return _counted(
                trace,
                Marks(
                    "engine labels",
                    found.start,
                    found.end,
                    trace.lane[found.row].astype(np.int64),
                    found.row,
                    found.label,
                ),
            )
    rows = _host_rows(trace, links, PROFILER_MARK.match)
    if rows.size:
        return _marks(trace, "ProfilerStep", in_turn(trace, links, rows))
    marks = _repeated(trace, links, seq, tokens)
    if marks is not None:
        return marks
    frames = _engine_frames(trace, links)
    if frames.size:
        return _marks(trace, "Python frames", frames)
    regions = _host_rows(trace, links, COMPILED_REGION.match)
    rows = _most_frequent(trace, outermost(trace, in_turn(trace, links, regions)), links)
    if rows.size:
        return _marks(trace, "compiled regions", rows)
    return _unmarked(trace, links, seq, tokens)


def _unmarked(trace: Trace, links: Links, seq: Sequence, tokens: Repetition | None) -> Marks:
    repeats = tokens if tokens is not None and tokens.first.size >= 3 else periods_of(seq)
    last = _last_instant(trace, links)
    if repeats is not None:
        starts = seq.start[repeats.first]
        marks = _inferred("repeating kernels", starts, np.append(starts[1:], last))
        return replace(marks, odd=tuple(np.flatnonzero(~repeats.alike).tolist()))
    if links.row.size == 0:
        return _inferred("whole trace", np.empty(0, np.int64), np.empty(0, np.int64))
    known = links.launched
    first = int(min(links.start.min(), trace.start[links.launch[known]].min(initial=2**62)))
    return _inferred("whole trace", np.array([first]), np.array([last]))


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
            return _marks(trace, "--step", in_turn(trace, links, rows))
    names = sorted({trace.name_of(int(r)) for r in trace.rows_of(Cat.ANNOTATION)})[:5]
    raise OptionError(
        f"no annotation, op or Python frame matches --step {step!r}",
        "annotations in this trace: " + (", ".join(names) if names else "none"),
    )


def _has_role(name: str) -> bool:
    return read_label(name).role not in (None, "part")


def _captures(trace: Trace) -> Ints:
    return rows_named(trace, lambda name: read_label(name).role == "capture", Cat.ANNOTATION)


def _host_rows(trace: Trace, links: Links, is_mark: Callable[[str], object]) -> Ints:
    """Annotations and ops of such names; before 2022 annotations were recorded as ops."""
    return _rank_rows(trace, links, rows_named(trace, is_mark, Cat.ANNOTATION, Cat.CPU_OP))


def _rank_rows(trace: Trace, links: Links, rows: Ints) -> Ints:
    """Those rows whose lane belongs to a rank that the ops in `links` belong to."""
    if links.row.size == 0:
        return rows
    own = np.isin(rank_codes(trace), codes_in(links.rank))
    return rows if own.all() else rows[own[trace.lane[rows]]]


def _engine_frames(trace: Trace, links: Links) -> Ints:
    """Python frames in which an engine runs one pass, of the first engine that has any."""
    for engine in engines():
        if engine.step_frame is None:
            continue
        rows = _rank_rows(trace, links, rows_named(trace, engine.step_frame.search, Cat.PYTHON))
        rows = outermost(trace, in_turn(trace, links, rows)) if rows.size else rows
        if rows.size > 1:
            return rows
    return np.empty(0, np.int64)


# Annotations ---------------------------------------------------------------------------------


def _repeated(trace: Trace, links: Links, seq: Sequence, tokens: Repetition | None) -> Marks | None:
    """Of annotations whose text, digits removed, occurs more than once the group that decodes.

    Groups are ranked by their own word, by holding one token each, by replaying graphs, and only
    then by how much they launch. Nesting is resolved before groups are compared, so an inner
    annotation that repeats within each step never beats the step around it, unless the outer one
    holds several of those that say they decode. Annotations that say prefill are steps beside
    those that decode.
    """
    host = _rank_rows(trace, links, trace.rows_of(Cat.ANNOTATION))

    def candidate(name: str) -> bool:
        return not (COMPILED_REGION.match(name) or LIBRARY_MARK.match(name))

    rows = host[names_where(trace, trace.name[host], candidate)]
    key = _digitless(trace, rows)
    keys, counts = np.unique(key, return_counts=True)
    rows = rows[np.isin(key, keys[counts > 1])]
    if rows.size == 0:
        return None
    top = outermost(trace, in_turn(trace, links, rows))
    wording = rows[names_where(trace, trace.name[rows], DECODE_WORD.search)]
    groups = [top[_digitless(trace, top) == k] for k in np.unique(_digitless(trace, top))]
    groups += [
        in_turn(trace, links, wording[_digitless(trace, wording) == k])
        for k in np.unique(_digitless(trace, wording))
    ]
    scored = [
        (score, -index)
        for index, group in enumerate(groups)
        if (score := _score(trace, links, seq, tokens, group, groups)) is not None
    ]
    if not scored:
        return None
    chosen = groups[-max(scored)[1]]
    word = bool(DECODE_WORD.search(trace.name_of(int(chosen[0]))))
    beside = _prefills(trace, host, chosen) if word else chosen[:0]
    marks = _marks(trace, "repeated annotations", np.concatenate((chosen, beside)))
    if not word:
        return marks
    prefill = set(beside.tolist())
    labels = tuple(
        label if label.phase else replace(label, phase=PREFILL if int(row) in prefill else DECODE)
        for row, label in zip(marks.row, marks.label, strict=True)
    )
    return replace(marks, label=labels, word=True)


Score = tuple[bool, bool, bool, int, int]


def _score(
    trace: Trace,
    links: Links,
    seq: Sequence,
    tokens: Repetition | None,
    group: Ints,
    groups: list[Ints],
) -> Score | None:
    """How much the spans of a group look like steps; None where they launch nothing."""
    inside = holding(np.sort(trace.start[links.calls], kind="stable"), trace, group)
    working = int((inside > 0).sum())
    if group.size < 2 or (links.calls.size and working < max(2, 0.5 * group.size)):
        return None
    name = trace.name_of(int(group[0]))
    word = bool(DECODE_WORD.search(name)) and not any(
        _holds_several(trace, group, other) for other in groups if other is not group
    )
    one = False
    if tokens is not None:
        begun = holding(np.sort(seq.start[tokens.sign]), trace, group)
        one = float((begun == 1).mean()) >= 0.9
    replays = np.unique(links.launch[links.replayed])
    replaying = holding(np.sort(trace.start[replays], kind="stable"), trace, group) > 0
    span = int(trace.dur[group].sum())
    return (word, one, bool(replaying.mean() >= 0.5), int(inside.sum()), span)


def _holds_several(trace: Trace, outer: Ints, inner: Ints) -> bool:
    """Whether spans of the outer group mostly hold several of an inner one that says it decodes."""
    if not DECODE_WORD.search(trace.name_of(int(inner[0]))):
        return False
    return float(np.median(holding(np.sort(trace.start[inner]), trace, outer))) >= 2


def _prefills(trace: Trace, host: Ints, chosen: Ints) -> Ints:
    """Annotations that say prefill, outside and beside the chosen ones."""
    rows = host[names_where(trace, trace.name[host], PREFILL_WORD.search)]
    rows = rows[np.isin(trace.lane[rows], trace.lane[chosen])]
    if rows.size == 0:
        return rows
    rows = outermost(trace, rows)
    start = np.sort(trace.start[chosen])
    end = np.sort(trace.start[chosen] + trace.dur[chosen])
    before = np.searchsorted(end, trace.start[rows], side="right")
    after = np.searchsorted(start, trace.start[rows] + trace.dur[rows], side="left")
    return rows[before >= after]


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
    key = _digitless(trace, rows)
    inside = holding(np.sort(trace.start[links.calls], kind="stable"), trace, rows)
    best, best_key = (-1, -1), -1
    for k in np.unique(key):
        members = key == k
        working = int((inside[members] > 0).sum())
        if members.sum() < 2 or (links.calls.size and working < max(2, 0.5 * members.sum())):
            continue
        score = (int(inside[members].sum()), int(trace.dur[rows[members]].sum()))
        if score > best:
            best, best_key = score, int(k)
    return rows[key == best_key] if best_key >= 0 else rows[:0]


# Making marks --------------------------------------------------------------------------------


def _marks(trace: Trace, rule: str, rows: Ints) -> Marks:
    order = np.lexsort((rows, trace.start[rows]))
    rows = rows[order]
    start, end = trace.start[rows], trace.start[rows] + trace.dur[rows]
    return _counted(
        trace,
        Marks(
            rule=rule,
            start=start,
            end=end,
            lane=trace.lane[rows].astype(np.int64),
            row=rows,
            label=_labels(trace, rows),
        ),
    )


def _counted(trace: Trace, marks: Marks) -> Marks:
    """The marks with their numbers, where these count up by one nearly everywhere."""
    if len(marks) < 3:
        return marks
    numbers = []
    for row in marks.row.tolist():
        found = _NUMBER.search(trace.name_of(row))
        if found is None:
            return marks
        numbers.append(int(next(text for text in found.groups() if text)))
    steps = np.diff(np.array([min(number, 2**62) for number in numbers], np.int64))
    # Numbers that count go up, and mostly by one: sizes and lengths do not.
    if (steps <= 0).any() or (steps == 1).sum() < 1 or int(np.median(np.sort(steps))) > 64:
        return marks
    return replace(marks, number=tuple(numbers))


def _countable(marks: Marks) -> np.ndarray:
    """Marks that may hold a token of decode: not those that say they do something else."""
    return np.array([label.phase in (None, DECODE) for label in marks.label], np.bool_)


def _from_sequence(marks: Marks, starts: Ints, odd: tuple[int, ...], last: int) -> Marks:
    """Steps of the launch sequence in place of marks that do not mark tokens."""
    place = np.clip(np.searchsorted(marks.start, starts, side="right") - 1, 0, len(marks) - 1)
    none = np.full(starts.size, -1, np.int64)
    numbers: list[int] = []
    if marks.number:
        # Tokens of one mark follow each other; a jump from mark to mark is one between them too.
        jump = 0
        for index, mark in enumerate(place.tolist()):
            before = int(place[index - 1]) if index else mark
            jump += marks.number[mark] - marks.number[before] - (mark - before)
            numbers.append(index + jump)
    same = np.array([marks.label[int(index)].phase for index in place], object)
    return replace(
        marks,
        start=starts.astype(np.int64),
        end=np.append(starts[1:], max(last, int(marks.end.max()))).astype(np.int64),
        lane=marks.lane[place],
        row=none,
        label=tuple(Label(phase=phase) for phase in same),
        number=tuple(numbers),
        odd=odd,
    )


def _labels(trace: Trace, rows: Ints) -> tuple[Label, ...]:
    """Each mark's label; where its own text says nothing, a text nested in it on its thread may."""
    labels = [read_label(trace.name_of(int(row))) for row in rows]
    inner = rows_named(trace, lambda name: read_label(name).known, Cat.ANNOTATION)
    for i, (row, label) in enumerate(zip(rows, labels, strict=True)):
        if label.known and label.tokens is not None:
            continue
        for other in nested(trace, int(row), inner):
            labels[i] = labels[i].filled_from(read_label(trace.name_of(int(other))))
    return tuple(labels)


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
