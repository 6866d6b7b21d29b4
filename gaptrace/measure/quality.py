"""Can the trace be trusted? Each reason why not, and which figures it takes away.

Reasons of level `note` are said and change nothing; `limited` ones weaken or withhold figures;
`refused` ones mean that no number would be right. Raw device figures are never touched.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gaptrace import intervals as iv
from gaptrace.knowledge import runtime_calls
from gaptrace.measure.clocks import Clock
from gaptrace.measure.devices import Device
from gaptrace.measure.gaps import CAUSES
from gaptrace.measure.hosttime import HOST_CLASSES
from gaptrace.measure.kind import INFERENCE, TRAINING
from gaptrace.measure.labels import CAPTURE, DECODE
from gaptrace.measure.links import names_where, rank_codes, rows_named
from gaptrace.measure.steps import Steps
from gaptrace.measure.tokens import ASSUMED
from gaptrace.measure.unread import (
    listed,
    maker,
    unread,
    unread_calls,
    unread_work,
    why_no_gpu_ops,
)
from gaptrace.measure.windows import BETWEEN_REQUESTS, NOT_RECORDED, PAUSE
from gaptrace.quantity import COUNT, NS, SHARE, TRACED, Quantity, Words
from gaptrace.reading.manifest import Manifest
from gaptrace.trace import Cat, Trace

NOTE, LIMITED, REFUSED = "note", "limited", "refused"

# Everything that rests on steps.
STEP_FIGURES = ("steps", "per_token", "rate", "ceilings", "capture", "compile")
SKEW_SHARE, SKEW_LIMIT_NS = 0.01, 10_000
ORPHAN_SHARE = 0.01
PROFILER_SHARE = 0.05
ZERO_TIME_SHARE = 0.10
IMPLAUSIBLE_SHARE, IMPLAUSIBLE_NS = 0.5, 1_000_000_000
FAR_AWAY_NS = 600 * 1_000_000_000
# Repairs of the loader after which single figures can still be right.
HARMLESS_REPAIRS = frozenset(
    {
        "nan_values",
        "trailing_comma",
        "missing_comma",
        "bad_utf8",
        "control_characters",
        "bad_backslash",
        "log_lines",
        "text_after_end",
        "written_twice",
        "merged_processes",
        "joined_recordings",
    }
)
# Marks by these rules are believed only as far as the launch sequence bears them out.
CHECKED_RULES = frozenset({"ProfilerStep", "repeated annotations", "Python frames"})
# Problems of the file after which no link, and so no step, can be trusted.
UNLINKED = frozenset({"ids_collide", "two_writers"})


@dataclass(frozen=True)
class Reason:
    """One thing to know about a trace: a stable id, a sentence, how often, what it withholds.

    words: the sentence; its quantities become text in `gaptrace.analysis.measured`.
    """

    id: str
    words: Words
    level: str = NOTE
    count: int = 1
    withheld: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The sentence, once its quantities are text."""
        if not isinstance(self.words, str):
            raise TypeError(f"the reason {self.id} is not yet put into words")
        return self.words


@dataclass(frozen=True)
class Quality:
    """The verdict `ok`, `limited` or `refused`, and every reason, the gravest first."""

    reasons: tuple[Reason, ...]

    @property
    def verdict(self) -> str:
        """The gravest level among the reasons; notes alone leave a trace `ok`."""
        levels = {reason.level for reason in self.reasons}
        return REFUSED if REFUSED in levels else LIMITED if LIMITED in levels else "ok"

    @property
    def withheld(self) -> frozenset[str]:
        """Names of all figures that must not be shown."""
        return frozenset(name for reason in self.reasons for name in reason.withheld)

    def withholds(self, *names: str) -> bool:
        """Whether any of the names is withheld."""
        return bool(self.withheld.intersection(names))

    def also(self, *reasons: Reason) -> Quality:
        """The same quality with further reasons, the gravest first."""
        return graded((*self.reasons, *reasons))


def graded(reasons: Iterable[Reason]) -> Quality:
    """A quality of these reasons, the gravest first."""
    weight = {REFUSED: 0, LIMITED: 1, NOTE: 2}
    return Quality(tuple(sorted(reasons, key=lambda reason: weight[reason.level])))


