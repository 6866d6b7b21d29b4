"""Are two sides alike enough to be compared, and which figures did the profiler slow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gaptrace.compare.recording import CAUSE_COLUMNS, Recording
from gaptrace.vocabulary import OTHER_FACTS, RECORDED_FACTS, SAME_FACTS

# Rules under which a mark says what one step is; the others infer it from what ran.
MARKED = ("--step", "gaptrace marks", "engine labels", "ProfilerStep", "repeated annotations")
# What the profiler may record besides; each of it slows the host, by how much nobody knows.
SETTINGS = ("stacks", "shapes", "memory")
# Every recorded op costs the host, too: a recording of launch calls alone is a faster one.
OPS = "ops"
HOST_FIGURES = ("host_dispatch", "idle", "idle_share")
# The step of a launch-bound side is as long as the host takes, so it is a host figure, too.
STEP_FIGURES = ("step_time", "tokens_per_s")
# A late host leaves the GPU idle; from this share of the step on the step is launch-bound.
LAUNCH_BOUND = 0.01
# Idle time that no host could shorten.
_NOT_THE_HOST = ("idle_graph_node_ns", "idle_device_wait_ns")


@dataclass(frozen=True)
class Likeness:
    """What sets two sides apart.

    unlike: differences for which a comparison is refused. notes: what to know all the same.
    withheld: metrics that cannot be judged at all, each with the reason. slowed: what of the
    profiler's settings slows the host, and on which side; empty where nothing does. profiled:
    metrics that therefore cannot be compared as profiled. same_steps: whether a step is the same
    piece of work on both sides.
    """

    unlike: tuple[str, ...]
    notes: tuple[str, ...]
    withheld: Mapping[str, str]
    slowed: str = ""
    profiled: frozenset[str] = frozenset()
    same_steps: bool = True


def likeness(baseline: Sequence[Recording], candidate: Sequence[Recording]) -> Likeness:
    """How far the two sides are alike, by the facts of all their recordings.

    A fact that one side does not know is a note, not a refusal; one that neither knows is nothing.
    """
    unlike, notes, unknown = [], [], []
    for key, words in SAME_FACTS.items():
        left, right = _fact(baseline, key), _fact(candidate, key)
        if left and right and left != right:
            if key == "weights" and _differs(baseline, candidate, "dtype", "model"):
                continue
            unlike.append(f"{words}: {_shown(left)} against {_shown(right)}")
        elif bool(left) != bool(right) and key != "weights":
            unknown.append(words)
    if unknown:
        notes.append(f"known on one side only, so taken to be the same: {', '.join(unknown)}")
    for key, words in OTHER_FACTS.items():
        left, right = _fact(baseline, key), _fact(candidate, key)
        if left and right and left != right:
            notes.append(f"{words} differs: {_shown(left)} against {_shown(right)}")
    other_steps = _rules(baseline, candidate, notes)
    for words, side in (("baseline", baseline), ("candidate", candidate)):
        reasons = dict.fromkeys(reason for r in side for reason in r.reasons)
        notes += [f"{words}: {text}" for text in reasons]
    sides = {"baseline": baseline, "candidate": candidate}
    return Likeness(
        unlike=tuple(unlike),
        notes=tuple(notes),
        withheld=other_steps,
        slowed=_slowed(sides),
        profiled=host_figures(sides.values()),
        same_steps=not other_steps,
    )


def _fact(side: Sequence[Recording], key: str) -> frozenset[str]:
    """The values of a fact on a side; empty where no recording knows it."""
    return frozenset(value for r in side if (value := r.facts.get(key)) is not None)


def _differs(baseline: Sequence[Recording], candidate: Sequence[Recording], *keys: str) -> bool:
    return any(_fact(baseline, key) != _fact(candidate, key) for key in keys)


def _shown(values: frozenset[str]) -> str:
    return " and ".join(sorted(values))


def _slowing(side: Sequence[Recording]) -> tuple[str, ...] | None:
    """What the profiler recorded besides on a side; None where a recording does not say."""
    if any(r.facts.get(key) is None for r in side for key in ("stacks", "shapes")):
        return None
    return tuple(key for key in SETTINGS if "yes" in _fact(side, key))


def _mixed(sides: Iterable[Sequence[Recording]]) -> bool:
    """Whether ops were recorded in some of the recordings only."""
    return len({value for side in sides for value in _fact(side, OPS)}) > 1


def _slowed(sides: Mapping[str, Sequence[Recording]]) -> str:
    """What slows the host under the profiler, and where, as a clause; empty for nothing."""
    found = {f"the {name}": _slowing(side) for name, side in sides.items()}
    if _mixed(sides.values()):
        for name, side in sides.items():
            if "yes" in _fact(side, OPS):
                found[f"the {name}"] = (RECORDED_FACTS[OPS], *(found[f"the {name}"] or ()))
    if len(set(found.values())) == 1:
        found = {"both sides": next(iter(found.values()))}
    parts = [
        f"{'unknown settings' if settings is None else ', '.join(settings)} on {place}"
        for place, settings in found.items()
        if settings != ()
    ]
    return f"recorded with {', '.join(parts)}" if parts else ""


def host_figures(sides: Iterable[Sequence[Recording]]) -> frozenset[str]:
    """The metrics that depend on how fast the host is on a side whose host was slowed."""
    sides = list(sides)
    slowed = [side for side in sides if _slowing(side) != () or _mixed(sides)]
    if not slowed:
        return frozenset()
    bound = any(launch_bound(recording) for side in slowed for recording in side)
    return frozenset((*HOST_FIGURES, *(STEP_FIGURES if bound else ())))


def launch_bound(recording: Recording) -> bool:
    """Whether the host keeps the GPU waiting, as traced, for more than 1 % of the steps' time.

    Idle time whose causes are withheld may all be the host's.
    """
    causes = CAUSE_COLUMNS
    if not recording.withholds("causes"):
        causes = tuple(name for name in causes if name not in _NOT_THE_HOST)
    late = sum(int(recording.steps[name].sum()) for name in causes)
    return late > LAUNCH_BOUND * int(recording.steps["period_ns"].sum())


def _rules(
    baseline: Sequence[Recording], candidate: Sequence[Recording], notes: list[str]
) -> dict[str, str]:
    """Steps that were inferred in different ways need not be the same piece of work."""
    rules = [sorted({r.rule for r in side if r.rule}) for side in (baseline, candidate)]
    if rules[0] == rules[1] or all(rule in MARKED for side in rules for rule in side):
        return {}
    reason = "the two sides' steps were found in different ways"
    notes.append(
        f"{reason} ({', '.join(rules[0])} against {', '.join(rules[1])}), so a step need not be "
        "the same work on both sides: figures per step and per token are not judged; name the "
        "marks with --step"
    )
    names = (*STEP_FIGURES, *HOST_FIGURES, "busy", "kernels", "launches", "copies", "memsets")
    return dict.fromkeys(names, reason)
