"""Are two sides alike enough to be compared, and which figures do their settings distort."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gaptrace.compare.recording import Recording
from gaptrace.vocabulary import OTHER_FACTS, RECORDED_FACTS, SAME_FACTS

# Rules under which a mark says what one step is; the others infer it from what ran.
MARKED = ("--step", "gaptrace marks", "engine labels", "ProfilerStep", "repeated annotations")
HOST_FIGURES = ("host_dispatch",)
# Stacks slow the host so much that the traced step is no longer the same step.
STEP_FIGURES = ("step_time", "tokens_per_s", "idle", "idle_share")


@dataclass(frozen=True)
class Likeness:
    """What sets two sides apart.

    unlike: differences for which a comparison is refused. notes: what to know all the same.
    distorted: metrics that cannot be judged as profiled, each with the reason. same_steps: whether
    a step is the same piece of work on both sides.
    """

    unlike: tuple[str, ...]
    notes: tuple[str, ...]
    distorted: Mapping[str, str]
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
    distorted = _settings(baseline, candidate, notes)
    other_steps = _rules(baseline, candidate, notes)
    distorted.update(other_steps)
    for words, side in (("baseline", baseline), ("candidate", candidate)):
        reasons = dict.fromkeys(reason for r in side for reason in r.reasons)
        notes += [f"{words}: {text}" for text in reasons]
    return Likeness(tuple(unlike), tuple(notes), distorted, same_steps=not other_steps)


def _fact(side: Sequence[Recording], key: str) -> frozenset[str]:
    """The values of a fact on a side; empty where no recording knows it."""
    return frozenset(value for r in side if (value := r.facts.get(key)) is not None)


def _differs(baseline: Sequence[Recording], candidate: Sequence[Recording], *keys: str) -> bool:
    return any(_fact(baseline, key) != _fact(candidate, key) for key in keys)


def _shown(values: frozenset[str]) -> str:
    return " and ".join(sorted(values))


def _settings(
    baseline: Sequence[Recording], candidate: Sequence[Recording], notes: list[str]
) -> dict[str, str]:
    """Differences of the profiler's settings: a note each, and the figures they distort."""
    distorted: dict[str, str] = {}
    for key, figures in (("shapes", HOST_FIGURES), ("stacks", HOST_FIGURES + STEP_FIGURES)):
        words = RECORDED_FACTS[key]
        left, right = _fact(baseline, key), _fact(candidate, key)
        if left and right and left != right:
            side = "baseline" if "yes" in left else "candidate"
            where = f"on the {side} only, which slows the host while profiling"
            if "yes" in left and "yes" in right:
                where = "in some runs only, which slows the host there"
            notes.append(f"{words} were recorded {where}")
            distorted |= dict.fromkeys(figures, f"{words} were recorded on one side only")
    return distorted


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