def assess(trace: Trace, device: Device | None, steps: Steps | None) -> Quality:
    """The quality of a trace as far as the figures of one device and its steps are concerned."""
    manifest = Manifest(trace.run)
    reasons = [*_of_file(trace), *_of_recorder(manifest)]
    if device is None:
        on_cpu = manifest.device.type == "cpu"
        words, count = why_no_gpu_ops(trace)
        if on_cpu:
            words, count = "recorded on a CPU: of this recording only the unprofiled times count", 1
        reasons.append(Reason("no_gpu_ops", words, REFUSED, count, STEP_FIGURES))
    else:
        if not any(problem.id in UNLINKED for problem in trace.problems):
            reasons += _of_unread(trace)
        reasons += _of_times(trace, device)
        reasons += _of_links(trace, device, steps)
    if device is not None and steps is not None:
        reasons += _of_steps(steps)
        reasons += _of_replays(trace, device, steps)
    return graded(reasons)


def _of_file(trace: Trace) -> Iterator[Reason]:
    for problem in trace.problems:
        level = NOTE if problem.id in HARMLESS_REPAIRS else LIMITED
        hidden = (*STEP_FIGURES, "launches", "causes", "host", "host_dispatch")
        withheld = hidden if problem.id in UNLINKED else ()
        yield Reason(problem.id, problem.text, level, problem.count, withheld)
    if trace.py.rows.size:
        yield Reason(
            "python_stacks",
            "Python stacks were recorded, which slows the host further: idle is an upper bound",
        )
    ranks = {lane.rank for lane in trace.lanes if lane.rank}
    if len(ranks) > 1:
        yield Reason(
            "merged_ranks",
            f"the file holds {len(ranks)} ranks; step figures are those of one device",
            count=len(ranks),
        )


def _of_unread(trace: Trace) -> Iterator[Reason]:
    """Categories of another maker's fork that stand beside the GPU ops that were read."""
    counts = unread(trace)
    calls, work = unread_calls(counts), unread_work(counts)
    if not counts:
        return
    hidden: tuple[str, ...] = ()
    if calls:
        hidden += ("launches", "causes", "host", "host_dispatch")
    if work:
        hidden += ("busy", "idle", "causes")
    whose = maker(trace, counts) if hidden else None
    yield Reason(
        "unread_categories",
        (
            "events of these categories were not read: ",
            *listed(counts),
            f" (the work of {whose})" if whose else "",
        ),
        LIMITED if hidden else NOTE,
        sum(counts.values()),
        tuple(dict.fromkeys(hidden)),
    )


def _of_recorder(manifest: Manifest) -> Iterator[Reason]:
    """What `collect` noted while it recorded: drifting steps, what it switched off or skipped."""
    for note in manifest.run.notes or ():
        yield Reason("recorder", note)


def _of_times(trace: Trace, device: Device) -> Iterator[Reason]:
    links = device.links
    if len(trace) > 20:
        at_zero = int((trace.start == 0).sum())
        if at_zero > ZERO_TIME_SHARE * len(trace):
            yield Reason(
                "times_at_zero",
                (
                    Quantity(at_zero, COUNT),
                    " of ",
                    Quantity(len(trace), COUNT),
                    " events start at the same first instant: their times were lost",
                ),
                REFUSED,
                at_zero,
                STEP_FIGURES,
            )
    dur = links.end - links.start
    zero = int((dur == 0).sum())
    if zero:
        yield Reason("zero_length_ops", "GPU ops of zero length, kept as ops", count=zero)
    longest = int(dur.max(initial=0))
    if longest > max(IMPLAUSIBLE_NS, IMPLAUSIBLE_SHARE * device.span_ns):
        yield Reason(
            "implausible_duration",
            (
                "one GPU op lasts ",
                Quantity(longest, NS, TRACED),
                ", ",
                Quantity(longest / device.span_ns, SHARE, TRACED),
                " of the recording",
            ),
            LIMITED,
            int((dur > max(IMPLAUSIBLE_NS, IMPLAUSIBLE_SHARE * device.span_ns)).sum()),
        )
    host = trace.rows_of(Cat.RUNTIME, Cat.CPU_OP)
    if host.size:
        lo = int(trace.start[host].min()) - FAR_AWAY_NS
        hi = int((trace.start[host] + trace.dur[host]).max()) + FAR_AWAY_NS
        far = int(((links.start > hi) | (links.end < lo)).sum())
        if far:
            yield Reason(
                "far_away",
                "GPU ops lie more than ten minutes from every host event: clocks differ",
                REFUSED if far > 0.5 * links.row.size else LIMITED,
                far,
                STEP_FIGURES if far > 0.5 * links.row.size else ("idle", "causes", "rate"),
            )
    overlaps = _stream_overlaps(trace, device)
    if overlaps:
        yield Reason(
            "stream_overlap",
            "GPU ops overlap an earlier one on their own stream (programmatic dependent launch, "
            "or times that run into the next op); busy time is their union",
            count=overlaps,
        )
    yield from _of_clock(device)


