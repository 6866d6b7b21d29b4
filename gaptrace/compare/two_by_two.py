"""The 2x2 form: {eager, compiled} x {launched, captured}, each change on its own.

Compiling changes what runs on the GPU and what the host has to tell it; capture takes the telling
away. Seen together the two are easily mixed up: a compiled step with plain launches can be faster
than the eager one although its kernels take longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gaptrace import units
from gaptrace.compare.bridge import pillar
from gaptrace.compare.figures import UNPROFILED
from gaptrace.compare.recording import CLASS_COLUMNS
from gaptrace.compare.result import Corner, Effect, Pair, TwoByTwo
from gaptrace.compare.side import Side
from gaptrace.compare.words import signed_time
from gaptrace.measure.kernels import OP_CLASSES

MODES = ("eager", "compiled", "graph", "compiled-graph")
EFFECTS_SHOWN = 8


def corners_of(sides: Sequence[Side]) -> dict[str, Side] | None:
    """The four sides by mode, where all four are there; None otherwise.

    Modes come from the manifest; bare traces are told apart by what they hold: generated kernels
    make a side compiled, kernels that mostly come from replays make it captured.
    """
    found: dict[str, Side] = {}
    for side in sides:
        mode = side.mode or _mode_of(side)
        if mode in MODES and mode not in found:
            found[mode] = side
    return {mode: found[mode] for mode in MODES} if len(found) == len(MODES) else None


def _mode_of(side: Side) -> str:
    recording = side.recordings[0]
    compiled = recording.generated > 0
    captured = recording.captured > 0.5
    if captured:
        return "compiled-graph" if compiled else "graph"
    return "compiled" if compiled else "eager"


def subject(baseline: Side, candidate: Side) -> str:
    """What was done to the baseline to get the candidate, as the subject of a sentence."""
    before, after = (side.mode or _mode_of(side) for side in (baseline, candidate))
    if not (before in MODES and after in MODES):
        return "the candidate"
    compiled = after.startswith("compiled") and not before.startswith("compiled")
    captured = after.endswith("graph") and not before.endswith("graph")
    if before.startswith("compiled") != after.startswith("compiled") and not compiled:
        return "the candidate"
    if compiled and captured:
        return "compiling and capturing"
    return "compiling" if compiled else "capturing" if captured else "the candidate"


def two_by_two(sides: Mapping[str, Side], pairs: Mapping[tuple[str, str], Pair]) -> TwoByTwo:
    """The 2x2 of four sides; `pairs` holds the four comparisons along its edges."""
    unprofiled = all(
        row.source == UNPROFILED for pair in pairs.values() for row in (pair.metric("step_time"),)
    )
    first, second = pairs["eager", "compiled"], pairs["graph", "compiled-graph"]
    corners = {
        "eager": _corner(sides["eager"], first, candidate=False),
        "compiled": _corner(sides["compiled"], first, candidate=True),
        "graph": _corner(sides["graph"], second, candidate=False),
        "compiled-graph": _corner(sides["compiled-graph"], second, candidate=True),
    }
    compiled_launched = _effect(corners, pairs, "eager", "compiled")
    compiled_captured = _effect(corners, pairs, "graph", "compiled-graph")
    captured_eager = _effect(corners, pairs, "eager", "graph")
    captured_compiled = _effect(corners, pairs, "compiled", "compiled-graph")
    known = [(c.step_ns, i, c) for i, c in enumerate(corners.values()) if c.step_ns is not None]
    best = min(known)[2].label if known else ""
    return TwoByTwo(
        eager=corners["eager"],
        compiled=corners["compiled"],
        graph=corners["graph"],
        compiled_graph=corners["compiled-graph"],
        compiled_launched=compiled_launched,
        compiled_captured=compiled_captured,
        captured_eager=captured_eager,
        captured_compiled=captured_compiled,
        sentence=_story(
            compiled_launched, compiled_captured, captured_eager, captured_compiled, best, known
        ),
        best=best,
        source="unprofiled" if unprofiled else "as profiled",
    )


def _corner(side: Side, pair: Pair, *, candidate: bool) -> Corner:
    def value(name: str) -> float | None:
        row = pair.metric(name)
        return (row.candidate if candidate else row.baseline).value

    unprofiled = pair.metric("step_time").source == UNPROFILED
    end = pillar(side, unprofiled=unprofiled)
    return Corner(
        label=side.label,
        mode=side.mode or _mode_of(side),
        step_ns=value("step_time"),
        tokens_per_s=value("tokens_per_s"),
        busy_ns=value("busy"),
        idle_ns=value("idle"),
        host_dispatch_ns=value("host_dispatch"),
        kernels=value("kernels"),
        launches=value("launches"),
        busy_by_class_ns={
            kind: end.per_token(column)
            for kind, column in zip(OP_CLASSES, CLASS_COLUMNS, strict=True)
        },
    )


def _effect(
    corners: Mapping[str, Corner],
    pairs: Mapping[tuple[str, str], Pair],
    before: str,
    after: str,
) -> Effect:
    pair = pairs[before, after]
    left, right = corners[before], corners[after]
    classes = {
        kind: right.busy_by_class_ns[kind] - left.busy_by_class_ns[kind] for kind in OP_CLASSES
    }
    return Effect(
        step_ns=_less(right.step_ns, left.step_ns),
        busy_ns=_less(right.busy_ns, left.busy_ns),
        idle_ns=_less(right.idle_ns, left.idle_ns),
        host_dispatch_ns=_less(right.host_dispatch_ns, left.host_dispatch_ns),
        kernels=_less(right.kernels, left.kernels),
        launches=_less(right.launches, left.launches),
        busy_by_class_ns=classes,
        largest=pair.kernels.rows[:EFFECTS_SHOWN],
        words=pair.kernel_sentence,
    )


def _less(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after - before


def _story(
    compiled_launched: Effect,
    compiled_captured: Effect,
    captured_eager: Effect,
    captured_compiled: Effect,
    best: str,
    known: Sequence[tuple[float, int, Corner]],
) -> str:
    sentences = [compiled_launched.words]
    idle, step = compiled_launched.idle_ns, compiled_launched.step_ns
    if idle is not None and step is not None:
        verb = "saved" if idle < 0 else "cost"
        net = "faster" if step < 0 else "slower"
        sentences.append(
            f"With plain launches it {verb} {units.time(abs(idle))} of idle time per token, because"
            f" the GPU waits {'less' if idle < 0 else 'more'} to be told what to do: "
            f"{units.time(abs(step))} per step {net} in all."
        )
    on_top, alone = captured_compiled.step_ns, captured_eager.step_ns
    if on_top is not None:
        sentences.append(
            f"Capture on top of compiling changes the step by {signed_time(on_top)}"
            + (f", capture alone by {signed_time(alone)}" if alone is not None else "")
            + "."
        )
    captured = compiled_captured.step_ns
    if captured is not None:
        verb = "wins" if captured < 0 else "loses"
        sentences.append(f"Once captured, compiling {verb} {units.time(abs(captured))} per step.")
    if best:
        sentences.append(f"Fastest: {best}, {units.time(min(known)[0])} per step.")
    return " ".join(text for text in sentences if text)
