"""The columns behind every timeline: exact, complete, and bounded."""

from __future__ import annotations

import numpy as np
import pytest

from gaptrace.measure.gaps import CAUSES
from gaptrace.measure.result import Analysis
from gaptrace.report.scope import Scope, Spans
from gaptrace.report.step_views import own_gaps
from gaptrace.report.timeline_data import HOST_STATES, Names, Timeline, as_data
from gaptrace.report.views import Budget, holding, picks, step_window, views
from gaptrace.report.windows import Limits, timeline
from tests.report.material import drawn, hostile, sample

ANALYSES = ("eager", "compiled", "graph")


def whole(analysis: Analysis, limits: Limits | None = None) -> Timeline:
    """The timeline of a whole recording."""
    assert analysis.device is not None
    links = analysis.device.links
    lo, hi = int(links.start.min()), int(links.end.max())
    return timeline(Scope(analysis), "all", lo, hi, Names(), limits=limits)


@pytest.mark.parametrize("mode", ANALYSES)
def test_pieces_of_each_gap_sum_to_its_causes(mode: str) -> None:
    analysis = sample(mode)
    item = whole(analysis)
    assert analysis.device is not None
    gaps = analysis.device.gaps
    assert item.gaps.number.tolist() == list(range(len(gaps)))
    owner = np.searchsorted(item.gaps.blocks.start, item.parts.start, side="right") - 1
    for cause in range(len(CAUSES)):
        own = item.parts.kind == cause
        sums = np.bincount(owner[own], weights=item.parts.dur[own], minlength=len(gaps))
        assert sums.astype(int).tolist() == gaps.cause_ns[:, cause].tolist()


@pytest.mark.parametrize("mode", ANALYSES)
def test_pieces_fill_the_gaps_without_a_break(mode: str) -> None:
    item = whole(sample(mode))
    gaps = item.gaps.blocks
    begins = set(gaps.start.tolist())
    ends = item.parts.start + item.parts.dur
    for start, before in zip(item.parts.start[1:], ends[:-1], strict=True):
        assert start == before or int(start) in begins
    assert int(item.parts.dur.sum()) == int(gaps.dur.sum())


@pytest.mark.parametrize("mode", ANALYSES)
def test_states_of_a_thread_fill_the_window(mode: str) -> None:
    item = whole(sample(mode))
    assert item.host
    for lane in item.host:
        states = lane.states
        assert int(states.start[0]) == 0
        assert (states.start[1:] == (states.start + states.dur)[:-1]).all()
        assert int(states.start[-1] + states.dur[-1]) == item.span_ns


def test_a_drawn_gap_is_split_where_the_drawing_says() -> None:
    # 3 µs gaps: 1 µs Python, 1 µs inside the op, 1 µs launch call; then 10 µs between steps.
    item = whole(drawn(steps=4, kernels=2))
    kinds = [CAUSES[k] for k in item.parts.kind[:3].tolist()]
    assert kinds == ["python", "dispatch", "launch"]
    assert item.parts.dur[:3].tolist() == [1_000, 1_000, 1_000]
    state = [HOST_STATES[k] for k in item.host[0].states.kind[:4].tolist()]
    assert state == ["python", "dispatch", "launch", "python"]


def test_data_decodes_to_the_same_columns() -> None:
    item = whole(sample("eager"))
    data = as_data(item)
    for lane, own in zip(data["gpu"], item.gpu, strict=True):
        assert np.cumsum(lane["start"]).tolist() == own.blocks.start.tolist()
    assert np.cumsum(data["gaps"]["start"]).tolist() == item.gaps.blocks.start.tolist()
    # States and parts have no starts: they fill what they belong to.
    assert sum(data["host"][0]["states"]["dur"]) == item.span_ns
    assert sum(data["parts"]["dur"]) == sum(data["gaps"]["dur"])


def test_calls_lead_to_the_ops_they_launched() -> None:
    analysis = drawn(steps=3, kernels=2)
    item = whole(analysis)
    (lane,) = item.gpu
    for start, call in zip(lane.blocks.start[1:].tolist(), lane.call[1:].tolist(), strict=True):
        assert int(item.calls.start[call] + item.calls.dur[call]) == start