def _of_clock(device: Device) -> Iterator[Reason]:
    """Causality, both ways: ops before their launch call, blocking calls before their op's end."""
    clock = device.clock
    if clock.early:
        grave = clock.early > SKEW_SHARE * device.gpu_ops or clock.largest_early_ns > SKEW_LIMIT_NS
        yield Reason(
            "starts_before_launch",
            (
                "GPU ops start before their launch call, by up to ",
                Quantity(clock.largest_early_ns, NS, TRACED),
                ": the clocks of host and device differ",
                *_offset(clock),
            ),
            LIMITED if grave else NOTE,
            clock.early,
            ("causes",) if grave else (),
        )
    if clock.late:
        grave = clock.late > SKEW_SHARE * clock.blocking or clock.largest_late_ns > SKEW_LIMIT_NS
        yield Reason(
            "clock_skew",
            (
                Quantity(clock.late, COUNT),
                " of ",
                Quantity(clock.blocking, COUNT),
                " blocking calls ended before the GPU work that they wait for, by up to ",
                Quantity(clock.largest_late_ns, NS, TRACED),
                ": the clocks of host and device differ",
                *_offset(clock),
            ),
            LIMITED if grave else NOTE,
            clock.late,
            ("causes",) if grave else (),
        )


def _offset(clock: Clock) -> tuple[str | Quantity, ...]:
    """Which constant offset explains all of the skew, if one does."""
    if not clock.constant:
        return (", and no constant offset explains it",)
    side = "late" if clock.skew_ns > 0 else "early"
    bounds = sorted(abs(bound) for bound in clock.offset_ns if bound is not None)
    low = Quantity(bounds[0], NS, TRACED)
    if len(bounds) > 1 and bounds[1] != bounds[0]:
        by: tuple[str | Quantity, ...] = (low, " to ", Quantity(bounds[1], NS, TRACED))
    else:
        by = ("at least ", low) if len(bounds) < 2 else (low,)
    return (
        f"; a GPU clock that is {side} by ",
        *by,
        " all the time explains all of it",
    )


def _stream_overlaps(trace: Trace, device: Device) -> int:
    index = np.searchsorted(trace.gpu.rows, device.links.row)
    # One number for each stream of each device.
    stream = np.unique(
        np.stack((trace.gpu.stream[index], device.links.device)), axis=1, return_inverse=True
    )[1]
    order = np.lexsort((device.links.start, stream))
    stream, start, end = stream[order], device.links.start[order], device.links.end[order]
    if start.size < 2:
        return 0
    return int(((stream[1:] == stream[:-1]) & (start[1:] < end[:-1])).sum())


