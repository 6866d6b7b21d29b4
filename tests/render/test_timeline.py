"""The columns behind every timeline: exact, complete, and bounded."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gaptrace.analysis import Analysis
from gaptrace.document.blocks import Timeline, blocks_of
from gaptrace.document.pictures import side_by_side
from gaptrace.document.sections import Context
from gaptrace.measure.gaps import CAUSES
from gaptrace.timeline.columns import HOST_STATES, Names, Stretch, as_data
from gaptrace.timeline.scope import Scope, Spans
from gaptrace.timeline.views import Budget, Place, Views, picks, step_window, views
from gaptrace.timeline.windows import Limits, stretch
from tests.render.material import doc, drawn, hostile, sample

ANALYSES = ("eager", "compiled", "graph")


def whole(analysis: Analysis, limits: Limits | None = None) -> Stretch:
    """The stretch of a whole recording."""
    assert analysis.device is not None
    links = analysis.device.links
    lo, hi = int(links.start.min()), int(links.end.max())
    return stretch(Scope(analysis), "all", lo, hi, Names(), limits=limits)


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


def test_names_are_bounded_and_said_as_asked() -> None:
    assert max(map(len, whole(hostile()).names.texts)) <= 300
    found = views(sample("eager"), say=lambda name: name.replace("aten", "private"))
    assert not any("aten" in name for name in found.names.texts)


def test_picks_are_nearest_rank_and_each_step_once() -> None:
    steps = sample("eager").step_table
    assert steps is not None
    found = picks(steps)
    assert len({pick.index for pick in found}) == len(found)
    periods = np.sort(steps.period_ns[steps.counted])
    by_word = {word: pick.index for pick in found for word in pick.word.split(", ")}
    assert steps.period_ns[by_word["median"]] == periods[(periods.size + 1) // 2 - 1]
    assert steps.period_ns[by_word["slowest"]] == periods[-1]


def test_views_hold_the_picks_and_the_places_that_fit() -> None:
    analysis = sample("eager")
    leads = [
        Place("row:1", place.start_ns, place.end_ns)
        for finding in analysis.result.findings
        for place in finding.evidence
    ]
    assert leads
    found = views(analysis, leads=leads)
    assert found.shown[0].step == picks(analysis.step_table)[0].index
    assert all(found.holding(lead.start_ns, lead.end_ns) is not None for lead in leads)
    view = found.places()["row:1"].split("|")[0]
    assert view in {shown.id for shown in found.shown}
    assert len(views(analysis, Budget(characters=0), leads).shown) == 1


def test_a_shared_budget_makes_the_first_view_coarser() -> None:
    def size(found: Views) -> int:
        return len(json.dumps(as_data(found.shown[0].stretch), separators=(",", ":")))

    whole_, part = (views(sample("eager"), Budget().shared(n)) for n in (1, 16))
    assert size(part) <= Budget().first // 16 < size(whole_)
    assert part.shown[0].stretch.notes


@pytest.mark.parametrize("mode", ANALYSES)
def test_gaps_of_a_drawn_step_sum_to_its_idle_time(mode: str) -> None:
    analysis = sample(mode)
    steps = analysis.step_table
    assert steps is not None
    for view in views(analysis).shown:
        if view.step is not None:
            blocks = view.stretch.gaps.blocks
            total = int(blocks.dur[view.stretch.own_gaps].sum())
            assert total == int(steps.idle_ns[view.step])


def test_a_gap_is_said_in_words() -> None:
    item = views(drawn(steps=4, kernels=2)).shown[0].stretch
    # The first gap is the one before the step; the next lies between its two kernels.
    text = item.gap_words(1)
    assert text.startswith("gap 2: 3.00 µs idle (")
    for word in ("Python between ops", "op dispatch", "launch latency"):
        assert f"{word} 1.00 µs" in text
    assert "after gemm_0, before gemm_1; launched by cudaLaunchKernel" in text
    assert item.said == "Step 1 · median · 20.0 µs: 2 gaps, 16.0 µs in all, the longest 13.0 µs."


def test_two_sides_have_one_scale_and_their_own_step() -> None:
    sides = [(mode, sample(mode), 1) for mode in ("eager", "graph")]
    found = [block.data for block in side_by_side(sides, Context()) if isinstance(block, Timeline)]
    assert len({data.shown[0].stretch.span_ns for data in found}) == 1
    assert len({data.brush for data in found}) == 1
    for data, (_, analysis, step) in zip(found, sides, strict=True):
        start, end = step_window(analysis, step)
        (view,) = data.shown
        # Both from as long before their step, so that an instant means the same on both.
        assert view.stretch.step is not None
        assert view.stretch.step[0] == found[0].shown[0].stretch.step[0]
        assert view.stretch.start_ns <= start
        assert all(
            int(lane.blocks.start.max()) <= end - view.stretch.start_ns for lane in view.stretch.gpu
        )


def test_without_a_trace_the_longest_gaps_stand_alone() -> None:
    with_trace, without = doc(sample("eager")), doc(sample("eager"), Context())
    assert any(isinstance(block, Timeline) for block in blocks_of(with_trace))
    assert not any(isinstance(block, Timeline) for block in blocks_of(without))
    assert any(section.id == "timeline" for section in without.sections)


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
