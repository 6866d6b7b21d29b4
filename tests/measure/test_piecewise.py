"""Pieces and seams: hand-numbered to the nanosecond, against a count by brute force, recorded."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaptrace.analysis import analyze
from gaptrace.measure.piecewise import NOTHING, seams
from gaptrace.measure.result import Analysis
from gaptrace.reading.loading import load
from tests.builders import Event, graph_launch, kernel, launch, memcpy, op
from tests.measure.loops import loop, the
from tests.sweep_folders import pieces_events

ATTENTION = "aten::scaled_dot_product_attention"


def replay(at: int, corr: int, *, start: int, stream: int = 7, graph: int = 3) -> list[Event]:
    """A replay called at `at` for 500, its kernels 1,000 and 1,000 with 200 between, from start."""
    return [
        graph_launch(at=at, dur=500, corr=corr),
        kernel("gemm", at=start, dur=1_000, corr=corr, graph_id=graph, node=1, stream=stream),
        kernel("gemm", at=start + 1_200, dur=1_000, corr=corr, graph_id=graph, node=2,
               stream=stream),
    ]  # fmt: skip


def attention(at: int, corr: int, *, start: int, dur: int) -> list[Event]:
    """An op of 600 at `at`, its launch call from 100 to 300, its kernel at `start`."""
    return [
        op(ATTENTION, at=at, dur=600),
        launch(at=at + 100, dur=200, corr=corr),
        kernel("flash", at=start, dur=dur, corr=corr),
    ]


def two_pieces(at: int, corr: int, step: int) -> list[Event]:
    """Piece 1,000 to 3,200; attention 3,700 to 5,700; piece 6,000 to 8,200."""
    return [
        *replay(at, corr, start=at + 1_000),
        *attention(at + 1_000, corr + 1, start=at + 3_700, dur=2_000),
        *replay(at + 2_000, corr + 2, start=at + 6_000, graph=4),
    ]


def test_a_seam_to_the_nanosecond() -> None:
    found = loop(two_pieces, period=20_000)
    every = seams(found, found.step_table.counted)
    assert (every.end - every.start).tolist() == [2_800] * 5
    assert every.busy_ns.tolist() == [2_000] * 5
    assert every.idle_ns.tolist() == [800] * 5
    # From the end of the first call, 500, to the start of the second, 2,000.
    assert every.host_ns.tolist() == [1_500] * 5
    parts = found.piecewise
    assert parts is not None
    assert (parts.steps, parts.of) == (5, "decode steps")
    assert (parts.replays, parts.pieces, parts.seams, parts.with_work) == (2, 2, 1, 1)
    assert (parts.kernels, parts.launches) == (1, 1)
    assert (parts.idle_ns, parts.busy_ns, parts.host_ns) == (800, 2_000, 1_500)
    assert parts.share == 800 / 20_000
    assert parts.idle_per_seam_ns == 800
    (kind,) = parts.kinds
    assert kind.work == (ATTENTION,)
    assert (kind.per_step, kind.kernels, kind.idle_ns, kind.idle_per_step_ns) == (1, 1, 800, 800)


def test_the_step_of_five_pieces() -> None:
    from tests.builders import trace_of

    parts = analyze(trace_of(*pieces_events())).piecewise
    assert parts is not None
    assert (parts.replays, parts.pieces, parts.seams) == (5, 5, 4)
    assert parts.idle_ns == 4 * 3_000
    assert parts.busy_ns == 4 * 3_000


def test_kinds_of_seams_are_told_apart() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        return [
            *two_pieces(at, corr, step),
            # A seam with nothing launched in it, 8,200 to 9,000, and one with a copy, 1,500 long.
            *replay(at + 4_000, corr + 3, start=at + 9_000),
            launch("cudaMemcpyAsync", at=at + 5_000, dur=100, corr=corr + 4),
            memcpy("DtoD", at=at + 11_500, dur=700, corr=corr + 4),
            *replay(at + 6_000, corr + 5, start=at + 12_700),
        ]

    parts = loop(draw, period=30_000).piecewise
    assert parts is not None
    assert (parts.seams, parts.with_work, parts.kernels, parts.launches) == (3, 2, 1, 2)
    assert parts.idle_ns == 800 + 800 + (12_700 - 11_200 - 700)
    assert sorted(kind.work for kind in parts.kinds) == [
        ("Memcpy DtoD",),
        (ATTENTION,),
        (NOTHING,),
    ]
    # Two graphs are replayed more than once.
    assert (parts.replays, parts.pieces) == (4, 2)


def test_pieces_that_overlap_lose_nothing() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        return [
            *replay(at, corr, start=at + 1_000),
            *attention(at + 600, corr + 1, start=at + 2_000, dur=500),
            *replay(at + 2_000, corr + 2, start=at + 2_500, stream=8),
            *replay(at + 3_000, corr + 3, start=at + 5_000),
        ]

    found = loop(draw, period=20_000)
    every = seams(found, found.step_table.counted)
    # The second piece starts inside the first; the third waits for the second, which ends last.
    assert every.idle_ns.tolist() == [0, 5_000 - 4_700] * 5
    assert (every.end - every.start).tolist() == [0, 300] * 5


@pytest.mark.parametrize(
    "draw",
    [
        lambda at, corr, step: replay(at, corr, start=at + 1_000),
        # Two replays with nothing launched in between: a graph that was cut, but no seam's work.
        lambda at, corr, step: [
            *replay(at, corr, start=at + 1_000),
            *replay(at + 600, corr + 1, start=at + 4_000),
        ],
        lambda at, corr, step: attention(at, corr, start=at + 2_000, dur=500),
    ],
    ids=["one replay", "nothing between", "no replay"],
)
def test_no_section_without_pieces(draw: Callable[[int, int, int], list[Event]]) -> None:
    assert loop(draw, period=20_000).piecewise is None


def test_lost_kernels_withhold_the_section() -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        events = two_pieces(at, corr, step)
        return events[:-1] if step == 2 else events

    found = loop(draw, period=20_000)
    assert found.quality.withholds("idle")
    parts = found.piecewise
    assert parts is None or parts.idle_ns is None


def test_the_finding_takes_all_idle_of_the_seams() -> None:
    """Four pieces with attention between: the remainder around them is another finding's."""

    def draw(at: int, corr: int, step: int) -> list[Event]:
        events: list[Event] = []
        for n in range(4):
            begin = at + 6_000 * n
            events += replay(begin, corr + 2 * n, start=begin + 1_000)
            if n < 3:
                events += attention(begin + 2_000, corr + 2 * n + 1, start=begin + 4_000, dur=1_000)
        return events

    found = loop(draw, period=40_000)
    # Each seam: from 3,200 to 7,000, less 1,000 of attention.
    own = the(found, "GT401")
    assert own.ceiling_ns_per_token == 3 * 2_800
    assert f"3 of 3 seams per step launch work: {ATTENTION}" in own.text
    # From the end of the last piece, 21,200, to the first of the next step, 41,000.
    assert the(found, "GT402").ceiling_ns_per_token == 19_800
    assert "GT402" not in own.overlaps


