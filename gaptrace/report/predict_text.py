"""What compiling and capturing would buy, for a terminal."""

from __future__ import annotations

from gaptrace import units
from gaptrace.measure.fusion_model import Estimate
from gaptrace.predict.constants import SEAM_PRICE_NS
from gaptrace.predict.result import (
    MEASURED,
    PREDICTED,
    Blocker,
    CompiledStep,
    MeasuredPieces,
    Place,
    Prediction,
    Readiness,
    Realised,
    Savings,
    Score,
)
from gaptrace.report.terminal import Ink, table, wrapped

WIDTH = 80
GROUPS_SHOWN = 8
BLOCKERS_SHOWN = 6
LOSSES_SHOWN = 4
TITLES = {
    "eager": "eager, launched",
    "graph": "eager, captured",
    "compiled": "compiled, launched",
    "compiled-graph": "compiled, captured",
}


def predict_report(prediction: Prediction, *, color: bool) -> str:
    """The whole prediction: the 2x2, readiness, the compiled step, savings, and the score."""
    ink = Ink(color)
    parts = [
        wrapped(ink.strong(sentence(prediction)), WIDTH),
        _facts(prediction),
        help_section(prediction, color=color),
        _captured(prediction),
        _readiness(prediction.readiness, prediction.measured_pieces, ink),
        _compiled(prediction),
        _stacked(prediction),
        _savings(prediction.savings),
        _realised(prediction.realised),
        _score(prediction.score),
    ]
    return "\n\n".join(part for part in parts if part)


def help_section(prediction: Prediction, *, color: bool) -> str:
    """The section `What would help`: the 2x2 as a table, measured or predicted with its range."""
    ink = Ink(color)
    if sum(cell.known in (MEASURED, PREDICTED) for cell in prediction.square.values()) < 2:
        return ""
    known = [c.tokens_per_s for c in prediction.square.values() if c.tokens_per_s]
    best = max(known, default=0.0)
    tokens = prediction.subject.tokens_per_step or 1
    rows, notes = [], []
    for mode, title in TITLES.items():
        cell = prediction.square[mode]
        if cell.step_ns is None:
            rows.append([title, cell.known, *[units.MISSING] * 5])
        else:
            rate = units.digits(cell.tokens_per_s or 0)
            rows.append(
                [
                    title,
                    cell.known,
                    ink.strong(rate) if cell.tokens_per_s == best else rate,
                    units.time_value(cell.ns_per_token, "µs"),
                    _ends(_over(cell.range_ns, tokens)),
                    units.count(None if cell.kernels is None else cell.kernels / tokens),
                    units.count(None if cell.launches is None else cell.launches / tokens),
                ]
            )
        if cell.note:
            notes.append(wrapped(f"{title}: {cell.note}", WIDTH, indent="  "))
        if cell.known == MEASURED and cell.source == "as profiled":
            notes.append(
                wrapped(f"{title}: as profiled, the host is slower so", WIDTH, indent="  ")
            )
    header = ["What would help", "", "tok/s", "µs/token", "range", "kernels", "launches"]
    body = table(header, rows, left=2)
    return "\n".join([body, *dict.fromkeys(notes)])


def _over(ends: tuple[float, float] | None, tokens: float) -> tuple[float, float] | None:
    """A step's range per token."""
    return None if ends is None else (ends[0] / tokens, ends[1] / tokens)


def sentence(prediction: Prediction) -> str:
    """The answer in one sentence: what the fastest cell would be, and what it takes."""
    cells = [c for c in prediction.square.values() if c.step_ns is not None]
    if not cells:
        return "Nothing can be predicted: no step with known times."
    best = min(cells, key=lambda c: c.step_ns or 0.0)
    now = prediction.square[
        prediction.subject.mode if prediction.subject.mode in TITLES else "eager"
    ]
    if best is now or now.step_ns is None or best.step_ns is None:
        if len(cells) == 1:
            return f"{TITLES[best.mode].capitalize()}: nothing else can be predicted from this."
        return f"{TITLES[best.mode].capitalize()} is the fastest of what is known or predicted."
    times = now.step_ns / best.step_ns
    verb = "is" if best.known == MEASURED else "would be"
    text = (
        f"{TITLES[best.mode].capitalize()} {verb} fastest: {units.rate(best.tokens_per_s)}, "
        f"{units.digits(times, 2)} times {TITLES[now.mode]}"
    )
    if now.source == "as profiled":
        text += " (as profiled)"
    if best.known == PREDICTED:
        text += f" (predicted, step {_ends(best.range_ns)} µs)"
    return f"{text}; {prediction.readiness.verdict}."


def _ends(ends: tuple[float, float] | None) -> str:
    if ends is None:
        return ""
    return f"{units.time_value(ends[0], 'µs')} to {units.time_value(ends[1], 'µs')}"


def _range(estimate: Estimate | None) -> str:
    if estimate is None:
        return units.MISSING
    return f"{units.time(estimate.ns)} ({_ends((estimate.low_ns, estimate.high_ns))})"