def test_depth_counts_the_events_around() -> None:
    item = whole(sample("eager"))
    ops = item.host[0].ops
    ends = ops.start + ops.dur
    for i in range(0, len(ops), 37):
        around = (ops.start[:i] <= ops.start[i]) & (ends[:i] > ops.start[i])
        assert int(ops.kind[i]) == int(around.sum())


def test_too_many_ops_are_merged_and_the_note_says_how_many() -> None:
    analysis = sample("eager")
    fine, coarse = whole(analysis), whole(analysis, Limits(gpu_ops=100, host_ops=50))
    assert sum(len(lane.blocks) for lane in coarse.gpu) < sum(len(lane.blocks) for lane in fine.gpu)
    total = sum(len(lane.blocks) for lane in fine.gpu)
    assert sum(int(lane.merged.sum()) for lane in coarse.gpu) == total
    drawn_merged = total - sum(len(lane.blocks) for lane in coarse.gpu)
    assert any(f"{drawn_merged} ops under" in note for note in coarse.notes)
    assert sum(len(lane.ops) for lane in coarse.host) <= 60
    assert any("host events under" in note for note in coarse.notes)


def test_thinned_pieces_still_fill_their_gaps_and_their_window() -> None:
    analysis = sample("eager")
    fine, coarse = whole(analysis), whole(analysis, Limits(pieces=200))
    for states in (lane.states for lane in coarse.host):
        assert (states.start[1:] == (states.start + states.dur)[:-1]).all()
        assert int(states.dur.sum()) == coarse.span_ns
    assert len(coarse.parts) < len(fine.parts)
    edges = np.append(coarse.gaps.blocks.start, coarse.span_ns)
    for item in (fine, coarse):
        place = np.searchsorted(edges, item.parts.start, side="right") - 1
        sums = np.bincount(place, weights=item.parts.dur, minlength=len(item.gaps.blocks))
        assert sums.astype(int).tolist() == item.gaps.blocks.dur.tolist()
    assert any("as the longest of their neighbours" in note for note in coarse.notes)


def test_names_are_clean_and_bounded() -> None:
    names = whole(hostile()).names.texts
    assert max(map(len, names)) < 400
    assert not any("\x00" in name or "\u202e" in name for name in names)


def test_picks_are_nearest_rank_and_each_step_once() -> None:
    steps = sample("eager").step_table
    assert steps is not None
    found = picks(steps)
    assert len({pick.index for pick in found}) == len(found)
    periods = np.sort(steps.period_ns[steps.counted])
    by_word = {word: pick.index for pick in found for word in pick.word.split(", ")}
    assert steps.period_ns[by_word["median"]] == periods[(periods.size + 1) // 2 - 1]
    assert steps.period_ns[by_word["slowest"]] == periods[-1]


def test_views_hold_the_picks_and_the_evidence_that_fits() -> None:
    analysis = sample("eager")
    shown = views(analysis)
    assert shown[0].step == picks(analysis.step_table)[0].index
    places = [place for finding in analysis.findings for place in finding.evidence]
    assert places
    assert all(holding(shown, p.start_ns, p.end_ns) is not None for p in places)
    assert len(views(analysis, Budget(characters=0))) == 1


@pytest.mark.parametrize("mode", ANALYSES)
def test_gaps_of_a_drawn_step_sum_to_its_idle_time(mode: str) -> None:
    analysis = sample(mode)
    steps = analysis.step_table
    assert steps is not None
    for view in views(analysis):
        if view.step is not None:
            blocks = view.timeline.gaps.blocks
            total = int(blocks.dur[own_gaps(view.timeline)].sum())
            assert total == int(steps.idle_ns[view.step])


def test_a_step_is_drawn_from_the_launch_of_its_first_op() -> None:
    analysis = drawn(steps=4)
    steps = analysis.step_table
    assert steps is not None
    start, end = step_window(analysis, 1)
    assert start == int(steps.gpu_start[1]) - 1_000
    assert end == int(steps.gpu_end[1])


def test_spans_find_all_that_overlap_and_nothing_else() -> None:
    start = np.array([0, 10, 10, 30, 45])
    end = np.array([100, 12, 20, 40, 45])
    spans = Spans.of(np.arange(5), start, end)
    for lo in range(0, 110, 5):
        for hi in range(lo + 1, 111, 7):
            want = np.flatnonzero((start < hi) & (end > lo))
            assert sorted(spans.within(lo, hi).tolist()) == want.tolist()
    assert spans.within(5, 30).tolist() == [0, 2, 1]