def by_brute_force(analysis: Analysis) -> list[int]:
    """Idle of every seam, one nanosecond after the other, straight from the ops of each step."""
    steps, links = analysis.step_table, analysis.device.links
    busy = np.zeros(int(links.end.max()) + 1, np.bool_)
    for a, b in zip(links.start, links.end, strict=True):
        busy[a:b] = True
    result = []
    for step in np.flatnonzero(steps.counted):
        mine = np.flatnonzero(links.replayed & (steps.op_step == step))
        calls = sorted(
            set(links.launch[mine].tolist()),
            key=lambda call: (links.start[mine][links.launch[mine] == call].min(), call),
        )
        reach = 0
        for first, second in pairwise(calls):
            reach = max(reach, int(links.end[mine][links.launch[mine] == first].max()))
            start = int(links.start[mine][links.launch[mine] == second].min())
            result.append(sum(not busy[t] for t in range(reach, start)))
    return result


@st.composite
def loops_of_pieces(draw: st.DrawFn) -> list[tuple[int, int, bool]]:
    """For each piece of a step: its start after the one before, its length, and work between."""
    count = draw(st.integers(2, 5))
    return [
        (draw(st.integers(0, 60)), draw(st.integers(1, 40)), draw(st.booleans()))
        for _ in range(count)
    ]


@settings(max_examples=60, deadline=None)
@given(loops_of_pieces(), st.integers(0, 30))
def test_seams_agree_with_a_count_of_nanoseconds(
    pieces: list[tuple[int, int, bool]], work: int
) -> None:
    def draw(at: int, corr: int, step: int) -> list[Event]:
        events: list[Event] = []
        start = at + 10
        for n, (after, length, between) in enumerate(pieces):
            start += after
            stream = 7 + n % 2
            events.append(graph_launch(at=at + 4 * n, dur=1, corr=corr + 2 * n))
            events.append(kernel("k", at=start, dur=length, corr=corr + 2 * n, stream=stream))
            if between:
                events.append(launch(at=at + 4 * n + 2, dur=1, corr=corr + 2 * n + 1))
                events.append(kernel("w", at=start + 3, dur=work, corr=corr + 2 * n + 1))
        return events

    found = loop(draw, period=1_000, steps=4)
    every = seams(found, found.step_table.counted)
    assert every.idle_ns.tolist() == by_brute_force(found)
    gaps = found.device.gaps
    seam = every.holding(gaps.end)
    inside = np.bincount(seam[seam >= 0], weights=gaps.dur[seam >= 0], minlength=len(every))
    assert inside.tolist() == every.idle_ns.tolist()


@pytest.mark.corpus
def test_a_serving_engine_in_pieces(corpus: Path) -> None:
    """vLLM cuts 24 layers at attention; the one recorded batch is a mixed one."""
    found = analyze(load(corpus / "public/vllm_piecewise_hipgraph.json.gz"))
    parts = found.piecewise
    assert parts is not None
    assert (parts.of, parts.replays, parts.seams, parts.with_work) == ("1 mixed", 25, 24, 24)
    assert parts.kernels == 48
    (kind,) = parts.kinds
    assert kind.work == ("vllm::unified_kv_cache_update", "vllm::unified_attention_with_output")
    links, trace = found.device.links, found.trace
    calls = sorted(set(links.launch[links.replayed].tolist()), key=lambda c: trace.start[c])
    total = 0
    for first, second in pairwise(calls):
        a = int(links.end[links.launch == first].max())
        b = int(links.start[links.launch == second].min())
        inside = [
            (max(int(s), a), min(int(e), b))
            for s, e in zip(links.start, links.end, strict=True)
            if s < b and e > a
        ]
        reach = a
        for s, e in sorted(inside):
            total += max(s - reach, 0)
            reach = max(reach, e)
        total += max(b - reach, 0)
    assert parts.idle_ns == total == 299_630