def _of_links(trace: Trace, device: Device, steps: Steps | None) -> Iterator[Reason]:
    links = device.links
    calls = trace.rows_of(Cat.RUNTIME)
    if calls.size == 0:
        yield Reason(
            "no_runtime_calls",
            "no runtime or driver call was recorded: launches and causes cannot be known",
            LIMITED,
            withheld=("launches", "causes", "host", "host_dispatch"),
        )
        return
    if device.orphans:
        # Work in flight when recording began has no launch call; only steps' own orphans weigh.
        lost, ops = device.orphans, device.gpu_ops
        if steps is not None and steps.counted.any():
            counted = steps.counted
            lost = int(steps.orphans[counted].sum())
            ops = int((steps.kernels + steps.copies + steps.memsets)[counted].sum())
        grave = lost > ORPHAN_SHARE * ops
        yield Reason(
            "orphans",
            "GPU ops have no launch call in the trace; they count as busy time",
            LIMITED if grave else NOTE,
            device.orphans,
            ("launches", "host_dispatch") if grave else (),
        )
    owners = links.calls
    strange = owners[~names_where(trace, trace.name[owners], runtime_calls.is_launch_family)]
    if strange.size:
        names = Counter(trace.name_of(int(row)) for row in strange)
        yield Reason(
            "unknown_launch_calls",
            "calls of no known launch family own GPU ops: "
            + ", ".join(name for name, _ in names.most_common(5)),
            count=int(strange.size),
        )
    reused = _reused_ids(trace)
    if reused:
        yield Reason(
            "ids_reused",
            "correlation ids occur on more than one runtime call; the first call is the launch",
            count=reused,
        )
    plain = ~links.replayed & links.launched
    owner = np.sort(links.launch[plain], kind="stable")
    shared = iv.distinct(owner[1:][owner[1:] == owner[:-1]])
    if shared.size:
        yield Reason(
            "shared_launch",
            "launch calls that replay no graph own several GPU ops",
            count=int(shared.size),
        )
    unrecorded = int(device.gaps.unrecorded_ns.sum())
    if unrecorded:
        yield Reason(
            "no_cpu_ops",
            (
                "no CPU op of the launching thread was recorded (ProfilerActivity.CPU records "
                "them), so what it did is not known: ",
                Quantity(unrecorded, NS, TRACED),
                " of idle time has no cause",
            ),
            LIMITED if trace.rows_of(Cat.CPU_OP).size == 0 else NOTE,
        )
    profiler = device.gaps.cause_ns[:, CAUSES.index("profiler")]
    if steps is not None and steps.counted.any():
        profiler = np.where(_in_counted(device, steps), profiler, 0)
    if profiler.any():
        yield Reason(
            "profiler_in_gaps",
            (
                "the profiler's own work covers ",
                Quantity(int(profiler.sum()), NS, TRACED),
                " of idle time",
            ),
            count=int((profiler > 0).sum()),
        )


def _in_counted(device: Device, steps: Steps) -> npt.NDArray[np.bool_]:
    """Which gaps of the device end in the window of a counted step."""
    has = np.flatnonzero(steps.counted & steps.has_ops)
    at = np.searchsorted(steps.gpu_start[has], device.gaps.end, side="left") - 1
    return np.asarray((at >= 0) & (device.gaps.end <= steps.gpu_end[has[np.maximum(at, 0)]]))


def _reused_ids(trace: Trace) -> int:
    calls = rows_named(trace, runtime_calls.is_launch_family, Cat.RUNTIME)
    calls = calls[trace.corr[calls] != 0]
    corr, rank = trace.corr[calls], rank_codes(trace)[trace.lane[calls]]
    order = np.lexsort((corr, rank))
    corr, rank = corr[order], rank[order]
    return int(((corr[1:] == corr[:-1]) & (rank[1:] == rank[:-1])).sum())


def _of_steps(steps: Steps) -> Iterator[Reason]:
    if steps.rule == "whole trace":
        yield Reason(
            "no_steps",
            "no step marks and no repeating sequence were found, so the whole trace is one "
            "window; name the marks with --step",
            LIMITED,
            withheld=("per_token", "rate", "ceilings"),
        )
        return
    yield from _of_kind(steps)
    own = [i for i, phase in enumerate(steps.phase) if phase == steps.kind.kind]
    others = Counter(phase for phase in steps.phase if phase != steps.kind.kind)
    if others:
        text = ", ".join(f"{count} {phase}" for phase, count in sorted(others.items()))
        whose = "decode figures" if steps.kind.kind == DECODE else "the figures"
        yield Reason("other_phases", f"left out of {whose}: {text}", count=sum(others.values()))
    if not own:
        there = ", ".join(f"{count} {phase}" for phase, count in sorted(others.items()))
        captures = "; a graph capture pass decodes nothing" if CAPTURE in others else ""
        yield Reason(
            "no_decode_steps",
            f"no step decodes: the steps are {there}{captures}",
            LIMITED,
            withheld=STEP_FIGURES,
        )
        return
    yield from _of_marks(steps)
    yield from _of_exclusions(steps, own)
    complete = sum(1 for i in own if not steps.excluded[i] and i < steps.open_index)
    if complete == 0:
        yield Reason(
            "open_step",
            "no complete step: the last one is shown, ending with its last op",
            LIMITED,
            withheld=("host_dispatch",),
        )
    elif complete < 5:
        yield Reason("few_steps", f"only {complete} complete steps: medians are weak")
    counted = steps.counted
    profiler = int(steps.host_ns[counted, HOST_CLASSES.index("profiler")].sum())
    window = int(steps.host_window_ns[counted].sum())
    if profiler > PROFILER_SHARE * window:
        yield Reason(
            "profiler_in_steps",
            (
                "the profiler's own work takes ",
                Quantity(profiler / window if window else None, SHARE, TRACED),
                " of the host's time in these steps: what the host needs by itself is not known",
            ),
            LIMITED,
            withheld=("host_dispatch",),
        )
    yield from _of_tokens(steps)


