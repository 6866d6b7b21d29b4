"""What must hold for the reference on any trace, with an instant-by-instant count as the judge."""

from __future__ import annotations

from hypothesis import given, settings

from tests.builders import Event, anchor, events_json
from tests.reference import (
    CAUSES,
    Ev,
    Recording,
    Thing,
    Threads,
    device_figures,
    gaps,
    ordered_ops,
    read,
    things_of_lane,
)
from tests.reference_steps import find_marks, steps_of
from tests.strategies import random_trace


def recorded(events: list[Event]) -> Recording:
    return read(events_json(anchor(), *events))


def running(ops: list[Ev], instant: int) -> bool:
    return any(o.start <= instant < o.end for o in ops)


@settings(max_examples=150, deadline=None)
@given(random_trace())
def test_busy_and_idle_instant_by_instant(events: list[Event]) -> None:
    rec = recorded(events)
    for device in rec.devices:
        ops = ordered_ops(rec, device)
        lo, hi = min(o.start for o in ops), max(o.end for o in ops)
        busy = sum(running(ops, t) for t in range(lo, hi))
        figures = device_figures(rec, device)
        assert (figures["span_ns"], figures["busy_ns"]) == (hi - lo, busy)
        found = gaps(rec, device)
        assert sum(g.end - g.start for g in found) == figures["idle_ns"] == hi - lo - busy
        for gap in found:
            assert sum(gap.parts.values()) == gap.end - gap.start
            assert not any(running(ops, t) for t in range(gap.start, gap.end))
            assert not any(gap.start < o.start < gap.end for o in ops)


@settings(max_examples=150, deadline=None)
@given(random_trace())
def test_causes_instant_by_instant(events: list[Event]) -> None:
    rec = recorded(events)
    for device in rec.devices:
        for gap in gaps(rec, device):
            if gap.call is None or gap.call.start <= gap.start or gap.parts["graph_node"]:
                continue
            things = things_of_lane(rec, gap.call.lane)
            counted = dict.fromkeys(CAUSES, 0)
            for t in range(gap.start, gap.end):
                inside = [x for x in things if x.start <= t < x.end]
                cause = max(inside, key=Thing.depth).cause if inside else "python"
                counted["launch" if t >= gap.call.start else cause] += 1
            assert counted == gap.parts


@settings(max_examples=150, deadline=None)
@given(random_trace(marked=True))
def test_steps_tile_and_sum(events: list[Event]) -> None:
    rec = recorded(events)
    threads = Threads(rec)
    for device in rec.devices:
        rule, marks = find_marks(rec, device[0])
        steps = steps_of(rec, device, marks, threads)
        assert rule == "gaptrace"
        assert [s.end for s in steps[:-1]] == [s.start for s in steps[1:]]
        owned = [o.row for s in steps for o in s.ops]
        assert len(owned) == len(set(owned))
        for step in steps:
            if step.host is not None:
                assert sum(step.host.values()) == step.end - step.start
            if step.period_ns is not None and step.idle_by_cause_ns is not None:
                assert (step.busy_ns or 0) + (step.idle_ns or 0) == step.period_ns
                assert sum(step.idle_by_cause_ns.values()) == step.idle_ns


@settings(max_examples=100, deadline=None)
@given(random_trace())
def test_file_order_decides_only_ties(events: list[Event]) -> None:
    rec, turned = recorded(events), recorded(events[::-1])
    for device in rec.devices:
        before, after = (device_figures(r, device) for r in (rec, turned))
        for key in ("gpu_ops", "kernels", "span_ns", "busy_ns", "idle_ns", "gaps"):
            assert before[key] == after[key]
