"""Drawings about waiting: the launching thread sleeps, reads a queue, or is only slow.

Silence counts from 100,000 ns on. Each gap of device 0 opens at 10 (after `FIRST`); device 1 is
driven by the same process.
"""

from __future__ import annotations

from tests.builders import Event, frame, kernel, launch, mark, op, overhead, runtime
from tests.drawing import FIRST, Drawing, GapRow, one_device

LATE = 210_000


def _ends(at: int = LATE) -> tuple[Event, ...]:
    """What ends the gap: an op that launches a kernel."""
    return (
        op("aten::mm", at=at - 10, dur=20),
        launch(at=at, dur=5, corr=2),
        kernel("b", at=at + 10, dur=10, corr=2),
    )


def _elsewhere(dur: int, tid: int = 1) -> tuple[Event, ...]:
    """A kernel on the other device, launched at once."""
    return (launch(at=2, dur=2, corr=9, tid=tid), kernel("x", at=10, dur=dur, corr=9, device=1))


def _two(name: str, *events: Event, parts: dict[str, int]) -> Drawing:
    rows = (GapRow(10, LATE + 10, {"dispatch": 10, "launch": 10, **parts}),)
    return Drawing(name, (*FIRST, *events, *_ends()), {"0": rows, "1": ()})


def _one(name: str, *events: Event, parts: dict[str, int]) -> Drawing:
    rows = (GapRow(10, LATE + 10, {"dispatch": 10, "launch": 10, **parts}),)
    return one_device(name, *FIRST, *events, *_ends(), gaps=rows)


WAITS = (
    _two(
        "silent while another device of the process is busy",
        *_elsewhere(LATE),
        parts={"host_wait": LATE - 20},
    ),
    _two(
        "the other device is busy for 89 % of the silence",
        *_elsewhere(4 + (LATE - 14) * 89 // 100),
        parts={"python": LATE - 20},
    ),
    _one("silent while nobody works", parts={"python": LATE - 20}),
    _one(
        "another thread synchronizes for half of the silence",
        runtime("cudaStreamSynchronize", at=10, dur=LATE // 2, tid=2),
        parts={"host_wait": LATE - 20},
    ),
    _one(
        "another process synchronizes",
        runtime("cudaStreamSynchronize", at=10, dur=LATE - 20, tid=2, pid=101),
        parts={"python": LATE - 20},
    ),
    _two(
        "an op cuts the silence into two, of which one is long enough",
        *_elsewhere(LATE),
        op("aten::view", at=50_000, dur=1_000),
        parts={"python": 50_000 - 10, "dispatch": 1_010, "host_wait": LATE - 10 - 51_000},
    ),
    _two(
        "a mark cuts no silence, the end of a frame does",
        *_elsewhere(LATE),
        mark("note", at=50_000, dur=1_000),
        frame("loop.py(1): body", at=4, dur=60_000),
        parts={"python": 60_004 - 10, "host_wait": LATE - 10 - 60_004},
    ),
    _two(
        "the profiler's own work is no silence",
        *_elsewhere(LATE),
        overhead(at=20_010, dur=30_000),
        parts={"python": 20_000, "profiler": 30_000, "host_wait": LATE - 10 - 50_010},
    ),
    _one(
        "a frame that reads a queue waits, however short it is",
        frame("/usr/lib/python3.12/queue.py(154): get", at=1_000, dur=3_000),
        frame("/usr/lib/python3.12/threading.py(323): wait", at=1_500, dur=2_000),
        frame("my.py(3): loads", at=3_600, dur=300),
        op("aten::empty", at=2_000, dur=500),
        parts={"python": LATE - 20 - 3_000 + 300, "dispatch": 510, "host_wait": 2_200},
    ),
    _one(
        "an event loop's frame runs callbacks: only its poll waits",
        frame("asyncio/base_events.py(1922): _run_once", at=1_000, dur=9_000),
        frame("selectors.py(451): select", at=2_000, dur=4_000),
        parts={"python": LATE - 20 - 4_000, "host_wait": 4_000},
    ),
)
