"""The slow reference itself: against figures worked out by hand, and against recorded traces."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.builders import Event, anchor, decode_events, events_json
from tests.drawings import DRAWINGS, STEP_DRAWINGS, Drawing, StepDrawing
from tests.reference import (
    HOST_CAUSES,
    Recording,
    all_devices,
    exact_ns,
    gaps,
    lower_median,
    nearest_rank,
    read,
)
from tests.reference_steps import find_marks, headlines, steps_of


def recorded(*events: Event) -> Recording:
    return read(events_json(anchor(), *events))


def present(parts: dict[str, int]) -> dict[str, int]:
    return {cause: ns for cause, ns in parts.items() if ns}


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda d: d.name)
def test_gaps_of_drawings(drawing: Drawing) -> None:
    rec = recorded(*drawing.events)
    found = {
        rec.device_id(device): [
            (g.start, g.end, present(g.parts), g.drained_by_sync) for g in gaps(rec, device)
        ]
        for device in rec.devices
    }
    assert found == {
        device: [(g.start, g.end, dict(g.parts), g.drained) for g in rows]
        for device, rows in drawing.gaps.items()
    }


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda d: d.name)
def test_device_figures_of_drawings(drawing: Drawing) -> None:
    figures = {f["device"]: f for f in all_devices(recorded(*drawing.events))}
    for device, rows in drawing.gaps.items():
        assert figures[device]["gaps"] == len(rows)
        assert present(figures[device]["idle_by_cause_ns"]) == drawing.causes(device)
    for device, wanted in drawing.figures.items():
        assert {key: figures[device][key] for key in wanted} == wanted


@pytest.mark.parametrize("drawing", STEP_DRAWINGS, ids=lambda d: d.name)
def test_steps_of_drawings(drawing: StepDrawing) -> None:
    rec = recorded(*drawing.events)
    rule, marks = find_marks(rec)
    assert rule == drawing.rule
    found = [
        {
            "host_window": (step.start, step.end),
            "gpu_window": (step.gpu_start, step.gpu_end),
            "busy": step.busy_ns,
            "kernels": step.count("kernel"),
            "launches": step.launches,
            "host": present(step.host or {}),
            "copies": step.count("memcpy"),
            "is_open": step.is_open,
            "excluded": bool(step.excluded),
            "withheld": step.withheld,
        }
        for step in steps_of(rec, ("", "0"), marks)
    ]
    assert found == [vars(row) for row in drawing.steps]


def test_headlines_are_lower_medians_and_nearest_ranks() -> None:
    assert [lower_median([3]), lower_median([4, 1]), lower_median([9, 1, 5])] == [3, 1, 5]
    ten = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
    assert [nearest_rank(ten, p) for p in (0, 5, 10, 11, 50, 95, 100)] == [
        10,
        10,
        10,
        20,
        50,
        100,
        100,
    ]
    assert [nearest_rank([7, 3], p) for p in (5, 50, 51, 95)] == [3, 3, 7, 7]


def test_regular_eager_decode_is_what_its_builder_promises() -> None:
    rec = recorded(*decode_events(steps=5, kernels=3, sync_ns=400))
    rule, marks = find_marks(rec)
    steps = steps_of(rec, ("", "0"), marks)
    assert (rule, len(steps), sum(s.complete for s in steps)) == ("gaptrace", 5, 4)
    median = headlines(steps)["median"]
    assert median == {
        "period_ns": 3 * 5_000 + 10_000,
        "busy_ns": 3 * 2_000,
        "idle_ns": 3 * 3_000 + 10_000,
        "kernels": 3,
        "launches": 3,
        "copies": 0,
        "memsets": 0,
        "host_dispatch_ns": 25_000 - 2_400,
    }
    assert steps[1].host is not None
    assert present(steps[1].host) == {
        "python": 3 * 1_000 + 10_000 - 400 + 2 * 2_000,
        "dispatch": 3_000,
        "launch": 3_000,
        "sync": 2_400,
    }
    assert steps[1].idle_by_cause_ns is not None
    assert present(steps[1].idle_by_cause_ns) == {
        "python": 3 * 1_000 + 10_000 - 400,
        "dispatch": 3_000,
        "launch": 3_000,
        "sync": 400,
    }


def test_regular_graph_decode_is_what_its_builder_promises() -> None:
    rec = recorded(*decode_events(steps=4, kernels=5, gap_ns=100, mode="graph"))
    steps = steps_of(rec, ("", "0"), find_marks(rec)[1])
    median = headlines(steps)["median"]
    assert median["period_ns"] == 1_000 + 1_000 + 5 * 2_000 + 4 * 100 + 10_000
    assert (median["kernels"], median["launches"], median["busy_ns"]) == (5, 1, 10_000)
    assert steps[1].idle_by_cause_ns is not None
    assert present(steps[1].idle_by_cause_ns) == {
        "graph_node": 400,
        "unattributed": 11_000,
        "launch": 1_000,
    }


def test_without_a_complete_step_the_open_one_speaks() -> None:
    rec = recorded(*decode_events(steps=1, kernels=2))
    median = headlines(steps_of(rec, ("", "0"), find_marks(rec)[1]))["median"]
    assert median["period_ns"] == 2_000 + 3_000 + 2_000
    assert headlines([]) == {"median": {}, "p5": {}, "p95": {}}


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("5103840751248.961", 5103840751248961),
        ("1712195495505543.2", 1712195495505543200),
        ("1606910596297023", 1606910596297023000),
        ("0.001", 1),
        ("-1.5", -1500),
    ],
)
def test_times_are_what_the_text_says(text: str, ns: int) -> None:
    assert exact_ns(text) == ns
    data = f'{{"traceEvents": [{{"ph": "X", "ts": {text}, "dur": {text}}}]}}'
    rec = read(data.encode())
    assert (rec.origin_ns, rec.events[0].end) == (ns, max(ns, 0))


def test_steps_and_outside_make_the_whole() -> None:
    events = decode_events(steps=6, kernels=4, at=5_000, first=2)
    rec = recorded(*events)
    steps = steps_of(rec, ("", "0"), find_marks(rec)[1])
    figures = all_devices(rec)[0]
    assert sum(s.busy_ns or 0 for s in steps) == figures["busy_ns"]
    assert sum(s.idle_ns or 0 for s in steps) == figures["idle_ns"]
    assert [s.gpu_end for s in steps[:-1]] == [s.gpu_start for s in steps[1:]]
    for step in steps:
        assert step.host is not None
        assert sum(step.host.values()) == step.end - step.start


def _reference_files() -> dict[str, Any]:
    path = Path(os.environ.get("GAPTRACE_CORPUS", "")) / "reference.json"
    return json.loads(path.read_text()) if path.is_file() else {}


@pytest.mark.corpus
@pytest.mark.parametrize("name", sorted(_reference_files()) or ["no corpus"])
def test_recorded_traces_agree_to_the_nanosecond(corpus: Path, name: str) -> None:
    (path,) = corpus.glob(f"*/{name}")
    found = {figures["device"]: figures for figures in all_devices(read(path.read_bytes()))}
    wanted = _reference_files()[name]
    assert set(found) == set(wanted)
    for device, figures in wanted.items():
        causes = found[device].pop("idle_by_cause_ns")
        coarse = {c: ns for c, ns in causes.items() if c not in HOST_CAUSES}
        coarse["host_late"] = sum(causes[c] for c in HOST_CAUSES)
        assert sum(causes.values()) == found[device]["idle_ns"]
        assert present(coarse) == figures.pop("idle_by_cause_ns")
        assert {key: found[device][key] for key in figures} == figures
