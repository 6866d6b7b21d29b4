"""The 2x2 form: what compiling did, what capture did, each on its own."""

from __future__ import annotations

import pytest

from gaptrace.analysis import analyze
from gaptrace.compare.side import Side
from gaptrace.compare.two_by_two import corners_of
from gaptrace.document.comparison_words import headline
from gaptrace.results.comparison import ComparisonResult, TwoByTwo
from gaptrace.runs.compared import compare
from tests.builders import load_events, trace_of
from tests.compare.recordings import recording
from tests.compare.runs import MODES, step_events


@pytest.fixture(scope="module")
def compared() -> ComparisonResult:
    sides = [Side.of(analyze(load_events(step_events(mode))), label=mode) for mode in MODES]
    return compare(sides)


@pytest.fixture(scope="module")
def square(compared: ComparisonResult) -> TwoByTwo:
    assert compared.two_by_two is not None
    return compared.two_by_two


def test_bare_traces_find_their_corners_by_what_they_hold(square: TwoByTwo) -> None:
    modes = ["eager", "graph", "compiled", "compiled-graph"]
    assert [corner.mode for corner in square.corners.values()] == list(square.corners) == modes
    assert square.source == "as profiled"


def test_what_compiling_did_is_kept_apart_from_what_it_saved_in_telling(square: TwoByTwo) -> None:
    effect = square.compiled_launched
    # Four kernels of 2 us became 2 + 2.5 + 9 us; four gaps of 12 us became three, but the drawing
    # leaves 7 and 6.5 us more where kernels are shorter than 9 us.
    assert (effect.kernels, effect.busy_ns) == (-1, 5_500)
    assert effect.busy_by_class_ns["copy"] == 9_000
    assert effect.busy_by_class_ns["pointwise"] == -3 * 2_000 + 2_500
    assert effect.idle_ns == square.compiled.idle_ns - square.eager.idle_ns  # type: ignore[operator]
    assert effect.busy_ns + effect.idle_ns == effect.step_ns  # type: ignore[operator]
    words = effect.words
    assert words.startswith(
        "Compiling removed 25 % of the kernels (4 → 3), yet GPU busy time grew by 5.50 µs"
    )
    assert "per token, on copy (+9.00 µs: triton_poi copy_ ×1)" in words


def test_capture_on_top(square: TwoByTwo) -> None:
    assert square.captured_compiled.launches == 1 - 3
    assert square.captured_compiled.busy_ns == 0
    assert square.captured_eager.step_ns == square.graph.step_ns - square.eager.step_ns  # type: ignore[operator]
    assert "left the number of kernels as it was" in square.captured_eager.words
    assert square.best == "graph"
    for words in (
        "yet GPU busy time grew",
        "With plain launches",
        "Capture on top",
        "Fastest: graph",
    ):
        assert words in square.sentence


def test_the_comparison_opens_with_the_square(compared: ComparisonResult, square: TwoByTwo) -> None:
    assert compared.sentence == square.sentence
    assert [pair.label for pair in compared.pairs] == [f"eager → {mode}" for mode in MODES[1:]]


def test_three_modes_make_no_square() -> None:
    sides = [Side(mode, "", (recording([9] * 5, mode=mode),)) for mode in MODES[:3]]
    assert corners_of(sides) is None
    assert compare(sides).two_by_two is None


def test_modes_of_the_manifest_go_before_guesses() -> None:
    sides = [Side(mode, "", (recording([9] * 5, mode=mode),)) for mode in reversed(MODES)]
    corners = corners_of(sides)
    assert corners is not None
    assert [(mode, side.label) for mode, side in corners.items()] == [(m, m) for m in MODES]


def test_no_mode_is_the_fastest_where_the_profiler_slowed_one() -> None:
    """Stacks slowed the launched modes, by nobody knows how much; captured ones need no host."""
    sides = [
        Side.of(
            analyze(trace_of(*step_events(mode), **({} if "graph" in mode else {"with_stack": 1}))),
            label=mode,
        )
        for mode in MODES
    ]
    found = compare(sides)
    square = found.two_by_two
    assert square is not None
    assert (square.best, square.times_eager) == ("", None)
    assert square.eager.step_ns is not None
    for effect in (square.compiled_launched, square.captured_eager, square.captured_compiled):
        assert effect.step_ns is effect.idle_ns is effect.host_dispatch_ns is None
        assert effect.busy_ns is not None
        assert effect.launches is not None
    assert square.compiled_captured.step_ns is not None
    assert "Fastest" not in found.sentence
    assert "With plain launches" not in found.sentence
    line = headline(found)
    assert line.startswith("Not comparable as profiled in 3 of 3 pairs; eager → ")
    assert len(line.split()) <= 25