def _facts(prediction: Prediction) -> str:
    subject = prediction.subject
    facts = [f"from the {subject.mode} step", subject.gpu or "unknown GPU"]
    if subject.tokens_per_step != 1:
        facts.append(f"{units.count(subject.tokens_per_step)} tokens per step")
    lines = [wrapped(" · ".join(facts), WIDTH)]
    lines += [wrapped(f"! {note}", WIDTH, indent="  ") for note in prediction.notes]
    return "\n".join(lines)


def _captured(prediction: Prediction) -> str:
    step = prediction.captured
    if step is None:
        return ""
    if step.step is None:
        return wrapped(step.note, WIDTH)
    parts = [
        f"busy {units.time(step.busy_ns)}",
        f"gaps between {units.count(step.nodes)} nodes {units.time(step.gaps_ns)}",
        f"one replay {units.time(step.replay_ns)}",
    ]
    if step.memset_ns:
        parts.append(f"memset nodes {units.time(step.memset_ns)}")
    lines = [
        wrapped(
            f"captured step {_range(step.step)}: {' + '.join(parts)}; "
            f"{units.count(step.launches)} launch {'call' if step.launches == 1 else 'calls'}",
            WIDTH,
        ),
        wrapped(f"constants: {step.source}", WIDTH, indent="  "),
    ]
    if step.note:
        lines.append(wrapped(step.note, WIDTH, indent="  "))
    return "\n".join(lines)


def _readiness(ready: Readiness, measured: MeasuredPieces | None, ink: Ink) -> str:
    lines = [f"capture: {ink.strong(ready.verdict)}"]
    if ready.tried:
        lines.append(wrapped(ready.tried, WIDTH, indent="  "))
    shown = ready.blockers[:BLOCKERS_SHOWN]
    for item in shown:
        lines += _blocker(item)
    if len(ready.blockers) > len(shown):
        lines.append(f"  … {len(ready.blockers) - len(shown)} more in --json")
    for plan in ready.pieces:
        text = f"in pieces: {plan.text}; step {_range(plan.step)}, at least "
        text += f"{units.time(plan.cost_ns)} more than one graph; {_seam_price(plan.seams)}"
        lines.append(wrapped(text, WIDTH, indent="  "))
    if measured is not None:
        lines.append(wrapped(_measured_pieces(measured), WIDTH, indent="  "))
    lines += [wrapped(f"not known: {text}", WIDTH, indent="  ") for text in ready.unknown]
    return "\n".join(lines)


def _seam_price(seams: int) -> str:
    """What so many seams took where they were measured: the model counts their bare minimum."""
    low, high = (units.time(seams * ns) for ns in SEAM_PRICE_NS)
    each = " to ".join(units.digits(ns / 1_000) for ns in SEAM_PRICE_NS)
    word = "seam" if seams == 1 else "seams"
    return f"{units.count(seams)} {word} at the {each} µs measured on an H200: {low} to {high}"


def _measured_pieces(found: MeasuredPieces) -> str:
    text = (
        f"measured in pieces: the {'compiled' if found.compiled else 'eager'} step, "
        f"{units.count(found.pieces)} pieces with {units.count(found.seams)} seams; step "
        f"{units.time(found.step_ns)}"
    )
    if found.source != "unprofiled":
        text += f" ({found.source})"
    if found.whole_ns is None:
        return text
    more = found.step_ns - found.whole_ns
    word = "more" if more >= 0 else "less"
    return f"{text}, {units.time(abs(more))} {word} than one graph of it, measured too"


def _blocker(item: Blocker) -> list[str]:
    sign = "!" if item.blocks else "·"
    lines = [wrapped(f"{sign} {item.title}: {item.text}", WIDTH, indent="  ")]
    lines.append(wrapped(f"change: {item.change}", WIDTH, indent="    "))
    lines += [wrapped(_place(place), WIDTH, indent="    ") for place in item.places[:2]]
    return lines


def _place(place: Place) -> str:
    words = []
    if place.step is not None:
        words.append(f"step {place.step}")
    if place.start_ns is not None:
        words.append(f"at {units.time(place.start_ns)} for {units.time(place.dur_ns)}")
    names = [name for name in (place.call, place.op) if name]
    words.append(" in ".join(names))
    words += [part for part in (place.what, place.module) if part]
    if place.stack:
        words.append(place.stack[0])
    return ", ".join(word for word in words if word)


