"""Drawings of decode steps: windows, what belongs to a step, host time, exclusions."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.builders import Event, graph_launch, kernel, launch, mark, memcpy, op, overhead, runtime


@dataclass(frozen=True)
class StepRow:
    """What one step of device 0 must look like; host parts that are not named are 0.

    `host_window` and `gpu_window` are (start, end). `excluded` steps are neither complete nor open.
    `withheld` steps have no busy and idle to show, because ops of other steps run in their window.
    """

    host_window: tuple[int, int]
    gpu_window: tuple[int, int] | None
    busy: int | None
    kernels: int
    launches: int
    host: dict[str, int] = field(default_factory=dict)
    copies: int = 0
    is_open: bool = False
    excluded: bool = False
    withheld: bool = False


@dataclass(frozen=True)
class StepDrawing:
    """Marked events and the steps that they make, the open one last."""

    name: str
    events: tuple[Event, ...]
    steps: tuple[StepRow, ...]
    rule: str = "gaptrace"


def _step(number: int, at: int, corr: int) -> tuple[Event, ...]:
    """A step that starts at `at`: a kernel, one inside an op, and a copy after the mark's end."""
    return (
        mark(f"gaptrace.step#{number}", at=at, dur=30),
        launch(at=at + 5, dur=3, corr=corr),
        kernel("a", at=at + 10, dur=10, corr=corr),
        op("aten::mm", at=at + 20, dur=8),
        launch(at=at + 22, dur=3, corr=corr + 1),
        kernel("b", at=at + 26, dur=4, corr=corr + 1),
        launch("cudaMemcpyAsync", at=at + 32, dur=3, corr=corr + 2),
        memcpy(at=at + 36, dur=3, corr=corr + 2),
    )


_HOST = {"python": 26, "dispatch": 5, "launch": 9}


def _row(at: int, host: dict[str, int] = _HOST, **other: object) -> StepRow:
    window = (at + 10, at + 50)
    return StepRow((at, at + 40), window, 17, 2, 3, host, copies=1, **other)  # type: ignore[arg-type]


def _open_row(at: int) -> StepRow:
    host = {"python": 21, "dispatch": 5, "launch": 9}
    window = (at + 10, at + 39)
    return StepRow((at, at + 35), window, 17, 2, 3, host, copies=1, is_open=True)