def _of_kind(steps: Steps) -> Iterator[Reason]:
    """What the steps are, where that is not decode."""
    if steps.kind.kind == TRAINING:
        yield Reason("training", f"this is training ({steps.kind.why}): figures are per step")
    elif steps.kind.kind == INFERENCE and INFERENCE in steps.phase:
        yield Reason(
            "inference",
            f"the steps are not called decode: {steps.kind.why}; figures are per step "
            "(--tokens-per-step, where a step does make tokens)",
        )


def _of_marks(steps: Steps) -> Iterator[Reason]:
    """What the launch sequence says about the marks, where it is not what the marks say."""
    check = steps.marks.check
    if not check.agrees:
        grave = steps.rule in CHECKED_RULES and steps.tokens_source == ASSUMED
        yield Reason(
            "marks_disagree",
            f"{check.text}" + ("; name the marks with --step" if grave else ""),
            LIMITED if grave else NOTE,
            withheld=("per_token", "rate", "ceilings") if grave else (),
        )
    elif check.text.endswith("is a token") or ": " in check.text:
        yield Reason("marks_checked", f"{check.text} ({steps.rule})")
    if len(steps.shares) > 1:
        names = ", ".join(share.device for share in steps.shares)
        yield Reason(
            "several_devices",
            f"one process drives devices {names}: step figures are over all of them, busy is when "
            "any is",
            count=len(steps.shares),
        )


def _of_exclusions(steps: Steps, own: list[int]) -> Iterator[Reason]:
    """Steps that are left out of medians, and why."""
    why = Counter(steps.excluded)
    if why["no GPU ops"]:
        yield Reason(
            "steps_without_gpu_ops",
            "steps launched no GPU op that was recorded; their time falls into the step before",
            LIMITED,
            why["no GPU ops"],
            STEP_FIGURES if why["no GPU ops"] > 0.5 * len(own) else (),
        )
    if why["profiler overhead"]:
        yield Reason("first_step", "the profiler was starting up in the first step: left out")
    if why["unlike the others"]:
        yield Reason(
            "odd_steps",
            "steps whose ops are unlike those of the others are left out",
            count=why["unlike the others"],
        )
    if why["drains a prefill"]:
        yield Reason(
            "drains_prefill",
            "decode steps in whose window work of a prefill still ran are left out",
            count=why["drains a prefill"],
        )
    yield from _of_windows(steps)
    population = steps.population
    if population.others:
        sizes = ", ".join(f"{size}: {n}" for size, n in sorted(population.others.items()))
        yield Reason(
            "batch_sizes",
            f"mixed batch: no batch size has enough steps, so all are taken together ({sizes})"
            if population.mixed
            else (
                f"figures are of batch {population.batch}, which holds ",
                Quantity(population.time_share, SHARE, TRACED),
                f" of the time; steps of other batch sizes are left out ({sizes})",
            ),
            count=sum(population.others.values()),
        )
    compiling = int(sum(bool(steps.compiles[i]) for i in own))
    if compiling:
        most = compiling > 0.5 * len(own)
        yield Reason(
            "recompiling" if most else "compile_in_steps",
            "recompiling every step: most steps contain compile work, so none is steady state"
            if most
            else "steps with compile work are not steady state: left out",
            LIMITED if most else NOTE,
            compiling,
        )
    mixed = int((steps.mixed & steps.counted).sum())
    if mixed:
        all_mixed = mixed == int(steps.counted.sum())
        yield Reason(
            "interleaved_steps",
            "over 1 % of the busy time in these steps' windows belongs to other steps: their "
            "busy and idle time is withheld",
            LIMITED,
            mixed,
            ("busy", "idle", "causes") if all_mixed else (),
        )


