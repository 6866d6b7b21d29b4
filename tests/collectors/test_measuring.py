"""The pieces that measure, each with numbers that can be checked in the head."""

import gzip
import json

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from gaptrace_collectors import timing  # noqa: E402
from gaptrace_collectors.device import Device  # noqa: E402
from gaptrace_collectors.hygiene import Compiles  # noqa: E402
from gaptrace_collectors.steadiness import launch_sequence  # noqa: E402


@pytest.fixture
def cpu():
    device = Device()
    device.type = "cpu"
    return device


@pytest.fixture
def clock(cpu, monkeypatch):
    """A step clock over made-up times."""
    now = iter([0, 100, 250, 1000, 1100])
    monkeypatch.setattr(timing.time, "perf_counter_ns", lambda: next(now))
    return timing.StepClock(cpu, 4)


def test_periods_run_from_entry_to_entry(clock):
    for _ in range(5):
        clock.stamp()
    assert clock.samples()["host_ns"] == [100, 150, 750, 100]


def test_an_interrupted_period_is_left_out(clock):
    for number in range(5):
        clock.stamp()
        if number == 2:
            clock.interrupt()  # a prefill ran between the third and the fourth step
    assert clock.periods == 3
    assert clock.samples()["host_ns"] == [100, 150, 100]


def test_the_median_is_of_the_steps_before_the_profile():
    def side(*samples):
        return {"host_ns": list(samples), "device_ns": None}

    section = timing.unprofiled(side(10, 20, 30), side(40, 50, 60))
    assert section["median_ns"] == 20
    assert section["clock"] == "host"
    assert section["drift"] == 2.5


def test_of_two_middle_values_the_lower_is_the_median():
    assert timing.median_ns([40, 10, 30, 20]) == 20
    assert timing.median_ns([]) is None


def test_device_events_are_preferred():
    side = {"host_ns": [1], "device_ns": [9]}
    section = timing.unprofiled(side, None)
    assert (section["median_ns"], section["clock"]) == (9, "device_events")
    assert section["drift"] is None


def test_compiles_and_recompiles_are_told_with_their_guard():
    class Model(torch.nn.Module):
        name = "a"

        def forward(self, x):
            return x + len(self.name)

    torch._dynamo.reset()
    model = Model()
    compiles = Compiles()
    model.compile(backend="eager")
    for step, name in enumerate(("a", "a", "bb"), start=1):
        model.name = name
        model(torch.zeros(2))
        compiles.after_step("warm-up", step)
    section = compiles.section()
    assert compiles.count() == 2
    assert section["recompile_count"] == 1
    (recompile,) = section["recompiles"]
    assert recompile["step"] == 3
    assert "self.name == 'a'" in recompile["guard"]
    assert recompile["function"] == "forward"
    assert recompile["place"].startswith(__file__)


def test_graph_breaks_have_reason_and_place():
    def step(x):
        if x.sum().item() > 0:
            return x + 1
        return x - 1

    torch._dynamo.reset()
    compiles = Compiles()
    torch.compile(step, backend="eager")(torch.ones(2))
    breaks = compiles.section()["graph_breaks"]
    assert any("item" in row["reason"] and row["place"].startswith(__file__) for row in breaks)


def trace_of(tmp_path, *events):
    path = tmp_path / "trace.json.gz"
    with gzip.open(path, "wt") as file:
        json.dump({"traceEvents": list(events)}, file)
    return str(path)


def event(name, cat, at, correlation=0):
    args = {"correlation": correlation}
    return {"ph": "X", "name": name, "cat": cat, "ts": at, "dur": 1, "args": args}


def test_the_launch_sequence_follows_the_launch_call_not_the_kernel(tmp_path):
    marks = [event(f"gaptrace.step#{n}", "user_annotation", 100 * n) for n in range(3)]
    path = trace_of(
        tmp_path,
        *marks,
        event("cudaLaunchKernel", "cuda_runtime", 10, 1),
        event("cudaLaunchKernel", "cuda_runtime", 110, 2),
        event("gemm", "kernel", 120, 1),  # runs in step 1, launched in step 0
        event("gemm", "kernel", 130, 2),
    )
    section, observed = launch_sequence(path)
    assert section["counts"] == [1, 1]
    assert section["equal"] is True
    assert observed == {}


def test_the_first_difference_is_named(tmp_path):
    marks = [event(f"gaptrace.step#{n}", "user_annotation", 100 * n) for n in range(3)]
    path = trace_of(
        tmp_path,
        *marks,
        event("cudaGraphLaunch", "cuda_runtime", 10, 1),
        event("cudaLaunchKernel", "cuda_runtime", 110, 2),
        event("triton_a", "kernel", 20, 1),
        event("add", "kernel", 120, 2),
    )
    section, observed = launch_sequence(path)
    assert section["equal"] is False
    assert section["first_difference"] == {
        "step": 1,
        "index": 0,
        "first_step": "triton_a",
        "this_step": "add",
    }
    assert observed == {"triton kernels": 1, "graph launches": 1}
