"""One gap in full: its causes, what the host did in it, and how what ended it was launched."""

from __future__ import annotations

from collections.abc import Iterator

from gaptrace import units
from gaptrace.document.blocks import Fact, Facts, Inline, Sentence, Table, Text
from gaptrace.document.gaps import host_table
from gaptrace.document.tables import fact, facts_of, figures, table, words
from gaptrace.knowledge.kernel_names import classify
from gaptrace.measure.frames import gap_steps
from gaptrace.measure.gaps import CAUSES
from gaptrace.measure.gapwork import host_work
from gaptrace.measure.result import Analysis
from gaptrace.quantity import NS, SHARE, TRACED, Quantity
from gaptrace.render.elements import Element, element, shortened
from gaptrace.render.html_blocks import Page, drawn, facts
from gaptrace.timeline.scope import Scope
from gaptrace.trace import Cat
from gaptrace.vocabulary import CAUSES as CAUSE_WORDS
from gaptrace_dashboards.components import markup

DEEPEST = 24


def gap_panel(scope: Scope, gap: int) -> str:
    """The panel for gap number `gap` of the analysed device."""
    analysis, device, page = scope.analysis, scope.device, Page()
    if not 0 <= gap < len(device.gaps):
        return markup(element("p", "There is no such gap in this recording.", class_="soft"))
    gaps, trace = device.gaps, analysis.trace
    start, end = int(gaps.start[gap]), int(gaps.end[gap])
    # Perfetto counts from the zero of the file's own clock; as much again is shown on both sides.
    first, last = (trace.origin_ns + time for time in (2 * start - end, 2 * end - start))
    causes = [cause for cause in CAUSE_WORDS if cause in CAUSES]
    spent = {cause: int(gaps.cause_ns[gap, CAUSES.index(cause)]) for cause in causes}
    split = table(
        "",
        "",
        [(cause, ns) for cause, ns in spent.items() if ns],
        [
            words("cause", lambda c: Text(CAUSE_WORDS[c[0]].label, key=c[0]), "cause", "cause"),
            figures("idle", NS, lambda c: c[1], TRACED, "idle"),
            figures("share", SHARE, lambda c: c[1] / (end - start), TRACED),
        ],
    )
    withheld = analysis.quality.withholds("causes")
    why = Sentence(("Causes are withheld: kernels start before their launches.",))
    launch = int(gaps.launch[gap])
    return markup(
        element("h3", f"Gap {gap}: {units.time(end - start)} idle"),
        element(
            "div",
            element(
                "div",
                drawn(
                    [
                        Facts(facts_of(*_where(analysis, gap))),
                        *((why,) if withheld else (split, *_host(analysis, gap))),
                    ],
                    page,
                ),
                _perfetto(first, last),
            ),
            element(
                "div",
                facts(Facts(tuple(_around_it(analysis, gap))), page),
                _stacks(scope, launch) if launch >= 0 else None,
            ),
            class_="columns",
        ),
    )


def _where(analysis: Analysis, gap: int) -> Iterator[Fact | None]:
    assert analysis.device is not None
    gaps = analysis.device.gaps
    start, end = int(gaps.start[gap]), int(gaps.end[gap])
    step = int(gap_steps(analysis)[gap])
    where = f", step {step}" if step >= 0 else ", outside all steps"
    yield fact("idle", Quantity(end - start, NS), " at ", Quantity(start, NS), where, term="idle")
    if gaps.drained_by_sync[gap]:
        why = "somebody waited, so the queue was empty"
        yield fact("drained by a sync", why, term="drained-by-sync")


def _host(analysis: Analysis, gap: int) -> Iterator[Table]:
    """What the launching thread did in the gap, where the GPU waited for it."""
    assert analysis.device is not None
    work = analysis.gap_work.of(gap)
    if work.gap.size:
        dur = int(analysis.device.gaps.dur[gap])
        yield host_table(host_work(analysis.trace, work, dur), frames=work.frames)


def _around_it(analysis: Analysis, gap: int) -> Iterator[Fact]:
    assert analysis.device is not None
    gaps, trace = analysis.device.gaps, analysis.trace
    yield Fact(Text("after"), (_name(analysis, int(gaps.before[gap])),))
    yield Fact(Text("before"), (_name(analysis, int(gaps.after[gap])),))
    launch = int(gaps.launch[gap])
    if launch >= 0:
        late = Quantity(int(gaps.end[gap]) - int(trace.start[launch]), NS)
        parts = (_name(analysis, launch), ", ", late, " before the GPU went on")
        yield Fact(Text("launch call", term="launch-call"), parts)


def _name(analysis: Analysis, row: int) -> Inline:
    full = analysis.trace.name_of(row)
    return Text(classify(full).short, "name", full)


def _stacks(scope: Scope, launch: int) -> Element:
    """The ops and the Python frames around the launch call, outermost first."""
    trace, lane = scope.trace, int(scope.trace.lane[launch])
    at = int(trace.start[launch])
    pairs = []
    for what, spans in (("launched inside", scope.ops(lane)), ("Python stack", scope.frames(lane))):
        rows = [row for row in spans.within(at, at + 1) if trace.cat[row] != Cat.RUNTIME]
        names = [shortened(trace.name_of(int(row)), 200) for row in rows[-DEEPEST:]]
        said = element("ol", [element("li", name) for name in names], class_="stack mono")
        if what == "Python stack" and not rows:
            said = element("span", "not recorded (collect --stacks)", class_="soft")
        if rows or what == "Python stack":
            pairs.append(element("div", element("dt", what), element("dd", said)))
    return element("dl", pairs, class_="facts")


def _perfetto(first: int, last: int) -> Element:
    return element(
        "p",
        element(
            "button", "Open in Perfetto", type="button", class_="perfetto", data_start=first,
            data_end=last,
        ),
        " ",
        element("span", f"visStart={first}&visEnd={last}", class_="mono select"),
    )  # fmt: skip