def _of_windows(steps: Steps) -> Iterator[Reason]:
    """Steps after which nothing was due, or nothing was recorded."""
    why = Counter(steps.closed)
    if why[NOT_RECORDED]:
        yield Reason(
            "not_recorded",
            "the marks' numbers jump: the recording was joined from several cycles, and what lies "
            "between them belongs to no step",
            count=why[NOT_RECORDED],
        )
    if why[BETWEEN_REQUESTS]:
        yield Reason(
            "between_requests",
            "after these steps the device was empty until the next request came: that time "
            "belongs to no step",
            count=why[BETWEEN_REQUESTS],
        )
    if why[PAUSE]:
        yield Reason(
            "pauses",
            "after these steps nothing ran for longer than a step takes: either nothing was due "
            "(no request), or host code that was not traced held the next step up; their periods "
            "are left out",
            count=why[PAUSE],
        )


def _of_tokens(steps: Steps) -> Iterator[Reason]:
    """How tokens of a step are known."""
    if steps.kind.kind != DECODE:
        return
    if steps.tokens_source == ASSUMED:
        yield Reason(
            "tokens_assumed",
            "tokens per step are not recorded: one token is assumed (--tokens-per-step)",
        )
    if not steps.known_tokens.known:
        yield Reason(
            "tokens_bounded",
            "under speculation a step gives at least one token per request, and how many drafts "
            "were accepted is not recorded: the rate is a range (--accepted N or "
            "--tokens-per-step N make it a number)",
            LIMITED,
            withheld=("per_token", "rate"),
        )


def _of_replays(trace: Trace, device: Device, steps: Steps) -> Iterator[Reason]:
    """Replays of one graph must record the same ops in every step.

    The graph at one place of the step is known by what most steps replay there; a replay that
    recorded only some of those ops has lost the others. Steps that replay another graph at that
    place (other ops, not fewer) say nothing.
    """
    links = device.links
    counted = np.flatnonzero(steps.counted & (steps.graph_launches > 0))
    if counted.size < 2:
        return
    index = np.flatnonzero(links.replayed)
    index = index[np.argsort(links.launch[index], kind="stable")]
    launch, first = np.unique(links.launch[index], return_index=True)
    bounds = np.append(first, index.size)
    in_time = np.lexsort((launch, trace.start[launch]))
    replays: dict[int, list[Counter[int]]] = {int(step): [] for step in counted}
    for i in in_time:
        step = int(steps.op_step[index[bounds[i]]])
        if step in replays:
            codes = trace.name[links.row[index[bounds[i] : bounds[i + 1]]]]
            replays[step].append(Counter(codes.tolist()))
    by_count: dict[int, list[list[Counter[int]]]] = {}
    for found in replays.values():
        by_count.setdefault(len(found), []).append(found)
    differing = 0
    for group in by_count.values():
        for place in zip(*group, strict=True):
            kinds = Counter(tuple(sorted(names.items())) for names in place)
            usual, times = kinds.most_common(1)[0]
            if 2 * times > len(place):
                whole = Counter(dict(usual))
                differing += sum(n != whole and (n <= whole or whole <= n) for n in place)
    if differing:
        yield Reason(
            "replays_differ",
            "replays of one graph recorded different numbers of GPU ops: some were lost, and "
            "idle time may be an artefact",
            LIMITED,
            differing,
            ("kernels", "busy", "idle", "causes"),
        )


_RANK_IN_NAME = re.compile(r"(?:rank|TP-?)[-_]?(\d+)", re.IGNORECASE)


def rank_of(trace: Trace) -> tuple[int, str]:
    """The rank of the process and where it is known from: `distributedInfo`, file name, default."""
    info = trace.metadata.get("distributedInfo")
    if isinstance(info, dict) and isinstance(info.get("rank"), int):
        return info["rank"], "distributedInfo"
    found = _RANK_IN_NAME.search(trace.source.path.rsplit("/", 1)[-1])
    return (int(found[1]), "file name") if found else (0, "default")