def _compiled(prediction: Prediction) -> str:
    step = prediction.compiled
    if step is None:
        return ""
    if step.already or step.kernels is None:
        return f"compile: {step.note}"
    was = f" of {units.count(step.eager_kernels)} eager" if step.eager_kernels else ""
    low, high = step.kernel_range or (step.kernels, step.kernels)
    lines = [
        wrapped(
            f"compiled step: {units.count(step.kernels)} kernels{was} ({low} to {high}), "
            f"{units.count(step.generated)} of them generated; busy {_range(step.busy)}; launched "
            f"{_range(step.launched)}; captured {_range(step.captured)}",
            WIDTH,
        ),
        wrapped(f"source: {step.source}. {step.note}", WIDTH, indent="  "),
    ]
    if step.by_class:
        parts = [f"{name} {units.time(ns)}" for name, ns in step.by_class.items() if ns]
        lines.append(wrapped(f"busy by class: {', '.join(parts)}", WIDTH, indent="  "))
    lines += _doubts(step)
    return "\n".join(lines)


def _doubts(step: CompiledStep) -> list[str]:
    # A stacked cache has a part of its own.
    named = [doubt for doubt in step.doubts if doubt.id != "stacked_cache"]
    lines = [wrapped(f"! {doubt.text}", WIDTH, indent="  ") for doubt in named]
    for loss in step.losses[:LOSSES_SHOWN]:
        text = f"loses {units.time(loss.ns)} in {loss.kernels} kernels, {loss.text}"
        lines.append(wrapped(text, WIDTH, indent="  "))
    for item in step.what_ifs:
        if item.error:
            text = f"what if {item.name}: {item.error}"
        else:
            gain = units.MISSING if item.gain_ns is None else units.time(item.gain_ns)
            text = (
                f"what if {item.name}: {item.kernels} kernels, {item.generated} generated, busy "
                f"{_range(item.busy)}, {gain} gained; captured {_range(item.captured)}. {item.text}"
            )
        lines.append(wrapped(text, WIDTH, indent="  "))
    return lines


def _stacked(prediction: Prediction) -> str:
    return "\n".join(wrapped(f"stacked cache: {item.text}", WIDTH) for item in prediction.stacked)


def _savings(savings: Savings | None) -> str:
    if savings is None or not savings.groups:
        return ""
    batches = sorted(savings.batch)
    rows = [
        [
            units.middle_elided(" ".join(group.chain), 32),
            units.count(group.places),
            units.count(group.launches),
            units.size(group.bytes),
            units.time_value(group.time_ns, "µs"),
            *[units.size(group.batch[b][0]) for b in batches],
        ]
        for group in savings.groups[:GROUPS_SHOWN]
    ]
    rows.append(
        [
            "all",
            units.count(sum(group.places for group in savings.groups)),
            units.count(savings.launches),
            units.size(savings.bytes),
            units.time_value(savings.time_ns, "µs"),
            *[units.size(savings.batch[b][0]) for b in batches],
        ]
    )
    header = ["fused groups", "places", "launches", "bytes", "µs", *[f"batch {b}" for b in batches]]
    lines = [table(header, rows), f"  {savings.source}"]
    for chain in savings.quantize_chains:
        text = (
            f"activation and quantize in one kernel: {' '.join(chain.chain)}, "
            f"{units.count(chain.launches)} launches and {units.size(chain.bytes)} saved"
        )
        lines.append(wrapped(text, WIDTH, indent="  "))
    return "\n".join(lines)


def _realised(realised: Realised | None) -> str:
    if realised is None:
        return ""
    classes = [f"{name} {_signed(ns)}" for name, ns in realised.busy_by_class.items() if round(ns)]
    lines = [
        wrapped(
            f"realised by compiling: {units.count(realised.kernels_removed)} kernels and "
            f"{units.count(realised.launches_removed)} launches removed, idle "
            f"{_signed(-realised.idle_removed_ns)} ({realised.idle_source}), busy "
            f"{_signed(realised.busy_change_ns)}" + (f" ({', '.join(classes)})" if classes else ""),
            WIDTH,
        )
    ]
    for group in realised.losses[:LOSSES_SHOWN]:
        text = f"lost {units.time(group.delta_ns)} per token: {group.title}"
        lines.append(wrapped(text, WIDTH, indent="  "))
    return "\n".join(lines)


def _signed(ns: float) -> str:
    sign = "+" if ns > 0 else "−" if ns < 0 else ""
    return f"{sign}{units.time(abs(ns))}"


def _score(rows: tuple[Score, ...]) -> str:
    if not rows:
        return ""
    body = [
        [
            units.middle_elided(row.title, 32),
            _value(row, row.predicted),
            _value(row, row.realised),
            units.MISSING if row.error is None else _percent(row.error),
            {True: "yes", False: "no", None: ""}[row.inside],
        ]
        for row in rows
    ]
    lines = [table(["score", "predicted", "realised", "error", "in range"], body)]
    notes = dict.fromkeys(part for row in rows for part in row.note.split("; ") if part)
    return "\n".join([*lines, *(wrapped(note, WIDTH, indent="  ") for note in notes)])


def _value(row: Score, value: float) -> str:
    return units.time(value) if row.unit == "ns" else units.count(value)


def _percent(error: float) -> str:
    sign = "+" if error > 0 else "−" if error < 0 else ""
    return f"{sign}{units.share(abs(error), 1)}"
