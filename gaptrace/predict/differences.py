"""What differs from step to step: the sequence of GPU ops, and the shapes that ops are called with.

A graph replays the same kernels with the same shapes. Steps are compared with what most of them do;
one odd step among many, such as one into which other work fell, is none to capture. Where only one
is complete, the open step stands in, and only where it agrees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from gaptrace.measure.links import names_where
from gaptrace.measure.view import View
from gaptrace.predict.places import places
from gaptrace.results.prediction import Blocker, BlockerPlace
from gaptrace.trace import Ints

EXAMPLES = 4
# This share of the steps may differ, or one step of so many: it is the step that is odd.
ODD_SHARE, ONE_OF = 0.1, 4


def differences(view: View) -> tuple[bool, list[Blocker]]:
    """Launch sequences and shapes of the counted steps held against each other.

    Whether there were steps to compare, and what differs between them.
    """
    steps = view.steps
    counted = np.flatnonzero(steps.counted & steps.has_ops)
    alone = counted.size == 1
    if alone and steps.open_index not in (-1, *counted.tolist()):
        counted = np.append(counted, steps.open_index)
    if counted.size < 2:
        return False, []
    found = [*_sequences(view, counted), *_shapes(view, counted)]
    # The open step may have been cut: a difference from it proves nothing.
    return (False, []) if alone and found else (True, found)


def _sequences(view: View, steps: Ints) -> list[Blocker]:
    trace, links = view.trace, view.device.links
    order = np.lexsort((links.row, links.start))
    owner = view.steps.op_step[order]
    names = trace.name[links.row[order]]
    rows = links.row[order]
    usual = _usual([names[owner == step].tobytes() for step in steps.tolist()])
    first = names[owner == steps[usual]]
    differing = []
    place: list[BlockerPlace] = []
    for step in steps.tolist():
        own = names[owner == step]
        if np.array_equal(own, first):
            continue
        differing.append(int(step))
        if not place:
            common = min(own.size, first.size)
            apart = np.flatnonzero(own[:common] != first[:common])
            at = int(apart[0]) if apart.size else common
            before = trace.names[int(first[at])] if at < first.size else "nothing"
            after = trace.names[int(own[at])] if at < own.size else "nothing"
            row = int(rows[owner == step][min(at, own.size - 1)])
            place.append(
                BlockerPlace(
                    step=int(step),
                    start_ns=int(trace.start[row]),
                    dur_ns=int(trace.dur[row]),
                    op=_op_of(view, row),
                    call=trace.name_of(row),
                    what=f"GPU op {at + 1}: {before} in step {int(steps[usual])}, {after} here",
                    row=row,
                )
            )
    if _odd(len(differing), steps.size):
        return []
    text = (
        f"{len(differing)} of {steps.size} steps launch another sequence of GPU ops than step "
        f"{int(steps[usual])}"
    )
    return [
        Blocker(
            id="launch_sequence",
            title="the launches differ between steps",
            blocks=True,
            seam=False,
            per_token=float(len(differing)),
            ns_per_token=0.0,
            text=text,
            change="keep shapes and branches fixed from step to step (a static cache, a fixed "
            "batch), or capture one graph for each variant",
            places=tuple(place),
        )
    ]


def _odd(differing: int, of: int) -> bool:
    """Whether so few steps differ that they are the exception; also where none does."""
    return differing <= ODD_SHARE * of or (differing == 1 and of >= ONE_OF)


def _usual(contents: Sequence[bytes]) -> int:
    """The first of those that most others equal."""
    common = Counter(contents).most_common(1)[0][0]
    return contents.index(common)


def _op_of(view: View, row: int) -> str:
    at = int(view.op_at(np.array([row]))[0])
    op = int(view.launching_op[at])
    return view.trace.name_of(op) if op >= 0 else ""


def _shapes(view: View, steps: Ints) -> list[Blocker]:
    trace = view.trace
    shaped = trace.op.rows[trace.op.shape >= 0]
    if shaped.size == 0:
        return []
    shape = trace.op.shape[trace.op.shape >= 0]
    when = view.steps.host_step(trace.start[shaped])
    inside = (when >= 0) & view.steps.lane[np.maximum(when, 0)] == trace.lane[shaped]
    inside &= names_where(trace, trace.name[shaped], lambda name: "::" in name)
    shaped, shape, when = shaped[inside], shape[inside], when[inside]
    usual = _usual(
        [np.stack((trace.name[shaped[when == s]], shape[when == s])).tobytes() for s in steps]
    )
    reference = when == steps[usual]
    names, codes = trace.name[shaped[reference]], shape[reference]
    odd = 0
    changed: dict[str, tuple[int, int, int]] = {}
    for step in steps:
        here = when == step
        if not np.array_equal(trace.name[shaped[here]], names):
            continue
        odd += int((shape[here] != codes).any())
        for at in np.flatnonzero(shape[here] != codes):
            name = trace.names[int(names[at])]
            changed.setdefault(name, (int(shaped[here][at]), int(codes[at]), int(shape[here][at])))
    if _odd(odd, steps.size):
        return []
    rows = np.array([row for row, _, _ in changed.values()], np.int64)
    words = [
        f"{name} {_dims(trace.shapes[a].dims)} then {_dims(trace.shapes[b].dims)}"
        for name, (_, a, b) in list(changed.items())[:EXAMPLES]
    ]
    step_of = view.steps.host_step(trace.start[rows])
    attention = all("attention" in name or "sdpa" in name for name in changed)
    return [
        Blocker(
            id="changing_shapes",
            title="shapes change between steps",
            blocks=True,
            seam=attention,
            per_token=float(len(changed)),
            ns_per_token=0.0,
            text=f"{len(changed)} kinds of op are called with other shapes: {'; '.join(words)}",
            change="use a static cache and a mask (or a length tensor) in place of tensors that "
            "grow, or leave the ops that need the true length outside the graph",
            places=places(view, rows, step_of, -trace.start[rows].astype(np.float64)),
        )
    ]


def _dims(dims: tuple[object, ...]) -> str:
    return "x".join(str(list(d) if isinstance(d, list) else d) for d in dims if d)[:60]
