"""The vectorised analyzer against the slow reference: drawings, random traces, recordings."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaptrace.measure.devices import Device, devices
from gaptrace.measure.gaps import CAUSES
from gaptrace.measure.hosttime import HOST_CLASSES, host_clock
from gaptrace.measure.labels import Label
from gaptrace.measure.links import link
from gaptrace.measure.marks import Marks, find_marks
from gaptrace.measure.steps import Steps, measure_steps
from gaptrace.measure.threads import activities, call_kinds
from gaptrace.reading.loading import load
from gaptrace.trace import Trace
from tests.builders import Event, anchor, events_json, trace_of
from tests.drawings import DRAWINGS, STEP_DRAWINGS, Drawing, StepDrawing
from tests.reference import Recording, Threads, all_devices, read
from tests.reference_steps import HOST_PARTS, steps_of
from tests.reference_steps import find_marks as reference_marks
from tests.strategies import random_trace

SAMPLES = Path(__file__).parents[2] / "sample_traces"
FIGURES = (
    "gpu_ops",
    "kernels",
    "span_ns",
    "busy_ns",
    "idle_ns",
    "launch_calls",
    "kernel_launch_calls",
    "graph_launches",
    "ops_in_graphs",
    "kernels_in_graphs",
    "orphans",
    "starts_before_launch",
    "kernel_dur_sum_ns",
)


def analyzed(trace: Trace) -> tuple[Device, ...]:
    links = link(trace)
    kinds = call_kinds(trace, links)
    return devices(trace, links, activities(trace, links, kinds))


def gap_rows(device: Device) -> list[tuple[int, int, dict[str, int]]]:
    found = device.gaps
    return [
        (
            int(found.start[i]),
            int(found.end[i]),
            {name: int(ns) for name, ns in zip(CAUSES, found.raw_cause_ns[i], strict=True) if ns},
        )
        for i in range(len(found))
    ]


def steps_on(trace: Trace, device: Device, marks: Marks) -> Steps:
    links = link(trace)
    kinds = call_kinds(trace, links)
    return measure_steps(
        trace, device, marks, host_clock(trace, links, kinds, activities(trace, links, kinds))
    )


def marks_from(pairs: list[tuple[int, int]]) -> Marks:
    start = np.array([a for a, _ in pairs], np.int64)
    end = np.array([b for _, b in pairs], np.int64)
    none = np.full(start.size, -1, np.int64)
    return Marks("gaptrace marks", start, end, none, none, (Label(),) * start.size)


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda d: d.name)
def test_drawings(drawing: Drawing) -> None:
    found = {device.device: device for device in analyzed(trace_of(*drawing.events))}
    assert {name: gap_rows(device) for name, device in found.items()} == {
        name: [(g.start, g.end, dict(g.parts)) for g in rows] for name, rows in drawing.gaps.items()
    }
    for name, rows in drawing.gaps.items():
        assert found[name].gaps.drained_by_sync.tolist() == [g.drained for g in rows]
    for name, wanted in drawing.figures.items():
        have = {key: getattr(found[name].figures, key, None) for key in wanted}
        assert have == wanted


@pytest.mark.parametrize("drawing", STEP_DRAWINGS, ids=lambda d: d.name)
def test_step_drawings(drawing: StepDrawing) -> None:
    trace = trace_of(*drawing.events)
    device = next(d for d in analyzed(trace) if d.device == "0")
    steps = steps_on(trace, device, find_marks(trace, device.links))
    found = [
        {
            "host_window": (int(steps.host_start[i]), int(steps.host_end[i])),
            "gpu_window": (int(steps.gpu_start[i]), int(steps.gpu_end[i]))
            if steps.has_ops[i]
            else None,
            "busy": int(steps.busy_ns[i]) if steps.has_ops[i] else None,
            "kernels": int(steps.kernels[i]),
            "launches": int(steps.launches[i]),
            "host": {
                name: int(ns)
                for name, ns in zip(HOST_CLASSES, steps.host_ns[i], strict=True)
                if ns and steps.lane[i] >= 0
            },
            "copies": int(steps.copies[i]),
            "is_open": i == steps.open_index,
            "excluded": steps.excluded[i] not in ("", "open"),
            "withheld": bool(steps.mixed[i]),
        }
        for i in range(len(steps))
    ]
    wanted = []
    for row in drawing.steps:
        entry = dict(vars(row))
        if entry["gpu_window"] in (None, (None, None)):
            entry["gpu_window"] = None
        wanted.append(entry)
    assert found == wanted


def assert_same_devices(rec: Recording, trace: Trace) -> None:
    found = {device.device: device for device in analyzed(trace)}
    wanted = {figures["device"]: figures for figures in all_devices(rec)}
    assert set(found) == set(wanted)
    for name, figures in wanted.items():
        device = found[name]
        assert {key: getattr(device.figures, key) for key in FIGURES} == {
            key: figures[key] for key in FIGURES
        }
        assert device.figures.idle_by_cause_ns == {
            cause: figures["idle_by_cause_ns"].get(cause, 0) for cause in CAUSES
        }
        assert int(device.gaps.dur.sum()) == device.figures.idle_ns
        assert (device.gaps.cause_ns.sum(axis=1) == device.gaps.dur).all()


def assert_same_steps(rec: Recording, trace: Trace) -> None:
    threads = Threads(rec)
    found = {device.device: device for device in analyzed(trace)}
    for key in rec.devices:
        _, pairs = reference_marks(rec, key[0])
        if not pairs or len({start for start, _ in pairs}) != len(pairs):
            continue
        wanted = steps_of(rec, key, pairs, threads)
        if any(s.excluded.startswith("starts after") for s in wanted):
            continue  # windows out of order: the analyzer keeps them tiling, the reference drops
        device = found[rec.device_id(key)]
        steps = steps_on(trace, device, marks_from(pairs))
        for i, step in enumerate(wanted):
            assert (steps.host_start[i], steps.host_end[i]) == (step.start, step.end)
            assert steps.kernels[i] == step.count("kernel")
            assert steps.launches[i] == step.launches
            assert steps.copies[i] == step.count("memcpy")
            assert steps.memsets[i] == step.count("memset")
            if step.gpu_start is not None:
                assert (steps.gpu_start[i], steps.gpu_end[i]) == (step.gpu_start, step.gpu_end)
                assert steps.busy_ns[i] == step.busy_ns
                assert steps.idle_ns[i] == step.idle_ns
                assert bool(steps.mixed[i]) == step.withheld
                assert step.idle_by_cause_ns is not None
                assert dict(zip(CAUSES, steps.cause_ns[i].tolist(), strict=True)) == {
                    cause: step.idle_by_cause_ns.get(cause, 0) for cause in CAUSES
                }
            if step.host is not None:
                assert dict(zip(HOST_CLASSES, steps.host_ns[i].tolist(), strict=True)) == {
                    part: step.host[part] for part in HOST_PARTS
                }


@given(random_trace())
@settings(max_examples=60, deadline=None)
def test_random_devices(events: list[Event]) -> None:
    data = events_json(anchor(), *events)
    assert_same_devices(read(data), load(data))


@given(random_trace(marked=True))
@settings(max_examples=60, deadline=None)
def test_random_steps(events: list[Event]) -> None:
    data = events_json(anchor(), *events)
    assert_same_steps(read(data), load(data))


@given(random_trace(marked=True), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_file_order_changes_nothing_but_ties(events: list[Event], random: Any) -> None:
    """Figures that do not depend on position in the file survive any order of the events."""
    shuffled = list(events)
    random.shuffle(shuffled)
    for a, b in zip(
        analyzed(load(events_json(anchor(), *events))),
        analyzed(load(events_json(anchor(), *shuffled))),
        strict=True,
    ):
        for name in ("device", "gpu_ops", "busy_ns", "idle_ns", "span_ns", "gaps"):
            assert getattr(a.figures, name) == getattr(b.figures, name)


@pytest.mark.parametrize("name", sorted(p.name for p in SAMPLES.glob("*.json.gz")))
def test_sample_traces(name: str) -> None:
    import gzip

    data = gzip.decompress((SAMPLES / name).read_bytes())
    rec, trace = read(data), load(SAMPLES / name)
    assert_same_devices(rec, trace)
    assert_same_steps(rec, trace)


def _corpus() -> list[tuple[str, dict[str, Any]]]:
    named = os.environ.get("GAPTRACE_CORPUS")
    if not named:
        return []
    return sorted(json.loads((Path(named) / "reference.json").read_text()).items())


@pytest.mark.corpus
@pytest.mark.parametrize(("name", "wanted"), _corpus(), ids=[name for name, _ in _corpus()])
def test_recorded_traces_agree_with_independent_figures(
    corpus: Path, name: str, wanted: dict[str, Any]
) -> None:
    path = next(corpus.glob(f"*/{name}"))
    found = {device.device: device for device in analyzed(load(path))}
    assert set(found) == set(wanted)
    for key, figures in wanted.items():
        device = found[key]
        have: dict[str, Any] = {n: getattr(device.figures, n) for n in (*FIGURES, "gaps")}
        causes = device.figures.idle_by_cause_ns
        coarse = {n: causes[n] for n in ("graph_node", "device_wait", "launch", "unattributed")}
        coarse["host_late"] = sum(causes.values()) - sum(coarse.values())
        have["idle_by_cause_ns"] = {n: ns for n, ns in coarse.items() if ns}
        assert have == figures
