"""What is to be known about the steps: kind, marks, exclusions, windows, tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gaptrace.measure.hosttime import HOST_CLASSES
from gaptrace.measure.kind import INFERENCE, TRAINING
from gaptrace.measure.labels import CAPTURE, DECODE
from gaptrace.measure.quality import LIMITED, NOTE, STEP_FIGURES, TOKEN_FIGURES, Reason
from gaptrace.measure.steps import Steps
from gaptrace.measure.tokens import ASSUMED
from gaptrace.measure.windows import BETWEEN_REQUESTS, NOT_RECORDED, PAUSE
from gaptrace.quantity import SHARE, TRACED, Quantity

PROFILER_SHARE = 0.05
# Marks by these rules are believed only as far as the launch sequence bears them out.
CHECKED_RULES = frozenset({"ProfilerStep", "repeated annotations", "Python frames"})


def of_steps(steps: Steps) -> Iterator[Reason]:
    """What is to be known about the steps, and what that takes away."""
    if steps.rule == "whole trace":
        yield Reason(
            "no_steps",
            "no step marks and no repeating sequence were found, so the whole trace is one "
            "window; name the marks with --step",
            LIMITED,
            withheld=TOKEN_FIGURES,
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
            withheld=TOKEN_FIGURES if grave else (),
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