STEP_DRAWINGS = (
    StepDrawing(
        "the sampler after the mark belongs to the step, the last step is open",
        (*_step(0, 0, 1), *_step(1, 40, 4), *_step(2, 80, 7)),
        (_row(0), _row(40), _open_row(80)),
    ),
    StepDrawing(
        "one step alone is open",
        _step(0, 0, 1),
        (_open_row(0),),
    ),
    StepDrawing(
        "work before the first mark is outside, its time in the window is foreign",
        (
            launch(at=0, dur=1, corr=90),
            kernel("warm-up", at=2, dur=20, corr=90, stream=8),
            *_step(0, 10, 1),
            *_step(1, 50, 4),
        ),
        # It still runs over [20, 22): 2 of the 17 busy ns belong to no step.
        (_row(10, withheld=True), _open_row(50)),
    ),
    StepDrawing(
        "an op of one step that runs into the next",
        (
            *_step(0, 0, 1),
            launch(at=37, dur=2, corr=50),
            kernel("late", at=45, dur=20, corr=50, stream=8),
            *_step(1, 40, 4),
            *_step(2, 80, 7),
        ),
        # The late kernel adds 5 ns to the first window and covers 15 of the second, 5 of them idle.
        (
            StepRow(
                (0, 40),
                (10, 50),
                22,
                3,
                4,
                {"python": 24, "dispatch": 5, "launch": 11},
                copies=1,
            ),
            StepRow((40, 80), (50, 90), 22, 2, 3, _HOST, copies=1, withheld=True),
            _open_row(80),
        ),
    ),
    StepDrawing(
        "an orphan belongs to the window that contains its start",
        (*_step(0, 0, 1), kernel("orphan", at=42, dur=3), *_step(1, 40, 4)),
        (
            StepRow((0, 40), (10, 50), 20, 3, 3, _HOST, copies=1),
            _open_row(40),
        ),
    ),
    StepDrawing(
        "a first step under profiler overhead is left out when two others are complete",
        (
            *_step(0, 0, 1),
            overhead(at=21, dur=2),
            *_step(1, 40, 4),
            *_step(2, 80, 7),
            *_step(3, 120, 10),
        ),
        (
            # The overhead covers 1 ns of the op and 1 ns of the launch call in it.
            _row(0, {"python": 26, "dispatch": 4, "launch": 8, "profiler": 2}, excluded=True),
            _row(40),
            _row(80),
            _open_row(120),
        ),
    ),
    StepDrawing(
        "a first step under profiler overhead stays when only one other is complete",
        (*_step(0, 0, 1), overhead(at=38, dur=2), *_step(1, 40, 4), *_step(2, 80, 7)),
        (
            _row(0, {"python": 24, "dispatch": 5, "launch": 9, "profiler": 2}),
            _row(40),
            _open_row(80),
        ),
    ),
    StepDrawing(
        "a synchronization is host time but not dispatch time",
        (*_step(0, 0, 1), runtime("cudaStreamSynchronize", at=36, dur=3), *_step(1, 40, 4)),
        (
            _row(0, {"python": 23, "dispatch": 5, "launch": 9, "sync": 3}),
            _open_row(40),
        ),
    ),
    StepDrawing(
        "the launching thread is the one with most launch calls",
        (
            mark("gaptrace.step#0", at=0, dur=50, tid=1),
            launch(at=5, dur=5, corr=1, tid=1),
            kernel("a", at=12, dur=4, corr=1),
            op("aten::mm", at=15, dur=10, tid=2),
            launch(at=20, dur=5, corr=2, tid=2),
            kernel("b", at=30, dur=4, corr=2),
            launch(at=35, dur=5, corr=3, tid=2),
            kernel("c", at=42, dur=4, corr=3),
            mark("gaptrace.step#1", at=60, dur=50, tid=1),
            launch(at=65, dur=5, corr=4, tid=1),
            kernel("a", at=72, dur=4, corr=4),
        ),
        (
            StepRow((0, 60), (12, 72), 12, 3, 3, {"python": 45, "dispatch": 5, "launch": 10}),
            StepRow((60, 70), (72, 76), 4, 1, 1, {"unattributed": 5, "launch": 5}, is_open=True),
        ),
    ),
    StepDrawing(
        "a last launch call that took no time is still the last step's",
        (
            *_step(0, 0, 1),
            mark("gaptrace.step#1", at=40, dur=5),
            launch(at=50, dur=0, corr=4),
            kernel("a", at=60, dur=10, corr=4),
        ),
        (
            StepRow((0, 40), (10, 60), 17, 2, 3, _HOST, copies=1),
            StepRow((40, 50), (60, 70), 10, 1, 1, {"python": 10}, is_open=True),
        ),
    ),
    StepDrawing(
        "replays, and a copy between them",
        (
            mark("ProfilerStep#7", at=0, dur=30),
            graph_launch(at=5, dur=10, corr=1),
            kernel("a", at=20, dur=10, corr=1),
            kernel("b", at=32, dur=8, corr=1),
            mark("ProfilerStep#8", at=50, dur=30),
            launch("cudaMemcpyAsync", at=52, dur=2, corr=2),
            memcpy(at=56, dur=2, corr=2),
            graph_launch(at=60, dur=10, corr=3),
            kernel("a", at=75, dur=10, corr=3),
            kernel("b", at=87, dur=8, corr=3),
        ),
        (
            StepRow((0, 50), (20, 56), 18, 2, 1, {"unattributed": 40, "launch": 10}),
            StepRow(
                (50, 70),
                (56, 95),
                20,
                2,
                2,
                {"unattributed": 8, "launch": 12},
                copies=1,
                is_open=True,
            ),
        ),
        rule="ProfilerStep",
    ),
    StepDrawing(
        "a launch that waits for room in the queue while earlier work runs",
        (
            mark("gaptrace.step#0", at=0, dur=150),
            launch(at=0, dur=2, corr=1),
            kernel("a", at=5, dur=95, corr=1),
            launch(at=10, dur=2, corr=2),
            kernel("b", at=100, dur=10, corr=2),
            # Ten times the median of 2 is over at 40; b, launched before, runs until 110.
            launch(at=20, dur=80, corr=3),
            kernel("c", at=110, dur=10, corr=3),
            mark("gaptrace.step#1", at=200, dur=20),
            launch(at=200, dur=2, corr=4),
            kernel("a", at=210, dur=10, corr=4),
        ),
        (
            StepRow(
                (0, 200),
                (5, 210),
                115,
                3,
                3,
                {"unattributed": 116, "launch": 24, "backpressure": 60},
            ),
            StepRow((200, 202), (210, 220), 10, 1, 1, {"launch": 2}, is_open=True),
        ),
    ),
    StepDrawing(
        "a slow launch is backpressure only while earlier work runs",
        (
            mark("gaptrace.step#0", at=0, dur=150),
            launch(at=0, dur=2, corr=1),
            kernel("a", at=5, dur=55, corr=1),
            launch(at=10, dur=2, corr=2),
            kernel("b", at=60, dur=10, corr=2),
            launch(at=20, dur=80, corr=3),
            kernel("c", at=110, dur=10, corr=3),
            mark("gaptrace.step#1", at=200, dur=20),
            launch(at=200, dur=2, corr=4),
            kernel("a", at=210, dur=10, corr=4),
        ),
        (
            StepRow(
                (0, 200),
                (5, 210),
                75,
                3,
                3,
                {"unattributed": 116, "launch": 54, "backpressure": 30},
            ),
            StepRow((200, 202), (210, 220), 10, 1, 1, {"launch": 2}, is_open=True),
        ),
    ),
    StepDrawing(
        "a step that compiles is not steady state",
        (
            *_step(0, 0, 1),
            *_step(1, 40, 4),
            mark("compile_fx.inner (dynamo_timed)", at=76, dur=3),
            *_step(2, 80, 7),
            *_step(3, 120, 10),
        ),
        (
            _row(0),
            _row(40, {"python": 23, "dispatch": 5, "launch": 9, "compile": 3}, excluded=True),
            _row(80),
            _open_row(120),
        ),
    ),
)
